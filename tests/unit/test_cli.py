"""What the command line refuses before it does anything."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import typer

from fedrepro.base import paths
from fedrepro.base.files import write_text
from fedrepro.base.paths import root
from fedrepro.cli import app, main
from fedrepro.cli.output import show
from fedrepro.report import artefacts, documents, verdicts
from fedrepro.report.html import site
from fedrepro.runs import training


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test trains or judges, even if nothing is refused."""
    monkeypatch.chdir(tmp_path)
    training = SimpleNamespace(train=lambda *_, **__: pytest.fail("trained"))
    monkeypatch.setitem(sys.modules, "fedrepro.runs.session", training)
    monkeypatch.setattr(verdicts, "check", lambda *_: pytest.fail("judged"))


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 1
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("fedrepro: ")
    return error.removeprefix("fedrepro: ").rstrip("\n")


@pytest.mark.parametrize("runs", [[], ["--pending", "0123456789ab"]])
def test_runs_to_train_are_named_in_one_way(
    capsys: pytest.CaptureFixture[str], runs: list[str]
) -> None:
    error = refusal(capsys, "train", "--paper", "tricks", *runs)
    assert error.startswith("give either run ids or files of your own plans, or --pending for all")


def test_an_unknown_run_is_not_trained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    error = refusal(capsys, "train", "--paper", "tricks", "--scale", "smoke", "0123456789ab")
    assert error.startswith("no planned run of tricks at scale smoke has the id '0123456789ab'; ")
    assert error.endswith("`fedrepro status --paper tricks --scale smoke --list` shows the ids")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pause", ["nan", "inf", "-1"])
def test_checkpoints_are_seconds_apart(capsys: pytest.CaptureFixture[str], pause: str) -> None:
    assert main(["train", "--pending", f"--checkpoint-seconds={pause}"]) == 2
    message = f"Invalid value for --checkpoint-seconds: {pause}: must be a number of seconds, or 0"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", " ", os.fsdecode(b"\xff")])
@pytest.mark.parametrize(
    "words",
    [
        ["train", "--pending", "--out={}"],
        ["check", "--out={}"],
        ["table", "tricks", "table1", "--out={}"],
        ["partitions", "tricks", "--out={}"],
        ["records", "import", "{}"],
        ["data", "list", "--data-root={}"],
    ],
)
def test_a_path_is_a_name(capsys: pytest.CaptureFixture[str], words: list[str], name: str) -> None:
    assert main([word.format(name) for word in words]) == 2
    error = capsys.readouterr().err
    assert "an empty text names no file or folder" in error or "is not UTF-8" in error


def test_a_path_may_begin_with_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ``--out=~/file`` the shell leaves the ``~``."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert main(["data", "prepare", "synthetic", "--out=~/made.json"]) == 0
    assert [file.name for file in tmp_path.iterdir()] == ["home"]
    assert (tmp_path / "home/made.json").is_file()


def test_a_folder_of_several_plans_is_no_plan(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDREPRO_PLANS", "")
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text("")
    assert refusal(capsys, "status", "--paper", ".") == (
        ".: holds the plans one, two; give the file of one"
    )
    assert "unknown paper ''" in refusal(capsys, "status", "--paper", "")


def test_what_the_system_refuses_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    error = refusal(capsys, "data", "prepare", "synthetic", "--out", f"{'x' * 300}/a")
    assert "File name too long" in error
    assert "\n" not in error


def test_a_working_directory_that_was_deleted_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    error = refusal(capsys, "data", "list")
    assert error == "the working directory was deleted: change into one that is there"


def test_releases_are_made_in_the_repository(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "check", "--release", "--paper", "tricks") == (
        f"run it in {root()}: the released verdicts are made from the records there"
    )


def test_documents_are_made_in_the_repository(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "docs", "--check") == (
        f"run it in {root()}: the numbers in the documents are made from the records there"
    )


def test_documents_that_are_not_current_are_named_with_their_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config/papers").mkdir(parents=True)
    monkeypatch.setenv("FEDREPRO_ROOT", str(tmp_path))
    for name in ("README.md", "docs/papers/emd.md", "docs/verdicts/README.md"):
        write_text(tmp_path / name, "<!-- begin: one -->\nold\n<!-- end -->\n")
    monkeypatch.setattr(documents, "BLOCKS", {"one": lambda: "new"})
    error = refusal(capsys, "docs", "--check")
    assert error.startswith("README.md, docs/papers/emd.md, docs/verdicts/README.md: numbers are")


@pytest.mark.parametrize(
    "words",
    [
        ["check"],
        ["check", "--against-released"],
        ["status"],
        ["train", "--pending"],
        ["report"],
        ["show", "003add"],
    ],
)
@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("elsewhere", "FEDREPRO_ROOT is elsewhere, which has no config/papers"),
        ("", "Cannot find the fedrepro repository"),
        (".", "config/papers: no plan of a paper is there"),
    ],
)
def test_where_there_are_no_plans_nothing_passes(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    place: str,
    text: str,
) -> None:
    if place == ".":
        (tmp_path / "config/papers").mkdir(parents=True)
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "site-packages/fedrepro/paths.py"))
    monkeypatch.setenv("FEDREPRO_ROOT", place)
    monkeypatch.setenv("FEDREPRO_PLANS", "")
    assert text in refusal(capsys, *words)


