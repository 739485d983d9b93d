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
        Lists.model_validate({"scheme": "lists", "file": str(tmp_path / f"split.{kind}")})
        for kind in ("npz", "json")
    ]
    assert specs[0] == specs[1]
    assert "file" not in specs[0].model_dump()


def test_lists_of_another_process_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = Lists.model_validate({"scheme": "lists"} | lists.described(CLIENTS))
    monkeypatch.setattr(lists, "_KNOWN", {})
    with pytest.raises(FedreproError, match="give them again"):
        build_partition(spec, LABELS, LABELS, 10, seed=0)


@pytest.mark.parametrize(
    ("clients", "text"),
    [
        ([], "no client"),
        ([[]], "client 0 holds an array of shape"),
        ([[0], [0.5]], "client 1 holds an array"),
        ([[-1]], "client 0 has the position -1"),
    ],
)
def test_what_is_no_list_is_refused(clients: list[Any], text: str) -> None:
    with pytest.raises(FedreproError, match=text):
        lists.described(clients)


def test_positions_beyond_the_data_are_refused() -> None:
    spec = Lists.model_validate({"scheme": "lists"} | lists.described([[100]]))
    with pytest.raises(FedreproError, match="name the example 100, and this data set has 100"):
        build_partition(spec, LABELS, LABELS, 10, seed=0)


@pytest.mark.parametrize("text", ["", "{}", "[1, 2", "not"])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "split.json").write_text(text)
    with pytest.raises((FedreproError, ValidationError), match=r"split\.json|no client"):
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


@pytest.mark.parametrize("file", [3, None, "a\0b"])
def test_a_file_has_a_name(file: Any) -> None:
    with pytest.raises(ValidationError, match="no name of a file"):
        Lists.model_validate({"scheme": "lists", "file": file})


def test_lists_have_no_seed() -> None:
    with pytest.raises(ValidationError, match="the scheme lists draws nothing"):
        Lists.model_validate({"scheme": "lists", "seed": 3} | lists.described(CLIENTS))
