"""What the pages of the report show, read from the results of a scale.

Tables, figures and verdicts are those in ``results/<scale>``; verdicts at the published scale are
made from its records, as far as there are any.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import TypeAdapter

from fedrepro.base.configfile import read_json
from fedrepro.base.errors import FedreproError
from fedrepro.report.artefacts import cell_text
from fedrepro.report.checks import DECIDED, Check, shown
from fedrepro.report.expected import Expected, cell_key, load_expected
from fedrepro.report.html.results import Gaps
from fedrepro.report.score import Baseline, Score, baselines, in_words, scores
from fedrepro.report.verdicts import check
from fedrepro.runs.plan import expand, load_plan, unique
from fedrepro.runs.plan_files import is_study
from fedrepro.runs.plan_schema import Artefact, PaperPlan, Scale

Kind = Literal["table", "figure"]


@dataclass(frozen=True)
class Cell:
    """A number of a table or figure.

    Attributes:
        row: of a table, or the series of a figure.
        column: of a table, or x of a figure.
        text: our number, its spread, how many seeds, and the published value.
        values: one a seed, as it is shown.
        runs: their ids.
        checks: verdicts on it, one a reading and value.
    """

    row: str
    column: str
    text: str
    values: tuple[str, ...]
    runs: tuple[str, ...]
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> str:
        """The verdict that is shown at the cell: that on the mean, of the first reading."""
        decided = [item for item in self.checks if item.verdict in DECIDED]
        return decided[0].verdict if decided else ""


@dataclass(frozen=True)
class View:
    """A table or figure of a paper.

    Attributes:
        kind: which of the two.
        name: in the plan.
        about: its title, source and what its cells hold.
        cells: all of its numbers.
        absent: why it is not made; empty if it is.
        left_out: which runs it does without; empty if none.
    """

    kind: Kind
    name: str
    about: Artefact
    cells: tuple[Cell, ...]
    absent: str = ""
    left_out: str = ""

    @property
    def rows(self) -> list[str]:
        """The keys of its rows, in order."""
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        """The keys of its columns, in order."""
        return list(dict.fromkeys(cell.column for cell in self.cells))

    @functools.cached_property
    def grid(self) -> dict[tuple[str, str], Cell]:
        """Its cells by row and column."""
        return {(cell.row, cell.column): cell for cell in self.cells}

    @property
    def runs(self) -> dict[str, list[str]]:
        """Row or series -> ids of the runs that its numbers are made of, where there are any."""
        found = {row: dict[str, None]() for row in self.rows}
        for cell in self.cells:
            found[cell.row] |= dict.fromkeys(cell.runs)
        return {row: list(ids) for row, ids in found.items() if ids}

    @property
    def held(self) -> list[Cell]:
        """The cells that a published value is held against."""
        return [cell for cell in self.cells if cell.checks]


@dataclass(frozen=True)
class Outcome:
    """How many targets came out how, for a bar.

    Attributes:
        what: the targets.
        scale: of the runs.
        total: how many targets there are.
        counts: verdict, or ``not informative`` or ``not tried``, and how many.
    """

    what: str
    scale: str
    total: int
    counts: Counter[str]


@dataclass(frozen=True)
class Paper:
    """All that the report says of a paper.

    Attributes:
        plan: its plan.
        expected: its published values; a study of our own has none.
        checks: verdicts at the scale of the report.
        published: verdicts at the published scale.
        views: its tables, then its figures.
        planned: how many runs there are at the scale of the report.
        recorded: how many of these have a record.
    """

    plan: PaperPlan
    expected: Expected
    checks: tuple[Check, ...]
    published: tuple[Check, ...]
    views: tuple[View, ...]
    planned: int = 0
    recorded: int = 0

    @property
    def name(self) -> str:
        """Its slug."""
        return self.plan.paper

    @property
    def claims(self) -> list[Check]:
        """Verdicts on claims, those first that deviate at some scale."""
        order = ["deviates", "inconclusive", "reproduced"]
        rank = {verdict: place for place, verdict in enumerate(order)}
        claims = [item for item in self.checks if item.kind == "claim"]
        return sorted(
            claims,
            key=lambda item: min(rank.get(x.verdict, len(order)) for x in self.at_scales(item)),
        )

    @property
    def undecided(self) -> list[Check]:
        """Those of its claims that have no verdict of runs at any scale."""
        return [
            item
            for item in self.claims
            if not any(one.verdict in DECIDED for one in self.at_scales(item))
        ]

    def at_scales(self, claim: Check) -> list[Check]:
        """Return the verdicts on a claim: as published if tried there, then the report's."""
        published = [item for item in self.published if item.id == claim.id]
        tried = [item for item in published if item.verdict in DECIDED]
        same = any((x.runs, x.verdict) == (claim.runs, claim.verdict) for x in tried)
        return tried if same else [*tried, claim]

    @property
    def tried_as_published(self) -> list[Check]:
        """Verdicts on printed values at the published scale, where it is not the report's."""
        if self.published == self.checks:
            return []
        return [
            item
            for item in self.published
            if (item.kind, item.origin) == ("number", "printed") and item.verdict in DECIDED
        ]

    @property
    def headlines(self) -> list[Check]:
        """Verdicts on the claims that the paper is known for, those first that were tried.

        At the published scale, if a claim was tried there.
        """
        found = []
        for name in self.expected.headline.claims:
            both = [item for item in (*self.published, *self.checks) if item.id == name]
            found.append(next((item for item in both if item.verdict in DECIDED), both[-1]))
        return sorted(found, key=lambda item: item.verdict not in DECIDED)

    @property
    def outcomes(self) -> list[Outcome]:
        """Printed values at the published scale, and the paper's claims at both."""
        return [
            _outcome(item)
            for item in self.scores
            if item.origin == "paper" or (item.scale, item.origin) == ("paper", "printed")
        ]

    @property
    def scores(self) -> list[Score]:
        """Every count, of both scales."""
        return list(scores([*self.published, *self.checks]))

    @property
    def baselines(self) -> list[Baseline]:
        """What our values would reproduce at other places."""
        return baselines(self.published)

    @property
    def no_targets(self) -> list[Check]:
        """What is held against nothing, with the reason."""
        return [x for x in self.checks if x.verdict in ("no target", "not reproducible")]

    @property
    def made(self) -> list[View]:
        """Its tables, then its figures, without those that are not made."""
        return [view for view in self.views if not view.absent]

    @property
    def headline_figure(self) -> View | None:
        """The figure that tells most, if it is made; of a study the first one."""
        figures = [view for view in self.made if view.kind == "figure"]
        named = self.expected.headline.figure
        chosen = [view for view in figures if view.name == named] if self.judged else figures
        return next(iter(chosen), None)

    @property
    def judged(self) -> bool:
        """Whether there are verdicts; a study of our own has none."""
        return bool(self.checks)


