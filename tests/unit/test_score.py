"""How verdicts are counted: one a target, kinds and readings apart, and beside baselines."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fedrepro.report import score
from fedrepro.report.checks import Check, would_pass
from fedrepro.report.score import Score, Sides, Significance

NUMBER = Check(
    id="N1",
    kind="number",
    paper="emd",
    scale="paper",
    origin="printed",
    where="Table 1, a",
    group="Table 1",
    value="mean",
    unit="",
    reading="",
    statement="",
    published=0.5,
    ours=0.5,
    interval=[],
    values=[0.5],
    tolerance=0.1,
    reason="",
    informative=True,
    verdict="reproduced",
    evidence="",
    seeds=1,
    spread=None,
    p=None,
    needed=None,
    explanation="",
    cause="",
    runs=[],
)


def number(name: str, **changes: Any) -> Check:
    return Check(**{**vars(NUMBER), "id": name, "where": name} | changes)


def claim(name: str, **changes: Any) -> Check:
    content = {"kind": "claim", "origin": "paper", "published": None, "seeds": 0}
    return number(name, **content | changes)


def single(checks: list[Check]) -> Score:
    (found,) = score.scores(checks)
    return found


def test_a_value_that_two_entries_hold_is_one_target() -> None:
    twice = [number("N1", where="Table 1, a"), number("N2", where="Table 1, a")]
    assert single(twice).targets == 1
    assert single([*twice, number("N3", where="Table 1, a", published=0.6)]).targets == 2
    assert single([*twice, number("N3", where="Table 1, a", value="sd")]).targets == 2
    assert single([*twice, number("N3", where="Table 1, b")]).targets == 2


def test_of_entries_of_one_target_the_first_counts() -> None:
    twice = [number("N1", where="a"), number("N2", where="a", verdict="deviates")]
    assert single(twice).outcomes == Counter(reproduced=1)


def test_claims_on_one_place_are_targets_of_their_own() -> None:
    assert single([claim("C1", where="Fig. 2"), claim("C2", where="Fig. 2")]).targets == 2


def test_kinds_of_targets_are_counted_apart() -> None:
    checks = [
        claim("C1", origin="ours"),
        claim("C2", origin="arithmetic"),
        number("N1", origin="derived"),
        number("N2", origin="repository"),
        number("N3"),
        claim("C3"),
        number("N4", paper="cadis"),
        number("N5", scale="lite"),
    ]
    found = [(x.paper, x.scale, x.kind, x.origin, x.targets) for x in score.scores(checks)]
    assert found == [
        ("emd", "paper", "number", "printed", 1),
        ("emd", "paper", "number", "repository", 1),
        ("emd", "paper", "number", "derived", 1),
        ("emd", "paper", "claim", "paper", 1),
        ("emd", "paper", "claim", "ours", 1),
        ("emd", "paper", "claim", "arithmetic", 1),
        ("cadis", "paper", "number", "printed", 1),
        ("emd", "lite", "number", "printed", 1),
    ]


def test_each_reading_has_its_own_count() -> None:
    checks = [
        number("N1", where="a", reading="as_run", verdict="deviates"),
        number("N2", where="a", reading="as_printed"),
        number("N3", where="b", reading="as_run"),
        number("N4", where="c"),
    ]
    found = {x.reading: x for x in score.scores(checks)}
    assert found.keys() == {"as_run", "as_printed"}
    assert found["as_run"].targets == 3
    assert found["as_run"].outcomes == Counter(deviates=1, reproduced=2)
    assert found["as_printed"].outcomes == Counter(reproduced=2)


def test_what_is_tried_and_what_it_says() -> None:
    found = single(
        [
            number("N1"),
            number("N2", verdict="close", seeds=3),
            number("N3", verdict="inconclusive", seeds=3),
            number("N4", verdict="deviates", seeds=2),
            number("N5", informative=False),
            number("N6", informative=False, verdict="not run"),
            number("N7", verdict="not run"),
            number("N8", verdict="not decidable"),
            number("N9", verdict="not reproducible"),
            number("N10", verdict="no target"),
        ]
    )
    assert (found.targets, found.tried, found.uninformative, found.few) == (9, 5, 1, 2)
    assert found.outcomes == Counter(reproduced=1, close=1, inconclusive=1, deviates=1)
    counts = found.counts()
    assert (counts["not informative"], counts["1-2 seeds"]) == (1, 2)
    assert single([number("N1", seeds=3)]).counts()["not informative"] == ""


def test_many_tests_at_once_are_adjusted() -> None:
    """Holm: 0.001, 0.002 and 0.02 of four become 0.004, 0.006 and 0.04."""
    checks = [
        claim("C1", p=0.001),
        claim("C2", p=0.02),
        claim("C3", p=0.4, verdict="inconclusive"),
        claim("C4"),
        claim("C5", p=0.001, verdict="no target"),
        claim("C6", p=0.002, verdict="deviates"),
    ]
    assert score.significance(checks) == Significance(4, Sides(2, 1), Sides(1, 1))
    assert score.significance([]) == Significance(0, Sides(0, 0), Sides(0, 0))


def test_a_difference_that_decides_nothing_is_on_no_side() -> None:
    """Networks near chance may differ significantly, and are inconclusive."""
    checks = [claim("C1", p=0.001, verdict="inconclusive")]
    assert score.significance(checks) == Significance(1, Sides(0, 0), Sides(0, 0))


def test_values_are_held_against_those_of_other_places() -> None:
    """Ours are 0.5, 0.55, 0.9 where 0.5, 0.61, 0.9 are published, all ± 0.1."""
    checks = [
        number("N1", ours=0.5),
        number("N2", ours=0.55, published=0.61),
        number("N3", ours=0.9, published=0.9),
        number("N4", ours=0.9, published=0.9, verdict="not decidable"),
        number("N5", group="Table 2"),
    ]
    (found,) = score.baselines(checks)
    assert (found.group, found.tried, found.reproduced) == ("Table 1", 3, 1)
    assert found.shuffled == pytest.approx(4 / 9)
    assert found.neighbour == pytest.approx(1 / 4), "N1 by the value after it alone"
    assert score.baselines(checks[:2]) == []


def test_values_of_another_unit_are_no_baseline() -> None:
    """A number of rounds is never taken for a speed-up, so that a table of both has two rows."""
    rounds = [number(f"N{k}", unit="count", ours=90.0, published=90.0 + k) for k in range(3)]
    ratios = [number(f"R{k}", unit="ratio", ours=1.0, published=1.0) for k in range(3)]
    one, other = score.baselines([*rounds, *ratios])
    assert (one.unit, other.unit) == ("count", "ratio")
    assert (one.shuffled, other.shuffled) == (pytest.approx(1 / 3), 1)


def test_a_value_at_the_tolerance_passes_as_it_is_reproduced() -> None:
    """In binary 0.8 - 0.7 is above 0.1."""
    assert would_pass(number("N1", published=0.7), number("N2", ours=0.8))
    assert not would_pass(number("N1", published=0.7), number("N2", ours=0.801))
    assert not would_pass(number("N1", published=0.7), number("N2", ours=None))


def test_constants_reproduce_where_all_is_the_same() -> None:
    (found,) = score.baselines([number(name, ours=0.52) for name in "abc"])
    assert (found.reproduced, found.shuffled, found.neighbour) == (1, 1, 1)
