"""Published values and claims: ``config/expected/<paper>.yaml``.

Every published number has a location, a tolerance and the reason for it, fixed before our results
are compared with it. A number names the cell of ours that it is held against: an artefact (table or
figure) of the plan and the two key columns of its frame. Entries that hold one published value
against two readings of a paper have the same ``where`` and value: they are one target.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from fedrepro.base.configfile import nearest, read_yaml
from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.base.strict import Strict
from fedrepro.runs.plan import load_plan
from fedrepro.runs.plan_files import is_study
from fedrepro.runs.plan_schema import PaperPlan

_Tolerance = Annotated[float, Field(gt=0)]

Origin = Annotated[
    Literal["printed", "repository", "derived"],
    Field(
        description="printed in the paper, in the authors' repository or other texts of theirs, or "
        "derived: anyone can compute it from other values of the paper, with which it is counted"
    ),
]
_ShownBy = Annotated[
    list[str],
    Field(
        description="tables, figures and claims that measure what the explanation says; none: it "
        "is a conjecture"
    ),
]


ANY = "any"
"""A reading: all of them, because their runs are the same."""


class _Entry(Strict):
    """What a published number and a published curve have in common."""

    id: str
    where: str = Field(description="where the paper prints it")
    artefact: str = Field(description="the table or figure that holds our value")
    origin: Origin = "printed"
    reason: str = Field(description="why this tolerance")
    reading: str = Field(
        default="", description="of several readings of the paper the one that it is held against"
    )
    explanation: str = Field(
        default="", description="our explanation, where ours is beyond the tolerance"
    )
    shown_by: _ShownBy = Field(default_factory=list)
    sparse: bool = Field(
        default=False, description="not judged where our plan has no run for it, instead of refused"
    )


class Number(_Entry):
    """One published number."""

    cell: tuple[str, str | float] = Field(description="row and column, or series and x")
    published: float
    tolerance: _Tolerance = Field(description="largest difference of a reproduced value")
    gain: bool = Field(
        default=False, description="a gain over a baseline: one of the other sign deviates"
    )
    no_gain: float = Field(
        default=0.0, description="where gains change sign: 1 for a ratio, such as a speed-up"
    )
    value: Literal["mean", "sd"] = Field(default="mean", description="what of ours is compared")
    unusable: str = Field(default="", description="why the value is no target")
    drawn_only: bool = Field(default=False, description="drawn beside ours, and not judged")
    series: str = Field(default="", description="id of the curve it is a point of")

    @model_validator(mode="after")
    def _is_a_gain(self) -> Number:
        if self.no_gain and not self.gain:
            raise ValueError("no_gain is for gains only; add gain: true, or leave it out")
        return self

    @property
    def group(self) -> str:
        """The curve, or the table and what of it, among whose values it could be mistaken."""
        return self.series or f"{self.artefact}, {'gain' if self.gain else self.value}"


class Unusable(Strict):
    """Points of a published curve that cannot be held as targets."""

    x: list[float]
    reason: str


class Series(_Entry):
    """A published curve: one number for each x. Its numbers get the ids ``<id>@<x>``."""

    series: str
    x: list[float]
    published: list[float]
    tolerance: list[_Tolerance] | _Tolerance = Field(description="one for all points, or one each")
    unusable: list[Unusable] = Field(default_factory=list)
    drawn_only: list[float] = Field(
        default_factory=list, description="x of the points that are drawn beside ours, not judged"
    )

    @model_validator(mode="after")
    def _same_length(self) -> Series:
        lengths = {len(self.x), len(self.published)}
        if isinstance(self.tolerance, list):
            lengths.add(len(self.tolerance))
        if len(lengths) > 1:
            raise ValueError("x, published and tolerance differ in length")
        unusable = {x for points in self.unusable for x in points.x}
        for key, named in (("unusable", unusable), ("drawn_only", {*self.drawn_only})):
            unknown = sorted(named - {*self.x})
            if unknown:
                raise ValueError(f"{key}: no published points at x = {unknown}")
        return self

    def numbers(self) -> list[Number]:
        """Return the curve's numbers."""
        tolerances = (
            self.tolerance if isinstance(self.tolerance, list) else [self.tolerance] * len(self.x)
        )
        unusable = {x: points.reason for points in self.unusable for x in points.x}
        shared = self.model_dump(include={*_Entry.model_fields} - {"id", "where"})
        return [
            Number(
                **shared,
                id=f"{self.id}@{x:g}",
                where=f"{self.where}, x = {x:g}",
                cell=(self.series, x),
                published=published,
                tolerance=tolerance,
                unusable=unusable.get(x, ""),
                drawn_only=x in self.drawn_only,
                series=self.id,
            )
            for x, published, tolerance in zip(self.x, self.published, tolerances, strict=True)
        ]


Value = bool | int | float | str | list[int | float | str]
Scales = tuple[Literal["paper", "lite"], ...]


