"""Proposition 3.1 on losses whose gradients and curvatures are known."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fake_federation import drive
from small_runs import make_spec

from fedrepro.base.errors import FedreproError
from fedrepro.fl.algorithms import divergence_bound
from fedrepro.fl.requests import Predict, Prediction, Trained
from fedrepro.fl.spec import Sgd

CURVATURE = (2.0, 6.0)
MINIMUM = (-1.0, 3.0)
ETA = 0.05
BOUND = {"name": "divergence_bound", "drawn": 1}
STEPS = 4


def gradient(label, w):
    """Of ``h / 2 (w - c)^2``: the loss of a class with curvature h and minimum c."""
    return CURVATURE[label] * (w - MINIMUM[label])


def federation(counts, rounds=3):
    counts = np.array(counts)
    labels = np.repeat([0, 1], counts.sum(axis=0))
    pools = [list(np.flatnonzero(labels == label)) for label in (0, 1)]
    clients = [
        np.array([pools[label].pop(0) for label, n in enumerate(row) for _ in range(n)])
        for row in counts
    ]
    shares, all_shares = counts / counts.sum(axis=1, keepdims=True), counts.sum(0) / counts.sum()
    params = divergence_bound.Params(**BOUND)
    return SimpleNamespace(
        clients=tuple(clients),
        labels=labels,
        partition=SimpleNamespace(counts=counts, emd=np.abs(shares - all_shares).sum(axis=1)),
        layout=SimpleNamespace(size=1, parameters=1),
        spec=SimpleNamespace(
            optimizer=Sgd(name="sgd", lr=ETA),
            local_epochs=STEPS,
            rounds=rounds,
            model=SimpleNamespace(name="m"),
        ),
        params=lambda kind: params,
        initial_weights=lambda: torch.tensor([10.0]),
    )


def answer(fed):
    def reply(request):
        answers = []
        for lane in request.lanes:
            held = set(fed.labels[lane.examples])
            assert len(held) == 1, "a lane's examples are one class"
            assert lane.batch == len(lane.examples), "full batches"
            assert lane.lr == 1
            step = gradient(held.pop(), lane.weights)
            answers.append(Trained(lane.weights - step, 0.5, None))
        return answers

    return reply


def run(fed):
    state = divergence_bound.init(fed)
    for t in range(fed.spec.rounds):
        requests, log = drive(divergence_bound.round(fed, state, t), answer(fed))
        assert len(requests) == STEPS
        assert log["distance"] == state.distance[-1]
    return state, divergence_bound.summary(fed, state)


def by_hand(counts, rounds=3):
    """Return the measured distances by a plain loop over numbers."""
    counts = np.array(counts)
    shares, sizes = counts / counts.sum(axis=1, keepdims=True), counts.sum(axis=1)
    together = counts.sum(axis=0) / counts.sum()
    central = federated = 10.0
    distances = []
    for _ in range(rounds):
        local = [federated] * len(counts)
        for _ in range(STEPS):
            local = [
                w - ETA * sum(p * gradient(i, w) for i, p in enumerate(mix))
                for w, mix in zip(local, shares, strict=True)
            ]
            central -= ETA * sum(p * gradient(i, central) for i, p in enumerate(together))
        federated = float(np.average(local, weights=sizes))
        distances.append(abs(federated - central))
    return distances


@pytest.mark.parametrize("counts", [[[4, 0], [0, 4]], [[3, 1], [1, 5]], [[2, 0], [1, 1], [0, 5]]])
def test_distances_are_those_of_two_descents(counts):
    _, kept = run(federation(counts))
    assert kept["distance"] == pytest.approx(by_hand(counts), rel=1e-4)


def test_constants_are_the_curvatures():
    _, kept = run(federation([[3, 1], [1, 5]]))
    assert kept["lipschitz"] == pytest.approx(CURVATURE, rel=1e-3)
    assert len(kept["largest_gradient"]) == 3 * STEPS


def test_the_largest_gradient_is_that_of_the_steepest_class():
    _, kept = run(federation([[3, 1], [1, 5]]))
    steepest = max(abs(gradient(label, 10.0)) for label in (0, 1))
    assert kept["largest_gradient"][0] == pytest.approx(steepest, rel=1e-5)


def test_the_bound_is_equation_3_by_hand():
    """One client with both classes, one with the second only; T = 2, m = 2."""
    bound = divergence_bound.bound(
        shares=[[0.5, 0.5], [0.0, 1.0]],
        sizes=[2, 6],
        emd=np.array([0.75, 0.25]),
        lipschitz=[2.0, 6.0],
        largest_gradient=[10.0, 8.0, 7.0, 5.0],
        distance=[0.3, 0.4],
        eta=0.1,
        steps=2,
    )
    growth = 1.4, 1.6
    first = 0.1 * (0.25 * 0.75 * growth[0] * 10 + 0.75 * 0.25 * growth[1] * 10)
    drift = 0.1 * (0.25 * 0.75 * growth[0] * 7 + 0.75 * 0.25 * growth[1] * 7)
    second = (0.25 * growth[0] ** 2 + 0.75 * growth[1] ** 2) * 0.3 + drift
    assert bound == pytest.approx([first, second])


def test_of_three_steps_the_earlier_gradient_has_grown_twice():
    """0.1 * 0.5 * (1.2 * 8 + 1.2 ** 2 * 9): the last gradient is not in the sum."""
    bound = divergence_bound.bound(
        shares=[[1.0]],
        sizes=[1],
        emd=np.array([0.5]),
        lipschitz=[2.0],
        largest_gradient=[9.0, 8.0, 7.0],
        distance=[0.1],
        eta=0.1,
        steps=3,
    )
    assert bound == pytest.approx([1.128])


def test_a_class_has_the_largest_curvature_of_all_models():
    """Changes of 3 at a distance of 1, and of 2 at one of 2."""
    state = SimpleNamespace(central=torch.tensor([1.0]), lipschitz=[0.0], largest_gradient=[])
    local = [torch.tensor([2.0]), torch.tensor([3.0])]
    gradients = [{0: torch.tensor([value])} for value in (4.0, 3.0, 1.0)]
    divergence_bound._learn_constants(state, local, gradients)
    assert (state.lipschitz, state.largest_gradient) == ([3.0], [1.0])


@pytest.mark.parametrize("counts", [[[4, 0], [0, 4]], [[3, 1], [1, 5]], [[2, 0], [1, 1], [0, 5]]])
def test_the_bound_holds(counts):
    _, kept = run(federation(counts))
    for measured, bounded in zip(kept["distance"], kept["bound"], strict=True):
        assert 0 < measured <= bounded


def test_equal_shares_do_not_diverge_and_are_bounded_by_nothing():
    _, kept = run(federation([[2, 2], [3, 3]]))
    assert kept["distance"] == pytest.approx([0, 0, 0], abs=1e-5)
    assert kept["bound"][0] == 0
    assert kept["lipschitz"] == [0, 0], "models that coincide tell nothing of the curvature"


def test_one_local_step_is_a_step_of_sgd():
    """With T = 1 the sum of eq. 2 is empty, and the average of the clients' steps is SGD's."""
    fed = federation([[4, 0], [0, 4]])
    fed.spec.local_epochs = 1
    state = divergence_bound.init(fed)
    drive(divergence_bound.round(fed, state, 0), answer(fed))
    kept = divergence_bound.summary(fed, state)
    assert kept["bound"] == [0]
    assert kept["distance"][0] == pytest.approx(0, abs=1e-5)


def test_inner_products_are_those_of_the_displacements():
    state, kept = run(federation([[4, 0], [0, 4]]))
    vectors = [float(v) for v in state.kept]
    assert len(vectors) == 4, "two clients, the average, the centre, of one synchronisation"
    assert np.array(kept["inner_products"]) == pytest.approx(np.outer(vectors, vectors))
    assert vectors[2] == pytest.approx((vectors[0] + vectors[1]) / 2)


@pytest.mark.parametrize("more", [{"lr_decay": 0.9}, {"momentum": 0.9}, {"weight_decay": 0.1}])
def test_other_optimisers_are_refused(more):
    with pytest.raises(ValueError, match="constant step size"):
        make_spec(algorithm=BOUND, optimizer={"name": "sgd", "lr": ETA} | more)


def test_networks_with_running_statistics_are_refused():
    fed = federation([[1, 1], [1, 1]])
    fed.layout.size = 2
    with pytest.raises(FedreproError, match="running statistics"):
        divergence_bound.init(fed)


def test_examples_that_differ_from_step_to_step_are_refused():
    with pytest.raises(ValueError, match=r"dataset\.augment: must be off"):
        make_spec(algorithm=BOUND, dataset={"name": "synthetic", "augment": True})


def test_the_averaged_model_is_evaluated():
    fed = federation([[4, 0], [0, 4]])
    fed.partition.node_sets = {}
    state, _ = run(fed)

    def predict(request):
        assert isinstance(request, Predict)
        assert [float(model) for model in request.models] == [float(state.federated)]
        return [Prediction(np.zeros(2, dtype=np.int64), np.array([True, False]), 0.7)]

    _, metrics = drive(divergence_bound.evaluate(fed, state), predict)
    assert metrics == {"accuracy": 0.5, "loss": 0.7}
