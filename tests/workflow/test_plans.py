"""What Snakemake plans to do, and what it says when it cannot."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from clones import PAPERS, REPOSITORY, SMOKE, Clone, Plan, copy_repository

from fedrepro.runs.plan import PlannedRun, expand, load_plan

pytestmark = pytest.mark.slow
TARGETS = ("all_tables", "all_figures", "all_notebooks", "all_checks", "all_report")
DATASETS = {run.spec.dataset.name for paper in PAPERS for run in expand(paper, "smoke")}


@pytest.fixture(scope="module")
def made_up(
    tmp_path_factory: pytest.TempPathFactory, write_record: Any, smoke_runs: list[PlannedRun]
) -> Path:
    """Made-up records of the smoke scale: a plan asks no more of them."""
    folder = tmp_path_factory.mktemp("made_up")
    for run in smoke_runs:
        write_record(run, folder)
    return folder


@pytest.fixture
def recorded(clone: Clone, made_up: Path) -> Clone:
    """A fresh clone with records of the smoke scale."""
    shutil.copytree(made_up, clone.records)
    return clone


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone without records in which nothing is edited or made."""
    return copy_repository(tmp_path_factory.mktemp("untouched"))


@pytest.fixture(scope="module")
def everything(untouched: Clone) -> Plan:
    """What ``all`` does in a clone without records."""
    return untouched.plan(*SMOKE, "all")


@pytest.fixture(scope="module")
def one_table(untouched: Clone) -> Plan:
    """What a table does in a clone without records."""
    return untouched.plan(*SMOKE, "results/smoke/tables/emd/table2.md")


