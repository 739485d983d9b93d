"""Index lists of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedrepro.base.errors import FedreproError
from fedrepro.fl.partition import build_partition, lists
from fedrepro.fl.partition.lists import Lists
from fedrepro.fl.partition.statistics import digest

LABELS = np.arange(100, dtype=np.int64) % 10
CLIENTS = [np.array([3, 1, 2]), np.array([50]), np.array([99, 3])]


def test_lists_are_known_by_their_digest() -> None:
    spec = Lists.model_validate({"scheme": "lists"} | lists.described(CLIENTS))
    assert (spec.clients, spec.total) == (3, 6)
    partition = build_partition(spec, LABELS, LABELS, 10, seed=0)
    assert [part.tolist() for part in partition.clients] == [[3, 1, 2], [50], [99, 3]]
    assert spec.sha256 == partition.sha256 == digest(CLIENTS)


def test_lists_come_from_files(tmp_path: Path) -> None:
    named = {f"client_{i:03}": part.astype(np.int32) for i, part in enumerate(CLIENTS)}
    np.savez(tmp_path / "split.npz", **named, validation=np.array([7]))
    (tmp_path / "split.json").write_text(json.dumps([part.tolist() for part in CLIENTS]))
    specs = [
        Lists.model_validate({"scheme": "lists", "file": file})
        for file in (str(tmp_path / "split.npz"), tmp_path / "split.npz", f"{tmp_path}/split.json")
    ]
    assert specs[0] == specs[1] == specs[2]
    assert "file" not in specs[0].model_dump()


def test_lists_of_another_process_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = Lists.model_validate({"scheme": "lists"} | lists.described(CLIENTS))
    monkeypatch.setattr(lists, "_KNOWN", {})
    with pytest.raises(FedreproError, match=r"give them again .* --paper my-plan.yaml"):
        build_partition(spec, LABELS, LABELS, 10, seed=0)


@pytest.mark.parametrize(
    ("clients", "text"),
    [
        ([], "no client"),
        ([[0], []], "client 1 holds no example$"),
        ([[[]]], "client 0 holds an array of shape"),
        ([[0], [0.5]], "client 1 holds an array"),
        ([LABELS == 0], r"type bool, not .*; of a mask give `numpy\.flatnonzero\(mask\)`$"),
        ([[3, -1]], "client 0 has the position -1"),
        ([[2**31]], "client 0 has the position 2147483648"),
    ],
)
def test_what_is_no_list_is_refused(clients: list[Any], text: str) -> None:
    with pytest.raises(FedreproError, match=text):
        lists.described(clients)


def test_positions_beyond_the_data_are_refused() -> None:
    spec = Lists.model_validate({"scheme": "lists"} | lists.described([[100]]))
    with pytest.raises(FedreproError, match="name the example 100, and this data set has 100"):
        build_partition(spec, LABELS, LABELS, 10, seed=0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"no index lists \(Invalid JSON"),
        ("{}", r"no index lists \(Input should be a valid array"),
        ("[1, 2", r"no index lists \(Invalid JSON"),
        ("not", r"no index lists \(Invalid JSON"),
        ("[]", "index lists: no client"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "split.json").write_text(text)
    with pytest.raises(FedreproError, match=rf"/split\.json: {told}"):
        Lists.model_validate({"scheme": "lists", "file": str(tmp_path / "split.json")})


@pytest.mark.parametrize(
    "arrays",
    [
        {"client_0": np.array(3)},
        {"client_0": np.array([2**63 + 1], np.uint64)},
        {"client_0": np.array([0.0, np.nan])},
        {"client_0": np.array([], np.int64)},
        {"other": np.array([1])},
    ],
)
def test_arrays_that_are_no_lists_are_refused_with_their_file(
    tmp_path: Path, arrays: dict[str, Any]
) -> None:
    np.savez(tmp_path / "split.npz", **arrays)
    with pytest.raises(FedreproError, match=r"split\.npz: index lists: "):
        Lists.model_validate({"scheme": "lists", "file": str(tmp_path / "split.npz")})


def test_clients_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Without leading zeros, client 10 comes after client 9, not after client 1."""
    np.savez(tmp_path / "split.npz", **{f"client_{k}": np.arange(k + 1) for k in range(12)})
    assert [len(positions) for positions in lists.read(tmp_path / "split.npz")] == [*range(1, 13)]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["client_0", "client_2"], "clients are not numbered from 0, each once"),
        (["client_0", "client_1", "client_01"], "clients are not numbered from 0, each once"),
        (["client_0", "client_sizes"], "client_sizes has no number"),
    ],
)
def test_what_is_no_client_is_not_taken_for_one(
    tmp_path: Path, names: list[str], text: str
) -> None:
    np.savez(tmp_path / "split.npz", **{name: np.array([1]) for name in names})
    with pytest.raises(FedreproError, match=rf"split\.npz: no index lists \({text}\)"):
        lists.read(tmp_path / "split.npz")


@pytest.mark.parametrize("name", ["split.npz", "split.json"])
def test_a_missing_file_is_said_to_be_missing(tmp_path: Path, name: str) -> None:
    with pytest.raises(FedreproError, match=r"no index lists \(No such file or directory\)"):
        lists.read(tmp_path / name)


def test_what_the_lists_say_is_not_said_otherwise(tmp_path: Path) -> None:
    (tmp_path / "split.json").write_text("[[1, 2], [3]]")
    content = {"scheme": "lists", "file": str(tmp_path / "split.json"), "clients": 7}
    with pytest.raises(ValidationError, match="clients: the file says so; leave it out"):
        Lists.model_validate(content)
    made = Lists.model_validate({"scheme": "lists"} | lists.described([[1, 2], [3]]))
    for said, of in (({"clients": 7}, "7, 3"), ({"total": 4}, "2, 4")):
        with pytest.raises(FedreproError, match=rf"{of}, and the .* have 2 clients with 3"):
            build_partition(made.model_copy(update=said), LABELS, LABELS, 10, seed=0)


@pytest.mark.parametrize("file", [3, None, "a\0b"])
def test_a_file_has_a_name(file: Any) -> None:
    with pytest.raises(ValidationError, match="no name of a file"):
        Lists.model_validate({"scheme": "lists", "file": file})


def test_lists_have_no_seed() -> None:
    with pytest.raises(ValidationError, match="the scheme lists draws nothing"):
        Lists.model_validate({"scheme": "lists", "seed": 3} | lists.described(CLIENTS))
