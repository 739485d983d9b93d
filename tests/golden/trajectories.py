"""Two rounds of every algorithm on synthetic data: small runs whose numbers are pinned."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from fedrepro.fl import data
from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.engine.active import ActiveRun, Storage
from fedrepro.fl.engine.driver import Listener, RunFailure, drive
from fedrepro.fl.engine.jobs import Backend
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.fl.models import NETWORKS
from fedrepro.fl.partition import SCHEMES
from fedrepro.fl.spec import RunSpec
from fedrepro.runs.records import rounded

BASE = {
    "dataset": {"name": "synthetic"},
    "model": {"name": "liu1"},
    "optimizer": {"name": "sgd", "lr": 0.05, "lr_decay": 0.9},
    "batch": 20,
    "rounds": 2,
    "seed": 3,
}
NODES = {"scheme": "balanced_percent", "clients": 3, "percent": 10, "validation": 400}
ADAM = {"name": "adam", "lr": 0.004}
DEVICES = {"train": 20, "validation": 20, "test": 20, "validation_pool": 500}
CLUSTERS = {"scheme": "label_clusters", "clusters": [3, 2, 1, 1, 1], "per_label": 20}
SMALL_CNN = {"name": "mnist_cnn", "width": 0.0625}
SHORT_STEPS = {"name": "sgd", "lr": 0.001, "lr_decay": 0.9}
SHORTEST_STEPS = {"name": "sgd", "lr": 0.0001, "lr_decay": 0.9}
"""For narrow networks with batch normalisation: with longer steps the rounding of one processor or
another grows within two rounds to differences of per cents."""

_CASES = {
    "fedavg_iid_plain": {
        "algorithm": {"name": "fedavg", "participants": 2, "weighting": "uniform"},
        "partition": {"scheme": "iid_plain", "clients": 6},
    },
    "fedavg_emd_shift": {
        "algorithm": {"name": "fedavg", "sgd_reference": True},
        "partition": {"scheme": "emd_shift", "clients": 10, "emd": 1.08, "per_class": 50},
    },
    "fedavg_cnn_two_class": {
        "algorithm": {"name": "fedavg"},
        "partition": {
            "scheme": "class_aligned",
            "clients": 10,
            "classes_per_client": 2,
            "per_class": 40,
        },
        "model": {"name": "mnist_cnn", "width": 0.0625},
    },
    "fedavg_own_initial": {
        "algorithm": {"name": "fedavg", "initial": "own"},
        "partition": {"scheme": "iid_plain", "clients": 6},
    },
    "fedavg_kept_moments": {
        "algorithm": {"name": "fedavg", "optimizer_state": "keep"},
        "partition": NODES,
        "optimizer": ADAM,
    },
    "fedavg_pretrained": {
        "algorithm": {"name": "fedavg", "pretrain_epochs": 1},
        "partition": {
            "scheme": "class_aligned",
            "clients": 10,
            "classes_per_client": 1,
            "per_class": 20,
        },
        "batch": 10,
    },
    "fedavg_data_sharing": {
        "algorithm": {"name": "fedavg", "warm_up": {"until": 0.9, "epochs": 3}},
        "partition": {
            "scheme": "data_sharing",
            "clients": 10,
            "per_class": 20,
            "held_out": 10,
            "beta": 0.2,
            "alpha": 0.5,
        },
    },
    "divergence_bound": {
        "algorithm": {"name": "divergence_bound"},
        "partition": {"scheme": "emd_shift", "clients": 10, "emd": 1.44, "per_class": 20},
        "optimizer": {"name": "sgd", "lr": 0.05},
        "local_epochs": 3,
    },
    "fedavg_dropout": {
        "algorithm": {"name": "fedavg"},
        "partition": {"scheme": "iid_stratified", "clients": 2, "per_class": 40},
        "model": {"name": "liu2"},
    },
    "fedavg_augmented": {
        "dataset": {"name": "synthetic_rgb", "transform": "standard", "augment": True},
        "algorithm": {"name": "fedavg"},
        "partition": {"scheme": "iid_stratified", "clients": 2, "per_class": 10},
        "model": {"name": "resnet9", "width": 0.0625},
        "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9, "clip_norm": 1.0},
    },
    "fedopt_everything": {
        "dataset": {"name": "synthetic_rgb", "transform": "standard", "augment": True},
        "algorithm": {
            "name": "fedopt",
            "server_momentum": 0.5,
            "sign_agreement": {"threshold": 2},
            "projection": {"radius": 5.0},
            "gradient_noise": 0.0001,
            "conflict_examples": 100,
            "update_rounds": [1],
        },
        "partition": {
            "scheme": "class_blocks",
            "clients": 2,
            "classes_per_client": 5,
            "per_class": 60,
            "server_share": 0.1,
            "validation": 10,
        },
        "model": {"name": "fixup_resnet20", "width": 0.125},
        "batch": 5,
        "optimizer": {"name": "sgd", "lr": 0.1, "weight_decay": 0.0005, "clip_norm": 10.0},
    },
    "fedopt_downsampled": {
        "dataset": {"name": "synthetic_rgb", "transform": "standard", "downsample": 2},
        "algorithm": {"name": "fedopt", "server_momentum": 0.5},
        "partition": {
            "scheme": "class_blocks",
            "clients": 2,
            "classes_per_client": 5,
            "per_class": 20,
        },
        "model": {"name": "fixup_resnet20", "width": 0.125},
        "batch": 10,
        "optimizer": {"name": "sgd", "lr": 0.1},
    },
    "sgd_momentum": {
        "algorithm": {"name": "sgd"},
        "partition": {"scheme": "iid_stratified", "clients": 1, "per_class": 50},
        "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 0.001},
    },
    "local_own": {
        "algorithm": {"name": "local", "initial": "own"},
        "partition": NODES,
        "optimizer": ADAM,
    },
    "selective_as_written": {
        "algorithm": {"name": "selective", "local_rounds": 2},
        "partition": NODES | {"clients": 9},
        "optimizer": ADAM,
    },
    "selective_as_run": {
        "algorithm": {
            "name": "selective",
            "local_rounds": 2,
            "compare": "first",
            "several_groups": True,
            "aggregation": "alias",
            "weighting": "uniform",
            "optimizer_state": "keep",
            "initial": "own",
        },
        "partition": NODES | {"clients": 9},
        "optimizer": ADAM,
    },
    "fedavg_local_statistics": {
        "algorithm": {"name": "fedavg", "bn_statistics": "local"},
        "partition": NODES,
        "model": {"name": "liu3", "width": 0.0625},
        "optimizer": SHORT_STEPS,
        "last_batch": "drop_single",
    },
    "selective_local_statistics": {
        "algorithm": {
            "name": "selective",
            "local_rounds": 1,
            "aggregation": "alias",
            "weighting": "uniform",
            "bn_statistics": "local",
        },
        "partition": NODES,
        "model": {"name": "liu3", "width": 0.0625},
        "optimizer": SHORT_STEPS,
        "last_batch": "drop_single",
    },
    "fedcd_hierarchical": {
        "dataset": {"name": "synthetic_rgb", "transform": "standard", "augment": True},
        "algorithm": {"name": "fedcd", "participants": 5, "milestones": [0]},
        "partition": DEVICES | {"scheme": "hierarchical", "clients": 10},
        "model": {"name": "fedcd_cnn", "width": 0.0625},
        "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.0005},
    },
    "fedcd_hypergeometric_as_run": {
        "dataset": {"name": "synthetic_rgb", "transform": "standard"},
        "algorithm": {
            "name": "fedcd",
            "participants": 3,
            "milestones": [0],
            "scoring": "code",
            "final_rule": "gap",
            "clone_lr": "legacy",
            "momentum_kick": True,
            "first_device_double": True,
        },
        "partition": DEVICES | {"scheme": "hypergeometric", "clients": 6, "pools": "shared"},
        "model": {"name": "fedcd_cnn", "width": 0.0625},
        "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9, "lr_milestones": [1]},
    },
    "fedprox_main_cluster": {
        "algorithm": {"name": "fedprox", "mu": 0.1, "participants": 3, "order": "repeated"},
        "partition": {
            "scheme": "main_cluster",
            "clients": 8,
            "main": 4,
            "labels_per_client": 2,
            "per_label": 20,
            "spread": 0.1,
        },
        "optimizer": {"name": "sgd", "lr": 0.05},
    },
    "feddyn": {
        "algorithm": {"name": "feddyn", "alpha": 0.1, "participants": 4},
        "partition": CLUSTERS,
    },
    "feddyn_as_run": {
        "algorithm": {"name": "feddyn", "alpha": 0.5, "participants": 4, "server": "as_run"},
        "partition": CLUSTERS,
    },
    "fedfa_pareto": {
        "algorithm": {"name": "fedfa", "participants": 6},
        "partition": {"scheme": "pareto_labels", "clients": 12, "draws": 2, "budget": 80},
    },
    "fedfa_as_run": {
        "algorithm": {
            "name": "fedfa",
            "alpha": 0.0,
            "participants": 4,
            "server_lr": 0.001,
            "guard": False,
        },
        "partition": CLUSTERS,
    },
    "cadis": {
        "algorithm": {"name": "cadis", "participants": 6},
        "partition": CLUSTERS,
        "model": SMALL_CNN,
        "batch": 8,
    },
    "cadis_as_run": {
        "algorithm": {
            "name": "cadis",
            "participants": 6,
            "vector": "bias_change",
            "pairing": "set_order",
            "rescale": "as_run",
            "closure": "two_hop",
            "threshold": 0.9,
            "threshold_growth": 1.0005,
            "transitive": "off",
            "weighting": "uniform",
        },
        "partition": CLUSTERS,
        "model": SMALL_CNN,
        "batch": 8,
        "last_batch": "drop",
    },
    "cadis_published_counts": {
        "dataset": {"name": "synthetic_pills"},
        "algorithm": {"name": "cadis", "participants": 3},
        "partition": {"scheme": "published_counts", "counts": "pill", "share": 0.02},
        "model": {"name": "resnet18", "width": 0.0625},
        "optimizer": SHORTEST_STEPS,
        "batch": 8,
    },
    "probe": {
        "algorithm": {"name": "probe", "warm_up": 1},
        "partition": CLUSTERS | {"labels": "random"},
        "rounds": 1,
    },
}


def _examples() -> dict[str, dict[str, Any]]:
    """Return a case of every algorithm, scheme and network that is in none of the cases above."""
    algorithms = {case["algorithm"]["name"] for case in _CASES.values()}
    schemes = {case["partition"]["scheme"] for case in _CASES.values()}
    networks = {(BASE | case)["model"]["name"] for case in _CASES.values()}
    plain = {"algorithm": {"name": "fedavg"}, "partition": {"scheme": "iid_plain", "clients": 6}}
    found = {
        f"algorithm_{name}": plain | {"algorithm": dict(algorithm.example)}
        for name, algorithm in ALGORITHMS.items()
        if name not in algorithms
    }
    found |= {
        f"partition_{name}": plain | {"partition": dict(scheme.example)}
        for name, scheme in SCHEMES.items()
        if name not in schemes and scheme.example
    }
    return found | {
        f"model_{name}": plain | {"model": {"name": name, "width": 0.0625}}
        for name in NETWORKS
        if name not in networks
    }


CASES = _CASES | _examples()


def spec(name: str) -> RunSpec:
    """Return the spec of a case."""
    return RunSpec.model_validate(BASE | CASES[name])


def run(name: str, backend: Backend | None = None) -> dict[str, Any]:
    """Train a case; return what its record would hold: metrics, final values, partition digest.

    Args:
        name: a key of :data:`CASES`.
        backend: what trains it; None: the loop.
    """
    torch.set_num_threads(1)
    result: dict[str, Any] = {}

    def keep(active: ActiveRun) -> None:
        result["metrics"] = dict(active.progress.metrics)
        result["final"] = active.progress.final
        result["partition"] = active.fed.partition.sha256

    def fail(_: str, failure: RunFailure) -> None:
        raise failure

    with TemporaryDirectory() as folder:
        drive(
            [spec(name)],
            lambda s: data.load(s.dataset.name),
            backend or LoopBackend(),
            Listener(done=keep, failed=fail),
            Storage(checkpoints=Path(folder)),
        )
    return {key: rounded(value) for key, value in result.items()}
