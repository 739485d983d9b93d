"""Algorithms, through the engine, against their papers' equations written out with autograd.

A tiny federation is trained for a few rounds twice: by the engine in float32, and here in float64
from the equations alone. Both have the same initial weights, participants and batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from fake_federation import drive
from small_runs import answer, federation, make_spec
from torch.nn import functional

from fedrepro.fl import data, streams
from fedrepro.fl.algorithms import ALGORITHMS
from fedrepro.fl.engine.loop import LoopBackend

torch.set_num_threads(1)

CLIENTS, DRAWN, ROUNDS, DECAY = 6, 3, 3, 0.9
SKEWED = {
    "scheme": "dirichlet",
    "clients": CLIENTS,
    "alpha": 0.5,
    "per_class": 12,
    "smallest": 9,  # two batches a client, of which the last is smaller
}

Vector = torch.Tensor
Penalty = Callable[[Vector, np.ndarray], Any]


class Reference:
    """The federation of a spec, trained here: weights are one flat float64 vector."""

    def __init__(self, **changes: Any) -> None:
        self.spec = make_spec(
            **{
                "partition": SKEWED,
                "optimizer": {"name": "sgd", "lr": 0.1, "lr_decay": DECAY},
                "rounds": ROUNDS,
            }
            | changes
        )
        self.fed = federation(self.spec)
        self.clients = self.fed.clients
        dataset = data.load(self.spec.dataset.name)
        self.x = torch.from_numpy(dataset.train_x).double().flatten(1) / 255
        self.y = torch.from_numpy(dataset.train_y)
        self.start = self.fed.initial_weights().double()

    def engine(self) -> Any:
        """Train by fedrepro; return the algorithm's state in the end."""
        algorithm, backend = ALGORITHMS[self.spec.algorithm.name], LoopBackend()
        state = algorithm.init(self.fed)
        for t in range(self.spec.rounds):
            drive(algorithm.round(self.fed, state, t), lambda r: answer(backend, self.spec, r))
        return state

    def drawn(self, t: int) -> list[int]:
        return self.fed.participants(t, self.spec.algorithm.participants)

    def sizes(self, clients: list[int]) -> np.ndarray:
        return np.array([len(self.clients[k]) for k in clients])

    def first_matrix(self, w: Vector) -> Vector:
        """Return the weights of the hidden layer, flat."""
        return self.fed.layout.view(w, 0).flatten()

    def matrix(self, w: Vector) -> Vector:
        """Return the weights of the final layer, flat."""
        return self.fed.layout.view(w, 2).flatten()

    def bias(self, w: Vector) -> Vector:
        """Return the biases of the final layer."""
        return self.fed.layout.view(w, 3)

    def hidden(self, w: Vector, examples: np.ndarray) -> Vector:
        weight, bias = (self.fed.layout.view(w, i) for i in (0, 1))
        return (self.x[examples] @ weight.T + bias).relu()

    def logits(self, w: Vector, examples: np.ndarray) -> Vector:
        weight, bias = (self.fed.layout.view(w, i) for i in (2, 3))
        return self.hidden(w, examples) @ weight.T + bias

    def accuracy(self, w: Vector, examples: np.ndarray) -> float:
        right = self.logits(w, examples).argmax(1) == self.y[examples]
        return float(right.double().mean())

    def batches(self, client: int, t: int, *stream: str | int) -> list[np.ndarray]:
        """Return a client's batches of a round, all epochs."""
        return self.batches_of(self.clients[client], t, "client", client, *stream)

    def batches_of(
        self, examples: np.ndarray, t: int, *stream: str | int, times: int = 1, epochs: int = 0
    ) -> list[np.ndarray]:
        """Return the batches of a stream, as `fedrepro.fl.streams` names it, ``times`` as large."""
        spec, found = self.spec, []
        size = times * spec.batch
        for epoch in range(epochs or spec.local_epochs):
            key = streams.key(spec.seed, "shuffle", *stream, t, epoch)
            order = examples[streams.permutation(key, len(examples))]
            found += [order[i : i + size] for i in range(0, len(order), size)]
        return found

    def gradient(self, w: Vector, batch: np.ndarray, penalty: Penalty | None = None) -> Vector:
        w = w.clone().requires_grad_()
        loss = functional.cross_entropy(self.logits(w, batch), self.y[batch])
        if penalty is not None:
            loss = loss + penalty(w, batch)
        return torch.autograd.grad(loss, w)[0]

    def train(self, w: Vector, client: int, t: int, penalty: Penalty | None = None) -> Vector:
        for batch in self.batches(client, t):
            w = w - self.spec.optimizer.lr * DECAY**t * self.gradient(w, batch, penalty)
        return w


