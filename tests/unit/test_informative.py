"""Which published values could tell a right run from a wrong one."""

from __future__ import annotations

from typing import Any

from fedrepro.report.expected import Expected
from fedrepro.report.informative import uninformative


def curve(published: list[float], tolerance: float = 0.1) -> dict[str, Any]:
    return {
        "id": "F",
        "where": "Fig. 1",
        "artefact": "fig1",
        "series": "a",
        "x": [float(x) for x in range(len(published))],
        "published": published,
        "tolerance": tolerance,
        "reason": "-",
    }


def number(name: str, published: float, **changes: Any) -> dict[str, Any]:
    return {
        "id": name,
        "where": f"Table 1, {name}",
        "artefact": "table1",
        "cell": ["a", name],
        "published": published,
        "tolerance": 0.1,
        "reason": "-",
    } | changes


def blind(**content: Any) -> set[str]:
    return set(uninformative(Expected.model_validate({"paper": "emd"} | content)))


def test_the_flat_part_of_a_curve_is_no_evidence() -> None:
    steep, flat = [0.1, 0.3, 0.5, 0.7], [0.9, 0.9, 0.9]
    assert blind(series=[curve(steep + flat)]) == {"F@5", "F@6"}
    assert blind(series=[curve(steep)]) == set()
    assert blind(series=[curve(flat)]) == {"F@0", "F@1", "F@2"}
    assert blind(series=[curve([0.9, 0.9, 0.5, 0.1])]) == {"F@0"}


def test_a_value_that_nearly_all_others_would_pass_is_no_evidence() -> None:
    same = [number(f"N{k}", 0.5) for k in range(10)]
    assert blind(numbers=[*same, number("far", 0.9)]) == {f"N{k}" for k in range(10)}
    assert blind(numbers=[*same[:8], number("far", 0.9)]) == set()


def test_a_value_that_others_would_just_pass_is_no_evidence() -> None:
    """In floating point 0.8 - 0.7 is above 0.1."""
    assert blind(numbers=[number("N1", 0.7), number("N2", 0.8)]) == {"N1", "N2"}


def test_a_value_of_all_readings_is_one_of_each() -> None:
    """Alone with one that would pass, both are no evidence; the third would not."""
    pair = [number("N1", 0.5, reading="a"), number("N2", 0.6, reading="a")]
    other = number("N3", 0.9, where="Table 1, N3")
    assert blind(numbers=pair) == {"N1", "N2"}
    assert blind(numbers=[*pair, other]) == set()
    assert blind(numbers=[*pair, number("N3", 0.9, reading="b")]) == {"N1", "N2"}


def test_a_value_that_is_alone_is_evidence() -> None:
    assert blind(numbers=[number("N1", 0.5)]) == set()
    assert blind(numbers=[number("N1", 0.5), number("N2", 0.6)]) == {"N1", "N2"}
    assert blind(numbers=[number("N1", 0.5), number("N2", 0.61)]) == set()
    apart = [number("N1", 0.5), number("N2", 0.5, where="Table 2", artefact="table2")]
    assert blind(numbers=apart) == set()


def test_a_standard_deviation_that_zero_would_pass_is_no_evidence() -> None:
    assert blind(numbers=[number("N1", 0.1, value="sd")]) == {"N1"}
    assert blind(numbers=[number("N1", 0.11, value="sd")]) == set()


def test_a_gain_that_any_small_one_would_pass_is_no_evidence() -> None:
    assert blind(numbers=[number("N1", 0.1, gain=True)]) == {"N1"}
    assert blind(numbers=[number("N1", -0.1, gain=True)]) == {"N1"}
    assert blind(numbers=[number("N1", 0.11, gain=True)]) == set()
    assert blind(numbers=[number("N1", 0.1)]) == set()


def test_a_speed_up_that_no_gain_of_time_would_pass_is_no_evidence() -> None:
    for published, said in ((1.1, {"N1"}), (0.9, {"N1"}), (1.11, set()), (0.1, set())):
        assert blind(numbers=[number("N1", published, gain=True, no_gain=1)]) == said


def test_what_is_no_target_is_no_value_of_another_place() -> None:
    wrong = number("N2", 0.5, unusable="quoted wrongly")
    assert blind(numbers=[number("N1", 0.5), wrong]) == set()