@pytest.fixture(scope="module")
def with_options(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """What is done, and by which commands, on a GPU with packed data and jobs of three cores."""
    clone = copy_repository(tmp_path_factory.mktemp("options"))
    (clone.root / "some packs").mkdir()
    options = ("scale=smoke", "device=cuda", "data_root=some packs", "threads=3")
    return clone.plan("-p", "--cores", "4", "--config", *options, "--", "all_tables")


def test_a_clone_with_records_trains_nothing_and_needs_no_data(
    recorded: Clone, smoke_ids: Any
) -> None:
    plan = recorded.plan("--config", "scale=smoke", "train=never", "--", *TARGETS, "all")
    assert f"{len(smoke_ids())} runs recorded" in plan.text
    assert " pending (" not in plan.text
    assert "Training jobs" not in plan.text
    assert [plan.jobs.pop(target) for target in (*TARGETS, "all")] == [1] * (len(TARGETS) + 1)
    assert plan.jobs.pop("partition_overview") == len(PAPERS)
    assert plan.jobs.pop("report") == 1
    assert set(plan.jobs) == {"table", "figure", "notebook", "check"}


def test_without_a_target_everything_is_made(untouched: Clone, everything: Plan) -> None:
    bare = untouched.plan("--config", "scale=smoke").jobs
    assert bare.pop("default") == everything.jobs["all"] == 1
    assert bare | {"all": 1} == everything.jobs


def test_index_lists_need_data_and_no_training(recorded: Clone) -> None:
    plan = recorded.plan(*SMOKE, "all_partitions")
    assert plan.trained == []
    assert plan.jobs["dataset"] == len(DATASETS)
    assert plan.jobs["partition"] > 10
    assert plan.jobs["partition_overview"] == len(PAPERS)


def test_forced_rules_train_no_recorded_run(recorded: Clone) -> None:
    plan = recorded.plan("-F", *SMOKE, "all_checks")
    assert plan.jobs == {"all_checks": 1, "check": len(PAPERS)}


def test_a_deleted_record_is_the_one_run_that_trains(recorded: Clone, smoke_ids: Any) -> None:
    run_id = smoke_ids()[17]
    (recorded.records / f"{run_id}.json").unlink()
    plan = recorded.plan(*SMOKE, "all_checks")
    assert plan.trained == [run_id]
    assert plan.jobs["train"] == plan.jobs["dataset"] == 1
    assert "1 pending (estimate on one core: " in plan.text
    assert "Training jobs: 1; runs: 1; estimate on one core: " in plan.text


def test_a_deleted_record_trains_though_all_that_was_made_of_it_is_there(
    recorded: Clone, smoke_ids: Any
) -> None:
    targets = ("all_checks", "all_tables")
    made = re.findall(r"^    output: (.*)$", recorded.plan(*SMOKE, *targets).text, re.MULTILINE)
    for file in ", ".join(made).split(", "):
        (recorded.root / file).parent.mkdir(parents=True, exist_ok=True)
        (recorded.root / file).touch()
    again = recorded.plan(*SMOKE, *targets)
    assert again.jobs == {}
    assert "have no record any more" not in again.text
    run_id = smoke_ids(lambda run: run.group == "mnist_sweep")[0]
    (recorded.records / f"{run_id}.json").unlink()
    for target, rule in zip(targets, ("check", "table"), strict=True):
        plan = recorded.plan(*SMOKE, target)
        assert plan.trained == [run_id]
        assert 0 < plan.jobs[rule] < len(made), "what it is in, and no more"
    by_name = recorded.plan(*SMOKE, "results/smoke/tables/emd/table2.md")
    assert by_name.jobs == {}
    assert (
        "1 of the runs that the files are made of have no record any more: add `-F`" in by_name.text
    )


def test_a_changed_plan_trains_exactly_its_runs(recorded: Clone, smoke_ids: Any) -> None:
    recorded.edit(
        "config/papers/emd.yaml",
        "mnist_sgd_large: {set: {partition: {per_class: 40}, batch: 200}}",
        "mnist_sgd_large: {set: {partition: {per_class: 40}, batch: 250}}",
    )
    plan = recorded.plan(*SMOKE, "all_checks")
    assert len(plan.trained) == len(
        smoke_ids(lambda run: run.paper == "emd" and run.group == "mnist_sgd_large")
    )
    assert not set(plan.trained) & set(smoke_ids())


_RAISED = '    version=2,\n    example={"name": "selective"'


def test_a_raised_version_trains_exactly_its_users(recorded: Clone, smoke_ids: Any) -> None:
    recorded.edit(
        "src/fedrepro/fl/algorithms/selective.py", '    example={"name": "selective"', _RAISED
    )
    users = smoke_ids(lambda run: run.spec.algorithm.name == "selective")
    plan = recorded.plan(*SMOKE, "all_checks")
    assert len(plan.trained) == len(users) > 0
    assert not set(plan.trained) & set(smoke_ids())
    assert f"{len(smoke_ids()) - len(users)} runs recorded, {len(users)} pending" in plan.text


def test_without_records_everything_trains(everything: Plan, smoke_ids: Any) -> None:
    assert everything.trained == smoke_ids()
    assert everything.jobs["dataset"] == len(DATASETS)
    assert everything.jobs["train"] < len(everything.trained) / 4, "runs are trained in batches"


def test_one_artefact_trains_only_its_batches(one_table: Plan, smoke_ids: Any) -> None:
    assert one_table.jobs["table"] == 1
    sweep = smoke_ids(lambda run: run.paper == "emd" and run.group.endswith("_sweep"))
    assert set(sweep) <= set(one_table.trained)
    assert set(one_table.trained) <= set(smoke_ids(lambda run: run.paper == "emd"))


def test_what_training_costs_is_of_the_target(one_table: Plan, smoke_ids: Any) -> None:
    text, jobs, runs = one_table.text, one_table.jobs["train"], len(one_table.trained)
    assert f"0 runs recorded, {len(smoke_ids())} pending (estimate on one core: " in text
    assert f"Training jobs: {jobs}; runs: {runs}; estimate on one core: " in text
    assert 0 < runs < len(smoke_ids())


def test_training_jobs_ask_for_time(everything: Plan) -> None:
    assert everything.text.count("runtime=30") == everything.jobs["train"]


def test_jobs_that_share_a_gpu_are_told_of(untouched: Clone, with_options: Plan) -> None:
    warning = "Several of them may share a GPU: add `--resources gpu=1`"
    assert warning not in with_options.text
    options = ("--config", "scale=smoke", "device=cuda", "--")
    assert warning in untouched.plan("--workflow-profile", "none", *options, "all_runs").text


def test_training_jobs_ask_for_a_gpu(everything: Plan, with_options: Plan) -> None:
    assert "gpu=1" in with_options.text
    assert "gpu=1" not in everything.text


def test_training_jobs_take_their_cores(everything: Plan, with_options: Plan) -> None:
    assert "threads: 3" in with_options.text
    assert "--workers 3" in with_options.text
    assert "threads:" not in everything.text


def test_a_data_set_that_was_removed_is_looked_for_again(clone: Clone) -> None:
    """Not one that was moved. Jobs are told where packed data are."""
    tell = "echo $FEDREPRO_DATA > {output:q} #"
    clone.edit("workflow/rules/data.smk", "{params.python} fedrepro.cli data", tell)
    pack = clone.root / "some packs"
    pack.mkdir()
    (pack / "mnist.npz").touch()
    (pack / "SHA256SUMS").write_text(f"{'0' * 64}  mnist.npz\n")
    here = ("--config", "scale=smoke", "data_root=some packs", "--", "data/ready/mnist.json")
    done = clone.snakemake("--cores", "1", *here)
    assert done.returncode == 0, done.stderr
    assert (clone.root / here[-1]).read_text() == "some packs\n"
    assert clone.plan(*here).jobs == {}
    pack.rename(clone.root / "moved")
    assert clone.plan(*here[:2], "data_root=moved", *here[3:]).jobs == {}
    assert clone.plan(*SMOKE, here[-1]).jobs == {"dataset": 1}


def test_jobs_are_not_looked_for_all_the_time(recorded: Clone) -> None:
    """Unless by a limit of one's own."""
    recorded.edit(
        "workflow/rules/tables.smk", "{params.python} fedrepro.cli", "touch {output} && echo"
    )
    with (recorded.root / "Snakefile").open("a") as file:
        file.write('\nonsuccess:\n    print("limit:", workflow.scheduler.job_rate_limiter)\n')
    for own, limit in (((), "None"), (("--max-jobs-per-timespan", "9/1s"), "<")):
        done = recorded.snakemake("--cores", "1", *own, "-F", *SMOKE, OVERHEAD)
        assert f"limit: {limit}" in done.stdout + done.stderr


def without(runs: list[str]) -> list[str]:
    """Return a table that is made without these runs."""
    for paper in PAPERS:
        needed = {run.id: run.group for run in expand(paper, "smoke")}
        for name, table in load_plan(paper).tables.items():
            if not any(needed.get(run) in table.runs for run in runs) and table.runs:
                return [f"results/smoke/tables/{paper}/{name}.csv"]
    raise AssertionError


def test_never_is_an_error_with_the_list(recorded: Clone, smoke_ids: Any) -> None:
    gone = smoke_ids()[:2]
    for run_id in gone:
        (recorded.records / f"{run_id}.json").unlink()
    never = ("--config", "scale=smoke", "train=never", "--")
    assert recorded.plan(*never, *without(gone)).jobs == {"table": 1}
    text = recorded.fails("-n", *never, "all_checks")
    assert "InputFunctionException in rule all_checks" in text
    assert "needed runs have no record, 2 in all:" in text
    assert all(run_id in text for run_id in gone)
    assert "all 2 pending runs of scale smoke" in text


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (("--config", "scal=smoke", "--", "all"), ["scal: unknown key", "'scale'?"]),
        (
            (*SMOKE, "results/smoke/tables/emd/tabel2.csv"),
            ["paper 'emd' has no table 'tabel2'", "did you mean 'table2'?"],
        ),
        (
            (*SMOKE, "results/smoke/figures/emd/fig1a.pdf"),
            ["nothing makes results/smoke/figures/emd/fig1a.pdf; results/smoke/figures holds <pap"],
        ),
        ((*SMOKE, "results/runs/0123456789ab.json"), ["no planned run at scale smoke has the id"]),
        (("--config", f"plans={'x' * 5000}", "--", "all"), ["File name too long; check that"]),
        ((*SMOKE, "all_figure"), ["unknown target 'all_figure' (did you mean 'all_figures'?"]),
        (
            ("--config", "scale=quick", "--", "all_checks"),
            ["scale quick has no verdicts, notebooks and report: ask for all, all_tables or"],
        ),
    ],
)
def test_mistakes(untouched: Clone, arguments: tuple[str, ...], texts: list[str]) -> None:
    said = untouched.fails("-n", *arguments)
    for text in texts:
        assert text in said


