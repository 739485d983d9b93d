from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_up import content
from seeds import write_some
from selective_records import World

from fedrepro.base.errors import FedreproError
from fedrepro.base.paths import root
from fedrepro.cli import main
from fedrepro.report.trace import find_cell, why
from fedrepro.runs import records
from fedrepro.runs.plan import PlannedRun, expand, load_plan, training_command, unique
from fedrepro.runs.records import Origin
from fedrepro.runs.status import describe

SWEEP = [run for run in unique(expand("emd", "smoke")).values() if run.group.endswith("_sweep")]
AT_036 = [run for run in SWEEP if run.coordinates == {"emd": 0.36} and "mnist" in run.group]


@pytest.fixture(autouse=True)
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_record: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for run in SWEEP:
        accuracy = 0.5 + 0.1 * run.seed
        metrics = {"evaluated_rounds": [1, 2, 3], "accuracy": [0.1, 0.2, accuracy]}
        write_record(run, records.FOLDER, metrics=metrics, final={"accuracy": accuracy})


def test_all_cells() -> None:
    title, *lines = why("emd", "table2", None, "smoke").splitlines()
    assert not any("published nan" in line for line in lines)
    assert "emd table2" in title
    assert "scale: smoke" in title
    named = {run_id for line in lines for run_id in line.rpartition("runs ")[2].split()}
    assert named == {run.id for run in SWEEP}


def test_a_cell_of_many_runs_is_a_line(write_record: Any) -> None:
    planned = unique(expand("cadis", "lite")).values()
    runs = [run for run in planned if run.group == "mnist_mc_cadis"]
    for run in runs:
        write_record(run, records.FOLDER)
    listed = why("cadis", "table1_mnist", None, "lite")
    (line,) = (line for line in listed.splitlines() if line.startswith("MNIST 10/100/CADIS "))
    assert line.endswith(f"runs {' '.join(run.id for run in runs[:3])} and {len(runs) - 3} more")
    cell = why("cadis", "table1_mnist", "MNIST 10/100/CADIS", "lite")
    assert all(f"run {run.id}, seed {run.seed}" in cell for run in runs)
    assert f"n = {len(runs)}, seeds " in cell
    assert "seeds" not in listed


def test_one_cell_leads_to_its_runs() -> None:
    cell = next(
        line.split("  ")[0]
        for line in why("emd", "table2", None, "smoke").splitlines()
        if "/0.36 " in line
    )
    text = why("emd", "table2", cell, "smoke")
    for run in AT_036:
        assert f"run {run.id}, seed {run.seed}" in text
        assert f"record    results/runs/{run.id}.json" in text
        assert f"  verify    fedrepro verify {run.id}\n  again     rm" in text
        removed = f"rm -f results/runs/{run.id}.json .checkpoints/{run.id}.pt"
        assert f"{removed} && fedrepro train {run.id} --backend loop" in text
    for run in SWEEP:
        assert (run.id in text) == (run in AT_036)
    for part in (
        "); published 98.60 %",
        "/papers/emd/measurements.py:",
        f"cells: {load_plan('emd').tables['table2'].cells}\n",
        "emd mnist_sweep emd=0.36 seed=0",
        '"emd":0.36',
        "commit 0123abc, with uncommitted changes",
        "synthetic, made up, sha256 01ba",
        "made up, 1 thread(s), backend loop",
        "1 s, process started 2000-01-01",
        "partition.emd_shift 1",
    ):
        assert part in text
    number = r"\d+\.\d\d"
    spread = rf"sd {number} points, n = \d+, seeds {number} %(, {number} %)+"
    assert re.search(rf"\nours {number} % \({spread}\); published", text)


def test_a_point_of_a_figure_leads_to_the_table_that_prints_it() -> None:
    text = why("emd", "fig5a", "MNIST/0.36", "smoke")
    assert "published nan" not in text
    assert "@1.08)" not in text, "of other runs with the same mean"
    printed = "published in Table 2, MNIST, mean, x = 0.36: 98.60 %, tolerance ± "
    assert printed in text
    assert "verdict: not decidable (T2-mean-mnist@0.36)" in text


