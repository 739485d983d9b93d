"""The report's pages: what they say, where they lead, and how a browser shows them."""

from __future__ import annotations

import dataclasses
import html
import itertools
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up import content as made_up
from seeds import write_all
from tricks_records import World

from fedrepro.base.errors import FedreproError
from fedrepro.base.files import write_text
from fedrepro.report import style
from fedrepro.report.checks import DECIDED, Check, to_json
from fedrepro.report.expected import load_expected
from fedrepro.report.html import content, site
from fedrepro.report.html.trainings import Shown, Training
from fedrepro.report.verdicts import check
from fedrepro.runs import records
from fedrepro.runs.plan import expand, load_plan
from fedrepro.runs.plan_schema import Scale
from fedrepro.runs.runset import RunSet

PAPER = "tricks"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with records, results and a report of one paper at smoke."""
    here = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        for run in expand(PAPER, "smoke"):
            records.write(made_up(run))
        imported = made_up(expand(PAPER, "smoke")[0])
        imported["provenance"]["imported"] = [_imported_part(imported["provenance"])]
        records.write(imported)
        _write_results(here / "results", PAPER)
        site.write([PAPER], "smoke", here / "results", here / "report")
    return here


def _imported_part(provenance: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a run of another machine: the first three rounds."""
    of_last = {key: provenance[key] for key in records.Origin.model_fields if key in provenance}
    return of_last | {"device": "a machine elsewhere", "rounds": 3, "seconds": 2.0}


def _write_results(results: Path, paper: str, at: Scale = "smoke") -> None:
    """Write a frame of two cells for every table and figure of a scale, and verdicts on some."""
    scale = results / at
    plan, run = load_plan(paper), expand(paper, at)[0].id
    for kind, keys in (("tables", ["row", "column"]), ("figures", ["series", "x"])):
        for name in plan.made(kind, at):
            (scale / kind / paper).mkdir(parents=True, exist_ok=True)
            rows = [("<b>a</b>", 1, 0.9876, 0.01, 2, "0.98 0.99", run, 0.99)]
            rows += [("c", 2, 0.5, None, 1, "0.5", "ffffffffffff", None)]
            columns = [*keys, "mean", "sd", "n", "values", "runs", "published"]
            frame = pd.DataFrame(rows, columns=columns)
            frame.to_csv(scale / kind / paper / f"{name}.csv", index=False)
            (scale / kind / paper / f"{name}.svg").write_text(SVG)
    (scale / "notebooks").mkdir()
    (scale / "notebooks" / f"{paper}.html").write_text("<!DOCTYPE html><title>notebook</title>")
    (scale / "checks").mkdir()
    checks = check(paper, at)
    (scale / "checks" / f"{paper}.json").write_text(to_json(checks))


SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="700" height="300"></svg>'


