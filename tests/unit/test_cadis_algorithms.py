"""FedProx, FedDyn, FedFA, CADIS and the probe, one generator at a time, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fake_federation import FakeFederation, add_client, drive
from small_runs import make_spec

from fedrepro.fl.algorithms import cadis, fedavg, feddyn, fedfa, fedprox, probe
from fedrepro.fl.layout import Layout
from fedrepro.fl.requests import Objective, Predict, Prediction, Train, Trained

ONE_NUMBER = Layout(("out.weight", "out.bias"), ((1, 1), (0,)), (0, 1, 1), 1)


class Federation(FakeFederation):
    """Clients that hold a label each; models of one number unless ``start`` says otherwise."""

    def __init__(self, params, sizes=(1, 3), *, start=(0.0,), layout=ONE_NUMBER, held=None):
        super().__init__(params, sizes)
        self.spec.seed = 0
        self.layout = layout
        counts = np.eye(len(sizes), dtype=np.int64) if held is None else np.array(held)
        self.partition.counts = counts
        self._start = torch.tensor(start)

    def initial_weights(self, node=None):
        return self._start.clone()


def right_on(correct):
    """Answer predictions with these answers and training with :func:`add_client`."""

    def answer(request):
        if isinstance(request, Predict):
            taken = np.array(correct, bool)[: len(request.examples)]
            return [Prediction(np.zeros(len(taken), int), taken, 0.0)]
        return add_client(request)

    return answer


def test_fedprox_is_fedavg_with_a_proximal_term():
    fed = Federation(fedprox.Params(name="fedprox", mu=0.1))
    state = fedprox.init(fed)
    requests, log = drive(fedprox.round(fed, state, 2), add_client)
    assert [type(request) for request in requests] == [Train]
    assert requests[0].objective == Objective(proximal=0.1)
    assert requests[0].round == 2
    assert state.weights.item() == pytest.approx((1 * 1 + 3 * 2) / 4)
    assert log == {"train_loss": 0.5}


def test_fedprox_uniform_and_repeated_order():
    params = fedprox.Params(name="fedprox", mu=0, weighting="uniform", order="repeated")
    fed = Federation(params)
    state = fedprox.init(fed)
    requests, _ = drive(fedprox.round(fed, state, 7), add_client)
    assert requests[0].round == 0
    assert state.weights.item() == pytest.approx(1.5)


@pytest.mark.parametrize("changes", [{"lr_decay": 0.9}, {"lr_milestones": [2]}])
def test_repeated_rounds_have_one_step_size(changes):
    optimizer = {"name": "sgd", "lr": 0.05} | changes
    algorithm = {"name": "fedprox", "mu": 0}
    make_spec(algorithm=algorithm, optimizer=optimizer)
    with pytest.raises(ValueError, match="step size must be constant"):
        make_spec(algorithm=algorithm | {"order": "repeated"}, optimizer=optimizer)


@pytest.mark.parametrize(
    ("algorithm", "params"),
    [
        (fedavg, fedavg.Params(name="fedavg", local_accuracy=True)),
        (fedprox, fedprox.Params(name="fedprox", mu=0.1, local_accuracy=True)),
        (cadis, cadis.Params(name="cadis", local_accuracy=True)),
    ],
)
def test_accuracy_on_the_participants_examples_is_of_the_received_model(algorithm, params):
    fed = Federation(params, sizes=(1, 4), start=(3.0, 0.0, 0.0, 0.0), layout=WIDE)
    state = algorithm.init(fed)
    requests, log = drive(algorithm.round(fed, state, 0), right_on([1, 1, 0, 0, 0]))
    assert [type(request) for request in requests] == [Predict, Train]
    assert requests[0].split == "train"
    assert requests[0].models[0].tolist() == [3, 0, 0, 0]
    assert requests[0].examples.tolist() == [0, 1, 2, 3, 4]
    # Client 0 is right on 1 of 1, client 1 on 1 of 4.
    assert log["local_accuracy"] == pytest.approx(0.625)
    assert log["local_accuracy_sd"] == pytest.approx(0.375)


def test_feddyn_by_hand():
    fed = Federation(feddyn.Params(name="feddyn", alpha=0.5, participants=2), sizes=(1, 3, 1))
    state = feddyn.init(fed)
    requests, log = drive(feddyn.round(fed, state, 0), add_client)
    assert requests[0].objective == Objective(proximal=0.5)
    assert [lane.linear.item() for lane in requests[0].lanes] == [0, 0]
    # Changes 1 and 2: g = -0.5 and -1; h = -0.5 / 3 * (1 + 2); w = 1.5 - h / 0.5.
    assert {k: g.item() for k, g in state.gradients.items()} == {0: -0.5, 1: -1.0}
    assert state.correction.item() == pytest.approx(-0.5)
    assert state.weights.item() == pytest.approx(2.5)
    assert log == {"train_loss": 0.5, "norm": pytest.approx(2.5)}
    requests, _ = drive(feddyn.round(fed, state, 1), add_client)
    assert requests[0].round == 1
    assert [lane.linear.item() for lane in requests[0].lanes] == [0.5, 1.0]
    assert {k: g.item() for k, g in state.gradients.items()} == {0: -1.0, 1: -2.0}
    assert state.weights.item() == pytest.approx(4 + 2)


def test_feddyn_corrects_parameters_and_averages_statistics():
    layout = Layout(("out.weight", "out.bias", "bn"), ((1, 1), (0,), (1,)), (0, 1, 1, 2), 1)
    for rule, statistic in (("correct", 6.5), ("as_run", None)):
        params = feddyn.Params(name="feddyn", alpha=0.5, participants=2, server=rule)
        fed = Federation(params, sizes=(1, 3, 1), start=(0.0, 5.0), layout=layout)
        state = feddyn.init(fed)
        _, log = drive(feddyn.round(fed, state, 0), add_client)
        assert log["norm"] == pytest.approx(abs(state.weights[0].item())), "of the parameters"
        if statistic is None:  # mean 6.5; h / alpha = -(2/3 * 6.5 - 5)
            statistic = 6.5 + 2 / 3 * 6.5 - 5
        assert state.weights[1].item() == pytest.approx(statistic)
        assert all(gradient.shape == (1,) for gradient in state.gradients.values())


def learn_nothing(request):
    return [Trained(lane.weights, 0.0, None) for lane in request.lanes]


@pytest.mark.parametrize(("number", "period"), [(10, 6.4), (2, 8.7)])
def test_feddyn_as_run_oscillates_without_damping(number, period):
    params = feddyn.Params(name="feddyn", alpha=0.3, participants=1, server="as_run")
    fed = Federation(params, sizes=(1,) * number, start=(1.0,))
    state, rho = feddyn.init(fed), 1 / number
    step = np.array([[rho, 1.0], [rho - 1, 1.0]])  # of (w, -h / alpha)
    assert np.linalg.det(step) == pytest.approx(1)
    assert 2 * np.pi / np.arccos(np.trace(step) / 2) == pytest.approx(period, abs=0.05)
    w, h = 1.0, 0.0
    for t in range(40):
        drive(feddyn.round(fed, state, t), learn_nothing)
        h = h + (rho - 1) * w
        w = w + h
        assert state.weights.item() == pytest.approx(w, abs=1e-4)
        if t < 3 and number == 10:
            assert w == pytest.approx([0.1, -0.89, -1.079][t])


def test_feddyn_correct_stays_where_nothing_is_learnt():
    fed = Federation(feddyn.Params(name="feddyn", alpha=0.3, participants=1), start=(1.0,))
    state = feddyn.init(fed)
    for t in range(3):
        drive(feddyn.round(fed, state, t), learn_nothing)
    assert state.weights.item() == 1


def test_feddyn_rules_are_one_when_all_take_part():
    states = []
    for rule in ("correct", "as_run"):
        fed = Federation(feddyn.Params(name="feddyn", alpha=0.3, server=rule), sizes=(1, 2, 3))
        states.append(feddyn.init(fed))
        for t in range(4):
            drive(feddyn.round(fed, states[-1], t), add_client)
    assert states[0].weights.item() == pytest.approx(states[1].weights.item(), abs=1e-4)


def test_fedfa_shares_by_hand():
    assert fedfa.shares([0.5, 0.5], [1, 1], 0.5, guard=True) == pytest.approx([0.5, 0.5])
    # -log2(3/4), -log2(1/4) for shares of the accuracy; -log2(1/4), -log2(3/4) of 1 - frequency.
    by_accuracy = fedfa.shares([0.6, 0.2], [1, 1], 1.0, guard=True)
    assert by_accuracy == pytest.approx([0.41504 / 2.41504, 2 / 2.41504], abs=1e-4)
    by_frequency = fedfa.shares([0.6, 0.2], [3, 1], 0.0, guard=True)
    assert by_frequency == pytest.approx([2 / 2.41504, 0.41504 / 2.41504], abs=1e-4)
    mixed = fedfa.shares([0.6, 0.2], [3, 1], 0.5, guard=True)
    assert mixed == pytest.approx([0.5, 0.5], abs=1e-4)
    # Who is right on nothing counts as 1e-6: 1, 1 and 19.93157. A frequency has 1e-5 less.
    wrong = fedfa.shares([0.5, 0.5, 0.0], [1, 1, 1], 1.0, guard=True)
    assert wrong == pytest.approx([1 / 21.93157, 1 / 21.93157, 19.93157 / 21.93157], abs=1e-6)
    assert by_frequency == pytest.approx([0.8281470, 0.1718530], abs=1e-7)


def test_fedfa_without_any_right_answer():
    assert fedfa.shares([0, 0, 0], [1, 1, 1], 0.5, guard=True) == pytest.approx([1 / 3] * 3)
    for alpha in (0.0, 0.5):
        assert np.isnan(fedfa.shares([0, 0, 0], [1, 1, 1], alpha, guard=False)).all()


def test_fedfa_asks_for_accuracies_and_counts_participation():
    fed = Federation(fedfa.Params(name="fedfa", alpha=0.0, participants=2), sizes=(1, 3, 1))
    state = fedfa.init(fed)
    for t in range(2):
        requests, log = drive(fedfa.round(fed, state, t), right_on([1, 0, 1, 1]))
    assert [type(request) for request in requests] == [Predict, Train]
    assert requests[1].round == 1
    assert state.taken_part == {0: 2, 1: 2}
    assert state.weights.item() == pytest.approx(3.0)
    assert log == {"train_loss": 0.5, "finite": 1.0}


def test_fedfa_as_written_asks_the_trained_models_about_their_own_examples():
    """Client k's model is k + 1; that of client 0 is right on both of its examples."""
    params = fedfa.Params(name="fedfa", alpha=1.0, participants=2, accuracy_of="trained")
    fed = Federation(params, sizes=(2, 4, 1))
    state = fedfa.init(fed)
    hits = {1.0: [True, True], 2.0: [True, False, False, False]}

    def answer(request):
        if isinstance(request, Train):
            return add_client(request)
        correct = [np.array(hits[model.item()]) for model in request.models]
        return [Prediction(np.zeros(len(own), int), own, 0.0) for own in correct]

    requests, _ = drive(fedfa.round(fed, state, 0), answer)
    assert [type(request) for request in requests] == [Train, Predict]
    assert [own.tolist() for own in requests[1].examples] == [[0, 1], [2, 3, 4, 5]]
    first, second = fedfa.shares([1.0, 0.25], [1, 1], 1.0, guard=True)
    assert state.weights.item() == pytest.approx(first * 1 + second * 2)
    assert first < second  # the less accurate counts for more


