"""Networks: published parameter counts, shapes, and their place in a flat vector."""

import pytest
import torch

from fedrepro.engine.layout import Layout
from fedrepro.engine.loop import FlatModule
from fedrepro.models import MODELS, build


@pytest.mark.parametrize(
    ("name", "shape", "parameters"),
    [("liu1", (1, 28, 28), 23_860), ("mnist_cnn", (1, 28, 28), 1_663_370)],
)
def test_published_parameter_counts(name, shape, parameters):
    assert Layout.of(build(name, shape, 10)).parameters == parameters


@pytest.mark.parametrize("name", sorted(MODELS))
def test_width_shrinks_and_logits_have_their_shape(name):
    full, half = (Layout.of(build(name, (1, 28, 28), 10, width)) for width in (1.0, 0.5))
    assert half.parameters < full.parameters
    assert build(name, (1, 28, 28), 10, 0.25)(torch.zeros(3, 1, 28, 28)).shape == (3, 10)


def test_flat_views_share_storage_with_the_module():
    net = FlatModule(build("mnist_cnn", (1, 28, 28), 10, 0.1), torch.device("cpu"))
    net.flat.fill_(0.5)
    assert all(bool((p == 0.5).all()) for p in net.module.parameters())
    net.module(torch.ones(2, 1, 28, 28)).sum().backward()
    collected = torch.cat([p.grad.reshape(-1) for p in net.module.parameters()])
    assert torch.equal(collected, net.gradient)
    assert float(net.gradient.abs().sum()) > 0


def test_flatten_and_view_are_inverse():
    module = build("liu1", (1, 4, 4), 3)
    layout = Layout.of(module)
    flat = layout.flatten(module)
    for position, name in enumerate(layout.names):
        assert torch.equal(layout.view(flat, position), dict(module.named_parameters())[name])


def test_divergence_by_hand():
    module = torch.nn.Sequential()
    module.add_module("a", torch.nn.Linear(1, 2))
    layout = Layout.of(module)  # a.weight [2, 1], a.bias [2]
    reference = torch.tensor([3.0, 4.0, 0.0, 0.0])
    model = torch.tensor([3.0, 1.0, 4.0, 0.0])
    assert layout.divergence(model, reference) == pytest.approx(
        {"a": 3 / 5, "a+bias": 1.0, "model": 1.0}
    )


def test_integer_buffers_are_left_out_and_running_statistics_kept():
    layout = Layout.of(torch.nn.BatchNorm1d(4))
    assert layout.parameters == 8
    assert layout.size == 16
