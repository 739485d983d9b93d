"""Every hook of the objective against training written out with PyTorch's own parts."""

import copy
import math

import numpy as np
import pytest
import torch
from small_runs import answer, direction, federation, make_lanes, make_spec
from torch import nn
from torch.nn import functional

from fedrepro.fl import data, device_streams, models, streams
from fedrepro.fl.engine import objective
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.fl.layout import Layout
from fedrepro.fl.losses.pairwise_divergence import pairwise_divergence
from fedrepro.fl.models.parts import layers
from fedrepro.fl.requests import Objective, Train

torch.set_num_threads(1)

CNN = {"name": "mnist_cnn", "width": 0.05}


def stream(spec, purpose, *ids):
    return torch.tensor(device_streams.as_signed(streams.key(spec.seed, purpose, *ids)))


class Masked(nn.Module):
    """Dropout whose mask is computed here from the step's key."""

    def __init__(self, layer, number):
        super().__init__()
        self.p, self.channels, self.number, self.key = layer.p, layer.channels, number, None

    def forward(self, x):
        key = device_streams.child(self.key, self.number)
        decisions = math.prod(x.shape[: 2 if self.channels else None])
        mask = device_streams.keep(key, decisions, self.p).float() / (1 - self.p)
        return x * mask.view(*x.shape[:2], 1, 1) if self.channels else x * mask.view(x.shape)


def plain_network(spec, fed, weights):
    """Build the network from PyTorch's layers, with the given weights and buffers."""
    dataset = data.load(spec.dataset.name)
    net = models.build(
        spec.model.name, dataset.train_x.shape[1:], dataset.classes, spec.model.width
    )
    number = 0
    for name, layer in list(net.named_children()):
        if isinstance(layer, layers.Dropout):
            setattr(net, name, Masked(layer, number))
            number += 1
        elif isinstance(layer, layers.BatchNorm1d):
            setattr(net, name, nn.BatchNorm1d(layer.num_features))
        elif isinstance(layer, layers.BatchNorm2d):
            setattr(net, name, nn.BatchNorm2d(layer.num_features))
    tensors = dict(net.named_parameters()) | dict(net.named_buffers())
    with torch.no_grad():
        for position, name in enumerate(fed.layout.names):
            tensors[name].copy_(fed.layout.view(weights, position))
    return net


def optimiser(spec, net):
    given = spec.optimizer
    if given.name == "adam":
        return torch.optim.Adam(
            net.parameters(), given.lr, betas=(given.beta1, given.beta2), eps=given.eps
        )
    thin = [p for p in net.parameters() if p.dim() < 2]
    thick = [p for p in net.parameters() if p.dim() >= 2]
    return torch.optim.SGD(
        [{"params": thick}, {"params": thin, "lr": given.lr * given.vector_lr_factor}],
        given.lr,
        momentum=given.momentum,
        nesterov=given.nesterov,
        weight_decay=given.weight_decay,
    )


def flat(tensors):
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def project(net, start, wanted):
    with torch.no_grad():
        now = flat(net.parameters())
        centre = start if wanted.projection == "update" else torch.zeros_like(now)
        distance = float((now - centre).norm())
        if distance > wanted.radius:
            nn.utils.vector_to_parameters(
                centre + (now - centre) * wanted.radius / distance, net.parameters()
            )


def train_by_hand(spec, fed, one, wanted, t):
    """Return the weights of a lane after its epochs, and the mean loss over examples."""
    dataset = data.load(spec.dataset.name)
    net = plain_network(spec, fed, one.weights).train()
    teacher = copy.deepcopy(net)
    start = flat(net.parameters()).detach().clone()
    steps, total, seen, number = optimiser(spec, net), 0.0, 0, 0
    for epoch in range(spec.local_epochs):
        key = streams.key(spec.seed, "shuffle", *one.stream, t, epoch)
        order = one.examples[streams.permutation(key, len(one.examples))]
        for begin in range(0, len(order), spec.batch):
            chosen = order[begin : begin + spec.batch]
            images = torch.tensor(dataset.train_x[chosen]).float() / 255
            labels = torch.tensor(dataset.train_y[chosen])
            for layer in [*net.modules(), *teacher.modules()]:
                if isinstance(layer, Masked):
                    key = stream(spec, "dropout", *one.stream, t)
                    layer.key = device_streams.child(key, number)
            representation = net[:-1](images)
            loss = functional.cross_entropy(net[-1](representation), labels)
            here = flat(net.parameters())
            full = loss + wanted.proximal / 2 * (here - start).square().sum()
            if one.linear is not None:
                full = full + one.linear @ here
            weight = dict(wanted.terms).get("pairwise_divergence", 0.0)
            if weight:
                anchor = teacher[:-1](images).detach()
                full = full + weight * divergence(representation, anchor)
            steps.zero_grad()
            full.backward()
            if spec.optimizer.clip_norm:
                nn.utils.clip_grad_norm_(net.parameters(), spec.optimizer.clip_norm)
            if wanted.gradient_noise:
                key = device_streams.child(stream(spec, "noise", *one.stream, t), number)
                noise = wanted.gradient_noise * device_streams.normal(key, len(start))
                sizes = [parameter.numel() for parameter in net.parameters()]
                for parameter, part in zip(net.parameters(), noise.split(sizes), strict=True):
                    parameter.grad += part.view(parameter.shape)
            steps.step()
            if wanted.projection:
                project(net, start, wanted)
            total, seen, number = total + loss.item() * len(chosen), seen + len(chosen), number + 1
    tensors = dict(net.named_parameters()) | dict(net.named_buffers())
    return flat([tensors[name].detach() for name in fed.layout.names]), total / seen