def test_a_wrong_root_is_told_by_a_new_process(tmp_path: Path) -> None:
    """Nothing looks for the root while modules are imported, where it would be a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "fedrepro.cli", "prune", "--yes"],
        env=os.environ | {"FEDREPRO_ROOT": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"fedrepro: FEDREPRO_ROOT is {tmp_path}, which has no ")


def test_a_paper_comes_before_a_folder_of_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "emd").mkdir()
    assert main(["status", "--paper", "emd", "--scale", "quick"]) == 0
    assert "emd" in capsys.readouterr().out
    (tmp_path / "edm").mkdir()
    assert "edm: no plan there" in refusal(capsys, "status", "--paper", "edm")


@pytest.mark.parametrize(
    "words",
    [
        ["table", "--paper", "tricks", "tabel1"],
        ["table", "tabel1", "--paper=tricks"],
        ["figure", "--scale", "smoke", "--paper", "tricks", "tabel1"],
        ["why", "--paper", "tricks", "tabel1", "a/b"],
    ],
)
def test_the_paper_may_be_an_option(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert re.match("paper 'tricks' has no (table|figure).* 'tabel1'", refusal(capsys, *words))


@pytest.mark.parametrize("name", ["", "emdd"])
@pytest.mark.parametrize(
    "words", [["status"], ["check"], ["report"], ["partitions", "--out=x"], ["partition", "x"]]
)
def test_the_paper_as_an_option_is_checked(
    capsys: pytest.CaptureFixture[str], words: list[str], name: str
) -> None:
    given = [*words, "--out=x.npz"] if words[0] == "partition" else words
    assert f"unknown paper '{name}'" in refusal(capsys, *given, "--paper", name)
    assert main([*words, "--paper"]) == 2
    assert f"Usage: fedrepro {words[0]} " in (error := capsys.readouterr().err)
    assert "--paper: name a paper" in error


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_leads_nowhere(tmp_path: Path, closed: str) -> None:
    """As a service's may be; no file of ours gets its number."""
    program = (
        "import sys; from fedrepro.runs.command import open_streams; open_streams(); "
        "sys.exit(open('ours', 'w').fileno() < 3 or None in (sys.stdin, sys.stdout, sys.stderr))"
    )
    command = f'{sys.executable} -c "{program}" {closed}'
    assert subprocess.run(["sh", "-c", command], cwd=tmp_path, check=False).returncode == 0


