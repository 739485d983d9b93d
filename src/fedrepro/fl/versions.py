"""Component versions that enter run ids.

A version is raised when a component's numbers change; then exactly the runs that use it get new
ids and train again. A change that leaves the numbers alone (the golden trajectories still match)
keeps the version: see tests/golden/test_golden.py, which notices every change of code.
"""

from __future__ import annotations

from typing import Any

VERSIONS: dict[str, int] = {
    "engine": 1,
    "data.mnist": 1,
    "data.cifar10": 1,
    "data.cifar100": 1,
    "data.kws_mfcc": 1,
    "data.kws_mfcc20": 1,
    "data.synthetic": 1,
    "data.synthetic_rgb": 1,
    "data.pill": 1,
    "data.synthetic_pills": 1,
    "partition.iid_plain": 1,
    "partition.iid_stratified": 1,
    "partition.class_aligned": 1,
    "partition.data_sharing": 1,
    "partition.class_blocks": 1,
    "partition.emd_shift": 1,
    "partition.balanced_percent": 1,
    "partition.hierarchical": 1,
    "partition.hypergeometric": 1,
    "partition.label_clusters": 1,
    "partition.main_cluster": 1,
    "partition.pareto_labels": 1,
    "partition.index_file": 1,
    "partition.published_counts": 1,
    "model.liu1": 1,
    "model.liu2": 1,
    "model.liu3": 1,
    "model.mnist_cnn": 1,
    "model.cifar_tutorial": 1,
    "model.kws_cnn": 1,
    "model.fedcd_cnn": 1,
    "model.resnet9": 1,
    "model.fixup_resnet20": 1,
    "model.resnet18": 1,
    "algorithm.fedavg": 1,
    "algorithm.divergence_bound": 1,
    "algorithm.fedopt": 1,
    "algorithm.sgd": 1,
    "algorithm.local": 1,
    "algorithm.selective": 1,
    "algorithm.fedcd": 1,
    "algorithm.fedprox": 1,
    "algorithm.feddyn": 1,
    "algorithm.fedfa": 1,
    "algorithm.cadis": 1,
    "algorithm.probe": 1,
}


def component_versions(spec: dict[str, Any]) -> dict[str, int]:
    """Return the versions of the components that a spec (as plain JSON values) uses.

    Raises:
        KeyError: the spec names a component that this code does not have.
    """
    names = (
        "engine",
        f"data.{spec['dataset']['name']}",
        f"partition.{spec['partition']['scheme']}",
        f"model.{spec['model']['name']}",
        f"algorithm.{spec['algorithm']['name']}",
    )
    return {name: VERSIONS[name] for name in names}
