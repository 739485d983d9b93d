"""Networks: published parameter counts, shapes, and their place in a flat vector."""

import copy
import dataclasses

import pytest
import small_runs
import torch
from torch import nn
from torch.nn import functional

from fedrepro.base.errors import FedreproError
from fedrepro.fl import data
from fedrepro.fl.engine.network import FlatModule
from fedrepro.fl.federation import Federation
from fedrepro.fl.layout import Layout
from fedrepro.fl.models import NETWORKS, Network, build
from fedrepro.fl.models.parts import initial, layers
from fedrepro.fl.models.parts.blocks import LocalResponseNorm
from fedrepro.fl.network_check import require_network

DRAWN = nn.Conv2d | nn.Linear
PUBLISHED = [  # shape of an example, classes, trainable parameters, multiply-adds
    ("liu1", (1, 28, 28), 10, 23_860, 23_820),
    ("liu2", (1, 28, 28), 10, 21_840, 480_500),
    ("liu3", (1, 28, 28), 10, 905_354, 29_938_816),
    ("mnist_cnn", (1, 28, 28), 10, 1_663_370, 12_273_152),
    ("cifar_tutorial", (3, 24, 24), 10, 1_068_298, 18_470_784),
    ("cifar_tutorial", (3, 32, 32), 10, 1_756_426, 32_778_112),
    ("kws_cnn", (1, 50, 10), 10, 68_980, 2_505_888),
    ("kws_cnn", (1, 20, 11), 10, 31_828, 479_168),
    ("fedcd_cnn", (3, 32, 32), 10, 1_212_778, 104_696_320),
    ("resnet9", (3, 32, 32), 10, 1_647_242, 95_259_136),
    ("resnet9", (3, 32, 32), 100, 1_670_372, 95_282_176),
    ("fixup_resnet20", (3, 32, 32), 10, 268_393, 40_551_040),
    ("resnet18", (3, 224, 224), 68, 11_203_716, 27_215_497_216),
]
SMALL = dict.fromkeys(NETWORKS, (3, 32, 32)) | {
    "liu1": (1, 28, 28),
    "liu2": (1, 28, 28),
    "liu3": (1, 28, 28),
    "mnist_cnn": (1, 28, 28),
    "cifar_tutorial": (3, 24, 24),
    "kws_cnn": (1, 50, 10),
    "resnet18": (3, 16, 16),
}


def thin(name, seed=0, scatter=0.0):
    """A network of width 0.25, in evaluation mode; ``scatter`` moves its initial weights."""
    torch.manual_seed(seed)
    net = build(name, SMALL[name], 10, 0.25).eval()
    with torch.no_grad():
        for tensor in [*net.parameters(), *net.buffers()]:
            if tensor.is_floating_point():
                tensor.add_(scatter * (torch.rand_like(tensor) - 0.5))
    return net


def images(name, count=3):
    return torch.rand(count, *SMALL[name], generator=torch.Generator().manual_seed(7))


def multiply_adds(net, shape):
    """Count those of convolutions and linear layers for one example."""
    counts = []
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(
                lambda layer, _, out: counts.append(out[0].numel() * layer.weight[0].numel())
            )
    logits = net.eval()(torch.zeros(1, *shape, device=next(net.parameters()).device))
    return sum(counts), tuple(logits.shape)


@pytest.mark.parametrize(("name", "shape", "classes", "parameters", "expected"), PUBLISHED)
def test_published_sizes(name, shape, classes, parameters, expected):
    with torch.device("meta"):  # shapes only
        net = build(name, shape, classes)
    assert Layout.of(net).parameters == parameters
    assert multiply_adds(net, shape) == (expected, (1, classes))


@pytest.mark.parametrize(("name", "shape", "classes", "parameters", "expected"), PUBLISHED)
def test_arithmetic_is_counted_where_a_network_does_not_give_it(
    name, shape, classes, parameters, expected
):
    before = torch.get_rng_state()
    counted = dataclasses.replace(NETWORKS[name], mflop=None).flop(shape, classes, 1.0)
    if name == "cifar_tutorial":  # its local response normalisation is a convolution
        assert 6 * expected < counted < 1.07 * 6 * expected
    else:
        assert counted == 6 * expected
    assert torch.equal(torch.get_rng_state(), before)


