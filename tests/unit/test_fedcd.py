"""FedCD, one generator at a time: its requests, averages, clones, deletions and its log."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fake_federation import drive
from small_runs import Interrupt, drive_runs, make_spec, stop_in_round_2

from fedrepro.base.errors import FedreproError
from fedrepro.fl import cost, data
from fedrepro.fl.algorithms import fedcd
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.fl.federation import Federation
from fedrepro.fl.requests import Predict, Prediction, Train, Trained
from fedrepro.fl.spec import Sgd
from fedrepro.runs.plan import expand

torch.set_num_threads(1)

QUIET = {"score_noise_sd": 0.0}
"""No noise on the scores."""


class FakeFederation:
    """Devices with one-parameter models; device k has validation images 10 k .. 10 k + 9."""

    def __init__(self, devices=4, drawn=None, optimizer=None, epochs=3, **params):
        self.clients = tuple(np.arange(5) + 5 * k for k in range(devices))
        parts = tuple(np.arange(10) + 10 * k for k in range(devices))
        sets = {
            "validation": SimpleNamespace(split="train", parts=parts),
            "test": SimpleNamespace(split="test", parts=parts),
        }
        self.partition = SimpleNamespace(node_sets=sets)
        self.drawn = drawn or {}
        optimizer = optimizer or Sgd(name="sgd", lr=0.1, momentum=0.9, lr_milestones=(25, 50, 75))
        self.spec = SimpleNamespace(seed=1, local_epochs=epochs, rounds=9, optimizer=optimizer)
        self.layout = SimpleNamespace(parameters=1)
        self._params = fedcd.Params(**({"name": "fedcd"} | QUIET | params))

    def params(self, kind):
        assert kind is fedcd.Params
        return self._params

    def initial_weights(self):
        return torch.tensor([0.0, 100.0])  # a parameter and a statistic

    def participants(self, t, count):
        return self.drawn.get(t, list(range(len(self.clients))))


class Answers:
    """Training adds the device's number plus one.

    Accuracy is what ``accuracy(device, weight)`` says, the loss what ``loss(weight)`` does.
    """

    def __init__(self, accuracy=lambda device, weight: 0.6, loss=lambda weight: 1.0):
        self.accuracy, self.loss = accuracy, loss

    def __call__(self, request):
        if isinstance(request, Train):
            return [
                Trained(
                    lane.weights + (lane.stream[1] + 1 if request.epochs is None else 0.25),
                    0.5,
                    {"velocity": torch.tensor([1.0])} if request.keep_optimizer_state else None,
                )
                for lane in request.lanes
            ]
        assert isinstance(request, Predict)
        each = zip(request.models, request.examples, strict=True)
        return [self._prediction(weights[0].item(), examples) for weights, examples in each]

    def _prediction(self, weight, examples):
        correct = np.array(
            [image % 10 < round(10 * self.accuracy(image // 10, weight)) for image in examples]
        )
        return Prediction(np.zeros(len(correct), dtype=np.int64), correct, self.loss(weight))


def shown(request):
    """Return the images that each model of a request is asked about."""
    return [images.tolist() for images in request.examples]


def play(fed, rounds, answers=None):
    """Play rounds; return the state, the requests and the metrics of each."""
    state, requests, metrics = fedcd.init(fed), [], []
    for t in range(rounds):
        asked, log = drive(fedcd.round(fed, state, t), answers or Answers())
        requests.append(asked)
        metrics.append(log)
    return state, requests, metrics


def set_up(fed, scores, weights=None, history=None):
    """Return a state in which devices have given scores of models."""
    state = fedcd.init(fed)
    created = 1 + max(m for device in scores for m in device)
    state.models = [torch.tensor([float(m), 0.0]) for m in range(created)]
    if weights:
        state.models = [torch.tensor([float(w), 0.0]) for w in weights]
    state.averaged = [0] * created
    state.scores = [dict(device) for device in scores]
    state.history = [
        {m: list((history or {}).get(m, [0.5])) for m in range(created)} for _ in scores
    ]
    state.epochs = [dict.fromkeys(range(created), 0) for _ in scores]
    state.offsets = [dict.fromkeys(range(created), 0) for _ in scores]
    return state


def test_without_milestones_it_is_plain_averaging():
    fed = FakeFederation(milestones=())
    state, requests, metrics = play(fed, 2)
    assert state.models[0].tolist() == [5.0, 105.0]  # 2.5 more each round, statistics too
    assert [len(asked) for asked in requests] == [1, 1]  # nothing is validated
    assert state.scores == [{0: 1.0}] * 4
    assert [lane.stream for lane in requests[0][0].lanes] == [
        ("client", k, "model", 0) for k in range(4)
    ]
    assert requests[0][0].objective.quantise_bits == 8
    assert metrics[0] == {
        "train_loss": 0.5,
        "trained_models": 4,
        "sent_models": 4,
        "sample_passes": 60,
    }
    assert fedcd.summary(fed, state) == {"tested": [10] * 4}


def test_average_is_weighted_by_the_scores():
    fed = FakeFederation(devices=2, milestones=())
    state = set_up(fed, [{0: 0.2, 1: 0.8}, {0: 0.6, 1: 0.4}], weights=[0, 10])
    drive(fedcd.round(fed, state, 0), Answers())
    # training adds 1 on device 0 and 2 on device 1
    assert state.models[0][0].item() == pytest.approx((0.2 * 1 + 0.6 * 2) / 0.8)
    assert state.models[1][0].item() == pytest.approx(10 + (0.8 * 1 + 0.4 * 2) / 1.2)


def test_a_score_of_zero_neither_trains_nor_counts():
    fed = FakeFederation(devices=2, milestones=())
    state = set_up(fed, [{0: 0.0, 1: 1.0}, {0: 0.5, 1: 0.5}])
    requests, metrics = drive(fedcd.round(fed, state, 0), Answers())
    assert [lane.stream[1::2] for lane in requests[0].lanes] == [(0, 1), (1, 0), (1, 1)]
    assert metrics["trained_models"] == 3
    assert metrics["sent_models"] == 4  # the device that did not train it still receives it
    assert state.models[0][0].item() == 2.0


def test_a_model_that_no_drawn_device_has_stays_as_it_is():
    fed = FakeFederation(devices=2, drawn={0: [0]}, milestones=())
    state = set_up(fed, [{0: 1.0}, {1: 1.0}])
    _, metrics = drive(fedcd.round(fed, state, 0), Answers())
    assert [model[0].item() for model in state.models] == [1.0, 1.0]
    assert metrics["sent_models"] == 1
    assert state.averaged == [1, 0]


def test_devices_that_are_not_drawn_receive_the_model_and_keep_their_scores():
    fed = FakeFederation(devices=3, drawn={0: [0, 1], 1: [1, 2]}, milestones=(0,))
    _, requests, metrics = play(fed, 2)
    assert metrics[0]["sent_models"] == 3
    kinds = [type(one) for asked in requests for one in asked]
    assert kinds == [Train, Predict] * 2  # one request, however many models there are
    assert shown(requests[0][1]) == [list(range(30))]  # milestone: all devices
    validated = {image // 10 for images in shown(requests[1][1]) for image in images}
    assert validated == {1, 2}


def test_score_scope_all_validates_every_device():
    fed = FakeFederation(devices=3, drawn={0: [0]}, milestones=(5,), score_scope="all")
    _, requests, _ = play(fed, 1)
    assert shown(requests[0][1]) == [list(range(30))]


def test_clones_split_the_devices():
    # devices 0, 1 are good at model 0 (60 %), devices 2, 3 bad (20 %)
    fed = FakeFederation(milestones=(0,))
    state, _, _ = play(fed, 1, Answers(lambda device, _: 0.6 if device < 2 else 0.2))
    assert state.scores == [{0: 1.0}] * 4
    assert state.log["active"] == [[1, 1, 1, 1]]  # the log of a milestone is from before cloning
    requests, _ = drive(fedcd.round(fed, state, 1), Answers())
    lanes = requests[0].lanes
    assert [lane.stream[1::2] for lane in lanes] == [(i, m) for i in range(4) for m in (0, 1)]
    assert all(lane.weights[0].item() == 2.5 for lane in lanes)
    # scores when they trained: a : (1 - a)
    assert state.models[0][0].item() == pytest.approx(
        2.5 + (0.6 * 1 + 0.6 * 2 + 0.2 * 3 + 0.2 * 4) / 1.6
    )
    assert state.models[1][0].item() == pytest.approx(
        2.5 + (0.4 * 1 + 0.4 * 2 + 0.8 * 3 + 0.8 * 4) / 2.4
    )


def test_first_clone_of_a_parent_of_60_percent():
    fed = FakeFederation(milestones=(0,))
    state, _, _ = play(fed, 1, Answers(lambda *_: 0.6))
    fedcd_steps = fedcd._clone_all(fed, state, 1)
    drive(fedcd_steps, Answers())
    for scores in state.scores:
        assert scores == pytest.approx({0: 0.6, 1: 0.4})
    assert state.history[0] == {0: [0.6], 1: [pytest.approx(0.4)]}


def test_index_of_a_clone_counts_dead_parents():
    fed = FakeFederation(devices=2)
    state = set_up(fed, [{0: 0.6, 3: 0.4}, {3: 1.0}])
    state.models[1] = state.models[2] = None
    drive(fedcd._clone_all(fed, state, 1), Answers())
    assert len(state.models) == 8
    assert [m for m, model in enumerate(state.models) if model is not None] == [0, 3, 4, 7]
    assert [sorted(scores) for scores in state.scores] == [[0, 3, 4, 7], [3, 7]]
    assert state.models[7] is state.models[3]
    assert all(sum(scores.values()) == pytest.approx(1) for scores in state.scores)


def test_clone_score_as_written_bears_no_first_clone():
    fed = FakeFederation(milestones=(0, 2), clone_score="score")
    state, _, metrics = play(fed, 2)
    assert [model is not None for model in state.models] == [True, False]
    assert metrics[1]["trained_models"] == 4
    assert state.scores == [{0: 1.0}] * 4


def test_clone_score_as_written_by_hand():
    fed = FakeFederation(devices=2, clone_score="score")
    state = set_up(fed, [{0: 0.7, 1: 0.3}, {0: 1.0}])
    drive(fedcd._clone_all(fed, state, 1), Answers())
    assert state.scores[0] == pytest.approx({0: 0.35, 1: 0.15, 2: 0.15, 3: 0.35})
    assert state.scores[1] == {0: 1.0}


def test_deletion_is_for_ever_and_buries_the_model():
    fed = FakeFederation(devices=2, final_round=None)
    state = set_up(fed, [{0: 0.4, 1: 0.3, 2: 0.3}] * 2, weights=[0, 0, 9])
    answers = Answers(lambda _, weight: 0.1 if weight > 5 else 0.5)
    drive(fedcd.round(fed, state, 0), answers)
    assert [sorted(scores) for scores in state.scores] == [[0, 1], [0, 1]]
    assert state.models[2] is None
    assert [sorted(kept) for kept in state.moments] == [[0, 1], [0, 1]]
    drive(fedcd.round(fed, state, 1), answers)
    assert [sorted(scores) for scores in state.scores] == [[0, 1], [0, 1]]


@pytest.mark.parametrize(("t", "left"), [(19, [0, 1]), (20, [0])])
def test_the_worse_of_two_goes_from_the_final_round_on(t, left):
    fed = FakeFederation(devices=2, milestones=(5,))
    state = set_up(fed, [{0: 0.5, 1: 0.5}] * 2, weights=[0, 9])
    drive(fedcd.round(fed, state, t), Answers(lambda _, weight: 0.3 if weight > 5 else 0.8))
    for scores in state.scores:  # 0.3 / 1.1 = 0.27
        assert sorted(scores) == left
    if left == [0]:
        assert state.scores == [{0: 1.0}] * 2
        assert state.models[1] is None


def test_as_run_the_worse_of_two_goes_by_the_gap():
    for accuracy, left in ((0.3, [0, 1]), (0.2, [0])):
        fed = FakeFederation(devices=1, final_round=15, final_rule="gap", final_threshold=0.5)
        state = set_up(fed, [{0: 0.5, 1: 0.5}], weights=[0, 9])
        answers = Answers(lambda _, weight, low=accuracy: low if weight > 5 else 0.8)
        drive(fedcd.round(fed, state, 15), answers)
        assert sorted(state.scores[0]) == left  # gaps of 0.45 and 0.6


def test_as_run_deleted_models_keep_noise():
    """With one dead model, its noise stays in the sum where it is positive."""
    sums = []
    for seed in range(20):
        fed = FakeFederation(devices=1, scoring="code", final_round=None, score_noise_sd=0.1)
        fed.spec.seed = seed
        state = set_up(fed, [{0: 0.5, 1: 0.5}], weights=[0, 0], history={0: [], 1: []})
        state.models.append(None)
        state.averaged.append(0)
        state.history[0][2] = [0.3]
        drive(fedcd.round(fed, state, 0), Answers(lambda *_: 0.6))
        sums.append(sum(state.scores[0].values()))
    assert max(sums) == pytest.approx(1)
    assert min(sums) < 0.98
    assert 5 <= sum(total > 1 - 1e-9 for total in sums) <= 15  # where the noise was positive


CODE = {"scoring": "code", "milestones": (15,), "final_round": 15, "final_rule": "gap"}
"""The public code's scores, and its rule for the last two models with a gap of 0.5."""


