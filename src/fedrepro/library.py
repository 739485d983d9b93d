"""fedrepro as a library: load, partition, train, look, from a notebook or a program.

    import fedrepro as fr

    data = fr.load("mnist")
    parts = fr.partition("dirichlet", data, clients=10, alpha=0.3, seed=0)
    result = fr.train(data, parts, fr.algorithm("fedprox", mu=0.1), model="liu1", rounds=10)
    result.frame, result.plot(), result.records

It is the engine, the identity and the records of the pipeline. Records lie in a folder of the
caller's; a run that has one is not trained again, and a killed one goes on from its checkpoint.
"""

from __future__ import annotations

import inspect
import operator
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedrepro.base.configfile import Model, Place, did_you_mean, nearest, places, renamed, validate
from fedrepro.base.errors import FedreproError
from fedrepro.fl import data as datasets
from fedrepro.fl.algorithms import ALGORITHMS, Algorithm, AlgorithmParams
from fedrepro.fl.data import Dataset
from fedrepro.fl.data.dataset import ANY, content_sha256
from fedrepro.fl.models import NETWORKS, Network
from fedrepro.fl.partition import SCHEMES, Partition, Scheme, build_partition, lists
from fedrepro.fl.spec import RunSpec, run_id, use
from fedrepro.runs import records
from fedrepro.runs.plan import PlannedRun
from fedrepro.runs.records import RunRecord

if TYPE_CHECKING:
    import matplotlib.figure
    import torch


def load(
    name: str, data_root: str | Path | None = None, *, allow_other_data: bool = False
) -> Dataset:
    """Load a data set, downloading it if need be.

    Args:
        name: a data set of fedrepro or of an installed plugin, such as ``mnist`` or ``cifar10``.
        data_root: folder of packed data; None takes the usual sources.
        allow_other_data: whether to take data whose content differs from the data set's; runs on
            them have the content hash in their identity.

    Raises:
        FedreproError: there is no such data set (names the nearest), it is not available, or the
            data here are other data.
    """
    if not isinstance(name, str):
        raise FedreproError(
            f"name: {name!r:.50} is not the name of a data set; `Dataset.from_arrays` makes one of "
            "arrays"
        )
    folder = None if data_root is None else Path(data_root)
    return datasets.load(name, folder, content=ANY if allow_other_data else None)


@dataclass(frozen=True)
class Parts:
    """Who holds which examples of a data set.

    Attributes:
        data: the data set.
        scheme: how it is cut.
        partition: the cut; without a seed of its own, that of run seed 0.
    """

    data: Dataset
    scheme: Scheme
    partition: Partition

    def __repr__(self) -> str:
        """Name the data set and the scheme, and say how large the clients are."""
        sizes = [len(positions) for positions in self.clients]
        return (
            f"Parts({self.data.name}: {len(sizes)} clients of {min(sizes):,} to {max(sizes):,} "
            f"examples by {self.scheme.scheme})"
        )

    @property
    def clients(self) -> tuple[np.ndarray, ...]:
        """Positions in the training split, int64 [n_k] for each client."""
        return self.partition.clients

    @property
    def counts(self) -> pd.DataFrame:
        """Examples per class: one row per client, one column per class."""
        return (
            pd.DataFrame(self.partition.counts).rename_axis("client").rename_axis("class", axis=1)
        )


def partition(
    scheme: str | type[Scheme] | Sequence[ArrayLike],
    data: Dataset,
    *,
    seed: int | None = None,
    **parameters: Any,
) -> Parts:
    """Cut a data set into clients.

    Args:
        scheme: name of a partition scheme, such as ``dirichlet``, ``iid_plain`` or ``emd_shift``;
            a scheme that the program itself defines, whose runs are trained anew in each call of
            :func:`train`; or one list of positions in the training split for each client.
        data: the data set.
        seed: of the partition; None draws it anew for each run seed.
        parameters: of the scheme, such as ``clients`` and ``alpha``.

    Raises:
        FedreproError: there is no such scheme, a parameter is wrong, the data cannot be cut this
            way, or the program's own scheme has the name of an installed one.
    """
    _require_dataset(data)
    if isinstance(scheme, type) and issubclass(scheme, Scheme):
        scheme = use(scheme)
    if isinstance(scheme, str):
        content = {"scheme": SCHEMES.require(scheme), **parameters}
    elif parameters:
        raise FedreproError(f"{', '.join(parameters)}: lists of positions take no parameters")
    else:
        content = {"scheme": "lists", **lists.described(_positions(scheme))}
    if seed is not None:
        content["seed"] = seed
    model = SCHEMES[content["scheme"]]
    spec = _validate(content, model, f"partition {content['scheme']}", {"partition": content})
    cut = build_partition(spec, data.train_y, data.test_y, data.classes, 0)
    return Parts(data, spec, cut)