def mean(models: list[Vector], weights: Any) -> Vector:
    shares = np.array(weights) / np.sum(weights)
    return sum(share * model for share, model in zip(shares, models, strict=True))


def assert_same(ours: Vector, equations: Vector, within: float = 1e-5) -> None:
    error = (ours.double() - equations).norm() / equations.norm()
    assert error < within, f"relative distance {error:.1e}"


@pytest.mark.parametrize("weighting", ["examples", "uniform"])
@pytest.mark.parametrize("mu", [0.0, 0.7])
def test_fedavg_and_fedprox(weighting, mu):
    """McMahan et al. 2017, Algorithm 1; Li et al. 2020, eq. 2."""
    algorithm = {"name": "fedprox", "mu": mu} if mu else {"name": "fedavg"}
    ref = Reference(algorithm=algorithm | {"participants": DRAWN, "weighting": weighting})
    w = ref.start
    for t in range(ROUNDS):
        start, drawn = w, ref.drawn(t)

        def proximal(v: Vector, _: np.ndarray, start: Vector = start) -> Vector:
            return mu / 2 * (v - start).square().sum()

        models = [ref.train(start, k, t, proximal) for k in drawn]
        w = mean(models, ref.sizes(drawn) if weighting == "examples" else [1] * DRAWN)
    assert_same(ref.engine().weights, w)


@pytest.mark.parametrize("server", ["correct", "as_run"])
def test_feddyn(server):
    """Acar et al. 2021, Algorithm 1; as run, the sum of the models is divided by N."""
    alpha = 0.3
    ref = Reference(
        algorithm={"name": "feddyn", "alpha": alpha, "participants": DRAWN, "server": server}
    )
    w, h = ref.start, torch.zeros_like(ref.start)
    g = [torch.zeros_like(w) for _ in range(CLIENTS)]
    for t in range(ROUNDS):
        start, models = w, []
        for k in ref.drawn(t):

            def dynamic(v: Vector, _: np.ndarray, k: int = k, start: Vector = start) -> Vector:
                return alpha / 2 * (v - start).square().sum() - g[k] @ v

            models.append(ref.train(start, k, t, dynamic))
            g[k] = g[k] - alpha * (models[-1] - start)
        if server == "as_run":
            h = h - alpha * (sum(models) / CLIENTS - start)
        else:
            h = h - alpha / CLIENTS * sum(model - start for model in models)
        w = mean(models, [1] * DRAWN) - h / alpha
    assert_same(ref.engine().weights, w)


@pytest.mark.parametrize(
    ("whose", "alpha", "back"),
    [("trained", 0.5, 0.0), ("received", 1.0, 0.0), ("received", 0, 0.1)],
)
def test_fedfa(whose, alpha, back):
    """Huang et al. 2022, as Nguyen et al. 2023 describe it, and as they ran it (the last case)."""
    ref = Reference(
        algorithm={
            "name": "fedfa",
            "participants": DRAWN,
            "accuracy_of": whose,
            "alpha": alpha,
            "server_lr": back,
        }
    )
    w, taken_part = ref.start, np.zeros(CLIENTS)
    for t in range(ROUNDS):
        drawn = ref.drawn(t)
        taken_part[drawn] += 1
        models = [ref.train(w, k, t) for k in drawn]
        asked = models if whose == "trained" else [w] * DRAWN
        right = np.array(
            [ref.accuracy(m, ref.clients[k]) for m, k in zip(asked, drawn, strict=True)]
        )
        often = taken_part[drawn]
        a, b = -np.log2(right / right.sum() + 1e-6), -np.log2(1 - often / often.sum() + 1e-5)
        average = mean(models, alpha * a / a.sum() + (1 - alpha) * b / b.sum())
        w = average - back * (average - w)
    assert_same(ref.engine().weights, w)