@pytest.mark.parametrize(
    ("accuracy", "final_round", "left"), [(0.9, 15, [0]), (0.7, 15, [0, 1]), (0.9, 16, [0, 1])]
)
def test_as_run_a_clone_far_below_its_parent_goes_at_once(accuracy, final_round, left):
    """Gaps of 0.8 and 0.4; the round that counts is the milestone, not the one that opens."""
    fed = FakeFederation(devices=1, **CODE | {"final_round": final_round, "final_threshold": 0.5})
    state = set_up(fed, [{0: 1.0}], history={0: [accuracy]})
    drive(fedcd._clone_all(fed, state, 16), Answers())
    assert sorted(state.scores[0]) == left
    assert [model is not None for model in state.models] == [True, len(left) == 2]
    assert state.history[0][1] == pytest.approx([1 - accuracy])


def test_as_run_a_lost_parent_deletes_during_cloning():
    """Model 2 is below a tenth of model 1; as written it is cloned, and deleted a round later."""
    for scoring, left in (("code", [1, 5]), ("paper", [1, 2, 5, 6])):
        fed = FakeFederation(devices=1, scoring=scoring, milestones=(2,), final_round=None)
        histories = {0: [0.4], 1: [0.8], 2: [0.05], 3: [0.4]}
        state = set_up(fed, [{1: 0.9, 2: 0.1, 3: 0.0}], history=histories)
        fedcd._forget(state, 0, [3])
        drive(fedcd._clone_all(fed, state, 3), Answers())
        assert sorted(state.scores[0]) == left


