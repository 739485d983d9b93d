"""How far a training is and how fast it goes; the choice of runs that can end in time."""

import math
from types import SimpleNamespace

import pytest
import torch
from small_runs import drive_runs, planned
from torch.utils.flop_counter import FlopCounterMode

from fedrepro.fl import cost, models
from fedrepro.fl.engine.active import Progress
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.fl.models import NETWORKS
from fedrepro.runs.progress import Meter, Pace, arithmetic

SHAPES = {"liu1": (1, 28, 28), "liu2": (1, 28, 28), "liu3": (1, 28, 28), "mnist_cnn": (1, 28, 28)}
SHAPES |= {"cifar_tutorial": (3, 24, 24), "kws_cnn": (1, 20, 44), "resnet18": (3, 224, 224)}


def active(run, done, resumed_at=0, lanes=2):
    """Return a run in flight as the driver shows it."""
    return SimpleNamespace(
        id=run.id,
        spec=run.spec,
        rounds=run.spec.rounds,
        resumed_at=resumed_at,
        lanes=lanes,
        progress=Progress(round=done),
    )


@pytest.mark.parametrize("name", sorted(set(NETWORKS) - {"kws_cnn", "resnet18"}))
def test_the_arithmetic_of_a_pass_is_that_of_the_network(name):
    shape = SHAPES.get(name, (3, 32, 32))
    with torch.device("meta"):
        net = models.build(name, shape, 10).eval()
        with FlopCounterMode(display=False) as counter:
            net(torch.zeros(2, *shape)).sum().backward()
    spec = planned(dataset={"name": "synthetic_rgb"}, model={"name": name}).spec
    assert cost.flop(spec) == pytest.approx(counter.get_total_flops() / 2, rel=0.02)


def test_the_arithmetic_by_hand():
    """A product counts as two; backward is twice forward, but for the images' gradient."""
    by_hand = 2 * (2 * 784 * 30 + 3 * 30 * 10)
    assert cost.flop(planned(model={"name": "liu1"}).spec) == pytest.approx(by_hand, rel=0.001)


def test_the_arithmetic_goes_by_the_square_of_the_width():
    half, full = (planned(model={"name": "mnist_cnn", "width": w}).spec for w in (0.5, 1.0))
    assert cost.flop(half) == cost.flop(full) / 4 == 72.4e6 / 4


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        ({"name": "fedavg", "participants": 1}, {"evaluate_every": 2}),
        ({"name": "fedavg", "pretrain_epochs": 1, "sgd_reference": True}, {"local_epochs": 3}),
        ({"name": "local"}, {"rounds": 4, "evaluate_every": 2}),
        ({"name": "fedavg", "pretrain_epochs": 2, "participants": 1}, {}),
        ({"name": "fedopt", "conflict_examples": 50, "update_rounds": [0]}, {}),
        ({"name": "fedopt", "conflict_examples": 50, "update_rounds": [0], "participants": 1}, {}),
    ],
)
def test_sample_passes_are_those_that_a_run_asks_for(tmp_path, monkeypatch, algorithm, changes):
    run, forward = planned(algorithm=algorithm, **changes), []
    submit = LoopBackend.submit

    def counted(backend, ticket, ask):
        forward.append(ask.passes)
        submit(backend, ticket, ask)

    monkeypatch.setattr(LoopBackend, "submit", counted)
    drive_runs([run.spec], LoopBackend(), tmp_path, lambda _: None, pytest.fail)
    assert cost.sample_passes(run.spec) == pytest.approx(sum(forward) / 3)


def test_a_run_without_a_like_record_is_estimated_by_its_arithmetic():
    """At 70 GFLOP/s, or 13 where the network is narrower, and 0.2 ms a step."""
    whole, half = (
        planned(batch=10, model={"name": "mnist_cnn", "width": w}).spec for w in (1.0, 0.5)
    )
    for spec, rate in ((whole, 70e9), (half, 13e9)):
        seconds = (cost.flop(spec) / rate + 2e-5) * cost.sample_passes(spec)
        assert cost.estimate(spec, {}) == pytest.approx(seconds)
    assert cost.estimate(whole, {cost.kind(whole): 2.0}) == 2 * cost.sample_passes(whole)


def test_downsampled_images_cost_less_and_are_a_kind_of_their_own():
    model = {"name": "fixup_resnet20"}
    whole, half = (
        planned(dataset={"name": "synthetic_rgb", "downsample": by}, model=model).spec
        for by in (1, 2)
    )
    assert cost.flop(half) == cost.flop(whole) / 4
    assert cost.kind(half) != cost.kind(whole)


def test_lanes_are_participants_or_clients_or_one():
    clients = {"partition": {"scheme": "iid_plain", "clients": 20}}
    assert cost.lanes(planned(**clients).spec) == 20
    algorithm = {"name": "fedavg", "participants": 5}
    assert cost.lanes(planned(algorithm=algorithm, **clients).spec) == 5
    assert cost.lanes(planned(algorithm={"name": "sgd"}, **clients).spec) == 1


