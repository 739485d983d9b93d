"""The published numbers of the paper `selective`: complete, plausible, each with its cell."""

from __future__ import annotations

from collections import Counter

import pytest

from fedrepro.papers.selective.measurements import NETWORKS, READINGS
from fedrepro.report.expected import load_expected
from fedrepro.runs.plan import expand, load_plan

EXPECTED = load_expected("selective")
SERIES = {series.id: series for series in EXPECTED.series}
BY_ID = {number.id: number for number in EXPECTED.all_numbers()}
FULL, LOCAL, VALIDATION = list(range(0, 101, 2)), list(range(0, 101, 5)), [0, 2, 10, 50, 100]


def test_counts():
    federated_and_selective, local = 3 * 2 * 2 * 2 * 51, 3 * 2 * 21
    missing = 2 + 1  # Model 3: federated, non-IID, N = 46, in two readings; local, non-IID, N = 45
    validation = 3 * 3 * 2 * 5
    table2, quoted, merges, by_network = 6, 8, 6, 6
    others = table2 + quoted + merges + by_network
    assert len(BY_ID) == federated_and_selective + local - missing + validation + others
    assert len(EXPECTED.claims) == 115


@pytest.mark.parametrize("figure", ["fig3", "fig4", "fig5", "fig6", "fig7", "fig8"])
def test_curves_cover_every_published_point_under_both_readings(figure):
    for method in ("federated", "selective"):
        run, written = (SERIES[f"{figure}.{method}.{r}"] for r in ("as_run", "as_written"))
        gaps = {46} if (figure, method) == ("fig8", "federated") else set()
        assert run.x == written.x == sorted({*FULL} - gaps)
        assert run.unusable == written.unusable
        assert run.published == written.published
        assert run.tolerance == written.tolerance
        assert (run.reading, written.reading) == ("as_run", "as_written")
    assert SERIES[f"{figure}.local"].x == sorted({*LOCAL} - ({45} if figure == "fig8" else set()))


def test_validation_covers_every_published_point():
    validation = [series for series in EXPECTED.series if "validation" in series.artefact]
    assert len(validation) == 18
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
        ("T2-2", 0.9912),
        ("T2-3-validation", 0.9936),
        ("X-84.32", 0.8432),
        ("X-97.31-as-quoted", 0.9731),
        ("fig4.federated.as_run@0", 0.5432),
        ("fig5.federated.as_written@2", 0.9648),
        ("fig5.selective.as_run@100", 0.9924),
        ("fig7.selective.as_run@8", 0.9560),
        ("fig7.local@5", 0.9924),
        ("fig8.federated.as_run@44", 0.9918),
        ("fig8.federated.as_run@48", 0.9889),
        ("fig8.local@50", 0.9934),
        ("validation.m3.federated.iid_run.as_run@0", 0.9673),
        ("validation.m2.selective.iid_run.as_written@2", 0.7496),
        ("F.iid@3", 0.8432),
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


@pytest.mark.parametrize(
    ("start", "by_n"),
    [
        ("fig4.federated.as_run", {0: 0.23, 2: 0.07, 10: 0.03, 20: 0.01, 22: 0.005}),
        ("fig7.federated.as_written", {0: 0.23, 2: 0.07, 10: 0.03, 20: 0.01, 22: 0.005}),
        ("fig5.federated.as_run", {0: 0.07, 2: 0.02, 10: 0.02, 20: 0.01, 22: 0.005}),
        ("fig4.selective.as_run", {0: 0.01, 2: 0.07, 10: 0.03, 20: 0.01, 100: 0.005}),
        ("fig7.selective.as_run", {0: 0.005, 6: 0.005, 8: 0.03, 12: 0.01, 100: 0.005}),
        ("fig8.selective.as_run", {0: 0.005, 2: 0.005, 4: 0.03, 12: 0.01, 100: 0.005}),
        ("fig4.local", {0: 0.01, 20: 0.01, 25: 0.005}),
        ("fig8.local", {0: 0.005, 100: 0.005}),
    ],
)
def test_tolerances_of_models_2_and_3(start, by_n):
    assert {n: BY_ID[f"{start}@{n}"].tolerance for n in by_n} == by_n