def test_fedfa_server_step_goes_back():
    fed = Federation(fedfa.Params(name="fedfa", alpha=0.0, server_lr=0.1))
    state = fedfa.init(fed)
    drive(fedfa.round(fed, state, 0), right_on([1, 1, 1, 1]))
    assert state.weights.item() == pytest.approx(1.5 - 0.1 * 1.5)


def test_fedfa_as_run_is_lost_for_ever_once_nobody_is_right():
    fed = Federation(fedfa.Params(name="fedfa", alpha=0.0, guard=False))
    state = fedfa.init(fed)
    _, log = drive(fedfa.round(fed, state, 0), right_on([0, 0, 0, 0]))
    assert log["finite"] == 0
    assert state.weights.isnan().all()
    requests, log = drive(fedfa.round(fed, state, 1), right_on([1, 1, 1, 1]))
    assert requests == []
    assert log == {"train_loss": 0.0, "finite": 0.0}

    def nothing(request):
        return [Prediction(np.zeros(4, int), np.array([1, 0, 0, 0], bool), float("nan"))]

    _, metrics = drive(fedfa.evaluate(fed, state), nothing)
    assert metrics == {"accuracy": 0.25}


WIDE = Layout(("out.weight", "out.bias"), ((2, 1), (2,)), (0, 2, 4), 4)
"""A final layer of two classes and one feature."""

