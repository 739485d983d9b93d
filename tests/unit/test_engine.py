"""The loop backend and the driver, against hand-written training and against themselves."""

import dataclasses
import itertools
import math
import time
from types import SimpleNamespace

import numpy as np
import pytest
import small_runs
import torch
from small_runs import Interrupt, drive_runs, stop_in_round_2
from torch.nn import functional

from fedrepro.base.errors import FedreproError
from fedrepro.fl import data, models, streams
from fedrepro.fl.algorithms import ALGORITHMS, participants
from fedrepro.fl.data.dataset import Arrays, build
from fedrepro.fl.engine import active, admission, checkpoint, driver, host_copy, optim, saved
from fedrepro.fl.engine.active import ActiveRun, Storage
from fedrepro.fl.engine.data import DeviceData, tensors_of
from fedrepro.fl.engine.driver import Listener, drive
from fedrepro.fl.engine.graphs import GraphsBackend
from fedrepro.fl.engine.jobs import Ask, LaneError, OutOfTime
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.fl.engine.state import CheckedState
from fedrepro.fl.federation import Federation
from fedrepro.fl.requests import Lane, Objective, Predict, Train, Trained
from fedrepro.fl.spec import RunSpec, run_id

torch.set_num_threads(1)


def make_spec(**changes):
    content = {
        "dataset": {"name": "synthetic"},
        "partition": {"scheme": "iid_stratified", "clients": 2, "per_class": 10},
        "model": {"name": "liu1"},
        "algorithm": {"name": "fedavg"},
        "optimizer": {"name": "sgd", "lr": 0.05, "lr_decay": 0.5},
        "batch": 16,
        "local_epochs": 2,
        "rounds": 3,
        "seed": 5,
    }
    return RunSpec.model_validate(content | changes)


SMALL_CNN = {"name": "mnist_cnn", "width": 0.05}


def answer(fed, dataset, request):
    """Return the loop backend's answer to one request."""
    backend = LoopBackend()
    backend.submit(1, Ask(fed.spec, dataset, request))
    [only] = backend.collect()
    return only.result


def collect(specs, tmp_path, backend=None, **options):
    """Train specs and return progress and weights by run id, and failures."""
    done, failures = {}, {}

    def keep(run):
        done[run.id] = run

    drive_runs(specs, backend or LoopBackend(), tmp_path, keep, failures.setdefault, **options)
    return done, failures


@pytest.mark.parametrize("model", [{"name": "liu1"}, SMALL_CNN])
@pytest.mark.parametrize(
    "optimizer", [{"name": "sgd", "lr": 0.05, "lr_decay": 0.5}, {"name": "adam", "lr": 0.01}]
)
def test_a_lane_equals_hand_written_training(model, optimizer):
    spec = make_spec(model=model, optimizer=optimizer)
    dataset = data.load("synthetic")
    fed = Federation(spec, dataset)
    start, examples = fed.initial_weights(), fed.clients[1]
    lane = Lane(start, examples, ("client", 1))
    [trained] = answer(fed, dataset, Train([lane], round=1))

    net = models.build(model["name"], (1, 28, 28), 10, model.get("width", 1.0))
    with torch.no_grad():
        for position, parameter in enumerate(net.parameters()):
            parameter.copy_(fed.layout.view(start, position))
    lr = optimizer["lr"] * optimizer.get("lr_decay", 1.0)
    kind = torch.optim.Adam if optimizer["name"] == "adam" else torch.optim.SGD
    reference = kind(net.parameters(), lr=lr)
    losses = []
    for epoch in range(2):
        key = streams.key(5, "shuffle", "client", 1, 1, epoch)
        order = examples[streams.permutation(key, len(examples))]
        for begin in range(0, len(order), 16):
            chosen = order[begin : begin + 16]
            images = torch.tensor(dataset.train_x[chosen]).float() / 255
            loss = functional.cross_entropy(net(images), torch.tensor(dataset.train_y[chosen]))
            reference.zero_grad()
            loss.backward()
            reference.step()
            losses += [loss.item()] * len(chosen)
    expected = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    torch.testing.assert_close(trained.weights, expected, rtol=1e-4, atol=1e-5)
    assert trained.loss == pytest.approx(np.mean(losses), rel=1e-4)
    assert not torch.equal(trained.weights, start)


def test_prediction_by_hand():
    spec = make_spec()
    dataset = data.load("synthetic")
    fed = Federation(spec, dataset)
    weights = fed.initial_weights()
    chosen = np.array([3, 1, 4], dtype=np.int64)
    request = Predict([weights], "test", chosen)
    [prediction] = answer(fed, dataset, request)
    hidden, bias, output, last = (fed.layout.view(weights, i) for i in range(4))
    images = torch.tensor(dataset.test_x[chosen]).float().reshape(3, -1) / 255
    logits = torch.relu(images @ hidden.T + bias) @ output.T + last
    labels = torch.tensor(dataset.test_y[chosen])
    assert prediction.classes.tolist() == logits.argmax(1).tolist()
    assert prediction.correct.tolist() == (logits.argmax(1) == labels).tolist()
    assert prediction.loss == pytest.approx(
        float(functional.cross_entropy(logits, labels)), rel=1e-5
    )


def test_the_standard_transform_uses_the_constants_of_the_data_set():
    dataset = data.load("synthetic")
    spec = make_spec(dataset={"name": "synthetic", "transform": "standard"})
    constants = data.describe("synthetic")
    device_data = DeviceData(spec.dataset, tensors_of(dataset), torch.device("cpu"))
    images, _ = device_data.batch("train", torch.arange(7))
    raw = dataset.train_x[:7].astype(np.float64) / 255
    expected = (raw - constants.mean[0]) / constants.std[0]
    np.testing.assert_allclose(images.numpy(), expected, rtol=1e-4, atol=1e-5)


ALONE = [
    make_spec(seed=1),
    make_spec(seed=2, model=SMALL_CNN),
    make_spec(seed=3, algorithm={"name": "local"}, rounds=2),
    make_spec(seed=4, algorithm={"name": "sgd"}, optimizer={"name": "adam", "lr": 0.01}),
]


def test_runs_together_equal_runs_alone_to_the_bit(tmp_path):
    together, _ = collect(ALONE, tmp_path / "together", in_flight=3)
    for spec in ALONE:
        alone, _ = collect([spec], tmp_path / "alone")
        run, other = together[run_id(spec)], alone[run_id(spec)]
        assert run.progress.metrics == other.progress.metrics
        assert run.progress.final == other.progress.final


def test_evaluation_follows_the_spec(tmp_path):
    spec = make_spec(rounds=5, evaluate_every=2)
    done, _ = collect([spec], tmp_path)
    metrics, final = done[run_id(spec)].progress.metrics, done[run_id(spec)].progress.final
    assert metrics["evaluated_rounds"] == [2, 4, 5]
    assert {name: metrics[name][-1] for name in ("accuracy", "loss")}.items() <= final.items()
    assert len(metrics["accuracy"]) == 3
    assert len(metrics["train_loss"]) == 5
    assert metrics["train_loss"][-1] < metrics["train_loss"][0]