def test_speed_is_of_the_rounds_that_ended_since_the_training_began():
    """Of a run of four rounds, two were done before; a third takes 10 s, and the fourth longer."""
    run = planned(rounds=4)
    meter = Meter(now=100.0)
    meter.expect(run)
    assert not meter.progressed
    begun = [active(run, 2, resumed_at=2)]
    meter.watch(begun, 105.0)
    assert not meter.progressed
    line = "0 of 1 runs done, 1 in flight: round 2/4, 2 lanes, 50.0 %, no round has ended yet"
    assert meter.line(begun, 0) == line
    third = [active(run, 3, resumed_at=2)]
    passes = cost.sample_passes(run.spec) / 4 / 10
    speed = f"{passes:,.0f} samples/s, {arithmetic(passes * cost.flop(run.spec))}"
    for now in (110.0, 123.0):
        meter.watch(third, now)
        assert meter.speed == speed
        line = f"0 of 1 runs done, 1 in flight: round 3/4, 2 lanes, 75.0 %, {speed}, 10 s left"
        assert meter.line(third, 0) == line
    assert meter.progressed


def test_one_lane_is_not_lanes():
    run = planned()
    meter = Meter(now=0.0)
    meter.expect(run)
    assert ": round 1/3, 1 lane, " in meter.line([active(run, 1, lanes=1)], 0)


def test_what_was_done_of_a_run_that_ends_at_once_says_nothing_about_the_speed():
    run = planned(rounds=4)
    meter = Meter(now=0.0)
    meter.expect(run)
    meter.watch([active(run, 4, resumed_at=3)], 10.0)
    assert meter.speed.startswith(f"{cost.sample_passes(run.spec) / 4 / 10:,.0f} samples/s")


def test_the_share_done_goes_by_arithmetic():
    """A run of the larger network counts for as much more as its passes take."""
    small, large = planned(), planned(model={"name": "mnist_cnn"})
    meter = Meter(now=0.0)
    meter.expect(small)
    meter.expect(large)
    meter.watch([active(small, 3)], 10.0)
    share = cost.flop(small.spec) / (cost.flop(small.spec) + cost.flop(large.spec))
    assert f", {100 * share:.1f} %, " in meter.line([], 1)
    assert share < 0.01


def test_runs_that_fail_or_are_trained_elsewhere_do_not_count():
    ours, other = planned(seed=1), planned(seed=2)
    meter = Meter(now=0.0)
    for run in (ours, other):
        meter.expect(run)
    meter.watch([active(ours, 1), active(other, 1)], 5.0)
    meter.drop(other.id)
    meter.watch([active(ours, 3)], 10.0)
    assert meter.line([], 1).startswith("1 of 1 runs done, 0 in flight: ")
    meter.drop(ours.id)
    assert meter.line([], 0).endswith(" 100.0 %, no round has ended yet")


@pytest.mark.parametrize(
    ("flops", "text"),
    [
        (4.2e13, "42.0 TFLOP/s"),
        (1e12, "1.0 TFLOP/s"),
        (1.23e11, "123.0 GFLOP/s"),
        (0, "0.0 GFLOP/s"),
    ],
)
def test_arithmetic_for_readers(flops, text):
    assert arithmetic(flops) == text


def measured(run, seconds):
    """Return a pace that saw a round of a run take so many seconds, after a slow first one."""
    pace = Pace()
    for done, now in ((0, 0.0), (0, 50.0), (1, 100.0), (1, 100.0 + seconds / 2)):
        pace.watch([active(run, done)], now)
    assert pace.seconds(run.spec, 1.0) is None
    pace.watch([active(run, 2)], 100.0 + seconds)
    return pace


def test_the_pace_is_that_of_a_lane_and_leaves_out_the_first_round():
    run = planned(rounds=10)
    pace = measured(run, 3.0)
    assert pace.seconds(run.spec, 1.0) == pytest.approx(30)
    assert pace.seconds(run.spec, 0.5) == pytest.approx(15)
    wider = planned(
        rounds=10, partition={"scheme": "iid_stratified", "clients": 4, "per_class": 20}
    )
    assert wider.spec.partition.clients == 2 * run.spec.partition.clients
    twice = cost.sample_passes(wider.spec) / cost.sample_passes(run.spec)
    assert pace.seconds(wider.spec, 1.0) == pytest.approx(30 * twice / 2)
    assert pace.seconds(planned(batch=9).spec, 1.0) is None
    assert pace.seconds(planned(precision="bf16").spec, 1.0) is None


def test_a_resumed_run_has_a_first_round_too():
    run = planned(rounds=10)
    pace = Pace()
    for done, now in ((5, 0.0), (6, 100.0), (8, 104.0)):
        pace.watch([active(run, done, resumed_at=5)], now)
    assert pace.seconds(run.spec, 1.0) == pytest.approx(20)


def test_runs_that_can_end_come_first_and_then_those_nearest_to_their_end():
    long, short, unlike = planned(rounds=10), planned(rounds=2), planned(batch=9)
    pace = measured(long, 3.0)
    runs, fresh = [long, short, unlike], lambda run: 0.0
    assert pace.choose(runs, fresh, math.inf) == 0
    assert pace.choose(runs, fresh, 29.0) == 1
    assert pace.choose(runs, fresh, 5.0) == 2  # nothing is known of it
    assert pace.choose(runs[:2], fresh, 5.0) == 1  # neither can end; this one needs less
    assert pace.choose(runs[:2], lambda run: 0.9 if run is long else 0.0, 5.0) == 0
    assert pace.choose(runs[:2], lambda run: 0.9 if run is long else 0.0, 1.0) == 0
