"""``import fedrepro``: load, partition, train, look."""

from __future__ import annotations

import dataclasses
import functools
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import HALVES, IMAGES, LABELS, OPTIONS

import fedrepro as fr
from fedrepro import library
from fedrepro.base.errors import FedreproError
from fedrepro.fl import models
from fedrepro.fl.algorithms import AlgorithmParams
from fedrepro.fl.spec import run_id
from fedrepro.runs import session


@pytest.fixture
def data() -> fr.Dataset:
    return fr.Dataset.from_arrays(IMAGES, LABELS, IMAGES[:40], LABELS[:40])


def test_the_package_imports_nothing_until_it_is_used() -> None:
    program = (
        "import sys, fedrepro; print(fedrepro.__version__, 'train' in dir(fedrepro), "
        "'import_module' in dir(fedrepro), "
        "[name for name in ('torch', 'pandas', 'numpy', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{fr.__version__} True False []\n", "")
    with pytest.raises(AttributeError, match="no attribute 'tarin'"):
        _ = fr.tarin  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "other", "usual", "message"),
    [
        (torch.set_default_device, "meta", None, r"device is meta: call torch.set_default_device"),
        (torch.set_default_dtype, torch.float64, torch.float32, r"dtype is torch.float64: call"),
        (functools.partial(torch.set_autocast_enabled, "cuda"), True, False, "autocast is on"),
        (functools.partial(torch.set_autocast_enabled, "cpu"), True, False, "autocast is on"),
        (torch.set_grad_enabled, False, True, "gradients are off"),
        (functools.partial(setattr, torch.backends, "fp32_precision"), "tf32", "none", "overrule"),
        (
            functools.partial(setattr, torch.backends.cuda.matmul, "fp32_precision"),
            *("tf32", "none", "overrule"),
        ),
    ],
)
def test_settings_of_pytorch_that_change_numbers_are_refused(
    data: fr.Dataset, change: Any, other: Any, usual: Any, message: str
) -> None:
    """Weights would be drawn elsewhere or in double precision, or runs have another precision."""
    parts = fr.partition("iid_plain", data, clients=3)
    change(other)
    try:
        with pytest.raises(FedreproError, match=message):
            fr.train(data, parts, "fedavg", **OPTIONS)
    finally:
        change(usual)