CHANGES = ([1.0, -1.0, 0, 0], [3.0, -2.9, 0, 0], [-1.0, 1.0, 0, 0])
"""Clients 0 and 1 learn one label, client 2 the other."""


def change(request):
    return [
        Trained(lane.weights + torch.tensor(CHANGES[lane.stream[1]]), 0.25, None)
        for lane in request.lanes
    ]


def cadis_state(sizes=(1, 3, 4), rounds=1, answer=change, **params):
    fed = Federation(
        cadis.Params(name="cadis", **params),
        sizes=sizes,
        start=(0.0,) * 4,
        layout=WIDE,
        held=[[5, 0], [9, 0], [0, 7]],
    )
    state = cadis.init(fed)
    for t in range(rounds):
        requests, log = drive(cadis.round(fed, state, t), answer)
    return fed, state, requests, log


def test_cadis_weighs_by_examples_over_cluster_size():
    fed, state, requests, log = cadis_state()
    assert requests[0].objective == Objective(terms=(("pairwise_divergence", 1.0),))
    # a = 1/2, 3/2, 4: the first row becomes (0.5 * 1 + 1.5 * 3 - 4 * 1) / 6.
    assert state.weights[0].item() == pytest.approx(1 / 6)
    assert log["clusters"] == pytest.approx(2)
    assert log["wrong_pairs"] == 0
    assert log["threshold"] == 0.8
    assert log["pairs_met"] == log["pairs_known"] == 1
    assert log["train_loss"] == 0.25
    cosine = 5.9 / (2**0.5 * (9 + 2.9**2) ** 0.5)
    error = ((1 - cosine) ** 2 + 1 + cosine**2) / 3
    assert log["similarity_error"] == pytest.approx(error, abs=1e-6)
    summary = cadis.summary(fed, state)
    assert summary["cluster_of"] == [0, 0, 2]
    assert summary["cosines"]["same"] == pytest.approx([cosine] * 3, abs=1e-6)
    assert summary["cosines"]["other"] == pytest.approx([-1, -(1 + cosine) / 2, -cosine], abs=1e-6)


