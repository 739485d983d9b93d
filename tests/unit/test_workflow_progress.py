"""One line of progress for a call of Snakemake."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedrepro.workflow.progress import Progress, follow


def said(lines: list[str], folder: Path, *, terminal: bool = False) -> str:
    out = io.StringIO()
    follow(lines, folder / "logs/all.log", Progress(out, terminal=terminal))
    return out.getvalue()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "60")


STEPS = [f"{n} of 40 steps ({100 * n // 40}%) done\n" for n in range(1, 41)]


def test_jobs_are_counted_and_everything_is_kept(tmp_path: Path) -> None:
    lines = ["Building DAG of jobs...\n", *STEPS[:8], "rule table:\n", *STEPS[8:]]
    *counts, last = said(lines, tmp_path).splitlines()
    assert counts[0] == "1 of 40 jobs done"
    assert counts[-1] == "40 of 40 jobs done"
    assert len(counts) <= 11
    assert last == f"Snakemake's messages: {tmp_path}/logs/all.log"
    assert (tmp_path / "logs/all.log").read_text() == "".join(lines)


def test_a_terminal_has_one_line(tmp_path: Path) -> None:
    text = said(STEPS, tmp_path, terminal=True)
    assert text.count("\n") == 2
    assert [part.strip() for part in text.split("\n")[0].split("\r")][-1] == "40 of 40 jobs done"
    assert text.count("\r") == 40


def test_a_line_is_no_wider_than_the_terminal(tmp_path: Path) -> None:
    logs = tmp_path / "logs/lite/train"
    logs.mkdir(parents=True)
    (logs / "train_a.log").write_text("started\n3 of 5 runs done, 2 in flight: round 7" + "." * 99)
    text = said(STEPS[:1], tmp_path, terminal=True).split("\n")[0].strip("\r")
    assert text.startswith("1 of 40 jobs done; 3 of 5 runs done, 2 in flight")
    assert len(text) == 59


def test_a_log_that_is_deleted_meanwhile_is_not_shown(tmp_path: Path) -> None:
    """As Snakemake does when the job begins that writes it."""
    logs = tmp_path / "logs/lite/train"
    logs.mkdir(parents=True)
    (logs / "train_a.log").symlink_to("gone")
    assert said(STEPS[:1], tmp_path).startswith("1 of 40 jobs done\n")


def test_bytes_that_are_no_text_are_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedrepro.workflow.progress", "log.txt"]
    subprocess.run(command, input=b"a \xff file\n", check=True, capture_output=True)
    assert (tmp_path / "log.txt").read_text() == "a \\xff file\n"


def test_from_an_error_on_everything_is_printed(tmp_path: Path) -> None:
    error = ["Error in rule table:\n", "    jobid: 3\n", "4 of 40 steps (10%) done\n", "Exiting\n"]
    text = said([*STEPS[:3], "rule table:\n", *error], tmp_path)
    assert "".join(error) in text
    assert "rule table:\n" not in text.replace("Error in rule table:\n", "")


def test_other_words_are_no_error(tmp_path: Path) -> None:
    assert "Errors of" not in said(["The Errors of: 3\n", "error bars\n"], tmp_path)


def test_ctrl_c_ends_snakemake_first(tmp_path: Path) -> None:
    """It goes to both processes of the pipe; what Snakemake says upon it is shown and kept."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fedrepro.workflow.progress", "log.txt"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(STEPS[0])
    process.stdin.flush()
    assert process.stdout.readline() == "1 of 40 jobs done\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate("Terminating processes on user request\nlast\n")
    assert (process.returncode, err) == (0, "")
    assert out == "Terminating processes on user request\nlast\nSnakemake's messages: log.txt\n"
    assert (tmp_path / "log.txt").read_text().endswith("last\n")