def test_commands_need_no_streams(tmp_path: Path) -> None:
    for program in ("fedrepro.cli schema --out schemas", "fedrepro.runs train --help"):
        command = f"{sys.executable} -m {program} <&- >&- 2>&-"
        assert subprocess.run(["sh", "-c", command], cwd=tmp_path, check=False).returncode == 0
    assert len(list((tmp_path / "schemas").iterdir())) > 4


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["status", "--paper", "tricks", "--scale", "smoke"], 0),
        (["data", "list"], 0),
        (["data", "verify", "synthetic"], 1),
        (["schema", "--out", "schemas"], 1),
        (["train", "--pending", "--paper", "tricks"], 1),
    ],
)
def test_work_that_ends_as_nobody_reads_is_no_success(
    monkeypatch: pytest.MonkeyPatch, words: list[str], status: int
) -> None:
    def train(*_: Any, **__: Any) -> None:
        raise BrokenPipeError  # of its messages, in the middle

    monkeypatch.setattr(training, "train", train)
    reader, writer = os.pipe()
    os.close(reader)
    ended = None
    with contextlib.suppress(BrokenPipeError), open(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        ended = main(words)
    assert ended == status


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("words", ["--help", "--version", "data list"])
def test_no_room_for_the_output_is_told(words: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m fedrepro.cli {words} >/dev/full"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert re.fullmatch("fedrepro: .*No space left on device.*\n", done.stderr)


def test_what_follows_two_dashes_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown paper '--paper'" in refusal(capsys, "status", "--", "--paper")


@pytest.mark.parametrize("name", ["lists.csv", "lists", "lists.npz.txt", "."])
def test_index_lists_are_written_as_npz_alone(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["partition", "tricks", "x", "--out", name]) == 2
    assert f"{name}: it is written as npz; name a file that ends in .npz" in capsys.readouterr().err


def test_a_paper_that_is_named_twice_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(site, "write", lambda papers, *_, **__: written.extend(papers))
    assert main(["report", "tricks", "emd", "tricks"]) == 0
    assert main(["report", "--paper", "tricks", "--paper", "emd", "tricks"]) == 0
    assert written == 2 * ["tricks", "emd"]


def test_folders_of_the_repository_hold_no_records(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root() / "src/fedrepro")
    assert refusal(capsys, "status", "--paper", "tricks") == (
        f"run it in {root()}: records are looked up in ./results/runs"
    )


def commands(group: Any) -> Iterator[Any]:
    """Yield the commands of a group, and of the groups in it."""
    for command in group.commands.values():
        yield from commands(command) if hasattr(command, "commands") else [command]


def test_a_command_whose_argument_is_missing_gives_an_example(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asking = [
        command
        for command in commands(typer.main.get_command(app))
        if any(parameter.required for parameter in command.params)
    ]
    assert len(asking) > 10
    for command in asking:
        assert re.match("Examples?: fedrepro ", command.epilog or ""), command.name
    for words in (["why"], ["figure", "emd"], ["partitions", "emd"], ["data", "prepare"]):
        assert main(words) == 2
        error = capsys.readouterr().err
        name = " ".join(words[: 2 if words[0] == "data" else 1])
        assert re.search(rf"Missing .*\. Example: fedrepro {name} ", error)
    assert refusal(capsys, "train").endswith("`fedrepro train --pending --paper emd --scale quick`")


@pytest.mark.parametrize("words", [[], ["data"], ["records"]])
def test_a_group_alone_shows_its_help(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(words) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert "\nCommands:\n" in error


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["status", "--scale", "papr"], "--scale': 'papr' (did you mean 'paper'? known: paper,"),
        (["train", "--pending", "--scale", "papr"], "--scale': 'papr' (did you mean 'paper'?"),
        (["train", "--pending", "--backend", "lop"], "--backend': 'lop' (did you mean 'loop'?"),
        (["check", "--only", "deviate"], "no verdict 'deviate' (did you mean 'deviates'?"),
    ],
)
def test_a_word_that_an_option_does_not_know_gets_the_nearest(
    capsys: pytest.CaptureFixture[str], words: list[str], near: str
) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert near in error
    assert "Value error" not in error


def test_the_numbers_of_a_figure_are_not_for_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def frame(*_: Any, **__: Any) -> pd.DataFrame:
        return pd.DataFrame({"series": ["SGD"], "x": [1]})

    monkeypatch.setattr(artefacts, "frame", frame)
    words = ["figure", "emd", "fig1a"]
    assert main(words) == 0
    assert capsys.readouterr().out == "series,x\nSGD,1\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "write it with `--out fig1a`" in refusal(capsys, *words)


def test_usage_errors_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["nothing"], ["status", "--scale", "huge"], ["data", "prepare", "mnist"]):
        assert main(words) == 2
        out, error = capsys.readouterr()
        assert out == ""
        assert error.startswith("Usage: fedrepro")


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    names = "train status why verify prune records check table figure partition docs schema"
    assert all(f"\n  {name} " in listed for name in [*names.split(), "partitions", "data"])


def test_help_waits_for_no_large_package() -> None:
    heavy = ("torch", "pandas", "matplotlib", "scipy", "snakemake")
    program = (
        "import sys; from fedrepro.cli import main; status = main(['train', '--help']); "
        f"sys.exit(status or str([name for name in {heavy} if name in sys.modules] or ''))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == ""


def test_colours_change_no_character(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "paper    deviates\n-------  ----------\nemd [b]  1 recorded, 2 pending, not run"
    show(text)
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show(text)
    coloured = capsys.readouterr().out
    assert "\x1b[31mdeviates\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == f"{text}\n"


def test_a_terminal_is_given_lines_of_its_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "deviates emd ZA1-kws-curves: IID and SGD overlap\nall\n\n--paper"
    monkeypatch.setenv("COLUMNS", "24")
    show(text, wrap=True)
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show(text, wrap=True)
    shown = capsys.readouterr().out
    assert shown == ("deviates emd\n    ZA1-kws-curves: IID\n    and SGD overlap\nall\n\n--paper\n")


def test_help_without_a_terminal_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["data"], ["records"]):
        assert main([*words, "--help"]) == 0
        assert not re.search(r"[^]]\.\.\.$", capsys.readouterr().out, re.M)


def test_what_an_ascii_locale_has_not_is_written_with_escapes() -> None:
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "fedrepro.cli", "table", "tricks", "table1"],
        cwd=root(),
        env=os.environ | locale,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "our mean \\xb1 sample standard deviation" in done.stdout


def test_a_name_that_the_output_cannot_encode_is_written_all_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fedrepro.cli", "data", "list"],
        env=os.environ | {"PYTHONIOENCODING": "ascii", "FEDREPRO_DATA": "påcks/x"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "FEDREPRO_DATA is p\\xe5cks/x" in done.stdout