def test_moments_are_kept_by_device_and_model_and_fresh_for_clones():
    fed = FakeFederation(devices=2, milestones=(0,))
    _, requests, _ = play(fed, 3)
    first, second, third = ([lane.optimizer_state for lane in asked[0].lanes] for asked in requests)
    assert first == [None, None]
    assert [state is None for state in second] == [False, True, False, True]
    assert all(state is not None for state in third)
    fed = FakeFederation(devices=2, milestones=(0,), optimizer_state="reset")
    _, requests, _ = play(fed, 3)
    assert all(lane.optimizer_state is None for asked in requests for lane in asked[0].lanes)
    assert not requests[2][0].keep_optimizer_state


def test_noise_enters_only_where_there_are_several_models():
    fed = FakeFederation(milestones=(1,), score_noise_sd=0.01)
    state, _, _ = play(fed, 3)
    assert all(sum(scores.values()) == pytest.approx(1) for scores in state.scores)
    assert len({scores[0] for scores in state.scores}) == 4
    assert all(0.47 < scores[0] < 0.53 for scores in state.scores)


def test_devices_count_alike_whatever_the_number_of_their_images():
    fed = FakeFederation(devices=2, milestones=())
    fed.partition.node_sets["test"].parts = (np.arange(10), np.arange(10, 12))
    answers = Answers(lambda device, _: 0.9 if device == 0 else 0.1)
    _, metrics = drive(fedcd.evaluate(fed, fedcd.init(fed)), answers)
    assert metrics["accuracy"] == pytest.approx((9 / 10 + 1 / 2) / 2)


