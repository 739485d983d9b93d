"""All backends do what the plain loop does: every hook, every kind of network, alone or not."""

import contextlib
import dataclasses
import gc
import itertools
import math
import os
import shutil
import time
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pretend import pretended_gpu
from small_runs import (
    SMALL_CNN,
    answer,
    answers,
    direction,
    drive_runs,
    federation,
    float_dataset,
    make_lanes,
    make_spec,
)
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from fedrepro.base.errors import FedreproError
from fedrepro.fl import data, models
from fedrepro.fl.engine import (
    BACKENDS,
    backends,
    compiling,
    dense,
    device,
    graphs,
    jobs,
    lane,
    memory,
    places,
    slot,
)
from fedrepro.fl.engine.data import DeviceData
from fedrepro.fl.engine.graphs import GraphsBackend
from fedrepro.fl.engine.jobs import LaneError, OpenRequests
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.fl.engine.network import FlatModule
from fedrepro.fl.engine.places import HostPlace
from fedrepro.fl.engine.pool import PoolBackend
from fedrepro.fl.engine.resources import Resources
from fedrepro.fl.models import NETWORKS, Network
from fedrepro.fl.models.parts.layers import BatchNorm2d, Dropout
from fedrepro.fl.requests import Objective, Predict, Train
from fedrepro.fl.spec import run_id

torch.set_num_threads(1)

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read once, at a GPU's first product


@pytest.fixture(scope="module")
def two_workers():
    backend = PoolBackend(2, stack=True)
    yield backend
    backend.close()


def resources():
    kept = Resources(torch.device("cpu"))
    kept.add_dataset(data.load("synthetic"))
    return kept


def job_of(spec, request):
    """Return the first lane of a request as backends see it."""
    return jobs.Ask(spec, data.load(spec.dataset.name), request).jobs[0]


def sgd(**changes):
    return {"name": "sgd", "lr": 0.05} | changes


# A small eps blows up the rounding of gradients that are zero, as of biases before a norm.
ADAM = {"name": "adam", "lr": 0.002, "eps": 1e-3}
GREY, RGB = {"name": "synthetic"}, {"name": "synthetic_rgb"}
ALL_AT_ONCE = Objective(proximal=0.3, projection="update", radius=0.3, gradient_noise=0.01)

CASES = {
    "plain": ({}, {}),
    "proximal": ({}, {"proximal": 0.5}),
    "distillation": ({}, {"terms": (("pairwise_divergence", 0.5),)}),
    "projection of the weights": ({}, {"projection": "weights", "radius": 1.0}),
    "projection of the update": ({}, {"projection": "update", "radius": 0.05}),
    "noise": ({}, {"gradient_noise": 0.05}),
    "quantised": ({}, {"quantise_bits": 4}),
    "momentum": ({"optimizer": sgd(momentum=0.9)}, {}),
    "nesterov": ({"optimizer": sgd(momentum=0.9, nesterov=True, weight_decay=0.01)}, {}),
    "clipped": ({"optimizer": sgd(clip_norm=0.2)}, {"proximal": 0.5, "gradient_noise": 0.01}),
    "vector step size": ({"optimizer": sgd(vector_lr_factor=0.1, momentum=0.5)}, {}),
    "milestones": ({"optimizer": sgd(lr_milestones=[1, 2, 5], lr=2.0)}, {}),
    "adam": ({"optimizer": ADAM}, {}),
    "adam, everything": ({"optimizer": ADAM | {"clip_norm": 0.5}}, vars(ALL_AT_ONCE)),
    "last batch dropped": ({"last_batch": "drop"}, {}),
    "single example dropped": ({"last_batch": "drop_single"}, {}),
    "bf16": ({"precision": "bf16"}, {}),
    "mnist_cnn": ({"model": SMALL_CNN}, {}),
    "mnist_cnn, distilled": (
        {"model": SMALL_CNN, "optimizer": sgd(momentum=0.9, clip_norm=1.0)},
        {"terms": (("pairwise_divergence", 0.5),), "gradient_noise": 0.01},
    ),
    "mnist_cnn, bf16": ({"model": SMALL_CNN, "precision": "bf16"}, {}),
    "augmented": ({"model": SMALL_CNN, "dataset": GREY | {"augment": True}}, {}),
    "tutorial24": (
        {"model": SMALL_CNN, "dataset": GREY | {"augment": True, "transform": "tutorial24"}},
        {},
    ),
    "dropout": (
        {"model": {"name": "liu2", "width": 0.5}},
        {"terms": (("pairwise_divergence", 0.2),)},
    ),
    "dropout and batch norms": (
        {
            "model": {"name": "liu3", "width": 0.1},
            "last_batch": "drop_single",
            "optimizer": ADAM,
        },
        {},
    ),
    "fedcd_cnn": (
        {"model": {"name": "fedcd_cnn", "width": 0.1}, "dataset": RGB},
        {"quantise_bits": 4},
    ),
    "resnet9": (
        {
            "model": {"name": "resnet9", "width": 0.1},
            "dataset": RGB | {"augment": True, "transform": "standard"},
            "optimizer": sgd(lr=0.01, momentum=0.9, weight_decay=0.001),
        },
        {"proximal": 0.1, "terms": (("pairwise_divergence", 0.1),)},
    ),
    "fixup_resnet20": (
        {
            "model": {"name": "fixup_resnet20", "width": 0.25},
            "dataset": RGB,
            "optimizer": sgd(vector_lr_factor=0.1, clip_norm=1.0),
        },
        {},
    ),
    "resnet18": (
        {"model": {"name": "resnet18", "width": 1 / 16}, "dataset": RGB, "optimizer": sgd(lr=0.01)},
        {"proximal": 0.1},
    ),
}


NORMED = ("liu3", "fedcd_cnn", "resnet9", "resnet18")


def request_for(fed, objective, *, linear=False):
    """Lanes of unequal lengths, epochs and step sizes; 17 and 9 leave a last batch of one."""
    lanes = make_lanes(
        fed,
        (17, 21, 9, 5),
        lr=lambda k: None if k % 2 else fed.spec.optimizer.lr * 0.3,
        linear=direction(fed) if linear else None,
    )
    epochs = 1 if fed.spec.model.name in NORMED else None
    lanes[2] = dataclasses.replace(lanes[2], epochs=1)
    return Train(lanes, 3, keep_optimizer_state=True, epochs=epochs, objective=objective)


def assert_close(ours, theirs, rtol=1e-4, atol=1e-5):
    """Compare lists of results: weights, losses and moments."""
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.weights, b.weights, rtol=rtol, atol=atol)
        assert a.loss == pytest.approx(b.loss, rel=max(rtol / 2, 1e-4))
        assert (a.optimizer_state is None) == (b.optimizer_state is None)
        for name, moment in (a.optimizer_state or {}).items():
            expected = torch.as_tensor(b.optimizer_state[name])
            torch.testing.assert_close(torch.as_tensor(moment), expected, rtol=rtol, atol=atol)


def assert_near(ours, theirs, lanes, share):
    """Compare weights by their distance, as a share of how far they moved.

    Where one of thousands of values lies so near the kink of a ReLU that another order of summation
    takes it to the other side, single weights differ in the third digit.
    """
    for a, b, one in zip(ours, theirs, lanes, strict=True):
        assert float((a.weights - b.weights).norm() / (b.weights - one.weights).norm()) < share
        assert a.loss == pytest.approx(b.loss, rel=1e-3)


def assert_equal(ours, theirs):
    """Compare weights and moments to the bit."""
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a.weights, b.weights)
        assert a.loss == pytest.approx(b.loss, rel=1e-6)
        for name, moment in (a.optimizer_state or {}).items():
            assert torch.equal(torch.as_tensor(moment), torch.as_tensor(b.optimizer_state[name]))


@pytest.mark.parametrize("case", CASES)
def test_all_ways_to_train_agree(case):
    """Lane graphs, whose steps a CPU takes one by one, have the bits of the loop."""
    changes, objective = CASES[case]
    spec = make_spec(**changes)
    fed = federation(spec)
    request = request_for(fed, Objective(**objective), linear=case != "plain")
    loop = answer(LoopBackend(), spec, request)
    for result, one in zip(loop, request.lanes, strict=True):
        stays = spec.last_batch == "drop" and len(one.examples) < spec.batch
        assert (float((result.weights - one.weights).norm()) > 1e-3) != stays
    few = GraphsBackend()
    few._most_slots = 2  # so that lanes follow one another in a slot
    for backend in (GraphsBackend(), few):
        assert_equal(answer(backend, spec, request), loop)
    found = answer(PoolBackend(1), spec, request)
    if spec.precision == "bf16":
        assert_close(found, loop, rtol=0.02, atol=2e-3)
    elif spec.model.name in NORMED:
        assert_near(found, loop, request.lanes, share=0.02)
    else:
        assert_close(found, loop)


def test_kept_moments_go_on_where_they_were():
    for optimizer in (ADAM, sgd(momentum=0.9)):
        spec = make_spec(optimizer=optimizer, model=SMALL_CNN)
        fed = federation(spec)
        first = request_for(fed, Objective())
        half = answer(LoopBackend(), spec, first)
        lanes = [
            dataclasses.replace(one, weights=r.weights, optimizer_state=r.optimizer_state)
            for one, r in zip(first.lanes, half, strict=True)
        ]
        lanes[2] = dataclasses.replace(lanes[2], optimizer_state=None)  # one starts afresh
        second = dataclasses.replace(first, lanes=lanes, round=4)
        loop = answer(LoopBackend(), spec, second)
        assert_near(answer(PoolBackend(1), spec, second), loop, lanes, share=0.005)
        graphs_too = GraphsBackend()
        assert_equal(answer(graphs_too, spec, first), half)
        assert_equal(answer(graphs_too, spec, second), loop)
        forgetful = [dataclasses.replace(one, optimizer_state=None) for one in lanes]
        reset = answer(LoopBackend(), spec, dataclasses.replace(second, lanes=forgetful))
        share = (reset[0].weights - loop[0].weights).norm()
        assert float(share / (loop[0].weights - lanes[0].weights).norm()) > 0.1
        assert torch.equal(reset[2].weights, loop[2].weights)