def test_what_is_recorded_is_traced_and_the_rest_is_named() -> None:
    for run in AT_036:
        records.path_of(run.id).unlink()
    listed = r"\nLeft out, as they have no record:\n  \d of 8 runs of\n    MNIST, [^\n]*$"
    assert re.search(listed, why("emd", "table2", None, "smoke"))
    absent = r"Left out, as they have no record: \d of 8 runs of MNIST, .*\.$"
    with pytest.raises(FedreproError, match=r"no cell 'MNIST/0\.36'.*" + absent):
        why("emd", "table2", "MNIST/0.36", "smoke")
    assert "run " in why("emd", "table2", "MNIST/0", "smoke")


def test_numbers_may_be_written_in_any_way() -> None:
    lines = why("emd", "table2", None, "smoke").splitlines()
    series = next(line for line in lines if "/0.36 " in line).partition("/0.36 ")[0]
    assert why("emd", "table2", f"{series}/0.360", "smoke") == why(
        "emd", "table2", f"{series}/.36", "smoke"
    )


@pytest.mark.parametrize(
    ("paper", "artefact", "cell", "texts"),
    [
        ("emdd", "table2", None, ["unknown paper 'emdd'", "did you mean 'emd'?"]),
        ("emd", "tabel2", None, ["claim 'tabel2'", "did you mean 'table2'?"]),
        ("emd", "ZA2", None, ["did you mean 'ZA2-mnist' or 'ZA2-cifar10' or 'ZA2-kws' or"]),
        ("emd", "table2", "MNIST/0.37", ["no cell 'MNIST/0.37'", "/0.36'?", "lists all"]),
        ("emd", "table2", "nonsense", ["no cell 'nonsense'"]),
        ("emd", "tabel2", "MNIST/0", ["claim 'tabel2'", "did you mean 'table2'?"]),
        ("emd", "ZA2-mnist", "MNIST/0", ["ZA2-mnist is a claim", "leave out 'MNIST/0'"]),
        ("emd", "T2-mean-mnist@0", "0", ["is a published number", "leave out '0'"]),
        ("emd", "T2-mean-mnist@0.37", None, ["no table, figure, number or claim", "@0.3"]),
        ("emd", "table3", None, ["no record of", "fedrepro train --pending --paper emd"]),
    ],
)
def test_unknown_names(paper: str, artefact: str, cell: str | None, texts: list[str]) -> None:
    with pytest.raises(FedreproError) as error:
        why(paper, artefact, cell, "smoke")
    for text in texts:
        assert text in str(error.value)


def test_outside_the_clone_the_way_back_is_told() -> None:
    elsewhere = re.escape(f"; or call this in {root()}, where that run is recorded")
    with pytest.raises(FedreproError, match=f"fedrepro train --pending .*{elsewhere}$"):
        why("selective", "table2", None, "lite")


def test_what_is_not_made_at_the_scale_is_not_to_be_trained_for() -> None:
    with pytest.raises(FedreproError, match="open_choices is not made at scale quick"):
        why("emd", "open_choices", None, "quick")


def test_only_what_runs_give_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, undefined = "federated, published/0", "MNIST 90 %/FedFA, speed-up"
    drawn_of = load_plan("selective").figures["fig3"].runs
    write_some(records.FOLDER, "smoke", World(), lambda run: run.group in drawn_of)
    lines = why("selective", "fig3", None, "smoke").splitlines()
    assert any(re.fullmatch(rf"{drawn} +37\.80 %; no run", line) for line in lines)
    assert any(re.match(r"federated, as run/\S+ +ours .*; runs \w", line) for line in lines)
    assert "\n37.80 %\n" in why("selective", "fig3", drawn, "smoke")
    monkeypatch.chdir(root())
    lines = why("cadis", "table2", None, "lite").splitlines()
    assert any(re.match(rf"{undefined} +ours undefined \(n = ", line) for line in lines)


def test_a_list_of_nothing_says_where_there_is_something() -> None:
    with pytest.raises(FedreproError, match=r"not made at scale lite, .*; choose `--scale paper`"):
        why("precision", None, None, "lite")


def test_without_a_name_all_tables_and_figures_are_listed() -> None:
    title, *lines, cells, claims = why("emd", None, None, "smoke").splitlines()
    assert title == "emd, scale smoke: tables and figures"
    assert lines[0].split(maxsplit=1) == [
        "table1",
        "Test accuracy lost on non-IID data against SGD (Table 1)",
    ]
    assert "`fedrepro why emd NAME --scale smoke`" in cells
    assert "`fedrepro check emd --verbose`" in claims


