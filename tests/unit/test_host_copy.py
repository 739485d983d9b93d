"""Snapshots in host memory, checkpoints of any device, and a device that is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pretend import GPU, Pretended, PretendedBackend, PretendedGpu, fetched, pretended_gpu
from small_runs import Interrupt, drive_runs, make_spec, stop_in_round_2

import fedrepro
from fedrepro.base.errors import DeviceFailed
from fedrepro.fl.algorithms import fedavg
from fedrepro.fl.engine import checkpoint
from fedrepro.fl.engine.backends import backend
from fedrepro.fl.engine.device import described, has_failed
from fedrepro.fl.engine.host_copy import HostCopier, Transfer, on_device
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.fl.spec import run_id

torch.set_num_threads(1)

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
LOST = (
    "CUDA error: unspecified launch failure\n"
    "CUDA kernel errors might be asynchronously reported at some other API call"
)


def lose(*_):
    raise torch.AcceleratorError(LOST)


def test_the_pretended_gpu_refuses_what_a_gpu_refuses():
    with PretendedGpu() as gpu:
        weights = torch.arange(4.0).to(GPU)
        assert isinstance(weights, Pretended)
        assert weights.device == GPU
        with pytest.raises(AssertionError, match=r"aten\.add\.Tensor mixes tensors"):
            weights + torch.ones(4)
        with pytest.raises(AssertionError, match="mixes"):
            weights[torch.tensor([0, 1])]
        with pytest.raises(RuntimeError, match="numpy"):
            weights.numpy()
        assert gpu.waits == 0
        changed = weights.clone()
        changed[2:] += torch.tensor(1.0)  # of no dimension
        assert changed.tolist() == [0, 1, 3, 4]
        assert (gpu.transfers, gpu.reads) == ([4], 0)
        assert float(weights.sum()) == 6
        assert bool((changed >= weights).all())
        assert weights.new_zeros(2).device == torch.zeros(2, device="cuda").device == GPU
        torch.zeros(4).copy_(weights)
        assert (gpu.transfers, gpu.reads) == ([4, 4], 2)
    with pytest.raises(AssertionError, match="outside of PretendedGpu"):
        weights + 1


def test_on_the_cpu_tensors_are_shared_and_lists_are_not():
    weights = torch.ones(3)
    content = {"state": {"weights": weights, "none": None}, "metrics": {"loss": [1.0]}}
    copy = HostCopier().copy(content)
    content["metrics"]["loss"].append(2.0)
    assert copy.complete
    assert copy.arrives()
    assert copy.content["state"]["weights"] is weights
    assert copy.content["metrics"] == {"loss": [1.0]}


def test_a_tensor_is_fetched_once_and_again_only_where_another_has_taken_its_place(monkeypatch):
    fetches = []

    def counting(self, tensors):
        fetches.append([one.numel() for one in tensors])
        return fetched(self, tensors)

    monkeypatch.setattr(HostCopier, "_fetch", counting)
    with PretendedGpu():
        copier, kept = HostCopier(), torch.ones(3, device=GPU)
        pairs = torch.zeros(2, dtype=torch.int64)
        state = {"kept": [kept, kept], "weights": torch.zeros(2, device=GPU), "pairs": pairs}
        first = copier.copy(state).content
        again = copier.copy(state).content
        state["weights"] = torch.ones(4, device=GPU)
        later = copier.copy(state).content
    assert fetches == [[3, 2], [4]]
    assert first["kept"][0] is first["kept"][1] is later["kept"][0]
    assert type(first["kept"][0]) is torch.Tensor
    assert first["pairs"] is pairs
    assert [copy["weights"].tolist() for copy in (first, again, later)] == [
        [0, 0],
        [0, 0],
        [1, 1, 1, 1],
    ]


def test_weights_go_to_the_device_and_other_tensors_stay():
    shared, counts = torch.ones(3), torch.ones(2, 2, dtype=torch.int64)
    cosines = torch.ones(2, 2, dtype=torch.float64)
    with PretendedGpu():
        state = on_device({"models": [shared, shared], "pairs": {"n": counts, "c": cosines}}, GPU)
    assert isinstance(state["models"][0], Pretended)
    assert state["models"][0] is state["models"][1]
    assert state["pairs"]["n"] is counts
    assert state["pairs"]["c"] is cosines


def train(specs, backend, folder, **options):
    """Train runs; return those that are done and the messages of those that failed, by id."""
    done, failures = {}, {}
    drive_runs(
        specs,
        backend,
        folder,
        lambda run: done.setdefault(run.id, run),
        lambda run, failure: failures.setdefault(run, str(failure)),
        **options,
    )
    return done, failures


class Losing(PretendedBackend):
    """Loses the device after so many answers; from then on every call fails."""

    def __init__(self, gpu, answers):
        super().__init__()
        self.gpu, self.left = gpu, answers

    def collect(self, deadline):
        if self.left == 0:
            self.gpu.patch.setattr(torch.cuda, "synchronize", lose)
            lose()
        self.left -= 1
        return super().collect(deadline)


def let_copies_be_complete(gpu, *complete):
    """Say of each copy whether it gets to the host before the device is lost."""
    left = iter(complete)

    def fetch(self, tensors):
        hosts, transfer = fetched(self, tensors)
        if next(left):
            return hosts, transfer
        return [torch.full_like(one, torch.nan) for one in hosts], Transfer(lose, torch.zeros(()))

    gpu.patch.setattr(HostCopier, "_fetch", fetch)


CADIS = {"name": "cadis", "participants": 2}
CLUSTERS = {"scheme": "label_clusters", "clusters": [3, 2], "per_label": 4}


@pytest.mark.parametrize(
    ("complete", "round"),
    [([True, True, True], 2), ([True, True, False], 1), ([True, False, True], 2)],
)
@pytest.mark.parametrize("algorithm", [{"name": "fedavg", "optimizer_state": "keep"}, CADIS])
def test_a_lost_device_leaves_the_last_complete_round(tmp_path, algorithm, complete, round):
    """And the run goes on from it on the CPU, to the same numbers."""
    spec = make_spec(
        algorithm=algorithm, partition=CLUSTERS, optimizer={"name": "adam", "lr": 0.01}
    )
    whole, _ = train([spec], LoopBackend(), tmp_path / "whole")
    with pretended_gpu() as gpu:
        let_copies_be_complete(gpu, *complete)
        with pytest.raises(DeviceFailed) as failure:
            train([spec], Losing(gpu, 4), tmp_path)
    assert str(failure.value) == (
        "cuda:0 (Pretended) failed in mid-training (CUDA error: unspecified launch failure); 1 of "
        "1 runs in flight have a checkpoint: run the same command again to go on from there; if it "
        "fails again, nvidia-smi and dmesg say more about the device"
    )
    saved = checkpoint.load(tmp_path / f"{run_id(spec)}.pt", run_id(spec))
    assert saved["progress"]["round"] == round
    assert sum(part["rounds"] for part in saved["parts"]) == round
    resumed, _ = train([spec], LoopBackend(), tmp_path)
    run, other = resumed[run_id(spec)], whole[run_id(spec)]
    assert run.resumed_at == round
    assert run.progress.metrics == other.progress.metrics
    assert torch.equal(run.state.weights, other.state.weights)


def test_a_device_that_is_lost_before_it_copied_anything(tmp_path):
    specs = [make_spec(), make_spec(seed=6)]
    with pretended_gpu() as gpu:
        let_copies_be_complete(gpu, False, False)
        with pytest.raises(DeviceFailed, match="0 of 2 runs in flight have a checkpoint"):
            train(specs, Losing(gpu, 0), tmp_path, in_flight=2)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("lost", [True, False])
def test_only_an_error_that_passes_is_blamed_on_the_run(tmp_path, lost):
    """The algorithms' own arithmetic runs on the device, too, and may be what meets the error."""
    calls = []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            if lost:
                gpu.patch.setattr(torch.cuda, "synchronize", lose)
            lose()
        return fedavg_mean(*arguments)

    fedavg_mean = fedavg.weighted_mean
    bad, good = make_spec(), make_spec(algorithm={"name": "sgd"})
    with pretended_gpu() as gpu:
        gpu.patch.setattr(fedavg, "weighted_mean", failing)
        if lost:
            with pytest.raises(DeviceFailed, match="1 of 1 runs in flight"):
                train([bad, good], PretendedBackend(), tmp_path, in_flight=1)
            saved = checkpoint.load(tmp_path / f"{run_id(bad)}.pt", run_id(bad))
            assert saved["progress"]["round"] == 1
            return
        done, failures = train([bad, good], PretendedBackend(), tmp_path, in_flight=1)
    assert list(done) == [run_id(good)]
    assert "algorithm fedavg, round 2: " in failures[run_id(bad)]
    assert "CUDA error: unspecified launch failure" in failures[run_id(bad)]


