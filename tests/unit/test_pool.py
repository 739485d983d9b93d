"""The pool's worker processes: killed, replaced, given up, and heard when they fail."""

import errno
import functools
import math
import multiprocessing
import os
import re
import signal
import sys
import time
from multiprocessing import forkserver, popen_forkserver
from pathlib import Path
from subprocess import PIPE, Popen, check_output

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from processes import alive, wait_for_end
from small_runs import (
    answer,
    answers,
    drive_runs,
    federation,
    float_dataset,
    make_lanes,
    make_spec,
    planned,
)

from fedrepro.base.errors import FedreproError
from fedrepro.fl import data
from fedrepro.fl.engine import checkpoint, pool, worker
from fedrepro.fl.engine.jobs import Ask, LaneError, OutOfTime, joined
from fedrepro.fl.engine.messages import Block, Pickled
from fedrepro.fl.engine.pool import PoolBackend
from fedrepro.fl.requests import Predict, Prediction, Train
from fedrepro.runs.stopping import STOPPING

torch.set_num_threads(1)

PERFORM = worker.perform


@pytest.fixture
def make_pool():
    pools = []

    def make(workers=2, **options):
        pools.append(PoolBackend(workers, **options))
        return pools[-1]

    yield make
    for backend in pools:
        backend.close()


def weights(results):
    return [result.weights for result in results]


def some_request(sizes=(20, 9, 16, 30), **changes):
    spec = make_spec(**changes)
    return spec, Train(make_lanes(federation(spec), sizes), 0, keep_optimizer_state=True)


def waiting(backend):
    return [piece for pieces in backend._waiting.values() for piece in pieces]


def busy(backend):
    return [one.process.pid for one in backend._pool if one.pieces]


# Workers that are killed from outside


@pytest.mark.parametrize("stack", [False, True])
@pytest.mark.parametrize("victims", [1, 2])
def test_training_goes_on_when_workers_are_killed(make_pool, monkeypatch, tmp_path, stack, victims):
    """Before they have answered: no worker does until it is released."""
    monkeypatch.chdir(tmp_path)
    spec, request = some_request()
    expected = answer(make_pool(1, stack=stack), spec, request)
    monkeypatch.setattr(pool, "work", held_up_work)
    backend = make_pool(2, stack=stack)
    backend.submit(1, Ask(spec, data.load("synthetic"), request))
    backend._hand_out()
    killed = busy(backend)[:victims]
    assert len(killed) == victims
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    Path("released").touch()
    [only] = backend.collect()
    assert all(map(torch.equal, weights(only.result), weights(expected)))
    assert not set(killed) & {one.process.pid for one in backend._pool}


@pytest.mark.parametrize("told_late", [False, True])
def test_workers_that_die_while_idle_are_replaced(make_pool, monkeypatch, told_late):
    """No lane is blamed for it, however often it happens and whenever the fork server tells."""
    spec, request = some_request()
    backend = make_pool(2)
    expected = weights(answer(backend, spec, request))
    if told_late:
        only_waiting_tells_of_ends(monkeypatch)
    for _ in range(3):
        pids = [one.process.pid for one in backend._pool]
        assert pids
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        assert not wait_for_end(pids)
        found = answer(backend, spec, request)
        assert all(map(torch.equal, weights(found), expected))


def only_waiting_tells_of_ends(monkeypatch):
    """Let the fork server tell of a process's end later than anyone asks without waiting."""
    poll = popen_forkserver.Popen.poll
    monkeypatch.setattr(
        popen_forkserver.Popen,
        "poll",
        lambda process, flag=os.WNOHANG: poll(process, flag) if flag != os.WNOHANG else None,
    )


def kill_fork_server(monkeypatch, times):
    """Let the fork server die over the first workers that it is asked for."""
    ask, left = forkserver.connect_to_new_process, iter(range(times))

    def asked(descriptors):
        forkserver.ensure_running()
        process = forkserver._forkserver._forkserver_pid
        kills = next(left, None) is not None
        if kills:
            os.kill(process, signal.SIGSTOP)  # it does not answer before it is killed
        try:
            return ask(descriptors)
        finally:
            if kills:
                os.kill(process, signal.SIGKILL)

    monkeypatch.setattr(forkserver, "connect_to_new_process", asked)


def test_a_fork_server_that_dies_is_started_anew(make_pool, monkeypatch):
    spec, request = some_request()
    expected = weights(answer(make_pool(1), spec, request))
    kill_fork_server(monkeypatch, times=1)
    found = answer(make_pool(2), spec, request)
    assert all(map(torch.equal, weights(found), expected))


