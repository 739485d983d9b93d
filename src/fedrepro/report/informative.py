"""Which published values could tell a right run from a wrong one.

A value within whose tolerance lie nearly all other values of its curve or table is met by whatever
is held against it. That depends on the published values and their tolerances alone, so it is known
before any run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fedrepro.report.expected import Expected, Number
from fedrepro.report.finding import SLACK

NEARLY_ALL = 0.9
"""A value that so large a share of the others would pass is no evidence."""


def uninformative(expected: Expected) -> dict[str, str]:
    """Return id -> why its value is no evidence, for the judged numbers of a paper.

    Four kinds: a standard deviation whose tolerance reaches to zero; a gain whose tolerance reaches
    to none; a value that nine in ten of the other values of its curve or table would pass, too,
    those of its reading or of all; a point of a curve that its neighbours' values would pass, both
    of them, or the one at an end of the curve.
    """
    found = {}
    for group in _grouped(expected.judged_numbers()):
        for number in group:
            alike = [other for other in group if other.reading in ("", number.reading)]
            place = alike.index(number)
            before, after = alike[:place], alike[place + 1 :]
            if number.value == "sd" and number.tolerance >= number.published:
                found[number.id] = "a standard deviation of zero would pass"
            elif number.gain and abs(number.published - number.no_gain) <= number.tolerance + SLACK:
                found[number.id] = "any small gain would pass"
            elif _share(number, before + after) >= NEARLY_ALL:
                found[number.id] = "nearly all other values of the same place would pass"
            elif number.series and _share(number, before[-1:] + after[:1]) >= NEARLY_ALL:
                found[number.id] = "the values of the points beside it would pass"
    return found


def _grouped(numbers: Iterable[Number]) -> list[list[Number]]:
    """Return the numbers that can be targets, a list a curve or table, in order."""
    groups: dict[str, list[Number]] = {}
    for number in numbers:
        if not number.unusable:
            groups.setdefault(number.group, []).append(number)
    return list(groups.values())


def _share(number: Number, others: Sequence[Number]) -> float:
    """Return the share of other published values within a number's tolerance; 0 for none."""
    reach = number.tolerance + SLACK
    passing = [abs(other.published - number.published) <= reach for other in others]
    return sum(passing) / len(passing) if passing else 0.0
