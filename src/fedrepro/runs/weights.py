"""The trained model of a run, in a file beside its record, of which that knows nothing."""

from __future__ import annotations

import io
from pathlib import Path

import torch

from fedrepro.base.errors import FedreproError
from fedrepro.base.files import write_bytes
from fedrepro.fl import models
from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.data import Dataset
from fedrepro.fl.engine.active import ActiveRun
from fedrepro.fl.federation import Federation
from fedrepro.fl.spec import RunSpec
from fedrepro.runs import records


def path_of(run_id: str, folder: Path) -> Path:
    """Return the file of a run's weights, in the folder of its record."""
    return folder / f"{run_id}.pt"


def require_one_model(spec: RunSpec, data: Dataset) -> None:
    """Refuse, before the training, an algorithm that does not train one global model.

    Raises:
        FedreproError: the state has no ``weights`` that are a flat vector.
    """
    fed = Federation(spec, data)
    found = getattr(ALGORITHMS[spec.algorithm.name].init(fed), "weights", None)
    if not isinstance(found, torch.Tensor) or found.shape != (fed.layout.size,):
        raise FedreproError(
            f"keep_weights: algorithm {spec.algorithm.name} has no single global model, float32 "
            "[parameters + buffers], as `weights` of its state; leave keep_weights out"
        )


def write(run: ActiveRun, folder: Path) -> None:
    """Write the global model of a run that ended, as a ``state_dict`` of its network.

    Raises:
        FedreproError: the file cannot be written.
    """
    layout, flat, model = run.fed.layout, run.state.weights.cpu(), run.spec.model
    shape = run.spec.dataset.input_shape(run.dataset.train_x.shape[1:])
    with torch.random.fork_rng(devices=[]):
        network = models.build(model.name, shape, run.dataset.classes, model.width)
    named = network.state_dict()  # which says the version of each layer, too
    for position, name in enumerate(layout.names):
        if name in named:  # a buffer with persistent=False is in no state_dict
            named[name] = layout.view(flat, position).clone()
    content = io.BytesIO()
    torch.save(named, content)
    write_bytes(path_of(run.id, folder), content.getvalue(), durable=True)


def require(run_id: str, folder: Path) -> None:
    """Refuse a recorded run whose weights were not kept.

    Raises:
        FedreproError: there is no file; says how to get one.
    """
    file = path_of(run_id, folder)
    if not file.exists():
        raise FedreproError(
            f"{file}: the weights of this run were not kept; delete its record, "
            f"{records.path_of(run_id, folder)}, and train it with keep_weights=True"
        )


def read(run_id: str, folder: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a run by name, on the CPU.

    Raises:
        FedreproError: there is no file, or it cannot be read.
    """
    require(run_id, folder)
    file = path_of(run_id, folder)
    try:
        found: dict[str, torch.Tensor] = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises many kinds, all meaning the same
        raise FedreproError(
            f"{file}: cannot be read ({type(error).__name__}); delete it and the record of the "
            "run, and train it again"
        ) from error
    return found