def test_cadis_with_a_threshold_of_zero_has_one_cluster_and_weighs_as_fedavg():
    _, state, _, log = cadis_state(threshold=0)
    assert log["clusters"] == 1
    assert state.weights[0].item() == pytest.approx((1 * 1 + 3 * 3 - 4 * 1) / 8)


def test_the_teacher_costs_a_third_more():
    for distillation, factor in ((1.0, 4 / 3), (0.0, 1.0)):
        params = cadis.Params(name="cadis", distillation=distillation)
        cost = cadis.ALGORITHM.cost.factor(SimpleNamespace(algorithm=params))
        assert cost == pytest.approx(factor)


def test_cadis_as_run_leaves_the_examples_out():
    _, state, requests, _ = cadis_state(weighting="uniform", distillation=0)
    assert state.weights[0].item() == pytest.approx((0.5 * 1 + 0.5 * 3 - 1) / 2)
    assert requests[0].objective == Objective(), "no teacher, as the cost says"


def test_cadis_oracle_needs_no_similarity_and_counts_all_clients():
    _, state, _, log = cadis_state(clusters="oracle", participants=1)
    assert state.weights[0].item() == 1
    assert log["clusters"] == pytest.approx(2)
    _, state, _, log = cadis_state(clusters="oracle", participants=2, weighting="uniform")
    assert state.weights[0].item() == pytest.approx(2)
    assert log["wrong_pairs"] == 0


