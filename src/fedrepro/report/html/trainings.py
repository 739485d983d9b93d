"""The recorded runs that the report shows: the seeds of one training share a page."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from fedrepro.fl.spec import canonical_json, spec_dict
from fedrepro.report.html.content import Paper
from fedrepro.report.recorded import Recorded
from fedrepro.report.score import in_words
from fedrepro.report.trace import facts
from fedrepro.runs import records
from fedrepro.runs.plan import expand, load_plan, scales
from fedrepro.runs.plan_schema import Scale

METRICS = {"accuracy": "test accuracy", "train_loss": "training loss", "loss": "test loss"}
"""Metrics over the rounds that a page draws, where a run has them, and what they are called."""


class Shown(Recorded):
    """A recorded run, where it is in the report, and what its page says of it."""

    @functools.cached_property
    def page(self) -> str:
        """Where in the report it is: all seeds of a spec share a page."""
        spec = {k: v for k, v in spec_dict(self.run.spec).items() if k != "seed"}
        return f"runs/{_digest(canonical_json(spec))}.html"

    @property
    def address(self) -> str:
        """Where on its page it is."""
        return f"{self.page}#run-{self.run.id}"

    @property
    def partition_page(self) -> str:
        """Where its partition is: equal index lists may cut different data sets."""
        return f"partitions/{_digest(self.record.partition.model_dump_json())}.html"

    @property
    def place(self) -> str:
        """Its title, group and point of the plan: ``FedAvg at an exact EMD (sweep), emd 1.44``."""
        point = [in_words(f"{name} {value}") for name, value in self.run.coordinates.items()]
        title = load_plan(self.run.paper).runs[self.run.group].title
        return ", ".join([f"{title} ({self.run.group})", *point])

    @functools.cached_property
    def facts(self) -> dict[str, str]:
        """What ``fedrepro why`` says of it, but for its place, which is the page's title."""
        return {k: v for k, v in facts(self.run, self.record).items() if k != "group"}

    @property
    def curves(self) -> list[dict[str, Any]]:
        """Name, rounds and values, to four digits, of each metric over the rounds.

        Rounds at equal distances are their first one and the distance, as Plotly takes them.
        """
        found = []
        for metric, name in METRICS.items():
            if self.record.metrics.get(metric):
                curve = self.record.curve(metric)
                rounds = [*curve]
                steps = {after - before for before, after in itertools.pairwise(rounds)} or {1}
                x = {"x0": rounds[0], "dx": steps.pop()} if len(steps) == 1 else {"x": rounds}
                y = [float(f"{value:.4g}") for value in curve.values()]
                found.append({"name": name, "seed": self.run.seed, **x, "y": y})
        return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


Runs = Mapping[str, Shown]
"""Recorded runs by id."""


def recorded(papers: Iterable[Paper], scale: Scale) -> Runs:
    """Return the recorded runs of the papers at a scale, and those behind published verdicts."""
    found: dict[str, Shown] = {}
    for paper in papers:
        asked = {run for item in paper.published for run in item.runs}
        wanted = [run for run in expand(paper.name, "paper") if run.id in asked]
        for run in [*expand(paper.name, scale), *wanted]:
            if run.id not in found and records.is_recorded(run.id, run.records):
                found[run.id] = Shown(run, records.read(run.id, run.records))
    return found


@dataclass(frozen=True)
class Training:
    """What a page says: runs that differ in their seed alone.

    Attributes:
        runs: by seed.
    """

    runs: tuple[Shown, ...]

    @property
    def paper(self) -> str:
        """The slug of the paper that plans them."""
        return self.runs[0].run.paper

    @property
    def title(self) -> str:
        """The places in the plan; two groups may have the same training."""
        return "; ".join(dict.fromkeys(item.place for item in self.runs))

    @functools.cached_property
    def scales(self) -> list[Scale]:
        """The scales whose plans have it; none where the plan is the same at every scale."""
        ids, varies = {item.run.id for item in self.runs}, load_plan(self.paper).scales
        every = scales(self.paper) if varies else []
        return [at for at in every if any(run.id in ids for run in expand(self.paper, at))]

    @property
    def spec(self) -> str:
        """What is trained, as YAML, without the seed."""
        spec = {k: v for k, v in self.runs[0].record.spec.items() if k != "seed"}
        return yaml.safe_dump(spec, sort_keys=False)

    @functools.cached_property
    def shared(self) -> dict[str, str]:
        """The facts that are the same for all of several runs, but for their way to a partition."""
        first, *others = (item.facts for item in self.runs)
        same = {k: v for k, v in first.items() if others and all(o.get(k) == v for o in others)}
        same.pop("partition", None)
        return same

    @property
    def curves(self) -> list[dict[str, Any]]:
        """The curves of all runs."""
        return [curve for item in self.runs for curve in item.curves]


def trainings(runs: Runs) -> dict[str, Training]:
    """Return address of a page -> what it says."""
    return {
        page: Training(tuple(sorted(items, key=lambda item: item.run.seed)))
        for page, items in by_page(runs, runs).items()
    }


def by_page(ids: Iterable[str], runs: Runs) -> dict[str, list[Shown]]:
    """Return address of a page -> which of some runs it shows; what is not recorded is left out."""
    found: dict[str, list[Shown]] = defaultdict(list)
    for item in (runs[run_id] for run_id in ids if run_id in runs):
        found[item.page].append(item)
    return found


def partitions(runs: Runs) -> dict[str, dict[tuple[str, str], list[Shown]]]:
    """Return address of a partition's page -> the runs that train on it, by paper and group."""
    found: dict[str, dict[tuple[str, str], list[Shown]]] = defaultdict(lambda: defaultdict(list))
    for item in runs.values():
        found[item.partition_page][item.run.paper, item.run.group].append(item)
    return found
