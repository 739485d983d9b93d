"""Plans: expansion, merging, what a typo says, and batches that do not depend on records."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedrepro.base.errors import FedreproError
from fedrepro.runs.plan import PlannedRun, batches, expand, load_plan, merge, scales, unique
from fedrepro.runs.plan_files import papers, plan_files
from fedrepro.runs.plan_schema import SCALES

TOY: dict[str, Any] = {
    "paper": "toy",
    "title": "A toy",
    "authors": "Nobody",
    "year": 2020,
    "url": "https://example.org",
    "defaults": {
        "dataset": {"name": "mnist"},
        "partition": {"scheme": "iid_plain", "clients": 4},
        "model": {"name": "liu1"},
        "algorithm": {"name": "fedavg"},
        "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
        "batch": 10,
        "rounds": 5,
    },
    "seeds": [0, 1],
    "runs": {
        "plain": {"title": "plain"},
        "adam": {
            "title": "Adam",
            "set": {"optimizer": {"name": "adam", "lr": 0.01}},
            "grid": {"rounds": {"start": 1, "stop": 5, "step": 2}, "partition.clients": [2, 3]},
            "seeds": [7],
        },
        "again": {"title": "plain by another name"},
    },
    "scales": {
        "paper": {},
        "lite": {
            "defaults": {"batch": 20},
            "runs": {
                "adam": {
                    "set": {"batch": 30, "optimizer": {"lr": 0.02}},
                    "grid": {"rounds": [1]},
                    "seeds": [8, 9],
                }
            },
        },
        "smoke": {"defaults": {"dataset": {"name": "synthetic"}}, "seeds": [3]},
    },
    "tables": {"table1": {"title": "T", "source": "p. 1", "runs": ["plain"]}},
}

Plans = Callable[..., Path]


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plans]:
    """Write the toy plan, changed, into a repository of its own."""
    (tmp_path / "config/papers").mkdir(parents=True)
    monkeypatch.setenv("FEDREPRO_ROOT", str(tmp_path))

    def write(change: Callable[[dict[str, Any]], object] = lambda _: None) -> Path:
        plan = copy.deepcopy(TOY)
        change(plan)
        file = tmp_path / "config/papers/toy.yaml"
        file.write_text(yaml.safe_dump(plan, sort_keys=False))
        return file

    yield write
    load_plan.cache_clear()
    expand.cache_clear()


def group(runs: tuple[PlannedRun, ...], name: str) -> list[PlannedRun]:
    return [run for run in runs if run.group == name]


def test_grid_and_seeds(plans: Plans) -> None:
    plans()
    runs = expand("toy", "paper")
    assert [run.seed for run in group(runs, "plain")] == [0, 1]
    adam = group(runs, "adam")
    points = [(run.coordinates["rounds"], run.coordinates["clients"]) for run in adam]
    assert points == [(1, 2), (1, 3), (3, 2), (3, 3), (5, 2), (5, 3)]
    assert [(run.spec.rounds, run.spec.partition.clients) for run in adam] == points
    assert {run.spec.seed for run in adam} == {7}


def _more(**more: Any) -> Callable[[dict[str, Any]], object]:
    return lambda plan: plan["runs"]["adam"].update(more=more)


def test_some_grid_points_may_have_more_seeds(plans: Plans) -> None:
    plans(_more(seeds=[8, 9], grid={"rounds": [3]}))
    more = [run for run in group(expand("toy", "paper"), "adam") if run.seed > 7]
    assert [(run.seed, *run.coordinates.values()) for run in more] == [
        (8, 3, 2), (8, 3, 3), (9, 3, 2), (9, 3, 3)
    ]  # fmt: skip
    assert {run.seed for run in group(expand("toy", "lite"), "adam")} == {8, 9}, "seeds of lite"
    assert {run.seed for run in group(expand("toy", "smoke"), "adam")} == {3}


def test_at_a_scale_with_another_grid_no_point_has_more_seeds(plans: Plans) -> None:
    def change(plan: dict[str, Any]) -> None:
        _more(seeds=[8, 9], grid={"rounds": [3]})(plan)
        del plan["scales"]["lite"]["runs"]["adam"]["seeds"]

    plans(change)
    assert {run.seed for run in group(expand("toy", "lite"), "adam")} == {7}


def test_a_scale_may_have_more_seeds_of_its_own(plans: Plans) -> None:
    plans(lambda plan: plan["scales"]["smoke"].update(runs={"plain": {"more": {"seeds": [4]}}}))
    assert [run.seed for run in group(expand("toy", "smoke"), "plain")] == [3, 4]
    assert [run.seed for run in group(expand("toy", "paper"), "plain")] == [0, 1]


def test_priority_is_plan_order_then_seed_by_seed(plans: Plans) -> None:
    plans(lambda plan: plan["runs"]["adam"].update(seeds=[7, 8]))
    runs = expand("toy", "paper")
    assert [run.group for run in runs] == ["plain"] * 2 + ["adam"] * 12 + ["again"] * 2
    assert [run.seed for run in group(runs, "adam")] == [7] * 6 + [8] * 6


def test_another_name_replaces_the_dictionary(plans: Plans) -> None:
    """Adam gets no momentum from the defaults' SGD."""
    plans()
    adam = group(expand("toy", "paper"), "adam")[0].spec.optimizer
    assert adam.model_dump(exclude_defaults=True) == {"name": "adam", "lr": 0.01}


