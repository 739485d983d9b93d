"""What the Snakefile is told: targets, inputs, batches, refusals. No Snakemake here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from made_up import content

import fedrepro
from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.fl.cost import kind
from fedrepro.fl.data import pill
from fedrepro.fl.spec import partition_id
from fedrepro.runs import records
from fedrepro.runs.plan import PlannedRun, expand, load_plan, unique
from fedrepro.runs.plan_files import papers
from fedrepro.runs.plan_schema import Scale
from fedrepro.runs.status import status
from fedrepro.workflow import dag, sources
from fedrepro.workflow.dag import MADE, Batch, Workflow

SOURCES = Path(fedrepro.__file__).parent
CONFIG: dict[str, Any] = {
    "papers": ["selective", "emd"],
    "scale": "smoke",
    "train": "auto",
    "device": "cpu",
    "data_root": None,
    "runs_per_batch": 8,
}
EVERY_PAPER = CONFIG | {"papers": papers()}
RUNS: list[PlannedRun] = list(
    unique([run for paper in CONFIG["papers"] for run in expand(paper, "smoke")]).values()
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def to_train(workflow: Workflow) -> list[str]:
    return [run for batch in workflow.batches for run in batch.runs]


def test_without_records_everything_is_to_be_trained() -> None:
    workflow = Workflow(CONFIG)
    assert sorted(to_train(workflow)) == sorted(run.id for run in RUNS)
    assert all(len(batch.runs) <= 8 for batch in workflow.batches)
    by_id = {run.id: run.spec.dataset.name for run in RUNS}
    for batch in workflow.batches:
        assert {by_id[run] for run in batch.runs} == {batch.dataset}
    assert len({batch.name for batch in workflow.batches}) == len(workflow.batches)
    assert re.fullmatch(
        rf"fedrepro, scale smoke: 0 runs recorded, {len(RUNS)} pending "
        r"\(estimate on one core: \d+ (s|min)\)",
        workflow.summary,
    )


def test_recorded_runs_belong_to_no_batch(write_record: Any) -> None:
    before = {batch.name: batch.runs for batch in Workflow(CONFIG).batches}
    for run in RUNS[:-1]:
        write_record(run, records.FOLDER)
    workflow = Workflow(CONFIG)
    (batch,) = workflow.batches
    assert batch.runs == (RUNS[-1].id,)
    assert f": {len(RUNS) - 1} runs recorded, 1 pending (" in workflow.summary
    assert RUNS[-1].id in before[batch.name], "a batch keeps its name"
    write_record(RUNS[-1], records.FOLDER)
    workflow = Workflow(CONFIG | {"train": "never"})
    assert workflow.batches == workflow.pending(workflow.papers) == []
    assert workflow.summary == f"fedrepro, scale smoke: {len(RUNS)} runs recorded"


def test_never_lists_what_is_missing(write_record: Any) -> None:
    for run in RUNS[2:]:
        write_record(run, records.FOLDER)
    workflow = Workflow(CONFIG | {"train": "never"})
    with pytest.raises(FedreproError) as error:
        workflow.data_of(workflow.batches[0])
    text = str(error.value)
    missing = workflow.batches[0].runs
    assert f"needed runs have no record, {len(missing)} in all:" in text
    for run in RUNS:
        listed = re.search(rf"{run.id}  {run.paper} {run.group} .*seed=\d+ +\d+ (s|min)\n", text)
        assert bool(listed) == (run.id in missing)
    assert f"`fedrepro train {missing[0]}` trains the first of them" in text
    assert "all 2 pending runs of scale smoke: " in text
    assert "`fedrepro report` make do with the recorded runs with `--scale smoke --partial`" in text


def needs(workflow: Workflow, ask: Callable[[Workflow], object]) -> set[str]:
    """Return the ids of the runs that are listed where training is off."""
    with pytest.raises(FedreproError, match="needed runs have no record") as error:
        ask(workflow)
    return set(re.findall(r"^  ([0-9a-f]{12})  ", str(error.value), re.MULTILINE))


def test_never_lists_all_that_a_target_or_an_artefact_needs(write_record: Any) -> None:
    """Also where several jobs would train it."""
    gone = {run.id: run for run in (RUNS[0], RUNS[-1])}
    for run in RUNS:
        if run.id not in gone:
            write_record(run, records.FOLDER)
    workflow = Workflow(CONFIG | {"train": "never"})
    assert len(workflow.batches) == 2
    assert needs(workflow, lambda w: w.pending(w.papers)) == {*gone}
    assert needs(workflow, lambda w: w.pending(["emd"])) == {RUNS[-1].id}
    assert needs(workflow, lambda w: w.of_overview("smoke", "emd")) == {RUNS[-1].id}
    state = status(RUNS)
    needed, in_all = (state.left(ids)[0] for ids in ([RUNS[-1].id], state.pending))
    assert needed != in_all
    said = f"Estimate on one core: {needed}; of all 2 pending runs of scale smoke: {in_all}. `fed"
    with pytest.raises(FedreproError, match=re.escape(said)):
        workflow.pending(["emd"])


@pytest.mark.parametrize("kind", ["tables", "figures"])
def test_a_target_needs_the_runs_of_its_artefacts(kind: Literal["tables", "figures"]) -> None:
    workflow = Workflow(CONFIG)
    of = workflow.of_table if kind == "tables" else workflow.of_figure
    for paper in workflow.papers:
        names = load_plan(paper).made(kind, "smoke")
        made_of = {file for name in names for file in of("smoke", paper, name)["records"]}
        assert set(workflow.pending([paper], kind)) == made_of
        assert made_of <= set(workflow.pending([paper]))


def test_never_lists_no_more_than_can_be_read() -> None:
    workflow = Workflow(CONFIG | {"train": "never", "runs_per_batch": 1000})
    largest = max(workflow.batches, key=lambda batch: len(batch.runs))
    with pytest.raises(FedreproError) as error:
        workflow.data_of(largest)
    text = str(error.value)
    assert f"needed runs have no record, {len(largest.runs)} in all:" in text
    assert f"and {len(largest.runs) - 20} more\n" in text
    assert len(text.splitlines()) == 23


def test_twenty_runs_are_all_that_can_be_read(write_record: Any) -> None:
    for run in RUNS[20:]:
        write_record(run, records.FOLDER)
    workflow = Workflow(CONFIG | {"train": "never"})
    assert needs(workflow, lambda w: w.pending(w.papers)) == {run.id for run in RUNS[:20]}
    with pytest.raises(FedreproError) as error:
        workflow.pending(workflow.papers)
    assert " more" not in str(error.value)


def test_of_a_job_the_runs_that_need_a_gpu_are_told() -> None:
    batch = Batch("mixed", "cifar10", ("0" * 12, "1" * 12), tf32=("1" * 12,), minutes=30)
    with pytest.raises(FedreproError, match=r"such as 111111111111 \(1 in one job\)"):
        Workflow(CONFIG).data_of(batch)


def test_runs_of_a_gpu_are_refused_on_a_cpu_before_anything_is_trained() -> None:
    records.FOLDER.mkdir(parents=True)
    published = CONFIG | {"papers": ["fedcd"], "scale": "paper"}
    workflow = Workflow(published)
    batch = workflow.batches[0]
    said = (
        rf"{batch.runs[0]} \({len(batch.runs)} in one job\), .* add `--config device=cuda`"
        ".* with `--scale paper --partial`"
    )
    with pytest.raises(FedreproError, match=said):
        workflow.data_of(batch)
    on_gpu = Workflow(published | {"device": "cuda"})
    assert on_gpu.data_of(batch) == "data/ready/cifar10.json"
    assert on_gpu.summary.endswith("pending (estimate on one core: needs a GPU)")
    assert "; estimate on one core: needs a GPU; on a GPU: " in on_gpu.cost(on_gpu.batches)


def test_a_job_asks_for_time_by_its_cost() -> None:
    published = CONFIG | {"papers": ["selective", "emd"], "scale": "paper"}

    def minutes(**changes: Any) -> list[int]:
        return [batch.minutes for batch in Workflow(published | changes).batches]

    alone, several = minutes(runs_per_batch=1), minutes()
    assert min(alone) == 30
    assert max(several) == 1440, "no more than the limit"
    assert sum(alone) / len(alone) < sum(several) / len(several)
    assert max(minutes(max_minutes=100)) == 100
    assert {*minutes(max_minutes=10)} == {10}, "even where it needs more to start"
    one_core = {"papers": ["emd"], "threads": 1, "max_minutes": 10**6}
    in_all = sum(minutes(**one_core, runs_per_batch=1))
    assert sum(minutes(**one_core)) == pytest.approx(in_all, rel=0.05), "that of all its runs"
    assert sum(minutes(threads=8)) < sum(several)
    assert sum(minutes(device="cuda")) < sum(several), "a GPU is no slower than a core"


def took(run: PlannedRun, write_record: Any, seconds: float, device: str) -> None:
    """Record a run that took so long on a CPU core (cpu) or a GPU (cuda)."""
    of = {"seconds": seconds, "device_type": device, "backend": "graphs"}
    write_record(run, records.FOLDER, provenance=content(run)["provenance"] | of)


@pytest.mark.parametrize(
    ("group", "on_core", "on_gpu", "changes", "minutes"),
    [
        ("mnist_iid_large", 10, None, {"threads": 1}, 2 * 600),
        ("mnist_iid_large", 10.01, None, {"threads": 1}, 2 * 600 + 2),  # 1201.2
        ("mnist_iid_large", 10, None, {"threads": 8}, 2 * 600 / 8),
        ("mnist_iid_large", 10, None, {"threads": 20}, 2 * 600 / 10),  # it has ten clients a round
        ("mnist_sgd_large", 10, None, {"threads": 8}, 2 * 600),
        ("mnist_iid_large", 10, 0.2, {"device": "cuda"}, 10 * 12),
        ("mnist_iid_large", 10, 1.5, {"device": "cuda"}, 600),
        ("mnist_iid_large", 10, None, {"device": "cuda"}, 600),
        ("mnist_iid_large", 10, 0.2, {"threads": 10}, 2 * 60),
    ],
)
def test_a_job_asks_for_more_time_than_like_runs_took(
    write_record: Any,
    group: str,
    on_core: float,
    on_gpu: float | None,
    changes: dict[str, Any],
    minutes: float,
) -> None:
    """Hours: here a core took ``on_core``, and a GPU ``on_gpu``."""
    pending, *others = (run for run in expand("emd", "paper") if run.group == group)
    took(others[0], write_record, 3600 * on_core, "cpu")
    if on_gpu is not None:
        took(others[1], write_record, 3600 * on_gpu, "cuda")
    workflow = Workflow(
        CONFIG | {"papers": ["emd"], "scale": "paper", "runs_per_batch": 1} | changes
    )
    (batch,) = (batch for batch in workflow.batches if batch.runs == (pending.id,))
    assert batch.minutes == minutes


def test_runs_of_one_model_each_share_the_cores_of_a_job(write_record: Any) -> None:
    first, *pending = (run for run in expand("emd", "paper") if run.group == "mnist_sgd_large")
    took(first, write_record, 3600 * 6, "cpu")
    workflow = Workflow(CONFIG | {"papers": ["emd"], "scale": "paper", "threads": 8})
    (batch,) = (one for one in workflow.batches if pending[0].id in one.runs)
    assert batch.runs == tuple(run.id for run in pending)
    assert batch.minutes == 2 * 60 * 6, "one core each"


def test_a_job_on_another_machine_finds_its_runs_though_they_are_recorded_by_now(
    write_record: Any,
) -> None:
    planned = {batch.name: batch.runs for batch in Workflow(CONFIG).batches}
    for run in RUNS:
        write_record(run, records.FOLDER)
    assert Workflow(CONFIG).batches == []
    there = Workflow(CONFIG, every_batch=True).batches
    assert {batch.name: batch.runs for batch in there} == planned


def test_the_report_is_made_of_results_of_its_scale_and_of_published_runs(
    write_record: Any,
) -> None:
    published = expand("emd", "paper")[0]
    write_record(published, records.FOLDER)
    workflow = Workflow(CONFIG | {"papers": ["emd"]})
    files = workflow.of_report("smoke")
    assert files["records"] == [f"{records.FOLDER}/{published.id}.json"]
    shown = {
        *("tables/emd/table2.csv", "figures/emd/fig1a.svg", "figures/emd/fig1a.csv"),
        *("notebooks/emd.html", "checks/emd.json"),
    }
    others = {"tables/emd/table2.md", "figures/emd/fig1a.png", "notebooks/emd.ipynb"}
    results = {file.removeprefix("results/smoke/") for file in files["results"]}
    assert shown <= results
    assert not others & results
    for name in ("report/html/site.py", "papers/emd/claims.py"):
        assert str(SOURCES / name) in files["code"]
    with pytest.raises(FedreproError, match="is made at scale lite, and the scale here is smoke"):
        workflow.of_report("lite")


def test_what_training_costs_is_of_the_jobs_of_a_call(write_record: Any) -> None:
    workflow = Workflow(CONFIG)
    first, second = workflow.batches[:2]
    jobs = {f"train_{first.name}": 1, f"fed_train_{second.name}": 1, "table": 3, "total": 5}
    assert workflow.trained(jobs) == [first, second]
    count = len(first.runs) + len(second.runs)
    assert re.fullmatch(
        rf"Training jobs: 2; runs: {count}; estimate on one core: \d+ (s|min)",
        workflow.cost(workflow.trained(jobs)),
    )
    assert workflow.trained({"table": 3}) == []


def test_files_of_runs_without_a_record_are_told_of(write_record: Any) -> None:
    for run in RUNS[:-1]:
        write_record(run, records.FOLDER)
    workflow = Workflow(CONFIG)
    workflow.of_overview(
        "smoke", next(paper for paper in CONFIG["papers"] if paper != RUNS[-1].paper)
    )
    assert workflow.stale() == ""
    workflow.of_overview("smoke", RUNS[-1].paper)
    assert workflow.stale().startswith("1 of the runs that the files are made of have no record")


def test_where_there_are_no_records_nothing_is_trained_unless_told() -> None:
    workflow = Workflow(CONFIG | {"papers": ["fedcd"], "scale": "paper"})
    with pytest.raises(FedreproError, match=rf"no folder results/runs in {Path.cwd()}, .*ln -s"):
        workflow.pending(["fedcd"])
    with pytest.MonkeyPatch.context() as in_the_clone:
        in_the_clone.setattr(dag, "root", Path.cwd)
        assert workflow.pending(["fedcd"]), "its records may all have been deleted"
    records.FOLDER.mkdir(parents=True)
    assert workflow.pending(["fedcd"])


def test_records_of_a_clone_are_linked_by_a_command_to_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workflow = Workflow(CONFIG | {"papers": ["fedcd"], "scale": "paper"})
    monkeypatch.setattr(dag, "root", lambda: Path("/some where/clone"))
    with pytest.raises(FedreproError, match="ln -s '/some where/clone/results/runs' results/`"):
        workflow.pending(["fedcd"])


def test_verdicts_are_refused_where_there_are_none() -> None:
    assert Workflow(CONFIG).pending_of_reported()
    said = r"scale quick has no verdicts, .* `--config scale=lite`"
    with pytest.raises(FedreproError, match=said):
        Workflow(CONFIG | {"scale": "quick"}).pending_of_reported()


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("all_table", "unknown target 'all_table' (did you mean 'all_tables'?"),
        ("all_cadis", "paper 'cadis' is switched off; add `--config papers=cadis`"),
        ("all_precision", "'precision' is a study of our own, which Snakemake does not make"),
    ],
)
def test_a_target_that_does_not_exist(target: str, text: str) -> None:
    with pytest.raises(FedreproError) as error:
        Workflow(CONFIG).no_target(target, ["all", "all_tables"])
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("scale", "file", "text"),
    [
        ("smoke", "table/emd/table2.csv", "no folder results/smoke/table (did you mean 'tables'?"),
        ("smoke", "figures/emd/fig1a.pdf", "results/smoke/figures holds <paper>/<figure>.svg, <pa"),
        ("smoke", "tables/table2.csv", "results/smoke/tables holds <paper>/<table>.csv, <paper>/"),
        ("smoke", "tables/5/table2.csv", "results/smoke/tables holds <paper>/<table>.csv"),
        ("smoke", "report/papers/emd.html", "results/smoke/report holds index.html, summary.txt"),
        ("lit", "figures/emd/fig1a.pdf", "results/lit: unknown scale 'lit' (did you mean 'lite'?"),
    ],
)
def test_a_file_that_does_not_exist(scale: str, file: str, text: str) -> None:
    assert not re.fullmatch(MADE, file)
    with pytest.raises(FedreproError, match=re.escape(text)):
        Workflow(CONFIG).no_file(scale, file)


def test_a_record_of_no_run_names_the_nearest() -> None:
    workflow = Workflow(CONFIG)
    run_id = workflow.batches[0].runs[0]
    with pytest.raises(FedreproError) as error:
        workflow.no_run(run_id[:6])
    assert f"no planned run at scale smoke has the id '{run_id[:6]}'; did you mean {run_id}" in str(
        error.value
    )
    assert "`fedrepro status --scale smoke --list` shows the ids" in str(error.value)


@pytest.mark.parametrize(
    ("paper", "scale"), [("fedcd", "smoke"), ("emd", "paper"), ("precision", "paper")]
)
def test_a_record_of_another_plan_or_scale_says_of_which(paper: str, scale: Scale) -> None:
    run = expand(paper, scale)[0]
    said = (
        f"{run.id} is a run of {paper} at scale {scale}, and this call has scale smoke of "
        f"selective, emd; `{run.command}` trains it"
    )
    with pytest.raises(FedreproError, match=f"^{said}$"):
        Workflow(CONFIG).no_run(run.id)


def test_a_record_in_the_wrong_folder_says_which_is_right() -> None:
    with pytest.raises(FedreproError, match=f" is {records.OWN_FOLDER}/{RUNS[0].id}.json$"):
        Workflow(CONFIG).no_run(RUNS[0].id)


def test_files_that_are_made_are_not_refused() -> None:
    workflow = Workflow(EVERY_PAPER)
    papers = workflow.papers
    made = [*workflow.everything(papers), *workflow.report(), *workflow.indices(papers)]
    made.append("results/smoke/tables/my-plan/5.csv")
    assert [file for file in made if not re.fullmatch(f"results/smoke/({MADE})", file)] == []


def test_a_damaged_record_stops(write_record: Any) -> None:
    file = write_record(RUNS[0], records.FOLDER)
    file.write_text(file.read_text().replace("0.5", "0.6"))
    with pytest.raises(FedreproError, match=f"{RUNS[0].id}.json: was edited"):
        Workflow(CONFIG)


@pytest.mark.parametrize("complete", [True, False])
def test_each_record_is_read_once(
    write_record: Any, monkeypatch: pytest.MonkeyPatch, complete: bool
) -> None:
    """Also of another scale, which estimates of pending runs are made from."""
    pending, other = next(
        (run, like)
        for run in RUNS
        for like in expand("emd", "lite")
        if kind(run.spec) == kind(like.spec)
    )
    recorded = [run for run in RUNS if complete or run != pending]
    for run in (*recorded, other):
        write_record(run, records.FOLDER)
    reads: Counter[str] = Counter()
    read_bytes = Path.read_bytes

    def counted(file: Path) -> bytes:
        if file.parent == records.FOLDER:
            reads[file.stem] += 1
        return read_bytes(file)

    monkeypatch.setattr(Path, "read_bytes", counted)
    workflow = Workflow(CONFIG)
    for paper in workflow.papers:
        workflow.of_check("smoke", paper)
    wanted = {run.id for run in recorded}
    assert reads == Counter(wanted if complete else {*wanted, other.id})


def test_only_what_is_asked_for_is_expanded(write_record: Any) -> None:
    for run in expand("emd", "smoke"):
        write_record(run, records.FOLDER)
    expand.cache_clear()
    workflow = Workflow(CONFIG | {"papers": ["emd"]})
    workflow.everything(workflow.papers)
    assert expand.cache_info().currsize == 1


def test_a_folder_of_the_repository_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its jobs would be; without records there, the plan would be to train everything."""
    monkeypatch.chdir(root() / "docs")
    with pytest.raises(FedreproError, match=f"run it in {re.escape(str(root()))}: records"):
        Workflow(CONFIG)