@pytest.mark.parametrize("model", [{"name": "liu1", "width": 0.3}, SMALL_CNN])
def test_a_lane_may_have_epochs_of_its_own(two_workers, model):
    """They are those of a request of so many; without one nothing is trained."""
    spec = make_spec(model=model, local_epochs=3)
    lanes = make_lanes(federation(spec), (17, 17, 17))
    epochs = (2, None, 0)
    mixed = [dataclasses.replace(lane, epochs=own) for lane, own in zip(lanes, epochs, strict=True)]
    loop = answer(LoopBackend(), spec, Train(mixed, 0))
    assert_equal(loop[:1], answer(LoopBackend(), spec, Train(lanes, 0, epochs=2))[:1])
    assert_equal(loop[1:2], answer(LoopBackend(), spec, Train(lanes, 0))[1:2])
    assert torch.equal(loop[2].weights, lanes[2].weights)
    assert loop[2].loss == 0
    for backend in all_backends(two_workers):
        assert_close(answer(backend, spec, Train(mixed, 0)), loop)


def test_no_epoch_is_rounding_alone(two_workers):
    """FedCD quantises a clone without training it; beside it others may train."""
    spec = make_spec(optimizer=sgd(momentum=0.9))
    lanes = make_lanes(federation(spec), (17, 9))
    objective = Objective(quantise_bits=4)
    still = Train(lanes, 0, keep_optimizer_state=True, epochs=0, objective=objective)
    moving = dataclasses.replace(still, epochs=None)
    expected = [answer(LoopBackend(), spec, request) for request in (still, moving)]
    assert len(expected[0][0].weights.unique()) < len(lanes[0].weights.unique())
    assert expected[0][0].loss == 0
    for backend in all_backends(two_workers):
        assert_equal(answer(backend, spec, still), expected[0])
        for found, wanted in zip(
            answers(backend, [(spec, moving), (spec, still)]), expected[::-1], strict=True
        ):
            assert_close(found, wanted)


@pytest.mark.parametrize("model", [{"name": "liu1", "width": 0.3}, SMALL_CNN])
def test_lanes_of_several_runs_share_the_slots(model):
    """Runs of other seeds, in other rounds, with other numbers of epochs and step sizes."""
    specs = [
        make_spec(model=model, seed=1),
        make_spec(model=model, seed=2, local_epochs=1, optimizer=sgd(lr=0.1)),
        make_spec(model=model, seed=3, optimizer=sgd(lr_decay=0.5)),
    ]
    asks = []
    for i, spec in enumerate(specs):
        lanes = make_lanes(federation(spec), (20, 9 + i))
        asks.append((spec, Train(lanes, round=i, epochs=3 if i == 2 else None)))
    expected = [answer(LoopBackend(), spec, request) for spec, request in asks]
    for most in (graphs.MOST_SLOTS, 1):
        backend = GraphsBackend()
        backend._most_slots = most
        for _ in range(2):
            for found, wanted in zip(answers(backend, asks), expected, strict=True):
                assert_equal(found, wanted)
        [kind] = backend._kinds.values()
        assert len(kind.slots) == min(most, 6)


def test_predictions_agree(two_workers):
    spec = make_spec(model=SMALL_CNN)
    fed = federation(spec)
    models = [fed.initial_weights(k) for k in range(3)]
    chosen = np.array([7, 3, 3, 499], dtype=np.int64)
    for request in (Predict(models, "test"), Predict(models[:1], "train", chosen)):
        expected = answer(LoopBackend(), spec, request)
        assert len(expected[0].classes) == (500 if request.examples is None else 4)
        for backend in (GraphsBackend(), PoolBackend(1), two_workers):
            found = answer(backend, spec, request)
            for ours, theirs in zip(found, expected, strict=True):
                assert np.array_equal(ours.classes, theirs.classes)
                assert np.array_equal(ours.correct, theirs.correct)
                assert ours.loss == pytest.approx(theirs.loss, rel=1e-5)


def test_models_predict_each_on_their_own_examples_as_they_would_alone(two_workers):
    spec = make_spec()
    fed = federation(spec)
    one, other = (fed.initial_weights(k) for k in range(2))
    models = [one, other, one, one]
    rng = np.random.default_rng(3)
    own = [rng.integers(0, fed.train_size, count) for count in (1, 2001, 1000, 30)]
    request = Predict(models, "train", own)
    assert jobs.Ask(spec, data.load("synthetic"), request).passes == 3032
    alone = [
        answer(LoopBackend(), spec, Predict([model], "train", examples))[0]
        for model, examples in zip(models, own, strict=True)
    ]
    for backend in (LoopBackend(), GraphsBackend(), PoolBackend(1), two_workers):
        for ours, theirs in zip(answer(backend, spec, request), alone, strict=True):
            assert np.array_equal(ours.classes, theirs.classes)
            assert np.array_equal(ours.correct, theirs.correct)
            assert ours.loss == theirs.loss


def test_predictions_of_graphs_follow_one_another_in_a_slot():
    """With a part of the split, then all of it, then a part again: other lengths of the rows."""
    spec = make_spec(model=SMALL_CNN)
    models = [federation(spec).initial_weights(k) for k in range(2)]
    backend = GraphsBackend()
    for count in (30, None, 7):
        request = Predict(models, "train", None if count is None else np.arange(count))
        expected = answer(LoopBackend(), spec, request)
        for ours, theirs in zip(answer(backend, spec, request), expected, strict=True):
            assert np.array_equal(ours.classes, theirs.classes)
            assert np.array_equal(ours.correct, theirs.correct)
            assert ours.loss == theirs.loss


# Dense stacks


DENSE = {
    "sgd": (sgd(), {}, False),
    "momentum": (
        sgd(momentum=0.9, nesterov=True, weight_decay=0.01, vector_lr_factor=0.2, clip_norm=0.5),
        {"proximal": 0.2, "projection": "update", "radius": 0.3},
        True,
    ),
    "adam": (ADAM, {"gradient_noise": 0.01, "projection": "weights", "radius": 1.0}, False),
    "quantised": (sgd(), {"quantise_bits": 6}, True),
}


@pytest.mark.parametrize("width", [0.03, 0.5, 1.0])
@pytest.mark.parametrize("case", DENSE)
def test_a_dense_stack_gives_every_lane_the_bits_it_gets_alone(case, width):
    optimizer, objective, linear = DENSE[case]
    spec = make_spec(
        model={"name": "liu1", "width": width},
        optimizer=optimizer,
        dataset=GREY | {"augment": True},
    )
    fed = federation(spec)
    kept = resources()
    net, examples = kept.network(spec), kept.data(spec)
    lanes = make_lanes(
        fed,
        (17, 21, 9, 5, 40, 17, 1, 24),
        lr=lambda k: 0.01 * k or None,
        linear=direction(fed) if linear else None,
    )
    each = [
        job_of(spec, Train([one], k % 3, True, 1 + k % 2, Objective(**objective)))
        for k, one in enumerate(lanes)
    ]
    alone = [lane.train_lane(net, None, examples, job) for job in each]
    chooser = np.random.default_rng(0)
    subsets = [range(8), [6], [3, 0], *(chooser.permutation(8)[: 3 + i] for i in range(4))]
    for chosen in subsets:
        stacked = dense.train_stack(net, examples, [each[i] for i in chosen])
        assert_equal(stacked, [alone[i] for i in chosen])


@pytest.mark.parametrize(
    ("changes", "objective", "expected"),
    [
        ({}, Objective(), True),
        ({"model": SMALL_CNN}, Objective(), False),
        ({"precision": "bf16"}, Objective(), False),
        ({}, Objective(terms=(("pairwise_divergence", 0.5),)), False),
    ],
)
def test_which_networks_are_stacked_densely(changes, objective, expected):
    spec = make_spec(**changes)
    [one] = make_lanes(federation(spec), (5,))
    job = job_of(spec, Train([one], 0, objective=objective))
    assert dense.can_stack(resources().network(spec), job) is expected


class Normalised(nn.Linear):
    """Another layer that is a Linear to ``isinstance``."""


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)], True),
        ([nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), Normalised(3, 2)], False),
        ([nn.Flatten(), nn.Linear(4, 3, bias=False), nn.ReLU(), nn.Linear(3, 2)], False),
        ([nn.Flatten(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)], False),
        ([nn.Linear(4, 2)], False),
        ([nn.Flatten(2), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)], False),
        ([nn.Flatten(), nn.ReLU(), nn.Linear(4, 2)], False),
        ([nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.ReLU(), nn.Linear(3, 2)], False),
    ],
)
def test_what_a_dense_stack_would_not_compute_is_none(layers, expected):
    assert dense.is_dense(nn.Sequential(*layers)) is expected


def test_a_relu_that_serves_twice_is_stacked_as_two(monkeypatch):
    """As in ``act = nn.ReLU()``, which PyTorch lists once among a network's children."""

    def build(*_):
        act = nn.ReLU()
        return nn.Sequential(
            nn.Flatten(), nn.Linear(784, 30), act, nn.Linear(30, 30), act, nn.Linear(30, 10)
        )

    assert dense.is_dense(build())
    shared = Network("liu1", build, mflop=1.0)
    monkeypatch.setitem(NETWORKS._found, "liu1", (shared, None, shared.module))
    spec = make_spec()
    fed = federation(spec)
    request = Train(make_lanes(fed, (30, 30, 20)), 0)
    assert_equal(
        answer(PoolBackend(1, stack=True), spec, request), answer(LoopBackend(), spec, request)
    )