def test_scales_override(plans: Plans) -> None:
    plans()
    lite = expand("toy", "lite")
    assert {run.spec.batch for run in group(lite, "plain")} == {20}
    adam = group(lite, "adam")
    assert {run.spec.batch for run in adam} == {30}
    assert {run.spec.optimizer.lr for run in adam} == {0.02}, "a scale's go before a group's"
    assert [(run.seed, run.spec.rounds) for run in adam] == [(8, 1), (8, 1), (9, 1), (9, 1)]
    smoke = expand("toy", "smoke")
    assert {run.spec.dataset.name for run in smoke} == {"synthetic"}
    assert {run.seed for run in smoke} == {3}, "a scale's seeds go before a group's"


def test_a_groups_seeds_at_a_scale_go_before_those_of_the_scale(plans: Plans) -> None:
    plans(lambda plan: plan["scales"]["lite"].update(seeds=[3]))
    lite = expand("toy", "lite")
    assert {run.seed for run in group(lite, "adam")} == {8, 9}
    assert {run.seed for run in group(lite, "plain")} == {3}


def test_a_scale_may_have_a_part_of_the_plan(plans: Plans) -> None:
    plans(lambda p: p["scales"].update(quick={"groups": ["again", "plain"], "artefacts": []}))
    assert {run.group for run in expand("toy", "quick")} == {"plain", "again"}
    plan = load_plan("toy")
    assert plan.made("tables", "lite") == ["table1"]
    assert plan.made("tables", "quick") == []
    assert plan.not_made("table1", "lite") == ""
    assert "table1 is not made at scale quick, which has none" in plan.not_made("table1", "quick")


def test_what_a_scale_has_no_runs_for_is_not_made() -> None:
    plan = load_plan("emd")
    assert not any(plan.has_runs(group, "paper") for group in plan.tables["longer"].runs)
    assert "longer" not in plan.made("tables", "paper")
    assert plan.not_made("longer", "paper") == (
        "emd: longer is not made at scale paper, which has no run for it; "
        "choose `--scale lite` (Snakemake: `--config scale=lite`)"
    )
    assert "longer" in plan.made("tables", "lite")
    planned = {run.group for run in expand("emd", "paper")}
    assert {group for group in plan.runs if plan.has_runs(group, "paper")} == planned


