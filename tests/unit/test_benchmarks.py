"""The benchmark of the engine: its loops end in time, its lines hold what README.md reads."""

import functools
import itertools
import json
import sys
from types import SimpleNamespace
from unittest import mock

import benchmark_scripts
import pytest
import torch

from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.runs.plan import expand


@pytest.fixture(scope="module")
def bench():
    with benchmark_scripts.loaded("engine") as module:
        yield module


@pytest.fixture
def tiny(bench):
    return bench.Workload("liu1", bench.MNIST, 10, 2, 3, 25, (35, 2))


def parts(bench, workload, *, gpu=False, rounding="float32"):
    specs = [
        bench.spec_of(workload, gpu=gpu, rounding=rounding, seed=seed)
        for seed in range(workload.runs)
    ]
    return specs, bench.made_up(workload, gpu=gpu)


@pytest.mark.parametrize(
    ("name", "paper", "group"),
    [
        ("cnn_b8", "cadis", "mnist_mc_fedavg"),
        ("fedcd_b128", "fedcd", "hier_fedavg"),
        ("liu3_b128", "selective", "m3_federated_as_written"),
        ("tutorial_b100", "emd", "cifar10_one_class_large"),
    ],
)
def test_workloads_are_rounds_of_the_plans(bench, name, paper, group):
    """But for the clients' examples and the step size, which speed does not depend on."""
    planned = next(run.spec for run in expand(paper, "paper") if run.group == group)
    ours = bench.spec_of(bench.WORKLOADS[name], gpu=True, rounding=planned.precision, seed=0)
    for key in ("dataset", "model", "batch", "last_batch", "local_epochs"):
        assert getattr(ours, key) == getattr(planned, key)
    steps = {"lr": 1.0, "lr_decay": 1.0, "lr_milestones": ()}
    assert ours.optimizer.model_copy(update=steps) == planned.optimizer.model_copy(update=steps)
    assert bench.WORKLOADS[name].evaluates == (planned.evaluate_every == 1)


def test_workloads_have_the_lanes_of_the_targets(bench):
    lanes = {name: w.runs * w.clients for name, w in bench.WORKLOADS.items()}
    assert lanes == {
        "mlp_b10": 45,
        "cnn_b100": 20,
        "cnn_b10": 50,
        "cnn_b8": 80,
        "resnet9_b8": 50,
        "fixup_b256": 6,
        "fedcd_b128": 30,
        "liu3_b128": 27,
        "tutorial_b100": 40,
    }