def _require_dataset(data: object) -> None:
    if not isinstance(data, Dataset):
        raise FedreproError(
            f"data: {data!r:.50} is no data set; `load` and `Dataset.from_arrays` return one"
        )


def _positions(given: Sequence[ArrayLike]) -> list[np.ndarray]:
    wrong = (
        f"parts: {given!r:.50} is neither the name of a partition scheme, nor its class, nor one "
        "list of positions for each client"
    )
    if isinstance(given, Mapping):
        raise FedreproError(f"{wrong}; of a dictionary give the values, in the order of clients")
    if isinstance(given, Parts | Scheme):  # a model is iterable, too
        raise FedreproError(f"{wrong}; give a name, with parameters")
    try:
        return [np.asarray(positions) for positions in given]
    except (TypeError, ValueError) as error:
        raise FedreproError(wrong) from error


def algorithm(name: str | Algorithm, **parameters: Any) -> AlgorithmParams:
    """Return an algorithm with its parameters.

    Args:
        name: an algorithm of fedrepro or of an installed plugin, such as ``fedavg``; or an
            algorithm that the program itself defines. Nothing tells when the code of such a one
            changes, so its runs are trained anew in each call of :func:`train`.
        parameters: of the algorithm; those left out have their defaults.

    Raises:
        FedreproError: there is no such algorithm, a parameter is wrong, or the program's own
            algorithm has the name of an installed one.
    """
    if isinstance(name, Algorithm):
        name = use(name)
    content = {"name": name, **parameters}
    return _validate(content, ALGORITHMS[name].params, f"algorithm {name}", {"algorithm": content})


def train(
    data: Dataset,
    parts: Parts | Sequence[ArrayLike],
    algorithm: AlgorithmParams | Algorithm | str = "fedavg",
    model: str | Network | dict[str, Any] = "mnist_cnn",
    rounds: int = 50,
    seeds: int | Sequence[int] = 3,
    *,
    lr: float = 0.01,
    batch: int = 32,
    local_epochs: int = 1,
    width: float = 1.0,
    transform: str = "unit",
    augment: bool = False,
    downsample: int = 1,
    optimizer: dict[str, Any] | None = None,
    device: str | torch.device = "auto",
    workers: int | None = None,
    folder: str | Path = "fedrepro-runs",
    keep_weights: bool = False,
    **spec: Any,
) -> Result:
    """Train one run per seed, side by side, and return what they recorded.

    Args:
        data: the data set.
        parts: of :func:`partition`, or one list of positions for each client.
        algorithm: of :func:`algorithm`, or what that takes, which means its defaults.
        model: name of a network, or as in a plan: ``{"name": "liu1", "init": "glorot"}``. A
            :class:`fedrepro.fl.models.Network` that the program itself defines takes the place of
            the name; its runs are trained anew in each call, as those of an own :func:`algorithm`.
        rounds: communication rounds.
        seeds: how many seeds, from 0, or a list of them.
        lr: step size of plain SGD; unused where ``optimizer`` is given.
        batch: examples a step.
        local_epochs: epochs a client and round.
        width: share of the network's hidden units and channels kept, in (0, 1]; unused where
            ``model`` says it.
        transform: how pixels reach the network: ``unit``, ``centred``, ``standard`` or
            ``tutorial24``.
        augment: whether training examples are augmented.
        downsample: each block of so many pixels squared becomes one, their mean.
        optimizer: as in a plan: ``{"name": "adam", "lr": 0.001}``.
        device: ``cpu``, ``cuda``, ``cuda:1``, or a ``torch.device``; ``auto``: a GPU where there
            is one.
        workers: processes on a CPU; None: as many as cores.
        folder: where records and checkpoints lie; relative to the working directory.
        keep_weights: whether to keep the trained global model of each run, as ``<run id>.pt`` in
            the folder (:attr:`Result.weights`).
        spec: further fields of :class:`fedrepro.fl.spec.RunSpec`, such as ``evaluate_every``; data
            set, partition and seed are those of ``data``, ``parts`` and ``seeds``.

    Raises:
        FedreproError: a value is wrong, or some runs failed; names them. Or weights are to be kept,
            and the algorithm has no single model, or a run was recorded without them.
    """
    _require_dataset(data)
    _require_defaults()
    for key, argument in _ARGUMENTS.items():
        if key in spec:
            raise FedreproError(f"{key}: {_say(argument)}")
    _require_workers(workers)
    folder = _folder(folder)
    if not isinstance(parts, Parts):
        parts = partition(parts, data)
    if parts.data.sha256 != data.sha256:
        raise FedreproError("the partition is of another data set than the one to train on")
    if content_sha256(data) != data.sha256:
        raise FedreproError(
            f"the arrays of the data set {data.name} were changed after it was loaded: make a data "
            "set of them with `Dataset.from_arrays`"
        )
    if isinstance(algorithm, Algorithm):
        algorithm = use(algorithm)
    if not isinstance(algorithm, AlgorithmParams | str):
        raise FedreproError(
            f"algorithm: {algorithm!r:.50} is neither the name of an algorithm nor what "
            "`fr.algorithm` returns"
        )
    chosen = algorithm if isinstance(algorithm, AlgorithmParams) else {"name": algorithm}
    name = algorithm.name if isinstance(algorithm, AlgorithmParams) else algorithm
    network = _network(model)
    if ALGORITHMS.is_unpackaged(name):  # another version: its code may have changed
        if not isinstance(algorithm, str | ALGORITHMS[name].params):
            raise FedreproError(f"algorithm {name} was defined anew: call fr.algorithm again")
        use(ALGORITHMS[name])
    if SCHEMES.is_unpackaged(parts.scheme.scheme):
        use(type(parts.scheme))
    content = {
        "dataset": {
            "name": data.name,
            "transform": transform,
            "augment": augment,
            "downsample": downsample,
            "content": data.sha256 if data.other else None,
        },
        "partition": parts.scheme,
        "model": {**network, "width": network.get("width", width)},
        "algorithm": chosen,
        "optimizer": optimizer or {"name": "sgd", "lr": lr},
        "batch": batch,
        "local_epochs": local_epochs,
        "rounds": rounds,
    }
    content |= spec
    runs = [_run(content | {"seed": seed}, folder) for seed in _numbers(seeds)]
    if not runs:
        raise FedreproError("seeds: give at least one")
    for seed, count in Counter(run.seed for run in runs).items():
        if count > 1:
            raise FedreproError(f"seeds: {seed} is there {count} times; every run counts once")
    if NETWORKS.is_unpackaged(runs[0].spec.model.name):
        _require_network(runs[0].spec, data)
    if keep_weights:
        _require_weights(runs, data, folder)
    _train(runs, data, str(device), workers, folder, keep_weights)
    return Result([records.read(run.id, folder) for run in runs], folder)


