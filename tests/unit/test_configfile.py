"""YAML files that say something other than they seem to, or too much, are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedrepro.base.configfile import read_yaml, validate
from fedrepro.base.errors import FedreproError
from fedrepro.base.strict import Strict
from fedrepro.fl.spec import RunSpec, Sgd
from fedrepro.runs.plan_schema import PaperPlan


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


def test_of_several_merged_mappings_the_first_counts(tmp_path: Path) -> None:
    """PyYAML 6.0.4 by itself would have the last."""
    text = "content: {one: &one {rounds: 1}, two: &two {rounds: 2}, both: {<<: [*one, *two]}}\n"
    assert read(tmp_path, text)["both"] == {"rounds": 1}


@pytest.mark.parametrize(
    ("merged", "what"), [("3", "scalar"), ("[{a: 1}, 3]", "scalar"), ("[[{a: 1}]]", "sequence")]
)
def test_only_mappings_are_merged(tmp_path: Path, merged: str, what: str) -> None:
    with pytest.raises(FedreproError, match=f"not valid YAML: `<<` takes mappings, not a {what}"):
        read(tmp_path, f"content: {{<<: {merged}, b: 2}}\n")


@pytest.mark.parametrize(("text", "held"), [("", "is empty"), ("[a]", "holds no keys")])
def test_a_file_without_keys_says_which_it_may_have(tmp_path: Path, text: str, held: str) -> None:
    with pytest.raises(FedreproError, match=rf"held\.yaml: {held}; it may have the keys content$"):
        read(tmp_path, text)


def test_a_file_that_is_not_utf_8_is_to_be_saved_so(tmp_path: Path) -> None:
    file = tmp_path / "held.yaml"
    file.write_bytes("content: {a: größe}".encode("latin-1"))
    with pytest.raises(FedreproError, match=r"held\.yaml: not UTF-8 text .*: save it as UTF-8$"):
        read_yaml(file, Held)


@pytest.mark.parametrize(
    ("key", "given", "tag"),
    [
        ("dataset", "mnist", "name"),
        ("partition", "dirichlet", "scheme"),
        ("model", "liu1", "name"),
        ("algorithm", "fedavg", "name"),
        ("optimizer", "sgd", "name"),
    ],
)
def test_a_name_in_place_of_a_component_is_shown_as_one(key: str, given: str, tag: str) -> None:
    with pytest.raises(FedreproError) as error:
        validate({key: given}, RunSpec, "mine.yaml")
    assert f"  {key}: write `{key}: {{{tag}: {given}}}`" in str(error.value).splitlines()


@pytest.mark.parametrize("level", ["[", "- ", "{a: ", "? "])
def test_a_file_nested_too_deep_is_refused(tmp_path: Path, level: str) -> None:
    with pytest.raises(FedreproError, match=r"held\.yaml: not valid YAML: nested more than 100"):
        read(tmp_path, level * 500)


@pytest.mark.parametrize("level", ["[", "- ", "{a: ", "? "])
def test_a_file_nested_without_end_is_refused(tmp_path: Path, level: str) -> None:
    """Before 6.0.4 PyYAML's parser in C ends the process by a segmentation fault."""
    reasons = r"(nested more than 100|while increasing \w+ level\nexceeded maximum nesting depth)"
    with pytest.raises(FedreproError, match=r"held\.yaml: not valid YAML: " + reasons):
        read(tmp_path, level * 100_000)


@pytest.mark.parametrize(("given", "read_as"), [("010", 8), ("-07", -7), ("1:30", 90), ("0_1", 1)])
def test_a_number_that_is_another_one_than_it_seems_is_refused(
    tmp_path: Path, given: str, read_as: int
) -> None:
    text = rf"held\.yaml: not valid YAML: {given} is {read_as} in YAML; write what is meant"
    with pytest.raises(FedreproError, match=text):
        read(tmp_path, f"content: {{a: [{given}]}}\n")


def test_other_numbers_are_what_they_seem(tmp_path: Path) -> None:
    assert read(tmp_path, "content: {a: [0, -1, +2, 0x1f, 0b11, 1_000]}\n")["a"] == [
        *(0, -1, 2, 31, 3, 1000)
    ]


@pytest.mark.parametrize(
    "text", ["a: 2001-02-30", f"a: {'9' * 9999}", f"a: 0x{'f' * 9999}", "a: 2001-01-01T99:00:00"]
)
def test_a_value_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(FedreproError, match=r"held\.yaml: not valid YAML"):
        read(tmp_path, f"content: {{{text}}}")