@pytest.mark.parametrize("name", ["loop", "here", "stacked", "two workers", "graphs"])
def test_subnormal_numbers_are_taken_for_zero(name, two_workers):
    """CPUs are slow with them, and a client that fits its examples has gradients full of them."""
    backend = {
        "loop": LoopBackend,
        "here": lambda: PoolBackend(1),
        "stacked": lambda: PoolBackend(1, stack=True),
        "two workers": lambda: two_workers,
        "graphs": GraphsBackend,
    }[name]()
    spec = make_spec(optimizer=sgd(lr=2e-38))
    fed = federation(spec)
    zero = torch.zeros_like(fed.initial_weights(0))
    request = Train(make_lanes(fed, (30, 30), weights=zero), 0)
    assert not any(one.weights.any() for one in answer(backend, spec, request))
    biased = zero.clone()
    biased[fed.layout.parameters - 1] = 1e-39  # of the last class
    (found,) = answer(backend, spec, Predict([biased], "test"))
    assert not found.classes.any()
    assert torch.full((), 1e-39).item(), "the program computes as before"


# Alone or fused


def trained(backend, specs, folder, **options):
    """Train runs and return their final states by id."""
    done = {}
    drive_runs(
        specs,
        backend,
        folder,
        lambda run: done.setdefault(run.id, run),
        done.setdefault,
        **options,
    )
    return [done[run_id(spec)] for spec in specs]


def three_clients(**changes):
    partition = {"scheme": "iid_stratified", "clients": 3, "per_class": 9}
    return make_spec(partition=partition, **changes)


def test_a_network_whose_size_cannot_be_told_fails_its_run_only(tmp_path, monkeypatch):
    """As where a layer of a plugin does not compute on one example."""
    measure = GraphsBackend._slot_bytes

    def measured(self, job):
        if job.spec.model.name == "mnist_cnn":
            raise NotImplementedError("a layer of a plugin")
        return measure(self, job)

    monkeypatch.setattr(GraphsBackend, "_slot_bytes", measured)
    good, bad = three_clients(seed=1), three_clients(seed=2, model={"name": "mnist_cnn"})
    backend = GraphsBackend()
    for number, specs in enumerate(([bad, good], [good, bad])):
        ended = dict(
            zip(map(run_id, specs), trained(backend, specs, tmp_path / str(number)), strict=True)
        )
        assert "NotImplementedError: a layer of a plugin" in str(ended[run_id(bad)])
        assert ended[run_id(good)].done
    assert len(backend._open) == 0


KEEP = {"name": "fedavg", "optimizer_state": "keep"}
CNN = {"model": SMALL_CNN, "local_epochs": 1, "optimizer": sgd(momentum=0.5)}
RUNS = [
    three_clients(seed=1, algorithm=KEEP, optimizer=ADAM),
    three_clients(seed=2, optimizer=ADAM, rounds=2),
    three_clients(seed=3, **CNN),
    three_clients(seed=4, algorithm={"name": "sgd"}, rounds=2),
    three_clients(seed=6, **CNN),
]


def states(runs):
    weights = [run.state.weights for run in runs]
    return weights, [(run.progress.metrics["accuracy"], run.progress.final) for run in runs]


@pytest.mark.parametrize("stack", [False, True])
def test_a_run_has_the_same_bits_alone_and_fused_and_on_any_number_of_workers(stack, tmp_path):
    first = None
    for workers, in_flight in ((1, 1), (1, 5), (2, 5), (3, 3)):
        backend = PoolBackend(workers, stack=stack)
        runs = trained(backend, RUNS, tmp_path, in_flight=in_flight)
        backend.close()
        weights, metrics = states(runs)
        first = first or (weights, metrics)
        assert all(map(torch.equal, weights, first[0]))
        assert metrics == first[1]


def test_a_run_beside_others_on_graphs_is_the_run_alone(tmp_path):
    together = states(trained(GraphsBackend(), RUNS, tmp_path, in_flight=5))
    alone = states([trained(LoopBackend(), [spec], tmp_path)[0] for spec in RUNS])
    assert all(map(torch.equal, together[0], alone[0]))
    assert together[1] == alone[1]


# Lane graphs


class Recorded:
    """A place of a CPU that notes what is captured, and may refuse some of it."""

    def __init__(self, refuse=lambda number: False):
        self.captures, self.replays, self._refuse = 0, 0, refuse

    def __call__(self, step):
        self.captures += 1
        if self._refuse(self.captures):
            raise RuntimeError("operation not permitted when stream is capturing")

        def replay():
            self.replays += 1
            step()

        return replay


def watch_captures(monkeypatch, **options):
    recorded = Recorded(**options)
    monkeypatch.setattr(graphs.HostPlace, "capture", lambda self, step: recorded(step))
    return recorded


def test_steps_are_captured_once_a_size_and_slot_and_replayed(monkeypatch):
    spec = make_spec()  # two epochs of batches of 8
    monkeypatch.setattr(slot, "_OFTEN", 1)
    recorded = watch_captures(monkeypatch)
    request = Train(make_lanes(federation(spec), (20,)), 0)  # 8, 8, 4, 8, 8, 4
    backend = GraphsBackend()
    expected = answer(LoopBackend(), spec, request)
    assert_equal(answer(backend, spec, request), expected)
    assert (recorded.captures, recorded.replays) == (2, 4)  # the first step of each size is plain
    assert_equal(answer(backend, spec, request), expected)
    assert (recorded.captures, recorded.replays) == (2, 10)
    longer = Train(make_lanes(federation(spec), (40,)), 0)  # ten rows, which lie in another place
    assert_equal(answer(backend, spec, longer), answer(LoopBackend(), spec, longer))
    assert (recorded.captures, recorded.replays) == (3, 20)


class LatePlace(HostPlace):
    """A stream as the host sees it: steps are handed over in groups, results arrive later."""

    ahead, group = 4, 8

    def __init__(self):
        self.under_way, self._fetched = set(), []

    def fetch(self, tensor):
        host = torch.zeros_like(tensor)
        self._fetched.append((host, tensor))
        return host

    def mark(self):
        fetched, self._fetched = self._fetched, []
        looks = itertools.count()

        def ended():
            if next(looks) < 3:
                return False
            self.under_way.discard(ended)
            for host, tensor in fetched:
                host.copy_(tensor)
            return True

        self.under_way.add(ended)
        return ended


def test_results_are_read_once_they_have_arrived(monkeypatch):
    spec = make_spec(local_epochs=20)
    fed, place, most = federation(spec), LatePlace(), []
    advance = slot.Slot.advance

    def watched(one):
        advance(one)
        most.append(len(place.under_way))

    monkeypatch.setattr(slot.Slot, "advance", watched)
    monkeypatch.setattr(GraphsBackend, "_next_place", lambda _: place)
    backend = GraphsBackend()
    backend._most_slots = 1
    request = Train(make_lanes(fed, (30, 20)), 0)  # 80 and 60 steps
    found = answer(backend, spec, request)
    assert_equal(found, answer(LoopBackend(), spec, request))
    assert max(most) == place.ahead
    asked = Predict([one.weights for one in found], "test")
    for ours, theirs in zip(
        answer(backend, spec, asked), answer(LoopBackend(), spec, asked), strict=True
    ):
        assert np.array_equal(ours.classes, theirs.classes)
        assert ours.loss == theirs.loss
    assert not place.under_way


def test_a_stream_is_told_of_all_tensors_that_another_one_makes_or_takes(monkeypatch):
    """Or their memory might be used again while it still reads or writes them."""
    taken, handed = [], []
    monkeypatch.setattr(HostPlace, "take_over", lambda _, *given: taken.extend(given))
    monkeypatch.setattr(HostPlace, "hand_over", lambda _, *given: handed.extend(given))
    spec, backend = make_spec(optimizer=ADAM), GraphsBackend()
    fed = federation(spec)
    moments = {name: direction(fed)(9).abs() for name in ("mean", "square")}
    lanes = make_lanes(fed, (20,), linear=direction(fed), optimizer_state={"step": 3} | moments)
    request = Train(lanes, 0, keep_optimizer_state=True)
    [result] = answer(backend, spec, request)
    asked = [lanes[0].weights, lanes[0].linear, *moments.values()]
    assert {id(one) for one in asked} == {id(one) for one in taken}
    kept = [result.weights, result.optimizer_state["mean"], result.optimizer_state["square"]]
    assert {id(one) for one in kept} == {id(one) for one in handed}
    answer(backend, spec, Predict([result.weights], "test"))
    assert taken[-1] is result.weights


def test_a_slot_serves_runs_with_other_constants(monkeypatch):
    """What is no part of the key is loaded: step size, seed, round, moments, linear term."""
    monkeypatch.setattr(slot, "_OFTEN", 1)
    recorded = watch_captures(monkeypatch)
    backend = GraphsBackend()
    backend._most_slots = 1
    for optimizer in (sgd(momentum=0.9, clip_norm=0.5), ADAM):
        for number, lr in enumerate((0.05, 0.01)):
            spec = make_spec(seed=number, optimizer=optimizer | {"lr": lr})
            fed = federation(spec)
            lanes = make_lanes(fed, (9, 20), linear=direction(fed))
            request = Train(lanes, number, True, objective=Objective(proximal=0.5))
            expected = answer(LoopBackend(), spec, request)
            assert_equal(answer(backend, spec, request), expected)
    assert len(backend._kinds) == 2
    assert recorded.captures == 2 * 5  # batches of 8 and 1; in longer rows of 8, 4 and 1


