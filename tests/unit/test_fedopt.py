"""The server's techniques of Ozdayi et al. 2020, against numbers worked out by hand."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fake_federation import drive
from pydantic import ValidationError
from small_runs import (
    Interrupt,
    answer,
    drive_runs,
    federation,
    make_spec,
    stop_in_round_2,
)

from fedrepro.base.errors import FedreproError
from fedrepro.fl.algorithms import fedavg, fedopt
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.fl.requests import Lane, Objective, Predict, Prediction, Train, Trained

torch.set_num_threads(1)

START = [1.0, -2.0, 0.5, 4.0]
UPDATES = [[0.4, -0.2, 0.6, 0.0], [0.2, -0.6, -0.2, 0.8]]
"""Of clients with one and three examples; signs agree in the first two coordinates."""
MEAN = [0.25, -0.5, 0.0, 0.6]


class FakeFederation:
    """Two clients with four-number models; the last ``statistics`` numbers are no parameters."""

    def __init__(self, server=0, statistics=0, updates=UPDATES, **params):
        self.clients = (np.arange(1), np.arange(1, 4))
        self.spec = SimpleNamespace(batch=2, rounds=4)
        self.layout = SimpleNamespace(parameters=4 - statistics)
        self.partition = SimpleNamespace(
            server=np.arange(4, 4 + server), validation=np.arange(0), node_sets={}
        )
        self.test_size = 4
        self.updates = updates
        self._params = fedopt.Params(name="fedopt", **params)
        self.requests = []

    def params(self, kind):
        assert isinstance(self._params, kind)
        return self._params

    def initial_weights(self):
        return torch.tensor(START)

    def participants(self, t, count):
        return [0, 1][: count or 2]

    def answer(self, request):
        """Pretend training: each client adds its update, SGD 2 to all, the server halves."""
        if isinstance(request, Predict):
            return [
                Prediction(np.array(c), np.array(c) == np.array([0, 1, 2, 3]), 0.5)
                for c in ([0, 1, 1, 1], [0, 2, 2, 3])[: len(request.models)]
            ]
        ends = {
            "client": lambda lane: lane.weights + torch.tensor(self.updates[lane.stream[1]]),
            "sgd": lambda lane: lane.weights + 2,
            "server": lambda lane: lane.weights / 2,
        }
        return [
            Trained(ends[lane.stream[0]](lane), 0.5 + i, None)
            for i, lane in enumerate(request.lanes)
        ]

    def drive(self, steps):
        requests, result = drive(steps, self.answer)
        self.requests += requests
        return result

    def run(self, rounds=1):
        """Return the state after some rounds, and what the last one logged."""
        state = fedopt.init(self)
        for t in range(rounds):
            log = self.drive(fedopt.round(self, state, t))
        return state, log


def moved(state):
    return (state.weights - torch.tensor(START)).tolist()


def test_without_techniques_it_is_fedavg():
    fed = FakeFederation()
    state, log = fed.run(3)
    plain = fedavg.State(torch.tensor(START))
    other = FakeFederation()
    other._params = fedavg.Params(name="fedavg")
    for t in range(3):
        other.drive(fedavg.round(other, plain, t))
    assert state.weights.tolist() == pytest.approx(plain.weights.tolist())
    assert moved(fed.run()[0]) == pytest.approx(MEAN)
    assert [lane.stream for lane in fed.requests[0].lanes] == [("client", 0), ("client", 1)]
    assert fed.requests[0].objective == Objective()
    assert log["train_loss"] == 1.0
    assert log["moved"] == 1.0
    assert state.velocity is None
    assert state.local == []


def test_momentum_adds_up_the_mean_updates():
    """Updates are the same every round, so v is d, 1.5 d, 1.75 d at beta = 0.5."""
    for rounds, factor in ((1, 1), (2, 2.5), (3, 4.25)):
        state, _ = FakeFederation(server_momentum=0.5).run(rounds)
        assert moved(state) == pytest.approx([factor * d for d in MEAN])
    assert state.velocity.tolist() == pytest.approx([1.75 * d for d in MEAN])


def test_equation_3_as_printed_is_ours_at_eta_1():
    """The paper prints w <- v + eta w; with eta = 1 that is w <- w + eta v."""
    state, _ = FakeFederation(server_momentum=0.9).run(1)
    for _ in range(4):
        printed = 0.9 * state.velocity + torch.tensor(MEAN) + 1.0 * state.weights
        fed = FakeFederation(server_momentum=0.9)
        fed.drive(fedopt.round(fed, state, 1))
        assert state.weights.tolist() == pytest.approx(printed.tolist())


def test_server_step_size():
    state, _ = FakeFederation(server_lr=0.5, server_momentum=0.5).run(2)
    assert moved(state) == pytest.approx([0.5 * 2.5 * d for d in MEAN])


def test_two_clients_move_exactly_the_coordinates_of_one_sign():
    state, log = FakeFederation(sign_agreement={"threshold": 2}).run()
    assert moved(state) == pytest.approx([0.25, -0.5, 0, 0])
    assert state.weights[2:].tolist() == START[2:]
    assert log["moved"] == log["agreement"] == 0.5


def test_threshold_one_moves_where_only_one_client_votes():
    state, log = FakeFederation(sign_agreement={"threshold": 1}).run()
    assert moved(state) == pytest.approx([0.25, -0.5, 0, 0.6])
    assert log["moved"] == 0.75
    assert log["agreement"] == 0.5


def test_the_vote_as_printed_never_lets_a_weight_decrease():
    rule = {"threshold": 2, "vote": "signed"}
    state, log = FakeFederation(sign_agreement=rule).run()
    assert moved(state) == pytest.approx([0.25, 0, 0, 0])
    assert log["moved"] == 0.25
    assert log["agreement"] == 0.5


@pytest.mark.parametrize("vote", ["absolute", "signed"])
def test_threshold_zero_is_fedavg(vote):
    state, log = FakeFederation(sign_agreement={"threshold": 0, "vote": vote}).run()
    assert moved(state) == pytest.approx(MEAN)
    assert log["moved"] == 1.0


@pytest.mark.parametrize(
    ("masks", "second"),
    [
        # Second round: signs agree in the last coordinate only, and d is (-0.3, -0.5, 0, 0.7).
        # v = 0.5 v + d: unmasked (-0.175, -0.75, 0, 1.0), of masked d (0.125, -0.25, 0, 0.7).
        ("step", [0.25, -0.5, 0, 1.0]),
        ("update", [0.375, -0.75, 0, 0.7]),
    ],
)
def test_what_the_mask_hides_from_the_momentum(masks, second):
    fed = FakeFederation(server_momentum=0.5, sign_agreement={"threshold": 2, "masks": masks})
    state, _ = fed.run()
    assert moved(state) == pytest.approx([0.25, -0.5, 0, 0])
    fed.updates = [[0.6, -2.6, 0.6, 0.1], [-0.6, 0.2, -0.2, 0.9]]
    fed.drive(fedopt.round(fed, state, 1))
    assert moved(state) == pytest.approx(second)


def test_agents_project_and_add_noise_and_the_server_does_not():
    fed = FakeFederation(
        server=2, projection={"radius": 3, "bounds": "update"}, gradient_noise=1e-4
    )
    fed.run()
    agents, server = fed.requests
    assert agents.objective == Objective(gradient_noise=1e-4, projection="update", radius=3)
    assert server.objective == Objective()


def test_projection_bounds_the_weights_unless_told_otherwise():
    fed = FakeFederation(projection={"radius": 3})
    fed.run()
    assert fed.requests[0].objective == Objective(projection="weights", radius=3)


def test_noise_needs_no_projection():
    fed = FakeFederation(gradient_noise=1e-4)
    fed.run()
    assert fed.requests[0].objective == Objective(gradient_noise=1e-4)


def test_the_server_trains_last_and_outside_the_momentum():
    fed = FakeFederation(server=2, server_momentum=0.5)
    state, _ = fed.run()
    lane = fed.requests[1].lanes[0]
    assert lane.weights.tolist() == pytest.approx([1.25, -2.5, 0.5, 4.6])
    assert lane.stream == ("server",)
    assert lane.examples.tolist() == [4, 5]
    assert fed.requests[1].epochs == 1
    assert state.weights.tolist() == pytest.approx([0.625, -1.25, 0.25, 2.3])
    assert state.velocity.tolist() == pytest.approx(MEAN)


def test_server_epochs_and_servers_without_examples():
    fed = FakeFederation(server=2, server_epochs=3)
    fed.run()
    assert [request.epochs for request in fed.requests] == [None, 3]
    for without in (FakeFederation(server=2, server_epochs=0), FakeFederation()):
        without.run()
        assert len(without.requests) == 1


def test_all_four_together_in_the_papers_order():
    """Votes from the raw updates, v = beta v + d, w + mask v, then the server's training."""
    fed = FakeFederation(
        server=2,
        server_momentum=0.9,
        sign_agreement={"threshold": 2},
        projection={"radius": 3},
        gradient_noise=1e-4,
    )
    state, _ = fed.run(2)
    first = [(1 + 0.25) / 2, (-2 - 0.5) / 2, 0.25, 2.0]
    second = [(first[0] + 1.9 * 0.25) / 2, (first[1] - 1.9 * 0.5) / 2, 0.125, 1.0]
    assert state.weights.tolist() == pytest.approx(second)
    assert [request.round for request in fed.requests] == [0, 0, 1, 1]