def test_every_rule_says_what_it_makes(untouched: Clone) -> None:
    done = untouched.snakemake("--list-rules", *SMOKE[:2])
    rules = done.stdout.splitlines()
    assert "all_data (The data sets: what a machine without network has to be given.)" in rules
    assert [rule for rule in rules if not re.fullmatch(r"\w+ \(.+\)", rule)] == []


def test_a_snakemake_without_the_package_is_told_where_one_with_it_is(untouched: Clone) -> None:
    program = (
        "import sys\n"
        "sys.modules['fedrepro'] = None\n"
        "from snakemake.cli import main\n"
        "main(['-n', 'all'])\n"
    )
    done = untouched.run(sys.executable, "-c", program)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert f"call Snakemake from {untouched.root}/.venv/bin, which `make figures` installs" in said


def test_the_package_of_another_clone_is_refused(untouched: Clone) -> None:
    package = f"PYTHONPATH={REPOSITORY / 'src'}"
    snakemake = (sys.executable, "-m", "snakemake", "-n", *SMOKE, "all")
    done = untouched.run("env", package, *snakemake)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert f"This Snakefile is in {untouched.root}" in said
    assert "`make figures` installs (after `make clean`, if the clone was copied or moved)" in said


OVERHEAD = "results/smoke/tables/cadis/overhead.md"
"""A table that needs no records."""