def test_a_comparison_of_one_reading_is_not_made(plans: Plans) -> None:
    def change(plan: dict[str, Any]) -> None:
        plan["tables"]["table1"].update(runs=["plain", "adam"], compared_with=["plain"])
        plan["scales"] = {"lite": {}, "smoke": {"groups": ["plain"]}, "quick": {"groups": ["adam"]}}

    plans(change)
    plan = load_plan("toy")
    assert [scale for scale in SCALES if plan.made("tables", scale)] == ["paper", "lite", "quick"]
    assert plan.not_made("table1", "smoke") == (
        "toy: table1 is not made at scale smoke, which has only runs to compare others with; "
        "choose `--scale lite` (Snakemake: `--config scale=lite`)"
    )


def test_a_scale_with_runs_is_advised(plans: Plans) -> None:
    none: dict[str, Any] = {"runs": {"adam": {"grid": {"rounds": []}}}}

    def change(plan: dict[str, Any]) -> None:
        plan["tables"]["table1"]["runs"] = ["adam"]
        plan["scales"] = {"paper": none, "lite": none, "smoke": {}}

    plans(change)
    assert "; choose `--scale smoke` (" in load_plan("toy").not_made("table1", "lite")


def test_an_axis_without_values_at_every_scale_is_to_be_filled(plans: Plans) -> None:
    def change(plan: dict[str, Any]) -> None:
        plan["tables"]["table1"]["runs"] = ["adam"]
        plan["runs"]["adam"]["grid"] = {"rounds": []}
        plan["scales"] = {}

    plans(change)
    text = load_plan("toy").not_made("table1", "paper")
    assert text.endswith("; give each axis of their grids a value")


def test_a_scale_may_have_a_precision_by_network(plans: Plans) -> None:
    def change(plan: dict[str, Any]) -> None:
        plan["scales"]["paper"] = {"precision": {"liu2": "tf32"}}
        plan["runs"] = {
            "plain": {"title": "the plan's network"},
            "other": {"title": "another", "set": {"model": {"name": "liu2"}}},
            "own": {"title": "own", "set": {"model": {"name": "liu2"}, "precision": "bf16"}},
            "float": {"title": "own", "set": {"model": {"name": "liu2"}, "precision": "float32"}},
        }
        del plan["scales"]["lite"]["runs"]

    plans(change)
    found = {run.group: run.spec.precision for run in expand("toy", "paper")}
    assert found == {"plain": "float32", "other": "tf32", "own": "bf16", "float": "float32"}
    found = {run.group: run.spec.precision for run in expand("toy", "lite")}
    assert found == {"plain": "float32", "other": "float32", "own": "bf16", "float": "float32"}


def test_equal_specs_are_one_run(plans: Plans) -> None:
    plans()
    runs = expand("toy", "paper")
    assert [run.id for run in group(runs, "plain")] == [run.id for run in group(runs, "again")]
    assert len(unique(runs)) == len(runs) - 2
    assert {run.group for run in unique(runs).values()} == {"plain", "adam"}, "first come first"


