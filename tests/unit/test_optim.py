"""The flat optimiser steps against torch.optim."""

import pytest
import torch

from fedrepro.engine import optim
from fedrepro.spec import Adam, Sgd

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