class Case(Strict, extra="allow"):
    """One of several cases that a claim is held against; further keys go to its rule."""

    __pydantic_extra__: dict[str, Value] = Field(init=False)

    scales: Scales | None = Field(default=None, description="null: those of the claim")
    explanation: str | None = Field(default=None, description="null: that of the claim")
    shown_by: list[str] | None = Field(default=None, description="null: that of the claim")
    unusable: str | None = Field(default=None, description="null: that of the claim")


class Claim(Strict):
    """A qualitative claim, or several that differ in some values only.

    A rule of the paper's code decides it (:mod:`fedrepro.report.rules`), and gets the values of
    ``with`` and of the case. Id and statement are templates: ``{points}`` is the value of that
    name, and the statement has it as ``names`` print it.
    """

    id: str
    statement: str = Field(description="the assertion; all its numbers are values of the rule")
    source: str = Field(description="where the paper makes it")
    about: Literal["paper", "ours", "arithmetic"] = Field(
        default="paper",
        description="the paper's assertion, one of our own about its methods, or one about its "
        "published numbers alone, which rests on no run",
    )
    rule: str = Field(default="", description="what decides it; empty: the rule named as its id")
    values: dict[str, Value] = Field(
        default_factory=dict, alias="with", description="values of the rule: thresholds and runs"
    )
    each: list[Case] = Field(default_factory=list, description="one claim a case")
    reading: str = ""
    scales: Scales = Field(
        default=("paper", "lite"), description="the scales at which our runs can decide it"
    )
    explanation: str = ""
    shown_by: _ShownBy = Field(default_factory=list)
    unusable: str = Field(
        default="", description="why it is no test: what makes it always hold, or never"
    )

    def cases(self, names: Mapping[str, str]) -> list[Claim]:
        """Return the single claims, with id and statement filled in.

        Args:
            names: how statements print a value, such as ``mnist: MNIST``.

        Raises:
            ValueError: a template names a value that there is not, or is none.
        """
        claims = []
        for case in self.each or [Case()]:
            values = self.values | (case.model_extra or {})
            printed = {key: _printed(value, names) for key, value in values.items()}
            own = {
                key: value
                for key in ("scales", "explanation", "shown_by", "unusable")
                if (value := getattr(case, key)) is not None
            }
            changes = own | {
                "id": _filled(self.id, values),
                "statement": _filled(self.statement, printed),
                "source": _filled(self.source, printed),
                "reading": _filled(self.reading, values),
                "rule": self.rule or self.id,
                "values": values,
                "each": [],
            }
            claims.append(self.model_copy(update=changes))
        return claims


def _filled(template: str, values: Mapping[str, object]) -> str:
    """Return a template with its values.

    Raises:
        ValueError: it names a value, or a part of one, that there is not; or braces are open.
    """
    try:
        return template.format_map(values)
    except KeyError as error:
        raise ValueError(f"no value {error} for '{template}'") from error
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{error} in '{template}'") from error


def _printed(value: Value, names: Mapping[str, str]) -> str:
    """Return a value as statements print it: ``MNIST``, ``2.5``, ``0, 1 and 2``."""
    if isinstance(value, list):
        items = [_printed(item, names) for item in value]
        return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))
    if isinstance(value, float):
        return f"{value:.12g}"
    return names.get(str(value), str(value))


class NotReproducible(Strict):
    """A published number that cannot be re-created, with the reason."""

    id: str
    where: str
    published: float
    origin: Origin = "printed"
    reason: str
    artefact: str = Field(default="", description="the table that shows it, if one does")
    cell: tuple[str, str | float] = Field(default=("", ""), description="row and column there")


class Change(Strict):
    """A change to a claim or its scales after our results were known."""

    claims: list[str] = Field(description="ids")
    commit: str = Field(description="where it was made")
    what: str = Field(description="what changed, and why")
    before: str = Field(description="what the claim would have said unchanged")


class Headline(Strict):
    """What a paper is known for: the report shows it first."""

    claims: list[str] = Field(default_factory=list, description="ids of one to four claims")
    figure: str = Field(default="", description="the figure that tells most")


class Expected(Strict):
    """All that one paper publishes of the parts we re-create."""

    paper: str
    reading: str = Field(
        default="",
        description=f"of the numbers and claims that name none; '{ANY}' is for those that are the "
        "same in all readings",
    )
    headline: Headline = Field(default_factory=Headline)
    numbers: list[Number] = Field(default_factory=list)
    series: list[Series] = Field(default_factory=list)
    names: dict[str, str] = Field(
        default_factory=dict, description="how statements of claims print a value"
    )
    claims: list[Claim] = Field(default_factory=list)
    not_reproducible: list[NotReproducible] = Field(default_factory=list)
    changes: list[Change] = Field(
        default_factory=list, description="changes to claims after our results were known"
    )

    def all_numbers(self) -> list[Number]:
        """Return single numbers and the numbers of all curves."""
        return self.numbers + [n for series in self.series for n in series.numbers()]

    def judged_numbers(self) -> list[Number]:
        """Return the numbers that get a verdict: all but those that are only drawn."""
        return [number for number in self.all_numbers() if not number.drawn_only]