@pytest.mark.parametrize(("failing", "field"), [(0, "dataset"), (1, "model"), (2, "optimizer")])
def test_what_cannot_be_captured_is_trained_without_and_named(monkeypatch, failing, field):
    """The step fails first, then its parts are tried in turn."""
    recorded = watch_captures(monkeypatch, refuse=lambda number: number in (1, 2 + failing))
    spec = make_spec()
    request = Train(make_lanes(federation(spec), (20, 12)), 0)
    with pytest.warns(UserWarning, match=f"without a CUDA graph, .* spec field {field} ="):
        found = answer(GraphsBackend(), spec, request)
    assert_equal(found, answer(LoopBackend(), spec, request))
    assert recorded.replays == 0


def test_no_field_is_named_where_no_part_fails_by_itself(monkeypatch):
    watch_captures(monkeypatch, refuse=lambda number: number == 1)
    spec = make_spec()
    request = Train(make_lanes(federation(spec), (20,)), 0)
    with pytest.warns(UserWarning, match="slower: its step cannot be captured"):
        found = answer(GraphsBackend(), spec, request)
    assert_equal(found, answer(LoopBackend(), spec, request))


def test_a_prediction_is_said_to_take_steps_without_a_graph(monkeypatch):
    watch_captures(monkeypatch, refuse=lambda number: True)
    spec = make_spec()
    weights = federation(spec).initial_weights()
    examples = np.tile(np.arange(500), 5)  # two batches of 1,000, and 500
    request = Predict([weights], "test", examples)
    with pytest.warns(UserWarning, match="a prediction, takes its steps without a CUDA graph"):
        (found,) = answer(GraphsBackend(), spec, request)
    (expected,) = answer(LoopBackend(), spec, request)
    assert found.loss == expected.loss


@pytest.mark.parametrize("ends", ["well", "with an error", "not"])
@pytest.mark.parametrize("broken_by", [torch.OutOfMemoryError, KeyboardInterrupt])
def test_what_breaks_a_capture_is_told_not_that_it_cannot_be_ended(monkeypatch, ends, broken_by):
    """CUDA may refuse to end a capture that is broken; what was captured then has to stay."""

    class Fails:
        def step(self):
            raise broken_by

    @contextlib.contextmanager
    def capturing(graph, pool, stream):
        try:
            yield
        finally:
            if ends != "well":
                raise RuntimeError("operation failed due to a previous error during capture")

    def end_allocation(device, pool):
        if ends != "not":
            raise RuntimeError("not currently recording to the pool")

    place = places.CudaPlace.__new__(places.CudaPlace)
    place._stream, place._pool = SimpleNamespace(device_index=0), (0, 1)
    monkeypatch.setattr(device, "_NEVER_FREED", [])
    monkeypatch.setattr("torch.cuda.CUDAGraph", SimpleNamespace)
    monkeypatch.setattr("torch.cuda.graph", capturing)
    monkeypatch.setattr("torch.cuda.graph_pool_handle", lambda: (0, 2))
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", end_allocation, raising=False)
    work = Fails()
    buffers = weakref.ref(work)
    with places.without_collections():
        try:
            place.capture(work.step)
            pytest.fail("the capture is not broken")
        except broken_by:  # as pytest.raises would keep the traceback
            del work
        assert buffers() is None, "the memory of the slot would wait for the garbage collector"
    assert len(device._NEVER_FREED) == (ends == "not")
    assert place._pool == ((0, 2) if ends == "not" else (0, 1))


def test_an_idle_slot_holds_nothing_of_the_lane_before(cnn_lanes):
    backend = GraphsBackend()
    answer(backend, *cnn_lanes)
    slots = [one for kind in backend._kinds.values() for one in kind.slots]
    assert slots
    assert all(one._ended is one._scalars is one.piece is None for one in slots)


def test_a_deadline_in_mid_request_ends_the_work(monkeypatch):
    spec = make_spec()
    backend = GraphsBackend()
    backend.submit(
        0, jobs.Ask(spec, data.load("synthetic"), request_for(federation(spec), Objective()))
    )
    steps = []
    step = lane.Training.step
    monkeypatch.setattr(
        lane.Training, "step", lambda self, size: steps.append(size) or step(self, size)
    )
    monkeypatch.setattr(graphs, "check_time", lambda _: len(steps) < 5 or out_of_time())
    with pytest.raises(jobs.OutOfTime):
        backend.collect(0.0)
    assert len(steps) == 5
    backend.close()


def out_of_time():
    raise jobs.OutOfTime


def test_the_time_of_requests_adds_up(monkeypatch):
    looks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: next(looks), monotonic=time.monotonic)
    monkeypatch.setattr(graphs, "time", clock)
    spec = make_spec(model=SMALL_CNN)
    backend = GraphsBackend()
    fed = federation(spec)
    for ticket, sizes in enumerate(((20, 9), (40,))):
        request = Train(make_lanes(fed, sizes), ticket)
        backend.submit(ticket, jobs.Ask(spec, data.load("synthetic"), request))
    started = next(looks)
    found = []
    while len(found) < 2:
        found += backend.collect()
    elapsed = next(looks) - started
    assert 0.5 * elapsed < sum(one.seconds for one in found) <= elapsed
    assert min(one.seconds for one in found) > 0


def test_losses_are_compiled_once_for_all_lanes(monkeypatch):
    """The compiler's front end alone, which decides when to compile anew; its code is not made."""
    made = []

    def note(graph, _):
        made.append(graph)
        return graph.forward

    compiling._compiled.cache_clear()
    monkeypatch.setattr(
        compiling, "_compile", lambda function: torch.compile(function, backend=note, dynamic=False)
    )
    spec = make_spec(model={"name": "liu3", "width": 0.1}, last_batch="drop_single")
    request = Train(make_lanes(federation(spec), (17, 20, 24, 9)), 0)
    backend = GraphsBackend(compile="on")
    assert_equal(answer(backend, spec, request), answer(LoopBackend(), spec, request))
    assert backend.compiles
    assert len(made) == 1  # full batches; the smaller last ones are not compiled
    compiling._compiled.cache_clear()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a C compiler")
@pytest.mark.filterwarnings("ignore")  # the compiler looks for CUDA and warns
def test_compiled_losses_are_those_of_the_loop(monkeypatch):
    """With PyTorch's own compiler, for dropout and batch normalisation in few layers."""

    def build(shape, classes, width):
        convolution = torch.nn.Conv2d(shape[0], 3, 3, stride=4)
        layers = [convolution, BatchNorm2d(3), torch.nn.ReLU(), torch.nn.Flatten(), Dropout(0.5)]
        return torch.nn.Sequential(*layers, torch.nn.Linear(3 * 7 * 7, classes))

    tiny = Network("tiny", build, mflop=1)
    monkeypatch.setitem(NETWORKS._found, tiny.name, (tiny, None, tiny.module))
    # Else PyTorch starts a process for each instruction set, to see whether it works.
    monkeypatch.setattr("torch._inductor.config.cpp.vec_isa_ok", False)
    compiling._compiled.cache_clear()
    spec = make_spec(model={"name": tiny.name}, last_batch="drop_single", optimizer=sgd(lr=0.01))
    request = Train(make_lanes(federation(spec), (24, 17)), 0)
    found = answer(GraphsBackend(compile="on"), spec, request)
    assert_near(found, answer(LoopBackend(), spec, request), request.lanes, share=1e-3)
    compiling._compiled.cache_clear()


def broken(*_):
    raise RuntimeError("no such device\nand more")


def forward_only(graph, inputs):
    """A compiler that fails at the gradient, which it is asked for when that is first computed."""
    from functorch.compile import make_boxed_func  # slow to import
    from torch._dynamo.backends.common import aot_autograd

    backend = aot_autograd(
        fw_compiler=lambda part, _: make_boxed_func(part.forward), bw_compiler=broken
    )
    return backend(graph, inputs)


@pytest.mark.parametrize("compiler", [broken, forward_only])
@pytest.mark.parametrize("required", [False, True])
def test_what_cannot_be_compiled_is_said(monkeypatch, required, compiler):
    compiling._compiled.cache_clear()
    monkeypatch.setattr(
        compiling,
        "_compile",
        lambda function: torch.compile(function, backend=compiler, dynamic=False),
    )
    spec = make_spec(model={"name": "liu3", "width": 0.1}, last_batch="drop_single")
    request = Train(make_lanes(federation(spec), (20,)), 0)
    monkeypatch.setattr(GraphsBackend, "_pays_to_compile", lambda *_: True)
    backend = GraphsBackend(compile="on" if required else "auto")
    if required:
        with pytest.raises(FedreproError, match=r"compile on: spec field model = liu3"):
            answer(backend, spec, request)
    else:
        with pytest.warns(UserWarning, match="spec field model = liu3 cannot be compiled"):
            found = answer(backend, spec, request)
        assert_equal(found, answer(LoopBackend(), spec, request))
        assert not backend.compiles
    compiling._compiled.cache_clear()


def test_compiling_and_determinism_exclude_each_other(monkeypatch):
    monkeypatch.setattr(backends, "check_choice", lambda *_: None)
    with pytest.raises(FedreproError, match=r"compile on: .* leave deterministic out"):
        backends.backend("graphs", compile="on", deterministic=True)


@pytest.mark.parametrize("case", CASES)
def test_deterministic_training_needs_no_operation_that_is_not(case):
    """On a GPU PyTorch would refuse it (torch.use_deterministic_algorithms lists them)."""
    changes, objective = CASES[case]
    spec = make_spec(**changes)
    request = request_for(federation(spec), Objective(**objective), linear=True)
    request = dataclasses.replace(request, epochs=1)  # a second one takes the same steps
    with OperationNames() as used:
        found = answer(GraphsBackend(deterministic=True), spec, request)
    assert_equal(found, answer(LoopBackend(), spec, request))
    assert "nll_loss_backward" in used.names
    assert not used.names & NOT_DETERMINISTIC


