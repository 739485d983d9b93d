"""`fedrepro train --device cuda` with several GPUs: here two processes that train on the CPU."""

import os
import re
import signal
import sys
import tarfile
import textwrap
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import small_runs

from fedrepro import cli
from fedrepro.runs import command, options, records, session, side_by_side, stopping, training
from fedrepro.runs.__main__ import parse
from fedrepro.runs.budget import share_done
from fedrepro.runs.plan_schema import SCALES
from fedrepro.runs.status import describe


def python(program):
    return [sys.executable, "-c", textwrap.dedent(program)]


def test_lines_begin_with_the_name_and_the_worst_status_counts(capfd):
    program = "import sys; print('out', sys.argv[1:]); sys.stderr.write('err'); sys.exit({})"
    commands = {"cuda:0": python(program.format(0)), "cuda:1": [*python(program.format(3)), "x"]}
    assert side_by_side.run(commands) == 3
    out, error = capfd.readouterr()
    assert sorted(out.splitlines()) == ["cuda:0: out []", "cuda:1: out ['x']"]
    assert sorted(error.splitlines()) == ["cuda:0: err", "cuda:1: err"]


def test_a_command_that_a_signal_ended_counts_as_shells_count_it():
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert side_by_side.run({"a": python(killed), "b": python("raise SystemExit(1)")}) == 128 + 9


@pytest.mark.parametrize("number", [signal.SIGINT, *stopping.STOPPING])
def test_signals_are_forwarded_and_the_end_is_waited_for(tmp_path, capfd, sends, number):
    program = f"""
        import signal, sys, time, pathlib
        def end(*_):
            time.sleep(0.5)
            print("saved", flush=True)
            sys.exit(7)
        signal.signal({int(number)}, end)
        pathlib.Path(sys.argv[1]).touch()
        time.sleep(1000)
        """
    ready = [tmp_path / "0", tmp_path / "1"]
    commands = {f"cuda:{i}": [*python(program), str(file)] for i, file in enumerate(ready)}
    before = signal.getsignal(number)
    sends(number, lambda: all(file.exists() for file in ready))
    assert side_by_side.run(commands) == 7
    assert sorted(capfd.readouterr().out.splitlines()) == ["cuda:0: saved", "cuda:1: saved"]
    assert signal.getsignal(number) == before


@pytest.fixture
def sends():
    """Return how to send this process a signal once something is so, or after a long time."""
    over, senders = threading.Event(), []

    def start(number, when):
        def wait():
            end = time.monotonic() + 300
            while not over.wait(0.02):
                if when() or time.monotonic() > end:
                    os.kill(os.getpid(), number)
                    return

        senders.append(threading.Thread(target=wait))
        senders[-1].start()

    yield start
    over.set()
    for sender in senders:
        sender.join()


def test_a_command_that_cannot_be_started_ends_the_others(tmp_path):
    commands = {"a": python("import time; time.sleep(1000)"), "b": [str(tmp_path / "nothing")]}
    started = time.monotonic()
    with pytest.raises(FileNotFoundError):
        side_by_side.run(commands)
    assert time.monotonic() - started < 500


CHILD = """
    import sys
    sys.path.insert(0, {tests!r})
    from test_side_by_side import runs
    from fedrepro.runs import __main__, command
    command.selected = lambda *_, **__: runs({count}, {rounds})
    sys.exit(__main__.main(sys.argv[1:]))
    """


def runs(count, rounds):
    return [small_runs.planned(seed=seed, rounds=rounds) for seed in range(count)]