BLOCKS = {"scheme": "class_blocks", "clients": 2, "classes_per_client": 5, "per_class": 20}


@pytest.mark.parametrize(
    ("techniques", "changes"),
    [
        ({"server_momentum": 0.9}, {}),
        ({"sign_agreement": {"threshold": DRAWN}}, {}),
        ({"sign_agreement": {"threshold": 1, "vote": "signed"}}, {}),
        ({"projection": {"radius": 2.0}}, {}),
        ({"projection": {"radius": 0.2, "bounds": "update"}}, {}),
        ({"participants": None}, {"partition": BLOCKS | {"server_share": 0.25}}),
        (
            {
                "participants": None,
                "server_lr": 0.7,
                "server_momentum": 0.5,
                "sign_agreement": {"threshold": 2, "masks": "update"},
            },
            {"partition": BLOCKS | {"server_share": 0.25}},
        ),
    ],
    ids=["momentum", "signs", "printed", "weights", "update", "server", "together"],
)
def test_fedopt(techniques, changes):
    """Ozdayi et al. 2020, eqs. 2 and 4, and sections 3.1 and 3.2."""
    ref = Reference(
        algorithm={"name": "fedopt", "participants": DRAWN} | techniques,
        **changes,
    )
    params = ref.spec.algorithm
    rule, ball = params.sign_agreement, params.projection
    w, v = ref.start, torch.zeros_like(ref.start)
    for t in range(ROUNDS):
        drawn, updates, lr = ref.drawn(t), [], 0.1 * DECAY**t
        for k in drawn:
            local = w
            for batch in ref.batches(k, t):
                local = local - lr * ref.gradient(local, batch)
                if ball:
                    centre = w if ball.bounds == "update" else torch.zeros_like(w)
                    apart = local - centre
                    local = centre + apart * min(1.0, ball.radius / float(apart.norm()))
            updates.append(local - w)
        votes = sum(update.sign() for update in updates)
        votes = votes if rule.vote == "signed" else votes.abs()
        moves = votes >= rule.threshold if rule.threshold else torch.ones_like(w)
        d = mean(updates, ref.sizes(drawn))
        v = params.server_momentum * v + (d * moves if rule.masks == "update" else d)
        w = w + params.server_lr * (v * moves if rule.masks == "step" else v)
        if served := list(ref.fed.partition.server):
            for batch in ref.batches_of(np.array(served), t, "server", epochs=1):
                w = w - lr * ref.gradient(w, batch)
    assert_same(ref.engine().weights, w)


def affinities(representation: Vector) -> Vector:
    """Return the rows of eq. 18, [n, n - 1], with the kernel of standardised distances."""
    n = len(representation)
    difference = representation[:, None] - representation
    d = difference[~torch.eye(n, dtype=torch.bool)].norm(dim=1).view(n, n - 1)
    k = torch.exp(-((d - d.mean()) ** 2) / (2 * (d.var() + 0.001)))
    return k / k.sum(1, keepdim=True)


def connected(adjacent: np.ndarray) -> list[int]:
    """Return the component of every client, by its first client."""
    component = list(range(len(adjacent)))
    for i, j in [*np.argwhere(adjacent)] * len(adjacent):
        component[i] = component[j] = min(component[i], component[j])
    return component


def bridged(known: np.ndarray, met: np.ndarray, eps: float) -> np.ndarray:
    """Return what is known of each pair after Theorem III.3, NaN where there is nothing."""
    found, count = known.copy(), range(len(known))
    for x, y in [(x, y) for x in count for y in count if x != y and not met[x, y]]:
        s = [(known[x, z], known[z, y]) for z in count]
        near = [a * b for a, b in s if np.sqrt((1 - a * a) * (1 - b * b)) < eps]  # not with NaN
        if near:
            found[x, y] = np.mean(near)
    return found