def _require_workers(workers: object) -> None:
    if workers is not None and (not isinstance(workers, Integral) or int(workers) < 1):
        raise FedreproError(f"workers: {workers!r}; give at least 1, or None for one a core")


def _folder(given: str | Path) -> Path:
    """Return the folder of records; it need not be there yet."""
    if not isinstance(given, str | Path) or not str(given):
        raise FedreproError(f"folder: {given!r:.50} is not the name of a folder for records")
    folder = Path(given)
    there = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    if not there.is_dir():
        raise FedreproError(f"folder: {there} is a file; name a folder for records")
    return folder


def _require_defaults() -> None:
    """Refuse settings of PyTorch that initial weights and the engine would follow.

    Raises:
        FedreproError: the program has made some; says how to set them back.
    """
    import torch

    if torch.get_default_device().type != "cpu":
        raise FedreproError(
            f"PyTorch's default device is {torch.get_default_device()}: call "
            "torch.set_default_device(None) before fr.train, and give it the device"
        )
    if torch.get_default_dtype() != torch.float32:
        raise FedreproError(
            f"PyTorch's default dtype is {torch.get_default_dtype()}: call "
            "torch.set_default_dtype(torch.float32) before fr.train"
        )
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        raise FedreproError(
            "torch.autocast is on, which would overrule the precision of runs: call fr.train "
            "outside of it, and give it the precision"
        )
    if not torch.is_grad_enabled():
        raise FedreproError(
            "PyTorch's gradients are off: call fr.train outside of torch.no_grad and "
            "torch.inference_mode"
        )
    if _tf32_is_fixed():
        raise FedreproError(
            "TF32 was set by fp32_precision of torch.backends, which would overrule the precision "
            "of runs: set it back to what it was before fr.train"
        )


def _tf32_is_fixed() -> bool:
    """Whether the older switches of TF32, which the engine uses, do not say what is done."""
    from torch import backends

    try:
        _ = backends.cuda.matmul.allow_tf32, backends.cudnn.allow_tf32
    except RuntimeError:  # they differ from the newer ones
        return True
    every: str = backends.fp32_precision  # type: ignore[attr-defined]
    return "tf32" in (every, backends.cudnn.fp32_precision)  # which convolutions follow