@pytest.mark.parametrize("name", ["cadis", "probe"])
def test_clusters_are_of_several_clients(name):
    one = {"scheme": "iid_plain", "clients": 1}
    with pytest.raises(ValueError, match=f"{name} compares clients, and the partition has one"):
        make_spec(partition=one, algorithm={"name": name})


def test_cadis_of_one_client_a_round():
    _, state, requests, log = cadis_state(participants=1, rounds=2)
    assert requests[0].round == 1
    assert state.weights[0].item() == 2
    assert log["clusters"] == 1
    assert log["pairs_known"] == 0


def test_cadis_identical_clients_are_one_cluster():
    def same(request):
        return [Trained(lane.weights + 1, 0.0, None) for lane in request.lanes]

    _, state, _, log = cadis_state(answer=same)
    assert log["clusters"] == pytest.approx(1)
    assert state.weights.tolist() == [1, 1, 1, 1]


def test_cadis_a_client_that_did_not_train_is_alone():
    def idle(request):
        return [
            Trained(lane.weights + (k > 0) * torch.tensor(CHANGES[k]), 0.0, None)
            for k, lane in enumerate(request.lanes)
        ]

    _, state, _, log = cadis_state(answer=idle)
    assert log["pairs_met"] == pytest.approx(1 / 3)
    assert state.together[0].tolist() == [0, 0, 0]


def test_cadis_threshold_grows_by_growing_powers_up_to_the_cap():
    _, state, _, log = cadis_state(threshold=0.5, threshold_growth=1.1, threshold_cap=0.7, rounds=4)
    # Rounds 0, 1, 2 multiply by 1, 1.1, 1.21; round 3 would give 0.886.
    assert log["threshold"] == pytest.approx(0.5 * 1.1 * 1.21)
    assert state.threshold == 0.7


def test_the_clusters_of_a_round_are_those_of_its_own_threshold():
    # The cosine of clients 0 and 1 is 0.99986, so Q(0, 1) = 0.99993.
    _, _, _, log = cadis_state(
        threshold=0.9999, threshold_growth=1.00008, threshold_cap=1, rounds=2
    )
    assert (log["threshold"], log["clusters"]) == (0.9999, 2)
    _, _, _, log = cadis_state(
        threshold=0.9999, threshold_growth=1.00008, threshold_cap=1, rounds=3
    )
    assert log["threshold"] > 0.99993
    assert log["clusters"] == 3


@pytest.mark.parametrize(
    ("start", "rounds"), [(0.975, 6), (0.95, 12), (0.9, 19), (0.8, 29), (0.5, 52)]
)
def test_the_authors_schedule_reaches_its_cap_early(start, rounds):
    params = cadis.Params(name="cadis", threshold=start, threshold_growth=1.0005)
    tau = start
    for t in range(rounds + 1):
        assert tau < 0.985
        tau = cadis.next_threshold(params, tau, t)
    assert tau == 0.985


def test_a_threshold_that_stays_has_no_cap():
    params = cadis.Params(name="cadis", threshold=0.99)
    assert cadis.next_threshold(params, 0.99, 3) == 0.99