def test_merge() -> None:
    base = {"a": {"x": 1, "y": 2}, "b": {"name": "p", "k": 1}, "c": 3, "d": [1]}
    changes = {"a": {"y": 5, "z": 6}, "b": {"name": "q"}, "d": [2], "e": {"f": 1}}
    before = copy.deepcopy((base, changes))
    assert merge(base, changes) == {
        "a": {"x": 1, "y": 5, "z": 6},
        "b": {"name": "q"},
        "c": 3,
        "d": [2],
        "e": {"f": 1},
    }
    assert (base, changes) == before
    assert merge({"b": {"name": "p", "k": 1}}, {"b": {"name": "p", "l": 2}}) == {
        "b": {"name": "p", "k": 1, "l": 2}
    }
    assert merge({"b": {"scheme": "p", "k": 1}}, {"b": {"k": 2}}) == {"b": {"scheme": "p", "k": 2}}


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (lambda p: p.update(tablez={}), ["toy.yaml", "tablez", "did you mean 'tables'?"]),
        (lambda p: p["runs"]["plain"].update(gridd={}), ["runs.plain.gridd", "'grid'"]),
        (lambda p: p["defaults"].update(bach=3), ["toy.yaml: runs.plain", "bach", "'batch'"]),
        (
            lambda p: p["defaults"]["optimizer"].update(momentun=0),
            ["optimizer.momentun: ", "'momentum'"],
        ),
        (
            lambda p: p["defaults"]["optimizer"].update(lr="fast"),
            ["  optimizer.lr: Input should", "not 'fast'"],
        ),
        (
            lambda p: p["runs"]["adam"]["grid"].update({"optimizer.lr": [0.1, -0.5]}),
            [
                "toy.yaml: runs.adam (paper), at rounds: 1, ",
                ", optimizer.lr: -0.5:\n",
                "  optimizer.lr: Input should be greater than 0, not -0.5",
            ],
        ),
        (
            lambda p: p["runs"]["adam"]["grid"].update(rounds=3),
            ["  runs.adam.grid.rounds: Input should be a valid list"],
        ),
        (lambda p: p["runs"]["plain"].update(set={"round": 3}), ["round", "'rounds'"]),
        (lambda p: p["defaults"].update(rounds=0), ["rounds", "greater than or equal to 1"]),
        (
            lambda p: p["runs"]["plain"].update(set={"dataset": {"downsample": 3}}),
            ["toy.yaml: runs.plain (paper): dataset.downsample: ", "3x3 do not fill"],
        ),
        (
            lambda p: p["runs"]["plain"].update(
                set={"dataset": {"name": "kws_mfcc20", "transform": "tutorial24"}}
            ),
            ["toy.yaml: runs.plain (paper): dataset.transform: ", "examples of 20x11"],
        ),
        (
            lambda p: p["runs"]["plain"].update(set={"dataset": {"name": "own_000000000000"}}),
            ["toy.yaml: runs.plain (paper): the arrays of the data set own_000000000000"],
        ),
        (
            lambda p: p["defaults"]["algorithm"].update(name="fedavgg"),
            [
                "algorithm.name: unknown name 'fedavgg' (did you mean 'fedavg'? known: cadis, ",
                "put fedavgg right, or install the package that defines it",
            ],
        ),
        (
            lambda p: p["defaults"]["partition"].update(scheme=3),
            ["partition.scheme: unknown scheme '3' (known: balanced_percent, "],
        ),
        (lambda p: p["defaults"]["partition"].pop("scheme"), ["partition.scheme: Field required"]),
        (lambda p: p["runs"]["adam"]["grid"].update({"partition.client": [1]}), ["'clients'"]),
        (_more(seeds=[7, 8]), ["runs.adam (paper): more.seeds: all points have seed 7"]),
        (_more(seeds=[8], grid={"round": [1]}), ["more.grid: no axis 'round'", "'rounds'?"]),
        (_more(seeds=[8], grid={"rounds": [2]}), ["more.grid.rounds", "has no 2"]),
        (
            lambda p: p["runs"]["adam"]["grid"].update(rounds={"start": 5, "stop": 1}),
            ["runs.adam.grid.rounds", "no integer is from 5 to 1"],
        ),
        (lambda p: p.update(paper="tyo"), ["toy.yaml: paper: 'tyo'", "write `paper: toy`"]),
        (lambda p: p.update(seeds=[0, 1, 0]), ["toy.yaml", "seeds", "0 is there twice"]),
        (lambda p: p["scales"]["lite"].update(seeds=[4, 4]), ["lite.seeds", "4 is there twice"]),
        (lambda p: p.update(seeds=[True]), ["toy.yaml", "seeds.0", "valid integer, not True"]),
        (
            lambda p: p["runs"]["adam"]["grid"].update({"partition.clients": [1, 2, 1]}),
            ["runs.adam.grid.partition.clients", "1 is there twice"],
        ),
        (
            lambda p: p["tables"]["table1"].update(runs=["plainn"]),
            ["tables.table1.runs", "'plainn'", "did you mean 'plain'?", "adam, again"],
        ),
        (
            lambda p: p["scales"]["lite"]["runs"].update(amad={}),
            ["scales.lite.runs", "'amad'", "did you mean 'adam'?"],
        ),
        (
            lambda p: p["scales"]["paper"].update(precision={"liu4": "tf32"}),
            ["scales.paper.precision: unknown network 'liu4'", "'liu3'"],
        ),
        (
            lambda p: p["scales"]["paper"].update(precision={"liu3": "tf23"}),
            ["scales.paper.precision.liu3", "'tf32'"],
        ),
        (
            lambda p: p["scales"].update(light={}),
            ["scales: unknown key 'light'", "known: paper, lite, quick, smoke"],
        ),
        (
            lambda p: p["scales"]["lite"].update(groups=["plane"]),
            ["toy.yaml: scales.lite.groups: no group of runs 'plane'", "did you mean 'plain'?"],
        ),
        (
            lambda p: p["scales"]["lite"].update(artefacts=["tabel1"]),
            ["scales.lite.artefacts: no table or figure 'tabel1'", "did you mean 'table1'?"],
        ),
        (lambda p: p.pop("seeds"), ["seeds: Field required"]),
        (lambda p: p["scales"]["lite"].update(seeds=[]), ["scales.lite.seeds", "at least 1 item"]),
        (lambda p: p["runs"]["adam"].update(seeds=[]), ["runs.adam.seeds", "at least 1 item"]),
        (
            lambda p: p["scales"]["lite"]["runs"]["adam"].update(seeds=[]),
            ["scales.lite.runs.adam.seeds", "at least 1 item"],
        ),
        (
            lambda p: p["tables"]["table1"].update(part_of="table"),
            ["toy.yaml: tables.table1.part_of: no table 'table'", "did you mean 'table1'?"],
        ),
        (
            lambda p: p["tables"]["table1"].update(compared_with=["plane"]),
            ["table1.compared_with: 'plane' is not among its runs", "did you mean 'plain'?"],
        ),
        (
            lambda p: p["tables"]["table1"].update(compared_with=p["tables"]["table1"]["runs"]),
            ["toy.yaml: tables.table1.compared_with: these are all of its runs"],
        ),
        (
            lambda p: p.update(figures={"table1": p["tables"]["table1"]}),
            ["toy.yaml: figures.table1: a table is called so too; rename one of them"],
        ),
        (
            lambda p: p["runs"]["plain"].update(grid={"seed": [1, 2]}),
            ["toy.yaml: runs.plain.grid: seed: 'seed' is a column of all runs"],
        ),
        (
            lambda p: p["runs"]["plain"].update(grid={"dataset.name": ["mnist"], "model.name": []}),
            ["runs.plain.grid: model.name: 'name' is the end of another axis"],
        ),
        (
            lambda p: p["runs"]["plain"].update(set={"seed": 3}),
            ["toy.yaml: runs.plain (paper): seed: say it by `seeds`"],
        ),
        (
            lambda p: (
                p["runs"]["adam"].update(labels={"batch": "small"})
                or p["scales"]["lite"]["runs"]["adam"]["grid"].update({"batch": [1]})
            ),
            ["scales.lite.runs.adam.grid: batch: 'batch' is the end of another axis"],
        ),
        (
            lambda p: p["scales"]["lite"]["runs"]["adam"]["grid"].update({"algorithm.rounds": [1]}),
            ["scales.lite.runs.adam.grid: algorithm.rounds: 'rounds' is the end of another axis"],
        ),
    ],
)
def test_a_typo_names_the_key_and_the_nearest(
    plans: Plans, change: Callable[[dict[str, Any]], object], texts: list[str]
) -> None:
    plans(change)
    with pytest.raises(FedreproError) as error:
        expand("toy", "paper")
    for text in texts:
        assert text in str(error.value)