def test_log_and_evaluation():
    fed = FakeFederation(devices=2, milestones=(0,))
    answers = Answers(lambda device, weight: 0.9 if (device == 0) == (weight < 4.2) else 0.3)
    state, _, _ = play(fed, 1, answers)
    drive(fedcd._clone_all(fed, state, 1), answers)
    state.models = [torch.tensor([4.0, 0.0]), torch.tensor([5.0, 0.0])]
    asked, metrics = drive(fedcd.evaluate(fed, state), answers)
    # device 0 prefers model 0 (0.9), device 1 the clone of a parent of 0.3
    assert [request.split for request in asked] == ["test"]  # one request, whatever the models
    assert shown(asked[0]) == [list(range(10)), list(range(10, 20))]
    assert [model.tolist() for model in asked[0].models] == [[4.0, 0.0], [5.0, 0.0]]
    assert metrics == {"accuracy": pytest.approx(0.9), "loss": 1.0}
    fedcd._remember(state)
    kept = fedcd.summary(fed, state)
    assert kept["tested"] == [10, 10]
    assert kept["correct"] == [[9, 9]]
    assert kept["active"] == [[1, 1], [3, 3]]
    assert kept["preferred"] == [[0, 0], [0, 1]]
    assert kept["scores"] == [[[1000], [1000]], [[900, 100], [300, 700]]]