_ARGUMENTS = {"dataset": "data", "partition": "parts", "seed": "seeds"}
"""Fields of a spec, and the arguments of :func:`train` that they come from."""


def _say(argument: str) -> str:
    return f"say it by the argument {argument} of fr.train"


def _validate(
    content: dict[str, Any], model: type[Model], where: str, known: dict[str, Any]
) -> Model:
    """Turn the arguments of a call into a model, or say which call takes what this one does not.

    Args:
        content: the arguments.
        model: the class of the result.
        where: what errors call the call.
        known: of the content of a spec, what the call knows.

    Raises:
        FedreproError: a name or value is wrong.
    """

    def hint(key: str, value: Any) -> str:
        arguments = {*inspect.signature(train).parameters, *RunSpec.model_fields} - {"spec"}
        if key in _ARGUMENTS:
            return f"; {_say(_ARGUMENTS[key])}"
        if renamed(key, [*model.model_fields]):
            return did_you_mean(key, [*model.model_fields])
        if key in arguments:
            return f"; say fr.train(..., {key}={value!r:.50})"
        if owners := places(key, RunSpec, known):
            return "; " + " or ".join(_taken(owner, key, value, known) for owner in owners)
        names = arguments - _ARGUMENTS.keys() if model is RunSpec else model.model_fields
        return did_you_mean(key, [*names])

    return validate(content, model, where, hint=hint)


def _taken(owner: Place, key: str, value: Any, known: dict[str, Any]) -> str:
    """Say which call takes a parameter of a component."""
    field, said = owner.field, f"{key}={value!r:.50}"
    kind = dict(known.get(field, {}))
    names = owner.of or (kind.get("name", kind.get("scheme", "...")),)
    name = " or ".join(f'"{name}"' for name in names)
    if field == "algorithm":
        return f"say fr.algorithm({name}, {said})"
    if field == "partition" and names != ("lists",):
        return f"say fr.partition({name}, data, {said})"
    if field in _ARGUMENTS:
        return _say(_ARGUMENTS[field])
    return f"say fr.train(..., {field}={kind | {'name': names[0], key: value}})"


def _network(given: object) -> dict[str, Any]:
    """Return the network of a run as plans have it; let specs have one of the program's own."""
    from torch import nn

    network = dict(given) if isinstance(given, dict) else {"name": given}
    name = network.get("name", "")
    if isinstance(name, str):
        if NETWORKS.is_unpackaged(name):
            use(NETWORKS[name])
        return network
    if not isinstance(name, Network) or isinstance(name.build, nn.Module):
        raise FedreproError(
            f"model: {' '.join(repr(name).split()):.50} is no network; give a name, or "
            "Network(name, build) of fedrepro.fl.models, where build(shape, classes, width) is a "
            "function that makes a torch.nn.Sequential"
        )
    return network | {"name": use(name)}


def _numbers(seeds: Any) -> list[int]:
    try:
        listed = list(seeds) if np.ndim(seeds) else [seeds]
        if any(isinstance(seed, bool) for seed in listed):
            raise TypeError
        numbers = [operator.index(seed) for seed in listed]
    except (TypeError, ValueError) as error:  # ValueError: of lists that are not all as long
        raise FedreproError(
            f"seeds: {seeds!r:.50} is neither how many nor a list of whole numbers"
        ) from error
    return numbers if np.ndim(seeds) else [*range(numbers[0])]


def _run(content: dict[str, Any], folder: Path) -> PlannedRun:
    spec = _validate(content, RunSpec, "train", content)
    return PlannedRun(
        paper="",
        group=spec.algorithm.name,
        coordinates={},
        seed=spec.seed,
        spec=spec,
        id=run_id(spec),
        folder=folder,
    )


def _require_network(spec: RunSpec, data: Dataset) -> None:
    """Refuse a network of the program's own here, where an error leads to its code."""
    from fedrepro.fl.network_check import require_network

    network, shape = NETWORKS[spec.model.name], spec.dataset.input_shape(data.train_x.shape[1:])
    require_network(network, shape, data.classes, spec.model.width)


def _require_weights(runs: Sequence[PlannedRun], data: Dataset, folder: Path) -> None:
    from fedrepro.runs import weights

    weights.require_one_model(runs[0].spec, data)
    for run in runs:
        if run.recorded:
            weights.require(run.id, folder)


