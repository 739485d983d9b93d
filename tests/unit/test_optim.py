"""The flat optimiser steps against torch.optim."""

import pytest
import torch

from fedrepro.fl.engine import optim
from fedrepro.fl.layout import Layout
from fedrepro.fl.spec import Adam, Sgd

SPECS = [
    Sgd(name="sgd", lr=0.1),
    Sgd(name="sgd", lr=0.1, weight_decay=0.01),
    Sgd(name="sgd", lr=0.1, momentum=0.9),
    Sgd(name="sgd", lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    Adam(name="adam", lr=0.01),
    Adam(name="adam", lr=0.01, beta1=0.5, beta2=0.9, eps=1e-4),
]


def reference(spec, parameters):
    if isinstance(spec, Adam):
        return torch.optim.Adam(
            [parameters], lr=spec.lr, betas=(spec.beta1, spec.beta2), eps=spec.eps
        )
    return torch.optim.SGD(
        [parameters],
        lr=spec.lr,
        momentum=spec.momentum,
        nesterov=spec.nesterov,
        weight_decay=spec.weight_decay,
    )


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_twenty_steps_equal_torch(spec):
    generator = torch.Generator().manual_seed(0)
    ours = torch.randn(50, generator=generator)
    theirs = torch.nn.Parameter(ours.clone())
    optimiser = reference(spec, theirs)
    state = optim.fresh_state(spec, ours)
    for _ in range(20):
        gradient = torch.randn(50, generator=generator)
        theirs.grad = gradient.clone()
        optimiser.step()
        optim.step(spec, spec.lr, ours, gradient.clone(), state)
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-6)


def test_the_state_carries_on():
    spec = Adam(name="adam", lr=0.01)
    gradients = torch.randn(6, 10, generator=torch.Generator().manual_seed(1))
    whole, parts = torch.zeros(10), torch.zeros(10)
    state = optim.fresh_state(spec, whole)
    for gradient in gradients:
        optim.step(spec, spec.lr, whole, gradient.clone(), state)
    first = optim.fresh_state(spec, parts)
    for gradient in gradients[:3]:
        optim.step(spec, spec.lr, parts, gradient.clone(), first)
    second = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in first.items()}
    for gradient in gradients[3:]:
        optim.step(spec, spec.lr, parts, gradient.clone(), second)
    assert torch.equal(whole, parts)
    assert second["step"] == 6


@pytest.mark.parametrize("length", [1, 15, 16, 50, 1000, 1003])
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_lanes_of_a_stack_get_the_bits_of_single_vectors(spec, length):
    """Each with its own step size and its own moments, three of them in mid-course."""
    generator = torch.Generator().manual_seed(0)
    starts = torch.randn(5, length, generator=generator)
    gradients = torch.randn(6, 5, length, generator=generator)
    lrs = [0.1, 0.01, 0.003, 0.1, 0.5]
    alone, states = [], []
    for lane, start in enumerate(starts):
        parameters, state = start.clone(), optim.fresh_state(spec, start)
        for step in range(lane % 2 * 2):
            optim.step(spec, lrs[lane], parameters, gradients[step, lane].clone(), state)
        alone.append(parameters)
        states.append(state)
    stack = optim.stack_rows(alone)
    moments = optim.stack_states(spec, states, length)
    rates = torch.tensor(lrs, dtype=torch.float64)[:, None]
    for gradient in gradients:
        rows = optim.stack_rows(list(gradient))
        optim.step(spec, rates, stack, rows, moments)
        for lane in range(5):
            optim.step(spec, lrs[lane], alone[lane], gradient[lane].clone(), states[lane])
    for lane in range(5):
        assert torch.equal(stack[lane], alone[lane])
        kept = optim.lane_state(moments, lane)
        assert kept.keys() == states[lane].keys()
        for name, value in kept.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(states[lane][name]))


def four_steps(spec, step, kind):
    """Take steps with numbers, and the same with step size and count in tensors of a type.

    Returns:
        Both vectors, and both states.
    """
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(1003, generator=generator)
    plain, fixed = start.clone(), start.clone()
    numbers, registers = optim.fresh_state(spec, start), optim.fresh_state(spec, start)
    if "step" in registers:
        registers["step"] = torch.zeros((), dtype=kind)
    for _ in range(4):
        gradient = torch.randn(1003, generator=generator)
        optim.step(spec, spec.lr, plain, gradient.clone(), numbers)
        step(spec, torch.tensor(spec.lr, dtype=kind), fixed, gradient, registers)
    return plain, fixed, numbers, registers


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_step_size_in_a_tensor_changes_no_bit(spec):
    """As the graphs of a GPU read it; on a CPU the step count is one too."""
    kind = optim.register_type(torch.device("cpu"))
    plain, fixed, _, _ = four_steps(spec, optim.step, kind)
    assert torch.equal(plain, fixed)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_fused_kernels_do_the_same(spec):
    """What a GPU uses; PyTorch has the same kernels for CPUs."""
    plain, fused, numbers, registers = four_steps(spec, optim.fused_step, torch.float32)
    torch.testing.assert_close(fused, plain, rtol=1e-5, atol=1e-6)
    for name, value in registers.items():
        wanted = torch.as_tensor(numbers[name], dtype=torch.float32)
        torch.testing.assert_close(torch.as_tensor(value), wanted, rtol=1e-5, atol=1e-6)


def test_no_state_is_a_fresh_one():
    spec = Adam(name="adam", lr=0.01)
    used = {"step": 7, "mean": torch.ones(4), "square": torch.ones(4)}
    stacked = optim.stack_states(spec, [None, used], 4)
    assert optim.lane_state(stacked, 0)["step"] == 0
    assert optim.lane_state(stacked, 1)["step"] == 7
    assert stacked["mean"].tolist() == [[0] * 4, [1] * 4]
    stacked["mean"].zero_()
    assert used["mean"].tolist() == [1] * 4  # a copy


def test_step_sizes_fall_at_milestones_and_with_each_round():
    spec = Sgd(name="sgd", lr=2.0, lr_decay=0.5, lr_milestones=(1, 3))
    sizes = [spec.step_size(t) for t in range(5)]
    assert sizes == pytest.approx([2.0, 0.1, 0.05, 0.0025, 0.00125])
    assert Adam(name="adam", lr=0.01).step_size(9) == 0.01


def test_vectors_take_another_step_size():
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
    layout = Layout.of(net)
    spec = Sgd(name="sgd", lr=0.1, vector_lr_factor=0.25)
    assert optim.factors(spec, layout, torch.device("cpu")).tolist() == [1.0] * 18 + [0.25] * 6
    assert optim.factors(Sgd(name="sgd", lr=0.1), layout, torch.device("cpu")) is None


def test_rows_of_a_stack_begin_at_64_bytes_and_stay_apart():
    for shape in ((1,), (15,), (16,), (17, 3), (64,)):
        stack = optim.apart(3, *shape)
        assert stack.shape == (3, *shape)
        assert all(row.data_ptr() % 64 == 0 for row in stack)
        assert all(row.is_contiguous() for row in stack)
        assert stack.stride(0) > stack[0].numel()