def test_a_model_is_asked_once_about_the_images_of_all_who_prefer_it():
    fed = FakeFederation(milestones=())
    state = fedcd.init(fed)
    asked, metrics = drive(fedcd.evaluate(fed, state), Answers(lambda device, _: (device + 1) / 10))
    assert [len(request.models) for request in asked] == [1]
    assert metrics["accuracy"] == pytest.approx(0.25)
    assert state.log["correct"] == [[1, 2, 3, 4]]


def test_the_loss_counts_a_model_by_the_images_it_is_asked_about():
    fed = FakeFederation(devices=3, milestones=())
    state = set_up(fed, [{0: 1.0}, {0: 1.0}, {1: 1.0}], weights=[0, 1])
    asked, metrics = drive(fedcd.evaluate(fed, state), Answers(loss=lambda weight: 1 + 3 * weight))
    assert [len(images) for images in shown(asked[0])] == [20, 10]
    assert metrics["loss"] == pytest.approx((20 * 1 + 10 * 4) / 30)


def test_one_device_counts_twice_as_run():
    found = set()
    for seed in range(30):
        fed = FakeFederation(devices=3, milestones=(), first_device_double=True)
        fed.spec.seed = seed
        state, _, _ = play(fed, 1)
        found.add(round(state.models[0][0].item(), 6))
    assert found == {1.75, 2.0, 2.25}  # (1 + 2 + 3 + one of them) / 4


def test_clones_are_quantised_when_asked():
    fed = FakeFederation(devices=2, milestones=(0,), quantise_clones=True)
    state, _, _ = play(fed, 1)
    requests, _ = drive(fedcd._clone_all(fed, state, 1), Answers())
    assert len(requests) == 1
    assert requests[0].epochs == 0
    assert requests[0].objective.quantise_bits == 8
    assert [lane.stream for lane in requests[0].lanes] == [("clone", 1)]
    assert state.models[1][0].item() == state.models[0][0].item() + 0.25


def test_step_sizes_go_by_the_round_unless_as_run():
    fed = FakeFederation(milestones=(0,))
    _, requests, _ = play(fed, 2)
    assert {lane.lr for asked in requests for lane in asked[0].lanes} == {None}


