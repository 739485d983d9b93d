"""Liu, Lee, Julien 2020: what the paper shows of each way to train, and its tables.

The paper's "federated" and "selective" curves are read in two ways. *As run*: nodes share storage,
as in the public code, and are tested as there: the IID test deals the test images over the nodes,
and the non-IID test of the nine selective nodes gives each a label of its own. *As written*: true
averaging; the IID test is all test images for every node, and the non-IID test is cut as the
training images are (section III.A).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from fedrepro.runs import RunSet
from fedrepro.stats import summarise

Test = Literal["iid", "noniid"]

TEST_TITLES: dict[Test, str] = {"iid": "IID test", "noniid": "non-IID test"}


@dataclass(frozen=True)
class Curve:
    """One way to train, at every N.

    Attributes:
        name: its series in a figure, its row in a table.
        group: its group of runs in the plan.
        iid: the final metric that is its accuracy on the IID test (Figs. 3 to 5).
        noniid: the final metric that is its accuracy on the non-IID test (Figs. 6 to 8).
        validation: the final metric that is its validation accuracy.
    """

    name: str
    group: str
    iid: str = "accuracy_iid"
    noniid: str = "accuracy_noniid"
    validation: str = "accuracy_validation"

    def metric(self, test: Test) -> str:
        """Return the final metric of one of the two tests."""
        return self.iid if test == "iid" else self.noniid


CENTRALISED = Curve("centralised", "centralised")
LOCAL = Curve("local", "local", iid="accuracy_iid_dealt")
FEDERATED_AS_RUN = Curve("federated, as run", "federated_as_run", iid="accuracy_iid_dealt")
FEDERATED_AS_WRITTEN = Curve("federated, as written", "federated_as_written")
KEPT_MOMENTS = Curve("federated, as written, moments kept", "federated_kept_moments")
OWN_INITIAL = Curve(
    "federated, as written, moments kept, own initial weights", "federated_own_initial"
)
SELECTIVE_AS_RUN = Curve(
    "selective, as run",
    "selective_as_run",
    iid="accuracy_iid_dealt",
    noniid="accuracy_noniid_as_run",
    validation="accuracy_validation_all",
)
SELECTIVE_AS_WRITTEN = Curve(
    "selective, as written", "selective_as_written", validation="accuracy_validation_all"
)

VALIDATION_PERCENTS = (0, 2, 10, 50, 100)
"""Values of N whose validation accuracy is published."""


def by_percent(runs: RunSet, curve: Curve, metric: str) -> pd.DataFrame:
    """Return a final metric of a curve's runs, summarised over the seeds at every N.

    Columns: ``percent`` (N, 0..100) and those of :func:`fedrepro.stats.summarise`.
    """
    finals = runs.final([curve.group], [metric])
    if "percent" not in finals:  # centralised: one node that holds everything
        finals["percent"] = 100
    return summarise(finals, metric, ["percent"])


def group_counts(runs: RunSet, curve: Curve) -> pd.DataFrame:
    """Return how many groups a selective curve's runs formed, summarised over the seeds at every N.

    Columns: ``percent`` (N, 0..100) and those of :func:`fedrepro.stats.summarise`.
    """
    finals = runs.final([curve.group], ["groups"])
    finals["count"] = [len(groups) for groups in finals["groups"]]
    return summarise(finals, "count", ["percent"])


def _row(name: str, summary: pd.DataFrame, column: str, unit: str = "fraction") -> pd.DataFrame:
    """Lay one summarised cell out as a table's frame wants it."""
    cells = summary.drop(columns="percent")
    cells.insert(0, "row", name)
    cells.insert(1, "column", column)
    return cells.assign(unit=unit)


def table2(runs: RunSet) -> pd.DataFrame:
    """Build Table II: the accuracy of centralised training, on the test and validation images."""
    return pd.concat(
        [
            _row("Model 1", by_percent(runs, CENTRALISED, metric), column)
            for metric, column in (
                (CENTRALISED.iid, "test accuracy"),
                (CENTRALISED.validation, "validation accuracy"),
            )
        ],
        ignore_index=True,
    )


def noniid_cost(runs: RunSet) -> pd.DataFrame:
    """Show what each reading of "federated" gives at N = 0, beside centralised and local."""
    curves = (
        CENTRALISED,
        FEDERATED_AS_RUN,
        FEDERATED_AS_WRITTEN,
        KEPT_MOMENTS,
        OWN_INITIAL,
        LOCAL,
    )
    cells = []
    for curve in curves:
        for test, title in TEST_TITLES.items():
            summary = by_percent(runs, curve, curve.metric(test))
            if curve is not CENTRALISED:
                summary = summary[summary["percent"] == 0]
            cells.append(_row(curve.name, summary, title))
    return pd.concat(cells, ignore_index=True)


def validation(runs: RunSet) -> pd.DataFrame:
    """Show the validation accuracies at the values of N for which they are published.

    The authors trained the federated network twice, once for each test; we train it once and hold
    it against both, so its values stand in two rows.
    """
    federated = [
        (f"{curve.name} ({title}-test run)", curve)
        for curve in (FEDERATED_AS_RUN, FEDERATED_AS_WRITTEN)
        for title in ("IID", "non-IID")
    ]
    selective = [(curve.name, curve) for curve in (SELECTIVE_AS_RUN, SELECTIVE_AS_WRITTEN)]
    cells = []
    for name, curve in [*federated, *selective]:
        summary = by_percent(runs, curve, curve.validation)
        cells += [
            _row(name, summary[summary["percent"] == percent], str(percent))
            for percent in VALIDATION_PERCENTS
            if percent in set(summary["percent"])
        ]
    return pd.concat(cells, ignore_index=True)


def groups(runs: RunSet) -> pd.DataFrame:
    """Count the groups that selective averaging forms at every N, in both readings."""
    summaries = [
        (curve.name, group_counts(runs, curve))
        for curve in (SELECTIVE_AS_RUN, SELECTIVE_AS_WRITTEN)
    ]
    return pd.concat(
        [
            _row(str(percent), summary[summary["percent"] == percent], name, unit="count")
            for percent in _percents([summary for _, summary in summaries])
            for name, summary in summaries
        ],
        ignore_index=True,
    )


def _percents(summaries: Sequence[pd.DataFrame]) -> list[int]:
    return sorted({int(percent) for summary in summaries for percent in summary["percent"]})


TABLES: dict[str, Callable[[RunSet], pd.DataFrame]] = {
    "table2": table2,
    "noniid_cost": noniid_cost,
    "validation": validation,
    "groups": groups,
}
