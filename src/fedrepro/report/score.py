"""Counts of verdicts: how many published values and claims were tried, and how they came out.

Every count can be made again from ``fedrepro check --json``:

- A target is a published value: entries with equal ``where``, ``value`` and ``published`` are one.
- Values ``printed`` in the paper, those of its ``repository`` and ``derived`` ones are counted
  apart, and so are the claims of the ``paper``, ``ours``, and ``arithmetic`` on published numbers.
- Where a paper is held in two readings each has its own count: of the entries of that reading and
  of those that are the same in both.
- A target is tried where it has one of the verdicts :data:`fedrepro.report.checks.DECIDED`. One
  that is not ``informative`` is counted as such, unless it deviates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from tabulate import tabulate

from fedrepro.report.checks import DECIDED, Check, Verdict, line, would_pass
from fedrepro.report.stats import LEAST_FOR_T, LEVEL, holm

ORIGINS = {
    "number": {"printed": "printed values", "repository": "repository's", "derived": "derived"},
    "claim": {"paper": "paper's claims", "ours": "our claims", "arithmetic": "arithmetic"},
}
"""What is counted apart, and how it is called; the first of each comes first everywhere."""

COUNTS = ("all", "tried", *DECIDED, "not informative", "1-2 seeds")
"""What readers are told of a score."""


@dataclass(frozen=True)
class Score:
    """How one kind of targets of a paper came out under one reading.

    Attributes:
        paper: its slug.
        scale: of our runs.
        kind: ``number`` or ``claim``.
        origin: a key of :data:`ORIGINS`.
        reading: empty where the paper is held in one only.
        targets: how many there are.
        tried: how many have a verdict.
        outcomes: verdict -> how many informative ones have it.
        uninformative: how many of those tried could not have failed.
        few: how many of the informative ones tried rest on one seed or two.
    """

    paper: str
    scale: str
    kind: str
    origin: str
    reading: str
    targets: int
    tried: int
    outcomes: Counter[Verdict]
    uninformative: int
    few: int

    @property
    def what(self) -> str:
        """What is counted."""
        return ORIGINS[self.kind][self.origin]

    def counts(self) -> dict[str, int | str]:
        """Return :data:`COUNTS` as the cells of a row; those of what was tried are empty for 0."""
        came_out = [*(self.outcomes[verdict] for verdict in DECIDED), self.uninformative, self.few]
        counts = [self.targets, self.tried, *(count or "" for count in came_out)]
        return dict(zip(COUNTS, counts, strict=True))


def in_words(name: str) -> str:
    """Return a name of the configuration, such as a reading's, as a sentence has it."""
    return name.replace("_", " ")


def scores(checks: Iterable[Check]) -> Iterator[Score]:
    """Yield the scores of papers and scales, in the order of the checks and of :data:`ORIGINS`."""
    by_paper: dict[tuple[str, str], list[Check]] = {}
    for item in checks:
        by_paper.setdefault((item.paper, item.scale), []).append(item)
    for (paper, scale), items in by_paper.items():
        for kind, origins in ORIGINS.items():
            for origin in origins:
                of_kind = [x for x in items if (x.kind, x.origin) == (kind, origin)]
                for reading in readings(of_kind):
                    found = targets(x for x in of_kind if x.reading in ("", reading))
                    if found:
                        yield _score(paper, scale, kind, origin, reading, found)


def readings(checks: Iterable[Check]) -> list[str]:
    """Return the readings that checks are of; an empty one where they have no other."""
    items = list(checks)
    named = list(dict.fromkeys(item.reading for item in items if item.reading))
    return sorted(named, reverse=True) or ([""] if items else [])


def targets(checks: Iterable[Check]) -> list[Check]:
    """Return one check a target: of entries of the same value, the first."""
    first: dict[object, Check] = {}
    for item in checks:
        key = (item.where, item.value, item.published) if item.kind == "number" else item.id
        first.setdefault(key, item)
    return [item for item in first.values() if item.verdict != "no target"]