def test_legacy_step_sizes_by_hand():
    # trained for 8 rounds of 3 epochs: a clone's milestones 25, 50, 75 become 1, 26, 51
    fed = FakeFederation(devices=1, milestones=(7,), clone_lr="legacy", final_round=None)
    _, requests, _ = play(fed, 36)
    lrs = {m: [] for m in (0, 1)}
    for asked in requests:
        for lane in asked[0].lanes:
            lrs[lane.stream[3]].append(lane.lr)
    assert lrs[0] == pytest.approx([0.1] * 25 + [0.01] * 11)
    assert lrs[1] == pytest.approx([0.1] + [0.01] * 25 + [0.001] * 2)


def test_legacy_clones_count_the_epochs_of_their_own_parents():
    # model 0 trains in rounds 0 to 4, its first clone, model 1, in rounds 3 and 4
    fed = FakeFederation(devices=1, milestones=(2, 4), clone_lr="legacy", final_round=None)
    state, _, _ = play(fed, 6)
    assert state.offsets[0] == {0: 0, 1: 9, 2: 15, 3: 6}


def test_a_legacy_milestone_at_the_start_has_fired():
    optimizer = Sgd(name="sgd", lr=0.1, momentum=0.9, lr_milestones=(3,))
    fed = FakeFederation(devices=1, optimizer=optimizer, milestones=(0,), clone_lr="legacy")
    _, requests, _ = play(fed, 2)
    assert [lane.lr for lane in requests[1][0].lanes] == pytest.approx([0.1, 0.01])


def test_legacy_milestones_before_the_start_never_fire():
    # 30 epochs: -5 is gone for good, 20 and 45 are to come
    fed = FakeFederation(devices=1, milestones=(9,), clone_lr="legacy", final_round=None)
    _, requests, _ = play(fed, 31)
    clone = [lane.lr for asked in requests for lane in asked[0].lanes if lane.stream[3] == 1]
    assert clone == pytest.approx([0.1] * 20 + [0.01])


def test_momentum_kick_by_hand():
    optimizer = Sgd(name="sgd", lr=0.1, momentum=0.9, weight_decay=0.01)
    fed = FakeFederation(
        devices=2,
        drawn={0: [0], 1: [0, 1]},
        optimizer=optimizer,
        milestones=(8,),
        momentum_kick=True,
    )
    state = fedcd.init(fed)
    requests, _ = drive(fedcd.round(fed, state, 0), Answers())
    # the average is 1; device 0 has velocity 0.9 * 1 + 0.01 * 1 and holds 1 - 0.1 * 0.91
    assert state.models[0].tolist() == [1.0, 101.0]
    assert fedcd._held(fed, state, (0, 0)).tolist() == pytest.approx([0.909, 101.0])
    assert fedcd._held(fed, state, (1, 0)).tolist() == [1.0, 101.0]
    assert requests[1].models[0][0].item() == pytest.approx(0.909)  # it validates its own copy
    requests, _ = drive(fedcd.round(fed, state, 1), Answers())
    assert requests[0].lanes[0].weights[0].item() == pytest.approx(0.909)
    assert requests[0].lanes[0].optimizer_state["velocity"].item() == pytest.approx(0.91)
    asked, _ = drive(fedcd.evaluate(fed, state), Answers())
    assert [len(request.models) for request in asked] == [2]  # each device its own copy


def test_a_momentum_kick_has_the_step_size_of_its_round():
    optimizer = Sgd(name="sgd", lr=0.1, momentum=0.9, lr_milestones=(1,))
    fed = FakeFederation(devices=1, optimizer=optimizer, milestones=(8,), momentum_kick=True)
    for rounds, lr in ((1, 0.1), (2, 0.01)):
        state, _, _ = play(fed, rounds)
        assert state.kicks == [{0: pytest.approx(lr)}]


@pytest.mark.parametrize(
    "optimizer",
    [
        {"name": "sgd", "lr": 0.1},
        {"name": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True},
        {"name": "sgd", "lr": 0.1, "momentum": 0.9, "vector_lr_factor": 0.1},
        {"name": "adam", "lr": 0.1},
    ],
)
def test_momentum_kick_needs_plain_momentum(optimizer):
    algorithm = {"name": "fedcd", "participants": 4, "momentum_kick": True}
    with pytest.raises(ValueError, match="momentum_kick needs sgd with momentum"):
        make_spec(**SMALL | {"algorithm": algorithm, "optimizer": optimizer})