def test_running_statistics_are_averaged_whatever_the_techniques():
    fed = FakeFederation(statistics=2, server_momentum=0.9, sign_agreement={"threshold": 2})
    state, log = fed.run(2)
    assert moved(state) == pytest.approx([2.9 * 0.25, -2.9 * 0.5, 2 * 0.0, 2 * 0.6])
    assert len(state.velocity) == 2
    assert log["agreement"] == 1.0


def test_norms_in_the_log():
    _, log = FakeFederation().run()
    ours = [np.linalg.norm(update) for update in UPDATES]
    assert log["update_norm"] == pytest.approx(np.mean(ours))
    assert log["mean_update_norm"] == pytest.approx(np.linalg.norm(MEAN))
    assert log["weight_norm"] == pytest.approx(np.linalg.norm(START))


def test_inner_products_of_the_updates_in_the_rounds_asked_for():
    fed = FakeFederation(update_rounds=(1,))
    state, _ = fed.run(3)
    assert [len(request.lanes) for request in fed.requests] == [2, 2, 1, 2]
    assert [request.round for request in fed.requests] == [0, 1, 1, 2]
    reference = fed.requests[2].lanes[0]
    assert reference.examples.tolist() == [0, 1, 2, 3]
    assert reference.batch == 4
    assert reference.weights.tolist() == fed.requests[1].lanes[0].weights.tolist()
    (kept,) = fedopt.summary(fed, state)["updates"]
    assert kept["round"] == 2
    vectors = np.array([*UPDATES, [2.0] * 4])
    assert np.array(kept["inner_products"]) == pytest.approx(vectors @ vectors.T, rel=1e-5)
    assert moved(state) == pytest.approx([3 * d for d in MEAN])
    assert fedopt.summary(fed, FakeFederation().run()[0]) == {}