AS_RUN = {
    "vector": "bias_change",
    "pairing": "set_order",
    "rescale": "as_run",
    "closure": "two_hop",
    "threshold": 0.6,
    "threshold_growth": 1.0005,
    "weighting": "uniform",
    "participants": 12,
}


@pytest.mark.parametrize(
    ("reading", "rounds", "within"),
    [
        ({"distillation": 1.0}, 3, 1e-4),  # near 0 the term loses digits in float32
        ({"transitive": "mean", "eps": 0.22, "participants": 3}, 6, 1e-5),
        (AS_RUN, 5, 1e-5),
    ],
    ids=["distilled", "bridged", "as_run"],
)
def test_cadis(reading, rounds, within):
    """Nguyen et al. 2023, eqs. 1, 2, 11 to 13 and 18 to 20, and Theorem III.3."""
    as_run = reading is AS_RUN
    clusters = [9, 9, 9, 9, 4] if as_run else [3, 2, 1, 1, 1]  # below 32, a set is in order
    ref = Reference(
        partition={"scheme": "label_clusters", "clusters": clusters, "per_label": 15},
        algorithm={"name": "cadis", "participants": 5, "distillation": 0, "transitive": "off"}
        | reading,
        optimizer={"name": "sgd", "lr": 0.02, "lr_decay": DECAY},
        rounds=rounds,
    )
    params = ref.spec.algorithm
    count, tau, weight = len(ref.clients), params.threshold, params.distillation
    w, known = ref.start, np.full((count, count), np.nan)
    together, seen, joined, estimated = np.zeros((count, count)), set(), 0, 0
    for t in range(rounds):
        start, drawn = w, ref.drawn(t)
        drawn = list(set(drawn)) if as_run else drawn

        def distilled(v: Vector, batch: np.ndarray, start: Vector = start) -> Any:
            if len(batch) < 3 or not weight:
                return 0.0
            p, q = affinities(ref.hidden(v, batch)), affinities(ref.hidden(start, batch)).detach()
            return weight * (q * (q / p).log()).sum()

        models = [ref.train(start, k, t, distilled) for k in drawn]
        part = ref.bias if as_run else ref.matrix
        changes = [part(model) - part(start) for model in models]
        seen |= set(drawn)
        for a, i in enumerate(drawn):
            for b, j in list(enumerate(drawn))[a + 1 :]:
                other = changes[b - a - 1] if as_run else changes[b]
                cosine = float(functional.cosine_similarity(changes[a], other, dim=0))
                f = together[i, j] = together[j, i] = together[i, j] + 1
                old = known[i, j] if f > 1 else 0.0
                known[i, j] = known[j, i] = old * (f - 1) / f + cosine / f
        if params.transitive == "mean":
            known = bridged(known, together > 0, params.eps)
        met_or_bridged = ~np.isnan(known)
        estimated += int((met_or_bridged & (together == 0)).sum())
        values = known[met_or_bridged]
        lowest = values[values > 0].min() if as_run else values.min()
        q = (known - lowest) / (1 - lowest)
        adjacent = (np.abs(q) > tau if as_run else q >= tau) | np.eye(count, dtype=bool)
        if as_run:
            relation = adjacent @ adjacent
            tau *= 1.0005**t
        else:
            cluster = np.array(connected(adjacent))
            relation = cluster[:, None] == cluster
        c = relation[np.ix_(drawn, sorted(seen))].sum(axis=1)
        joined += int((c > 1).sum())
        w = mean(models, (1 if as_run else ref.sizes(drawn)) / c)
    assert joined, "else nothing is clustered"
    assert together.max() > 1, "else no cosine is averaged"
    assert bool(estimated) == (params.transitive == "mean"), "else no pair is bridged"
    state = ref.engine()
    assert_same(state.weights, w, within)
    met, close = together > 0, {"rtol": 0, "atol": 10 * within}
    np.testing.assert_allclose(state.similarity.numpy()[met], known[met], **close)
    np.testing.assert_allclose(state.estimate.numpy()[~met], known[~met], **close)