@pytest.mark.parametrize("init_seed", [0, 9])
def test_common_and_own_initial_weights(init_seed):
    dataset = data.load("synthetic")
    fed = Federation(make_spec(init_seed=init_seed), dataset)
    same = Federation(make_spec(seed=6, init_seed=init_seed), dataset)
    assert torch.equal(fed.initial_weights(), same.initial_weights())
    assert not torch.equal(fed.initial_weights(), fed.initial_weights(0))
    assert not torch.equal(fed.initial_weights(1), fed.initial_weights(0))


def test_initial_weights_leave_the_generators_of_the_program_alone(monkeypatch):
    fed, seeded = Federation(make_spec(), data.load("synthetic")), []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    before = torch.random.get_rng_state()
    fed.initial_weights()
    assert torch.equal(before, torch.random.get_rng_state())
    assert seeded == []


def test_the_spec_says_how_initial_weights_are_drawn():
    dataset = data.load("synthetic")
    name = make_spec().model.name
    drawn = {
        init: Federation(make_spec(model={"name": name, "init": init}), dataset).initial_weights()
        for init in ("own", "glorot", "truncated_normal")
    }
    assert float(drawn["truncated_normal"].abs().max()) == pytest.approx(0.2, rel=0.02)
    for one, other in itertools.combinations(drawn.values(), 2):
        assert not torch.isclose(one, other).all()


def test_initial_weights_are_of_the_run_seed_where_no_other_is_named():
    dataset = data.load("synthetic")
    unnamed, named, other = (
        Federation(make_spec(**seeds), dataset).initial_weights()
        for seeds in ({"seed": 6}, {"seed": 5, "init_seed": 6}, {"seed": 5})
    )
    assert torch.equal(unnamed, named)
    assert not torch.equal(unnamed, other)


def test_participants_are_drawn_by_round_and_seed():
    dataset, twenty = data.load("synthetic"), {"scheme": "iid_plain", "clients": 20}
    fed, again, other = (
        Federation(make_spec(partition=twenty, seed=seed), dataset) for seed in (5, 5, 6)
    )
    drawn = [tuple(fed.participants(t, 5)) for t in range(10)]
    assert all(len(set(clients)) == 5 for clients in drawn)
    assert len(set(drawn)) > 5
    assert drawn == [tuple(again.participants(t, 5)) for t in range(10)]
    assert drawn != [tuple(other.participants(t, 5)) for t in range(10)]
    assert fed.participants(0, None) == fed.participants(0, 20) == list(range(20))
    with pytest.raises(
        FedreproError, match="draws 21 clients for a round, and the partition has 20"
    ):
        fed.participants(0, 21)


@pytest.mark.parametrize(
    "algorithm",
    [
        {"name": "fedavg", "optimizer_state": "keep"},
        {"name": "local", "initial": "own"},
        {"name": "sgd"},
        {
            "name": "selective",
            "local_rounds": 1,
            "aggregation": "alias",
            "optimizer_state": "keep",
            "initial": "own",
        },
        {"name": "fedopt", "server_momentum": 0.5},
        {"name": "feddyn", "alpha": 0.1, "participants": 2},
        {"name": "fedfa", "participants": 2},
        {"name": "cadis", "participants": 2},
        {"name": "probe", "warm_up": 3},
        {"name": "divergence_bound"},
    ],
    ids=lambda algorithm: algorithm["name"],
)
def test_a_run_that_is_cut_off_resumes_to_the_same_bits(tmp_path, algorithm):
    descent = algorithm["name"] == "divergence_bound"  # knows no other
    spec = make_spec(
        algorithm=algorithm,
        partition={
            "scheme": "balanced_percent",
            "clients": 3,
            "percent": 50,
            "validation": 400,
        },
        optimizer={"name": "sgd" if descent else "adam", "lr": 0.01},
        batch=128,
        local_epochs=1,
        rounds=4,
    )
    whole, _ = collect([spec], tmp_path / "whole")

    with pytest.raises(Interrupt):
        collect([spec], tmp_path / "cut", on_progress=stop_in_round_2, checkpoint_seconds=0)
    assert (tmp_path / "cut" / f"{run_id(spec)}.pt").exists()
    rounds_seen = []
    resumed, _ = collect(
        [spec],
        tmp_path / "cut",
        on_progress=lambda active: rounds_seen.extend(run.progress.round for run in active),
    )
    assert min(rounds_seen) >= 1  # not from the start
    run, other = resumed[run_id(spec)], whole[run_id(spec)]
    assert run.progress.metrics == other.progress.metrics
    assert run.progress.final == other.progress.final
    assert not list((tmp_path / "cut").glob("*.pt"))


def test_a_diverging_run_fails_by_name_and_the_others_go_on(tmp_path):
    bad = make_spec(optimizer={"name": "sgd", "lr": 1e30}, seed=8)
    good = make_spec(seed=9)
    done, failures = collect([bad, good], tmp_path, in_flight=2)
    assert list(done) == [run_id(good)]
    message = str(failures[run_id(bad)])
    assert run_id(bad) in message
    assert "failed: round 1: lane 'client 0' has a loss of nan" in message


def test_an_infinite_loss_fails_its_run_by_name_and_the_others_go_on(tmp_path):
    """One step leaves finite weights, and logits that are not."""
    one_step = {"batch": 100, "local_epochs": 1, "rounds": 1}
    bad = make_spec(optimizer={"name": "sgd", "lr": 1e22}, seed=8, **one_step)
    good = make_spec(seed=9)
    done, failures = collect([bad, good], tmp_path, in_flight=2)
    assert list(done) == [run_id(good)]
    assert f"run {run_id(bad)} failed: round 1: loss is not a finite number" in str(
        failures[run_id(bad)]
    )


@pytest.mark.parametrize(
    ("logs", "text"),
    [
        ([{"a": 1.0}, {"a": 1.0, "b": 2.0}], "round 2: the algorithm logs b, of which there are 1"),
        ([{"accuracy": 1.0}, {"accuracy": 1.0}], "round 2: the algorithm logs accuracy, of which"),
        ([None], "`round` returns None, not a dictionary of what it logs"),
        ([{"a": None}], "round 1: a is None, not a number"),
        ([{"a": 1.0}, {"a": "high"}], "round 2: a is 'high', not a number"),
        ([{"a": [1.0]}], "round 1: a is [1.0], not a number"),
        ([{"a": torch.ones(())}], "round 1: a is tensor(1.), not a number; the algorithm must"),
        ([{"a": math.nan}], "round 1: a is not a finite number"),
        ([{"seed": 1.0}], "round 1: seed cannot be the name of a metric"),
    ],
)
def test_a_log_that_could_not_be_told_apart_fails_its_run(tmp_path, monkeypatch, logs, text):
    def a_round(fed, state, t):
        yield Predict([state.weights], "test")
        state.weights = state.weights + 1
        return logs[t]

    small_runs.change_algorithm(monkeypatch, "sgd", round=a_round)
    _, failures = collect([make_spec(algorithm={"name": "sgd"}, rounds=2)], tmp_path)
    assert text in str(*failures.values())


def test_what_an_evaluation_returns_is_numbers_or_lists(tmp_path, monkeypatch):
    def evaluate(fed, state):
        yield Predict([state.weights], "test")
        return {"per_class": [0.5, 0.25], "best": "the second"}

    small_runs.change_algorithm(monkeypatch, "sgd", evaluate=evaluate)
    _, failures = collect([make_spec(algorithm={"name": "sgd"})], tmp_path)
    assert "round 1: best is 'the second', not a number" in str(*failures.values())