def test_cadis_cluster_size_of_the_round_or_of_all_seen():
    # Round 0 sees clients 0, 1, 2. In round 1 client 0 stands for its cluster alone.
    for choice, expected in (("all", (1 / 2, 4)), ("round", (1, 4))):
        fed, state, _, _ = cadis_state(cluster_size=choice)
        before = state.weights[0].item()
        fed.participants = lambda t, count: [0, 2]
        drive(cadis.round(fed, state, 1), change)
        a, b = expected
        assert state.weights[0].item() - before == pytest.approx((a - b) / (a + b))


def test_cadis_scaled_server_goes_the_share_of_clusters_present():
    fed, state, _, _ = cadis_state(server="scaled")
    before = state.weights[0].item()
    fed.participants = lambda t, count: [0, 1]
    drive(cadis.round(fed, state, 1), change)
    average = (0.5 * 1 + 1.5 * 3) / 2
    assert state.weights[0].item() - before == pytest.approx(average / 2)
    before = state.weights[0].item()
    fed.participants = lambda t, count: [0, 1, 2]  # of both clusters: all the way
    drive(cadis.round(fed, state, 2), change)
    assert state.weights[0].item() - before == pytest.approx((0.5 * 1 + 1.5 * 3 - 4 * 1) / 6)


def bridge(seed=0, **params):
    """Clients 0 and 2, who are near, meet with 3; then 1, who is less near, meets 2."""
    turns = [[0, 2, 3], [1, 2]]
    answers = {0: [1.0, 0.0], 1: [1.0, 0.2], 2: [1.0, 0.02], 3: [-1.0, 0.3]}
    fed = Federation(
        cadis.Params(name="cadis", **params),
        sizes=(1, 1, 1, 1),
        start=(0.0,) * 4,
        layout=WIDE,
        held=[[1, 0], [1, 0], [1, 0], [0, 1]],
    )
    fed.spec.seed = seed
    fed.participants = lambda t, count: turns[t]

    def answer(request):
        return [
            Trained(lane.weights + torch.tensor([*answers[lane.stream[1]], 0, 0]), 0.0, None)
            for lane in request.lanes
        ]

    state = cadis.init(fed)
    for t in range(2):
        _, log = drive(cadis.round(fed, state, t), answer)
    return state, log


def test_cadis_transitive_learning_fills_what_never_met():
    state, log = bridge()
    assert log["pairs_met"] == pytest.approx(4 / 6)
    assert log["pairs_known"] == pytest.approx(5 / 6)
    # Client 2 is a bridge from 1 to 0 (sigma 0.0035), but not from 1 to 3 (sigma 0.054).
    assert state.estimate[0, 1].item() == pytest.approx(0.984306 * 0.999800, abs=1e-4)
    assert state.estimate[1, 3].isnan()
    assert state.together[0, 1] == 0
    _, log = bridge(transitive="off")
    assert log["pairs_known"] == log["pairs_met"]