def test_conflicts_are_inputs_on_which_two_models_differ():
    """The models say 0111 and 0223, of classes 0123."""
    fed = FakeFederation(conflict_examples=4)
    state, _ = fed.run()
    assert fed.drive(fedopt.evaluate(fed, state)) == {
        "accuracy": 0.5,
        "loss": 0.5,
        "conflicts": 0.75,
        "local_accuracy": (0.5 + 0.75) / 2,
    }
    assert [len(request.models) for request in fed.requests[1:]] == [1, 2]
    assert fed.requests[2].examples.tolist() == [0, 1, 2, 3]
    without = FakeFederation()
    state, _ = without.run()
    assert without.drive(fedopt.evaluate(without, state)) == {"accuracy": 0.5, "loss": 0.5}


def test_conflicts_need_as_many_test_images():
    with pytest.raises(FedreproError, match="conflict_examples = 5, but the test split has 4"):
        fedopt.init(FakeFederation(conflict_examples=5))


def test_only_participants_are_asked_and_averaged():
    fed = FakeFederation(participants=1)
    state, _ = fed.run()
    assert len(fed.requests[0].lanes) == 1
    assert moved(state) == pytest.approx(UPDATES[0])


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"server_momentum": 1.0}, "server_momentum\n  Input should be less than 1"),
        ({"server_lr": 0.0}, "server_lr\n  Input should be greater than 0"),
        (
            {"sign_agreement": {"threshold": -1}},
            "sign_agreement.threshold\n  Input should be greater than or equal to 0",
        ),
        ({"projection": {"radius": 0.0}}, "projection.radius\n  Input should be greater than 0"),
        (
            {"projection": {"radius": 3, "bounds": "layer"}},
            "projection.bounds\n  Input should be 'weights' or 'update'",
        ),
        ({"gradient_noise": -1e-4}, "gradient_noise\n  Input should be greater than or equal to 0"),
        ({"server_epochs": -1}, "server_epochs\n  Input should be greater than or equal to 0"),
    ],
)
def test_ranges(wrong, problem):
    with pytest.raises(
        ValidationError, match=re.escape(f"1 validation error for Params\n{problem}")
    ):
        fedopt.Params(name="fedopt", **wrong)


def test_updates_of_rounds_beyond_the_run_are_refused():
    problem = "algorithm.update_rounds: 3, but the run's 3 rounds are counted from 0; give at most"
    with pytest.raises(ValidationError, match=re.escape(f"{problem} 2")):
        make_spec(algorithm={"name": "fedopt", "update_rounds": [2, 3]}, rounds=3)