HEAVY = ("matplotlib", "pandas", "scipy", "torch", "torchvision")


@pytest.mark.parametrize("recorded", [True, False])
def test_the_snakefile_waits_for_no_heavy_import(write_record: Any, recorded: bool) -> None:
    for run in RUNS if recorded else ():
        write_record(run, records.FOLDER)
    program = (
        "import sys; from fedrepro.workflow.dag import MADE, Workflow; "
        f"assert bool(Workflow({CONFIG!r}).batches) != {recorded}; "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_targets() -> None:
    workflow = Workflow(CONFIG)
    for ending in ("csv", "md"):
        assert f"results/smoke/tables/emd/table2.{ending}" in workflow.tables(["emd"])
    for ending in ("csv", "svg", "png"):
        assert f"results/smoke/partitions/emd/overview.{ending}" in workflow.overviews(["emd"])
        assert f"results/smoke/figures/selective/fig3.{ending}" in workflow.figures(workflow.papers)
    assert workflow.checks(["emd"]) == ["results/smoke/checks/emd.json"]
    everything = workflow.everything(workflow.papers)
    kinds = ("tables", "figures", "notebooks", "checks", "overviews")
    made = [file for kind in kinds for file in getattr(workflow, kind)(workflow.papers)]
    assert sorted(everything) == sorted(made)
    assert len(everything) == len(set(everything))
    assert not [path for path in everything if path.endswith(".npz")], "they need data"
    assert workflow.report() == [
        "results/smoke/report/index.html",
        "results/smoke/report/summary.txt",  # `make figures` prints it
    ]
    assert len(workflow.indices(["selective"])) < len(expand("selective", "smoke"))
    for paper in workflow.papers:
        assert set(workflow.everything([paper])) <= set(everything)


@pytest.mark.parametrize("paper", papers())
def test_artefacts_depend_on_their_runs_and_on_files_that_exist(paper: str) -> None:
    workflow = Workflow(EVERY_PAPER)
    plan = load_plan(paper)
    made_of = [
        *(workflow.of_table("smoke", paper, name) for name in plan.tables),
        *(workflow.of_figure("smoke", paper, name) for name in plan.figures),
        workflow.of_check("smoke", paper),
        workflow.of_overview("smoke", paper),
        workflow.of_notebook("smoke", paper),
    ]
    for files in made_of:
        for path in (*files["config"], *files["code"]):
            assert Path(path).is_file(), path
    for name, files in zip([*plan.tables, *plan.figures], made_of, strict=False):
        wanted = {
            str(records.path_of(run.id, records.OWN_FOLDER))
            for run in expand(paper, "smoke")
            if run.group in plan.artefact(name).runs
        }
        assert set(files["records"]) == wanted
        assert len(files["records"]) == len(wanted)


def test_published_values_and_plots_are_no_part_of_the_overview_of_partitions() -> None:
    made_of = Workflow(CONFIG).of_overview("smoke", "emd")
    assert [Path(file).name for file in made_of["config"]] == ["emd.yaml"]
    assert str(SOURCES / "report/generic.py") not in made_of["code"]
    assert len(Workflow(CONFIG).of_check("smoke", "emd")["config"]) == 2


def test_in_the_clone_no_path_has_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made again where a clone is moved."""
    away = Workflow(CONFIG).of_notebook("smoke", "emd")
    monkeypatch.chdir(root())
    for key, files in Workflow(CONFIG).of_notebook("smoke", "emd").items():
        here, there = ([files], [away[key]]) if key == "template" else (files, away[key])
        assert not [file for file in here if Path(file).is_absolute()]
        assert key == "records" or [str(root() / file) for file in here] == there


@pytest.mark.parametrize("paper", papers())
def test_an_artefact_is_made_with_its_papers_code(paper: str) -> None:
    workflow = Workflow(EVERY_PAPER)
    plan = load_plan(paper)
    table = workflow.of_table("smoke", paper, next(iter(plan.tables)))["code"]
    figure = workflow.of_figure("smoke", paper, next(iter(plan.figures)))["code"]
    check = workflow.of_check("smoke", paper)["code"]
    parts = ("measurements", "figures", "drawings", "claims")
    own = {part: str(SOURCES / f"papers/{paper}/{part}.py") for part in parts}
    assert {*own.values()} & {*table} == {own["measurements"]}
    assert {*own.values()} & {*figure} == {*own.values()} - {own["claims"]}
    assert {*own.values()} & {*check} == {*own.values()} - {own["drawings"]}
    assert {*own.values()} <= {*workflow.of_notebook("smoke", paper)["code"]}
    assert str(SOURCES / "report/verdicts.py") in check
    others = {str(SOURCES / "papers" / other) for other in papers() if other != paper}
    assert not [file for file in check if str(Path(file).parent) in others]


@pytest.mark.parametrize("paper", papers())
def test_a_changed_colour_makes_no_table_and_no_verdict_again(paper: str) -> None:
    workflow = Workflow(EVERY_PAPER)
    plan = load_plan(paper)
    made_of = [workflow.of_table("smoke", paper, name) for name in plan.tables]
    made_of.append(workflow.of_check("smoke", paper))
    for files in made_of:
        assert [file for file in files["code"] if "matplotlib" in Path(file).read_text()] == []
    figure, notebook = next(iter(plan.figures)), workflow.of_notebook("smoke", paper)
    for files in (workflow.of_figure("smoke", paper, figure), notebook):
        assert str(SOURCES / "report/style.py") in files["code"]


def test_measurements_are_an_input_of_every_artefact_that_shows_them() -> None:
    workflow = Workflow(EVERY_PAPER)
    made_of = (
        workflow.of_table("smoke", "cadis", "overhead"),
        workflow.of_figure("smoke", "cadis", "fig11"),
        workflow.of_check("smoke", "cadis"),
    )
    for files in made_of:
        assert str(root() / "benchmarks/cadis.json") in files["config"]


def test_code_is_followed_through_packages() -> None:
    found = sources.files(["fedrepro.papers.fedcd.drawings"])
    imported = {"papers/fedcd/public_logs.py", "report/style.py", "runs/records.py", "fl/spec.py"}
    assert imported <= {*found}
    assert all((SOURCES / file).is_file() for file in found)


@pytest.mark.parametrize("paper", papers())
def test_all_code_that_a_notebook_imports_is_its_input(paper: str) -> None:
    files = Workflow(EVERY_PAPER).of_notebook("smoke", paper)
    cells = json.loads(Path(files["template"]).read_text())["cells"]
    code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    used = set(re.findall(r"from fedrepro\.([a-z_.]+) import", code))
    assert used
    assert {str(SOURCES / f"{name.replace('.', '/')}.py") for name in used} <= set(files["code"])


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (
            lambda w: w.of_table("smoke", "emd", "tabel2"),
            "no table 'tabel2' (did you mean",
        ),
        (lambda w: w.of_figure("smoke", "emd", "table2"), "no figure 'table2'"),
        (lambda w: w.of_table("smoke", "edm", "table2"), "unknown paper 'edm' (did you mean"),
        (lambda w: w.of_table("paper", "emd", "table2"), "add `--config scale=paper`"),
        (lambda w: w.of_table("lit", "emd", "table2"), "unknown scale 'lit' (did you mean 'lite'?"),
        (lambda w: w.of_check("lite", "emd"), "the scale here is smoke"),
        (lambda w: w.of_notebook("smoke", "emb"), "did you mean 'emd'"),
        (lambda w: w.dataset_of("smoke", "emd", "0" * 12), "no partition '000000000000'"),
        (lambda w: w.found("minst"), "'mnist'"),
    ],
)
def test_unknown_names(ask: Callable[[Workflow], object], text: str) -> None:
    with pytest.raises(FedreproError) as error:
        ask(Workflow(CONFIG))
    assert text in str(error.value)


def test_a_data_set_is_found_by_what_it_is(tmp_path: Path) -> None:
    """Wherever it lies, and whether its official files are here or still to be downloaded."""

    def found(pack: str, name: str = "mnist") -> list[str]:
        return Workflow(CONFIG | {"data_root": str(tmp_path / pack)}).found(name)

    pack = tmp_path / "some packs"
    pack.mkdir()
    assert found("some packs") == ["official"]
    assert found("some packs", "synthetic") == []
    for file in pill.FILES:
        (pack / "raw" / pill.FOLDER / file).parent.mkdir(parents=True, exist_ok=True)
        (pack / "raw" / pill.FOLDER / file).write_text("{}\n")
    assert found("some packs", "pill") == [f"3  {Path(file).name}" for file in pill.FILES]
    (pack / "mnist.npz").touch()
    (pack / "SHA256SUMS").write_text(f"{'0' * 64}  mnist.npz\n")
    assert found("some packs") == [f"{'0' * 64}  mnist.npz"]
    pack.rename(tmp_path / "moved")
    assert found("moved") == [f"{'0' * 64}  mnist.npz"]


def test_papers_may_be_switched_off() -> None:
    workflow = Workflow(CONFIG | {"papers": ["emd"]})
    assert {path.split("/")[3] for path in workflow.tables(workflow.papers)} == {"emd"}
    assert sorted(to_train(workflow)) == sorted({run.id for run in expand("emd", "smoke")})
    with pytest.raises(FedreproError, match="paper 'selective' is switched off"):
        workflow.of_check("smoke", "selective")


def test_partitions_name_their_data_set() -> None:
    workflow = Workflow(CONFIG)
    wanted = {partition_id(run.spec): run.spec.dataset.name for run in expand("emd", "smoke")}
    paths = workflow.indices(["emd"])
    assert {Path(path).stem for path in paths} == set(wanted)
    for name, dataset in wanted.items():
        assert workflow.dataset_of("smoke", "emd", name) == dataset
    assert set(wanted.values()) == {"synthetic", "synthetic_rgb"}
    assert workflow.datasets() == ["data/ready/synthetic.json", "data/ready/synthetic_rgb.json"]