@pytest.mark.parametrize("loop", ["in_memory", "with_loader"])
@pytest.mark.parametrize("model", ["liu1", "resnet9"])
def test_a_plain_loop_ends_in_time_and_counts_what_it_trained_on(bench, monkeypatch, loop, model):
    """Every look at the clock is a second: 25 examples are steps of 10, 10 and 5."""
    monkeypatch.setattr(bench.models, "build", functools.partial(bench.models.build, width=0.1))
    shape = bench.MNIST if model == "liu1" else bench.CIFAR
    specs, dataset = parts(bench, bench.Workload(model, shape, 10, 1, 3, 25, (35, 2)))
    plain = bench.Plain(specs[0], dataset, torch.device("cpu"))
    ticks = itertools.count()
    monkeypatch.setattr(bench, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    assert getattr(plain, loop)(0.0) == 10
    assert getattr(plain, loop)(3.0) == 25
    assert getattr(plain, loop)(5.0) == 45
    assert getattr(plain, loop)(12.0) == 100


def test_a_round_starts_from_the_initial_weights_and_evaluates_the_mean(bench, tiny):
    specs, dataset = parts(bench, tiny, gpu=True)
    asked = []

    class Watched(LoopBackend):
        def submit(self, ticket, ask):
            asked.append((ticket, ask.request))
            super().submit(ticket, ask)

    engine = bench.Engine(specs, dataset, Watched(), evaluates=True)
    before = [weights.clone() for weights in engine.weights]
    assert engine.train(0.0) == 2 * 3 * 35 * 2  # runs, clients, examples, epochs
    kinds = [(ticket, type(request).__name__) for ticket, request in asked]
    assert kinds == [(0, "Train"), (1, "Train"), (0, "Predict"), (1, "Predict")]
    assert all(
        torch.equal(lane.weights, start)
        for start, (_, request) in zip(before, asked[:2], strict=True)
        for lane in request.lanes
    )
    assert not torch.equal(asked[2][1].models[0], before[0])
    engine.evaluates = False
    engine.round()
    assert all(torch.equal(lane.weights, before[0]) for lane in asked[4][1].lanes)
    assert asked[4][1].round == 1
    assert len(asked) == 6


def test_plain_loops_in_processes_train_at_once_until_they_are_told_to_end(bench, tiny):
    specs, _ = parts(bench, tiny)
    several = bench.PlainProcesses(tiny, specs[0], 2)
    assert several.in_memory(0.0) == 2 * 10, "a step of each"
    assert several.in_memory(0.2) > 2 * 10
    several.close()
    assert [process.returncode for process in several.processes] == [0, 0]


def run(bench, tiny, monkeypatch, capsys, *options):
    """Measure the tiny workload; the plain loop trains in this process, not in others."""
    specs, dataset = parts(bench, tiny)
    processes = mock.create_autospec(bench.PlainProcesses)
    plain = bench.Plain(specs[0], dataset, torch.device("cpu"))
    processes.return_value.in_memory.side_effect = plain.in_memory
    monkeypatch.setattr(bench, "PlainProcesses", processes)
    monkeypatch.setattr(bench, "WORKLOADS", {"tiny": tiny})
    monkeypatch.setattr(bench, "ceiling", lambda *_: 1e9)
    monkeypatch.setattr(sys, "argv", ["engine.py", "--seconds", "0.05", *options])
    bench.main()
    return capsys.readouterr()


def test_a_line_a_pair_and_a_summary(bench, tiny, monkeypatch, capsys):
    out, error = run(bench, tiny, monkeypatch, capsys, "--pairs", "2", "--backend", "loop")
    *pairs, summary = [json.loads(line) for line in out.splitlines()]
    bench.PlainProcesses.assert_called_once_with(tiny, parts(bench, tiny)[0][0], 1)
    bench.PlainProcesses.return_value.close.assert_called_once_with()
    assert [pair["pair"] for pair in pairs] == [0, 1]
    for pair in pairs:
        assert pair.keys() == {
            *("workload", "pair", "backend", "device", "precision", "compile", "deterministic"),
            *("workers", "lanes"),
            *("evaluates", "samples_per_second", "ratio", "ratio_dataloader", "ratio_processes"),
            *("engine_gflops", "peak_memory_mib", "ceiling_gflops", "share_of_ceiling"),
        }
        assert pair["lanes"] == 6
        assert not pair["evaluates"]
        speeds = pair["samples_per_second"]
        for ratio, plain in (
            ("ratio", "plain"),
            ("ratio_dataloader", "dataloader"),
            ("ratio_processes", "plain_processes"),
        ):
            lowest = (speeds["engine"] - 0.5) / (speeds[plain] + 0.5)  # printed as whole numbers
            highest = (speeds["engine"] + 0.5) / (speeds[plain] - 0.5)
            assert lowest - 0.005 <= pair[ratio] <= highest + 0.005
        assert pair["engine_gflops"] == pytest.approx(95_880 * speeds["engine"] / 1e9, abs=0.1)
    assert summary["pairs"] == 2
    assert summary["ratio_lowest"] <= summary["ratio_median"] <= summary["ratio_highest"]
    assert error.splitlines()[:2] == [
        "tiny: the engine's first round",
        "tiny: pair 1 of 2: plain loops",
    ]


def test_a_precision_that_the_device_lacks_is_one_line(bench, tiny, monkeypatch, capsys):
    with pytest.raises(SystemExit, match=r"engine\.py: precision: tf32 exists on NVIDIA GPUs only"):
        run(bench, tiny, monkeypatch, capsys, "--precision", "tf32", "--backend", "loop")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("rounding", ["float32", "tf32"])
def test_on_a_gpu_a_round_is_evaluated_and_held_against_tf32(
    bench, tiny, monkeypatch, capsys, rounding
):
    options = ("--pairs", "1", "--device", "cuda", "--precision", rounding)
    out, _ = run(bench, tiny, monkeypatch, capsys, *options)
    pair, _ = [json.loads(line) for line in out.splitlines()]
    assert pair["evaluates"]
    assert {"ceiling_tf32_gflops", "share_of_tf32_ceiling"} <= pair.keys()
    assert ("plain_tf32" in pair["samples_per_second"]) == (rounding == "tf32")