@pytest.mark.parametrize("sometimes", [lambda t: t > 0, lambda t: t == 0], ids=["late", "early"])
def test_what_evaluations_return_only_sometimes_fails_its_run(tmp_path, monkeypatch, sometimes):
    """Its values would be taken for those of other rounds."""
    evaluations = itertools.count()

    def evaluate(fed, state):
        yield Predict([state.weights], "test")
        return {"accuracy": 0.5} | ({"b": 1.0} if sometimes(next(evaluations)) else {})

    small_runs.change_algorithm(monkeypatch, "sgd", evaluate=evaluate)
    _, failures = collect([make_spec(algorithm={"name": "sgd"})], tmp_path)
    assert "round 2: evaluations return b only sometimes" in str(*failures.values())


def test_a_summary_may_not_replace_the_last_evaluation(tmp_path, monkeypatch):
    small_runs.change_algorithm(monkeypatch, "sgd", summary=lambda *_: {"accuracy": 0.999})
    _, failures = collect([make_spec(algorithm={"name": "sgd"})], tmp_path)
    assert "sgd: `summary` returns accuracy, which the last" in str(*failures.values())


def test_a_snapshot_after_many_rounds_is_as_much_work_as_after_few(tmp_path, monkeypatch):
    run = ActiveRun(make_spec(), data.load("synthetic"), Storage(tmp_path, math.inf))
    mapped, calls = host_copy.mapped, []

    def counted(value, change):
        calls.append(value)
        return mapped(value, change)

    monkeypatch.setattr(host_copy, "mapped", counted)
    work = []
    for _ in range(3):
        run.progress.metrics["train_loss"] += [0.5] * 1000
        calls.clear()
        run._snapshot()
        work.append(len(calls))
    assert 0 < work[0] == work[1] == work[2]


def test_a_run_that_ends_without_a_record_is_saved_as_before_its_summary(tmp_path, monkeypatch):
    """A checkpoint with one would be refused: its names are in no evaluation."""
    small_runs.change_algorithm(monkeypatch, "sgd", summary=lambda *_: {"groups": 2})
    spec = make_spec(algorithm={"name": "sgd"})

    def no_room(_):
        raise FedreproError("no room for the record")

    with pytest.raises(FedreproError, match="no room"):
        drive_runs([spec], LoopBackend(), tmp_path, no_room, lambda *_: pytest.fail("failed"))
    found = saved.read(tmp_path / f"{run_id(spec)}.pt", run_id(spec))
    assert found.progress.round == 3
    assert "groups" not in found.progress.final
    done, _ = collect([spec], tmp_path)
    assert done[run_id(spec)].resumed_at == 3
    assert done[run_id(spec)].progress.final == found.progress.final | {"groups": 2}


def test_numbers_of_numpy_may_be_logged_and_resumed(tmp_path, monkeypatch):
    """A checkpoint with one could not be read."""

    def a_round(fed, state, t):
        yield Predict([state.weights], "test")
        state.weights = state.weights + 1
        return {"a": np.float64(0.5), "b": np.int64(t), "c": np.float32(0.25)}

    small_runs.change_algorithm(monkeypatch, "sgd", round=a_round)
    spec = make_spec(algorithm={"name": "sgd"})
    with pytest.raises(Interrupt):
        collect([spec], tmp_path, on_progress=stop_in_round_2, checkpoint_seconds=0)
    done, _ = collect([spec], tmp_path)
    metrics = done[run_id(spec)].progress.metrics
    assert (metrics["a"], metrics["b"], metrics["c"]) == ([0.5] * 3, [0, 1, 2], [0.25] * 3)


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        (np.zeros(3), "moments of its state holds a numpy.ndarray"),
        ([np.float64(1)], "moments of its state holds a numpy.float64"),
        ({np.int64(1): 2.0}, "moments of its state holds a numpy.int64"),
        ((torch.zeros(1),), "moments of its state holds a torch.Tensor"),
        ({(1, 2): [None, "a", 1.5, {3: torch.zeros(2)}]}, ""),
    ],
)
def test_a_state_that_no_checkpoint_can_hold_fails_its_run(tmp_path, monkeypatch, kept, text):
    def a_round(fed, state, t):
        yield Predict([state.weights], "test")
        state.weights = state.weights + 1
        state.moments = kept
        return {}

    small_runs.change_algorithm(monkeypatch, "sgd", round=a_round)
    _, failures = collect([make_spec(algorithm={"name": "sgd"}, rounds=2)], tmp_path)
    assert text in str(*failures.values())
    assert bool(failures) == bool(text)


@dataclasses.dataclass
class Sharing:
    """A state that forgets an annotation."""

    weights: torch.Tensor
    controls = {}  # noqa: RUF012 - which is the point


def test_a_state_that_its_class_shares_among_runs_fails_its_run(tmp_path, monkeypatch):
    init = {"init": lambda fed: Sharing(fed.initial_weights())}
    small_runs.change_algorithm(monkeypatch, "sgd", **init)
    _, failures = collect([make_spec(algorithm={"name": "sgd"})], tmp_path)
    text = "sgd: controls of its state belongs to the class, so all runs share it"
    assert text in str(*failures.values())


def test_a_state_that_gets_more_in_a_round_fails_its_run(tmp_path, monkeypatch):
    """As a resumed run could not tell that from a checkpoint of other code."""

    def a_round(fed, state, t):
        yield Predict([state.weights], "test")
        state.velocity = state.weights
        return {}

    small_runs.change_algorithm(monkeypatch, "sgd", round=a_round)
    _, failures = collect([make_spec(algorithm={"name": "sgd"})], tmp_path)
    assert "sgd: velocity of its state comes or goes in a round" in str(*failures.values())


@pytest.mark.parametrize(
    "change",
    [
        lambda state: {"sum": state.weights.sum().double()},
        lambda state: {"weights": torch.cat([state.weights, torch.zeros(1)])},
        lambda state: {"weights": [state.weights]},
    ],
)
def test_a_state_that_becomes_of_another_kind_fails_its_run(tmp_path, monkeypatch, change):
    """A checkpoint of it would be refused as one of other code."""

    def a_round(fed, state, t):
        yield Predict([state.weights], "test")
        vars(state).update(change(state))
        return {}

    def evaluate(fed, state):
        yield Predict([fed.initial_weights()], "test")
        return {"accuracy": 0.5}

    parts = {"init": PlainState, "round": a_round, "evaluate": evaluate}
    small_runs.change_algorithm(monkeypatch, "sgd", **parts)
    _, failures = collect([make_spec(algorithm={"name": "sgd"})], tmp_path)
    assert " of its state is of another kind, shape or dtype than `init`" in str(*failures.values())


def test_a_tensor_that_would_be_elsewhere_after_a_resume_is_refused():
    place = torch.device("meta")  # in place of a GPU
    CheckedState("own", SimpleNamespace(x=torch.zeros(2, device=place), y=torch.zeros(2).double()))
    with pytest.raises(FedreproError, match=r"own: x .* torch.float64 on meta, which a run that"):
        CheckedState("own", SimpleNamespace(x=[torch.zeros(2, device=place).double()]))


class PlainState:
    """A state of a class with arguments of its own."""

    def __init__(self, fed):
        self.weights = fed.initial_weights()
        self.sum = torch.zeros(())


