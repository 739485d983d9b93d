"""YAML files that say something other than they seem to, or too much, are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedrepro.base.configfile import read_yaml, validate
from fedrepro.base.errors import FedreproError
from fedrepro.base.strict import Strict
from fedrepro.fl.spec import Sgd


class Held(Strict):
    """A model of one mapping."""

    content: dict[str, Any]


def read(tmp_path: Path, text: str) -> dict[str, Any]:
    file = tmp_path / "held.yaml"
    file.write_text(text)
    return read_yaml(file, Held).content


@pytest.mark.parametrize(
    "text",
    [
        "content: {a: 1, b: 2, a: 3}\n",
        "content:\n  a: 1\n  a: 1\n",
        "content: {a: 1}\ncontent: {a: 2}\n",
        "content: {x: [{a: 1, a: 2}]}\n",
    ],
)
def test_a_key_that_is_there_twice_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(FedreproError, match=r"held\.yaml: not valid YAML: key .+ is there twice"):
        read(tmp_path, text)


def test_a_key_may_replace_a_merged_one(tmp_path: Path) -> None:
    text = (
        "content:\n  base: &base {a: 1, b: 2}\n  changed: &changed {<<: *base, a: 3}\n"
        "  again: {<<: *changed, b: 4}\n  both: {<<: [*changed, *base], c: 5}\n"
    )
    held = read(tmp_path, text)
    assert held["changed"] == {"a": 3, "b": 2}
    assert held["again"] == {"a": 3, "b": 4}
    assert held["both"] == {"a": 3, "b": 2, "c": 5}


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, "{a: " * 100_000, "? " * 100_000])
def test_a_file_nested_without_end_is_refused(tmp_path: Path, text: str) -> None:
    """PyYAML's parser in C ends the process by a segmentation fault."""
    with pytest.raises(FedreproError, match=r"held\.yaml: not valid YAML: nested more than 100"):
        read(tmp_path, text)


@pytest.mark.parametrize("text", ["a: 2001-02-30", f"a: {'9' * 9999}", "a: 2001-01-01T99:00:00"])
def test_a_value_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(FedreproError, match=r"held\.yaml: not valid YAML"):
        read(tmp_path, f"content: {{{text}}}")


def test_nested_as_deep_as_is_sensible(tmp_path: Path) -> None:
    assert read(tmp_path, "content: {a: " + "[" * 90 + "]" * 90 + "}\n")["a"]


def test_a_rule_of_the_whole_is_told_in_its_own_words() -> None:
    content = {"name": "sgd", "lr": 0.1, "nesterov": True}
    with pytest.raises(FedreproError, match=r"\Aplan:\n  nesterov needs momentum > 0\Z"):
        validate(content, Sgd, "plan")
