"""What is released is what the committed records say."""

import functools
import json

import pytest
import yaml

from fedrepro.base.paths import root
from fedrepro.report import cited, documents, released, verdict_blocks, verdicts
from fedrepro.report.checks import to_json
from fedrepro.report.expected import load_expected
from fedrepro.runs import records
from fedrepro.runs.plan import expand, load_plan, unique
from fedrepro.runs.plan_files import papers, plans
from fedrepro.runs.plan_schema import COMMITTED, SCALES

RUNS = root() / records.FOLDER
SWITCHED_ON = yaml.safe_load((root() / "config/config.yaml").read_text())["papers"]
checked = functools.cache(verdicts.check)
RELEASED = [(paper, scale) for paper in papers() for scale in COMMITTED]


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch):
    monkeypatch.chdir(root())


def test_every_committed_record_is_valid_and_planned():
    planned = {run.id for p in plans() for scale in SCALES for run in expand(p, scale)}
    ids = records.recorded_ids(RUNS)
    assert ids
    assert all(records.is_recorded(name, RUNS) for name in ids)
    assert sorted(set(ids) - planned) == [], "records of no planned run: `fedrepro prune`"


@pytest.mark.parametrize("paper", SWITCHED_ON)
def test_the_lite_scale_is_recorded_completely(paper):
    """So that `make figures` trains nothing; a paper whose runs are under way is switched off."""
    missing = [name for name in unique(expand(paper, "lite")) if not records.is_recorded(name)]
    assert missing == []


def test_records_are_small():
    sizes = {file.name: file.stat().st_size for file in RUNS.glob("*.json")}
    assert max(sizes.values()) < 1_000_000
    assert sum(sizes.values()) < 25_000_000


@pytest.mark.parametrize(("paper", "scale"), RELEASED)
def test_verdicts_are_the_released_ones(paper, scale):
    assert released.changes(checked(paper, scale), released.path_of(paper, scale)) == []


def runs_behind(paper):
    """Yield the id of each entry that counts in every reading, with the groups of its runs."""
    group_of = {run.id: run.group for scale in COMMITTED for run in expand(paper, scale)}
    for scale in COMMITTED:
        for item in checked(paper, scale):
            if not item.reading:
                yield item.id, {group_of[run] for run in item.runs}


def test_what_counts_in_every_reading_rests_on_no_run_of_one():
    groups = load_plan("cadis").runs
    on_partitions = {"NT1-mnist", "NT1-cifar10", "NT2", "NT3-mnist", "NT3-cifar10"}  # of both
    for name, used in runs_behind("cadis"):
        both = [group for group in used if f"{group}_as_run" in groups]
        assert not both or name in on_partitions, name
    for name, used in runs_behind("tricks"):
        assert not [group for group in used if "projected" in group], name
    numbers = {number.id for number in load_expected("emd").judged_numbers()}
    labels = load_plan("emd").runs
    for name, used in runs_behind("emd"):
        of_mnist = [group for group in used if labels[group].labels.get("dataset") == "mnist"]
        assert not of_mnist or name not in numbers, name


def test_a_changed_verdict_is_noticed(tmp_path):
    fresh = checked("selective", "lite")
    content = json.loads(released.text(fresh))
    name = next(iter(content))
    content[name]["verdict"] = "something else"
    file = tmp_path / "selective.json"
    file.write_text(json.dumps(content))
    changes = released.changes(fresh, file)
    assert len(changes) == 1
    assert changes[0].startswith(f"{name}: released")


def test_numbers_in_the_documentation_are_current(monkeypatch):
    monkeypatch.setattr(verdict_blocks, "checks_of", functools.cache(checked))
    assert documents.update(dry_run=True) == [], "`fedrepro docs` writes them anew"


def test_numbers_in_the_text_are_those_of_their_cells():
    assert cited.wrong() == []


@pytest.mark.parametrize("paper", papers())
def test_lite_never_judges_numbers_of_other_runs(paper):
    published = {run.id for run in expand(paper, "paper")}
    judged = [
        check
        for check in checked(paper, "lite")
        if check.kind == "number" and check.verdict in ("reproduced", "close", "deviates")
    ]
    assert judged or paper != "selective", "its lite plan shares runs with the published one"
    assert all(check.runs and set(check.runs) <= published for check in judged)


@pytest.mark.parametrize(("paper", "scale"), RELEASED)
def test_each_margin_of_a_claim_says_which_it_is(paper, scale):
    for claim in json.loads(to_json(checked(paper, scale))):
        names = [margin["what"] for margin in claim["margins"]]
        assert all(names), claim["id"]
        assert len(set(names)) == len(names), claim["id"]