@dataclasses.dataclass
class Derived:
    """A state that begins with what follows from a field."""

    weights: torch.Tensor
    sum: torch.Tensor | None = None

    def __post_init__(self):
        self.sum = torch.zeros(())


@pytest.mark.parametrize("init", [PlainState, lambda fed: Derived(fed.initial_weights())])
def test_a_state_resumes_as_it_was_however_it_is_made(tmp_path, monkeypatch, init):
    def a_round(fed, state, t):
        lane = Lane(state.weights, fed.clients[0], ("client", 0))
        [trained] = yield Train([lane], t)
        state.weights = trained.weights
        state.sum = state.sum + trained.weights.sum()
        return {"sum": float(state.sum)}

    small_runs.change_algorithm(monkeypatch, "sgd", init=init, round=a_round)
    spec = make_spec(algorithm={"name": "sgd"}, rounds=4)
    whole, _ = collect([spec], tmp_path / "whole")
    with pytest.raises(Interrupt):
        collect([spec], tmp_path / "cut", on_progress=stop_in_round_2, checkpoint_seconds=0)
    resumed, failures = collect([spec], tmp_path / "cut")
    assert not failures
    found, expected = (runs[run_id(spec)].progress.metrics for runs in (resumed, whole))
    assert found == expected


def test_a_state_that_is_changed_in_place_fails_its_run(tmp_path, monkeypatch):
    """Stopped in the evaluation, it would be saved as of the round before, with this one's sum."""

    def a_round(fed, state, t):
        yield Predict([state.weights], "test")
        state.weights += 1
        return {}

    small_runs.change_algorithm(monkeypatch, "sgd", round=a_round)
    _, failures = collect([make_spec(algorithm={"name": "sgd"}, rounds=2)], tmp_path)
    assert "sgd: a tensor in weights of its state was changed in place" in str(*failures.values())


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda fed, w: w, "yields tensor"),
        (lambda fed, w: Train(lane_of(fed, w), 0), "Train.lanes is Lane("),
        (lambda fed, w: Train([lane_of(fed, w, stream="client")], 0), "Lane.stream is 'client'"),
        (lambda fed, w: Train([lane_of(fed, w.double())], 0), "weights are torch.float64; convert"),
        (lambda fed, w: Train([lane_of(fed, w.view(1, -1))], 0), "is not a flat tensor of weights"),
        (
            lambda fed, w: Train([lane_of(fed, w[:7])], 0),
            "Lane.weights has 7 numbers, and this network needs ",
        ),
        (
            lambda fed, w: Train([lane_of(fed, w, linear=w[:7])], 0),
            "Lane.linear has 7 numbers, and",
        ),
        (
            lambda fed, w: Train([lane_of(fed, w, optimizer_state={"velocity": w[:1]})], 0),
            "Lane.optimizer_state['velocity'] has 1 numbers, and",
        ),
        (
            lambda fed, w: Train([lane_of(fed, w, optimizer_state={"momentum": w})], 0),
            "Lane.optimizer_state has momentum, and this optimiser needs velocity (spec field opti",
        ),
        (
            lambda fed, w: Train([lane_of(fed, w, optimizer_state={})], 0),
            "Lane.optimizer_state has nothing, and this optimiser needs velocity",
        ),
        (
            lambda fed, w: Train([lane_of(fed, w.clone().requires_grad_())], 0),
            "Lane.weights: weights come with a gradient; leave it with `.detach()`",
        ),
        (
            lambda fed, w: Train([lane_of(fed, w, lr=torch.tensor(0.1))], 0),
            "Lane.lr is tensor(0.1000), not a finite number from 0 on; `float(x)` makes one",
        ),
        (lambda fed, w: asked(fed, w, proximal=torch.ones(())), "Objective.proximal is tensor(1.)"),
        (lambda fed, w: asked(fed, w, gradient_noise=-1.0), "Objective.gradient_noise is -1.0"),
        (
            lambda fed, w: asked(fed, w, quantise_bits=2.5),
            "quantise_bits is 2.5, not a whole",
        ),
        (
            lambda fed, w: asked(fed, w, terms=("a", 0.5)),
            "terms has 'a', not a pair of",
        ),
        (lambda fed, w: asked(fed, w, terms=(("a", math.nan),)), "the weight of a is nan, not a f"),
        (
            lambda fed, w: asked(fed, w, projection="step"),
            "projection is 'step', not weights",
        ),
        (lambda fed, w: asked(fed, w, projection="weights"), "Objective.radius is inf, not a fin"),
        (lambda fed, w: Predict([w, w[:7]], "test"), "Predict.models has 7 numbers, and"),
        (lambda fed, w: Train([lane_of(fed, w, examples=[0, 1])], 0), "Lane.examples is [0, 1]"),
        (
            lambda fed, w: Train([lane_of(fed, w, examples=np.array([True, False]))], 0),
            "Lane.examples is array([ True, False]), not an array of positions",
        ),
        (
            lambda fed, w: Train([lane_of(fed, w, examples=np.array([fed.train_size]))], 0),
            "Lane.examples has positions that the 2000 examples do not have",
        ),
        (
            lambda fed, w: Train([lane_of(fed, w, batch=0)], 0),
            "Lane.batch is 0, not a whole",
        ),
        (lambda fed, w: Train([lane_of(fed, w, batch=2.5)], 0), "Lane.batch is 2.5, not a whole"),
        (lambda fed, w: Train([lane_of(fed, w, epochs=-1)], 0), "Lane.epochs is -1, not a whole"),
        (lambda fed, w: Train([lane_of(fed, w)], 0, epochs=-1), "Train.epochs is -1, not a whole"),
        (lambda fed, w: Predict([w], "test", np.array([-1])), "Predict.examples has positions"),
        (lambda fed, w: Predict([w], "test", np.zeros(0, int)), "Predict.examples is empty"),
        (lambda fed, w: Predict([], "test"), "Predict.models is []"),
        (lambda fed, w: Predict([w], "validation"), "Predict.split is 'validation', not train or"),
        (
            lambda fed, w: Predict([w], "test", w),
            "neither an array of positions, int64 [n], nor a list with one for each model",
        ),
        (
            lambda fed, w: Predict([w, w], "test", [0, 1]),
            "Predict.examples[0] is 0, not an array of positions",
        ),
        (
            lambda fed, w: Predict([w, w], "test", [np.arange(3)]),
            "Predict.examples has 1 arrays for 2 models; give one for each, or one array without",
        ),
        (
            lambda fed, w: Predict([w, w], "test", [np.arange(3), np.array([500])]),
            "Predict.examples[1] has positions that the 500 examples do not have",
        ),
        (
            lambda fed, w: Predict([w, w], "test", [np.arange(3), np.zeros(0, int)]),
            "Predict.examples[1] is empty; leave out a model that has no examples",
        ),
        (
            lambda fed, w: Train(
                [lane_of(fed, w)], 0, objective=Objective(terms=(("pairwise_divergence", 1.0),))
            ),
            "uses the loss term pairwise_divergence, which its Algorithm.loss_terms lacks",
        ),
    ],
)
def test_a_malformed_request_fails_its_run_before_a_device_sees_it(
    tmp_path, monkeypatch, ask, text
):
    def a_round(fed, state, t):
        yield ask(fed, state.weights)

    small_runs.change_algorithm(monkeypatch, "sgd", round=a_round)
    momentum = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
    spec = make_spec(algorithm={"name": "sgd"}, optimizer=momentum)
    _, failures = collect([spec], tmp_path)
    message = str(*failures.values())
    assert f"run {run_id(spec)} failed: algorithm sgd: " in message
    assert text in message