class OperationNames(TorchDispatchMode):
    """While it is entered, notes the names of PyTorch's operations."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


NOT_DETERMINISTIC = {
    *("avg_pool3d_backward", "max_pool3d_with_indices_backward", "fractional_max_pool2d_backward"),
    *("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward"),
    *("adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward"),
    *("max_unpool2d", "max_unpool3d", "grid_sampler_2d_backward", "grid_sampler_3d_backward"),
    *("upsample_linear1d_backward", "upsample_bilinear2d_backward", "upsample_bicubic2d_backward"),
    *("reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward"),
    *("nll_loss2d_forward", "_ctc_loss_backward", "_embedding_bag", "put_", "histc", "bincount"),
    *("median", "cumsum", "cumsum_", "scatter_reduce", "scatter_reduce_"),
}


def test_deterministic_training_refuses_an_operation_that_is_not(monkeypatch):
    """This one is refused on a CPU, too; afterwards PyTorch is as it was."""
    spec = make_spec(model=SMALL_CNN)
    request = Train(make_lanes(federation(spec), (8,)), 0)
    expected = answer(LoopBackend(), spec, request)

    def put(images):
        return images.clone().put_(torch.tensor([0]), torch.tensor([0.5]))

    batch = DeviceData.batch
    monkeypatch.setattr(
        DeviceData, "batch", lambda *given: (put((found := batch(*given))[0]), found[1])
    )
    refused = answer(GraphsBackend(deterministic=True), spec, request)
    assert "deterministic: put_ of PyTorch may give other bits" in str(refused)
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.utils.deterministic.fill_uninitialized_memory
    assert len(answer(GraphsBackend(), spec, request)) == len(expected)


def test_what_cublas_was_not_told_in_time_is_said(cnn_lanes, monkeypatch):
    """In the words of PyTorch, which looks at the variable once in a process."""

    def refused(self, size):
        raise RuntimeError(
            "Deterministic behavior was enabled with either `torch.use_deterministic_algorithms("
            "True)` or `at::Context::setDeterministicAlgorithms(true)`, but this operation is not "
            "deterministic because it uses CuBLAS and you have CUDA >= 10.2. To enable "
            "deterministic behavior in this case, you must set an environment variable before "
            "running your PyTorch application: CUBLAS_WORKSPACE_CONFIG=:4096:8"
        )

    monkeypatch.setattr(lane.Training, "step", refused)
    error = answer(GraphsBackend(deterministic=True), *cnn_lanes)
    assert str(error).startswith("deterministic: set CUBLAS_WORKSPACE_CONFIG=:4096:8 in the env")
    assert "Traceback" not in str(error)


def test_a_backend_that_is_never_deterministic_says_so(monkeypatch):
    monkeypatch.setattr(backends, "_device", torch.device)
    with pytest.raises(FedreproError, match="deterministic: backend loop"):
        backends.backend("loop", "cuda", deterministic=True)


def test_odd_batches_are_captured_up_to_a_bound(monkeypatch):
    """Clients of many sizes leave last batches of many sizes."""
    recorded = watch_captures(monkeypatch)
    monkeypatch.setattr(slot, "_MOST_GRAPHS", 2)
    monkeypatch.setattr(slot, "_OFTEN", 1)
    spec = make_spec(local_epochs=3)
    backend = GraphsBackend()
    backend._most_slots = 1
    for sizes in ((9,), (10,), (11,), (12,)):
        request = Train(make_lanes(federation(spec), sizes), 0)
        assert_equal(answer(backend, spec, request), answer(LoopBackend(), spec, request))
    assert recorded.captures == 2  # full batches, and the first of the four last ones


@pytest.mark.parametrize(("epochs", "captures"), [(4, 1), (5, 2)])
def test_a_smaller_last_batch_is_captured_if_it_recurs(monkeypatch, epochs, captures):
    recorded = watch_captures(monkeypatch)
    spec = make_spec(local_epochs=epochs)
    answer(GraphsBackend(), spec, Train(make_lanes(federation(spec), (12,)), 0))
    assert recorded.captures == captures


def test_a_closed_backend_leaves_nothing_for_the_garbage_collector():
    """It might destroy a graph while another one is captured."""
    backend, spec = GraphsBackend(), make_spec()
    answer(backend, spec, Train(make_lanes(federation(spec), (12,)), 0))
    slots = [weakref.ref(one) for kind in backend._kinds.values() for one in kind.slots]
    assert slots
    with places.without_collections():
        backend.close()
        assert all(one() is None for one in slots)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_as_it_was_after_a_capture(enabled):
    try:
        (gc.enable if enabled else gc.disable)()
        with places.without_collections():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


def test_what_a_lost_device_holds_is_not_freed(monkeypatch):
    def lost(*_):
        raise torch.AcceleratorError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(device, "_NEVER_FREED", [])
    monkeypatch.setattr("torch.cuda.synchronize", lost)
    monkeypatch.setattr("torch.cuda.empty_cache", lost)
    backend, spec = GraphsBackend(), make_spec()
    answer(backend, spec, Train(make_lanes(federation(spec), (12,)), 0))
    kinds = backend._kinds
    backend.device = torch.device("cuda")
    backend.close()
    _, held, _ = device._NEVER_FREED
    assert held is kinds
    assert len(kinds) == 1
    assert backend._kinds == {}


def test_more_work_may_pay_for_compiling_later(monkeypatch):
    """The first slot of a kind is made when one run is in flight, others when there are more."""
    asked = []
    monkeypatch.setattr(
        GraphsBackend, "_pays_to_compile", lambda self, job: asked.append(1) or len(asked) > 1
    )
    monkeypatch.setattr(compiling, "_compiled", lambda: lane.losses)
    backend, spec = GraphsBackend(compile="auto"), make_spec(model=SMALL_CNN)
    request = Train(make_lanes(federation(spec), (20, 20, 20)), 0)
    assert_equal(answer(backend, spec, request), answer(LoopBackend(), spec, request))
    assert len(asked) == 2
    assert backend.compiles
    (kind,) = backend._kinds.values()
    assert any(one.is_outdated for one in kind.slots)
    assert_equal(answer(backend, spec, request), answer(LoopBackend(), spec, request))
    assert not any(one.is_outdated for one in kind.slots)


def test_a_request_takes_the_seconds_of_all_its_lanes():
    spec, requests = make_spec(), OpenRequests()
    request = Train(make_lanes(federation(spec), (8, 8)), 0)
    requests.add(7, jobs.Ask(spec, data.load("synthetic"), request))
    requests.settle(7, 1, "second", 2.0)
    assert requests.answers() == []
    requests.settle(7, 0, "first", 0.5)
    assert requests.answers() == [jobs.Answer(7, ["first", "second"], 2.5)]
    assert len(requests) == 0


def test_it_pays_to_compile_where_much_work_is_ahead(monkeypatch):
    backend = GraphsBackend(compile="auto")
    monkeypatch.setattr(graphs, "compiler_problem", lambda: None)
    lanes = make_lanes(federation(make_spec()), (17, 20))

    def pays(rounds, place="cuda", deterministic=False, done=0):
        request = Train(lanes, done)
        spec = make_spec(model={"name": "mnist_cnn"}, rounds=rounds)
        backend._resources.add_dataset(data.load("synthetic"))
        backend._open = OpenRequests()
        backend._open.add(0, jobs.Ask(spec, data.load("synthetic"), request))
        backend.device, backend.deterministic = torch.device(place), deterministic
        return backend._pays_to_compile(job_of(spec, request))

    assert not pays(rounds=10_000)
    assert pays(rounds=1_000_000)
    assert not pays(rounds=1_000_000, done=999_000)
    assert not pays(rounds=1_000_000, place="cpu")
    assert not pays(rounds=1_000_000, deterministic=True)


@pytest.mark.parametrize("make", [LoopBackend, GraphsBackend, lambda: PoolBackend(1)])
def test_runs_on_images_of_other_sizes_do_not_share_them(make):
    """Of a network whose weights do not depend on the size: no shape would tell."""
    network = {"name": "fixup_resnet20", "width": 0.25, "init": "glorot"}  # its own predict 0
    small, large = (
        make_spec(dataset=RGB | {"downsample": factor}, model=network) for factor in (2, 1)
    )
    asks = []
    for spec in (small, large):
        fed = federation(spec)
        asks += [
            (spec, Train(make_lanes(fed, (16, 9)), 0, epochs=1)),
            (spec, Predict([fed.initial_weights()], "test", np.arange(30))),
        ]
    together, alone = make(), [make() for _ in asks]
    found = answers(together, asks)
    expected = [answer(backend, *ask) for backend, ask in zip(alone, asks, strict=True)]
    for backend in (together, *alone):
        backend.close()
    for i in (0, 2):
        assert_equal(found[i], expected[i])
    for i in (1, 3):
        assert found[i][0].loss == expected[i][0].loss
    assert found[1][0].loss != found[3][0].loss


def test_prepared_inputs_have_the_bits_of_those_of_each_batch():
    for transform in ("unit", "centred", "standard", "tutorial24"):
        spec = make_spec(dataset=RGB | {"transform": transform, "augment": True}).dataset
        plain, ready = (data_of(spec) for _ in range(2))
        ready.prepare("test", 1 << 30)
        chosen = torch.tensor([3, 77, 4, 4])
        for ours, theirs in zip(
            ready.batch("test", chosen), plain.batch("test", chosen), strict=True
        ):
            assert torch.equal(ours, theirs)
        ready.prepare("train", 1 << 30)
        draws = ready.draws(torch.tensor(7), 4)  # augmented examples are never prepared
        assert torch.equal(
            ready.batch("train", chosen, draws)[0], plain.batch("train", chosen, draws)[0]
        )
    plain.prepare("test", 1000)
    assert not plain._ready  # larger than the limit


def data_of(spec):
    kept = Resources(torch.device("cpu"))
    kept.add_dataset(data.load(spec.name))
    return kept.data(make_spec(dataset=spec.model_dump()))


# Memory


@pytest.fixture
def cnn_lanes():
    spec = make_spec(model=SMALL_CNN)
    return spec, Train(make_lanes(federation(spec), (20, 9, 16, 8, 8, 30, 12)), round=0)


def as_on_a_gpu():
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def as_on_a_cpu():
    torch.empty(1 << 52)  # more than any machine has


@pytest.mark.parametrize("stack", [False, True])
@pytest.mark.parametrize("raise_it", [as_on_a_gpu, as_on_a_cpu])
def test_a_lane_of_the_pool_that_does_not_fit_fails_by_name(monkeypatch, stack, raise_it):
    """A dense stack that does not fit is trained lane by lane."""
    spec = make_spec()
    good = Train(make_lanes(federation(spec), (20, 9)), 0)
    bad = dataclasses.replace(good, round=1)
    expected = answer(LoopBackend(), spec, good)
    train = lane.train_lane

    def limited(net, teacher, examples, job, deadline):
        if job.request.round == 1 and job.lane.stream == ("client", 1):
            raise_it()
        return train(net, teacher, examples, job, deadline)

    monkeypatch.setattr(lane, "train_lane", limited)
    monkeypatch.setattr(dense, "train_stack", lambda *_: raise_it())
    fine, refused = answers(PoolBackend(1, stack=stack), [(spec, good), (spec, bad)])
    assert_equal(fine, expected)
    assert isinstance(refused, LaneError)
    assert "lane 'client 1' does not fit into memory" in str(refused)


def test_a_request_of_the_loop_that_does_not_fit_says_so(cnn_lanes, monkeypatch):
    monkeypatch.setattr(lane.Training, "step", lambda *_: as_on_a_gpu())
    refused = answer(LoopBackend(), *cnn_lanes)
    assert str(refused).startswith("a lane or model does not fit into memory even alone; lower b")


def test_another_error_in_the_pool_fails_its_lanes_with_the_traceback(cnn_lanes, monkeypatch):
    def broken(*_):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(lane, "train_lane", broken)
    monkeypatch.setattr(dense, "train_stack", broken)
    spec = make_spec()
    dense_lanes = spec, Train(make_lanes(federation(spec), (20, 9)), 0)
    for backend in (PoolBackend(1), PoolBackend(1, stack=True)):
        for ask in (cnn_lanes, dense_lanes):
            refused = answer(backend, *ask)
            assert isinstance(refused, LaneError)
            assert "the program failed over it:\nTraceback" in str(refused)
            assert "RuntimeError: mat1 and mat2 shapes" in str(refused)


def out_of_memory_with(most, monkeypatch, raise_it, where="step"):
    """Let memory run out when more than so many slots take their first step, or are made."""
    holders = []

    def limited(self, *arguments, **options):
        if self not in holders:
            if len(holders) >= most:
                raise_it()
            holders.append(self)
        return original(self, *arguments, **options)

    original = getattr(lane.Training, where)
    monkeypatch.setattr(lane.Training, where, limited)
    return holders


@pytest.mark.parametrize("where", ["__init__", "load", "step"])
@pytest.mark.parametrize("raise_it", [as_on_a_gpu, as_on_a_cpu])
def test_where_memory_runs_out_fewer_slots_train_on(cnn_lanes, monkeypatch, raise_it, where):
    spec, request = cnn_lanes
    expected = answer(LoopBackend(), spec, request)
    holders = out_of_memory_with(2, monkeypatch, raise_it, where)
    backend = GraphsBackend()
    for _ in range(2):
        assert_equal(answer(backend, spec, request), expected)
    assert len(holders) == 2


def test_a_lane_that_does_not_fit_by_itself_fails_by_name_and_other_runs_go_on(
    monkeypatch, tmp_path
):
    train = lane.Training.load

    def limited(self, job):
        if job.spec.model.name == "mnist_cnn":
            as_on_a_gpu()
        return train(self, job)

    monkeypatch.setattr(lane.Training, "load", limited)
    specs = [three_clients(model=SMALL_CNN), three_clients()]
    bad, good = trained(GraphsBackend(), specs, tmp_path)
    assert "round 1: lane 'client " in str(bad)
    assert " does not fit into memory" in str(bad)
    assert "batch" in str(bad)
    assert good.progress.round == 3


def test_lanes_that_all_run_out_of_memory_end_with_an_error(cnn_lanes, monkeypatch):
    """And none waits for the others for ever."""
    monkeypatch.setattr(lane.Training, "step", lambda *_: as_on_a_gpu())
    for ask in (cnn_lanes, (make_spec(), Train(make_lanes(federation(make_spec()), (9, 9)), 0))):
        refused = answer(GraphsBackend(), *ask)
        assert isinstance(refused, LaneError)
        assert "does not fit into memory" in str(refused)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CUDA error: out of memory", True),
        ("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)", True),
        ("GET was unable to find an engine to execute this computation", True),
        ("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", True),
        ("CUDA error: an illegal memory access was encountered", False),
    ],
)
def test_memory_also_runs_out_outside_of_the_allocator(text, expected):
    assert jobs.is_out_of_memory(RuntimeError(text)) is expected


def test_slots_that_are_idle_make_room_for_those_of_another_run(monkeypatch):
    small, large = make_spec(model=SMALL_CNN), make_spec()
    requests = [Train(make_lanes(federation(spec), (20, 9)), 0) for spec in (small, large)]
    backend = GraphsBackend()
    sizes = [
        backend._slot_bytes(job_of(spec, request))
        for spec, request in zip((small, large), requests, strict=True)
        if backend.load(jobs.Ask(spec, data.load("synthetic"), request))
    ]
    backend._memory = backend._resources.bytes + 2 * max(sizes)
    for spec, request in zip((small, large), requests, strict=True):
        assert_equal(answer(backend, spec, request), answer(LoopBackend(), spec, request))
        assert sum(len(kind.slots) for kind in backend._kinds.values()) <= 3
    assert sum(bool(kind.slots) for kind in backend._kinds.values()) == 1


def test_predictions_need_room_for_the_largest_outputs_not_for_all():
    module = resources().network(make_spec(model={"name": "liu1"})).module
    weights = 2 * 4 * (784 * 30 + 30 + 30 * 10 + 10)
    assert memory.prediction_bytes(module, (1, 28, 28), 100) == weights + 3 * 4 * 784 * 100


def test_without_memory_for_prepared_inputs_those_of_a_batch_are_computed(cnn_lanes, monkeypatch):
    expected, empty, tries = answer(LoopBackend(), *cnn_lanes), torch.empty, []
    splits = [len(labels) for labels in resources().data(cnn_lanes[0]).labels.values()]

    def short(*shape, **options):
        if shape[0] in splits:
            tries.append(shape[0])
            as_on_a_gpu()
        return empty(*shape, **options)

    monkeypatch.setattr(torch, "empty", short)
    backend = GraphsBackend()
    for _ in range(2):
        assert_equal(answer(backend, *cnn_lanes), expected)
    assert tries == splits, "memory runs out once for each"


def test_idle_slots_make_room_for_another_data_set(cnn_lanes, monkeypatch):
    backend = GraphsBackend()
    answer(backend, *cnn_lanes)
    [first] = backend._kinds.values()
    assert first.slots
    put = Resources.data

    def short(self, spec):
        return (
            as_on_a_gpu() if first.slots and spec.dataset.name != "synthetic" else put(self, spec)
        )

    monkeypatch.setattr(Resources, "data", short)
    spec = make_spec(model=SMALL_CNN, dataset=RGB)
    request = Train(make_lanes(federation(spec), (20, 9)), 0)
    assert_equal(answer(backend, spec, request), answer(LoopBackend(), spec, request))
    assert not first.slots


def test_a_capture_takes_the_kernels_that_the_step_before_has_searched_for(cnn_lanes, monkeypatch):
    make, capture, step = graphs.Slot.__init__, HostPlace.capture, lane.Training.step
    seen = []

    def searching(self, *parts, search):
        make(self, *parts, search=True)

    def note(what, size):
        if size == cnn_lanes[0].batch:
            seen.append((what, torch.backends.cudnn.benchmark))

    def captured(self, work):
        note("capture", work.args[0])
        return capture(self, work)

    def stepped(self, size):
        note("step", size)
        step(self, size)

    monkeypatch.setattr(graphs.Slot, "__init__", searching)
    monkeypatch.setattr(HostPlace, "capture", captured)
    monkeypatch.setattr(lane.Training, "step", stepped)
    answer(GraphsBackend(), *cnn_lanes)
    assert ("step", True) in seen
    assert ("capture", False) in seen
    assert ("capture", True) not in seen


def test_another_error_in_a_slot_fails_its_lane_with_the_traceback(cnn_lanes, monkeypatch):
    def broken(self, size):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(lane.Training, "step", broken)
    refused = answer(GraphsBackend(), *cnn_lanes)
    assert isinstance(refused, LaneError)
    assert "RuntimeError: mat1 and mat2 shapes" in str(refused)


def test_a_network_that_cannot_be_made_fails_its_lane_and_not_the_others(cnn_lanes, monkeypatch):
    def broken(self, spec, **_):
        raise TypeError("a layer of a plugin")

    backend = GraphsBackend()
    other = (make_spec(), Train(make_lanes(federation(make_spec()), (12,)), 0))
    expected = answer(backend, *other)  # has its slot by then
    monkeypatch.setattr(GraphsBackend, "_network", broken)
    refused, found = answers(backend, [cnn_lanes, other])
    assert isinstance(refused, LaneError)
    assert "TypeError: a layer of a plugin" in str(refused)
    assert_equal(found, expected)


def test_an_error_of_the_device_is_not_taken_for_one_of_a_lane(cnn_lanes, monkeypatch):
    def lost(self, size):
        raise torch.AcceleratorError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(lane.Training, "step", lost)
    monkeypatch.setattr(graphs, "has_failed", lambda *_: True)
    with pytest.raises(torch.AcceleratorError):
        answer(GraphsBackend(), *cnn_lanes)


def test_a_memory_limit_bounds_the_slots_and_the_runs_in_flight(cnn_lanes):
    spec, request = cnn_lanes
    expected = answer(LoopBackend(), spec, request)
    kept = resources()
    module, examples = kept.network(spec).module, kept.data(spec)
    one = memory.lane_bytes(module, (1, 28, 28), spec, Objective(), spec.batch)
    ask = jobs.Ask(spec, data.load("synthetic"), request)
    pixels = data.load("synthetic").train_x.nbytes + data.load("synthetic").test_x.nbytes
    assert pixels < examples.bytes < 1.1 * pixels
    for limit, slots in ((3 * one + 1, 3), (one // 2, 1)):
        backend = GraphsBackend(memory_limit=limit + examples.bytes)
        assert backend.load(ask) == pytest.approx(7 * one / limit)
        assert_equal(answer(backend, spec, request), expected)
        [kind] = backend._kinds.values()
        assert len(kind.slots) == slots


@pytest.mark.parametrize(("seconds", "slots"), [(0.0, 1), (graphs._STALE + 1, 4)])
def test_slots_out_of_use_make_room_for_others(cnn_lanes, seconds, slots):
    """Also for a kind that has one, once nothing was put into theirs for a while."""
    backend, (spec, request) = GraphsBackend(), cnn_lanes
    answer(backend, spec, request)
    [first] = backend._kinds.values()
    first.most = len(first.slots)
    first.used -= seconds
    smaller = make_spec(model=SMALL_CNN, batch=4)
    few = Train(make_lanes(federation(smaller), (12, 12, 12, 12)), 0)
    size = backend._slot_bytes(job_of(smaller, few))
    backend._memory = backend._resources.bytes + len(first.slots) * first.size + size
    assert_equal(answer(backend, smaller, few), answer(LoopBackend(), smaller, few))
    _, second = backend._kinds.values()
    assert len(second.slots) == slots
    assert (first.slots == []) == (slots == 4)
    assert first.most == (first.bound if slots == 4 else 7)


def test_memory_estimates():
    def estimate(model=SMALL_CNN, batch=8, optimizer=None, **objective):
        spec = make_spec(model=model, optimizer=optimizer or sgd())
        module = resources().network(spec).module
        return memory.lane_bytes(module, (1, 28, 28), spec, Objective(**objective), batch)

    module = resources().network(make_spec(model={"name": "liu1"})).module
    assert memory.activation_bytes(module, (1, 28, 28)) == [4 * n for n in (784, 30, 30, 10)]
    plain = estimate()
    assert estimate(batch=16) > plain
    assert estimate(model={"name": "mnist_cnn", "width": 0.1}) > plain
    assert estimate(optimizer=sgd(momentum=0.9)) > plain
    assert estimate(optimizer=ADAM) > estimate(optimizer=sgd(momentum=0.9))
    assert estimate(terms=(("pairwise_divergence", 0.5),)) > plain
    assert estimate(proximal=0.5) > plain
    assert memory.available(torch.device("cpu")) > 1 << 20


# Bad input


def all_backends(two_workers):
    """Return the ways to train."""
    return [LoopBackend(), PoolBackend(1), PoolBackend(1, stack=True), two_workers, GraphsBackend()]


def check_that_only_the_bad_one_fails(ways, good, bad, *words, dataset=None):
    """Train a good request beside a bad one in several ways."""
    spec, request = good
    expected = answer(LoopBackend(), spec, request, dataset)
    assert not isinstance(expected, LaneError)
    for backend in ways:
        fine, refused = answers(backend, [good, bad], dataset)
        if spec.model.name in NORMED:
            assert_near(fine, expected, request.lanes, share=0.02)
        else:
            assert_close(fine, expected)
        assert_equal(fine, answer(backend, spec, request, dataset))
        assert isinstance(refused, LaneError)
        for word in words:
            assert word in str(refused)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"examples": np.zeros(0, np.int64)}, ["has no examples"]),
        ({"lr": 1e30}, ["not finite", "optimizer.lr"]),
    ],
    ids=["empty", "step size"],
)
@pytest.mark.parametrize("model", [{"name": "liu1", "width": 0.3}, SMALL_CNN])
def test_a_bad_lane_fails_its_run_by_name(model, changes, words, two_workers):
    spec = make_spec(model=model)
    lanes = make_lanes(federation(spec), (20, 9, 16))
    wrong = [lanes[0], dataclasses.replace(lanes[1], **changes), lanes[2]]
    check_that_only_the_bad_one_fails(
        all_backends(two_workers),
        (spec, Train(lanes, 2)),
        (spec, Train(wrong, 2)),
        "lane 'client 1' has",
        *words,
    )


@pytest.mark.parametrize("model", ["liu1", "mnist_cnn", "fedcd_cnn"])
def test_data_that_are_not_numbers_fail_their_run_only(model, two_workers):
    """Example 0 is the one that rows of batches are padded with."""
    generator = np.random.default_rng(0)
    images = generator.normal(size=(40, 1, 20, 12)).astype(np.float32)
    images[[0, 33]] = np.nan
    dataset = float_dataset(images, np.arange(40) % 10)
    spec = make_spec(
        dataset={"name": "kws_mfcc20"},
        model={"name": model, "width": 0.1},
        partition={"scheme": "iid_plain", "clients": 2},
    )
    fed = federation(spec, dataset)
    lanes = [
        dataclasses.replace(one, examples=np.arange(begin, end))
        for one, begin, end in zip(
            make_lanes(fed, (1, 1)) * 2, (1, 14, 18, 30), (14, 18, 30, 40), strict=True
        )
    ]
    check_that_only_the_bad_one_fails(
        all_backends(two_workers),
        (spec, Train(lanes[:3], 0)),
        (spec, Train(lanes[3:], 0)),
        "lane 'client 1' has",
        "not finite",
        dataset=dataset,
    )


def test_a_batch_larger_than_the_lane(two_workers):
    fed = federation(make_spec())
    lanes = make_lanes(fed, (5,))
    whole = [dataclasses.replace(lanes[0], batch=5)]
    for backend in all_backends(two_workers):
        kept = answer(backend, make_spec(), Train(lanes, 0))
        assert_close(kept, answer(backend, make_spec(), Train(whole, 0)))
        request = Train(lanes, 0, keep_optimizer_state=True)
        spec = make_spec(last_batch="drop", optimizer=ADAM)
        [nothing] = answer(backend, spec, request)
        assert torch.equal(nothing.weights, lanes[0].weights)
        assert nothing.loss == 0
        assert nothing.optimizer_state["step"] == 0
        assert float(nothing.optimizer_state["mean"].abs().max()) == 0


def test_batch_normalisation_of_a_single_example_is_refused_with_the_fix(two_workers):
    spec = make_spec(model={"name": "liu3", "width": 0.1})
    request = Train(make_lanes(federation(spec), (16, 9)), 0)
    for backend in (LoopBackend(), PoolBackend(1), GraphsBackend(), two_workers):
        refused = answer(backend, spec, request)
        assert isinstance(refused, LaneError)
        assert "client 1" in str(refused)
        assert "last_batch: drop_single" in str(refused)
        fixed = spec.model_copy(update={"last_batch": "drop_single"})
        assert not isinstance(answer(backend, fixed, request), LaneError)
    assert "raise batch" in str(
        answer(LoopBackend(), spec.model_copy(update={"batch": 1}), request)
    )


def test_convolutions_train_on_a_single_example():
    spec = make_spec(model={"name": "resnet9", "width": 0.1}, dataset=RGB)
    request = Train(make_lanes(federation(spec), (9,)), 0, epochs=1)
    assert_equal(answer(GraphsBackend(), spec, request), answer(LoopBackend(), spec, request))


# Devices


def test_tf32_needs_a_gpu(tmp_path):
    specs = [three_clients(precision="tf32"), three_clients()]
    for backend in (LoopBackend(), GraphsBackend(), PoolBackend(1)):
        refused, fine = trained(backend, specs, tmp_path)
        assert isinstance(refused, FedreproError)
        assert "precision: tf32" in str(refused)
        assert "on the device cuda" in str(refused)
        assert fine.progress.round == 3


def test_a_gpu_that_lacks_tf32_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    cuda = torch.device("cuda:0")
    device.check_precision(make_spec(), cuda)
    with pytest.raises(FedreproError, match=r"from 2020 on, and cuda:0 is older \(Tesla T4\)"):
        device.check_precision(make_spec(precision="tf32"), cuda)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    device.check_precision(make_spec(precision="tf32"), cuda)


@pytest.mark.parametrize(
    ("name", "device", "message"),
    [
        ("auto", "nonsense", "device nonsense: not a PyTorch device"),
        ("loop", "meta", "device meta: only cpu and cuda"),
    ],
)
def test_devices_that_are_none(name, device, message):
    with pytest.raises(FedreproError, match=message):
        backends.backend(name, device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", BACKENDS)
def test_without_a_gpu_cuda_is_refused(name):
    with pytest.raises(FedreproError, match="device cuda: PyTorch sees no GPU here"):
        backends.backend(name, "cuda")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_cannot_be_used_is_refused_before_the_training(monkeypatch):
    """Whatever PyTorch says of it: here, that there is no driver."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(FedreproError, match=r"device cuda: cannot be used \(.*\); nvidia-smi"):
        backends.backend("graphs", "cuda")


