"""What a program defines itself and trains with ``import fedrepro``, without a package."""

from __future__ import annotations

import dataclasses
import functools
import gc
import os
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import nbclient
import nbformat
import numpy as np
import pytest
import torch
from small_runs import HALVES, IMAGES, LABELS, OPTIONS
from torch import nn

import fedrepro as fr
from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.fl.algorithms import ALGORITHMS, Algorithm, AlgorithmParams, fedavg, participants, sgd
from fedrepro.fl.algorithms.averaging import weighted_mean
from fedrepro.fl.losses import LOSS_TERMS, LossTerm
from fedrepro.fl.models import NETWORKS, Network
from fedrepro.fl.partition import SCHEMES, Cut, Scheme
from fedrepro.fl.requests import Objective
from fedrepro.fl.spec import RunSpec

PLAIN = Objective()


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Leave other tests the components of fedrepro alone."""
    registries = ALGORITHMS, LOSS_TERMS, NETWORKS, SCHEMES
    found = [dict(registry._found) for registry in registries]
    fields = [RunSpec.model_fields[name] for name in ("algorithm", "partition")]
    annotations = [field.annotation for field in fields]
    yield
    for registry, before in zip(registries, found, strict=True):
        registry._found = before
    for field, annotation in zip(fields, annotations, strict=True):
        field.annotation = annotation
    RunSpec.model_rebuild(force=True)


@pytest.fixture
def data() -> fr.Dataset:
    return fr.Dataset.from_arrays(IMAGES, LABELS, IMAGES[:40], LABELS[:40])


def make_algorithm(objective: Objective = PLAIN, **options: Any) -> Algorithm:
    """FedAvg, as a notebook would define an algorithm: in no file that a worker could import."""

    class Params(AlgorithmParams):
        name: Literal["of_my_own"]
        bold: float = 1.0

    def round(fed: Any, state: Any, t: int) -> Any:
        clients = fed.participants(t, None)
        trained = yield from participants.train(fed, state.weights, clients, t, objective)
        shares = participants.shares(fed, clients, "examples")
        mean = weighted_mean([result.weights for result in trained], shares)
        state.weights = state.weights + fed.params(Params).bold * (mean - state.weights)
        return {"train_loss": participants.mean_loss(trained)}

    return Algorithm(Params, sgd.init, round, **options)


def make_network(width: int = 8) -> Network:
    """A network with a layer that a worker could not import, whose constant is in no state_dict."""

    class Doubled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("factor", torch.tensor(2.0), persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.factor * x

    def build(shape: Any, classes: int, _: float) -> nn.Sequential:
        inputs = int(np.prod(shape))
        layers = [nn.Flatten(), Doubled(), nn.Linear(inputs, width), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(width, classes))

    return Network("of_my_own", build)


def test_an_algorithm_needs_no_package_and_is_trained_anew_in_each_call(
    data: fr.Dataset, tmp_path: Path
) -> None:
    own = make_algorithm()
    parts = fr.partition("iid_plain", data, clients=2, seed=0)
    options = OPTIONS | {"seeds": 1, "folder": tmp_path}
    expected = fr.train(data, parts, **options).final["accuracy"]
    timid_one = fr.algorithm(own, bold=0.5)
    results = [
        fr.train(data, parts, given, **options | {"workers": workers})
        for given, workers in ((timid_one, 1), (own, 1), ("of_my_own", 2))
    ]
    [timid, first, again] = [result.records[0] for result in results]
    assert results[1].final["accuracy"].tolist() == expected.tolist()
    assert first.metrics == again.metrics != timid.metrics
    assert timid.spec["algorithm"] == {"name": "of_my_own", "bold": 0.5}
    assert len({record.run_id for record in (first, again, timid)}) == 3
    assert len({str(one.versions["plugin.unpackaged"]) for one in (first, again, timid)}) == 3
    version = f"unpackaged {first.versions['plugin.unpackaged']}"
    assert first.provenance.packages == {"algorithm.of_my_own": version}
    with pytest.raises(FedreproError, match="bold: Input should be a valid number"):
        fr.algorithm(own, bold="very")


@pytest.mark.parametrize("workers", [1, 2])
def test_arrays_stay_for_a_training_that_has_begun_and_no_longer(
    workers: int, tmp_path: Path
) -> None:
    """The call alone holds them, and the workers what they need of them."""
    made = [fr.Dataset.from_arrays(IMAGES // 2, LABELS, IMAGES[:40] // 2, LABELS[:40])]
    name, alive, found = made[0].name, weakref.ref(made[0]), []
    usual = make_algorithm()

    def round(fed: Any, state: Any, t: int) -> Any:
        gc.collect()
        found.append(fr.load(name) is alive())
        return (yield from usual.round(fed, state, t))

    watching = dataclasses.replace(usual, round=round)
    options = OPTIONS | {"seeds": 1, "workers": workers, "folder": tmp_path}
    result = fr.train(made.pop(), HALVES, watching, **options)
    assert found == [True, True]
    assert result.records[0].spec["dataset"]["name"] == name
    gc.collect()
    assert alive() is None


def test_an_error_of_an_own_algorithm_is_shown_once_and_from_its_code_on(
    data: fr.Dataset, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    own = make_algorithm()

    def round(fed: Any, state: Any, t: int) -> Any:
        if t == 1:
            raise KeyError("x")
        return (yield from own.round(fed, state, t))

    broken = fr.algorithm(dataclasses.replace(own, round=round))
    with pytest.raises(FedreproError) as failure:
        fr.train(data, [[0, 1], [2]], broken, seeds=1, folder=tmp_path, **OPTIONS)
    first, *trace = str(failure.value).splitlines()
    assert re.fullmatch(
        r"run \w{12} \(of_my_own seed=0\) failed: algorithm of_my_own, round 2: KeyError: 'x'",
        first,
    )
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[1].startswith(f'  File "{__file__}", line ')
    assert trace[-1] == "KeyError: 'x'"
    assert sum(line.startswith("  File ") for line in trace) == 1
    assert "failed" not in capfd.readouterr().err


def test_an_algorithm_may_evaluate_what_it_likes(
    data: fr.Dataset, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    own = make_algorithm()

    def evaluate(fed: Any, state: Any) -> Any:
        received = yield from participants.accuracies(fed, state.weights, range(len(fed.clients)))
        return {"worst_client": min(received)}

    scored = fr.algorithm(dataclasses.replace(own, evaluate=evaluate))
    result = fr.train(data, [[0, 1], [2]], scored, seeds=1, folder=tmp_path, **OPTIONS)
    assert result.frame["worst_client"].between(0, 1).all()
    [line] = [line for line in capfd.readouterr().err.splitlines() if "rounds in" in line]
    assert re.fullmatch(r"\w{12} \(of_my_own seed=0\): 2 rounds in [0-9.]+ s \(1 done\)", line)


def test_an_own_algorithm_is_not_taken_for_an_installed_one() -> None:
    own = make_algorithm()
    with pytest.raises(FedreproError, match="there is an installed algorithm 'fedavg': use"):
        fr.algorithm(dataclasses.replace(own, params=fedavg.Params))
    assert fr.algorithm(ALGORITHMS["fedavg"]) == fr.algorithm("fedavg")
    with pytest.raises(FedreproError, match="no algorithm"):
        ALGORITHMS.use(own.params)  # type: ignore[arg-type]
    assert not ALGORITHMS.is_unpackaged("fedavg")


def test_a_network_needs_no_package_and_is_trained_anew_in_each_call(
    data: fr.Dataset, tmp_path: Path
) -> None:
    options = OPTIONS | {"seeds": 1, "folder": tmp_path}
    network = make_network()
    results = [
        fr.train(data, HALVES, **options | {"model": model, "workers": workers})
        for model, workers in (
            (network, 1),
            (network, 2),
            ("of_my_own", 1),
            ({"name": network, "init": "glorot"}, 2),
            (make_network(12), 2),
        )
    ]
    first, *same, glorot, wide = [result.records[0] for result in results]
    assert all(record.metrics == first.metrics for record in same)
    assert len({str(record.metrics) for record in (first, glorot, wide)}) == 3
    assert glorot.spec["model"] == {"name": "of_my_own", "init": "glorot"}
    records = [result.records[0] for result in results]
    assert len({record.run_id for record in records}) == len(records)
    assert len({record.versions["plugin.unpackaged"] for record in records}) == len(records)


def test_weights_of_an_own_network_are_kept(data: fr.Dataset, tmp_path: Path) -> None:
    network = make_network()
    options = OPTIONS | {"model": network, "seeds": 1, "folder": tmp_path}
    result = fr.train(data, HALVES, keep_weights=True, **options)
    net = network.build((1, 8, 8), 4, 1.0)
    net.load_state_dict(result.weights[0])
    found = net(torch.from_numpy(data.test_x).float() / 255).argmax(dim=1).numpy()
    assert (found == data.test_y).mean() == pytest.approx(result.final["accuracy"][0])


def bugged(*_: Any) -> nn.Sequential:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            nn.Flatten(),
            r"model: Flatten\(.*\) is no network; give a name, or Network\(name, build\)",
        ),
        (nn.Linear, "model: <class .*Linear'> is no network"),
        (Network("mine", nn.Flatten()), r"model: Network\(name='mine', build=Flatten.* is no netw"),
        ({"name": nn.Flatten()}, "model: Flatten.* is no network"),
        (Network("liu1", make_network().build), "an installed network .liu1.: use that"),
        (
            Network("mine", lambda *_: nn.Sequential(nn.Flatten())),
            "model.name: network mine must be a torch.nn.Sequential that ends with the",
        ),
        (
            Network(
                "mine",
                functools.partial(lambda lock, *a: make_network().build(*a), threading.Lock()),
            ),
            r"^3 runs failed: round 1: mine: cannot be sent to the .*lock.*with workers=1\n",
        ),
    ],
)
def test_what_is_no_network_is_refused(
    data: fr.Dataset, tmp_path: Path, model: Any, text: str
) -> None:
    options = OPTIONS | {"model": model, "workers": 2, "folder": tmp_path}
    with pytest.raises(FedreproError, match=text):
        fr.train(data, HALVES, **options)


def test_an_error_in_an_own_network_is_its_own(data: fr.Dataset, tmp_path: Path) -> None:
    options = OPTIONS | {"model": Network("mine", bugged), "folder": tmp_path}
    with pytest.raises(ZeroDivisionError):
        fr.train(data, HALVES, **options)


def test_an_own_algorithm_may_have_own_loss_terms(data: fr.Dataset, tmp_path: Path) -> None:
    def entropy(outputs: Any) -> torch.Tensor:
        log_p = outputs.logits.log_softmax(dim=1)
        return -(log_p.exp() * log_p).sum(dim=1).mean()

    term = LossTerm("entropy", entropy)
    options = OPTIONS | {"seeds": 1, "folder": tmp_path}
    plain = fr.train(data, HALVES, **options).records[0]
    losses = []
    for workers, terms in ((1, ("entropy", 0.0)), (1, ("entropy", 0.5)), (2, ("entropy", 0.5))):
        own = make_algorithm(Objective(terms=(terms,)), loss_terms=(term,))
        result = fr.train(data, HALVES, fr.algorithm(own), **options | {"workers": workers})
        losses.append(result.records[0].metrics["train_loss"])
    assert losses[0] == pytest.approx(plain.metrics["train_loss"])
    assert losses[1] == losses[2] != losses[0]
    undeclared = make_algorithm(Objective(terms=(("entropy", 0.5),)))
    with pytest.raises(FedreproError, match=r"entropy, which its Algorithm\.loss_terms lacks"):
        fr.train(data, HALVES, fr.algorithm(undeclared), **options)


def make_scheme(step: int) -> type[Scheme]:
    """A scheme that a worker could not import."""

    class Comb(Scheme):
        scheme: Literal["of_my_own"]
        clients: int = 2

        def cut(self, data: Any, rng: np.random.Generator) -> Cut:
            order = rng.permutation(len(data.train))[::step]
            return Cut(tuple(np.array_split(order, self.clients)))

    return Comb


def test_a_partition_scheme_needs_no_package(data: fr.Dataset, tmp_path: Path) -> None:
    comb = make_scheme(1)
    parts = fr.partition(comb, data, clients=3)
    assert [len(client) for client in parts.clients] == [40, 40, 40]
    with pytest.raises(FedreproError, match="client: unknown key; did you mean 'clients'"):
        fr.partition("of_my_own", data, client=3)
    every_other = fr.partition(make_scheme(2), data, clients=3)
    options = OPTIONS | {"seeds": 2, "workers": 2, "folder": tmp_path}
    results = [fr.train(data, given, **options) for given in (parts, parts, every_other)]
    first, again, half = [result.records for result in results]
    assert [record.metrics for record in first] == [record.metrics for record in again]
    assert first[0].partition.sha256 == again[0].partition.sha256 == parts.partition.sha256
    assert half[0].partition.sha256 == every_other.partition.sha256 != parts.partition.sha256
    assert first[0].partition.sha256 != first[1].partition.sha256
    assert len({record.run_id for record in (*first, *again, *half)}) == 6
    with pytest.raises(FedreproError, match="is no partition scheme with a name: docs/own-comp"):
        fr.partition(Scheme, data)


def test_parameters_of_an_algorithm_that_was_defined_anew_are_refused(data: fr.Dataset) -> None:
    before = fr.algorithm(make_algorithm())
    fr.algorithm(make_algorithm())
    with pytest.raises(FedreproError, match="of_my_own was defined anew: call"):
        fr.train(data, HALVES, before, **OPTIONS)


EXAMPLE = dict(
    re.findall(
        r'^```python title="(\S+)"\n(.*?)^```$',
        (root() / "docs/library.md").read_text(),
        re.M | re.S,
    )
)["own_network.py"]
ROW = re.compile(r"^ +([01]) +\w{12} +3 +(0\.\d+) ", re.M)
SOURCE = str(Path(fr.__file__).parents[1])


def in_a_script(text: str, folder: Path) -> str:
    (folder / "own_network.py").write_text(text)
    command, source = [sys.executable, "own_network.py"], {"PYTHONPATH": SOURCE}
    done = subprocess.run(
        command, cwd=folder, env=os.environ | source, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_a_notebook(text: str, folder: Path) -> str:
    cells = [nbformat.v4.new_code_cell(part) for part in text.split("\n\n\n")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in cells for output in cell["outputs"]]
    return "".join(output["text"] for output in outputs if output.get("name") == "stdout")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Seed and accuracy of each run of the example, as it is in the documents."""
    return ROW.findall(in_a_script(EXAMPLE, tmp_path_factory.mktemp("example")))


@pytest.mark.slow
@pytest.mark.parametrize("run", [in_a_script, in_a_notebook])
def test_the_example_of_the_documents_runs(
    run: Callable[[str, Path], str],
    rows: list[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With worker processes, whatever the machine has; one core gives the same numbers."""
    monkeypatch.setenv("PYTHONPATH", SOURCE)
    two = EXAMPLE.replace("seeds=2", "seeds=2, workers=2")
    assert two != EXAMPLE
    assert ROW.findall(run(two, tmp_path)) == rows
    assert [seed for seed, _ in rows] == ["0", "1"]
    assert len(list((tmp_path / "fedrepro-runs").glob("*.json"))) == 2