@pytest.mark.parametrize("client", [2, -1])
@pytest.mark.parametrize(
    "ask",
    [
        lambda fed, w, k: participants.train(fed, w, [0, k], 0, Objective()),
        lambda fed, w, k: participants.accuracies(fed, w, [k]),
        lambda fed, w, k: participants.own_accuracies(fed, [Trained(w, 0.0, None)], [k]),
    ],
)
def test_a_client_that_there_is_not_is_named(tmp_path, monkeypatch, ask, client):
    def a_round(fed, state, t):
        return (yield from ask(fed, state.weights, client))

    small_runs.change_algorithm(monkeypatch, "sgd", round=a_round)
    _, failures = collect([make_spec(algorithm={"name": "sgd"})], tmp_path)
    text = f"sgd: asks for client {client}, and the partition has the clients 0 to 1"
    assert str(*failures.values()).endswith(text)


def lane_of(fed, weights, **changes):
    lane = Lane(weights, fed.clients[0], ("client", 0))
    return dataclasses.replace(lane, **changes)


def asked(fed, weights, **objective):
    return Train([lane_of(fed, weights)], 0, objective=Objective(**objective))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"round": lambda *_: {}}, "sgd: `round` is not a generator"),
        ({"evaluate": lambda *_: {}}, "sgd: `evaluate` is not a generator"),
        ({"init": lambda _: {}}, "sgd: `init` returns a dict; its state must be a dataclass"),
    ],
)
def test_an_algorithm_that_is_not_written_as_one_fails_its_runs(
    tmp_path, monkeypatch, changes, text
):
    small_runs.change_algorithm(monkeypatch, "sgd", **changes)
    _, failures = collect([make_spec(algorithm={"name": "sgd"})], tmp_path)
    assert text in str(*failures.values())
    assert "Traceback" not in str(*failures.values())


@pytest.mark.parametrize("ids", [(), (0, "0")], ids=str)
def test_lanes_of_one_request_that_share_a_stream_fail_their_run(tmp_path, monkeypatch, ids):
    """They would have the same shuffles and dropout masks, and nothing would show it."""

    def a_round(fed, state, t):
        streams = [("client", *ids[k : k + 1]) for k in range(2)]
        lanes = [Lane(state.weights, fed.clients[k], streams[k]) for k in range(2)]
        trained = yield Train(lanes, t)
        state.weights = trained[0].weights
        return {}

    small_runs.change_algorithm(monkeypatch, "sgd", round=a_round)
    _, failures = collect([make_spec(algorithm={"name": "sgd"})], tmp_path)
    assert "sgd: two lanes of a request have the stream ('client'," in str(*failures.values())


def test_pretraining_logs_what_all_rounds_do():
    with pytest.raises(ValueError, match="local_accuracy: epochs of pretrain_epochs have none"):
        make_spec(algorithm={"name": "fedavg", "pretrain_epochs": 2, "local_accuracy": True})


def test_batch_normalisation_of_single_pixels_needs_two_examples(tmp_path):
    """BatchNorm2d, too, where the maps are 1x1."""
    partition = {"scheme": "iid_stratified", "clients": 1, "per_class": 1}
    spec = make_spec(
        dataset={"name": "synthetic", "downsample": 4},
        model={"name": "resnet18", "width": 0.05},
        partition=partition,
        batch=9,
    )
    _, failures = collect([spec], tmp_path)
    assert "set last_batch: drop_single" in str(*failures.values())
    assert "Traceback" not in str(*failures.values())


@pytest.mark.parametrize("where", ["init", "round"])
def test_an_error_of_the_program_fails_its_run_with_the_traceback(tmp_path, monkeypatch, where):
    def broken(*_):
        raise ZeroDivisionError("a fault of the program")

    bad, good = make_spec(algorithm={"name": "sgd"}), make_spec()
    small_runs.change_algorithm(monkeypatch, "sgd", **{where: broken})
    done, failures = collect([bad, good], tmp_path)
    assert list(done) == [run_id(good)]
    message = str(failures[run_id(bad)])
    place = "init" if where == "init" else "round 1"
    reason = f"algorithm sgd, {place}: ZeroDivisionError: a fault of the program"
    assert message.startswith(f"run {run_id(bad)} failed: {reason}\nTraceback (most recent call")
    assert f'{__file__}", line' in message.splitlines()[2]
    assert message.endswith("ZeroDivisionError: a fault of the program")


def test_an_error_rounds_after_a_resume_is_not_blamed_on_the_checkpoint(tmp_path, monkeypatch):
    usual = ALGORITHMS["sgd"].round

    def a_round(fed, state, t):
        if t == 3:
            raise KeyError("never seen")
        return (yield from usual(fed, state, t))

    small_runs.change_algorithm(monkeypatch, "sgd", round=a_round)
    spec = make_spec(algorithm={"name": "sgd"}, rounds=5)
    with pytest.raises(Interrupt):
        collect([spec], tmp_path, on_progress=stop_in_round_2, checkpoint_seconds=0)
    _, failures = collect([spec], tmp_path)
    message = str(failures[run_id(spec)])
    assert "algorithm sgd, round 4: KeyError: 'never seen'\nTraceback" in message
    assert ".pt" not in message


def test_a_data_set_that_cannot_be_had_is_looked_for_and_explained_once(tmp_path):
    specs = [make_spec(seed=seed, dataset={"name": "mnist"}) for seed in range(3)]
    good, looked_for, failures = make_spec(), [], []

    def load(spec):
        looked_for.append(spec.dataset.name)
        if spec.dataset.name == "mnist":
            raise FedreproError("no network")
        return data.load(spec.dataset.name)

    drive(
        [*specs, good],
        load,
        LoopBackend(),
        Listener(
            done=lambda run: looked_for.append(f"done {run.id}"),
            failed=lambda _, failure: failures.append(str(failure)),
        ),
        Storage(checkpoints=tmp_path),
    )
    assert looked_for == ["mnist", "synthetic", f"done {run_id(good)}"]
    first, *others = (run_id(spec) for spec in specs)
    assert failures == [
        f"run {first} failed: no network",
        *(
            f"run {other} failed: data set mnist cannot be loaded, as run {first} says"
            for other in others
        ),
    ]


def test_a_data_set_that_is_replaced_meanwhile_is_not_taken_for_the_one_before(tmp_path):
    """A backend keeps data sets by name: the second run would be trained on those of the first."""
    usual = data.load("synthetic")
    inverted = Arrays(255 - usual.train_x, usual.train_y, 255 - usual.test_x, usual.test_y)
    replaced = build(data.describe("synthetic"), inverted, "pack", "a pack")
    sets, done, failures = iter([usual, replaced]), [], []
    specs = [make_spec(seed=seed, rounds=1) for seed in (0, 1)]
    listener = Listener(done.append, lambda name, failure: failures.append((name, str(failure))))
    drive(specs, lambda _: next(sets), LoopBackend(), listener, Storage(checkpoints=tmp_path))
    assert [run.spec.seed for run in done] == [0]
    ((name, said),) = failures
    assert name == run_id(specs[1])
    hashes = f"hash is {replaced.sha256[:12]}, and other runs of this training are on"
    assert f"{hashes} {usual.sha256[:12]}; train this run in a call of its own" in said