def test_a_network_that_cannot_be_run_has_no_arithmetic():
    """An estimate must not end the training of others; its own run says what is wrong."""
    assert Network("tiny", lambda *_: nn.Linear(3, 10)).flop((1, 28, 28), 10, 1.0) == 0


def test_all_networks_are_counted():
    assert {name for name, *_ in PUBLISHED} == set(NETWORKS)


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_width_shrinks_and_logits_have_their_shape(name):
    with torch.device("meta"):
        full, half = (Layout.of(build(name, SMALL[name], 10, width)) for width in (1.0, 0.5))
    assert half.parameters < full.parameters
    for width in (0.25, 0.01):
        net = build(name, SMALL[name], 10, width).eval()
        assert net(images(name)).shape == (3, 10)


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_the_last_child_maps_the_representation_to_logits(name):
    net, x = thin(name, scatter=0.05), images(name)
    assert isinstance(net[-1], nn.Linear)
    representation = net[:-1](x)
    assert representation.shape == (3, net[-1].in_features)
    assert torch.equal(net[-1](representation), net(x))


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_only_layers_the_engine_steers(name):
    for layer in thin(name).modules():
        assert not isinstance(layer, nn.modules.dropout._DropoutNd)
        assert not getattr(layer, "inplace", False)
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            assert isinstance(layer, layers.BatchNorm1d | layers.BatchNorm2d)


class Plain(nn.Module):
    def forward(self, x):
        return x


def tied():
    encoder, decoder = nn.Linear(784, 784), nn.Linear(784, 784)
    decoder.weight = encoder.weight
    return [nn.Flatten(), encoder, decoder, nn.Linear(784, 10)]


class Chained(nn.Sequential):
    """A residual block of PyTorch's container, which the engine takes apart."""

    def forward(self, x):
        x = self[0](x)
        return self[2](x + self[1](x))


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.batches = 0

    def forward(self, x):
        self.batches += self.training
        return x / (1 + self.batches)