def test_damaged_rows_are_no_targets():
    damaged = {name for name, number in BY_ID.items() if number.unusable and number.series}
    assert len([name for name in damaged if name.startswith("fig5.federated.as_run@")]) == 19
    assert {"fig3.selective.as_run@2", "fig5.selective.as_written@72", "fig5.local@45"} <= damaged
    assert {"fig8.selective.as_run@4", "fig8.selective.as_run@18"} <= damaged
    assert {"fig8.federated.as_run@22", "fig7.local@65", "fig7.local@80"} <= damaged
    assert {f"fig5.selective.as_written@{n}" for n in (22, 24)} <= damaged
    assert {f"fig8.selective.as_run@{n}" for n in (20, 22, 28, 34, 42, 50)} <= damaged
    assert not damaged & {"fig5.federated.as_run@0", "fig8.federated.as_run@24", "fig4.local@65"}
    assert not damaged & {"fig7.local@60", "fig7.local@100", "fig8.selective.as_run@52"}
    by_figure = Counter(name.split(".")[0] for name in damaged)
    assert by_figure == {
        "fig3": 2 * 2 + 1,  # N = 0 of selective and local averaging
        "fig4": 2 + 2 + 1,  # N = 0
        "fig5": 2 * 19 + 2 * (13 + 1) + 1 + 1,
        "fig7": 2 + 7,
        "fig8": 2 * 1 + 2 * 19,
        "validation": 3 * 2 + 2 * 2,  # N = 0 of selective averaging, and of federated Model 2
    }


def test_what_the_text_misquotes_is_no_target():
    """Each of the values is held against ours once, as what it is, unless that cannot fail."""
    quoted = {name for name in BY_ID if name.endswith("-as-quoted")}
    assert len(quoted) == 4
    for name in quoted:
        meant = BY_ID[name.removesuffix("-as-quoted")]
        assert f"as {meant.id}." in BY_ID[name].unusable
        assert meant.published == BY_ID[name].published
        assert bool(meant.unusable) == (meant.id == "X-33.21")


def test_where_published_values_come_from():
    """The paper prints a table and quotes four numbers; its figures print none."""
    printed = {name for name, number in BY_ID.items() if number.origin == "printed"}
    assert {name.removesuffix("-as-quoted") for name in printed} == {
        *("T2-1", "T2-2", "T2-3", "X-32.66", "X-33.21", "X-84.32", "X-97.31")
    }
    derived = {name for name, number in BY_ID.items() if number.origin == "derived"}
    assert {name[:2] for name in derived} == {"F.", "me"}
    for network, figure in enumerate(("fig3", "fig4", "fig5"), 1):
        repeated = BY_ID[f"{figure}.federated.as_run@0"]
        assert BY_ID[f"F.iid@{network}"].published == repeated.published
        assert repeated.origin == "repository"


def test_claims_by_construction_say_so():
    unusable = {claim.id.split("-")[0] for claim in EXPECTED.claims if claim.unusable}
    assert unusable == {"B5", "B6", "R1"}


def test_claims_of_our_own_are_told_apart():
    ours = {claim.id for claim in EXPECTED.claims if claim.about == "ours"}
    assert ours == {claim.id for claim in EXPECTED.claims if claim.source.startswith("our own")}


def test_published_accuracies_are_fractions():
    merges = {name for name, number in BY_ID.items() if number.artefact == "merge"}
    assert len(merges) == 6
    assert all(0.28 < BY_ID[name].published < 1 for name in BY_ID.keys() - merges)


def test_every_run_says_what_it_is():
    groups = load_plan("selective").runs
    curves = [tuple(group.labels.items()) for group in groups.values()]
    assert len(set(curves)) == len(curves)
    for labels in map(dict, curves):
        if "of" in labels:
            assert labels["of"] in groups
            continue
        assert labels["network"] in NETWORKS
        assert ("reading" in labels) == (labels["method"] in ("federated", "selective"))
        assert labels.get("reading", "as_run") in READINGS


def test_published_points_are_in_the_grid():
    grids = {
        group: {run.coordinates["percent"] for run in expand("selective", "paper")
                if run.group == group}
        for group in ("federated_as_run", "federated_as_written", "selective_as_run",
                      "selective_as_written", "local")
    }  # fmt: skip
    assert grids.pop("local") == set(LOCAL)
    assert all(grid == set(FULL) for grid in grids.values())