@pytest.fixture
def two_gpus(tmp_path, monkeypatch):
    """Let PyTorch see two GPUs and their processes train on the CPU; return how to choose runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    real = training._command

    def choose(count, rounds):
        child = python(CHILD.format(tests=str(Path(__file__).parent), count=count, rounds=rounds))

        def child_command(arguments, device, deadline):
            _, *rest = real(arguments, device, deadline)
            at = rest.index("train")
            return [*child, *(word.replace(device, "cpu") for word in rest[at:])]

        monkeypatch.setattr(command, "selected", lambda *_, **__: runs(count, rounds))
        monkeypatch.setattr(training, "_command", child_command)
        return runs(count, rounds)

    return choose


TRAIN = ["train", "--pending", "--device", "cuda", "--in-flight", "1", "--out", "all.tar"]


@pytest.mark.slow
def test_two_gpus_share_the_runs_and_write_one_tar(two_gpus, capfd):
    planned = two_gpus(6, 40)
    assert cli.main(TRAIN) == 0
    assert all(records.is_recorded(run.id) for run in planned)
    with tarfile.open("all.tar") as tar:
        assert tar.getnames() == [f"results/runs/{run.id}.json" for run in planned]
    out, error = capfd.readouterr()
    trained = {
        m[1]: int(m[2]) for m in re.finditer(r"^(cuda:.): (\d) of 6 runs trained", out, re.M)
    }
    assert trained.keys() == {"cuda:0", "cuda:1"}
    assert sum(trained.values()) == 6
    assert "\n6 of 6 runs trained on 2 GPUs\n" in out
    assert all(re.match(r"cuda:[01]: ", line) for line in error.splitlines())
    assert not list(session.CHECKPOINTS.iterdir())


@pytest.mark.slow
def test_an_interrupt_leaves_checkpoints_of_all_gpus_in_one_tar(two_gpus, sends, capfd):
    planned = two_gpus(2, 10**6)

    def both_at_work():
        done = [share_done(run, session.CHECKPOINTS) for run in planned]
        return all(done)

    sends(signal.SIGTERM, both_at_work)
    assert cli.main([*TRAIN, "--checkpoint-seconds", "0.2"]) == 143
    with tarfile.open("all.tar") as tar:
        assert tar.getnames() == [f".checkpoints/{run.id}.pt" for run in planned]
    assert {file.suffix for file in session.CHECKPOINTS.iterdir()} == {".pt"}
    out, error = capfd.readouterr()
    assert error.count("fedrepro: stopped by SIGTERM") == 2
    assert out == "0 of 2 runs trained on 2 GPUs\n"


def test_a_second_signal_or_a_damaged_record_keeps_nothing_from_the_tar(
    two_gpus, monkeypatch, capsys, write_record
):
    whole, damaged = two_gpus(2, 1)
    write_out = session.write_out

    def trained(_):
        for run in (whole, damaged):
            write_record(run, records.FOLDER)
        records.path_of(damaged.id).write_text("{}")
        return 143

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        write_out(*arguments)

    monkeypatch.setattr(side_by_side, "run", trained)
    monkeypatch.setattr(session, "write_out", interrupted)
    assert cli.main(TRAIN) == 143
    with tarfile.open("all.tar") as tar:
        assert tar.getnames() == [f"results/runs/{whole.id}.json"]
    assert f"{damaged.id}.json: not a whole run record" in capsys.readouterr().err


def test_all_gpus_stop_at_the_same_time(two_gpus, monkeypatch):
    two_gpus(2, 1)
    seen = {}
    monkeypatch.setattr(side_by_side, "run", lambda commands: seen.update(commands) or 0)
    before = time.monotonic()
    assert cli.main([*TRAIN, "--time-budget", "20"]) == 0
    after = time.monotonic()
    given = [parse(words[words.index("train") :]) for words in seen.values()]
    assert len(given) == 2
    assert len({arguments.deadline for arguments in given}) == 1
    assert before + 20 <= given[0].deadline <= after + 20


def test_a_foreign_file_for_out_is_refused_before_any_gpu_is_used(two_gpus, monkeypatch, capsys):
    two_gpus(1, 1)
    Path("all.tar").write_text("precious")
    monkeypatch.setattr(side_by_side, "run", lambda _: pytest.fail("trained"))
    assert cli.main(TRAIN) == 1
    assert "all.tar: not a whole tar file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("device", "count", "devices"),
    [
        ("cuda", 3, ["cuda:0", "cuda:1", "cuda:2"]),
        ("cuda", 1, ["cuda"]),
        ("cuda", 0, ["cuda"]),
        ("cuda:1", 3, ["cuda:1"]),
        ("cpu", 3, ["cpu"]),
    ],
)
def test_one_gpu_needs_no_other_process(monkeypatch, device, count, devices):
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    assert training._devices(device) == devices


def test_a_process_of_a_gpu_gets_all_options():
    given = {
        "--paper": "tricks",
        "--scale": "smoke",
        "--device": "cuda",
        "--backend": "loop",
        "--workers": "3",
        "--compile": "off",
        "--in-flight": "4",
        "--time-budget": "60",
        "--out": "all.tar",
        "--shared": "s3://bucket/team",
        "--checkpoint-seconds": "7",
        "--data-root": "pack",
    }
    words = [
        "--deterministic",
        "--allow-other-data",
        *(word for option in given.items() for word in option),
    ]
    for chosen in (["--pending"], ["0123456789ab", "ba9876543210"]):
        arguments = parse(["train", *chosen, *words])
        assert all(
            getattr(arguments, option.name) != option.default
            for option in options.described()
            if option.name not in ("runs", "pending", "deadline")
        )
        _, _, module, *words_of_child = training._command(arguments, "cuda:1", 12.5)
        assert module == "fedrepro.runs"
        own = {"device": "cuda:1", "deadline": 12.5, "out": None, "time_budget": None}
        assert vars(parse(words_of_child)) == vars(arguments) | own


def test_the_time_that_is_left_is_that_until_the_deadline(monkeypatch):
    seen = []
    monkeypatch.setattr(session, "train", lambda _, options: seen.append(options) or 0)
    monkeypatch.setattr(command, "selected", lambda *_, **__: [])
    before = time.monotonic()
    for deadline in (before + 50, before - 50):
        assert cli.main(["train", "--pending", f"--deadline={deadline}"]) == 0
    took = time.monotonic() - before
    assert max(50 - took, 0.0) <= seen[0].time_budget <= 50
    assert seen[1].time_budget == 0.0


@pytest.mark.parametrize("number", stopping.STOPPING)
def test_termination_saves_the_runs_in_flight_as_an_interrupt_does(
    tmp_path, monkeypatch, capsys, sends, number
):
    monkeypatch.chdir(tmp_path)
    [run] = runs(1, 10**6)
    monkeypatch.setattr(command, "selected", lambda *_, **__: [run])
    before = signal.getsignal(number)
    sends(number, lambda: share_done(run, session.CHECKPOINTS) > 0)
    words = ["train", "--pending", "--backend", "loop", "--checkpoint-seconds", "0.2"]
    assert cli.main([*words, "--out", "all.tar"]) == 128 + number
    how = "interrupted" if number == signal.SIGINT else f"stopped by {number.name}"
    assert how in capsys.readouterr().err
    with tarfile.open("all.tar") as tar:
        assert tar.getnames() == [f".checkpoints/{run.id}.pt"]
    assert signal.getsignal(number) == before


def test_runs_that_need_a_gpu_are_left_out_on_a_cpu(tmp_path, monkeypatch, capsys, write_record):
    monkeypatch.chdir(tmp_path)
    plain, recorded, *gpu = [
        small_runs.planned(seed=seed, precision="float32" if seed == 0 else "tf32")
        for seed in range(4)
    ]
    write_record(recorded, records.FOLDER)
    monkeypatch.setattr(command, "selected", lambda *_, **__: [plain, recorded, *gpu])
    assert cli.main(["train", "--pending"]) == 0
    out, error = capsys.readouterr()
    assert error.splitlines()[0] == (
        "2 pending runs are left out: precision: tf32 needs --device cuda"
    )
    assert out.splitlines()[0] == "1 of 1 runs trained"
    assert cli.main(["train", "--pending"]) == 0
    assert cli.main(["train", gpu[0].id]) == 1
    error = capsys.readouterr().err
    assert f"run {gpu[0].id} ({describe(gpu[0])}) failed: precision: tf32 exists on" in error


def test_no_run_is_left_out_on_a_gpu(monkeypatch):
    seen = []
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    run = small_runs.planned(precision="tf32")
    monkeypatch.setattr(command, "selected", lambda *_, **__: [run])
    monkeypatch.setattr(session, "train", lambda planned, _: seen.append(planned) or 0)
    assert cli.main(["train", "--pending", "--device", "cuda"]) == 0
    assert seen == [[run]]


def test_all_that_is_planned_is_trained_before_it_is_repeated(monkeypatch):
    """Scale by scale, the published one first; ids that are given keep their order."""
    seen = []
    monkeypatch.setattr(session, "train", lambda planned, _: seen.append(planned) or 0)
    assert cli.main(["train", "--pending", "--device", "cuda:0"]) == 0
    assert [run.scale for run in seen[0]] == sorted(
        (run.scale for run in seen[0]), key=SCALES.index
    )
    for scale in SCALES:
        runs = [run for run in seen[0] if run.scale == scale]
        turns = Counter[str]()
        trained = [f"{run.paper} {run.group} {run.coordinates}" for run in runs]
        order = [turns.update([name]) or turns[name] for name in trained]
        assert order == sorted(order)
        first = [run for run in runs if (run.paper, run.group) == (runs[0].paper, runs[0].group)]
        assert [run.seed for run in first] == sorted(run.seed for run in first)
    assert {run.id for run in seen[0]} == {run.id for run in command.selected(None, None)}
    ids = [run.id for run in seen[0][5:0:-1]]
    assert cli.main(["train", *ids, "--device", "cuda:0"]) == 0
    assert [run.id for run in seen[1]] == ids