@pytest.mark.parametrize(
    ("scale", "text"),
    [("lite", r"toy\.yaml: scales: no scale 'lite'"), ("light", r"unknown scale 'light' .*'lite'")],
)
def test_a_scale_that_is_not_there_is_not_the_published_one(
    plans: Plans, scale: Any, text: str
) -> None:
    plans(lambda plan: plan["scales"].pop("lite"))
    with pytest.raises(FedreproError, match=text):
        expand("toy", scale)


def test_the_published_scale_needs_no_entry(plans: Plans) -> None:
    plans()
    runs = expand("toy", "paper")
    load_plan.cache_clear()
    expand.cache_clear()
    plans(lambda plan: plan["scales"].pop("paper"))
    assert expand("toy", "paper") == runs


def test_a_plan_may_have_some_scales_only(plans: Plans) -> None:
    plans(lambda plan: plan.update(scales={"lite": {"note": "x"}}))
    assert scales("toy") == ["paper", "lite"]
    load_plan.cache_clear()
    plans(lambda plan: plan.update(scales={}))
    assert scales("toy") == list(SCALES), "it is the same at all of them"


@pytest.mark.parametrize("name", ["2nd", "my toy", "my.toy", "-toy", "spiel\u00e9"])
def test_a_plan_has_a_name_that_snakemake_can_use(plans: Plans, name: str) -> None:
    file = plans()
    file.rename(file.with_name(f"{name}.yaml"))
    with pytest.raises(FedreproError) as error:
        plan_files()
    assert f"config/papers/{name}.yaml: '{name}' cannot be the name of a plan" in str(error.value)


