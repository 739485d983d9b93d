"""The published numbers of the paper `selective`: complete, plausible, each with its cell."""

from __future__ import annotations

import pytest

from fedrepro.claims.selective import CLAIMS
from fedrepro.expected import load_expected
from fedrepro.plan import expand, load_plan
from fedrepro.plots.selective import FIGURES
from fedrepro.tables.selective import TABLES

EXPECTED = load_expected("selective")
SERIES = {series.id: series for series in EXPECTED.series}
BY_ID = {number.id: number for number in EXPECTED.all_numbers()}
FULL, LOCAL, VALIDATION = list(range(0, 101, 2)), list(range(0, 101, 5)), [0, 2, 10, 50, 100]


def test_counts():
    curves = 2 * (2 * 2 * 51 + 21)
    assert len(BY_ID) == curves + 3 * 2 * 5 + 5
    assert len(EXPECTED.claims) == 22


@pytest.mark.parametrize("figure", ["fig3", "fig6"])
def test_curves_cover_every_published_point_under_both_readings(figure):
    for method in ("federated", "selective"):
        run, written = (SERIES[f"{figure}.{method}.{r}"] for r in ("as_run", "as_written"))
        assert run.x == written.x == FULL
        assert run.published == written.published
        assert run.tolerance == written.tolerance
        assert (run.reading, written.reading) == ("as_run", "as_written")
    assert SERIES[f"{figure}.local"].x == LOCAL


def test_validation_covers_every_published_point():
    validation = [series for series in EXPECTED.series if series.artefact == "validation"]
    assert len(validation) == 6
    assert all(series.x == VALIDATION for series in validation)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("T2-1", 0.9640),
        ("T2-1-validation", 0.9603),
        ("X-33.21", 0.3321),
        ("X-32.66", 0.3266),
        ("fig3.federated.as_run@0", 0.3780),
        ("fig6.federated.as_written@0", 0.3089),
        ("fig3.selective.as_run@2", 0.6485),
        ("fig6.selective.as_run@12", 0.9701),
        ("fig6.selective.as_run@14", 0.9208),
        ("fig3.federated.as_run@100", 0.9645),
        ("fig6.local@15", 0.9620),
        ("validation.selective.iid_run.as_written@10", 0.8797),
        ("validation.federated.noniid_run.as_run@0", 0.3122),
    ],
)
def test_values(name, published):
    assert BY_ID[name].published == published


def test_tolerances_follow_the_rule():
    by_n = {0: 0.06, 2: 0.03, 10: 0.03, 12: 0.02, 20: 0.02, 22: 0.01, 100: 0.01}
    for n, tolerance in by_n.items():
        assert BY_ID[f"fig3.federated.as_run@{n}"].tolerance == tolerance
    assert BY_ID["fig3.selective.as_run@0"].tolerance == 0.01
    assert BY_ID["fig3.selective.as_run@2"].tolerance == 0.03
    assert BY_ID["fig6.selective.as_run@10"].tolerance == 0.01
    assert BY_ID["fig6.selective.as_run@12"].tolerance == 0.02
    assert {BY_ID[f"fig3.local@{n}"].tolerance for n in LOCAL} == {0.01}


def test_published_accuracies_are_fractions():
    assert all(0.28 < number.published < 1 for number in BY_ID.values())


def test_every_claim_is_decided_by_a_function_and_none_is_left_over():
    assert {claim.id for claim in EXPECTED.claims} == set(CLAIMS)


def test_every_artefact_of_the_plan_has_a_function_and_none_is_left_over():
    plan = load_plan("selective")
    assert set(plan.tables) == set(TABLES)
    assert set(plan.figures) == set(FIGURES)


def test_published_points_are_in_the_grid():
    grids = {
        group: {run.coordinates["percent"] for run in expand("selective", "paper")
                if run.group == group}
        for group in ("federated_as_run", "federated_as_written", "selective_as_run",
                      "selective_as_written", "local")
    }  # fmt: skip
    assert grids.pop("local") == set(LOCAL)
    assert all(grid == set(FULL) for grid in grids.values())