def test_cadis_draws_the_estimates_when_asked():
    mean = bridge()[0].estimate[0, 1].item()
    drawn = [bridge(seed, transitive="sample")[0].estimate[0, 1].item() for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    for value in drawn:
        assert 0 < abs(value - mean) < 4 * 0.0035


def test_cadis_draws_the_estimates_anew_every_round():
    fed = Federation(cadis.Params(name="cadis", transitive="sample"), sizes=(1, 1, 1))
    state, drawn = cadis.init(fed), []
    instance = np.array([[np.nan, 0.99], [0.99, np.nan]])
    for t, clients in enumerate(([0, 2], [1, 2], [1, 2])):
        cadis._update(fed, state, t, clients, instance)
        drawn.append(state.estimate[0, 1].item())
    assert drawn[1] != pytest.approx(drawn[2])


def test_cadis_keeps_an_estimate_when_its_bridge_is_gone():
    fed = Federation(cadis.Params(name="cadis"), sizes=(1, 1, 1))
    state = cadis.init(fed)

    def meet(t, clients, cosine):
        instance = np.array([[np.nan, cosine], [cosine, np.nan]])
        cadis._update(fed, state, t, clients, instance)
        return cadis._known(state)[0][0, 1]

    assert meet(0, [0, 2], 0.8) == 0
    # sigma is 0.6 * 0, and with a mean of 0.5 between 1 and 2 far above eps.
    assert meet(1, [1, 2], 1.0) == pytest.approx(0.8)
    assert meet(2, [1, 2], 0.0) == pytest.approx(0.8)
    assert meet(3, [0, 1], -0.5) == -0.5, "a cosine of their own counts for more"


def test_proposition_iii_5_three_clients():
    """Losses (w - a)^2 twice and (w - b)^2: FedAvg ends at (2a + b) / 3, CADIS at (a + b) / 2."""
    a, b = 1.0, 4.0

    def descend(request):
        results = []
        for lane in request.lanes:
            w, target = lane.weights, torch.tensor([b if lane.stream[1] == 2 else a, 0.0])
            for _ in range(5):
                w = w - 0.05 * 2 * (w - target)
            results.append(Trained(w, 0.0, None))
        return results

    def end(algorithm, params):
        fed = Federation(
            params,
            sizes=(2, 2, 2),
            start=(2.0, 0.0),
            layout=Layout(("out.weight", "out.bias"), ((1, 1), (1,)), (0, 1, 2), 2),
            held=[[1, 0], [1, 0], [0, 1]],
        )
        state = algorithm.init(fed)
        for t in range(60):
            drive(algorithm.round(fed, state, t), descend)
        return state.weights[0].item()

    def loss(w):
        return ((w - a) ** 2 + (w - b) ** 2) / 2

    plain = end(fedavg, fedavg.Params(name="fedavg"))
    clustered = [
        end(cadis, cadis.Params(name="cadis", distillation=0, clusters=choice))
        for choice in ("oracle", "learned")
    ]
    assert plain == pytest.approx((2 * a + b) / 3, abs=1e-4)
    assert clustered == pytest.approx([(a + b) / 2] * 2, abs=1e-4)
    assert loss(clustered[1]) < loss(plain)


def test_probe_rows_are_lowest_mean_and_highest_change():
    changes = np.array([[1, 2, 6, -3, 0, 0]], dtype=np.float32)
    assert probe._rows(changes, 2) == [[[1, 3, 6], [-3, -1, 0]]]


def test_probe_warms_up_on_the_union_and_then_trains_every_client():
    fed = Federation(
        probe.Params(name="probe", warm_up=1),
        sizes=(1, 3, 4),
        start=(0.0,) * 4,
        layout=WIDE,
        held=[[5, 0], [9, 0], [0, 7]],
    )
    assert probe.rounds(SimpleNamespace(algorithm=fed.spec.algorithm)) == 2
    state = probe.init(fed)

    def union(request):
        return [Trained(lane.weights + 10, 0.0, None) for lane in request.lanes]

    first, _ = drive(probe.round(fed, state, 0), union)
    assert [len(lane.examples) for lane in first[0].lanes] == [8]
    second, _ = drive(probe.round(fed, state, 1), change)
    assert [lane.weights[0].item() for lane in second[0].lanes] == [10, 10, 10]
    found = probe.summary(fed, state)
    assert found["rows"][0] == [[1, 1, 1], [-1, -1, -1]]
    separation = found["vectors"]["weight_change"]
    assert separation["same"][0] > 0.99
    assert separation["other"][2] < -0.99
    assert separation["all"]["clusters"] == pytest.approx([2] * 6)
    assert separation["all"]["wrong_pairs"] == [0] * 6
    # Every client's trained matrix is near (10, 10): all cosines are near 1.
    assert found["vectors"]["weight"]["other"][0] > 0.9