def _train(
    runs: Sequence[PlannedRun],
    data: Dataset,
    device: str,
    workers: int | None,
    folder: Path,
    keep_weights: bool,
) -> None:
    import torch

    from fedrepro.runs import session
    from fedrepro.runs.options import TrainOptions

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    options = TrainOptions(
        device=device,
        workers=workers,
        checkpoints=folder / ".checkpoints",
        wait=True,
        say_failures=False,
        keep_weights=keep_weights,
    )
    threads = torch.get_num_threads()
    named = device.startswith("cuda:") and torch.cuda.is_available()
    gpu = torch.cuda.current_device() if named else None
    try:
        session.train(runs, options, dataset=lambda _: data)
    finally:  # the program has other uses for PyTorch
        torch.set_num_threads(threads)
        if gpu is not None:
            torch.cuda.set_device(gpu)


@dataclass(frozen=True)
class Result:
    """What the runs recorded, one run per seed.

    Attributes:
        records: spec, component versions, metrics, partition and provenance of each run.
        folder: where they lie.
    """

    records: list[RunRecord]
    folder: Path

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per run and evaluated round: ``seed``, ``run``, ``round`` and the metrics.

        Accuracies are fractions in [0, 1].
        """
        table = pd.concat(map(_rounds, self.records), ignore_index=True)
        seeds = {record.run_id: record.spec["seed"] for record in self.records}
        table.insert(0, "seed", [seeds[run] for run in table["run"]])  # of any size, as they are
        return table

    @property
    def final(self) -> pd.DataFrame:
        """The last row of each run."""
        return self.frame.groupby("run", sort=False).tail(1).reset_index(drop=True)

    @property
    def weights(self) -> list[dict[str, torch.Tensor]]:
        """The trained global model of each run, a ``state_dict`` of its network, on the CPU.

        Raises:
            FedreproError: they were not kept, or cannot be read.
        """
        from fedrepro.runs import weights

        return [weights.read(record.run_id, self.folder) for record in self.records]

    def plot(
        self, metric: str = "accuracy", *, beside: Mapping[str, Result] | None = None
    ) -> matplotlib.figure.Figure:
        """Draw a metric over the rounds: the mean and its seeds; accuracies in per cent.

        Args:
            metric: a column of :attr:`frame`.
            beside: further results, by what the legend calls them; this one has the name of its
                algorithm.

        Raises:
            FedreproError: a result has no such metric (says which it has), two have one name, or
                ``beside`` has something else than results.
        """
        from fedrepro.report.drawings import series_inks
        from fedrepro.report.plots import ACCURACY, ROUND, Canvas
        from fedrepro.report.stats import summarise

        own = self.records[0].spec["algorithm"]["name"]
        others = beside or {}
        if not isinstance(others, Mapping) or {*map(type, others.values())} - {Result}:
            raise FedreproError(
                "beside: give a dictionary of what `fr.train` returns, by names for the legend"
            )
        if own in others:
            raise FedreproError(f"beside: '{own}' is what this result is called; choose another")
        canvas = Canvas()
        factor, unit = (100, " (%)") if "accuracy" in metric else (1, "")
        results = {own: self, **others}
        for (name, result), ink in zip(results.items(), series_inks(), strict=False):
            table, known = result.frame, list(result.frame.columns[3:])
            if metric not in known:
                raise FedreproError(f"{name}: no metric '{metric}' {nearest(metric, known)}")
            cells = summarise(table.assign(x=table["round"]), metric, ["x"])
            canvas.curve(canvas.axis, cells, ink, name, factor=factor)
        canvas.axis.set(xlabel=ROUND, ylabel=ACCURACY if metric == "accuracy" else metric + unit)
        return canvas.legend()

    def __repr__(self) -> str:
        """Show the last row of each run."""
        runs = "1 run" if len(self.records) == 1 else f"{len(self.records)} runs"
        return f"Result of {runs}\n{self.final.to_string(index=False)}"

    def _repr_html_(self) -> str:
        """Show the last row of each run in a notebook."""
        html: str = self.final.to_html(index=False)
        return html


def _rounds(record: RunRecord) -> pd.DataFrame:
    """Return the metrics of a run by evaluated round; those of every round at these rounds."""
    evaluated = [int(t) for t in record.metrics["evaluated_rounds"]]
    columns: dict[str, Iterable[float]] = {}
    for name, values in record.metrics.items():
        if name in ("evaluated_rounds", "seed", "run", "round"):  # as the frame's own columns
            continue
        if len(values) == len(evaluated):
            columns[name] = values
        elif len(values) >= max(evaluated):
            columns[name] = [values[t - 1] for t in evaluated]
    return pd.DataFrame({"run": record.run_id, "round": evaluated, **columns})