def _outcome(item: Score) -> Outcome:
    what = "claims" if item.kind == "claim" else item.what
    name = f"{what}, {in_words(item.reading)}" if item.reading else what
    counts = Counter[str](map(str, item.outcomes.elements()))
    counts["not informative"] = item.uninformative
    counts["not tried"] = item.targets - item.tried
    return Outcome(name, item.scale, item.targets, counts)


def read_paper(paper: str, scale: Scale, results: Path, gaps: Gaps) -> Paper:
    """Read the results of a paper.

    Args:
        paper: its slug.
        scale: of the report.
        results: the folder that holds ``<scale>/tables``, ``figures`` and ``checks``.
        gaps: what they lack.

    Raises:
        FedreproError: a result is missing; says how to make it.
    """
    plan, study = load_plan(paper), is_study(paper)
    expected = Expected(paper=paper) if study else load_expected(paper)
    checks = read_json(
        there(results / scale / "checks" / f"{paper}.json", scale),
        TypeAdapter(tuple[Check, ...]),
        f"remove it, and {_makes(scale)} it again",
    )
    published = checks if study or scale == "paper" else tuple(check(paper, "paper"))
    by_cell = _by_cell(expected, checks)
    artefacts: dict[Kind, dict[str, Artefact]] = {"table": plan.tables, "figure": plan.figures}
    views = []
    for kind, every in artefacts.items():
        for name, about in every.items():
            absent, left_out = gaps.absent.get(name, ""), gaps.left_out.get(name, "")
            cells = () if absent else _read_cells(results, scale, paper, kind, name, by_cell)
            views.append(View(kind, name, about, tuple(cells), absent, left_out))
    planned = unique(expand(paper, scale)).values()
    recorded = sum(run.recorded for run in planned)
    return Paper(plan, expected, checks, published, tuple(views), len(planned), recorded)


def _makes(scale: Scale) -> str:
    return f"`snakemake --cores 8 --config scale={scale} -- all_report` makes"


def there(file: Path, scale: Scale) -> Path:
    """Return a file that the report of a scale is made of.

    Raises:
        FedreproError: it is missing; says how to make it.
    """
    if not file.exists():
        raise FedreproError(
            f"{file}: missing; {_makes(scale)} it first, `fedrepro report --partial` does without"
        )
    return file


Place = tuple[str, str, str]
"""Artefact, and the two keys of a cell."""


def _by_cell(expected: Expected, checks: Iterable[Check]) -> dict[Place, list[Check]]:
    places = {n.id: (n.artefact, *cell_key(*n.cell)) for n in expected.all_numbers()}
    found = defaultdict(list)
    for item in checks:
        if item.id in places:
            found[places[item.id]].append(item)
    return {place: sorted(items, key=lambda x: x.value == "sd") for place, items in found.items()}


def _read_cells(
    results: Path,
    scale: Scale,
    paper: str,
    kind: Kind,
    name: str,
    by_cell: dict[Place, list[Check]],
) -> Iterator[Cell]:
    file = there(results / scale / f"{kind}s" / paper / f"{name}.csv", scale)
    try:
        frame = pd.read_csv(
            file,
            dtype={"values": str, "runs": str, "run": str},
            keep_default_na=False,  # a row may be called None
            na_values=[""],
        )
        for _, row in frame.iterrows():
            yield _cell(row, name, by_cell)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        cure = f"remove it, and {_makes(scale)} it again"
        raise FedreproError(f"{file}: not as it was written ({error}); {cure}") from error


def _cell(row: pd.Series, name: str, by_cell: dict[Place, list[Check]]) -> Cell:
    keys = cell_key(row.iloc[0], row.iloc[1])
    unit = row.get("unit", "fraction")
    values = _split(row.get("values"))
    runs = tuple(dict.fromkeys(_split(row.get("runs", row.get("run")))))
    row = row.copy()
    row["values"] = [float(value) for value in values]
    text = cell_text(row) if "n" in row else ""
    checks = tuple(by_cell.get((name, *keys), ()))
    seeds = tuple(shown(float(value), unit) for value in values)
    return Cell(*keys, text, seeds, runs, checks)


def _split(text: object) -> tuple[str, ...]:
    return tuple(text.split()) if isinstance(text, str) else ()