def test_jobs_run_the_code_of_this_clone(clone: Clone) -> None:
    """Also in an environment with the package of another one, as a conda environment may be."""
    clone.edit(
        "src/fedrepro/cli/__main__.py",
        "import sys\n",
        "import sys\n\nprint(__file__)\n",
    )
    program = (
        "import os, sys\n"
        "sys.path.insert(0, os.environ.pop('PYTHONPATH'))\n"
        "from snakemake.cli import main\n"
        f"main(['--cores', '1', *{SMOKE!r}, {OVERHEAD!r}])\n"
    )
    done = clone.run(sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    log = (clone.root / "logs/smoke/tables/cadis/overhead.log").read_text()
    assert str(clone.root / "src/fedrepro/cli/__main__.py") in log


def test_another_name_of_python_or_of_the_clone_makes_nothing_again(clone: Clone) -> None:
    python = Path(sys.executable)
    names = (python.with_name(name) for name in ("python", "python3"))
    other = next(name for name in names if name.exists() and name != python)
    done = clone.run(str(other), "-m", "snakemake", "--cores", "1", *SMOKE, OVERHEAD)
    assert done.returncode == 0, done.stderr
    moved = Clone(clone.root.rename(clone.root.with_name("moved")))
    assert moved.plan(*SMOKE, OVERHEAD).jobs == {}


def test_a_typo_in_a_plan(clone: Clone) -> None:
    clone.edit("config/papers/emd.yaml", "  init_seed: 0 ", "  init_sed: 0 ")
    said = clone.fails("-n", *SMOKE, "all")
    assert "WorkflowError" in said
    assert "config/papers/emd.yaml" in said
    assert "init_sed: unknown key; did you mean 'init_seed'?" in said


def test_a_plan_with_the_name_of_a_target(clone: Clone) -> None:
    (clone.root / "config/papers/fedcd.yaml").rename(clone.root / "tables.yaml")
    clone.edit("tables.yaml", "paper: fedcd", "paper: tables")
    said = clone.fails("-n", "--config", "plans=tables.yaml", "scale=paper", "--", "all")
    assert "plan 'tables': the target all_tables is that of all plans; rename the plan" in said


def test_as_a_module_it_keeps_its_paths(clone: Clone) -> None:
    """With others, a training would end well and its record be where no rule looks for it."""
    module = 'module fed:\n    snakefile:\n        "workflow/Snakefile"\n'
    use = "\n\nuse rule * from fed as fed_*\n"
    file = clone.root / "module.smk"
    file.write_text(module + use)
    assert clone.plan("-s", "module.smk", *SMOKE, OVERHEAD).jobs == {"fed_table": 1}
    file.write_text(f'{module}    config:\n        {{"scale": "smoke"}}{use}')
    assert clone.plan("-s", "module.smk", OVERHEAD).jobs == {"fed_table": 1}
    file.write_text(f'{module}    prefix:\n        "fed"\n{use}')
    said = clone.fails("-n", "-s", "module.smk", *SMOKE, f"fed/{OVERHEAD}")
    assert "use it as a module without `prefix`" in said


def test_a_workflow_that_has_it_as_a_module_keeps_its_own_jobs(clone: Clone) -> None:
    """Their shell, PATH and Python, and what becomes of their outputs when they fail."""
    (clone.root / "parent.smk").write_text(
        'shell.prefix("set -euo pipefail; export MINE=1; ")\n\n'
        'rule mine:\n    output:\n        "mine.txt",\n'
        '    shell:\n        "echo $MINE $PATH $PYTHONPATH > {output}"\n\n'
        'rule broken:\n    output:\n        "half.txt",\n'
        '    shell:\n        "echo half > {output}; exit 1"\n\n'
        'module fed:\n    snakefile:\n        "workflow/Snakefile"\n'
        '    config:\n        {"scale": "smoke"}\n\n'
        "use rule * from fed as fed_*\n"
    )
    run = next(run for run in expand("emd", "smoke") if run.group == "mnist_sgd_large")
    record = clone.records / f"{run.id}.json"
    targets = ("mine.txt", "half.txt", f"results/own/runs/{record.name}")
    said = clone.fails("-s", "parent.smk", "--cores", "1", "--keep-going", *targets)
    own = f"1 {os.environ['PATH']} {clone.environment['PYTHONPATH']}\n"
    assert (clone.root / "mine.txt").read_text() == own, said
    assert not (clone.root / "half.txt").exists(), "Snakemake takes what it keeps for whole"
    assert list(clone.records.iterdir()) == [record], "each run has a job of its own"


def test_a_damaged_record_stops_the_parse(recorded: Clone, smoke_ids: Any) -> None:
    file = recorded.records / f"{smoke_ids()[0]}.json"
    file.write_text(file.read_text()[:-200])
    said = recorded.fails("-n", *SMOKE, "all")
    assert "WorkflowError" in said
    assert f"{file.name}: not a whole run record" in said
    assert "delete it to train the run again" in said


def test_parsing_imports_no_torch_and_prints_nothing_of_its_own(recorded: Clone) -> None:
    program = (
        "import sys\n"
        "from snakemake.cli import main\n"
        "try:\n"
        "    main(['--dag', '--config', 'scale=smoke', '--', 'all'])\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        "assert 'torch' not in sys.modules\n"
        "assert 'matplotlib' not in sys.modules\n"
    )
    done = recorded.run(sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("digraph")