def test_the_pool_has_no_use_for_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(backends, "_use", lambda _: None)
    with pytest.raises(FedreproError, match="backend pool uses CPU cores"):
        backends.backend("pool", "cuda")
    with pytest.raises(FedreproError, match=r"backend stacked: no such backend .*known: auto"):
        backends.backend("stacked")


def test_auto_takes_the_cores_of_a_cpu():
    backend = backends.backend("auto", workers=3)
    assert isinstance(backend, PoolBackend)
    assert backend.workers == 3
    assert backend.name == "auto"
    assert backends.backend("auto").workers >= 1


# On a GPU


def test_vectors_go_where_the_network_is():
    net = FlatModule(models.build("liu1", (1, 28, 28), 10), torch.device("meta"))
    vector = torch.zeros(net.layout.size)
    assert net.inward(vector).device == net.flat.device
    assert net.outward(net.flat).device == net.flat.device


class PretendedPlace(graphs.HostPlace):
    """A stream of a pretended GPU."""

    def __init__(self, device):
        assert device.type == "cuda"

    def fetch(self, tensor):
        return tensor.cpu()


def can_be_pretended(case):
    """Batch normalisation calls kernels that only a GPU has, and bfloat16 asks the driver."""
    spec = make_spec(**CASES[case][0])
    return spec.model.name not in NORMED and spec.precision == "float32"