def test_a_worker_of_a_fork_server_that_dies_before_it_says_so_ends(make_pool, monkeypatch):
    """Else it and the next would read tasks from one pipe."""
    spec, request = some_request()
    expected = weights(answer(make_pool(1), spec, request))
    read, orphans = forkserver.read_signed, []

    def dies(descriptor):
        process = read(descriptor)
        if orphans:
            return process
        orphans.append(process)
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
        raise EOFError

    monkeypatch.setattr(forkserver, "read_signed", dies)
    backend = make_pool(2)
    found = answer(backend, spec, request)
    assert all(map(torch.equal, weights(found), expected))
    assert len(orphans) == 1
    assert not wait_for_end(orphans)
    assert len(backend._pool) == 2


def test_a_fork_server_that_dies_each_time_is_an_error(make_pool, monkeypatch):
    kill_fork_server(monkeypatch, times=100)
    with pytest.raises(FedreproError, match=r"no worker process can be started, .*fewer --workers"):
        answer(make_pool(2), *some_request())


def dies_while_answering(pipe):
    """Work once, and die with half of the answer sent."""

    def half(buffer):
        os.write(pipe.fileno(), bytes(buffer)[: len(buffer) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    if not Path("died").exists():
        Path("died").touch()
        pipe._send = half
    worker.work(pipe)


def test_half_an_answer_is_none(make_pool, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    spec, request = some_request((20,), model={"name": "liu1"})
    expected = answer(make_pool(1), spec, request)
    monkeypatch.setattr(pool, "work", dies_while_answering)
    found = answer(make_pool(2), spec, request)
    assert Path("died").exists()
    assert torch.equal(found[0].weights, expected[0].weights)


# Lanes that kill their workers


def has_lane_1(task):
    return isinstance(task, worker.TrainTask) and any(
        job.lane.stream == ("client", 1) for job in task.jobs
    )


def perform_or_die(task, resources, deadline=float("inf")):
    if has_lane_1(task):
        os.kill(os.getpid(), signal.SIGKILL)
    return PERFORM(task, resources, deadline)


def perform_or_leave(task, resources, deadline=float("inf")):
    if has_lane_1(task):
        os._exit(3)
    return PERFORM(task, resources, deadline)


def perform_or_fail(task, resources, deadline=float("inf")):
    if has_lane_1(task):
        raise ZeroDivisionError("lane 1 shows a fault of the program")
    return PERFORM(task, resources, deadline)


def perform_when_released(task, resources, deadline=float("inf")):
    while not Path("released").exists():
        time.sleep(0.01)
    return PERFORM(task, resources, deadline)


def perform_lane_1_when_released(task, resources, deadline=float("inf")):
    perform = perform_when_released if has_lane_1(task) else PERFORM
    return perform(task, resources, deadline)


def deadly_work(pipe):
    worker.perform = perform_or_die
    worker.work(pipe)


def leaving_work(pipe):
    worker.perform = perform_or_leave
    worker.work(pipe)


def faulty_work(pipe):
    worker.perform = perform_or_fail
    worker.work(pipe)


def held_up_work(pipe):
    worker.perform = perform_when_released
    worker.work(pipe)


def work_that_holds_up_lane_1(pipe):
    worker.perform = perform_lane_1_when_released
    worker.work(pipe)


@pytest.mark.parametrize(
    ("main", "end"), [(deadly_work, "signal 9"), (leaving_work, "exit status 3")]
)
@pytest.mark.parametrize("stack", [False, True])
def test_a_lane_that_kills_two_workers_fails_by_name_and_the_others_go_on(
    make_pool, monkeypatch, stack, main, end
):
    """Stacked with healthy lanes, it is narrowed down by halves."""
    spec, bad = some_request()
    other = make_spec(seed=77)
    lanes = make_lanes(federation(other), (12, 8, 8, 17))
    good = Train([one for one in lanes if one.stream != ("client", 1)], 0)
    expected = answer(make_pool(1, stack=stack), other, good)
    monkeypatch.setattr(pool, "work", main)
    refused, fine = answers(make_pool(2, stack=stack), [(spec, bad), (other, good)])
    assert isinstance(refused, LaneError)
    assert "lane 'client 1' ended its worker process 2 times" in str(refused)
    assert end in str(refused)
    assert all(map(torch.equal, weights(fine), weights(expected)))


def test_an_error_of_the_program_in_a_worker_fails_its_lane_with_the_traceback(
    make_pool, monkeypatch
):
    (spec, bad), (other, good) = some_request(), some_request((20,))  # of client 0 alone
    expected = answer(make_pool(1), other, good)
    monkeypatch.setattr(pool, "work", faulty_work)
    refused, fine = answers(make_pool(2), [(spec, bad), (other, good)])
    assert isinstance(refused, LaneError)
    assert re.search(r"(?s)Traceback.*perform_or_fail.*ZeroDivisionError: lane 1", str(refused))
    assert all(map(torch.equal, weights(fine), weights(expected)))


# Messages


@pytest.mark.parametrize("size", [0, 100, 127, 128, 4096])
def test_tensors_travel_as_arrays_and_once_each(size):
    """In the block if it is large enough for 12 and 24 bytes, each rounded up to 64."""
    weights, examples = torch.arange(3.0), np.arange(3)
    block = bytearray(size)
    value = Pickled([weights, {"moments": weights}, examples])
    here, there = multiprocessing.Pipe()
    here.send(value.message(memoryview(block)))
    message = there.recv()
    assert value.size == message.size == 128
    assert bool(message.arrays) == (size < 128)
    assert any(block) == (size >= 128)
    sent, state, order = message.open(memoryview(block), copy=True)
    assert torch.equal(sent, weights)
    assert state["moments"] is sent
    block[:] = bytes(size)
    sent += 1
    np.testing.assert_array_equal(order, examples)
    assert torch.equal(sent, weights + 1)


def test_what_is_opened_without_a_copy_lies_in_the_block():
    block = bytearray(4096)
    message = Pickled([torch.arange(3.0)]).message(memoryview(block))
    (sent,) = message.open(memoryview(block), copy=False)
    block[:] = bytes(4096)
    assert torch.equal(sent, torch.zeros(3))


@pytest.mark.parametrize("nameless", [True, False])
def test_both_sides_of_a_pipe_see_a_block(monkeypatch, nameless):
    if not nameless:  # as on macOS
        monkeypatch.delattr(os, "memfd_create", raising=False)
    here, there = multiprocessing.Pipe()
    ours = Block.new(100)
    ours.send(here)
    theirs = Block.receive(there)
    assert len(ours.memory) == len(theirs.memory) == 128
    theirs.memory[3] = 7
    assert ours.memory[3] == 7
    here.close()
    with pytest.raises(EOFError):
        Block.receive(there)


def test_blocks_leave_no_descriptor_behind():
    def count():
        return len(os.listdir("/proc/self/fd"))

    before = count()
    block = Block.new(100)
    view = np.frombuffer(block.memory, np.uint8)
    assert count() > before
    del block
    assert view.sum() == 0
    del view
    assert count() == before


def test_a_block_that_the_system_refuses_is_a_clear_error(make_pool, monkeypatch):
    def refused(name):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    spec, request = some_request()
    monkeypatch.setattr(os, "memfd_create", refused)
    with pytest.raises(FedreproError, match=r"MiB.*Too many open files.*fewer workers"):
        answer(make_pool(2), spec, request)
    assert len(answer(make_pool(1), spec, request)) == 4


def test_workers_get_room_for_what_they_are_sent_and_for_what_they_found(make_pool):
    """Results with moments are larger than tasks without; the first ones go through the pipe."""
    backend, rooms = make_pool(2), []
    for width in (0.25, 0.25, 0.5, 0.5):
        spec, request = some_request(
            (20, 20),
            model={"name": "mnist_cnn", "width": width},
            optimizer={"name": "adam", "lr": 0.01},
        )
        expected = answer(make_pool(1), spec, request)
        found = answer(backend, spec, request)
        assert all(map(torch.equal, weights(found), weights(expected)))
        rooms.append(len(backend._pool[0].room))
    assert rooms[0] < rooms[1] <= rooms[2] < rooms[3]
    assert rooms[3] >= backend._pool[0].needed > 3 * expected[0].weights.nbytes


# Division of the work


def test_lanes_are_shared_out_evenly(make_pool):
    spec, request = some_request((20,) * 8)
    backend = make_pool(3, stack=True)
    backend.submit(1, Ask(spec, data.load("synthetic"), request))
    backend._hand_out()
    assert sorted(len(one.pieces) for one in backend._pool) == [2, 3, 3]
    for one in backend._pool:  # a task does not carry the lanes of others along
        assert all(not piece.job.request.lanes for piece in one.pieces)
    backend.collect()


def test_requests_are_answered_as_soon_as_they_are_ready(make_pool, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "work", work_that_holds_up_lane_1)
    backend = make_pool(2)
    for ticket, sizes in ((1, (20, 9)), (2, (8,))):
        spec, request = some_request(sizes, seed=ticket)
        backend.submit(ticket, Ask(spec, data.load("synthetic"), request))

    def collected():
        return [found.ticket for found in backend.collect(time.monotonic() + 300)]

    assert collected() == [2]
    assert len(busy(backend)) == 1
    Path("released").touch()
    assert collected() == [1]


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "10000 100000"}, 1),
        ({"cpu.max": "9000000 100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
    ],
)
def test_the_workers_of_a_container_are_no_more_than_its_cores(tmp_path, monkeypatch, files, cores):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(pool, "_GROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert PoolBackend().workers == cores


def test_two_data_sets_at_once(make_pool):
    images = np.random.default_rng(0).normal(size=(40, 1, 20, 12)).astype(np.float32)
    dataset = float_dataset(images, np.arange(40) % 10)
    float_spec = make_spec(dataset={"name": "kws_mfcc20"})
    lanes = make_lanes(federation(float_spec, dataset), (5,))
    backend = make_pool(2)
    spec, request = some_request()
    backend.submit(1, Ask(spec, data.load("synthetic"), request))
    backend.submit(2, Ask(float_spec, dataset, Train(lanes, 0)))
    found = {}
    while len(found) < 2:
        found |= {one.ticket: one.result for one in backend.collect()}
    expected = answer(make_pool(1), float_spec, Train(lanes, 0), dataset)
    assert torch.equal(found[2][0].weights, expected[0].weights)
    assert len(found[1]) == 4


def test_nothing_asked_is_nothing_answered(make_pool):
    spec = make_spec()
    for workers in (1, 2):
        for request in (Train([], 0), Predict([], "test")):
            backend = make_pool(workers)
            assert answer(backend, spec, request) == []
            assert backend.collect() == []


def test_long_lanes_are_started_first_so_that_workers_end_together(make_pool):
    spec, request = some_request((9, 30, 20, 30))
    ask = Ask(spec, data.load("synthetic"), request)
    for stack, order in ((False, [1, 3, 2, 0]), (True, [0, 1, 2, 3])):
        backend = make_pool(2, stack=stack)
        backend.submit(1, ask)
        assert [piece.number for piece in waiting(backend)] == order


# Predictions in batches


@pytest.mark.parametrize("count", [1, 999, 1000, 1001, 3500])
@pytest.mark.parametrize("models", [1, 2])
def test_few_models_are_asked_by_all_workers_to_the_same_bits(make_pool, models, count):
    spec = make_spec(model={"name": "mnist_cnn", "width": 0.125})
    fed = federation(spec)
    examples = np.random.default_rng(5).integers(0, fed.train_size, count)
    request = Predict([fed.initial_weights(i) for i in range(models)], "train", examples)
    expected = answer(make_pool(1), spec, request)
    backend = make_pool(3)
    found = answer(backend, spec, request)
    for ours, one in zip(found, expected, strict=True):
        assert ours.loss == one.loss
        assert np.array_equal(ours.classes, one.classes)
        assert np.array_equal(ours.correct, one.correct)
    batches = models * math.ceil(count / 1000)
    share = math.ceil(batches / 3)
    assert len(backend._pool) == math.ceil(batches / share)  # no more would be faster


def test_lists_of_unequal_lengths_are_shared_out_evenly_to_the_same_bits(make_pool):
    spec = make_spec(model={"name": "mnist_cnn", "width": 0.125})
    fed = federation(spec)
    rng = np.random.default_rng(5)
    own = [rng.integers(0, fed.train_size, count) for count in (3500, 10, 1000, 1001)]
    one, other = (fed.initial_weights(i) for i in range(2))
    request = Predict([one, other, other, one], "train", own)
    expected = answer(make_pool(1), spec, request)
    backend = make_pool(2)
    for ours, theirs in zip(answer(backend, spec, request), expected, strict=True):
        assert ours.loss == theirs.loss
        assert np.array_equal(ours.classes, theirs.classes)
        assert np.array_equal(ours.correct, theirs.correct)
    backend.submit(1, Ask(spec, data.load("synthetic"), request))
    # Eight batches are four for each worker: nobody has more, and the longest go first.
    assert [len(piece.job.examples) for piece in waiting(backend)] == [3500, 1001, 1000, 10]
    backend = make_pool(4)
    backend.submit(1, Ask(spec, data.load("synthetic"), request))
    assert [len(piece.job.examples) for piece in waiting(backend)] == [2000, 1500, 1001, 1000, 10]


@given(
    st.lists(
        st.tuples(st.floats(0, 2.0**100, width=32, allow_subnormal=False), st.integers(1, 1000)),
        min_size=1,
        max_size=12,
    )
)
def test_joined_losses_have_the_bits_of_one_sum(batches):
    total = torch.zeros(())
    for loss, _ in batches:
        total.add_(torch.tensor(loss))
    parts = [
        Prediction(np.zeros(n, np.int64), np.zeros(n, bool), float(np.float32(loss)) / n)
        for loss, n in batches
    ]
    assert joined(parts).loss == float(total) / sum(n for _, n in batches)


# Time and interruption


def test_a_deadline_in_months_is_waited_for_in_parts(make_pool):
    backend = make_pool(2)
    spec, request = some_request()
    backend.submit(1, Ask(spec, data.load("synthetic"), request))
    assert len(backend.collect(time.monotonic() + 1e9)) == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_the_deadline_ends_the_wait_for_workers(make_pool, workers):
    spec, request = some_request((250, 250), local_epochs=10_000, model={"name": "liu1"})
    backend = make_pool(workers)
    answer(backend, *some_request())  # the workers are there
    backend.submit(1, Ask(spec, data.load("synthetic"), request))
    begin = time.monotonic()
    with pytest.raises(OutOfTime):
        backend.collect(begin + 0.3)
    assert time.monotonic() - begin < 30
    pids = [one.process.pid for one in backend._pool]
    backend.close()
    assert not wait_for_end(pids)


def test_a_deadline_holds_where_an_answer_is_always_ready(make_pool):
    spec, request = some_request()
    backend = make_pool(2)
    backend.submit(1, Ask(spec, data.load("synthetic"), request))
    backend._hand_out()
    for one in backend._pool:
        assert one.pipe.poll(300)
    with pytest.raises(OutOfTime):
        backend.collect(time.monotonic() - 1)


def test_closing_does_not_wait_for_workers_that_stand_still(make_pool):
    spec, request = some_request()
    backend = make_pool(2)
    answer(backend, spec, request)
    backend.submit(2, Ask(spec, data.load("synthetic_rgb"), request))
    for one in backend._pool:
        os.kill(one.process.pid, signal.SIGSTOP)
    backend._hand_out()
    workers = list(backend._pool)
    backend.close()
    assert not any(one.process.is_alive() for one in workers)


UNCLOSED = """
from small_runs import answer, federation, make_lanes, make_spec
from fedrepro.fl.engine.pool import PoolBackend
from fedrepro.fl.requests import Train

if __name__ == "__main__":
    spec = make_spec()
    backend = PoolBackend(2)
    answer(backend, spec, Train(make_lanes(federation(spec), (20, 9)), 0))
    print(*(one.process.pid for one in backend._pool), flush=True)
"""


def test_a_program_that_does_not_close_its_pool_ends_and_so_do_the_workers(tmp_path):
    """Though the folder of temporary files, which holds sockets, has too long a name for them."""
    (tmp_path / "program.py").write_text(UNCLOSED)
    temporary = tmp_path / ("x" * 100)
    temporary.mkdir()
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    out = check_output(
        [sys.executable, str(tmp_path / "program.py")],
        env=os.environ | {"PYTHONPATH": paths, "TMPDIR": str(temporary)},
        timeout=300,
    )
    pids = [int(pid) for pid in out.split()]
    assert len(pids) == 2
    assert not wait_for_end(pids)
    assert not list(temporary.iterdir())


def test_a_run_cut_off_at_a_deadline_resumes_to_the_same_bits(make_pool, tmp_path):
    adam = {"name": "adam", "lr": 0.01}
    runs = [planned(seed=seed, rounds=6, optimizer=adam) for seed in (1, 2)]
    specs = [run.spec for run in runs]

    def drive(backend, folder, deadline=float("inf")):
        done = {}
        cut = drive_runs(
            specs,
            backend,
            tmp_path / folder,
            lambda run: done.setdefault(run.id, run),
            lambda _, failure: pytest.fail(str(failure)),
            deadline=deadline,
        )
        return done, cut

    whole, _ = drive(make_pool(1, stack=True), "whole")

    class Stopped(PoolBackend):
        """Time ends in mid-request once both runs, kept in step, have had three answers.

        Those are a round, of training and prediction, and the training of the next.
        """

        steps = 0

        def collect(self, deadline):
            if self.steps == 3:
                self._hand_out()
                raise OutOfTime
            found = []
            while len(found) < len(runs):
                found += super().collect(deadline)
            self.steps += 1
            return found

    backend = Stopped(2, stack=True)
    done, cut = drive(backend, "cut")
    backend.close()
    assert not done
    assert [run.id for run in cut] == [run.id for run in runs]
    saved = [checkpoint.load(tmp_path / f"cut/{run.id}.pt", run.id) for run in runs]
    assert [content["progress"]["round"] for content in saved] == [1, 1]
    resumed, _ = drive(make_pool(2, stack=True), "cut")
    for run in runs:
        assert resumed[run.id].resumed_at > 0
        assert torch.equal(resumed[run.id].state.weights, whole[run.id].state.weights)
        assert resumed[run.id].progress.metrics == whole[run.id].progress.metrics


TRAINING = """
import sys
from fedrepro.runs.plan import PlannedRun
from fedrepro.fl.spec import RunSpec
from fedrepro.runs import __main__, command

if __name__ == "__main__":
    spec = RunSpec.model_validate_json(sys.argv[1])
    runs = [PlannedRun("made_up", "group", {}, spec.seed, spec, sys.argv[2])]
    command.selected = lambda *_, **__: runs
    options = ["--pending", "--workers", "2", "--checkpoint-seconds", "0"]
    sys.exit(__main__.main(["train", *options]))
"""


@pytest.mark.parametrize("number", STOPPING)
def test_workers_leave_signals_to_the_main_process(make_pool, number):
    spec, request = some_request()
    backend = make_pool(2)
    expected = weights(answer(backend, spec, request))
    pids = [one.process.pid for one in backend._pool]
    for pid in pids:
        os.kill(pid, number)
    assert all(map(torch.equal, weights(answer(backend, spec, request)), expected))
    assert [one.process.pid for one in backend._pool] == pids


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (signal.SIGINT, "interrupted"),
        (signal.SIGTERM, "stopped by SIGTERM"),
        (signal.SIGHUP, "stopped by SIGHUP"),
    ],
)
def test_a_signal_to_all_processes_ends_them_and_leaves_a_checkpoint(tmp_path, number, message):
    run = planned(rounds=100_000)
    (tmp_path / "program.py").write_text(TRAINING)
    words = [str(tmp_path / "program.py"), run.spec.model_dump_json(), run.id]
    command = [sys.executable, *words]
    with Popen(command, cwd=tmp_path, stderr=PIPE, start_new_session=True, text=True) as process:
        file = tmp_path / ".checkpoints" / f"{run.id}.pt"
        deadline = time.monotonic() + 300
        while not file.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, number)  # as a terminal or a scheduler does
        _, error = process.communicate(timeout=300)
    assert process.returncode == 128 + number
    assert f"{message}; run again to go on from the checkpoints" in error
    assert "Traceback" not in error
    assert checkpoint.load(file, run.id)["progress"]["round"] > 0
    assert not list(file.parent.glob("*.lock"))
    assert not wait_for_end(functools.partial(alive, group=process.pid)), "no worker is left"


# Memory


GROWTH = """
from pathlib import Path
import torch
from fedrepro.fl import models
from fedrepro.fl.engine.network import FlatModule
from fedrepro.fl.engine.worker import set_memory_use

def mib():
    data = 5  # what is allocated, resident or not: the kernel may take back pages that lie idle
    return int(Path("/proc/self/statm").read_text().split()[data]) / 256

set_memory_use()
torch.set_num_threads(1)
model = models.build("fedcd_cnn", (3, 32, 32), 10, 0.25)
net = FlatModule(model, torch.device("cpu"), channels_last=True)
with torch.no_grad():
    net.forward(torch.zeros(104, 3, 32, 32))
    before = mib()
    for n in range(8, 104):
        net.forward(torch.zeros(n, 3, 32, 32))
print(mib() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_convolutions_compiled_for_many_batch_sizes_do_not_pile_up():
    """The environment's own limits win, here the libraries' defaults."""

    def growth(**environment: str) -> float:
        command = [sys.executable, "-c", GROWTH]
        return float(check_output(command, env=os.environ | environment))

    libraries = growth(LRU_CACHE_CAPACITY="1024", ONEDNN_PRIMITIVE_CACHE_CAPACITY="1024")
    assert growth() < 0.75 * libraries
