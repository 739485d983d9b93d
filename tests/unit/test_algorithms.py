"""Algorithms, one generator at a time: the requests they make and what they do with the answers."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fake_federation import FakeFederation, add_client, drive

from fedrepro.base.errors import FedreproError
from fedrepro.fl.algorithms import fedavg, local, selective, sgd
from fedrepro.fl.algorithms.averaging import statistics_of, weighted_mean, with_statistics
from fedrepro.fl.layout import Layout
from fedrepro.fl.requests import Predict, Prediction, Train


def test_weighted_mean_by_hand():
    models = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 6.0])]
    assert weighted_mean(models, [1, 3]).tolist() == [2.5, 5.0]
    assert models[0].tolist() == [1.0, 2.0]


def test_statistics_are_what_follows_the_parameters():
    model = torch.tensor([1.0, 2.0, 3.0])
    statistics = statistics_of(model, 2)
    assert statistics.tolist() == [3.0]
    assert with_statistics(torch.tensor([7.0, 8.0, 9.0]), statistics).tolist() == [7.0, 8.0, 3.0]
    statistics[0] = 9.0
    assert model.tolist() == [1.0, 2.0, 3.0], "they are a copy"


def test_fedavg_weights_by_examples():
    fed = FakeFederation(fedavg.Params(name="fedavg"))
    state = fedavg.init(fed)
    requests, log = drive(fedavg.round(fed, state, 0), add_client)
    assert state.weights.item() == pytest.approx((1 * 1 + 3 * 2) / 4)
    assert [lane.stream for lane in requests[0].lanes] == [("client", 0), ("client", 1)]
    assert log == {"train_loss": 0.5}


def test_fedavg_uniform_weights_and_participation():
    params = fedavg.Params(name="fedavg", weighting="uniform", participants=2)
    fed = FakeFederation(params, sizes=(1, 3, 5))
    state = fedavg.init(fed)
    drive(fedavg.round(fed, state, 0), add_client)
    assert state.weights.item() == pytest.approx(1.5)


def test_fedavg_may_begin_with_weights_of_each_clients_own():
    """The first round only; then all clients hold the average."""
    starts = {}
    for initial in ("common", "own"):
        fed = FakeFederation(fedavg.Params(name="fedavg", initial=initial))
        state = fedavg.init(fed)
        rounds = [drive(fedavg.round(fed, state, t), add_client)[0][0] for t in range(2)]
        starts[initial] = [[lane.weights.item() for lane in asked.lanes] for asked in rounds]
    assert starts["common"][0] == [0, 0]
    assert starts["own"][0] == [10, 20]
    mean = (1 * (10 + 1) + 3 * (20 + 2)) / 4
    assert starts["own"][1] == pytest.approx([mean, mean])


def test_fedavg_keeps_moments_only_when_asked():
    for choice, steps in (("keep", [2, 2]), ("reset", [])):
        fed = FakeFederation(fedavg.Params(name="fedavg", optimizer_state=choice))
        state = fedavg.init(fed)
        for t in range(2):
            drive(fedavg.round(fed, state, t), add_client)
        assert [moments["step"] for moments in state.moments.values()] == steps


def test_fedavg_sgd_reference_only_in_round_zero():
    fed = FakeFederation(fedavg.Params(name="fedavg", sgd_reference=True))
    fed.layout = Layout(("a.weight",), ((1,),), (0, 1), 1)
    state = fedavg.init(fed)
    first, log = drive(fedavg.round(fed, state, 0), add_client)
    second, _ = drive(fedavg.round(fed, state, 1), add_client)
    assert log == {"train_loss": 0.5}, "the clients' loss alone"
    reference = first[0].lanes[2:]
    assert [lane.batch for lane in reference] == [4, 4]
    assert all(len(lane.examples) == 4 for lane in reference)
    assert len({lane.stream for lane in reference}) == 2
    assert len(second[0].lanes) == 2
    divergence = fedavg.summary(fed, state)["weight_divergence"]
    assert divergence["fedavg"]["model"] == pytest.approx((100 - 1.75) / 100)
    assert divergence["sgd_other_shuffle"]["model"] == 0


def test_weight_divergence_by_hand():
    module = torch.nn.Sequential()
    module.add_module("a", torch.nn.Linear(1, 2))
    layout = Layout.of(module)  # a.weight [2, 1], a.bias [2]
    reference = torch.tensor([3.0, 4.0, 0.0, 0.0])
    model = torch.tensor([3.0, 1.0, 4.0, 0.0])
    assert fedavg.weight_divergence(layout, model, reference) == pytest.approx(
        {"a": 3 / 5, "a+bias": 1.0, "model": 1.0}
    )


def test_running_statistics_are_no_part_of_the_divergence():
    layout = Layout.of(torch.nn.Sequential(torch.nn.BatchNorm1d(2)))
    reference = torch.ones(layout.size)
    model = reference.clone()
    model[layout.parameters :] = 9.0
    found = fedavg.weight_divergence(layout, model, reference)
    assert found == {"0": 0, "0+bias": 0, "model": 0}


def test_fedavg_pretrains_as_sgd_with_k_times_the_batch_and_then_begins_at_round_zero():
    fed = FakeFederation(fedavg.Params(name="fedavg", pretrain_epochs=2))
    assert fedavg.rounds(fed.spec) == 6
    state = fedavg.init(fed)
    asked = [drive(fedavg.round(fed, state, t), add_client)[0][0] for t in range(4)]
    assert [request.round for request in asked] == [0, 1, 0, 1]
    assert [request.epochs for request in asked] == [1, 1, None, None]
    for request in asked[:2]:
        (lane,) = request.lanes
        assert (lane.stream, lane.batch) == (("union",), 4)
        assert lane.examples.tolist() == [0, 1, 2, 3]
    assert [lane.stream for lane in asked[2].lanes] == [("client", 0), ("client", 1)]
    assert state.weights.item() == pytest.approx(200 + 2 * 1.75)


def test_pre_training_does_not_depend_on_how_the_examples_are_cut():
    fed = FakeFederation(fedavg.Params(name="fedavg", pretrain_epochs=1))
    fed.clients = (np.array([1, 3]), np.array([0, 2]))
    requests, _ = drive(fedavg.round(fed, fedavg.init(fed), 0), add_client)
    assert requests[0].lanes[0].examples.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("until", [0.6, 0.75])
def test_fedavg_warms_up_on_the_shared_examples_until_the_accuracy_is_reached(until):
    params = fedavg.Params(name="fedavg", warm_up={"until": until, "epochs": 5})
    fed = FakeFederation(params)
    fed.partition.shared = np.array([7, 9])
    reached = iter([0.2, 0.5, 0.75])

    def answer(request):
        if isinstance(request, Predict):
            assert (request.split, request.examples) == ("test", None)
            right = int(20 * next(reached))
            correct = np.arange(20) < right
            return [Prediction(np.zeros(20, dtype=np.int64), correct, 1.0)]
        return add_client(request)

    state = fedavg.init(fed)
    requests, _ = drive(fedavg.round(fed, state, 0), answer)
    warming = [r for r in requests if isinstance(r, Train)][:-1]
    assert [(r.round, r.epochs) for r in warming] == [(0, 1), (1, 1), (2, 1)]
    assert all(r.lanes[0].examples.tolist() == [7, 9] for r in warming)
    assert fedavg.summary(fed, state) == {"warm_up": {"epochs": 3, "accuracy": 0.75}}
    assert state.weights.item() == pytest.approx(300 + 1.75)
    later, _ = drive(fedavg.round(fed, state, 1), answer)
    assert len(later) == 1, "the warm-up precedes the first round only"


def test_a_warm_up_needs_shared_examples():
    fed = FakeFederation(fedavg.Params(name="fedavg", warm_up={"until": 1.0, "epochs": 2}))
    fed.partition.shared = np.zeros(0, dtype=np.int64)
    with pytest.raises(FedreproError, match=r"algorithm\.warm_up needs examples"):
        fedavg.init(fed)


def test_fedavg_goes_on_where_the_warm_up_does_not_reach_its_accuracy():
    fed = FakeFederation(fedavg.Params(name="fedavg", warm_up={"until": 1.0, "epochs": 2}))
    fed.partition.shared = np.array([7])

    def answer(request):
        if isinstance(request, Predict):
            return [Prediction(np.zeros(2, dtype=np.int64), np.array([True, False]), 1.0)]
        return add_client(request)

    state = fedavg.init(fed)
    drive(fedavg.round(fed, state, 0), answer)
    assert state.warm_up == {"epochs": 2, "accuracy": 0.5}


def test_sgd_trains_the_union_with_kept_moments():
    fed = FakeFederation(sgd.Params(name="sgd"))
    state = sgd.init(fed)
    for t in range(3):
        requests, _ = drive(sgd.round(fed, state, t), add_client)
    assert len(requests[0].lanes) == 1
    assert sorted(requests[0].lanes[0].examples) == [0, 1, 2, 3]
    assert state.moments == {"step": 3}
    assert state.weights.item() == 300


@pytest.mark.parametrize(("initial", "start"), [("common", [0, 0]), ("own", [10, 20])])
def test_local_never_averages(initial, start):
    fed = FakeFederation(local.Params(name="local", initial=initial))
    state = local.init(fed)
    for t in range(2):
        drive(local.round(fed, state, t), add_client)
    assert [w.item() for w in state.weights] == [start[0] + 2, start[1] + 4]
    assert [moments["step"] for moments in state.moments] == [2, 2]


def single(**changes):
    return selective.Params(
        **({"name": "selective", "local_rounds": 0, "grouping": "single"} | changes)
    )


@pytest.mark.parametrize(
    ("algorithm", "params", "loss"),
    [
        (fedavg, fedavg.Params(name="fedavg"), 0.5),
        (local, local.Params(name="local"), 0.5),
        (selective, single(local_rounds=9), 0.5),
        (selective, single(), 0.5),
        (selective, single(aggregation="alias"), 0.5),
        (sgd, sgd.Params(name="sgd"), 2.0),
    ],
)
def test_a_round_trains_under_its_number_and_logs_the_mean_loss(algorithm, params, loss):
    fed = FakeFederation(params)
    state = algorithm.init(fed)
    for t in (0, 3):
        requests, log = drive(algorithm.round(fed, state, t), add_client)
        assert {request.round for request in requests} == {t}
        assert log == {"train_loss": loss}


def test_true_averaging_over_one_group_is_fedavg():
    fed = FakeFederation(single())
    state = selective.init(fed)
    averaged = fedavg.State(torch.tensor([0.0]))
    other = FakeFederation(fedavg.Params(name="fedavg"))
    for t in range(3):
        drive(selective.round(fed, state, t), add_client)
        drive(fedavg.round(other, averaged, t), add_client)
    assert [state.models[i].item() for i in state.storage] == [averaged.weights.item()] * 2


def test_aliasing_is_one_average_and_then_sequential_training():
    params = single(aggregation="alias", weighting="uniform", optimizer_state="keep", initial="own")
    fed = FakeFederation(params)
    state = selective.init(fed)
    drive(selective.round(fed, state, 0), add_client)
    # Round 0: nodes start at 10 and 20 and add 1 and 2; both then hold the mean.
    assert [state.models[i].item() for i in state.storage] == [16.5, 16.5]
    requests, _ = drive(selective.round(fed, state, 1), add_client)
    # Round 1: node 0 trains the shared weights, node 1 goes on from what node 0 left.
    assert [request.lanes[0].weights.item() for request in requests] == [16.5, 17.5]
    assert [state.models[i].item() for i in state.storage] == [19.5, 19.5]
    assert [moments["step"] for moments in state.moments] == [2, 2]
    assert len(state.models) == 1


@pytest.mark.parametrize("aggregation", ["average", "alias"])
def test_moments_that_are_reset_reach_no_second_round(aggregation):
    fed = FakeFederation(single(aggregation=aggregation, initial="own"))
    state = selective.init(fed)
    for t in range(2):
        requests, _ = drive(selective.round(fed, state, t), add_client)
        moments = [lane.optimizer_state for request in requests for lane in request.lanes]
        assert moments == [None, None]


@pytest.mark.parametrize(("choice", "second"), [("keep", [2, 2]), ("reset", None)])
def test_moments_live_through_phase_1_whatever_becomes_of_them_in_phase_2(choice, second):
    fed = FakeFederation(single(local_rounds=2, optimizer_state=choice))
    state = selective.init(fed)
    held = []
    for t in range(3):
        requests, _ = drive(selective.round(fed, state, t), add_client)
        assert requests[0].round == t, "phase 2 goes on counting"
        moments = [lane.optimizer_state for lane in requests[0].lanes]
        held.append(moments[0] and [each["step"] for each in moments])
    assert held == [None, [1, 1], second]


def test_nodes_of_a_single_group_draw_as_those_of_federated_averaging():
    fed = FakeFederation(single(aggregation="alias"))
    requests, _ = drive(selective.round(fed, selective.init(fed), 0), add_client)
    assert [request.lanes[0].stream for request in requests] == [("client", 0), ("client", 1)]


def predictions(vectors):
    def answer(request):
        if isinstance(request, Predict):
            assert request.split == "train"
            return [Prediction(np.zeros(5, int), np.array(v, bool), 0.0) for v in vectors]
        return add_client(request)

    return answer


VECTORS = [[1, 1, 1, 0, 0], [0, 0, 0, 1, 1], [1, 1, 1, 0, 0]]


def test_selective_groups_and_averages_within_groups():
    fed = FakeFederation(
        selective.Params(name="selective", local_rounds=1, threshold=0.9), sizes=(1, 1, 3)
    )
    state = selective.init(fed)
    answer = predictions(VECTORS)
    drive(selective.round(fed, state, 0), answer)
    assert [state.models[i].item() for i in state.storage] == [1, 2, 3]
    drive(selective.round(fed, state, 1), answer)
    assert state.groups == [[0, 2], [1]]
    assert state.agreement[0] == [1.0, 0.0, 1.0]
    # Nodes go on from their local weights: (1 + 1) and (3 + 3) weighted 1:3, and 2 + 2 alone.
    assert [state.models[i].item() for i in state.storage] == [5.0, 4.0, 5.0]
    assert selective.summary(fed, state)["groups"] == [[0, 2], [1]]


@pytest.mark.parametrize(("threshold", "groups"), [(0.6, [[0, 1], [2]]), (0.61, [[0, 1, 2]])])
def test_as_printed_nodes_join_below_a_threshold_of_their_dot_product(threshold, groups):
    params = selective.Params(
        name="selective", local_rounds=0, similarity="dot", threshold=threshold
    )
    fed = FakeFederation(params, sizes=(1, 1, 1))
    state = selective.init(fed)
    # Nodes 0 and 2 are right on the same three of five images; node 1 on the others.
    drive(selective.round(fed, state, 0), predictions(VECTORS))
    assert state.groups == groups
    assert state.agreement[0] == [1.0, 0.0, 1.0]


def test_a_node_of_two_groups_trains_for_both_when_aliased():
    params = selective.Params(
        name="selective",
        local_rounds=0,
        threshold=0.5,
        compare="first",
        several_groups=True,
        aggregation="alias",
        weighting="uniform",
        optimizer_state="keep",
        initial="own",
    )
    fed = FakeFederation(params, sizes=(1, 1, 1))
    state = selective.init(fed)
    # Node 2 agrees with nodes 0 and 1, who disagree with each other.
    answer = predictions([[1, 1, 1, 0, 0], [1, 0, 0, 1, 0], [1, 1, 0, 0, 0]])
    requests, _ = drive(selective.round(fed, state, 0), answer)
    assert state.groups == [[0, 2], [1, 2]]
    streams = [request.lanes[0].stream for request in requests[1:]]
    assert streams == [
        ("client", 0, "group", 0),
        ("client", 2, "group", 0),
        ("client", 1, "group", 1),
        ("client", 2, "group", 1),
    ]
    # Group 0: (11 + 33) / 2 = 22; group 1: node 2 trains that average on, (22 + 25) / 2 = 23.5.
    # Its training was in place, so node 0, which still points at group 0's storage, sees 25.
    assert [state.models[i].item() for i in state.storage] == [25.0, 23.5, 23.5]


def test_rounds_count_both_phases():
    spec = SimpleNamespace(rounds=21, algorithm=selective.Params(name="selective", local_rounds=4))
    assert selective.rounds(spec) == 25


class NormalisedFederation(FakeFederation):
    """Models of one parameter and one running statistic."""

    layout = SimpleNamespace(parameters=1)

    def initial_weights(self, node=None):
        return torch.cat([super().initial_weights(node), torch.tensor([5.0])])


def held(request):
    return [lane.weights.tolist() for lane in request.lanes]


def evaluated(algorithm, fed, state):
    """Return the models that are evaluated, and for each of them 0.1 times its number right."""

    def answer(request):
        return [
            Prediction(np.zeros(10, int), np.arange(10) < number, 0.0)
            for number in range(len(request.models))
        ]

    requests, metrics = drive(algorithm.evaluate(fed, state), answer)
    return [model.tolist() for model in requests[0].models], metrics["accuracy"]


def test_fedavg_averages_statistics_or_leaves_them_to_the_clients():
    for choice, second in (("average", [[1.75, 6.75]] * 2), ("local", [[1.75, 6.0], [1.75, 7.0]])):
        fed = NormalisedFederation(fedavg.Params(name="fedavg", bn_statistics=choice))
        state = fedavg.init(fed)
        first, _ = drive(fedavg.round(fed, state, 0), add_client)
        assert held(first[0]) == [[0.0, 5.0]] * 2
        assert held(drive(fedavg.round(fed, state, 1), add_client)[0][0]) == second
    models, accuracy = evaluated(fedavg, fed, state)
    assert models == [[3.5, 7.0], [3.5, 9.0]]
    assert accuracy == pytest.approx(0.05)


def test_a_client_that_has_not_trained_holds_the_initial_statistics():
    params = fedavg.Params(name="fedavg", participants=1, bn_statistics="local")
    fed = NormalisedFederation(params)
    state = fedavg.init(fed)
    drive(fedavg.round(fed, state, 0), add_client)
    assert evaluated(fedavg, fed, state)[0] == [[1.0, 6.0], [1.0, 5.0]]


def test_aliased_nodes_share_parameters_and_not_statistics():
    fed = NormalisedFederation(
        single(aggregation="alias", weighting="uniform", initial="own", bn_statistics="local")
    )
    state = selective.init(fed)
    drive(selective.round(fed, state, 0), add_client)
    # Each node added its number plus one to both; the parameters 11 and 22 were averaged.
    requests, _ = drive(selective.round(fed, state, 1), add_client)
    assert [held(request)[0] for request in requests] == [[16.5, 6.0], [17.5, 7.0]]
    assert evaluated(selective, fed, state)[0] == [[19.5, 7.0], [19.5, 9.0]]


def test_selective_keeps_statistics_from_the_local_phase_on():
    params = selective.Params(
        name="selective", local_rounds=1, threshold=0.9, bn_statistics="local"
    )
    fed = NormalisedFederation(params, sizes=(1, 1, 3))
    state = selective.init(fed)
    answer = predictions(VECTORS)
    drive(selective.round(fed, state, 0), answer)
    requests, _ = drive(selective.round(fed, state, 1), answer)
    assert [model.tolist() for model in requests[0].models] == [[1.0, 6.0], [2.0, 7.0], [3.0, 8.0]]
    models, _ = evaluated(selective, fed, state)
    assert models == [[5.0, 7.0], [4.0, 9.0], [5.0, 11.0]]


def test_half_of_the_validation_images_is_left_for_tuning():
    params = selective.Params(name="selective", local_rounds=0, threshold=0.9, vectors="half")
    fed = FakeFederation(params, sizes=(1, 1, 1))
    parts = ([0, 1, 4], [2, 3], [1, 3])
    fed.partition.node_sets = {
        "validation": SimpleNamespace(split="train", parts=tuple(map(np.array, parts)))
    }
    fed.train_size = 5
    # Of images 0 to 4, nodes 0 and 1 agree on 0, 2, 4, but not on 1 and 3.
    vectors = np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 0], [0, 0, 0, 0, 1]], bool)

    def answer(request):
        if not isinstance(request, Predict):
            return add_client(request)
        shown = range(5) if request.examples is None else request.examples
        chosen = vectors[: len(request.models), list(shown)]
        return [Prediction(np.zeros(len(v), int), v, 0.0) for v in chosen]

    state = selective.init(fed)
    drive(selective.round(fed, state, 0), answer)
    assert state.groups == [[0, 1], [2]]
    requests, metrics = drive(selective.evaluate(fed, state), answer)
    assert requests[-1].examples.tolist() == [1, 3]
    # Node 0 is asked for image 1 (right), node 1 for 3 (right), node 2 for 1 and 3 (both wrong).
    assert metrics["accuracy_tuning"] == pytest.approx(2 / 3)