def test_a_device_that_is_lost_as_a_run_goes_on_leaves_its_checkpoint_blameless(tmp_path):
    """Or its message would say to delete it."""
    spec = make_spec()

    def lost(*_):
        gpu.patch.setattr(torch.cuda, "synchronize", lose)
        lose()

    with pretended_gpu() as gpu:
        with pytest.raises(Interrupt):
            train([spec], PretendedBackend(), tmp_path, on_progress=stop_in_round_2)
        gpu.patch.setattr(fedavg, "_held", lost)
        with pytest.raises(DeviceFailed, match="1 of 1 runs in flight have a checkpoint"):
            train([spec], PretendedBackend(), tmp_path)
    assert checkpoint.load(tmp_path / f"{run_id(spec)}.pt", run_id(spec))["progress"]["round"] == 1


def test_what_else_fails_beside_the_device_does_not_hide_that_it_failed(tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    with pretended_gpu() as gpu:
        gpu.patch.setattr(checkpoint.torch, "save", full)
        with pytest.raises(DeviceFailed, match="0 of 1 runs"):
            train([make_spec()], Losing(gpu, 3), tmp_path)


def test_errors_of_a_cpu_and_of_the_program_are_no_failures_of_a_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lose)
    assert has_failed(GPU, RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"))
    assert not has_failed(torch.device("cpu"), RuntimeError(LOST))
    assert not has_failed(GPU, KeyError("x"))
    assert described(torch.device("cpu")) == "cpu"


@pytest.mark.parametrize("first", ["cpu", "gpu"])
@pytest.mark.parametrize(
    "algorithm",
    [
        CADIS,
        {"name": "feddyn", "alpha": 0.1, "participants": 2},
        {"name": "local", "initial": "own"},
        {"name": "fedopt", "server_momentum": 0.5},
    ],
    ids=lambda value: value if isinstance(value, str) else value["name"],
)
def test_a_run_goes_on_on_another_device_than_it_began_on(tmp_path, algorithm, first):
    spec = make_spec(algorithm=algorithm, partition=CLUSTERS, optimizer={"name": "sgd", "lr": 0.05})
    whole, _ = train([spec], LoopBackend(), tmp_path / "whole")

    def on(device, **options):
        if device == "cpu":
            return train([spec], LoopBackend(), tmp_path, **options)[0]
        with pretended_gpu():
            return train([spec], PretendedBackend(), tmp_path, **options)[0]

    with pytest.raises(Interrupt):
        on(first, on_progress=stop_in_round_2)
    run = on("gpu" if first == "cpu" else "cpu")[run_id(spec)]
    assert run.resumed_at == 1  # cut off before the evaluation of round 2
    assert run.progress.metrics == whole[run_id(spec)].progress.metrics
    assert run.progress.final == whole[run_id(spec)].progress.final


@needs_gpu
def test_a_gpu_copies_while_it_works_on():
    device = torch.device("cuda")
    weights = torch.arange(1e6, device=device)
    matrix = torch.ones(2048, 2048, device=device)
    copier = HostCopier()
    copier.copy({"weights": weights + 0})  # allocates
    for _ in range(50):
        matrix = matrix @ matrix * 1e-3
    snapshot = copier.copy({"models": [weights, weights]})
    del weights
    torch.zeros(int(1e6), device=device)  # may not take the memory that is being copied
    assert snapshot.arrives()
    assert snapshot.complete
    first, second = snapshot.content["models"]
    assert first is second
    assert first.is_pinned()
    assert torch.equal(first, torch.arange(1e6))


@needs_gpu
def test_a_run_goes_on_on_the_cpu_that_began_on_a_gpu_and_back(tmp_path):
    spec = make_spec(algorithm={"name": "fedavg", "optimizer_state": "keep"})
    whole, _ = train([spec], LoopBackend(), tmp_path / "whole")

    for first, second in (("cuda", "cpu"), ("cpu", "cuda")):
        with pytest.raises(Interrupt):
            train([spec], backend("auto", first), tmp_path, on_progress=stop_in_round_2)
        resumed, _ = train([spec], backend("auto", second), tmp_path)
        run = resumed[run_id(spec)]
        assert run.resumed_at == 1
        assert run.state.weights.device.type == second
        torch.testing.assert_close(
            run.state.weights.cpu(), whole[run_id(spec)].state.weights, rtol=5e-3, atol=5e-4
        )


LOSING = """
import sys
from pathlib import Path

import torch
from small_runs import make_spec

from fedrepro.fl import data
from fedrepro.fl.engine.backends import backend
from fedrepro.fl.engine.active import Storage
from fedrepro.fl.engine.driver import Listener, drive


class Losing:
    def __init__(self, inner):
        self.inner, self.left = inner, 4

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def collect(self, deadline):
        if self.left == 0:
            torch.zeros(1, device="cuda")[torch.tensor([5], device="cuda")]  # fails for good
            torch.cuda.synchronize()
        self.left -= 1
        return self.inner.collect(deadline)


drive(
    [make_spec()],
    lambda spec: data.load(spec.dataset.name),
    Losing(backend("auto", "cuda")),
    Listener(print, print),
    Storage(Path(sys.argv[1])),
)
"""


@needs_gpu
def test_a_gpu_that_is_lost_leaves_a_checkpoint(tmp_path):
    """In a process of its own, which has no GPU afterwards."""
    folders = [str(Path(__file__).parent), str(Path(fedrepro.__file__).parents[1]), *sys.path]
    ended = subprocess.run(
        [sys.executable, "-c", LOSING, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "DeviceFailed: cuda:0 (" in ended.stderr
    assert "1 of 1 runs in flight have a checkpoint" in ended.stderr
    saved = checkpoint.load(tmp_path / f"{run_id(make_spec())}.pt", run_id(make_spec()))
    assert saved["progress"]["round"] in (1, 2)