def test_not_yaml(plans: Plans) -> None:
    plans().write_text("paper: [toy")
    with pytest.raises(FedreproError, match=r"toy\.yaml: not valid YAML"):
        load_plan("toy")


def test_unknown_paper(plans: Plans) -> None:
    plans()
    with pytest.raises(FedreproError, match=r"unknown paper 'tyo' \(did you mean 'toy'.*\)$"):
        load_plan("tyo")


def test_a_run_id_for_a_paper_leads_to_the_run(plans: Plans) -> None:
    plans()
    with pytest.raises(FedreproError, match=r"unknown paper '0b77a2'.*: `fedrepro show 0b77a2`$"):
        load_plan("0b77a2")


def plan_of(runs: Iterator[tuple[str, list[PlannedRun]]]) -> dict[str, list[str]]:
    return {name: [run.id for run in members] for name, members in runs}


def test_batches_hold_every_run_once(plans: Plans) -> None:
    plans()
    runs = list(unique(expand("toy", "paper")).values())
    for size in (1, 2, 4, 100):
        made = plan_of(batches(runs, size))
        assert all(0 < len(members) <= size for members in made.values())
        assert sorted(i for members in made.values() for i in members) == sorted(
            run.id for run in runs
        )
    assert len(plan_of(batches(runs, 1))) == len(runs)


def test_batches_fuse_like_with_like(plans: Plans) -> None:
    unlike: dict[str, Any] = {
        "model": {"name": "mnist_cnn"},
        "dataset": {"name": "cifar10"},
        "optimizer": {"name": "adam", "lr": 0.1},
        "batch": 20,
    }
    others = {key: {"title": key, "set": {key: value}} for key, value in unlike.items()}
    plans(lambda plan: plan.update(runs={"plain": {"title": "plain"}} | others, scales={}))
    made = plan_of(batches(expand("toy", "paper"), 100))
    assert [len(members) for members in made.values()] == [2] * 5