def test_a_cell_is_listed_with_the_verdict_on_its_own_number(write_record: Any) -> None:
    (run,) = (run for run in expand("cadis", "paper") if run.group == "mnist_mc_singleset")
    metrics = {"evaluated_rounds": [1, 2], "accuracy": [0.5, 0.9914]}
    write_record(run, records.FOLDER, metrics=metrics, final={"accuracy": 0.9914})
    listed = why("cadis", "table1", None, "paper").splitlines()
    for clients in (10, 20, 30, 40, 50):  # one run stands beside five published values
        (line,) = (line for line in listed if line.startswith(f"MNIST {clients}/100/SingleSet"))
        assert line.count("(T1-") == 1
        assert f"; reproduced (T1-MNIST-{clients}-100-SingleSet); runs {run.id}" in line


def test_a_table_without_cells_has_none_to_name() -> None:
    """Such as the comparison of a plan with a single group of runs."""
    with pytest.raises(FedreproError, match="comparison has no cells"):
        find_cell("iid/best round", [], "my-plan comparison")


def test_a_cell_whose_published_value_is_no_target_says_so(write_record: Any) -> None:
    runs = [run for run in expand("emd", "paper") if run.group == "mnist_one_class_large"]
    for run in runs:
        write_record(run, records.FOLDER)
    listed = why("emd", "table3", None, "paper")
    (cell,) = re.findall(
        r"^(.*/MNIST) ours .*; no target \(T3-one_class_large-mnist\);", listed, re.M
    )
    told = (
        "published in Table 3, row 4, MNIST: 92.17 %, tolerance ± 1.80 points; verdict: no target"
    )
    assert told in why("emd", "table3", cell, "paper")


def test_what_is_left_out_is_listed_by_how_many_runs(write_record: Any) -> None:
    runs = [run for run in expand("emd", "paper") if run.group == "mnist_iid_large"]
    write_record(runs[0], records.FOLDER)
    lines = why("emd", "table3", None, "paper").splitlines()
    title = load_plan("emd").runs["mnist_iid_large"].title
    assert lines[lines.index(f"  {len(runs) - 1} of {len(runs)} runs on mnist of") + 1] == (
        f"    {title}"
    )


def test_a_run_that_needs_a_gpu_is_to_be_trained_on_one(write_record: Any) -> None:
    lacking = why("cadis", "NA1-cifar10", None, "paper")
    (run,) = (run for run in expand("cadis", "paper") if run.group == "cifar10_mc_cadis")
    assert run.needs_gpu
    assert f"{describe(run):<60} pending (needs a GPU)\n" in lacking
    assert lacking.endswith(f"to train them: fedrepro train {run.id} --device cuda")
    cpu = next(run for run in expand("cadis", "paper") if not run.needs_gpu)
    assert training_command([cpu]) == cpu.command == f"fedrepro train {cpu.id}"
    assert training_command([cpu, run]) == f"fedrepro train {cpu.id} {run.id} --device cuda"


def test_a_published_number_leads_to_its_runs() -> None:
    text = why("emd", "T2-mean-mnist@0.36", None, "smoke")
    assert "  published in  Table 2, MNIST, mean, x = 0.36\n  published     98.60 %\n" in text
    assert "  tolerance     ± " in text
    assert '  cell          fedrepro why emd table2 "MNIST/0.36" --scale smoke\n' in text
    assert "  because       numbers are judged at the published scale\n" in text
    assert text.count("emd mnist_sweep emd=") == len(AT_036)
    assert all(f"{run.id}  emd mnist_sweep emd=0.36 seed={run.seed}" in text for run in AT_036)


def test_a_number_without_records_says_how_many_runs_are_missing() -> None:
    text = why("selective", "T2-3", None, "paper")
    assert "  verdict       not run\n" in text
    which = "`fedrepro why selective table2 --scale paper` says which"
    assert f"  because       12 of the 12 runs of table2 have no record: {which}" in text
    assert "  published     0.9954\n" in text, "without a cell its unit is not known"


def test_a_claim_that_runs_cannot_decide_names_the_scale_whose_can() -> None:
    because = "our lite runs cannot decide this claim; --scale paper can"
    assert f"  because       {because}\n" in f"{why('cadis', 'NC3', None, 'lite')}\n"