def _score(
    paper: str, scale: str, kind: str, origin: str, reading: str, found: Sequence[Check]
) -> Score:
    tried = [item for item in found if item.verdict in DECIDED]
    counted = [item for item in tried if item.informative]
    return Score(
        paper,
        scale,
        kind,
        origin,
        reading,
        len(found),
        len(tried),
        Counter(item.verdict for item in counted),
        len(tried) - len(counted),
        sum(0 < item.seeds < LEAST_FOR_T for item in counted),
    )


class Sides(NamedTuple):
    """How many claims differ significantly from their thresholds, and on which side.

    Attributes:
        met: they hold.
        unmet: they do not.
    """

    met: int
    unmet: int


@dataclass(frozen=True)
class Significance:
    """Claims about means over several seeds, tested together.

    Attributes:
        tested: how many have a p value.
        single: those below :data:`fedrepro.report.stats.LEVEL` taken one by one.
        adjusted: those below it after Holm's adjustment for all of them.
    """

    tested: int
    single: Sides
    adjusted: Sides


def significance(checks: Iterable[Check]) -> Significance:
    """Return how many claims are significant, one by one and all together."""
    found = [(x.p, x.verdict) for x in checks if x.p is not None and x.verdict in DECIDED]
    each, verdicts = [p for p, _ in found], [verdict for _, verdict in found]

    def sides(p_values: Iterable[float]) -> Sides:
        counts = Counter(v for p, v in zip(p_values, verdicts, strict=True) if p < LEVEL)
        return Sides(counts["reproduced"], counts["deviates"])

    return Significance(len(found), sides(each), sides(holm(each)))


@dataclass(frozen=True)
class Baseline:
    """What share of a curve or table is within the tolerances, and with ours from other places.

    Attributes:
        group: the curve or table.
        unit: of its values that are compared.
        reading: of the paper.
        tried: how many values.
        reproduced: share within the tolerance where they belong, whatever the verdict.
        shuffled: share expected if our values were dealt out at random.
        neighbour: mean of the shares if each were that of the place before, or after.
    """

    group: str
    unit: str
    reading: str
    tried: int
    reproduced: float
    shuffled: float
    neighbour: float


def baselines(checks: Iterable[Check]) -> list[Baseline]:
    """Return the baselines of all curves and tables of which at least three values were tried.

    Values of several units, such as rounds and ratios of them, are never mistaken for each other:
    each unit of a table has its own.
    """
    groups: dict[tuple[str, str, str], list[Check]] = {}
    for item in checks:
        if item.kind == "number" and item.verdict in DECIDED:
            groups.setdefault((item.group, item.unit, item.reading), []).append(item)
    return [_baseline(*key, items) for key, items in groups.items() if len(items) >= 3]


def _baseline(group: str, unit: str, reading: str, items: Sequence[Check]) -> Baseline:
    passes = np.array([[would_pass(one, other) for other in items] for one in items])
    beside = [*np.diag(passes, 1), *np.diag(passes, -1)]
    return Baseline(
        group,
        unit,
        reading,
        len(items),
        float(np.diag(passes).mean()),
        float(passes.mean()),
        float(np.mean(beside)),
    )


def text(checks: Iterable[Check], *, verbose: bool = False, width: int | None = None) -> str:
    """Return the scores as a table.

    Args:
        checks: what :func:`fedrepro.report.verdicts.check` returned, of one or several papers.
        verbose: also one line a check.
        width: columns there are; a wider table becomes one line a score. None: as many as it takes.
    """
    items = list(checks)
    found = list(scores(items))
    rows = [
        [one.paper, one.scale, one.what, in_words(one.reading)]
        + [str(count or "") for count in one.counts().values()]
        for one in found
    ]
    table = tabulate(rows, ["paper", "scale", "", "reading", *COUNTS], tablefmt="simple")
    if width is not None and len(table.partition("\n")[0]) > width:
        table = "\n".join(map(_in_a_line, found))
    return "\n\n".join(["\n".join(map(line, items)), table] if verbose else [table])


def _in_a_line(one: Score) -> str:
    named = ", ".join(filter(None, [one.what, in_words(one.reading)]))
    counts = ", ".join(f"{name} {count}" for name, count in one.counts().items() if count)
    return f"{one.paper} {one.scale}, {named}: {counts}"