def test_batches_are_of_one_group_at_the_published_scale_only(plans: Plans) -> None:
    """A figure asks for groups, and a run takes hours there."""
    groups = {
        name: {"title": name, "set": {"rounds": 3 + i}} for i, name in enumerate(["plain", "other"])
    }
    plans(lambda plan: plan.update(runs=groups, scales={}))
    runs = expand("toy", "paper")
    made = dict(batches(runs, 100))
    assert [{run.group for run in members} for members in made.values()] == [{"plain"}, {"other"}]
    [fused] = dict(batches([replace(run, scale="lite") for run in runs], 100)).values()
    assert [run.id for run in fused] == [run.id for run in runs]


def test_batches_have_names_that_snakemake_can_use(plans: Plans) -> None:
    runs = {"FedAvg/{lr} (ü)": {"title": "FedAvg"}}
    plans(lambda plan: plan.update(runs=runs, scales={}, tables={}))
    [(name, _)] = batches(expand("toy", "paper"), 100)
    assert name == "toy_mnist_liu1_sgd10_FedAvg--lr---ü-_0"


def test_batches_keep_their_names_when_the_plan_grows_at_its_end(plans: Plans) -> None:
    plans()
    before = plan_of(batches(list(unique(expand("toy", "paper")).values()), 4))
    load_plan.cache_clear()
    expand.cache_clear()
    plans(lambda plan: plan["runs"].update(more={"title": "more", "set": {"batch": 11}}))
    after = plan_of(batches(list(unique(expand("toy", "paper")).values()), 4))
    assert before.items() <= after.items()


@pytest.mark.parametrize("paper", papers())
@pytest.mark.parametrize("scale", SCALES)
def test_real_plans(paper: str, scale: str) -> None:
    runs = expand(paper, scale)  # type: ignore[arg-type]
    assert runs
    plan = load_plan(paper)
    assert plan.paper == paper
    entry = plan.at(scale)  # type: ignore[arg-type]
    left_out = {name for name, override in entry.runs.items() if [] in override.grid.values()}
    groups = plan.runs if entry.groups is None else entry.groups
    assert {run.group for run in runs} == set(groups) - left_out
    assert set(plan.scales) == set(SCALES)
    if scale == "smoke":
        made = {"synthetic", "synthetic_rgb", "synthetic_pills"}
        assert {run.spec.dataset.name for run in runs} <= made


@pytest.mark.parametrize("paper", papers())
def test_only_published_cifar_networks_leave_float32(paper: str) -> None:
    """A CPU trains the other scales, and the records on MNIST are in float32."""
    fast = {"cifar_tutorial", "resnet9", "fixup_resnet20", "fedcd_cnn"}
    for run in expand(paper, "paper"):
        assert (run.spec.precision == "tf32") == (run.spec.model.name in fast), run
    others = [run for scale in SCALES[1:] for run in expand(paper, scale)]  # type: ignore[arg-type]
    assert {run.spec.precision for run in others} == {"float32"}


def test_a_paper_is_a_name_and_no_path() -> None:
    with pytest.raises(FedreproError, match=r"unknown paper '\.\./papers/emd'"):
        load_plan("../papers/emd")


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan["defaults"].update(model="liu1"),
        lambda plan: plan["runs"]["plain"].update(set={"model": "liu1"}),
    ],
)
def test_a_network_given_by_its_name_alone_is_shown_how_to_be_written(
    plans: Plans, change: Any
) -> None:
    plans(change)
    with pytest.raises(FedreproError, match=r"model: write `model: \{name: liu1\}`"):
        expand("toy", "paper")


def test_a_plan_has_runs(plans: Plans) -> None:
    plans(lambda plan: plan.update(runs={}))
    with pytest.raises(FedreproError, match="runs: Dictionary should have at least 1 item"):
        load_plan("toy")


def test_a_figure_that_is_a_table_is_said_to_be_one() -> None:
    with pytest.raises(
        FedreproError, match="has no figure 'table1': it is a table, which `fedrepro table "
    ):
        load_plan("cadis").artefact("table1", "figure")