def test_a_checkpoint_that_cannot_be_written_ends_the_training(tmp_path, monkeypatch):
    """No run is to blame, so none fails; the next one would only be trained in vain."""

    def full(*_):
        raise OSError(28, "No space left on device")

    failures = []
    monkeypatch.setattr(checkpoint.torch, "save", full)
    with pytest.raises(checkpoint.NotSaved, match="No space left"):
        drive(
            [make_spec(), make_spec(seed=6)],
            lambda spec: data.load(spec.dataset.name),
            LoopBackend(),
            Listener(
                done=lambda run: pytest.fail("went on"), failed=lambda run, _: failures.append(run)
            ),
            Storage(checkpoints=tmp_path, checkpoint_seconds=0),
        )
    assert not failures


def test_checkpoints_are_no_closer_together_than_asked(tmp_path, monkeypatch):
    """Of a run whose rounds take 10 s each."""
    clock, saved = SimpleNamespace(now=0.0), []
    done, save = ActiveRun._round_done, ActiveRun.save

    def later(run):
        clock.now += 10
        done(run)

    def noted(run):
        saved.append(run.progress.round)
        save(run)

    monkeypatch.setattr(active, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(ActiveRun, "_round_done", later)
    monkeypatch.setattr(ActiveRun, "save", noted)
    collect([make_spec(rounds=9)], tmp_path, checkpoint_seconds=30)
    assert saved == [3, 6]


def test_checkpoints_that_take_long_are_written_less_often(tmp_path, monkeypatch):
    """Ten seconds of every two hundred, with two runs of which each takes five."""
    clock, save, finish = SimpleNamespace(now=0.0), checkpoint.save, ActiveRun._round_done
    saved = []

    def slow(path, run, progress):
        clock.now += 5.0
        saved.append(clock.now)
        save(path, run, progress)

    def later(run):
        clock.now += 10.0
        finish(run)

    monkeypatch.setattr(active, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(ActiveRun, "_round_done", later)
    monkeypatch.setattr(checkpoint, "save", slow)
    specs = [make_spec(rounds=30, local_epochs=1, seed=seed) for seed in range(2)]
    collect(specs, tmp_path, in_flight=2, checkpoint_seconds=30)
    assert 5 <= len(saved) <= 7
    assert 5.0 * len(saved) <= 0.06 * clock.now
    before = len(saved)
    collect(specs, tmp_path, in_flight=2, checkpoint_seconds=0)
    assert len(saved) - before == 2 * 29


def test_at_the_deadline_one_failing_checkpoint_does_not_keep_the_others(tmp_path, monkeypatch):
    specs = [make_spec(seed=seed) for seed in range(3)]
    save = checkpoint.save

    def first_fails(path, run, progress):
        if run == run_id(specs[0]):
            raise checkpoint.NotSaved("no space")
        save(path, run, progress)

    monkeypatch.setattr(checkpoint, "save", first_fails)
    with pytest.raises(checkpoint.NotSaved, match="no space"):
        collect(specs, tmp_path, in_flight=3, deadline=0.0)
    assert {file.stem for file in tmp_path.glob("*.pt")} == {run_id(spec) for spec in specs[1:]}


def test_checkpoints_that_take_long_are_begun_before_the_deadline(tmp_path, monkeypatch):
    save, deadlines = checkpoint.save, []

    def slow(*arguments):
        time.sleep(0.02)
        save(*arguments)

    class Watched(LoopBackend):
        def collect(self, deadline):
            deadlines.append(deadline)
            return super().collect(deadline)

    monkeypatch.setattr(checkpoint, "save", slow)
    end = time.monotonic() + 600
    collect(
        [make_spec(seed=seed) for seed in range(2)],
        tmp_path,
        Watched(),
        in_flight=2,
        deadline=end,
        checkpoint_seconds=0.0,
    )
    assert deadlines[0] == end
    assert min(deadlines) <= end - 2 * 0.02


def test_a_signal_while_checkpoints_are_written_at_the_deadline_keeps_none(tmp_path, monkeypatch):
    """As a scheduler sends one when its own limit is near."""
    specs = [make_spec(seed=seed) for seed in range(3)]
    save, once = checkpoint.save, iter([True])

    def interrupted(path, run, progress):
        if next(once, False):
            raise KeyboardInterrupt
        save(path, run, progress)

    monkeypatch.setattr(checkpoint, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        collect(specs, tmp_path, in_flight=3, deadline=0.0)
    assert {file.stem for file in tmp_path.glob("*.pt")} == {run_id(spec) for spec in specs}


def cut_off(spec, tmp_path, **options):
    """Train a run until round 2 and leave its checkpoint of round 1 or 2."""

    with pytest.raises(Interrupt):
        collect([spec], tmp_path, on_progress=stop_in_round_2, checkpoint_seconds=0, **options)


def test_the_parts_of_a_run_are_those_of_equal_origin(tmp_path):
    spec = make_spec(rounds=5)
    cut_off(spec, tmp_path, origin={"device": "a"})
    first = checkpoint.load(tmp_path / f"{run_id(spec)}.pt", run_id(spec))
    rounds = first["progress"]["round"]
    assert first["parts"] == [
        {"origin": {"device": "a"}, "rounds": rounds, "seconds": first["progress"]["seconds"]}
    ]
    same, _ = collect([spec], tmp_path, origin={"device": "a"})
    assert [part.rounds for part in same[run_id(spec)].parts] == [5]
    cut_off(spec, tmp_path, origin={"device": "a"})
    other, _ = collect([spec], tmp_path, origin={"device": "b"})
    run = other[run_id(spec)]
    assert [(part.origin["device"], part.rounds) for part in run.parts] == [
        ("a", rounds),
        ("b", 5 - rounds),
    ]
    assert sum(part.seconds for part in run.parts) == pytest.approx(run.progress.seconds)


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    spec = make_spec()
    cut_off(spec, tmp_path)
    dataset = data.load("synthetic")
    other = dataclasses.replace(dataset, sha256="1" * 64)
    failures = []
    drive(
        [spec],
        lambda _: other,
        LoopBackend(),
        Listener(
            done=lambda _: pytest.fail("went on"),
            failed=lambda _, failure: failures.append(str(failure)),
        ),
        Storage(checkpoints=tmp_path),
    )
    [message] = failures
    assert f"{run_id(spec)}.pt: this checkpoint was made on other examples" in message
    assert dataset.sha256[:12] in message
    assert "here 111111111111" in message


@pytest.mark.parametrize(
    ("params", "partition"),
    [
        ({}, {"clients": 3, "percent": 50, "validation": 0}),
        ({"grouping": "single", "vectors": "half"}, {"clients": 3, "percent": 50, "validation": 0}),
        # dealt to six nodes, every other image is an even node's
        ({"vectors": "half"}, {"clients": 6, "percent": 100, "validation": 60}),
    ],
)
def test_selective_needs_images_that_nobody_holds(tmp_path, params, partition):
    partition = {"scheme": "balanced_percent"} | partition
    algorithm = {"name": "selective", "local_rounds": 1} | params
    spec = make_spec(algorithm=algorithm, partition=partition)
    done, failures = collect([spec], tmp_path)
    assert not done
    assert "set partition.validation" in str(failures[run_id(spec)])


@pytest.mark.parametrize("values", [{"a": 1.0, "b": [0.0, [float("nan")]]}, {"b": float("inf")}])
@pytest.mark.parametrize("source", ["round", "summary"])
def test_whatever_is_not_finite_is_named(tmp_path, monkeypatch, source, values):
    def a_round(fed, state, t):
        yield Predict([state.weights], "test")
        return values

    changed = a_round if source == "round" else lambda fed, state: values
    small_runs.change_algorithm(monkeypatch, "sgd", **{source: changed})
    _, failures = collect([make_spec(algorithm={"name": "sgd"}, rounds=2)], tmp_path)
    [message] = map(str, failures.values())
    assert f"round {1 if source == 'round' else 2}: b is not a finite number" in message


def test_an_error_of_the_program_saves_the_runs_in_flight(tmp_path, monkeypatch):
    """Even if that is not the first error: a full disk must not hide another one."""

    spec, other = make_spec(), make_spec(seed=6)
    with pytest.raises(Interrupt):
        collect([spec, other], tmp_path, on_progress=stop_in_round_2, in_flight=2)
    for one in (spec, other):  # at the end of round 0, as round 1 was not evaluated yet
        saved = checkpoint.load(tmp_path / f"{run_id(one)}.pt", run_id(one))
        assert saved["progress"]["round"] == 1

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.torch, "save", full)
    with pytest.raises(Interrupt):
        collect([spec], tmp_path, on_progress=stop_in_round_2)


@pytest.mark.parametrize(
    "algorithm",
    [
        {"name": "fedfa"},
        {"name": "selective", "local_rounds": 0},
        {"name": "fedavg"},
    ],
    ids=lambda algorithm: algorithm["name"],
)
def test_the_loop_has_one_run_open_whatever_a_run_asks_for_first(tmp_path, algorithm):
    counts = []

    class Counting(LoopBackend):
        def submit(self, ticket, ask):
            self.tickets = {*getattr(self, "tickets", ()), ticket}
            super().submit(ticket, ask)

        def collect(self, deadline):
            counts.append(len(self.tickets))
            raise OutOfTime

    specs = [
        make_spec(
            algorithm=algorithm,
            seed=seed,
            partition={
                "scheme": "balanced_percent",
                "clients": 3,
                "percent": 50,
                "validation": 400,
            },
        )
        for seed in range(5)
    ]
    collect(specs, tmp_path, backend=Counting())
    assert counts == [1]


@pytest.mark.parametrize(("side_by_side", "cores", "most"), [(8, 0, 12), (1, 0, 2), (8, 1, 12)])
def test_a_gpu_gets_more_runs_while_they_make_it_faster(
    tmp_path, monkeypatch, side_by_side, cores, most
):
    """A CPU gets all that its load allows at once."""
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(driver, "time", clock)
    monkeypatch.setattr(admission, "STREAMS", 1)
    counts = []

    class Device(LoopBackend):
        def load(self, ask):
            return 1 / 12

        def collect(self, deadline):
            counts.append(len(self._open))
            clock.now += 4.0 / min(len(self._open), side_by_side)
            return super().collect(deadline)

    backend = Device()
    backend.cores = cores
    short = {"rounds": 20, "evaluate_every": 20, "local_epochs": 1, "batch": 50}
    specs = [make_spec(seed=seed, **short) for seed in range(16)]
    done, failures = collect(specs, tmp_path, backend=backend)
    assert (len(done), failures) == (16, {})
    assert counts[0] == (1 if cores == 0 else 12)
    assert max(counts) == most


def test_the_runs_at_once_are_those_asked_for_also_on_a_gpu(tmp_path):
    class Device(LoopBackend):
        def collect(self, deadline):
            counts.append(len(self._open))
            return super().collect(deadline)

    counts, backend = [], Device()
    backend.cores = 0
    collect([make_spec(seed=seed) for seed in range(5)], tmp_path, backend=backend, in_flight=3)
    assert max(counts) == counts[0] == 3


def short_of_memory(monkeypatch, seed, fits, at="end"):
    """Let the algorithm's second round of one run find no memory unless ``fits()``."""
    original = ALGORITHMS["fedavg"].round

    def a_round(fed, state, t):
        def allocate(where):
            if where == at and fed.spec.seed == seed and t == 1 and not fits():
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

        allocate("begin")
        log = yield from original(fed, state, t)
        allocate("end")
        return log

    small_runs.change_algorithm(monkeypatch, "fedavg", round=a_round)


@pytest.mark.parametrize(("at", "enough"), [("end", 2), ("begin", 1)])
def test_a_run_that_finds_no_memory_beside_others_goes_on_when_there_are_fewer(
    tmp_path, monkeypatch, at, enough
):
    """From the last round that it ended; those that come after it wait for its end.

    Short of memory again as it goes on, at the beginning of a round, it blames no checkpoint.
    """
    specs = [make_spec(seed=seed, rounds=3) for seed in range(6)]
    expected, _ = collect(specs, tmp_path)
    in_flight, taken_up = [], []

    def note(active):
        in_flight[:] = active
        taken_up.extend(one for one in active if one.id == run_id(specs[1]))

    short_of_memory(monkeypatch, 1, lambda: len(in_flight) <= enough, at)
    with pytest.warns(UserWarning, match=f"{run_id(specs[1])} is taken up later: memory is short"):
        done, failures = collect(specs, tmp_path, on_progress=note, in_flight=4)
    assert failures == {}
    for spec in specs:
        ours, theirs = done[run_id(spec)], expected[run_id(spec)]
        assert ours.progress.metrics == theirs.progress.metrics
        assert torch.equal(ours.state.weights, theirs.state.weights)
    tries = list(dict.fromkeys(taken_up))
    assert [one.resumed_at for one in tries] == [0, 1]
    assert list(done).index(run_id(specs[1])) == 3


@pytest.mark.parametrize("where", ["round", "init"])
def test_a_run_that_finds_no_memory_alone_fails_and_the_others_go_on(tmp_path, monkeypatch, where):
    specs = [make_spec(seed=seed, rounds=2) for seed in range(5)]
    if where == "round":
        short_of_memory(monkeypatch, 1, lambda: False)
    else:
        original = ALGORITHMS["fedavg"].init

        def init(fed):
            if fed.spec.seed == 1:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return original(fed)

        small_runs.change_algorithm(monkeypatch, "fedavg", init=init)
    with pytest.warns(UserWarning, match="taken up later"):
        done, failures = collect(specs, tmp_path, in_flight=3)
    assert sorted(done) == sorted(run_id(spec) for spec in specs if spec.seed != 1)
    [(failed, message)] = failures.items()
    assert failed == run_id(specs[1])
    assert "does not fit into memory even alone" in str(message)
    assert "Tried to allocate 2.00 GiB" in str(message)


def test_slots_give_way_to_an_algorithm_that_finds_no_memory(tmp_path, monkeypatch):
    partition = {"scheme": "iid_stratified", "clients": 8, "per_class": 8}
    spec = make_spec(partition=partition, rounds=3)
    expected, _ = collect([spec], tmp_path)
    backend = GraphsBackend()

    def slots():
        return sum(len(kind.slots) for kind in backend._kinds.values())

    most = []
    short_of_memory(monkeypatch, spec.seed, lambda: most.append(slots()) or most[-1] <= 2)
    with pytest.warns(UserWarning, match="taken up later"):
        done, failures = collect([spec], tmp_path, backend=backend)
    assert failures == {}
    assert most[0] == 9  # of lanes and of a prediction
    assert most[-1] <= 2
    assert all(fewer < more for more, fewer in itertools.pairwise(most))
    weights = done[run_id(spec)].state.weights
    assert torch.equal(weights, expected[run_id(spec)].state.weights)


def test_a_lane_without_examples_is_refused():
    dataset = data.load("synthetic")
    fed = Federation(make_spec(), dataset)
    lane = Lane(fed.initial_weights(), np.zeros(0, np.int64), ("client", 7))
    refusal = answer(fed, dataset, Train([lane], round=0))
    assert isinstance(refusal, LaneError)
    assert "client 7" in str(refusal)


def test_moments_of_a_request_are_left_alone():
    dataset = data.load("synthetic")
    fed = Federation(make_spec(optimizer={"name": "adam", "lr": 0.01}), dataset)
    start = fed.initial_weights()
    moments = optim.fresh_state(fed.spec.optimizer, start)
    before = start.clone()
    lane = Lane(start, fed.clients[0], ("client", 0), moments)
    request = Train([lane], round=0, keep_optimizer_state=True)
    [trained] = answer(fed, dataset, request)
    assert moments["step"] == 0
    assert float(moments["mean"].abs().sum()) == 0
    assert trained.optimizer_state["step"] == 2 * 4  # 50 examples, batch 16, two epochs
    assert torch.equal(start, before)


def test_damaged_and_foreign_checkpoints_are_refused(tmp_path, monkeypatch):
    file = tmp_path / "abc.pt"
    assert checkpoint.load(file, "abc") is None
    checkpoint.save(file, "abc", {"round": 2})
    assert checkpoint.load(file, "abc") == {"round": 2}
    with pytest.raises(FedreproError, match=r"abc\.pt.*another run.*delete"):
        checkpoint.load(file, "xyz")
    with monkeypatch.context() as later:
        later.setattr(checkpoint, "FORMAT", checkpoint.FORMAT + 1)
        with pytest.raises(FedreproError, match=r"abc\.pt.*another version.*delete"):
            checkpoint.load(file, "abc")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(FedreproError, match=r"abc\.pt.*is damaged.*delete"):
        checkpoint.load(file, "abc")


def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    file = tmp_path / "abc.pt"
    checkpoint.save(file, "abc", {"round": 1})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.torch, "save", full)
    with pytest.raises(FedreproError, match=r"abc\.pt.*No space left"):
        checkpoint.save(file, "abc", {"round": 2})
    assert checkpoint.load(file, "abc") == {"round": 1}
    assert [f.name for f in tmp_path.iterdir()] == ["abc.pt"]


@pytest.mark.parametrize("ended_by", [KeyboardInterrupt(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("after", [1, 5])
def test_what_ends_the_writing_of_a_checkpoint_is_what_is_raised(
    tmp_path, monkeypatch, ended_by, after
):
    """PyTorch, which then cannot end its file either, would have the last word."""
    written = itertools.count(1)

    class Ended(checkpoint._Hashed):
        def write(self, content):
            if next(written) == after:
                raise ended_by
            return super().write(content)

    monkeypatch.setattr(checkpoint, "_Hashed", Ended)
    interrupt = isinstance(ended_by, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt if interrupt else checkpoint.NotSaved) as caught:
        checkpoint.save(tmp_path / "abc.pt", "abc", {"weights": torch.zeros(10)})
    assert interrupt or "([Errno 28] No space left on device)" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_no_interrupt_where_one_is_handled(tmp_path, monkeypatch):
    """Or the runs in flight that come after it would not be saved."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.torch, "save", full)
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(checkpoint.NotSaved, match="No space left"):
            checkpoint.save(tmp_path / "abc.pt", "abc", {})


def test_only_saved_progress_counts(tmp_path):
    """Of a round that was not finished, the time it took."""
    spec, dataset = make_spec(), data.load("synthetic")
    run = ActiveRun(spec, dataset, Storage(tmp_path, math.inf))
    run.begin()

    def go_on(seconds):
        run.receive(answer(run.fed, dataset, run.ask.request), seconds)

    for seconds in (1.0, 2.0, 4.0):  # training, prediction, and training of the second round
        go_on(seconds)
    run.save()
    for seconds in (8.0, 16.0):
        go_on(seconds)
    assert (run.progress.round, run.progress.seconds) == (3, 31.0)
    again = ActiveRun(spec, dataset, Storage(tmp_path, math.inf))
    again.begin()
    assert (again.progress.round, again.progress.seconds, again.resumed_at) == (1, 7.0, 1)
    assert len(again.progress.metrics["train_loss"]) == 1
    assert isinstance(again.ask.request, Train)
    assert not again.done


def test_the_checkpoint_stays_until_the_record_is_safe(tmp_path):
    spec = make_spec()
    file = tmp_path / f"{run_id(spec)}.pt"
    rounds = []
    drive(
        [spec],
        lambda spec: data.load(spec.dataset.name),
        LoopBackend(),
        Listener(
            done=lambda run: rounds.append(checkpoint.load(file, run.id)["progress"]["round"]),
            failed=lambda _, failure: pytest.fail(str(failure)),
        ),
        Storage(checkpoints=tmp_path, checkpoint_seconds=0),
    )
    assert rounds == [2]
    assert not file.exists()


def test_a_checkpoint_that_does_not_fit_fails_its_run_by_name(tmp_path):
    other, unlike, good = make_spec(seed=1), make_spec(seed=2), make_spec(seed=3)
    checkpoint.save(tmp_path / f"{run_id(other)}.pt", "0123456789ab", {})
    checkpoint.save(tmp_path / f"{run_id(unlike)}.pt", run_id(unlike), {"state": {"momenta": 1}})
    done, failures = collect([other, unlike, good], tmp_path, in_flight=3)
    assert list(done) == [run_id(good)]
    for spec in (other, unlike):
        message = str(failures[run_id(spec)])
        assert f"{run_id(spec)}.pt" in message
        assert "delete it to start the run anew" in message


def test_pretraining_is_the_central_run_with_k_times_the_batch(tmp_path):
    """Table 3 of Zhao et al.: the pre-trained row starts where the row of SGD ends."""
    cut = {"clients": 10, "classes_per_client": 1, "per_class": 20, "scheme": "class_aligned"}
    central = {"clients": 1, "per_class": 20, "scheme": "iid_stratified"}
    pretrained = {"name": "fedavg", "pretrain_epochs": 2}
    found = {}
    for name, changes in {
        "sgd": {"algorithm": {"name": "sgd"}, "partition": central, "batch": 20, "rounds": 2},
        "fedavg": {"algorithm": pretrained, "partition": cut, "batch": 2, "rounds": 1},
    }.items():
        drive(
            [small_runs.make_spec(local_epochs=1, **changes)],
            lambda spec: data.load(spec.dataset.name),
            LoopBackend(),
            Listener(
                done=lambda run, name=name: found.update({name: run.progress.metrics}),
                failed=lambda _, failure: pytest.fail(str(failure)),
            ),
            Storage(checkpoints=tmp_path),
        )
    for metric in ("train_loss", "loss", "accuracy"):
        assert found["fedavg"][metric][:2] == pytest.approx(found["sgd"][metric], rel=1e-12)
    assert len(found["fedavg"]["accuracy"]) == 3