def test_legacy_step_sizes_know_no_decay():
    optimizer = {"name": "sgd", "lr": 0.1, "lr_decay": 0.9}
    algorithm = {"name": "fedcd", "participants": 4, "clone_lr": "legacy"}
    with pytest.raises(ValueError, match="no lr_decay"):
        make_spec(**SMALL | {"algorithm": algorithm, "optimizer": optimizer})


@pytest.mark.parametrize("milestones", [(5, 5), (15, 5), (-1, 5)])
def test_milestones_ascend(milestones):
    with pytest.raises(ValueError, match="milestones must be rounds from 0"):
        fedcd.Params(name="fedcd", milestones=milestones)


SMALL = {
    "dataset": {"name": "synthetic_rgb"},
    "partition": {
        "scheme": "hierarchical",
        "clients": 10,
        "train": 8,
        "validation": 5,
        "test": 5,
        "validation_pool": 500,
    },
    "model": {"name": "fedcd_cnn", "width": 0.0625},
    "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
    "local_epochs": 1,
    "rounds": 4,
}


def small(**algorithm):
    return make_spec(**SMALL, algorithm={"name": "fedcd", "participants": 4} | algorithm)


def run(spec, folder, **options):
    done = []

    def fail(_, error):
        raise error

    drive_runs([spec], LoopBackend(), folder, done.append, fail, **options)
    return done[0].progress


def test_a_partition_without_device_sets_is_refused():
    spec = make_spec(algorithm={"name": "fedcd", "participants": 4})
    with pytest.raises(FedreproError, match="fedcd needs test and validation images"):
        fedcd.init(Federation(spec, data.load("synthetic")))


def test_until_the_first_milestone_it_is_federated_averaging(tmp_path):
    clones = run(small(milestones=(1,)), tmp_path).metrics
    plain = run(small(milestones=()), tmp_path).metrics
    assert clones["accuracy"][:2] == plain["accuracy"][:2]
    assert clones["train_loss"][:2] == plain["train_loss"][:2]
    assert clones["train_loss"][2:] != plain["train_loss"][2:]


def test_scores_of_the_code_need_its_clones():
    with pytest.raises(ValueError, match="scoring: code needs clone_score: accuracy"):
        fedcd.Params(name="fedcd", scoring="code", clone_score="score")


@pytest.mark.parametrize(
    "switches",
    [
        {},
        {
            "quantise_clones": True,
            "quantise_bits": 4,
            "clone_lr": "legacy",
            "momentum_kick": True,
            "first_device_double": True,
            "scoring": "code",
            "final_round": 2,
            "final_rule": "gap",
            "final_threshold": 0.05,
        },
        {"clone_score": "score", "delete_rule": "paper", "score_scope": "all"},
    ],
)
def test_a_resumed_run_ends_as_an_unbroken_one(tmp_path, switches):
    spec = small(milestones=(0, 2), **switches)
    whole = run(spec, tmp_path / "whole")

    with pytest.raises(Interrupt):
        run(spec, tmp_path / "broken", on_progress=stop_in_round_2, checkpoint_seconds=0)
    resumed = run(spec, tmp_path / "broken")
    assert resumed.metrics == whole.metrics
    assert resumed.final == whole.final
    assert len(whole.final["correct"]) == 4


def test_sample_passes_of_the_published_runs():
    # 15 devices, 3 epochs, 5,000 images a round and model; 1,750 images asked of each device
    specs = {run.group: run.spec for run in expand("fedcd", "paper")}
    asked = 30 * 1750 / 3
    fedavg = 300 * 225_000 + 300 * asked
    assert cost.sample_passes(specs["hier_fedavg"]) == pytest.approx(fedavg)
    fedcd = (5 + 145 * 2.1) * 225_000 + 150 * asked
    assert cost.sample_passes(specs["hier_fedcd"]) == pytest.approx(fedcd)
