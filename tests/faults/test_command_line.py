"""Every option and argument of every command, with values that nobody means."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from programs import Server
from trials import Trial
from undisturbed import PLAN, RECORDS, Undisturbed

from fedrepro import cli

RUN = "{run}"
GIVEN: dict[str, list[str]] = {
    "train": [RUN, "--workers", "1"],
    "why": [PLAN.name, "accuracy"],
    "show": [RUN],
    "compare": [RUN],
    "verify": ["--paper", PLAN.name, "--sample", "1", "--max-hours", "0.01"],
    "check": ["--paper", "tricks", "--scale", "smoke"],
    "table": [PLAN.name, "accuracy"],
    "figure": [PLAN.name, "curves"],
    "partition": [PLAN.name, RUN, "--out", "part.npz"],
    "partitions": [PLAN.name, "--out", "overview"],
    "records import": ["new.tar"],
    "data verify": ["synthetic"],
    "data pack": ["packed", "synthetic"],
    "data import": ["packed"],
    "data prepare": ["synthetic", "--out", "made.json"],
}
"""Arguments that each command needs; one of them, or one more option, is replaced."""

PATHS = ["", " ", ".", "/dev/null", PLAN.name, f"{PLAN.name}/x", "results", "no/such/x", "x" * 5000]
PATHS += [os.fsdecode(b"\xff\xfe"), "a\nb", "~", "-", "./results/../results/own", "loop", "new.tar"]
NUMBERS = ["", "nan", "inf", "-inf", "-1", "0", "1e400", "9" * 30, "2592000", "1e18", "0x10", "1_0"]
NUMBERS += [" 5", "-0.0", "٣", "abc"]
TEXTS = ["", " ", "nowhere", "../../etc/passwd", "x" * 5000, os.fsdecode(b"\xff"), "a\nb", "*", "-"]
TEXTS += ["null", "0" * 12, "\x1b[2J", ".", "../../config/papers/emd", "cuda:99", PLAN.name]


def _commands(group: Any, name: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word, command in group.commands.items():
        full = f"{name} {word}".strip()
        found |= _commands(command, full) if hasattr(command, "commands") else {full: command}
    return found


COMMANDS = _commands(typer.main.get_command(cli.app))
PLACES = [
    (name, parameter)
    for name, command in COMMANDS.items()
    for parameter in command.params
    if not getattr(parameter, "is_flag", False)
]


def test_arguments_are_those_of_commands() -> None:
    assert GIVEN.keys() <= COMMANDS.keys()


def _values(command: Any, parameter: Any) -> list[str]:
    declared = inspect.signature(command.callback, eval_str=True).parameters[parameter.name]
    kind = str(get_args(declared.annotation)[0])
    if "Path" in kind:
        return PATHS
    return NUMBERS if "int" in kind or "float" in kind else TEXTS


@pytest.mark.trials("command line", 40)
def test_value(trial: Trial, server: Server, whole: Undisturbed, tmp_path: Path) -> None:
    name, parameter = trial.draw.choice(PLACES)
    value = trial.draw.choice(_values(COMMANDS[name], parameter))
    option = max(parameter.opts, key=len)
    trial.done = name
    folder = whole.copy(tmp_path)
    (folder / "loop").symlink_to("loop")
    (folder / "new.tar").write_bytes((whole.folder / "new.tar").read_bytes())
    run = whole.runs[0]
    if trial.draw.random() < 0.5:
        (folder / RECORDS / f"{whole.runs[-1]}.json").unlink()
    given = [word.format(run=run) for word in GIVEN.get(name, [])]
    if option.startswith("-"):
        words = [*given, f"{option}={value}"]
    else:
        place = [one.name for one in COMMANDS[name].params if not one.opts[0].startswith("-")]
        at = place.index(parameter.name)
        words = [*given[:at], value, *given[at + 1 :]]
        if value.startswith("-"):
            words = [word for word in words if word != value] + ["--", value]
    trial.notes.append(f"fedrepro {name} {[word[:60] for word in words]}")
    plans = {"FEDREPRO_PLANS": str(folder / PLAN.name), "FEDREPRO_DATA": ""}
    plans["HOME"] = str(tmp_path / "home")  # where ~ is
    ended = server.run(folder, *name.split(), *words, **plans)
    told = "\n".join([*trial.notes, f"status {ended.status}", ended.said[-3000:]])
    assert not ended.crashed, told
    if ended.refused:
        assert ended.said.strip(), told
        trial.outcome = "refused"
    else:
        trial.outcome = "unaffected"