class Centred(nn.Module):
    """As books write batch normalisation: the mean of training matters in evaluation only."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(784))

    def forward(self, x):
        if not self.training:
            return x - self.mean
        mean = x.mean(dim=0)
        self.mean = 0.9 * self.mean + 0.1 * mean
        return x - mean


class Spare(Plain):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(784, 2)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            Chained(nn.Flatten(), nn.Linear(784, 784), nn.Linear(784, 10)),
            "is a Chained, whose own code would not be used in every place; put that into a layer",
        ),
        ([nn.Flatten(), Counted(), nn.Linear(784, 10)], "remembers what it was trained on: let"),
        ([nn.Flatten(), Centred(), nn.Linear(784, 10)], "remembers what it .* buffers in place"),
        ([nn.Flatten(), Spare(), nn.Linear(784, 10)], "does not use 1.head.weight, which would be"),
        (Plain(), "must be a torch.nn.Sequential that ends with the torch.nn.Linear"),
        ([], "must be a torch.nn.Sequential that ends with"),
        ([nn.Flatten(), nn.Linear(784, 10), nn.LogSoftmax(1)], "without a softmax after it"),
        (
            [nn.Conv2d(1, 3, 3), nn.Linear(26, 10)],
            "logits of 2x3x26x10 .* not of 2x10; is an nn.Fl",
        ),
        ([nn.Flatten(), nn.LazyLinear(10)], "has 1.weight of a lazy layer; give the layer its"),
        ([nn.Flatten(), nn.Linear(784, 3)], "has 3 outputs, and there are 10 classes"),
        ([nn.Flatten(), nn.Dropout(), nn.Linear(784, 10)], "draws random numbers that depend on"),
        ([nn.Flatten(), nn.Linear(700, 10)], "cannot take examples of 1x28x28"),
        ([nn.Flatten(), nn.Linear(784, 10).requires_grad_(False)], "has 1.weight with requires"),
        (
            [nn.Flatten(), *[nn.Linear(784, 784)] * 2, nn.Linear(784, 10)],
            "has one layer as 1 and 2; make one for each place",
        ),
        (
            [nn.Flatten(), *[layers.Dropout(0.5)] * 2, nn.Linear(784, 10)],
            "has one layer as 1 and 2; make one for each place",
        ),
        ([nn.Flatten(), nn.RReLU(), nn.Linear(784, 10)], "draws random numbers that depend on"),
        (tied(), "has one tensor as 1.weight and 2.weight"),
        (
            [nn.Flatten(), nn.BatchNorm1d(784, momentum=None), nn.Linear(784, 10)],
            "has torch.nn.BatchNorm1d with momentum=None",
        ),
    ],
)
def test_a_network_that_the_engine_cannot_train_is_refused(monkeypatch, given, text):
    """Such as another distribution brings."""
    net = given if isinstance(given, nn.Module) else nn.Sequential(*given)
    tiny = Network("liu1", lambda *_: copy.deepcopy(net), mflop=1.0)
    monkeypatch.setitem(NETWORKS._found, "liu1", (tiny, None, tiny.module))
    with pytest.raises(FedreproError, match=f"liu1 .*{text}"):
        Federation(small_runs.make_spec(), data.load("synthetic"))


LAST, GENERATOR = nn.Linear(784, 10), torch.Generator()


def drawn_elsewhere(*_):
    last = nn.Linear(784, 10)
    nn.init.normal_(last.weight, generator=GENERATOR)
    return nn.Sequential(nn.Flatten(), last)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda *_: nn.Sequential(nn.Flatten(), LAST), "has tensors that were made before it is"),
        (drawn_elsewhere, "has other initial weights each time it is built"),
    ],
)
def test_initial_weights_that_do_not_depend_on_the_seed_only_are_refused(build, text):
    with pytest.raises(FedreproError, match=f"network tiny {text}"):
        require_network(Network("tiny", build), (1, 28, 28), 10, 1.0)


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_initial_weights_depend_on_the_seed_only(name):
    first, again, other = (Layout.of(net).flatten(net) for net in map(thin, [name] * 3, (0, 0, 1)))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_channels_last_gives_the_same_logits(name):
    net, x = thin(name, scatter=0.05), images(name)
    plain = net(x)
    net.to(memory_format=torch.channels_last)
    torch.testing.assert_close(
        net(x.to(memory_format=torch.channels_last)), plain, atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("pool", [nn.MaxPool2d(2), nn.MaxPool2d(3, stride=2, ceil_mode=True)])
def test_pooling_before_the_relu_changes_no_bit(pool, memory_format):
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.rand(4, 1, 28, 28).mul_(torch.rand(4, 1, 28, 28) < 0.5)  # many ties
        x[:, :, :9] = 0
        body, head = nn.Conv2d(1, 8, 5, padding=2), nn.Conv2d(8, 1, 14)
        results = []
        for pair in ((nn.ReLU(), pool), (pool, nn.ReLU())):
            net = nn.Sequential(body, *pair, head).to(memory_format=memory_format)
            net.zero_grad()
            seen = x.to(memory_format=memory_format).requires_grad_()
            out = net(seen)
            (gradient,) = torch.autograd.grad(out.square().sum(), seen, retain_graph=True)
            out.square().sum().backward()
            results.append([out, gradient, *(p.grad.clone() for p in body.parameters())])
        assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_dropout_draws_from_the_key_of_the_step():
    for name in ("liu2", "liu3", "resnet9"):
        net, x = thin(name).train(), images(name)
        with pytest.raises(RuntimeError, match="stream key"):
            net(x)
        outputs = []
        for key in (5, 5, 6):
            layers.set_keys(net, torch.tensor(key))
            outputs.append(net(x))
        assert torch.equal(outputs[0], outputs[1])
        assert not torch.equal(outputs[0], outputs[2])


def test_kernels_of_kws_cnn_fit_the_map():
    kernels = {
        shape: [build("kws_cnn", shape, 10)[i].kernel_size for i in (0, 2)]
        for shape in ((1, 50, 10), (1, 49, 10), (1, 20, 11))
    }
    assert kernels == {
        (1, 50, 10): [(10, 4), (10, 4)],
        (1, 49, 10): [(10, 4), (10, 4)],
        (1, 20, 11): [(8, 2), (8, 2)],
    }
    packed = build("kws_cnn", (1, 20, 11), 10)
    assert packed(torch.zeros(2, 1, 20, 11)).shape == (2, 10)
    assert packed[2].stride == (1, 2)  # every second frame


def test_initial_weights_of_kws_cnn():
    torch.manual_seed(0)
    initial = build("kws_cnn", (1, 50, 10), 10).state_dict()
    assert float(initial["conv2.weight"].std()) == pytest.approx((2 / 1120) ** 0.5, rel=0.03)
    low_rank = initial["low_rank.weight"]
    assert float(low_rank.std()) == pytest.approx((2 / (1920 + 16)) ** 0.5, rel=0.03)
    assert float(low_rank.abs().max()) <= (6 / (1920 + 16)) ** 0.5
    assert all(not tensor.any() for key, tensor in initial.items() if key.endswith("bias"))


def test_glorots_weights_in_place_of_the_networks_own():
    torch.manual_seed(0)
    net = build("mnist_cnn", (1, 28, 28), 10)
    initial.draw(net, "glorot", 1)
    weights = net.state_dict()
    for name, units in (("conv1", 25 + 25 * 32), ("conv2", 25 * 32 + 25 * 64), ("fc2", 512 + 10)):
        bound = (6 / units) ** 0.5
        largest = float(weights[f"{name}.weight"].abs().max())
        assert 0.98 * bound < largest <= bound, name
        assert not weights[f"{name}.bias"].any()


@pytest.mark.parametrize(
    ("init", "first_bias"), [("truncated_normal", 0.1), ("tensorflow_mnist", 0)]
)
@pytest.mark.parametrize("width", [1, 0.25])
def test_truncated_normal_weights_in_place_of_the_networks_own(width, init, first_bias):
    torch.manual_seed(0)
    net = build("mnist_cnn", (1, 28, 28), 10, width)
    initial.draw(net, init, width)
    weights = net.state_dict()
    for name in ("conv1", "conv2", "fc1", "fc2"):
        std = 0.1 if name == "conv1" else 0.1 / width**0.5
        kernel = weights[f"{name}.weight"]
        assert float(kernel.abs().max()) <= 2 * std * (1 + 1e-6), name
        # The part of a normal distribution within 2 standard deviations has 0.8796 of them.
        assert float(kernel.std()) == pytest.approx(0.8796 * std, rel=0.15), name
        bias = weights[f"{name}.bias"]
        assert bias.tolist() == pytest.approx([first_bias if name == "conv1" else 0.1] * len(bias))


def test_initial_weights_leave_batch_normalisation_as_it_is():
    torch.manual_seed(0)
    net = build("liu3", (1, 28, 28), 10)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    initial.draw(net, "truncated_normal", 1)
    drawn = {f"{name}." for name, part in net.named_modules() if isinstance(part, DRAWN)}
    for name, tensor in net.state_dict().items():
        kept = not name.startswith(tuple(drawn))
        assert torch.equal(tensor, before[name]) == kept, name


def test_initial_weights_of_cifar_tutorial():
    torch.manual_seed(0)
    initial = build("cifar_tutorial", (3, 24, 24), 10).state_dict()
    thinner = build("cifar_tutorial", (3, 24, 24), 10, 0.25).state_dict()
    for name, std, bias in (
        ("conv1", 0.05, 0.0),
        ("conv2", 0.05, 0.1),
        ("fc3", 0.04, 0.1),
        ("fc4", 0.04, 0.1),
        ("fc5", 1 / 192, 0.0),
    ):
        weight = initial[f"{name}.weight"]
        assert float(weight.abs().max()) <= 2 * std
        # The part of a normal distribution within 2 standard deviations has 0.8796 of them.
        assert float(weight.std()) == pytest.approx(0.8796 * std, rel=0.05), name
        wider = std if name == "conv1" else 2 * std  # a quarter of the inputs: twice as large
        assert wider < float(thinner[f"{name}.weight"].abs().max()) <= 2 * wider
        assert initial[f"{name}.bias"].tolist() == pytest.approx([bias] * len(weight))


def test_initial_weights_of_cifar_tutorial_are_one_draw_each():
    """As PyTorch drew a cut normal distribution until 2.11, and not as 2.13 does."""
    torch.manual_seed(0)
    net = build("cifar_tutorial", (3, 24, 24), 10, 0.25)
    torch.manual_seed(0)
    drawn = [layer.weight for layer in net.modules() if hasattr(layer, "weight")]
    for weight in drawn:  # PyTorch's own, which are drawn over
        torch.nn.init.kaiming_uniform_(torch.empty_like(weight), a=5**0.5)
        torch.empty(len(weight)).uniform_()
    for weight, std in zip(drawn, (0.05, 0.1, 0.08, 0.08, 2 / 192), strict=True):
        uniform = torch.empty_like(weight).uniform_(-0.9544997, 0.9544997)
        expected = uniform.erfinv() * 2**0.5 * std
        assert torch.allclose(weight, expected, rtol=1e-4, atol=1e-7)


def test_pooling_of_cifar_tutorial_pads_at_the_end_only():
    x = torch.rand(1, 1, 24, 24)
    padded = functional.pad(x, (0, 1, 0, 1), value=-torch.inf)
    pool = build("cifar_tutorial", (3, 24, 24), 10, 0.1).pool1
    assert torch.equal(pool(x), functional.max_pool2d(padded, 3, 2))


def test_response_norm_by_hand():
    x = torch.arange(1.0, 13.0).mul(10).view(1, 12, 1, 1)  # channels 10, 20, ..., 120
    normed = LocalResponseNorm(x.shape[1])(x).flatten().tolist()
    for i in range(12):
        squares = sum((10 * (j + 1)) ** 2 for j in range(12) if abs(i - j) <= 4)
        expected = 10 * (i + 1) / (1 + 0.001 / 9 * squares) ** 0.75
        assert normed[i] == pytest.approx(expected, rel=1e-5)


def test_response_norm_is_pytorchs_with_the_alpha_of_the_window():
    x = torch.randn(2, 20, 5, 5, generator=torch.Generator().manual_seed(0)).mul(30)
    theirs = functional.local_response_norm(x, 9, alpha=0.001, beta=0.75, k=1.0)
    torch.testing.assert_close(LocalResponseNorm(x.shape[1])(x), theirs)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(LocalResponseNorm(x.shape[1])(x), theirs, rtol=5e-3, atol=1e-3)


def test_fixup_starts_with_zero_logits_and_the_published_norm():
    torch.manual_seed(0)
    net = build("fixup_resnet20", (3, 32, 32), 10)
    flat = torch.cat([p.detach().flatten() for p in net.parameters()])
    assert 8.6 <= float(flat.norm()) <= 9.1
    with torch.no_grad():
        assert not net(torch.rand(2, 3, 32, 32)).any()
    scalars = [p for p in net.parameters() if p.numel() == 1]
    assert len(scalars) == 47
    assert all(p.dim() < 2 for p in scalars)
    assert sum(p.item() for p in scalars) == 9  # the multipliers
    for block, std in (("block1b", 0.03928), ("block2b", 0.02778), ("block3b", 0.01964)):
        weight = net.get_submodule(block).conv1.weight.detach()
        assert float(weight.std()) == pytest.approx(std, rel=0.05)


def test_fixup_shortcut_takes_every_second_biased_pixel_and_adds_zero_channels():
    block = build("fixup_resnet20", (3, 8, 8), 10, 0.25).block2a
    with torch.no_grad():
        block.bias1a.fill_(2.0)  # the branch adds nothing: its second convolution is zero
    x = torch.rand(1, 4, 8, 8)
    out = block(x)
    assert torch.equal(out[:, :4], x[:, :, ::2, ::2] + 2)
    assert not out[:, 4:].any()


def test_flat_views_share_storage_with_the_module():
    net = FlatModule(build("mnist_cnn", (1, 28, 28), 10, 0.1), torch.device("cpu"))
    net.flat.fill_(0.5)
    assert all(bool((p == 0.5).all()) for p in net.module.parameters())


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("name", ["fixup_resnet20", "resnet9", "fedcd_cnn", "liu1", "liu3"])
def test_aligned_tensors_begin_at_16_bytes_and_compute_the_same(name, channels_last):
    shape = (1, 28, 28) if name.startswith("liu") else (3, 32, 32)
    net, plain = (
        FlatModule(
            build(name, shape, 10),
            torch.device("cpu"),
            channels_last=channels_last,
            aligned=aligned,
        )
        for aligned in (True, False)
    )
    weights = plain.weights()
    net.load(weights)
    assert torch.equal(net.weights(), weights)
    parameters = weights[: net.layout.parameters]
    assert torch.equal(net.outward(net.inward(parameters)), parameters)
    assert torch.equal(net.outward(net.parameters), parameters)
    places = [
        (tensor.data_ptr() - net.flat.data_ptr()) % 16
        for tensor in [*net.module.parameters(), *net.module.buffers()]
        if tensor.numel() % 4 == 0
    ]
    assert places
    assert not any(places)
    net.module.eval()
    plain.module.eval()
    images = torch.rand(3, *shape)
    for ours, theirs in zip(net.forward(images), plain.forward(images), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(("width", "last"), [(1.0, True), (0.1, False)])
def test_batch_normalisation_of_odd_channels_stays_channels_first_on_a_gpu(width, last):
    """Its tensors cannot all begin at 16 bytes."""
    module = build("fedcd_cnn", (3, 32, 32), 10, width)
    net = FlatModule(module, torch.device("meta"), channels_last=True, aligned=True)
    assert net.channels_last == last


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("channels_last", [False, True])
def test_differentiate_writes_the_gradient_of_the_last_loss_alone(channels_last, aligned):
    net = FlatModule(
        build("mnist_cnn", (1, 28, 28), 10, 0.1),
        torch.device("cpu"),
        channels_last=channels_last,
        aligned=aligned,
    )
    images = torch.rand(2, 1, 28, 28)
    for loss in (net.module(images).sum(), net.module(images).square().sum()):
        net.differentiate(loss)
    net.module(images).square().sum().backward()
    expected = torch.cat([p.grad.reshape(-1) for p in net.module.parameters()])
    assert float(expected.abs().sum()) > 0
    torch.testing.assert_close(net.outward(net.gradient), expected)


@pytest.mark.parametrize(
    ("name", "width", "expected"),
    [
        ("resnet18", 1.0, True),
        ("resnet18", 0.25, True),
        ("resnet18", 0.125, False),  # strided 1 x 1 convolutions of 8 channels: oneDNN #6035
        ("resnet9", 0.1, True),
        ("liu1", 1.0, False),
    ],
)
def test_which_networks_are_stored_channels_last(name, width, expected):
    shape = (1, 28, 28) if name == "liu1" else (3, 32, 32)
    net = FlatModule(build(name, shape, 10, width), torch.device("cpu"), channels_last=True)
    assert net.channels_last is expected


def test_flatten_and_view_are_inverse():
    module = build("liu1", (1, 4, 4), 3)
    layout = Layout.of(module)
    flat = layout.flatten(module)
    for position, name in enumerate(layout.names):
        assert torch.equal(layout.view(flat, position), dict(module.named_parameters())[name])


def test_integer_buffers_are_left_out_and_running_statistics_kept():
    layout = Layout.of(torch.nn.BatchNorm1d(4))
    assert layout.parameters == 8
    assert layout.size == 16
