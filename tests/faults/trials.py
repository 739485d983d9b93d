"""Trials: what was done to the program, and what came of it."""

from __future__ import annotations

import datetime
import os
import platform
import random
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from programs import Ended

Outcome = Literal["refused", "unaffected", "recovered", "other runs", "not noticed", "FAILED"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
BEGIN, END = "<!-- campaign: begin -->", "<!-- campaign: end -->"


@dataclass
class Trial:
    """One of them; it has failed until its outcome is known.

    Attributes:
        kind: what is harmed, such as "run record".
        draw: all that happens by chance is drawn from this.
        done: what is done, such as "flipped bits".
        outcome: what came of it.
        seconds: how long it took.
    """

    kind: str
    draw: random.Random
    done: str = ""
    outcome: Outcome = "FAILED"
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def _told(self, ended: Ended) -> str:
        status = f"exit status {ended.status}"
        return "\n".join([self.done, *self.notes, status, ended.said[-3000:]])

    def line(self) -> str:
        """Return the trial in a line."""
        return f"{self.kind}\t{self.done}\t{self.outcome}\t{self.seconds:.2f}"

    def judge(
        self, ended: Ended, names: Iterable[str], *, same: bool, otherwise: Outcome = "FAILED"
    ) -> None:
        """Tell from how a command ended what came of the trial.

        Args:
            ended: the command.
            names: a refusal names one of these.
            same: whether what the command made, if it ended well, is as without the harm.
            otherwise: the outcome if it is not, where that is no failure.
        """
        told = self._told(ended)
        assert not ended.crashed, told
        if ended.refused:
            assert any(name in ended.said for name in names), f"names none of {names}\n{told}"
            assert len(ended.said.splitlines()) < 20, told
            self.outcome = "refused"
        else:
            assert same or otherwise != "FAILED", f"other numbers\n{told}"
            self.outcome = "unaffected" if same else otherwise

    def recover(self, ended: Ended, unlike: Sequence[str]) -> None:
        """Tell from how the last command ended whether all is as if nothing had happened.

        Args:
            ended: the command.
            unlike: in what things are not as if nothing had happened.
        """
        told = self._told(ended)
        assert ended.status == 0, told
        assert not unlike, "\n".join([*unlike, told])
        self.outcome = "recovered"


def table(trials: Iterable[Trial]) -> str:
    """Return how often what was tried and what came of it, as Markdown."""
    counts: dict[tuple[str, str], Counter[Outcome]] = {}
    for trial in trials:
        counts.setdefault((trial.kind, trial.done), Counter())[trial.outcome] += 1
    rows = [
        "| harmed | how | trials | " + " | ".join(OUTCOMES) + " |",
        "| --- | --- | ---: |" + " ---: |" * len(OUTCOMES),
    ]
    last = ""
    for (kind, done), found in sorted(counts.items()):
        cells = [str(found[outcome] or "") for outcome in OUTCOMES]
        name = "" if kind == last else kind
        rows.append(f"| {name} | {done} | {found.total()} | " + " | ".join(cells) + " |")
        last = kind
    total: Counter[Outcome] = sum(counts.values(), Counter())
    cells = [str(total[outcome]) for outcome in OUTCOMES]
    return "\n".join([*rows, f"| all | | {total.total()} | " + " | ".join(cells) + " |"])


def introduction(trials: Sequence[Trial], seed: str, repository: Path) -> str:
    """Say when, with what and how long was tried."""
    git = ["git", "-C", str(repository), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    day = datetime.datetime.now(datetime.UTC).date()
    minutes = sum(trial.seconds for trial in trials) / 60
    return (
        f"{len(trials):,} trials on {day}, of commit {commit or 'unknown'}, in {minutes:.0f} "
        f"minutes: Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"`--fault-seed {seed}`."
    )


def write_page(page: Path, trials: Iterable[Trial], introduction: str) -> None:
    """Replace what is between the marks of a page."""
    text = page.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{introduction}\n\n{table(trials)}\n{END}{after}")