class Page(HTMLParser):
    """What a page links to, its ids, and what is wrong with it."""

    VOID = frozenset({"meta", "link", "img", "input", "br"})

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text = file.read_text()
        self.open: list[str] = []
        self.feed(self.text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        self.links += [value for key in ("href", "src") if (value := given.get(key))]
        self.ids += [value] if (value := given.get("id")) else []
        assert tag != "img" or given.get("alt"), f"an image without alt: {given}"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def pages(folder: Path) -> Iterator[tuple[Path, Page]]:
    for file in sorted((folder / "report").rglob("*.html")):
        if file.parent.name != "notebooks":
            yield file, Page(file)


def require_links(folder: Path) -> None:
    """Make sure that every link of a report leads somewhere, and none to another host."""
    ids = {file: page.ids for file, page in pages(folder)}
    for file, page in pages(folder):
        assert not page.open
        assert len(set(page.ids)) == len(page.ids), f"{file} has an id twice"
        for link in page.links:
            if link.startswith(("https://arxiv.org", "data:")):
                continue
            path, _, place = link.partition("#")
            target = (file.parent / path).resolve() if path else file
            assert target.exists(), f"{file} links to {link}"
            assert not place or target.suffix != ".html" or place in ids[target], (
                f"{file} links to {link}"
            )


def test_every_link_leads_somewhere_and_none_to_another_host(folder: Path) -> None:
    kinds = Counter(file.parent.name for file, _ in pages(folder))
    runs = {run.id: run for run in expand(PAPER, "smoke")}.values()
    trainings = {run.spec.model_copy(update={"seed": 0}).model_dump_json() for run in runs}
    clients = {run.spec.partition.clients for run in runs}  # made-up partitions differ by these
    assert len(trainings) < len(runs)
    assert kinds == {"report": 1, "papers": 1, "runs": len(trainings), "partitions": len(clients)}
    require_links(folder)


def test_entries_of_the_search_are_pages(folder: Path) -> None:
    text = (folder / "report/assets/entries.js").read_text()
    entries = json.loads(text.removeprefix("const ENTRIES = ").removesuffix(";\n"))
    kinds = {kind for kind, *_ in entries}
    assert {"claim", "table", "figure", "run"} <= kinds
    ids = {file: page.ids for file, page in pages(folder)}
    for _, _, address, _ in entries:
        path, _, place = address.partition("#")
        assert not place or place in ids[folder / "report" / path]
        assert (folder / "report" / path).exists()


def test_claims_are_found_and_sorted_by_their_verdicts_of_all_scales() -> None:
    some = next(item for item in check(PAPER, "smoke") if item.kind == "claim")
    lite = [dataclasses.replace(some, id=id_, scale="lite", verdict="reproduced") for id_ in "ab"]
    tried = dataclasses.replace(some, id="b", scale="paper", verdict="deviates")
    number = next(item for item in check(PAPER, "smoke") if item.kind == "number")
    number = dataclasses.replace(number, scale="paper", verdict="close", origin="printed")
    published = (tried, number)
    paper = content.Paper(load_plan(PAPER), load_expected(PAPER), tuple(lite), published, ())
    assert [item.id for item in paper.claims] == ["b", "a"]
    entries = list(site._searchable([paper], {}))
    page = f"papers/{PAPER}.html"
    assert [(address, verdict) for _, _, address, verdict in entries] == [
        (f"{page}#claim-b", "deviates, reproduced"),
        (f"{page}#claim-a", "reproduced"),
        (f"{page}#published", "close"),
    ]


def test_the_first_page_counts_papers_and_explains_words(folder: Path) -> None:
    first = (folder / "report/index.html").read_text()
    assert "<h1>What holds in 1 paper on" in first
    for word in DECIDED:
        assert f'<dt><span class="verdict {word}">{word}</span></dt>' in first
    note = load_plan(PAPER).at("smoke").note
    text = (folder / f"report/papers/{PAPER}.html").read_text()
    assert f"of scale smoke: {note}.</p>" in html.unescape(text)
    assert "index.html#words" in text


def test_a_cell_names_its_verdict_beside_the_colour(folder: Path) -> None:
    number = load_expected(PAPER).numbers[0]
    held = next(item for item in check(PAPER, "smoke") if item.id == number.id)
    tried = dataclasses.replace(held, verdict="deviates", unit="fraction", ours=0.5, seeds=3)
    cell = content.Cell("r", "c", "50.00 %", (), (), (tried,))
    view = content.View("table", "table1", load_plan(PAPER).tables["table1"], (cell,))
    paper = content.Paper(load_plan(PAPER), load_expected(PAPER), (), (), (view,))
    site._Pages(folder, "smoke", folder, folder).write("p.html", "paper.html", paper=paper, runs={})
    cell = "50.00\N{NO-BREAK SPACE}% <small>deviates</small></button>"
    assert cell in (folder / "p.html").read_text()


def test_texts_are_escaped(folder: Path) -> None:
    page = (folder / f"report/papers/{PAPER}.html").read_text()
    assert "<b>a</b>" not in page
    assert "&lt;b&gt;a&lt;/b&gt;" in page


def test_a_cell_shows_its_seeds_and_leads_to_its_runs(folder: Path) -> None:
    run = expand(PAPER, "smoke")[0].id
    page = (folder / f"report/papers/{PAPER}.html").read_text()
    address = recorded(folder)[run].address
    assert "<p>98.76 ± 1.00 % (n=2) [99.00 %]<br>Seeds: 98.00\N{NO-BREAK SPACE}%, 99.00" in page
    unbroken = "98.76 ± 1.00 %".replace(" ", "\N{NO-BREAK SPACE}")
    assert f">{unbroken} (n=2) [99.00\N{NO-BREAK SPACE}%]" in page
    assert ".Published" not in page
    assert f'<a href="../{address}"><code>{run}</code></a>' in page
    assert "<code>ffffffffffff</code>" in page, "a run without a page is named"
    assert "#run-ffffffffffff" not in page


def test_every_series_of_a_figure_leads_to_its_runs(folder: Path) -> None:
    page = (folder / f"report/papers/{PAPER}.html").read_text()
    first_use = expand(PAPER, "smoke")[0]
    item = dataclasses.replace(recorded(folder)[first_use.id], run=first_use)
    figures = load_plan(PAPER).made("figures", "smoke")
    lists = re.findall(r"<summary>Runs of each of its 2 series</summary>\n<ul>\n(.*)\n(.*)\n", page)
    assert len(lists) == len(figures) > 0
    link = f'<a href="../{item.page}">{html.escape(item.place)}</a> <small>1 run</small>'
    for first, second in lists:
        assert first == f"<li>&lt;b&gt;a&lt;/b&gt;: {link}</li>"
        assert second == "<li>c: <code>ffffffffffff</code></li>", "a run without a page is named"


def told(item: Check) -> str:
    """Return what a page says of a check, as text."""
    templates = site._Pages(Path(), "smoke", Path(), Path())._templates
    page = str(templates.get_template("parts.html").module.check(item))
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_a_tolerance_is_no_spread_and_a_standard_deviation_no_mean() -> None:
    numbers = [item for item in check(PAPER, "smoke") if item.value == "sd"]
    of_sd = dataclasses.replace(
        numbers[0], unit="fraction", published=0.02, ours=0.03, tolerance=0.04, interval=[], seeds=3
    )
    says = "ours 3.00 %, published 2.00 % (tolerance ± 4.00 points); ours is 1.00 points above."
    assert f"Standard deviation: {says}" in told(of_sd)
    assert "Standard deviation" not in told(dataclasses.replace(of_sd, value="mean"))
    equal = dataclasses.replace(of_sd, ours=0.02)
    assert "above" not in told(equal)
    assert "ours" not in told(dataclasses.replace(of_sd, ours=None))


def test_a_claim_has_sentences_and_no_number_without_a_unit() -> None:
    claim = next(item for item in check(PAPER, "smoke") if item.kind == "claim")
    held = dataclasses.replace(
        claim, ours=-0.1257, evidence="a 36 %, b 23 %", explanation="Long.", cause="measured"
    )
    assert "a 36 %, b 23 %. Explanation (measured): Long." in told(held)
    assert "0.1257" not in told(held)


def test_a_claim_lists_what_has_to_hold() -> None:
    claim = next(item for item in check(PAPER, "smoke") if item.kind == "claim")
    numbers = {"value": 0.1, "low": 0.02, "high": 0.18}
    lead = {"what": "IID - 1-class", "unit": "points", "strict": True} | numbers
    ranks = {"what": "rank correlation - 0.8", "unit": "", "strict": False} | numbers
    flat = {"what": "5 points - sd of IID", "unit": "points", "strict": False}
    flat |= dict.fromkeys(numbers)
    held = told(dataclasses.replace(claim, margins=[lead, ranks, flat]))
    assert "IID - 1-class &gt; 0: +10 points (+2 to +18 points)" in held
    assert "rank correlation - 0.8 &gt;= 0: +0.1 (+0.02 to +0.18)" in held
    assert held.endswith("5 points - sd of IID &gt;= 0: not known")


def recorded(folder: Path) -> dict[str, Shown]:
    """Return the recorded runs of the report."""
    runs = {run.id: run for run in expand(PAPER, "smoke")}
    there = {id_: records.read(id_, folder / "results/runs") for id_ in runs}
    return {id_: Shown(run, there[id_]) for id_, run in runs.items()}


def two_seeds(folder: Path) -> list[Shown]:
    """Return two runs that differ in their seed alone."""
    runs = sorted(recorded(folder).values(), key=lambda item: item.page)
    pages = itertools.groupby(runs, key=lambda item: item.page)
    return next(items for _, some in pages if len(items := [*some]) == 2)


def test_a_trainings_page_says_where_each_seed_comes_from(folder: Path) -> None:
    both = two_seeds(folder)
    assert {item.run.seed for item in both} == {0, 1}
    text = (folder / "report" / both[0].page).read_text()
    for item in both:
        assert f'<section id="run-{item.run.id}">' in text
        assert f"Seed {item.run.seed}, run <code>{item.run.id}</code>" in text
        assert f"fedrepro train {item.run.id}" in text
        record = f"results/runs/{item.run.id}.json"
        assert f'<a href="../../{record}">{record}</a>' in text
    assert text.count("<dt>versions</dt>") == text.count("<dt>data</dt>") == 1
    assert "\nseed: " not in text
    table = next(iter(load_plan(PAPER).tables))
    first = recorded(folder)[expand(PAPER, "smoke")[0].id]
    text = (folder / "report" / first.page).read_text()
    assert "<h1>Centralized (centralised)</h1>" in text
    assert 'aria-label="At the end; test accuracy 50.00 %' in text
    assert f'<a href="../papers/{PAPER}.html#{table}">{table}</a>' in text


def test_a_trainings_page_says_at_which_scales_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = two_seeds(folder)
    text = (folder / "report" / both[0].page).read_text()
    assert re.search(r"<title>.*, scale smoke · fedrepro</title>", text)
    assert f'">{PAPER}</a>, scale smoke; 2 runs' in text
    model_1 = next(run for run in expand("selective", "lite") if run.group == "centralised")
    assert Training((Shown(model_1, both[0].record),)).scales == ["paper", "lite"]
    same = load_plan("selective").model_copy(update={"scales": {}})
    monkeypatch.setattr("fedrepro.report.html.trainings.load_plan", lambda _: same)
    assert Training((Shown(model_1, both[0].record),)).scales == []


def test_facts_are_shared_where_they_are_equal(folder: Path) -> None:
    one, other = two_seeds(folder)
    alone, both = Training((one,)), Training((one, other))
    assert not alone.shared
    assert {"versions", "code", "data"} <= {*both.shared}
    assert not {"record", "again"} & {*both.shared}
    assert {curve["seed"] for curve in both.curves} == {one.run.seed, other.run.seed}


@pytest.mark.parametrize(
    ("rounds", "x"),
    [
        ([2, 4, 6], {"x0": 2, "dx": 2}),
        ([1, 3, 4], {"x": [1, 3, 4]}),
        ([5], {"x0": 5, "dx": 1}),
    ],
)
def test_rounds_at_equal_distances_are_not_listed(
    folder: Path, rounds: list[int], x: dict[str, Any]
) -> None:
    item = recorded(folder)[expand(PAPER, "smoke")[0].id]
    metrics = {"accuracy": [0.123456] * len(rounds), "evaluated_rounds": rounds}
    record = item.record.model_copy(update={"metrics": metrics})
    (curve,) = Shown(item.run, record).curves
    seed = item.run.seed
    assert curve == {"name": "test accuracy", "seed": seed, **x, "y": [0.1235] * len(rounds)}


def test_runs_of_a_partition_share_its_page(folder: Path) -> None:
    two = [item for item in recorded(folder).values() if item.run.spec.partition.clients == 2]
    (page,) = {item.partition_page for item in two}
    text = (folder / "report" / page).read_text()
    assert '<tr><th scope="row">1</th><td>2</td><td>2</td><td>0.143</td></tr>' in text
    linked = re.findall(r'href="\.\./(runs/[^"]+)"', text)
    assert sorted(linked) == sorted(item.address for item in two)
    for item in two:
        of_run = (folder / "report" / item.page).read_text()
        assert f'<dt>partition</dt><dd><a href="../{page}">2 clients' in of_run


def test_what_was_imported_is_marked(folder: Path) -> None:
    imported, other = (recorded(folder)[run.id] for run in expand(PAPER, "smoke")[:2])
    page = (folder / "report" / imported.page).read_text()
    (section,) = re.findall(rf'<section id="run-{imported.run.id}">.*?</section>', page, re.DOTALL)
    assert ">imported</span> 3 of its rounds come from" in section
    assert "3 rounds in 2 s, a machine elsewhere" in section
    page = (folder / "report" / other.page).read_text()
    (section,) = re.findall(rf'<section id="run-{other.run.id}">.*?</section>', page, re.DOTALL)
    assert "imported" not in section
    page = (folder / f"report/papers/{PAPER}.html").read_text()
    assert f"<code>{imported.run.id}</code></a> <small>imported</small>" in page
    assert f"<code>{other.run.id}</code></a> <small>imported</small>" not in page


def test_a_second_report_replaces_the_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    target = folder / "again"
    first = site.write([PAPER], "smoke", folder / "results", target)
    before = {file.relative_to(target): file.read_bytes() for file in target.rglob("*.html")}
    (target / "old.html").write_text("old")
    assert site.write([PAPER], "smoke", folder / "results", target) == first
    after = {file.relative_to(target): file.read_bytes() for file in target.rglob("*.html")}
    assert after == before


def test_a_report_that_fails_leaves_the_old_one_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    target = folder / "kept/report"
    site.write([PAPER], "smoke", folder / "results", target)
    before = {file: file.read_bytes() for file in target.rglob("*") if file.is_file()}

    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(site, "_entries", full)
    with pytest.raises(FedreproError, match=r"report: cannot be written .No space left on device"):
        site.write([PAPER], "smoke", folder / "results", target)
    assert {file: file.read_bytes() for file in target.rglob("*") if file.is_file()} == before
    assert [*target.parent.iterdir()] == [target]


@pytest.mark.parametrize("after", [1, 2])
def test_a_report_that_is_interrupted_in_the_end_is_the_old_one_or_the_new_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Between the two renamings, or after both."""
    monkeypatch.chdir(folder)
    target, rename, renamings = folder / f"swapped{after}/report", Path.rename, []
    site.write([PAPER], "smoke", folder / "results", target)
    before = {file: file.read_bytes() for file in target.rglob("*") if file.is_file()}

    def interrupted(path: Path, to: Path) -> Path:
        moved = rename(path, to)
        renamings.append(moved)
        if len(renamings) == after:
            raise KeyboardInterrupt
        return moved

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            site.write([PAPER], "smoke", folder / "results", target)
    assert {file: file.read_bytes() for file in target.rglob("*") if file.is_file()} == before
    assert [*target.parent.iterdir()] == [target]


def test_an_address_of_a_notebook_is_quoted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    shutil.copytree(folder / "results", folder / "100% mine/results")
    site.write([PAPER], "smoke", folder / "100% mine/results", folder / "elsewhere")
    page = (folder / f"elsewhere/papers/{PAPER}.html").read_text()
    assert f'href="../../100%25%20mine/results/smoke/notebooks/{PAPER}.html"' in page


def test_a_folder_of_something_else_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    precious = folder / "other/thesis.tex"
    precious.parent.mkdir()
    precious.write_text("precious")
    with pytest.raises(FedreproError, match="other: holds something else than a report"):
        site.write([PAPER], "smoke", folder / "results", precious.parent)
    assert precious.read_text() == "precious"
    (folder / "loop").symlink_to("loop")
    with pytest.raises(FedreproError, match="loop: cannot be written"):
        site.write([PAPER], "smoke", folder / "results", folder / "loop")


def test_a_missing_result_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(FedreproError, match=r"tricks\.json: missing; .* scale=lite -- all_report"):
        site.write([PAPER], "lite", folder / "results", folder / "lite")


@pytest.mark.parametrize("lost", ["figures/tricks/fig1.svg", "notebooks/tricks.html"])
def test_a_missing_drawing_or_notebook_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    monkeypatch.chdir(folder)
    shutil.copytree(folder / "results", folder / lost / "results")
    (folder / lost / "results/smoke" / lost).unlink()
    with pytest.raises(FedreproError, match=rf"{lost}: missing; .* scale=smoke -- all_report"):
        site.write([PAPER], "smoke", folder / lost / "results", folder / "less")
    assert not (folder / "less").exists()


def test_what_a_scale_has_no_run_for_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/runs").mkdir(parents=True)
    _write_results(tmp_path / "results", "cadis", "paper")
    site.write(["cadis"], "paper", tmp_path / "results", tmp_path / "report")
    require_links(tmp_path)
    page = (tmp_path / "report/papers/cadis.html").read_text()
    absent = page[page.index('<h2 id="absent">') :]
    assert "recovery_epochs is not made at scale paper, which has no run for it" in absent
    assert '<section id="recovery_epochs">' not in page
    assert '<section id="table1">' in page


def test_what_is_recorded_is_reported_without_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without tables, figures and notebooks made by Snakemake.

    Figures are not rendered, which takes half of the time.
    """

    def blank(_: Any, stem: Path) -> None:
        write_text(stem.with_name(f"{stem.name}.svg"), SVG)

    monkeypatch.setattr(style, "save", blank)
    monkeypatch.chdir(tmp_path)
    runs = write_all(tmp_path / "results/runs", "paper", World())
    gone = runs.members(["signed_vote", "updates", "updates_projected"])
    for run in gone:
        records.path_of(run.id, run.records).unlink()
    site.write([PAPER], "paper", Path("nothing"), tmp_path / "report", partial=True)
    require_links(tmp_path)
    planned = len({run.id for run in expand(PAPER, "paper")})
    index = (tmp_path / "report/index.html").read_text()
    assert f"{planned - len(gone)} of the {planned} runs at this scale are recorded" in index
    assert "claims are judged at lite" not in index
    page = (tmp_path / f"report/papers/{PAPER}.html").read_text()
    assert f"{planned - len(gone)} of its {planned} runs are recorded" in page
    assert "notebook" not in page
    left_out = "Left out, as they have no record: 1 of 1 runs of sign agreement"
    table = page[page.index('<section id="table5">') :]
    assert left_out in table[: table.index("</section>")]
    whole = page[page.index('<section id="table4">') :]
    assert "Left out" not in whole[: whole.index("</section>")]
    absent = page[page.index('<h2 id="absent">') :]
    assert "no record of 2 of the runs for fig2, such as" in absent
    summary = (tmp_path / "report/summary.txt").read_text()
    assert f"{planned - len(gone)} of {planned} runs are recorded" in summary
    plan = load_plan(PAPER)
    made = [view for view in (*plan.tables, *plan.figures) if f'<section id="{view}">' in page]
    assert {*plan.tables, *plan.figures} - {*made} == {"fig2"}


def test_a_study_has_a_report_of_its_records_only(tmp_path: Path) -> None:
    with pytest.raises(FedreproError, match=r"no verdicts and notebooks: .* with `--partial`"):
        site.write(["precision"], "lite", tmp_path, tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_a_row_may_be_called_none(tmp_path: Path) -> None:
    file = tmp_path / "lite/tables/tricks/table1.csv"
    file.parent.mkdir(parents=True)
    head = "row,column,mean,sd,n,values,runs,published\n"
    file.write_text(f"{head}None,NA,0.5,,1,0.5,ffffffffffff,\n")
    (cell,) = content._read_cells(tmp_path, "lite", PAPER, "table", "table1", {})
    assert (cell.row, cell.column, cell.text) == ("None", "NA", "50.00 % (n=1)")


def test_headlines_are_at_the_published_scale_where_they_are_tried() -> None:
    expected = load_expected(PAPER)
    (first, *_) = expected.claims
    held = expected.model_copy(
        update={"headline": expected.headline.model_copy(update={"claims": [first.id]})}
    )
    lite = next(item for item in check(PAPER, "smoke") if item.id == first.id)

    def headline(published: str, smaller: str) -> tuple[str, str]:
        def judged(scale: str, verdict: Any) -> tuple[Check, ...]:
            return (dataclasses.replace(lite, scale=scale, verdict=verdict),)

        paper = content.Paper(
            load_plan(PAPER), held, judged("lite", smaller), judged("paper", published), ()
        )
        (shown,) = paper.headlines
        return shown.scale, shown.verdict

    assert headline("deviates", "reproduced") == ("paper", "deviates")
    assert headline("not run", "reproduced") == ("lite", "reproduced")
    assert headline("not run", "not decidable") == ("lite", "not decidable")


def test_headlines_that_were_tried_come_first() -> None:
    expected = load_expected(PAPER)
    ids = [claim.id for claim in expected.claims[:4]]
    held = expected.model_copy(
        update={"headline": expected.headline.model_copy(update={"claims": ids})}
    )
    verdicts: list[Any] = ["not run", "deviates", "not decidable", "reproduced"]
    found = {item.id: item for item in check(PAPER, "smoke")}
    checks = tuple(
        dataclasses.replace(found[name], verdict=verdict)
        for name, verdict in zip(ids, verdicts, strict=True)
    )
    paper = content.Paper(load_plan(PAPER), held, checks, checks, ())
    assert [item.id for item in paper.headlines] == [ids[1], ids[3], ids[0], ids[2]]


def test_claims_that_no_run_decides_are_folded(folder: Path) -> None:
    some = next(item for item in check(PAPER, "smoke") if item.kind == "claim")
    decided = dataclasses.replace(some, id="a", verdict="deviates")
    lacking = dataclasses.replace(some, id="b", verdict="not run")
    of_lite = dataclasses.replace(some, id="c", verdict="not run")
    published = (dataclasses.replace(of_lite, scale="paper", verdict="reproduced"),)
    checks = (lacking, decided, of_lite)
    paper = content.Paper(load_plan(PAPER), load_expected(PAPER), checks, published, ())
    assert paper.undecided == [lacking]
    site._Pages(folder, "smoke", folder, folder).write("p.html", "paper.html", paper=paper, runs={})
    shown, folded = (folder / "p.html").read_text().split('<details class="undecided"')
    assert re.findall(r'<tr id="claim-(.)"', shown) == ["a", "c"]
    assert re.findall(r'<tr id="claim-(.)"', folded) == ["b"]
    assert "1 claim that no run of ours decides</summary>" in folded


def test_a_claim_shows_its_verdicts_of_both_scales() -> None:
    some = next(item for item in check(PAPER, "smoke") if item.kind == "claim")
    lite = dataclasses.replace(some, scale="lite", verdict="inconclusive")
    untried = dataclasses.replace(some, scale="paper", verdict="not run")
    tried = dataclasses.replace(some, scale="paper", verdict="deviates")
    plan, expected = load_plan(PAPER), load_expected(PAPER)
    same = dataclasses.replace(lite, scale="paper")
    for published, shown in ((untried, [lite]), (tried, [tried, lite]), (same, [same])):
        paper = content.Paper(plan, expected, (lite,), (published,), ())
        assert paper.at_scales(lite) == shown


def test_printed_values_that_were_tried_as_published_are_listed() -> None:
    numbers = [item for item in check(PAPER, "smoke") if item.kind == "number"]
    tried = dataclasses.replace(numbers[0], scale="paper", verdict="close", origin="printed")
    other = dataclasses.replace(tried, origin="repository")
    plan, expected = load_plan(PAPER), load_expected(PAPER)
    paper = content.Paper(plan, expected, tuple(numbers), (tried, other, *numbers[1:]), ())
    assert paper.tried_as_published == [tried]
    assert content.Paper(plan, expected, (tried,), (tried,), ()).tried_as_published == []


def test_bars_count_each_target_once() -> None:
    judged = [item for item in check(PAPER, "smoke") if item.kind == "number"]
    as_published = [dataclasses.replace(item, scale="paper") for item in judged]
    printed = [item for item in as_published if item.origin == "printed"]
    plan, expected = load_plan(PAPER), load_expected(PAPER)
    once = content.Paper(plan, expected, (), tuple(printed), ()).outcomes
    twice = content.Paper(plan, expected, (), (*printed, *printed), ()).outcomes
    assert once == twice
    assert once
    assert all(0 < outcome.total == sum(outcome.counts.values()) for outcome in once)


def test_texts_stand_out_from_the_pages_and_cards() -> None:
    """Texts have at least 4.5 times the contrast of what they stand on, light and dark."""
    sheet = (Path(site.__file__).parent / "assets/style.css").read_text()
    colours = {
        name: (light, dark)
        for name, light, dark in re.findall(r"--(\w+): light-dark\((#\w+), (#\w+)\)", sheet)
    }
    texts = {"text", "soft", "link", "reproduced", "close", "deviates", "inconclusive", "not"}
    assert texts | {"page", "card", "line"} == set(colours)
    for name in texts:
        for ground in ("page", "card"):
            for text, on in zip(colours[name], colours[ground], strict=True):
                assert _contrast(text, on) >= 4.5, (name, ground, text, on)


def _contrast(one: str, other: str) -> float:
    """Return the contrast of two colours by WCAG 2, from 1 to 21."""
    bright, dark = sorted(map(_luminance, (one, other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return sum(weight * x for weight, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_runs_are_those_of_the_scale_and_of_published_verdicts(folder: Path) -> None:
    ids = {run.id for run in RunSet(PAPER, "smoke").planned(load_plan(PAPER).runs)}
    pages = (file.read_text() for file in (folder / "report/runs").iterdir())
    assert {run for page in pages for run in re.findall(r'<section id="run-(\w+)">', page)} == ids