@pytest.mark.parametrize("case", [case for case in CASES if can_be_pretended(case)])
def test_a_step_mixes_no_devices_and_waits_for_none(case, monkeypatch):
    """As far as a pretended GPU can tell: it has no backward pass, so gradients are made up."""
    changes, objective = CASES[case]
    spec = make_spec(**changes)
    request = request_for(federation(spec), Objective(**objective), linear=True)
    request = dataclasses.replace(request, epochs=1)  # a second one takes the same steps
    waits = []

    def differentiate(net, loss):
        assert loss.device.type == "cuda"
        net.gradient.fill_(1e-3)

    step = lane.Training.step
    with pretended_gpu() as gpu:
        for place, name, replacement in (
            (graphs, "CudaPlace", PretendedPlace),
            (memory, "available", lambda _: 1 << 33),
            (lane, "upload", lambda source, target: target.copy_(source)),
            (FlatModule, "differentiate", differentiate),
            (torch.cuda, "current_stream", lambda _: SimpleNamespace(synchronize=lambda: None)),
        ):
            monkeypatch.setattr(place, name, replacement)

        def counted(training, size):
            before = gpu.waits
            step(training, size)
            waits.append(gpu.waits - before)

        monkeypatch.setattr(lane.Training, "step", counted)
        backend = GraphsBackend("cuda")
        results = answer(backend, spec, request)
        assert not isinstance(results, LaneError), results
        assert all(one.weights.device.type == "cuda" for one in results)
        assert waits
        assert not any(waits)
        assert gpu.transfers == [2] * 4  # loss and sum of the weights of each lane
        predicted = answer(backend, spec, Predict([one.weights for one in results], "test"))
        assert not isinstance(predicted, LaneError), predicted
        assert all(one.classes.shape == (500,) for one in predicted)