def test_nested_as_deep_as_is_sensible(tmp_path: Path) -> None:
    assert read(tmp_path, "content: {a: " + "[" * 90 + "]" * 90 + "}\n")["a"]


def test_a_rule_of_the_whole_is_told_in_its_own_words() -> None:
    content = {"name": "sgd", "lr": 0.1, "nesterov": True}
    with pytest.raises(FedreproError, match=r"\Aplan:\n  nesterov needs momentum > 0\Z"):
        validate(content, Sgd, "plan")


RUN: dict[str, Any] = {
    "dataset": {"name": "mnist"},
    "partition": {"scheme": "iid_plain", "clients": 2},
    "model": {"name": "liu1"},
    "algorithm": {"name": "fedavg"},
    "optimizer": {"name": "sgd", "lr": 0.1},
    "batch": 2,
    "rounds": 2,
    "seed": 0,
}


@pytest.mark.parametrize(
    ("place", "key", "hint"),
    [
        ("", "lr_decay", "; it belongs to optimizer"),
        ("", "momentum", "; it belongs to optimizer"),
        ("", "beta1", "; it belongs to optimizer adam"),
        ("", "init", "; it belongs to model"),
        ("", "participants", "; it belongs to algorithm"),
        ("", "mu", "; it belongs to algorithm fedprox"),
        ("", "clients", "; it belongs to partition"),
        ("", "epochs", "; did you mean 'local_epochs'?"),
        ("", "wieght_decay", f"; known: {', '.join(sorted(RunSpec.model_fields))}"),
        ("algorithm", "mu", "; it belongs to algorithm fedprox"),
        ("algorithm", "lr_decay", "; it belongs to optimizer"),
        ("algorithm", "participantz", "; did you mean 'participants'?"),
        (
            "algorithm",
            "moment",
            "; known: bn_statistics, initial, local_accuracy, name, optimizer_state, "
            "participants, pretrain_epochs, sgd_reference, warm_up, weighting",
        ),
        ("optimizer", "wieght_decay", "; did you mean 'weight_decay'?"),
        ("optimizer", "rounds", "; it belongs to the top level"),
    ],
)
def test_an_unknown_key_is_shown_its_place_or_a_key_of_the_place_it_has(
    place: str, key: str, hint: str
) -> None:
    content = RUN | ({place: RUN[place] | {key: 1}} if place else {key: 1})
    with pytest.raises(FedreproError) as failure:
        validate(content, RunSpec, "plan")
    where = f"{place}.{key}" if place else key
    assert str(failure.value) == f"plan:\n  {where}: unknown key{hint}"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"runs": {1: {"title": "a"}}}, "runs: the key 1 is not text; put it in quotes"),
        (
            {"runs": {"a": {"title": "a", "labels": {True: "x"}}}},
            "runs.a.labels: the key True is not text; put it in quotes",
        ),
        ({"scales": {"papr": {}}}, "scales: unknown key 'papr' (did you mean 'paper'? known: "),
        (
            {"scales": {"lite": {"precision": {"liu9": "tf32"}}}},
            "scales.lite.precision: unknown network 'liu9' (did you mean 'liu3'? known: ",
        ),
        ({1: "x"}, "1: unknown key"),
    ],
)
def test_a_wrong_key_of_a_mapping_is_said_in_words(change: dict[Any, Any], text: str) -> None:
    content = {"paper": "a", "title": "a", "defaults": {}, "seeds": [0]}
    content |= {"runs": {"a": {"title": "a"}}} | change
    with pytest.raises(FedreproError) as failure:
        validate(content, PaperPlan, "plan")
    assert str(failure.value).startswith(f"plan:\n  {text}")
    assert "\n" not in str(failure.value).removeprefix("plan:\n")


def test_a_key_of_an_entry_is_compared_with_those_of_entries() -> None:
    group = {"title": "a", "gridz": {}, "part": "x"}
    content = {"paper": "a", "title": "a", "defaults": {}, "seeds": [0], "runs": {"a": group}}
    with pytest.raises(FedreproError) as failure:
        validate(content, PaperPlan, "plan")
    assert str(failure.value) == (
        "plan:\n  runs.a.gridz: unknown key; did you mean 'grid'?\n"
        "  runs.a.part: unknown key; known: grid, labels, more, seeds, set, title"
    )
