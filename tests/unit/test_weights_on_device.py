"""Weights stay on the device that trains, whatever the algorithm; a pretended GPU tells."""

import pytest
import torch
from pretend import GPU, Pretended, PretendedBackend, pretended_gpu
from small_runs import drive_runs, make_spec

from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.engine.host_copy import mapped
from fedrepro.fl.engine.loop import LoopBackend

torch.set_num_threads(1)

CLUSTERS = {"scheme": "label_clusters", "clusters": [3, 2], "per_label": 8}
TWO = {"scheme": "label_clusters", "clusters": [2], "per_label": 4}
NODES = {"scheme": "balanced_percent", "clients": 3, "percent": 2, "validation": 40}
DEVICES = {"scheme": "hierarchical", "clients": 10}
DEVICES |= {"train": 10, "validation": 10, "test": 10, "validation_pool": 200}
ADAM = {"name": "adam", "lr": 0.004}
MOMENTUM = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
NORMALISED = {"model": {"name": "liu3", "width": 0.0625}, "last_batch": "drop_single"}
NORMALISED |= {"optimizer": {"name": "sgd", "lr": 0.001}}

CASES = {
    # A run of two rounds, and how often each of them may wait for the device.
    "fedavg": ({"optimizer": ADAM, "algorithm": {"optimizer_state": "keep"}}, [0, 0]),
    "fedavg divergence": ({"algorithm": {"name": "fedavg", "sgd_reference": True}}, [2, 0]),
    "fedavg statistics": (
        {"algorithm": {"name": "fedavg", "bn_statistics": "local"}, "partition": TWO} | NORMALISED,
        [0, 0],
    ),
    "fedopt": (
        {"algorithm": {"server_momentum": 0.5, "sign_agreement": {"threshold": 2}}} | NORMALISED,
        [1, 1],
    ),
    "fedopt updates": ({"algorithm": {"name": "fedopt", "update_rounds": [1]}}, [1, 7]),
    "sgd": ({"optimizer": MOMENTUM}, [0, 0]),
    "local": ({"algorithm": {"initial": "own"}, "optimizer": ADAM}, [0, 0]),
    "selective": (
        {"algorithm": {"local_rounds": 1, "initial": "own"}, "partition": NODES, "rounds": 1},
        [0, 0],
    ),
    "selective as run": (
        {
            "algorithm": {
                "name": "selective",
                "local_rounds": 0,
                "grouping": "single",
                "aggregation": "alias",
                "bn_statistics": "local",
            },
            "partition": TWO,
        }
        | NORMALISED,
        [0, 0],
    ),
    "divergence_bound": ({"algorithm": {"drawn": 1}, "local_epochs": 2}, [6, 14]),
    "fedcd": (
        {
            "algorithm": {"participants": 5, "milestones": [0], "momentum_kick": True},
            "partition": DEVICES,
            "optimizer": MOMENTUM,
        },
        [0, 0],
    ),
    "fedprox": ({"algorithm": {"mu": 0.1}}, [0, 0]),
    "feddyn": ({"algorithm": {"alpha": 0.1, "participants": 3}}, [1, 1]),
    "fedfa": ({"algorithm": {"participants": 3, "server_lr": 0.1}}, [1, 1]),
    "cadis": ({"algorithm": {"participants": 4}}, [1, 1]),
    "probe": ({"algorithm": {"warm_up": 1}, "rounds": 1}, [0, 4]),
}
"""Waits: one for all numbers of a round; fedopt: one a row of inner products, of five clients and
SGD; divergence_bound: three a step (two in the first, where all models are the same), one a round,
and in its summary one a row of inner products; probe: one a kind of vector."""


def spec_of(name):
    changes, _ = CASES[name]
    algorithm = {"name": name} | changes.get("algorithm", {})
    small = {"partition": CLUSTERS, "local_epochs": 1, "rounds": 2}
    return make_spec(**small | changes | {"algorithm": algorithm})


def train(spec, backend, folder, **options):
    """Train a run; return it when it is done, or raise why it failed."""
    done = []

    def failed(_, failure):
        raise failure

    drive_runs([spec], backend, folder, done.append, failed, **options)
    return done[0]


def on_cpu(state):
    return mapped(state, lambda x: x.inner if isinstance(x, Pretended) else x)


def same(one, other):
    """Compare states to the bit."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(
            one.nan_to_num(nan=-9.0), other.nan_to_num(nan=-9.0)
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def assert_same_run(ours, other):
    assert ours.progress.metrics == other.progress.metrics
    assert ours.progress.final == other.progress.final
    assert same(on_cpu(vars(ours.state)), vars(other.state))


def test_every_algorithm_is_tried():
    assert {spec_of(name).algorithm.name for name in CASES} == set(ALGORITHMS)


@pytest.mark.parametrize("name", CASES)
def test_weights_stay_on_the_device_and_numbers_are_read_together(name, tmp_path):
    spec = spec_of(name)
    plain = train(spec, LoopBackend(), tmp_path)
    waits = []
    with pretended_gpu() as gpu:
        run = train(
            spec,
            PretendedBackend(),
            tmp_path,
            on_progress=lambda active: waits.extend((r.progress.round, gpu.waits) for r in active),
            checkpoint_seconds=0,
        )
    assert_same_run(run, plain)
    floats = []
    mapped(vars(run.state), lambda x: floats.append(x) if x.dtype == torch.float32 else None)
    assert floats
    assert all(x.device == GPU for x in floats)
    assert all(size < run.fed.layout.parameters for size in gpu.transfers)
    assert not gpu.reads or spec.algorithm.name in ("feddyn", "fedfa")
    first = min(count for done, count in waits if done == 1)  # before it is evaluated
    assert [first, gpu.waits - first] == CASES[name][1]