@pytest.mark.parametrize(
    "reading",
    [
        {},
        {"delete_rule": "paper", "score_scope": "all"},
        {"final_round": 3, "final_threshold": 0.45},
        {"final_round": 3, "final_threshold": 0.45, "score_noise_sd": 0.1},
    ],
    ids=["deleted_as_run", "deleted_as_written", "ended", "noisy"],
)
def test_fedcd(reading):
    """Kopparapu et al. 2020, Algorithm 1 and eqs. 1 to 4, cloned and with noise as in the code."""
    momentum, decay, rounds, milestones = 0.9, 5e-4, 6, (0, 2)
    ref = Reference(
        partition={
            "scheme": "hierarchical",
            "clients": 10,
            "train": 20,
            "validation": 20,
            "test": 10,
            "validation_pool": 500,
        },
        algorithm={
            "name": "fedcd",
            "participants": 6,
            "milestones": milestones,
            "quantise_bits": None,
            "score_noise_sd": 0,
            "final_round": None,
        }
        | reading,
        optimizer={"name": "sgd", "lr": 0.1, "momentum": momentum, "weight_decay": decay},
        local_epochs=1,
        rounds=rounds,
    )
    devices, params = range(10), ref.spec.algorithm
    validation = ref.fed.partition.node_sets["validation"].parts
    models, scores = [ref.start], [{0: 1.0} for _ in devices]
    history: list[dict[int, list[float]]] = [{0: []} for _ in devices]
    velocity: dict[tuple[int, int], Vector] = {}
    ended = 0

    def scored(i: int) -> dict[int, float]:
        last = {m: history[i][m][-3:] for m in scores[i]}
        raw = {m: max(np.mean(a if len(a) == 3 else a[-1]), 1e-5) for m, a in last.items()}
        return {m: s / sum(raw.values()) for m, s in raw.items()}

    def lost(c: dict[int, float], created: int) -> list[int]:
        values = list(c.values())
        if params.delete_rule == "paper":
            gap = max(values) - np.std(values, ddof=1) if len(values) > 2 else 0.0
            return [m for m, s in c.items() if s < gap]
        if len(values) < 2:
            return []
        low = np.mean(values) - np.std(values, ddof=1)
        crowd = max(values) / 10 if created > 3 else 0.0
        return [m for m, s in c.items() if s < low or s < crowd]

    def noisy(c: dict[int, float], *stream: int | str) -> dict[int, float]:
        sd, models = params.score_noise_sd, list(c)
        if sd and len(models) > 1:
            rng = streams.generator(ref.spec.seed, "score", *stream)
            chosen, noise = models[rng.integers(len(models))], rng.normal(0, sd)
            rest = -noise / (len(models) - 1)
            c = {m: max(s + (noise if m == chosen else rest), 0) for m, s in c.items()}
        return {m: s / sum(c.values()) for m, s in c.items()}

    for t in range(rounds):
        if t - 1 in milestones:
            born = len(models)
            for i in devices:
                for m in list(scores[i]):
                    history[i][born + m] = [1 - history[i][m][-1]]
                    scores[i][born + m] = 0.0
                scores[i] = noisy(scored(i), t, i, "clone")
            models += models
        trained: dict[int, list[tuple[float, Vector]]] = {}
        for i in ref.drawn(t):
            for m, c in scores[i].items():
                if c == 0:
                    continue  # after noise
                w, v = models[m], velocity.get((i, m), torch.zeros_like(ref.start))
                for batch in ref.batches(i, t, "model", m):
                    v = momentum * v + ref.gradient(w, batch) + decay * w
                    w = w - 0.1 * v
                velocity[i, m] = v
                trained.setdefault(m, []).append((c, w))
        for m, members in trained.items():
            models[m] = mean([w for _, w in members], [c for c, _ in members])
        everyone = t in milestones or params.score_scope == "all"
        for i in devices if everyone else ref.drawn(t):
            for m in scores[i]:
                history[i][m].append(ref.accuracy(models[m], validation[i]))
            if len(models) > 1:
                c = scored(i)
                gone = lost(c, len(models))
                scores[i] = noisy({m: s for m, s in c.items() if m not in gone}, t, i)
            late = params.final_round is not None and t >= params.final_round
            if late and len(scores[i]) == 2 and min(scores[i].values()) <= params.final_threshold:
                scores[i] = {max(scores[i], key=lambda m, c=scores[i]: c[m]): 1.0}
                ended += 1
    assert bool(ended) == ("final_round" in reading), "else no device is left a single model"
    state = ref.engine()
    assert len(state.models) == len(models) == 4
    assert state.scores == [pytest.approx(device) for device in scores]
    assert any(len(device) < 4 for device in scores), "else nothing is deleted"
    for m in set().union(*scores):
        assert_same(state.models[m], models[m])