def test_a_threshold_that_no_vote_reaches_is_refused():
    rule = {"name": "fedopt", "participants": 3, "sign_agreement": {"threshold": 4}}
    problem = "algorithm.sign_agreement.threshold: 4, but the 3 clients of a round have a vote each"
    with pytest.raises(ValidationError, match=re.escape(problem)):
        make_spec(algorithm=rule)
    make_spec(algorithm=rule | {"participants": 4})


# Through the engine, on made-up images


def train(tmp_path, *, on_progress=lambda _: None, **params):
    """Train a small run of two clients of five classes, with a checkpoint every round."""
    spec = make_spec(
        partition={
            "scheme": "class_blocks",
            "clients": 2,
            "classes_per_client": 5,
            "per_class": 20,
            "server_share": params.pop("server_share", 0),
            "validation": 5,
        },
        algorithm={"name": params.pop("name", "fedopt")} | params,
    )
    done = []

    def failed(_, failure):
        raise failure

    drive_runs(
        [spec],
        LoopBackend(),
        tmp_path,
        done.append,
        failed,
        on_progress=on_progress,
        checkpoint_seconds=0,
    )
    return done[0]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return train(tmp_path_factory.mktemp("plain"))


def test_an_endless_radius_is_no_projection(plain, tmp_path):
    for bounds in ("weights", "update"):
        run = train(tmp_path, projection={"radius": 1e9, "bounds": bounds})
        assert run.progress.metrics["loss"] == plain.progress.metrics["loss"]


def test_without_techniques_it_trains_as_fedavg(plain, tmp_path):
    run = train(tmp_path, name="fedavg")
    assert run.progress.metrics["loss"] == pytest.approx(plain.progress.metrics["loss"], rel=1e-5)


def test_projected_agents_stay_in_the_ball(plain, tmp_path):
    radius = 0.5 * plain.progress.metrics["weight_norm"][0]
    run = train(tmp_path, projection={"radius": radius})
    assert run.progress.metrics["weight_norm"][0] > radius
    assert max(run.progress.metrics["weight_norm"][1:]) <= radius * (1 + 1e-5)
    run = train(tmp_path, projection={"radius": 0.1, "bounds": "update"})
    assert max(run.progress.metrics["update_norm"]) <= 0.1 * (1 + 1e-5)
    assert plain.progress.metrics["update_norm"][0] > 0.1


def test_metrics_and_resume_of_everything_at_once(plain, tmp_path):
    everything = {
        "server_share": 0.25,
        "server_momentum": 0.9,
        "sign_agreement": {"threshold": 2},
        "projection": {"radius": 4.0},
        "gradient_noise": 1e-4,
        "conflict_examples": 200,
        "update_rounds": [0, 2],
    }
    whole = train(tmp_path / "whole", **dict(everything))
    metrics = whole.progress.metrics
    assert metrics["loss"] != plain.progress.metrics["loss"]
    assert 0 < metrics["moved"][0] == metrics["agreement"][0] < 1
    assert len(metrics["conflicts"]) == len(metrics["accuracy_validation"]) == 3
    assert metrics["conflicts"][-1] > 0.5
    updates = whole.progress.final["updates"]
    assert [kept["round"] for kept in updates] == [1, 3]
    assert np.array(updates[0]["inner_products"]).shape == (3, 3)
    norms = np.sqrt(np.diag(updates[0]["inner_products"]))
    assert norms[:2].mean() == pytest.approx(metrics["update_norm"][0], rel=1e-5)

    with pytest.raises(Interrupt):
        train(tmp_path / "cut", on_progress=stop_in_round_2, **dict(everything))
    resumed = train(tmp_path / "cut", **dict(everything))
    assert resumed.resumed_at == 1  # cut off before the evaluation of round 2
    assert resumed.progress.metrics == metrics
    assert resumed.progress.final == whole.progress.final


def test_agents_without_a_common_class_contradict_each_other_in_the_final_layer():
    """Why sign agreement starts late: each agent pushes its own classes up and all others down."""
    spec = make_spec(
        dataset={"name": "synthetic_rgb"},
        partition={"scheme": "class_blocks", "clients": 2, "classes_per_client": 5, "per_class": 8},
        model={"name": "fixup_resnet20", "width": 0.25},
        algorithm={"name": "fedopt"},
        local_epochs=1,
    )
    fed = federation(spec)
    start = fed.initial_weights()
    lanes = [Lane(start, fed.clients[k], ("client", k)) for k in range(2)]
    first, second = (
        trained.weights - start for trained in answer(LoopBackend(), spec, Train(lanes, 0))
    )
    agree = first.sign() * second.sign() > 0
    bias = fed.layout.view(agree, fed.layout.names.index("output.bias"))
    weight = fed.layout.view(agree, fed.layout.names.index("output.weight"))
    assert not bias.any()
    assert float(weight.float().mean()) < 0.1
    assert float(agree.float().mean()) > 0.3