def sgd(**changes):
    return {"name": "sgd", "lr": 0.05} | changes


ADAM = {"name": "adam", "lr": 0.002, "eps": 1e-4}
CASES = {
    "proximal": ({}, {"proximal": 2.0}),
    "proximal and linear": ({"optimizer": ADAM}, {"proximal": 0.5, "linear": True}),
    "distillation": ({"optimizer": sgd(momentum=0.5)}, {"terms": (("pairwise_divergence", 3.0),)}),
    # With longer steps or more of it, the rounding of one processor or another grows to per cents.
    "distillation of a cnn": ({"model": CNN}, {"terms": (("pairwise_divergence", 0.3),)}),
    "clipped": ({"optimizer": sgd(clip_norm=0.3, momentum=0.9)}, {"linear": True}),
    "clipped before the noise": ({"optimizer": sgd(clip_norm=0.3)}, {"gradient_noise": 0.1}),
    "noise": ({"optimizer": ADAM, "model": CNN}, {"gradient_noise": 0.02}),
    "projected weights": ({}, {"projection": "weights", "radius": 1.0}),
    "projected update": (
        {"optimizer": sgd(momentum=0.9)},
        {"projection": "update", "radius": 0.1, "gradient_noise": 0.02},
    ),
    "parameter groups": (
        {
            "optimizer": sgd(vector_lr_factor=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
            "model": CNN,
        },
        {},
    ),
    "dropout": ({"model": {"name": "liu2", "width": 0.5}}, {}),
    "distillation under dropout": (
        {"model": {"name": "liu2", "width": 0.5}, "optimizer": sgd(lr=0.2)},
        {"terms": (("pairwise_divergence", 1.0),)},
    ),
    "batch norms and dropout": (
        {"model": {"name": "liu3", "width": 0.1}, "local_epochs": 1, "optimizer": sgd(lr=0.02)},
        {"proximal": 5.0},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_lane_equals_training_by_hand(case):
    changes, hooks = CASES[case]
    spec = make_spec(**changes)
    fed = federation(spec)
    linear = hooks.get("linear") and direction(fed)(0) * 10
    wanted = Objective(**{name: value for name, value in hooks.items() if name != "linear"})
    [one] = make_lanes(fed, (22,), linear=linear)
    [trained] = answer(LoopBackend(), spec, Train([one], 2, objective=wanted))
    expected, loss = train_by_hand(spec, fed, one, wanted, 2)
    moved = float((expected - one.weights).norm())
    assert float((trained.weights - expected).norm()) < 1e-3 * moved
    assert trained.loss == pytest.approx(loss, rel=1e-4)
    if hooks:  # it makes a difference that is far larger than the tolerance
        [without] = answer(LoopBackend(), spec, Train([make_lanes(fed, (22,))[0]], 2))
        assert float((without.weights - expected).norm()) > 0.01 * moved


def test_clipping_leaves_what_is_within_the_bound():
    gradients = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    nothing = torch.zeros(3, 2)
    objective.adjust_gradient(Objective(), 1.0, nothing, gradients, None, None, None)
    torch.testing.assert_close(gradients, torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))


def test_running_statistics_are_those_of_pytorch():
    spec = make_spec(model={"name": "liu3", "width": 0.1}, optimizer=sgd(lr=0.02))
    fed = federation(spec)
    [one] = make_lanes(fed, (24,))
    [trained] = answer(LoopBackend(), spec, Train([one], 2, epochs=1))
    expected, _ = train_by_hand(
        spec.model_copy(update={"local_epochs": 1}), fed, one, Objective(), 2
    )
    running = slice(fed.layout.parameters, None)
    assert len(expected[running]) > 0
    torch.testing.assert_close(trained.weights[running], expected[running], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(trained.weights[running], one.weights[running], atol=0.01)


def test_the_step_size_of_a_round():
    """A tenth from each milestone on, besides the decay."""
    spec = make_spec(optimizer=sgd(lr=0.8, lr_decay=0.5, lr_milestones=[2, 4]))
    fed = federation(spec)
    [one] = make_lanes(fed, (8,))
    first = None
    for t, lr in enumerate((0.8, 0.4, 0.02, 0.01, 0.0005)):
        [trained] = answer(LoopBackend(), spec, Train([one], t, epochs=1))
        gradient = (one.weights - trained.weights) / lr
        first = gradient if first is None else first
        torch.testing.assert_close(gradient, first, rtol=0.02, atol=1e-3)


# Quantisation

LAYOUT_NET = nn.Sequential(
    nn.Conv2d(1, 2, 3),
    nn.BatchNorm2d(2),
    nn.Flatten(),
    nn.Linear(8, 5),
    nn.Linear(5, 3, bias=False),
)


def quantised(weights, bits, number=0):
    weights = weights.clone()
    named = objective.quantised_layers(LAYOUT_NET)
    key = device_streams.child(torch.tensor(3), number)
    objective.quantise(weights, bits, Layout.of(LAYOUT_NET), named, key)
    return weights


@pytest.fixture
def vector():
    layout = Layout.of(LAYOUT_NET)
    return layout, torch.randn(layout.size, generator=torch.Generator().manual_seed(0))


def test_which_weights_are_quantised(vector):
    layout, weights = vector
    rounded = quantised(weights, 2)
    changed = {
        name
        for i, name in enumerate(layout.names)
        if not torch.equal(layout.view(weights, i), layout.view(rounded, i))
    }
    assert changed == {"0.weight", "3.weight", "3.bias", "4.weight"}


@pytest.mark.parametrize("bits", [1, 2, 5])
def test_quantised_weights_lie_on_the_levels(vector, bits):
    layout, weights = vector
    rounded = quantised(weights, bits)
    for name in ("0.weight", "3.weight", "4.weight"):
        i = layout.names.index(name)
        scale = float(layout.view(weights, i).abs().max())
        step = 2 * scale / (2**bits - 1)
        levels = torch.tensor([-scale + step * k for k in range(2**bits)])
        values = layout.view(rounded, i).reshape(-1)
        nearest = (values[:, None] - levels).abs().min(1)
        assert float(nearest.values.max()) < 1e-5 * scale
        assert len(nearest.indices.unique()) > min(2**bits, len(values)) // 3
        moved = (values - layout.view(weights, i).reshape(-1)).abs()
        assert float(moved.max()) <= step * 1.0001
        largest = layout.view(weights, i).abs().argmax()  # the ends of the scale stay
        assert float(moved[largest]) < 1e-5 * scale


def test_a_bias_is_rounded_on_the_scale_of_its_weights(vector):
    layout, weights = vector
    weight, bias = (layout.names.index(f"3.{name}") for name in ("weight", "bias"))
    layout.view(weights, bias).mul_(1e-3)
    rounded = layout.view(quantised(weights, 1), bias)
    scale = float(layout.view(weights, weight).abs().max())
    assert rounded.abs().tolist() == pytest.approx([scale] * 5)


@pytest.mark.parametrize("bits", [1, 3])
def test_rounding_is_unbiased(vector, bits):
    layout, weights = vector
    count = 1500
    mean = torch.stack([quantised(weights, bits, k).double() for k in range(count)]).mean(0)
    for name in ("0.weight", "3.weight"):
        i = layout.names.index(name)
        step = 2 * float(layout.view(weights, i).abs().max()) / (2**bits - 1)
        error = (layout.view(mean, i) - layout.view(weights, i)).abs()
        # A rounding between two levels has a standard deviation of half a step at most.
        assert float(error.max()) < 5 * step / 2 / count**0.5


def test_many_bits_change_nothing_and_rounding_follows_its_stream(vector):
    _, weights = vector
    torch.testing.assert_close(quantised(weights, 32), weights, rtol=0, atol=2e-6)
    assert torch.equal(quantised(weights, 3, 1), quantised(weights, 3, 1))
    assert not torch.equal(quantised(weights, 3, 1), quantised(weights, 3, 2))


def test_weights_of_zero_stay_zero(vector):
    layout, weights = vector
    i = layout.names.index("0.weight")
    layout.view(weights, i).zero_()
    rounded = layout.view(quantised(weights, 2), i)
    assert float(rounded.abs().max()) < 1e-29


def test_a_lane_is_quantised_after_training():
    spec = make_spec()
    fed = federation(spec)
    [one] = make_lanes(fed, (20,))
    [plain] = answer(LoopBackend(), spec, Train([one], 0))
    [rounded] = answer(LoopBackend(), spec, Train([one], 0, objective=Objective(quantise_bits=2)))
    view = fed.layout.view(rounded.weights, 0)
    scale = float(fed.layout.view(plain.weights, 0).abs().max())
    levels = sorted(view.unique().tolist())
    assert levels == pytest.approx([-scale, -scale / 3, scale / 3, scale], rel=1e-5)


# Pairwise divergence


def divergence(student, teacher):
    """Eq. 18-20 of Nguyen et al. 2023, one pair after another."""
    logs = []
    for x in (student, teacher):
        n = len(x)
        pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
        distances = torch.stack([(x[a] - x[b]).norm() for a, b in pairs])
        variance = distances.var(correction=1)
        kernel = torch.exp(-((distances - distances.mean()) ** 2) / (2 * (variance + 0.001)))
        rows = kernel.view(n, n - 1)
        logs.append(torch.log(rows / rows.sum(1, keepdim=True)))
    mine, wanted = logs
    return (wanted.exp() * (wanted - mine)).sum()


def representations(n, features=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(n, features, generator=generator, dtype=torch.float64) for _ in range(2))


@pytest.mark.parametrize("n", [3, 4, 9])
def test_the_divergence_and_its_gradient_pair_by_pair(n):
    student, teacher = representations(n)
    student.requires_grad_()
    ours = pairwise_divergence(student, teacher)
    theirs = divergence(student, teacher)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-9)
    assert ours.item() > 0.001
    [gradient] = torch.autograd.grad(ours, [student])
    [expected] = torch.autograd.grad(theirs, [student])
    torch.testing.assert_close(gradient, expected, rtol=1e-7, atol=1e-10)


def test_no_divergence_from_itself():
    student, _ = representations(7)
    student.requires_grad_()
    ours = pairwise_divergence(student, student.detach())
    assert ours.item() == pytest.approx(0, abs=1e-12)
    [gradient] = torch.autograd.grad(ours, [student])
    assert float(gradient.abs().max()) < 1e-12


@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_examples_have_no_structure(n):
    student, teacher = representations(n)
    student.requires_grad_()
    ours = pairwise_divergence(student, teacher)
    assert ours.item() == 0
    [gradient] = torch.autograd.grad(ours, [student])
    assert gradient.abs().max() == 0


def test_equal_examples_and_wide_spreads_have_finite_gradients():
    for student in (
        torch.zeros(5, 4),
        torch.ones(5, 4) * torch.tensor([1.0, 1, 1, 2, 2])[:, None],
        torch.randn(5, 4, generator=torch.Generator().manual_seed(0)) * 1e4,
    ):
        _, teacher = representations(5, 4)
        student.requires_grad_()
        ours = pairwise_divergence(student, teacher.float())
        [gradient] = torch.autograd.grad(ours, [student])
        assert bool(torch.isfinite(ours))
        assert bool(torch.isfinite(gradient).all())


def test_equal_examples_have_no_distance():
    student, teacher = representations(5)
    student[3] = student[1]
    ours = pairwise_divergence(student, teacher)
    assert ours.item() == pytest.approx(divergence(student, teacher).item(), rel=1e-9)


def test_noise_has_its_standard_deviation_and_its_own_stream_a_lane():
    spec = make_spec(model={"name": "liu1"}, optimizer=sgd(lr=0.1))
    fed = federation(spec)
    lanes = make_lanes(fed, (8, 8))
    plain = answer(LoopBackend(), spec, Train(lanes, 0, epochs=1))
    noisy = answer(
        LoopBackend(), spec, Train(lanes, 0, epochs=1, objective=Objective(gradient_noise=0.5))
    )
    one, two = ((b.weights - a.weights) / -0.1 for a, b in zip(plain, noisy, strict=True))
    assert float(one.std()) == pytest.approx(0.5, rel=0.05)
    assert abs(float(np.corrcoef(one, two)[0, 1])) < 5 / len(one) ** 0.5