GPU_CASES = {
    "liu1": {"model": {"name": "liu1"}, "optimizer": ADAM},
    "mnist_cnn": {"model": {"name": "mnist_cnn", "width": 0.3}, "optimizer": sgd(momentum=0.9)},
    "resnet9": {
        "model": {"name": "resnet9", "width": 0.2},
        "dataset": RGB | {"augment": True},
    },
}


def to_cpu(results):
    return [
        dataclasses.replace(
            one,
            weights=one.weights.cpu(),
            optimizer_state={
                name: value.cpu() if isinstance(value, torch.Tensor) else value
                for name, value in (one.optimizer_state or {}).items()
            },
        )
        for one in results
    ]


@needs_gpu
@pytest.mark.parametrize("case", GPU_CASES)
def test_graphs_on_a_gpu_equal_the_loop_on_the_cpu(case):
    spec = make_spec(**GPU_CASES[case])
    fed = federation(spec)
    request = request_for(fed, ALL_AT_ONCE, linear=True)
    expected = answer(LoopBackend(), spec, request)
    backend = GraphsBackend("cuda")
    for _ in range(2):  # the second time the graphs are there
        for ours, theirs in zip(to_cpu(answer(backend, spec, request)), expected, strict=True):
            torch.testing.assert_close(ours.weights, theirs.weights, rtol=5e-3, atol=5e-4)
            assert ours.loss == pytest.approx(theirs.loss, rel=1e-3)


@needs_gpu
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("width", [0.1, 0.25])
@pytest.mark.parametrize("name", ["fedcd_cnn", "resnet9"])
def test_batch_normalisation_in_lower_precision_on_a_gpu(name, width, precision):
    """Channels last, where the channels are a multiple of four."""
    spec = make_spec(model={"name": name, "width": width}, dataset=RGB, precision=precision)
    request = request_for(federation(spec), Objective())
    for result in answer(GraphsBackend("cuda"), spec, request):
        assert bool(result.weights.isfinite().all())


@needs_gpu
@pytest.mark.parametrize("case", CASES)
def test_every_hook_is_captured_on_a_gpu(case):
    """Without the warning that something is trained without a graph, which would be an error."""
    changes, objective = CASES[case]
    spec = make_spec(**changes)
    request = request_for(federation(spec), Objective(**objective), linear=True)
    for result in answer(GraphsBackend("cuda"), spec, request):
        assert bool(result.weights.isfinite().all())


ANYWHERE = pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=needs_gpu, id="gpu")]
)


@ANYWHERE
@pytest.mark.parametrize("case", GPU_CASES)
def test_graphs_predict_as_the_loop_on_a_cpu(case, device, monkeypatch):
    """Each model on its own examples; in a slot shorter ones, longer ones, shorter ones again."""
    spec = make_spec(**GPU_CASES[case])
    fed, rng = federation(spec), np.random.default_rng(3)
    models = [fed.initial_weights(k) for k in range(6)]
    own = [rng.integers(0, fed.train_size, count) for count in (30, 130, 30, 201, 30, 100)]
    request = Predict(models, "train", own)
    monkeypatch.setattr(lane, "PREDICT_BATCH", 100)
    monkeypatch.setattr(lane.Predicting, "batch", 100)
    expected = answer(LoopBackend(), spec, request)
    monkeypatch.setattr(graphs, "STREAMS", 1)
    monkeypatch.setattr(graphs, "_MOST_PREDICTING", 2)
    backend = GraphsBackend(device)
    for _ in range(3):  # the smaller batches of a slot are captured, too
        found = answer(backend, spec, request)
        for ours, theirs, examples in zip(found, expected, own, strict=True):
            assert (ours.classes == theirs.classes).mean() > 0.95
            assert np.array_equal(ours.correct, ours.classes == fed.labels[examples])
            assert ours.loss == pytest.approx(theirs.loss, rel=1e-4)


@ANYWHERE
def test_a_network_that_looks_at_values_is_trained_without_graphs(device, monkeypatch):
    """A GPU cannot capture it; on the same stream others are captured afterwards."""

    class Looks(torch.nn.Module):
        def forward(self, images):
            return images * float(images.max() >= 0)

    def build(shape, classes, width):
        flat = torch.nn.Flatten()
        return torch.nn.Sequential(Looks(), flat, torch.nn.Linear(math.prod(shape), classes))

    looks = Network("looks", build, mflop=1)
    monkeypatch.setitem(NETWORKS._found, looks.name, (looks, None, looks.module))
    monkeypatch.setattr(graphs, "STREAMS", 1)
    backend = GraphsBackend(device)
    for model in ("looks", "liu1"):
        spec = make_spec(model={"name": model})
        request = Train(make_lanes(federation(spec), (24, 17)), 0)
        refused = pytest.warns(UserWarning, match="spec field model = .* cannot be captured")
        with refused if (device, model) == ("cuda", "looks") else contextlib.nullcontext():
            found = answer(backend, spec, request)
        assert_near(to_cpu(found), answer(LoopBackend(), spec, request), request.lanes, share=0.02)


@needs_gpu
@pytest.mark.parametrize("case", GPU_CASES)
def test_deterministic_graphs_have_the_same_bits_twice_alone_and_beside_others(case):
    spec = make_spec(**GPU_CASES[case])
    request = request_for(federation(spec), ALL_AT_ONCE, linear=True)
    backend = GraphsBackend("cuda", deterministic=True)
    first = answer(backend, spec, request)
    again, beside = answers(backend, [(spec, request)] * 2)
    fresh = GraphsBackend("cuda", deterministic=True)
    alone = [
        answer(fresh, spec, dataclasses.replace(request, lanes=[one]))[0] for one in request.lanes
    ]
    for results in (again, beside, alone):
        assert_equal(results, first)


@needs_gpu
def test_runs_on_a_gpu_equal_those_on_the_cpu(tmp_path):
    together = trained(GraphsBackend("cuda"), RUNS, tmp_path, in_flight=5)
    alone = trained(LoopBackend(), RUNS, tmp_path)
    for ours, theirs in zip(together, alone, strict=True):
        assert ours.progress.final["accuracy"] == pytest.approx(
            theirs.progress.final["accuracy"], abs=0.02
        )


@needs_gpu
@pytest.mark.filterwarnings("ignore")  # the compiler's own imports are deprecated on Python 3.12
def test_compiled_losses_on_a_gpu_are_those_of_the_loop():
    spec = make_spec(**GPU_CASES["resnet9"])
    request = request_for(federation(spec), Objective())
    backend = GraphsBackend("cuda", compile="on")
    expected = answer(LoopBackend(), spec, request)
    assert_near(to_cpu(answer(backend, spec, request)), expected, request.lanes, share=0.02)
    assert backend.compiles


@needs_gpu
def test_a_gpu_accepts_tf32_and_leaves_the_settings_as_they_were(tmp_path):
    def settings():
        matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        return matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic

    before = settings()
    [run] = trained(GraphsBackend("cuda"), [make_spec(model=SMALL_CNN, precision="tf32")], tmp_path)
    assert run.progress.round == 3
    assert before == settings()