def test_a_claim_leads_to_its_rule_and_to_the_runs_that_it_lacks(write_record: Any) -> None:
    planned = unique(expand("cadis", "lite")).values()
    groups = {"mnist_uc_fedavg": 0.6, "mnist_uc_cadis": 0.8}
    runs = [run for run in planned if run.group in groups]

    def trained(run: PlannedRun) -> None:
        accuracy = groups[run.group] + 0.001 * run.seed
        metrics = {"evaluated_rounds": [50], "accuracy": [accuracy]}
        write_record(run, records.FOLDER, metrics=metrics, final={"accuracy": accuracy})

    of = [run for run in runs if run.group == runs[0].group]
    for run in runs[len(of) :]:
        trained(run)
    lacking = why("cadis", "NC1-uc", None, "lite")
    assert lacking.startswith("cadis NC1-uc, scale lite: On MNIST UC, CADIS is above FedAvg.\n")
    assert "  rule          leads (dataset: mnist, " in lacking
    title = load_plan("cadis").runs[of[0].group].title
    because = f"0 of {len(of)} runs of {title} are recorded; others may be missing, too"
    assert f"  verdict       not run\n  because       {because}\n" in lacking
    assert "  seeds " not in lacking
    assert re.search(rf"^{runs[0].id}  cadis {runs[0].group} seed=0 +pending \(", lacking, re.M)
    assert lacking.endswith(f"to train them: fedrepro train {' '.join(run.id for run in of)}")
    trained(runs[0])
    with_one = why("cadis", "NC1-uc", None, "lite")
    assert f"one seed; {len(runs) - len(of) + 1} of {len(runs)} runs are recorded" in with_one
    for run in of[1:]:
        trained(run)
    decided = why("cadis", "NC1-uc", None, "lite")
    assert "  verdict       reproduced\n" in decided
    assert f"  seeds         {len(of)}\n  margins       CADIS - FedAvg > 0: +20 points\n" in decided
    assert decided.endswith("\n".join(f"{run.id}  {describe(run)}" for run in runs))


@pytest.mark.parametrize("backend", ["graphs", "stacked"])
def test_a_run_is_trained_again_where_and_how_it_was(
    write_record: Callable[..., Path], backend: str
) -> None:
    """With what replaced the backend, where that is no more."""
    run = AT_036[0]
    provenance = content(run)["provenance"]
    how = {"backend": backend, "device": "some GPU", "device_type": "cuda"}
    earlier = {key: provenance[key] for key in Origin.model_fields if key in provenance}
    earlier |= {"rounds": 2, "seconds": 1.5}
    parts = {"earlier": [earlier], "imported": [earlier | {"rounds": 1}]}
    write_record(run, records.FOLDER, provenance=provenance | how | parts)
    text = why("emd", "table2", f"MNIST/{run.coordinates['emd']}", "smoke")
    assert f"fedrepro train {run.id} --device cuda --backend graphs\n" in f"{text}\n"
    assert f"fedrepro verify {run.id}" not in text, "rounding differs each time"
    part = "2 rounds in 1.5 s, made up, backend loop, commit 0123abc, with uncommitted changes"
    assert f"earlier   {part}, torch 2\n" in text
    assert f"imported  {part.replace('2 rounds', '1 rounds')}, torch 2\n" in text
    assert text.count("earlier  ") == 1


def test_how_a_run_was_trained_is_told(write_record: Callable[..., Path]) -> None:
    run = AT_036[0]
    how = {"compile": True, "deterministic": True, "arithmetic": "AVX2", "dirty": False}
    provenance = content(run)["provenance"] | how | {"dataset_note": "made smaller"}
    write_record(run, records.FOLDER, provenance=provenance)
    text = why("emd", "table2", f"MNIST/{run.coordinates['emd']}", "smoke")
    assert f"fedrepro train {run.id} --backend loop --compile on --deterministic\n" in f"{text}\n"
    assert "commit 0123abc; fedrepro 0, torch 2, numpy 2, Python 3\n" in text
    assert "backend loop; AVX2; made up\n" in text
    assert "; made smaller\n" in text


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "emd", "table2", "--scale", "smoke"]) == 0
    assert AT_036[0].id in capsys.readouterr().out
    assert main(["why", "emd", "table2", "no/cell", "--scale", "smoke"]) == 1
    assert capsys.readouterr().err.startswith("fedrepro: emd table2 (smoke) has no cell 'no/cell'")