def test_the_program_goes_on_with_its_own_gpu(
    data: fr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = [0]
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.current_device", lambda: chosen[-1])
    monkeypatch.setattr("torch.cuda.set_device", chosen.append)
    monkeypatch.setattr(session, "train", lambda *_, **__: torch.cuda.set_device(1))
    library._train([], data, "cuda:1", None, tmp_path, keep_weights=False)
    assert chosen == [0, 1, 0]


def test_runs_are_trained_once_and_read_again(data: fr.Dataset, tmp_path: Path) -> None:
    parts = fr.partition("dirichlet", data, clients=3, alpha=1.0, seed=1, smallest=5)
    algorithm = fr.algorithm("fedprox", mu=0.1, local_accuracy=True)
    result = fr.train(data, parts, algorithm, seeds=2, folder=tmp_path, **OPTIONS)
    assert [record.spec["seed"] for record in result.records] == [0, 1]
    assert {record.partition.sha256 for record in result.records} == {parts.partition.sha256}
    assert list(result.frame.columns[:3]) == ["seed", "run", "round"]
    assert len(result.frame) == 4
    assert result.frame["accuracy"].between(0, 1).all()
    assert result.final["round"].tolist() == [2, 2]
    stamps = {file: file.stat().st_mtime_ns for file in tmp_path.glob("*.json")}
    assert len(stamps) == 2
    options = OPTIONS | {"device": torch.device("cpu")}
    again = fr.train(data, parts, algorithm, seeds=[1, 0, 2], folder=tmp_path, **options)
    assert all(file.stat().st_mtime_ns == stamp for file, stamp in stamps.items())
    assert again.records[1] == result.records[0]
    figure = result.plot()
    assert len(figure.axes[0].lines) == 1 + 2
    shown = [result.plot(metric).axes[0] for metric in ("local_accuracy", "loss")]
    assert [axis.get_ylabel() for axis in shown] == ["local_accuracy (%)", "loss"]
    assert shown[0].lines[0].get_ydata()[-1] == pytest.approx(
        100 * result.final["local_accuracy"].mean()
    )
    assert "<table" in result._repr_html_()
    for name in ("accur", "run"):
        with pytest.raises(FedreproError, match=rf"no metric '{name}' \(.*known: accuracy"):
            result.plot(name)
    beside = result.plot("loss", beside={"three seeds": again})
    names = [text.get_text() for text in beside.legends[0].get_texts()]
    assert names == ["fedprox", "three seeds", "every seed"]
    assert len(beside.axes[0].lines) == 1 + 2 + 1 + 3
    colours = [line.get_color() for line in beside.axes[0].lines]
    assert len(set(colours[:3])) == len(set(colours[3:])) == 1 != len(set(colours))
    with pytest.raises(FedreproError, match="beside: 'fedprox' is what this result is called"):
        result.plot(beside={"fedprox": again})
    wrong: Any
    for wrong in ({"a": 3}, [again]):
        with pytest.raises(FedreproError, match="beside: give a dictionary of what"):
            result.plot(beside=wrong)


def test_lists_of_ones_own(data: fr.Dataset, tmp_path: Path) -> None:
    parts = fr.partition(HALVES, data)
    assert [len(client) for client in parts.clients] == [60, 60]
    assert parts.counts.shape == (2, 4)
    result = fr.train(data, HALVES, "fedavg", seeds=1, folder=tmp_path, **OPTIONS)
    spec = result.records[0].typed_spec()
    assert spec.partition == parts.scheme
    assert run_id(spec) == result.records[0].run_id


def test_a_partition_without_a_seed_is_drawn_for_each_run(data: fr.Dataset, tmp_path: Path) -> None:
    parts = fr.partition("iid_plain", data, clients=3)
    result = fr.train(data, parts, seeds=2, folder=tmp_path, **OPTIONS)
    assert len({record.partition.sha256 for record in result.records}) == 2


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda data: fr.load("minst"), "did you mean 'mnist'"),
        (lambda data: fr.load("CIFAR10"), "did you mean 'cifar10'"),
        (lambda data: fr.load(Path("mnist")), r"name: PosixPath\('mnist'\) is not the name of a"),
        (lambda data: fr.partition("dirichelt", data, clients=2), "did you mean 'dirichlet'"),
        (lambda data: fr.partition("iid_plain", data, client=2), "client: unknown key; did you"),
        (lambda data: fr.algorithm("fedprocks"), "did you mean 'fedprox'"),
        (lambda data: fr.algorithm("FedAdam"), "did you mean 'fedopt'"),
        (lambda data: fr.algorithm("scaffold"), r"'scaffold' \(known: cadis"),
        (lambda data: fr.algorithm("fedavg", fraction=0.1), "did you mean 'participants'"),
        (lambda data: fr.partition("shards", data, clients=2), "did you mean 'class_blocks'"),
        (lambda data: fr.partition("dirichlet", data, beta=1), "beta: .* did you mean 'alpha'"),
        (lambda data: fr.train(data, [[0], [1]], learning_rate=1), "did you mean 'lr'"),
        (lambda data: fr.train(data, [[0], [1]], device="gpu"), "^device gpu: not a PyTorch"),
        (lambda data: fr.train(data, [[0], [1]], device="meta"), "^device meta: only cpu and"),
        (
            lambda data: fr.train(data, [[0], [1]], fr.algorithm("fedavg", participants=3)),
            "algorithm.participants: 3, but the partition has 2 clients; set it to at most 2$",
        ),
        (lambda data: fr.train(data, [[0], [1]], workers=-1), "workers: -1; give at least 1"),
        (lambda data: fr.train(data, [[0], [1]], workers="2"), "workers: '2'; give at least 1"),
        (lambda data: fr.train(data, [[0], [1]], seeds=True), "seeds: True is neither how many"),
        (lambda data: fr.train(data, [[0], [1]], {"name": "sgd"}), "algorithm: {'name'.*neither"),
        (lambda data: fr.algorithm({"name": "sgd"}), "unknown algorithm '{'name': 'sgd'}' "),
        (lambda data: fr.algorithm(AlgorithmParams), "unknown algorithm '<class .*known: cadis,"),
        (lambda data: fr.algorithm("fedprox", mu=-1), "mu: Input should be greater than"),
        (lambda data: fr.train(data, [[0], [1]], model="mnist_cn"), "did you mean 'mnist_cnn'"),
        (lambda data: fr.train(data, [[0], [1]], seeds=0), "seeds: give at least one"),
        (lambda data: fr.train(data, [[0], [1]], seeds=[1, 0, 0]), "seeds: 0 is there 2 times"),
        (
            lambda data: fr.train(data, [[0], [1]], bathc=3),
            "bathc: unknown key; did you mean 'batch'",
        ),
        (lambda data: fr.train(data, [[0], [1]], worker=2), "worker: .* did you mean 'workers'"),
        (
            lambda data: fr.train(data, [[0], [1]], participants=3),
            r'participants: unknown key; say fr.algorithm\("fedavg", participants=3\)$',
        ),
        (
            lambda data: fr.train(data, [[0], [1]], fr.algorithm("fedavg"), mu=0.1),
            r'mu: unknown key; say fr.algorithm\("fedprox", mu=0.1\)$',
        ),
        (
            lambda data: fr.train(data, [[0], [1]], momentum=0.9),
            r"momentum: .*; say fr.train\(..., "
            r"optimizer={'name': 'sgd', 'lr': 0.01, 'momentum': 0.9}\)$",
        ),
        (
            lambda data: fr.train(data, [[0], [1]], "fedavg", "liu1", init="glorot"),
            r"init: .*; say fr.train\(..., "
            r"model={'name': 'liu1', 'width': 1.0, 'init': 'glorot'}\)$",
        ),
        (
            lambda data: fr.train(data, fr.partition("iid_plain", data, clients=2), clients=3),
            r'clients: .*; say fr.partition\("iid_plain", data, clients=3\)$',
        ),
        (
            lambda data: fr.train(data, [[0], [1]], clients=3),
            "clients: .* argument parts of fr.train$",
        ),
        (
            lambda data: fr.train(data, [[0], [1]], alpha=1),
            r'say fr.partition\(.* or "dirichlet" or .*, data, alpha=1\) or say fr.algorithm\(',
        ),
        (
            lambda data: fr.algorithm("fedavg", lr=0.1),
            r"algorithm fedavg:\n  lr: unknown key; say fr.train\(..., lr=0.1\)$",
        ),
        (
            lambda data: fr.algorithm("fedavg", mu=0.1),
            r'mu: unknown key; say fr.algorithm\("fedprox", mu=0.1\)$',
        ),
        (
            lambda data: fr.algorithm("fedavg", momentum=0.9),
            r"say fr.train\(..., optimizer={'name': '...', 'momentum': 0.9}\)$",
        ),
        (
            lambda data: fr.algorithm("fedavg", clients=2),
            r'say fr.partition\("...", data, clients=2\)$',
        ),
        (lambda data: fr.algorithm("fedavg", seed=2), "seed: .* argument seeds of fr.train$"),
        (lambda data: fr.algorithm("fedavg", participant=2), "key; did you mean 'participants'"),
        (
            lambda data: fr.partition("iid_plain", data, clients=2, rounds=3),
            r"partition iid_plain:\n  rounds: unknown key; say fr.train\(..., rounds=3\)$",
        ),
        (
            lambda data: fr.partition("iid_plain", data, clients=2, alpha=1),
            r'say fr.partition\(.* or "dirichlet" or .*, data, alpha=1\) or say fr.algorithm\(',
        ),
        (lambda data: fr.train(data, [[0], [1]], model={"init": "own"}), "model.name: Field req"),
        (lambda data: fr.train(data, [[0], [1]], seed=5), "seed: say it by the argument seeds"),
        (lambda data: fr.train(data, [[0], [1]], partition={}), "partition: .* argument parts"),
        (lambda data: fr.train(data, [[0], [1]], dataset={}), "dataset: .* argument data"),
        (lambda data: fr.train(data, [[0], [1]], seeds="12"), "seeds: '12' is neither how many"),
        (lambda data: fr.train(data, [[0], [1]], seeds=[1.5]), "nor a list of whole numbers"),
        (lambda data: fr.train(data, [[0], [1]], seeds=[True]), "nor a list of whole numbers"),
        (lambda data: fr.train(data, [[0], [1]], seeds=[1, [2]]), "nor a list of whole numbers"),
        (lambda data: fr.train(data, [[0], [1]], seeds=1.5), "seeds: 1.5 is neither how many"),
        (lambda data: fr.train(data, [[0], [1]], folder=__file__), "is a file; name a folder"),
        (lambda data: fr.train(data, [[0], [1]], folder=Path(__file__, "x")), "py is a file; name"),
        (lambda data: fr.train(data, [[0], [1]], folder=""), "folder: '' is not the name of a"),
        (lambda data: fr.train(data, [[0], [1]], folder=None), "folder: None is not the name of"),
        (lambda data: fr.train("mnist", [[0], [1]]), "data: 'mnist' is no data set"),
        (lambda data: fr.partition("iid_plain", None, clients=2), "data: None is no data set"),
        (lambda data: fr.train(data, None), "parts: None is neither the name of a partition"),
        (lambda data: fr.partition([[1, [2]], [3]], data), "nor one list of positions"),
        (lambda data: fr.partition({0: [1], 1: [2]}, data), "of a dictionary give the values"),
        (lambda data: fr.partition(fr.partition([[1]], data), data), "parts: Parts.* is neither"),
        (
            lambda data: fr.partition(fr.partition([[1]], data).scheme, data),
            "parts: Lists.* is neither the name of a partition scheme, nor its class",
        ),
        (
            lambda data: fr.partition("lists", data),
            "^partition lists:\n  file: name the file that holds the lists; or give the lists",
        ),
        (lambda data: fr.partition([[0], [1]], data, clients=7), "clients: lists .* no parameters"),
        (
            lambda data: fr.train(data, [[0], [1]], model="mnist_cnn", downsample=8),
            r"model.name: mnist_cnn cannot take examples of 1x1x1 \(.*\); take larger ones",
        ),
    ],
)
def test_a_wrong_value_is_named(
    data: fr.Dataset,
    call: object,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # for the folder of runs that are refused late
    with pytest.raises(FedreproError, match=text):
        call(data)  # type: ignore[operator]


def test_what_is_shown_at_the_end_of_a_cell_is_short(data: fr.Dataset, tmp_path: Path) -> None:
    parts = fr.partition([[0, 1], [2]], data)
    result = fr.train(data, parts, seeds=2, folder=tmp_path, **OPTIONS)
    assert re.fullmatch(
        r"Dataset\(own_\w+: \d+ \+ \d+ examples of 1 x .*, \d+ classes\)", repr(data)
    )
    assert repr(parts).endswith(": 2 clients of 1 to 2 examples by lists)")
    assert repr(result).startswith("Result of 2 runs\n")
    assert repr(result).count("\n") == 3
    single = dataclasses.replace(result, records=result.records[:1])
    assert repr(single).startswith("Result of 1 run\n")


def test_processes_that_train_are_given_the_constants_of_the_data(
    data: fr.Dataset, tmp_path: Path
) -> None:
    """They do not have what this process knows of its own arrays."""
    options = OPTIONS | {"transform": "standard", "seeds": 2}
    alone, together = (
        fr.train(data, [[0, 1], [2]], folder=tmp_path / str(n), **(options | {"workers": n}))
        for n in (1, 2)
    )
    assert together.frame.equals(alone.frame)


def test_the_program_keeps_its_compute_threads(data: fr.Dataset, tmp_path: Path) -> None:
    torch.set_num_threads(2)
    try:
        result = fr.train(data, [[0, 1], [2]], seeds=1, folder=tmp_path, **OPTIONS)
        assert result.records[0].provenance.threads == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_a_network_is_a_name_or_as_in_a_plan(data: fr.Dataset, tmp_path: Path) -> None:
    def model(given: str | dict[str, Any], **options: Any) -> Any:
        options = OPTIONS | {"model": given, "rounds": 1, "seeds": 1} | options
        [record] = fr.train(data, [[0, 1], [2]], folder=tmp_path, **options).records
        return record.spec["model"]

    assert model({"name": "liu1"}) == model("liu1") == {"name": "liu1"}
    assert model({"name": "liu1", "init": "glorot"}, width=0.5) == {
        "name": "liu1",
        "init": "glorot",
        "width": 0.5,
    }
    assert model({"name": "liu1", "width": 0.5}) == model("liu1", width=0.5)


@pytest.mark.parametrize("network", ["liu1", "resnet9"])
def test_weights_are_kept_on_request_and_fit_the_network(
    network: str, data: fr.Dataset, tmp_path: Path
) -> None:
    model = {"name": network, "width": 0.1}
    given = OPTIONS | {"model": model, "rounds": 1, "seeds": 2, "folder": tmp_path}
    result = fr.train(data, HALVES, keep_weights=True, **given)
    again = fr.train(data, HALVES, keep_weights=True, **given)
    for record, weights, same in zip(result.records, result.weights, again.weights, strict=True):
        net = models.build(network, (1, 8, 8), 4, 0.1)
        net.load_state_dict(weights)
        net.eval()
        classes = net(torch.from_numpy(data.test_x).float() / 255).argmax(dim=1).numpy()
        assert (classes == data.test_y).mean() == pytest.approx(record.final["accuracy"])
        assert all(torch.equal(weights[name], same[name]) for name in weights)
    assert len(list(tmp_path.glob("*.pt"))) == 2
    plain = fr.train(data, HALVES, **given | {"folder": tmp_path / "plain"})
    assert [record.metrics for record in plain.records] == [r.metrics for r in result.records]
    assert not list((tmp_path / "plain").glob("*.pt"))
    with pytest.raises(FedreproError, match=r"\.pt: the weights of this run were not kept"):
        _ = plain.weights
    with pytest.raises(FedreproError, match=r"were not kept; delete its record, .*\.json"):
        fr.train(data, HALVES, keep_weights=True, **given | {"folder": tmp_path / "plain"})
    (tmp_path / f"{result.records[0].run_id}.pt").write_bytes(b"damaged")
    with pytest.raises(FedreproError, match=r"\.pt: cannot be read"):
        _ = result.weights


def test_weights_of_many_models_are_not_kept(data: fr.Dataset, tmp_path: Path) -> None:
    with pytest.raises(FedreproError, match="algorithm local has no single global model"):
        fr.train(data, [[0], [1]], "local", keep_weights=True, folder=tmp_path, **OPTIONS)


def test_seeds_are_counted_or_listed_as_numpy_has_them(data: fr.Dataset, tmp_path: Path) -> None:
    for seeds, found in ((np.int64(2), [0, 1]), (np.arange(1, 3), [1, 2])):
        result = fr.train(data, [[0, 1], [2]], seeds=seeds, folder=tmp_path, **OPTIONS)
        assert [record.spec["seed"] for record in result.records] == found


def test_seeds_beyond_64_bits_stay_what_they_are(data: fr.Dataset, tmp_path: Path) -> None:
    """Not numbers in double precision, in which neighbours are equal."""
    seeds = [2**63 + 1, 0, 2**64 + 1]
    result = fr.train(data, [[0, 1], [2]], seeds=seeds, folder=tmp_path, **OPTIONS)
    assert result.final["seed"].tolist() == seeds
    first = fr.train(data, [[0, 1], [2]], seeds=seeds[:2], folder=tmp_path, **OPTIONS)
    assert first.final["seed"].tolist() == seeds[:2]
    assert list(first.frame.columns[:3]) == ["seed", "run", "round"]


def test_metrics_named_as_columns_of_the_frame_do_not_take_their_place() -> None:
    metrics = {"evaluated_rounds": [1, 2], "round": [0, 1], "run": [5, 5], "accuracy": [0.5, 0.6]}
    record: Any = SimpleNamespace(run_id="0" * 12, metrics=metrics, spec={"seed": 3})
    frame = fr.Result([record], Path()).frame
    assert frame.to_dict("list") == {
        "seed": [3, 3],
        "run": ["0" * 12] * 2,
        "round": [1, 2],
        "accuracy": [0.5, 0.6],
    }


def test_a_partition_of_other_data_is_refused(data: fr.Dataset) -> None:
    other = fr.Dataset.from_arrays(IMAGES[::-1], LABELS, IMAGES[:40], LABELS[:40])
    with pytest.raises(FedreproError, match="of another data set"):
        fr.train(data, fr.partition("iid_plain", other, clients=2))