@functools.cache
def load_expected(paper: str) -> Expected:
    """Read the published values of a paper.

    Raises:
        FedreproError: the file is missing, wrong or another paper's, an id is double, or an
            artefact is unknown.
    """
    file = root() / f"config/expected/{paper}.yaml"
    plan = load_plan(paper)
    if is_study(paper):
        raise FedreproError(
            f"'{paper}' is a study of our own: without published values ({file}) it has no verdicts"
        )
    expected = read_yaml(file, Expected)
    if expected.paper != paper:
        raise FedreproError(
            f"{file}: paper: '{expected.paper}' is not the name of the file; write "
            f"`paper: {paper}`, or rename the file"
        )
    expected = _in_readings(expected.model_copy(update={"claims": [*_cases(expected, file)]}))
    _refuse_unknown(expected, plan, file)
    _refuse_double(expected, file)
    return expected


def _in_readings(expected: Expected) -> Expected:
    """Return the numbers and claims with their readings; none is that of all.

    Arithmetic on published numbers has none, because it rests on no run.
    """

    def reading(entry: Number | Series | Claim) -> dict[str, str]:
        if isinstance(entry, Claim) and entry.about == "arithmetic":
            return {"reading": ""}
        found = entry.reading or expected.reading
        return {"reading": "" if found == ANY else found}

    changes = {
        "numbers": [entry.model_copy(update=reading(entry)) for entry in expected.numbers],
        "series": [entry.model_copy(update=reading(entry)) for entry in expected.series],
        "claims": [entry.model_copy(update=reading(entry)) for entry in expected.claims],
    }
    return expected.model_copy(update=changes)


def _refuse_unknown(expected: Expected, plan: PaperPlan, file: Path) -> None:
    """Make sure that the tables, figures and claims that are named exist."""
    artefacts, figures = [*plan.tables, *plan.figures], [*plan.figures]
    numbers, claims = expected.all_numbers(), expected.claims
    shown = [(number.id, number.artefact) for number in numbers]
    shown += [(item.id, item.artefact) for item in expected.not_reproducible if item.artefact]
    for name, artefact in shown:
        if artefact not in artefacts:
            raise FedreproError(
                f"{file}: {name}: no table or figure '{artefact}' {nearest(artefact, artefacts)}"
            )
    known = [*artefacts, *(claim.id for claim in claims)]
    if (figure := expected.headline.figure) and figure not in figures:
        raise FedreproError(f"{file}: headline: no figure '{figure}' {nearest(figure, figures)}")
    for name in expected.headline.claims:
        if name not in (ids := [claim.id for claim in claims]):
            raise FedreproError(f"{file}: headline: no claim '{name}' {nearest(name, ids)}")
    rests_on = [(n.id, n.shown_by) for n in numbers] + [(c.id, c.shown_by) for c in claims]
    for name, places in rests_on:
        for place in places:
            if place not in known:
                raise FedreproError(
                    f"{file}: {name}: shown_by: no table, figure or claim '{place}' "
                    f"{nearest(place, known)}"
                )


def _refuse_double(expected: Expected, file: Path) -> None:
    ids = Counter(number.id for number in expected.all_numbers())
    ids.update(claim.id for claim in expected.claims)
    ids.update(item.id for item in expected.not_reproducible)
    double = sorted(name for name, times in ids.items() if times > 1)
    if double:
        raise FedreproError(f"{file}: ids used twice: {', '.join(double)}")


def _cases(expected: Expected, file: Path) -> Iterator[Claim]:
    for claim in expected.claims:
        try:
            yield from claim.cases(expected.names)
        except ValueError as error:
            raise FedreproError(f"{file}: claims: {claim.id}: {error}") from error


def called(paper: str, label: object) -> str:
    """Return what readers are told for a label of the plan: ``MNIST`` for ``mnist``."""
    return load_expected(paper).names.get(str(label), str(label))


def cell_key(row: object, column: object) -> tuple[str, str]:
    """Return the key of a cell as text; equal numbers give equal text: ``1.764``."""

    def text(value: object) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            return str(value)
        return f"{float(value):g}"

    return text(row), text(column)


def published(
    paper: str, artefact: str, value: Literal["mean", "sd"] = "mean"
) -> dict[tuple[str, str], float]:
    """Return the published numbers that belong into a table or figure, by :func:`cell_key`.

    A study of our own has none.
    """
    return {} if is_study(paper) else dict(_published(paper).get((artefact, value), {}))


@functools.cache
def _published(paper: str) -> dict[tuple[str, str], dict[tuple[str, str], float]]:
    """Return what :func:`published` does, by artefact and value."""
    expected = load_expected(paper)
    found = defaultdict[tuple[str, str], dict[tuple[str, str], float]](dict)
    for number in expected.all_numbers():
        found[number.artefact, number.value][cell_key(*number.cell)] = number.published
    for item in expected.not_reproducible:
        found[item.artefact, "mean"][cell_key(*item.cell)] = item.published
    return found
