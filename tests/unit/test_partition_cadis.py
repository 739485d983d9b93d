"""Partitions of Nguyen et al. 2023: laws by property, and their statistics against the lists."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from small_runs import make_spec

from fedrepro.base.errors import FedreproError
from fedrepro.fl import cost, data
from fedrepro.fl.data.cadis import cadis_folder
from fedrepro.fl.engine.active import Storage
from fedrepro.fl.engine.driver import Listener, drive
from fedrepro.fl.engine.loop import LoopBackend
from fedrepro.fl.partition import build_partition, index_file
from fedrepro.fl.partition.label_clusters import amounts_of, label_clusters
from fedrepro.fl.partition.main_cluster import main_cluster
from fedrepro.fl.partition.pareto_labels import _apart, _shared, pareto_labels
from fedrepro.fl.spec import partition_id

SMALL = settings(max_examples=40)
SEEDS = st.integers(0, 2**32)
LABELS = np.repeat(np.arange(10), 60)


def counts_of(labels, clients, classes=10):
    return np.array([np.bincount(labels[client], minlength=classes) for client in clients])


def rng(seed=0):
    return np.random.default_rng(seed)


@SMALL
@given(SEEDS, st.booleans())
def test_label_clusters_share_nothing(seed, random_labels):
    clusters = (3, 2, 1, 1, 1)
    generator = rng(seed)
    labels = generator.permutation(LABELS)
    clients = label_clusters(
        labels, clusters, (8,) * 5, (0.3,) * 5, generator, random_labels=random_labels
    )
    counts = counts_of(labels, clients)
    held = np.concatenate(clients)
    assert len(set(held.tolist())) == len(held)
    assert all((np.diff(client) > 0).all() for client in clients)
    owned = [tuple(np.flatnonzero(row)) for row in counts]
    assert [owned.count(pair) for pair in dict.fromkeys(owned)] == list(clusters)
    assert sorted(label for pair in set(owned) for label in pair) == list(range(10))
    if not random_labels:
        assert owned[0] == (0, 1)
        assert owned[-1] == (8, 9)
    for row in counts:
        assert len(set(row[row > 0].tolist())) == 1


def amounts(base, spread, labels=LABELS):
    owned = np.zeros((len(base), 1), dtype=np.int64)
    return amounts_of(labels, owned, np.array(base), np.array(spread), rng())


def test_amounts_are_drawn_anew_until_they_fit():
    # One label of 60 examples for two clients of about 29 each: half of all draws fit.
    sums = {
        int(
            amounts_of(
                LABELS, np.zeros((2, 1), int), np.full(2, 29), np.full(2, 0.3), rng(seed)
            ).sum()
        )
        for seed in range(50)
    }
    assert max(sums) <= 60
    assert len(sums) > 10
    assert amounts([60], [0.0]).tolist() == [60]
    with pytest.raises(FedreproError, match="label 0 has too few examples"):
        amounts([61], [0.0])


def test_amounts_without_spread_are_exact_and_never_zero():
    assert amounts([12, 3], [0.0, 0.0]).tolist() == [12, 3]
    assert amounts([1] * 9, [2.0] * 9).min() == 1


def test_amounts_follow_the_normal_law():
    from scipy import stats  # slow to import

    plenty = np.zeros(30_000_000, dtype=np.int8)
    drawn = amounts([1000] * 20_000, [0.1] * 20_000, labels=plenty) / 1000
    assert np.mean(drawn) == pytest.approx(1, abs=0.003)
    assert np.std(drawn) == pytest.approx(0.1, rel=0.02)
    assert abs(stats.skew(drawn)) < 0.06


def test_each_cluster_has_its_own_amounts():
    clients = label_clusters(LABELS, (1, 4), (30, 5), (0.0, 0.0), rng())
    assert [len(client) for client in clients] == [150, 25, 25, 25, 25]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((1, 1, 1), (1,) * 3, (0.0,) * 3), "divisor of the 10 classes"),
        (((), (), ()), "divisor of the 10 classes in number, got 0"),
        (((1, 1), (1,), (0.0,) * 2), "of one length"),
        (((1, 1), (1, 1), (0.0,)), "of one length, got 2, 2 and 1"),
        (((20, 1), (5, 5), (0.0,) * 2), "label 0 has too few"),
    ],
)
def test_label_clusters_that_do_not_fit(arguments, message):
    with pytest.raises(FedreproError, match=message):
        label_clusters(LABELS, *arguments, rng())


@SMALL
@given(SEEDS, st.sampled_from([0.0, 0.1]))
def test_main_cluster_and_the_rest(seed, spread):
    clients = main_cluster(LABELS, 20, 8, 2, 5, spread, rng(seed))
    counts = counts_of(LABELS, clients)
    assert (counts[:8, :2] > 0).all()
    assert counts[:8, 2:].sum() == 0
    assert counts[8:, :2].sum() == 0
    assert ((counts > 0).sum(axis=1) == 2).all()
    held = np.concatenate(clients)
    assert len(set(held.tolist())) == len(held)
    if spread == 0:
        assert set(counts[counts > 0].tolist()) == {5}


def test_a_main_cluster_of_all_clients_may_use_up_half_of_the_labels():
    counts = counts_of(LABELS, main_cluster(LABELS, 4, 4, 5, 15, 0.0, rng()))
    assert counts.tolist() == [[15] * 5 + [0] * 5] * 4


def test_main_cluster_that_does_not_fit():
    with pytest.raises(FedreproError, match=r"main must be in 1\.\.10"):
        main_cluster(LABELS, 10, 11, 2, 5, 0.0, rng())
    with pytest.raises(FedreproError, match=r"labels_per_client must be in 1\.\.5"):
        main_cluster(LABELS, 10, 4, 6, 5, 0.0, rng())
    with pytest.raises(FedreproError, match="too few examples"):
        main_cluster(LABELS, 40, 20, 2, 5, 0.0, rng())


@SMALL
@given(SEEDS)
def test_pareto_labels_use_no_example_twice(seed):
    clients = pareto_labels(LABELS, 20, 2, 50, rng(seed))
    counts = counts_of(LABELS, clients)
    held = np.concatenate(clients)
    assert len(set(held.tolist())) == len(held)
    assert (counts.sum(axis=0) > 0).all()
    assert ((counts > 0).sum(axis=1) <= 2).all()
    # Rounding down, and at least one: the busiest label holds nearly its budget.
    assert 50 - 40 <= counts.sum(axis=0).max() <= 50 + 40


def test_pareto_labels_shared_as_in_the_files():
    labels = np.repeat(np.arange(10), 600)
    clients = pareto_labels(labels, 100, 2, 800, rng(3), shared=True)
    held = np.concatenate(clients)
    assert len(set(held.tolist())) < len(held)
    counts = counts_of(labels, clients)
    assert counts.sum(axis=0).max() == pytest.approx(800, abs=40)
    once = [client for client, row in zip(clients, counts, strict=True) if (row > 0).sum() == 2]
    assert all(len(set(client.tolist())) == len(client) for client in once)


def test_pareto_amounts_are_rounded_down_and_never_zero():
    drawn, exact = np.array([[0, 1], [1, 2]]), np.array([4.9, 0.2])
    counts = counts_of(LABELS, _apart(LABELS, drawn, exact, rng()), 3)
    assert counts.tolist() == [[4, 4, 0], [0, 1, 1]]


def test_shared_pareto_amounts_are_rounded_up_and_use_up_the_first_label():
    labels = np.repeat([0, 1], [4, 2])
    first, second = _shared(labels, np.array([[0, 1]] * 2), np.array([1.2, 2.0]), rng())
    assert counts_of(labels, (first, second), 2).tolist() == [[2, 2], [2, 2]]
    assert set(first) & set(second) == {4, 5}, "both examples of the second label"


def test_pareto_labels_that_do_not_fit():
    with pytest.raises(FedreproError, match="at least 20, twice the classes"):
        pareto_labels(LABELS, 9, 2, 50, rng())
    with pytest.raises(FedreproError, match="too few examples"):
        pareto_labels(LABELS, 20, 2, 5000, rng())
    with pytest.raises(FedreproError, match="too few examples"):
        pareto_labels(LABELS, 20, 2, 5000, rng(), shared=True)
    with pytest.raises(FedreproError, match=r"leave one of 100 labels out .*; raise"):
        pareto_labels(np.repeat(np.arange(100), 3), 100, 2, 50, rng())


LAWS = {
    "mnist_mc": {"scheme": "label_clusters", "clusters": [30, 30, 20, 10, 10], "per_label": 145},
    "mnist_uc": {
        "scheme": "main_cluster",
        "clients": 100,
        "main": 40,
        "labels_per_client": 2,
        "per_label": 145,
        "spread": 0.1,
    },
    "mnist_pa": {
        "scheme": "pareto_labels",
        "clients": 100,
        "draws": 2,
        "budget": 10_000,
        "shared": True,
    },
}


def of_law(name, seed=0, share=None):
    dataset = name.rpartition("_")[0]
    law = {"scheme": "index_file", "lists": name} if share else LAWS[name]
    spec = make_spec(dataset={"name": dataset}, partition=law | ({"share": share} if share else {}))
    train, test = data.labels(dataset)
    return build_partition(spec.partition, train, test, 10, seed), train


needs_lists = pytest.mark.skipif(
    cadis_folder() is None or data.sources.locate("mnist").kind == "download",
    reason="needs a pack with MNIST and the authors' lists (FEDREPRO_DATA)",
)


@needs_lists
@pytest.mark.parametrize("name", ["mnist_mc", "mnist_uc"])
def test_the_laws_give_the_statistics_of_the_authors_lists(name):
    from scipy import stats  # slow to import

    theirs, _ = of_law(name, share=1.0)
    published = theirs.counts.max(axis=1)  # a client's labels are equally many
    drawn = np.concatenate([of_law(name, seed)[0].counts.max(axis=1) for seed in range(3)])
    assert np.mean(drawn) == pytest.approx(np.mean(published), rel=0.05)
    assert np.std(drawn) == pytest.approx(np.std(published), rel=0.2)
    assert stats.ks_2samp(published, drawn).pvalue > 0.01
    sets = [
        Counter(tuple(np.flatnonzero(row)) for row in partition.counts)
        for partition in (theirs, of_law(name)[0])
    ]
    if name == "mnist_mc":
        assert sets[0] == sets[1]
        assert (of_law(name)[0].counts > 0).tolist() == (theirs.counts > 0).tolist()
    else:
        assert sets[0][0, 1] == sets[1][0, 1] == 40


@needs_lists
def test_the_pareto_law_is_as_unequal_as_the_authors_list():
    theirs, _ = of_law("mnist_pa", share=1.0)
    shares, totals, twice = [], [], []
    for seed in range(8):
        ours, _ = of_law("mnist_pa", seed)
        sizes = np.sort(ours.counts.sum(axis=1))[::-1]
        shares.append(sizes[:10].sum() / sizes.sum())
        totals.append(sizes.sum())
        held = np.concatenate(ours.clients)
        twice.append(1 - len(set(held.tolist())) / len(held))
    sizes = np.sort(theirs.counts.sum(axis=1))[::-1]
    held = np.concatenate(theirs.clients)
    assert min(shares) < sizes[:10].sum() / sizes.sum() < max(shares)
    assert min(totals) < sizes.sum() < max(totals)
    assert min(twice) < 1 - len(set(held.tolist())) / len(held) < max(twice) + 0.05


@needs_lists
@pytest.mark.parametrize("name", sorted(index_file.EXAMPLES))
def test_the_lists_hold_what_the_costs_count(name):
    assert sum(len(client) for client in data.cadis_partition(name)) == index_file.EXAMPLES[name]


@needs_lists
def test_a_share_of_the_lists_keeps_every_label_of_every_client():
    whole, _ = of_law("mnist_pa", share=1.0)
    part, _ = of_law("mnist_pa", share=0.25)
    assert (part.counts == np.ceil(whole.counts * 0.25)).all()
    for few, all_ in zip(part.clients, whole.clients, strict=True):
        kept = set(few.tolist())
        assert few.tolist() == [i for i in all_.tolist() if i in kept][: len(few)]


def test_a_share_of_a_list_is_not_raised_by_floating_point(monkeypatch):
    """0.07 times 100 is a little more than 7."""
    monkeypatch.setattr(index_file, "cadis_partition", lambda *_: (np.arange(100),))
    (client,) = index_file.index_file(np.zeros(100, int), "mnist_mc", 0.07, rng())
    assert len(client) == 7


@needs_lists
def test_a_share_of_the_lists_is_drawn_by_seed_and_the_whole_is_not():
    def cut(seed, share):
        return of_law("mnist_mc", seed, share)[0]

    assert cut(1, 0.1).sha256 == cut(1, 0.1).sha256 != cut(2, 0.1).sha256
    assert cut(1, 1.0).sha256 == cut(2, 1.0).sha256
    for one, other in zip(cut(1, 0.1).clients, cut(1, 1.0).clients, strict=True):
        assert set(one.tolist()) <= set(other.tolist())


def test_lists_are_of_their_own_data_set_and_need_no_seed():
    lists = {"scheme": "index_file", "lists": "cifar10_mc"}
    with pytest.raises(
        ValidationError, match="index_file is of the data set cifar10, not of mnist"
    ):
        make_spec(dataset={"name": "mnist"}, partition=lists)
    with pytest.raises(ValidationError, match="of the data set cifar10, not of cifar100"):
        make_spec(dataset={"name": "cifar100"}, partition=lists)
    specs = [make_spec(dataset={"name": "cifar10"}, partition=lists, seed=seed) for seed in (1, 2)]
    assert len({partition_id(spec) for spec in specs}) == 1
    assert specs[0].partition.clients == 100
    part = lists | {"share": 0.5}
    specs = [make_spec(dataset={"name": "cifar10"}, partition=part, seed=seed) for seed in (1, 2)]
    assert len({partition_id(spec) for spec in specs}) == 2


def test_lists_that_are_not_here_say_where_to_look(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDREPRO_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("urllib.request.OpenerDirector.open", refuse)
    with pytest.raises(FedreproError, match=r"(?s)Without internet.*Looked for packs in: data/p"):
        index_file.index_file(LABELS, "mnist_mc", 1.0, rng())


def refuse(*_, **__):
    raise OSError("no route to host")


def test_training_reads_the_lists_from_the_named_folder(tmp_path, monkeypatch):
    asked = []

    def lists(name, data_root=None):
        asked.append((name, data_root))
        return tuple(np.arange(3 * k, 3 * k + 3) for k in range(100))

    monkeypatch.setattr(index_file, "cadis_partition", lists)
    spec = make_spec(
        dataset={"name": "mnist"},
        partition={"scheme": "index_file", "lists": "mnist_mc"},
        algorithm={"name": "fedavg", "participants": 2},
        rounds=1,
        local_epochs=1,
    )
    done = []
    drive(
        [spec],
        lambda _: dataclasses.replace(data.load("synthetic"), name="mnist"),
        LoopBackend(),
        Listener(done=done.append, failed=lambda run, error: pytest.fail(str(error))),
        Storage(checkpoints=tmp_path, data_root=tmp_path),
    )
    assert asked == [("mnist_mc", tmp_path)]
    assert len(done[0].fed.clients) == 100


def test_lists_beyond_the_data_set_are_refused(monkeypatch):
    monkeypatch.setattr(index_file, "cadis_partition", lambda *_: (np.array([0, 600]),))
    with pytest.raises(FedreproError, match="beyond the 600 of this data set"):
        index_file.index_file(LABELS, "mnist_mc", 1.0, rng())


@pytest.mark.parametrize(
    ("partition", "examples"),
    [
        ({"scheme": "index_file", "lists": "mnist_mc", "share": 0.5}, 14_501),
        ({"scheme": "label_clusters", "clusters": [3, 2], "per_label": [10, 20]}, 5 * 70),
        (
            {
                "scheme": "main_cluster",
                "clients": 20,
                "main": 8,
                "labels_per_client": 2,
                "per_label": 5,
            },
            200,
        ),
    ],
)
def test_costs_count_what_participants_hold(partition, examples):
    common = {"dataset": {"name": "mnist"}, "partition": partition, "local_epochs": 1, "rounds": 40}
    clients = make_spec(**common).partition.clients
    all_of_them = make_spec(**common, algorithm={"name": "fedprox", "mu": 0.1})
    evaluations = 40 * 10_000 / 3
    assert cost.sample_passes(all_of_them) == pytest.approx(40 * examples + evaluations)
    half = {"name": "cadis", "distillation": 0, "participants": clients // 2}
    some = make_spec(**common, algorithm=half)
    share = (clients // 2) / clients
    assert cost.sample_passes(some) == pytest.approx(40 * share * examples + evaluations)
    distilled = make_spec(**common, algorithm=half | {"distillation": 1.0})
    assert cost.sample_passes(distilled) == pytest.approx(
        40 * share * examples * 4 / 3 + evaluations
    )