SMOOTH = 0.01
"""Adam's eps: with the usual 1e-8 a fresh step is a sign, which rounding decides at gradients of 0.
"""


@pytest.mark.parametrize(
    ("reading", "sets"),
    [
        (
            {"similarity": "agreement", "optimizer_state": "reset"},
            [[0, 1, 2], [3, 4, 5], [6, 7, 8]],
        ),
        ({"similarity": "dot", "threshold": 0.2}, [[0, 3, 6], [1, 4, 7], [2, 5, 8]]),
        (
            {
                "aggregation": "alias",
                "compare": "first",
                "weighting": "uniform",
                "optimizer_state": "keep",
                "initial": "own",
            },
            [[0, 1, 2], [3, 4, 5], [6, 7, 8]],
        ),
    ],
    ids=["as_written", "as_printed", "as_run"],
)
def test_selective(reading, sets):
    """Liu et al. 2020, section V and Algorithm 1, and with the authors' shared storage."""
    alone, lr, (beta1, beta2) = 2, 0.01, (0.9, 0.999)
    ref = Reference(
        partition={
            "scheme": "balanced_percent",
            "clients": 9,
            "percent": 0,
            "validation": 100,
        },
        algorithm={"name": "selective", "local_rounds": alone} | reading,
        optimizer={"name": "adam", "lr": lr, "eps": SMOOTH},
        batch=32,
        local_epochs=1,
        rounds=alone + 2,
    )
    params, nodes = ref.spec.algorithm, range(9)
    own = params.initial == "own"
    held = [ref.fed.initial_weights(k).double() if own else ref.start for k in nodes]
    moments: list[Any] = [None] * 9

    def train(w: Vector, k: int, t: int, *stream: str | int) -> Vector:
        """Kingma and Ba 2015, Algorithm 1."""
        step, m, v = moments[k] or (0, torch.zeros_like(w), torch.zeros_like(w))
        for batch in ref.batches(k, t, *stream):
            g, step = ref.gradient(w, batch), step + 1
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
            unbiased = (v / (1 - beta2**step)).sqrt()
            w = w - lr * m / (1 - beta1**step) / (unbiased + SMOOTH)
        moments[k] = (step, m, v)
        return w

    for t in range(alone):
        held = [train(w, k, t) for k, w in enumerate(held)]
    images = ref.fed.partition.validation
    right = [(ref.logits(w, images).argmax(1) == ref.y[images]).numpy() for w in held]

    def joins(a: int, b: int) -> bool:
        if params.similarity == "dot":
            return float(right[a] @ right[b].astype(int)) / len(images) < params.threshold
        return float((right[a] == right[b]).mean()) > params.threshold

    groups: list[list[int]] = []
    for k in nodes:
        fits = [
            group
            for group in groups
            if all(joins(k, other) for other in (group[:1] if params.compare == "first" else group))
        ]
        if fits:
            fits[0].append(k)
        else:
            groups.append([k])
    assert groups == sets
    for t in range(alone, ref.spec.rounds):
        for number, group in enumerate(groups):
            aliased = params.aggregation == "alias"
            models, stream = [], ("group", number) if aliased else ()
            for k in group:
                if params.optimizer_state == "reset":
                    moments[k] = None
                models.append(train(held[k], k, t, *stream))
                if aliased and t > alone:  # all of the group train one set of weights in place
                    for other in group:
                        held[other] = models[-1]
            shares = ref.sizes(group) if params.weighting == "examples" else [1] * len(group)
            for k in group:
                if not aliased or t == alone:
                    held[k] = mean(models, shares)
    state = ref.engine()
    assert state.groups == groups
    for k in nodes:
        assert_same(state.models[state.storage[k]], held[k])


