"""Which source files make up each versioned component, and their fingerprints."""

import ast
import hashlib
from pathlib import Path

from fedrepro.fl.data import describe
from fedrepro.fl.versions import VERSIONS

SOURCE = Path(__file__).parents[2] / "src/fedrepro/fl"

SHARED = {
    "engine": [
        "streams.py",
        "device_streams.py",
        "requests.py",
        "engine/compiled.py",
        "engine/data.py",
        "engine/dense.py",
        "engine/driver.py",
        "federation.py",
        "engine/graphs.py",
        "engine/jobs.py",
        "engine/lane.py",
        "layout.py",
        "engine/loop.py",
        "engine/network.py",
        "engine/objective.py",
        "engine/optim.py",
        "engine/pool.py",
        "engine/resources.py",
        "engine/places.py",
        "engine/worker.py",
        "models/layers.py",
        "algorithms/averaging.py",
        "algorithms/scalars.py",
        "algorithms/evaluation.py",
        "models/__init__.py",
    ],
    "data": ["data/dataset.py", "data/sources.py", "data/official.py", "data/packs.py"],
    "partition": ["partition/__init__.py", "partition/shared.py", "partition/statistics.py"],
}
OWN = {
    "data.kws_mfcc20": ["data/mfcc.py"],
    "data.kws_mfcc": ["data/speech_commands.py", "data/mfcc.py"],
    "data.synthetic": ["data/synthetic.py"],
    "data.synthetic_rgb": ["data/synthetic.py"],
    "data.pill": ["data/pill.py", "data/pill_counts.py"],
    "data.synthetic_pills": ["data/synthetic_pills.py", "data/synthetic.py"],
    "partition.data_sharing": ["partition/data_sharing.py", "partition/class_aligned.py"],
    "algorithm.fedavg": ["algorithms/fedavg.py", "algorithms/participants.py"],
    "algorithm.selective": ["algorithms/selective.py", "algorithms/participants.py"],
    "algorithm.fedprox": ["algorithms/fedprox.py", "algorithms/participants.py"],
    "algorithm.feddyn": ["algorithms/feddyn.py", "algorithms/participants.py"],
    "algorithm.fedfa": ["algorithms/fedfa.py", "algorithms/participants.py"],
    "algorithm.cadis": [
        "algorithms/cadis.py",
        "algorithms/classifier.py",
        "algorithms/clustering.py",
        "algorithms/participants.py",
    ],
    "algorithm.probe": [
        "algorithms/probe.py",
        "algorithms/classifier.py",
        "algorithms/clustering.py",
    ],
    "partition.main_cluster": ["partition/main_cluster.py", "partition/label_clusters.py"],
    "partition.pareto_labels": ["partition/pareto_labels.py", "partition/label_clusters.py"],
    "partition.published_counts": ["partition/published_counts.py", "data/pill_counts.py"],
    "partition.index_file": ["partition/index_file.py", "data/cadis.py"],
    "partition.iid_plain": ["partition/iid.py"],
    "partition.iid_stratified": ["partition/iid.py"],
    "partition.hierarchical": ["partition/archetypes.py"],
    "partition.hypergeometric": ["partition/archetypes.py"],
    "algorithm.fedcd": ["algorithms/fedcd.py", "algorithms/fedcd_scores.py"],
}


def files(component: str) -> list[str]:
    """Return the source files of a component, relative to the package."""
    kind, _, name = component.partition(".")
    shared = SHARED.get(kind, [])
    if not name:
        return shared
    if kind == "data":
        return shared + OWN.get(component, [])
    folder = {"model": "models", "algorithm": "algorithms", "partition": "partition"}[kind]
    own = {"partition.emd_shift": ["partition/emd.py"]} | OWN
    return shared + own.get(component, [f"{folder}/{name}.py"])


def imports(file: str) -> set[str]:
    """Return the files of data, partition, models and algorithms that a file imports, anywhere."""
    names = set()
    for node in ast.walk(ast.parse((SOURCE / file).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {f"{node.module}"}
    found = {f"{name.removeprefix('fedrepro.fl.').replace('.', '/')}.py" for name in names}
    folders = ("data/", "partition/", "models/", "algorithms/")
    return {name for name in found if name.startswith(folders) and (SOURCE / name).exists()}


def fingerprint(component: str) -> str:
    """Hash a component's code; comments, docstrings and layout do not count.

    To a data set belong the constants of ``transform: standard`` in config/datasets.yaml.
    """
    digest = hashlib.sha256()
    for file in files(component):
        tree = ast.parse((SOURCE / file).read_text())
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and _is_text(body[0]):
                node.body = body[1:] or [ast.Pass()]
        digest.update(repr(_plain(tree)).encode())
    kind, _, name = component.partition(".")
    if kind == "data":
        info = describe(name)
        digest.update(repr((info.mean, info.std, info.statistics_axis)).encode())
    return digest.hexdigest()[:16]


def _plain(node: object) -> object:
    """Return code as lists that are the same in every version of Python.

    New versions add fields, which are empty where nothing new is used, and 3.12 adds empty strings
    inside of f-strings: both are left out.
    """
    if isinstance(node, ast.JoinedStr):
        return ["f", *(_plain(part) for part in node.values if getattr(part, "value", None) != "")]
    if isinstance(node, ast.AST):
        fields = [(name, _plain(value)) for name, value in ast.iter_fields(node)]
        return [type(node).__name__, *(field for field in fields if field[1] not in (None, []))]
    return [_plain(item) for item in node] if isinstance(node, list) else node


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


def current() -> dict[str, dict[str, object]]:
    """Return version and fingerprint of every component."""
    return {
        name: {"version": version, "fingerprint": fingerprint(name)}
        for name, version in sorted(VERSIONS.items())
    }