def test_weight_divergence():
    """Zhao et al. 2018, eq. 1: after a round, from SGD on the union with K times the batch."""
    ref = Reference(algorithm={"name": "fedavg", "sgd_reference": True}, rounds=1)
    models = [ref.train(ref.start, k, 0) for k in range(CLIENTS)]
    federated, central = mean(models, ref.sizes(range(CLIENTS))), []
    for copy in range(2):
        w = ref.start
        union = np.concatenate(ref.clients)
        for batch in ref.batches_of(union, 0, "sgd", copy, times=CLIENTS):
            w = w - 0.1 * ref.gradient(w, batch)
        central.append(w)

    def divergence(ours: Vector, theirs: Vector) -> list[Any]:
        parts = [(ref.first_matrix(w), ref.matrix(w), w) for w in (ours, theirs)]
        return [
            pytest.approx(float((a - b).norm() / b.norm()), rel=1e-4)
            for a, b in zip(*parts, strict=True)
        ]

    state = ref.engine()
    assert_same(state.weights, federated)
    for name, wanted in (
        ("fedavg", divergence(federated, central[0])),
        ("sgd_other_shuffle", divergence(central[1], central[0])),
    ):
        found = state.divergence[name]
        assert [found[what] for what in found if "+bias" not in what] == wanted


def test_proposition_3_1():
    """Zhao et al. 2018: both descents by the gradients of whole classes, and the proof's bound."""
    eta, steps, rounds = 0.2, 3, 2
    ref = Reference(
        algorithm={"name": "divergence_bound"},
        optimizer={"name": "sgd", "lr": eta},
        local_epochs=steps,
        rounds=rounds,
    )
    classes, union = range(10), np.concatenate(ref.clients)
    counts = np.array([np.bincount(ref.y[own], minlength=10) for own in ref.clients])
    p, together = counts / counts.sum(1, keepdims=True), counts.sum(0) / counts.sum()
    of_class = [union[ref.y[union].numpy() == i] for i in classes]
    federated = central = ref.start
    distances, largest, lipschitz = [], [], np.zeros(10)
    for _ in range(rounds):
        local = [federated] * CLIENTS
        for _ in range(steps):
            g = [ref.gradient(central, of_class[i]) for i in classes]
            largest.append(max(float(each.norm()) for each in g))
            for k in range(CLIENTS):
                mine = [ref.gradient(local[k], of_class[i]) for i in classes]
                apart = float((local[k] - central).norm())
                for i in np.flatnonzero(counts[k]) if apart > 1e-3 else ():
                    lipschitz[i] = max(lipschitz[i], float((mine[i] - g[i]).norm()) / apart)
                local[k] = local[k] - eta * sum(p[k, i] * mine[i] for i in classes)
            central = central - eta * sum(together[i] * g[i] for i in classes)
        federated = mean(local, ref.sizes(range(CLIENTS)))
        distances.append(float((federated - central).norm()))

    # Eq. 3, step by step: E_k <- a_k E_k + eta EMD_k g_max; the last step has no second term.
    a, emd = 1 + eta * p @ lipschitz, np.abs(p - together).sum(1)
    bounds = []
    for m in range(rounds):
        apart = np.full(CLIENTS, distances[m - 1] if m else 0.0)
        for step in range(steps - 1):
            apart = a * apart + eta * emd * largest[m * steps + step]
        bounds.append(float(ref.sizes(range(CLIENTS)) / len(union) @ (a * apart)))

    state = ref.engine()
    kept = ALGORITHMS["divergence_bound"].summary(ref.fed, state)
    assert_same(state.federated, federated)
    assert_same(state.central, central)
    assert kept["distance"] == pytest.approx(distances, rel=1e-4)
    assert kept["largest_gradient"] == pytest.approx(largest, rel=1e-4)
    assert kept["lipschitz"] == pytest.approx(lipschitz, rel=1e-2)
    assert kept["bound"] == pytest.approx(bounds, rel=1e-2)
    assert all(found <= bound for found, bound in zip(distances, bounds, strict=True))
