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

    def matrix(self, w: Vector) -> Vector:
        """Return the weights of the final layer, flat."""
        return self.fed.layout.view(w, 2).flatten()

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
        """Return a client's batches of a round, all epochs, as `fedrepro.fl.streams` names them."""
        spec, own, found = self.spec, self.clients[client], []
        for epoch in range(spec.local_epochs):
            key = streams.key(spec.seed, "shuffle", "client", client, *stream, t, epoch)
            order = own[streams.permutation(key, len(own))]
            found += [order[i : i + spec.batch] for i in range(0, len(own), spec.batch)]
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


def test_feddyn():
    """Acar et al. 2021, Algorithm 1."""
    alpha = 0.3
    ref = Reference(algorithm={"name": "feddyn", "alpha": alpha, "participants": DRAWN})
    w, h = ref.start, torch.zeros_like(ref.start)
    g = [torch.zeros_like(w) for _ in range(CLIENTS)]
    for t in range(ROUNDS):
        start, models = w, []
        for k in ref.drawn(t):

            def dynamic(v: Vector, _: np.ndarray, k: int = k, start: Vector = start) -> Vector:
                return alpha / 2 * (v - start).square().sum() - g[k] @ v

            models.append(ref.train(start, k, t, dynamic))
            g[k] = g[k] - alpha * (models[-1] - start)
        h = h - alpha / CLIENTS * sum(model - start for model in models)
        w = mean(models, [1] * DRAWN) - h / alpha
    assert_same(ref.engine().weights, w)


def test_fedfa():
    """Huang et al. 2022, as Nguyen et al. 2023 describe it."""
    ref = Reference(algorithm={"name": "fedfa", "participants": DRAWN, "accuracy_of": "trained"})
    w, taken_part = ref.start, np.zeros(CLIENTS)
    for t in range(ROUNDS):
        drawn = ref.drawn(t)
        taken_part[drawn] += 1
        models = [ref.train(w, k, t) for k in drawn]
        right = np.array(
            [ref.accuracy(m, ref.clients[k]) for m, k in zip(models, drawn, strict=True)]
        )
        often = taken_part[drawn]
        a, b = -np.log2(right / right.sum() + 1e-6), -np.log2(1 - often / often.sum() + 1e-5)
        w = mean(models, a / a.sum() + b / b.sum())
    assert_same(ref.engine().weights, w)


@pytest.mark.parametrize(
    ("beta", "theta", "radius"), [(0.9, 0, None), (0.0, DRAWN, None), (0.0, 0, 2.0)]
)
def test_fedopt(beta, theta, radius):
    """Ozdayi et al. 2020, eqs. 2 and 4, and section 3.2."""
    ref = Reference(
        algorithm={
            "name": "fedopt",
            "participants": DRAWN,
            "server_momentum": beta,
            "sign_agreement": {"threshold": theta},
            "projection": radius and {"radius": radius},
        }
    )
    w, v = ref.start, torch.zeros_like(ref.start)
    for t in range(ROUNDS):
        drawn, updates = ref.drawn(t), []
        for k in drawn:
            local = w
            for batch in ref.batches(k, t):
                local = local - 0.1 * DECAY**t * ref.gradient(local, batch)
                if radius:
                    local = local * min(1.0, radius / float(local.norm()))
            updates.append(local - w)
        v = beta * v + mean(updates, ref.sizes(drawn))
        w = w + v * (sum(update.sign() for update in updates).abs() >= theta)
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


def test_cadis():
    """Nguyen et al. 2023, eqs. 1, 2, 11 to 13 and 18 to 20; no transitive learning."""
    weight, tau = 1.0, 0.8
    ref = Reference(
        partition={"scheme": "label_clusters", "clusters": [3, 2, 1, 1, 1], "per_label": 15},
        algorithm={
            "name": "cadis",
            "participants": 5,
            "distillation": weight,
            "threshold": tau,
            "transitive": "off",
        },
        optimizer={"name": "sgd", "lr": 0.02, "lr_decay": DECAY},
    )
    count = len(ref.clients)
    w, similarity = ref.start, np.eye(count)
    together, seen, joined = np.zeros((count, count)), set(), 0
    for t in range(ROUNDS):
        start, drawn, models = w, ref.drawn(t), []

        def distilled(v: Vector, batch: np.ndarray, start: Vector = start) -> Any:
            if len(batch) < 3:
                return 0.0
            p, q = affinities(ref.hidden(v, batch)), affinities(ref.hidden(start, batch)).detach()
            return weight * (q * (q / p).log()).sum()

        models = [ref.train(start, k, t, distilled) for k in drawn]
        changes = [ref.matrix(model) - ref.matrix(start) for model in models]
        seen |= set(drawn)
        for a, i in enumerate(drawn):
            for b, j in enumerate(drawn):
                if i != j:
                    f = together[i, j] = together[i, j] + 1
                    cosine = float(functional.cosine_similarity(changes[a], changes[b], dim=0))
                    similarity[i, j] = similarity[i, j] * (f - 1) / f + cosine / f
        lowest = similarity[together > 0].min()
        q = (similarity - lowest) / (1 - lowest)
        cluster = connected((together > 0) & (q >= tau))
        c = np.array([sum(cluster[j] == cluster[k] for j in seen) for k in drawn])
        joined += int((c > 1).sum())
        w = mean(models, ref.sizes(drawn) / c)
    assert joined, "else nothing is clustered"
    assert together.max() > 1, "else no cosine is averaged"
    state = ref.engine()
    assert_same(state.weights, w, within=1e-4)  # near 0 the term loses digits in float32
    assert state.similarity.numpy() == pytest.approx(similarity * (together > 0), abs=1e-4)


def test_fedcd():
    """Kopparapu et al. 2020, Algorithm 1 and eqs. 1 to 3, cloned and deleted as in the code."""
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
        },
        optimizer={"name": "sgd", "lr": 0.1, "momentum": momentum, "weight_decay": decay},
        local_epochs=1,
        rounds=rounds,
    )
    devices = range(10)
    validation = ref.fed.partition.node_sets["validation"].parts
    models, scores = [ref.start], [{0: 1.0} for _ in devices]
    history: list[dict[int, list[float]]] = [{0: []} for _ in devices]
    velocity: dict[tuple[int, int], Vector] = {}

    def scored(i: int) -> dict[int, float]:
        last = {m: history[i][m][-3:] for m in scores[i]}
        raw = {m: max(np.mean(a if len(a) == 3 else a[-1]), 1e-5) for m, a in last.items()}
        return {m: s / sum(raw.values()) for m, s in raw.items()}

    def lost(c: dict[int, float], created: int) -> list[int]:
        values = list(c.values())
        if len(values) < 2:
            return []
        low = np.mean(values) - np.std(values, ddof=1)
        crowd = max(values) / 10 if created > 3 else 0.0
        return [m for m, s in c.items() if s < low or s < crowd]

    for t in range(rounds):
        if t - 1 in milestones:
            born = len(models)
            for i in devices:
                for m in list(scores[i]):
                    history[i][born + m] = [1 - history[i][m][-1]]
                    scores[i][born + m] = 0.0
                scores[i] = scored(i)
            models += models
        trained: dict[int, list[tuple[float, Vector]]] = {}
        for i in ref.drawn(t):
            for m, c in scores[i].items():
                w, v = models[m], velocity.get((i, m), torch.zeros_like(ref.start))
                for batch in ref.batches(i, t, "model", m):
                    v = momentum * v + ref.gradient(w, batch) + decay * w
                    w = w - 0.1 * v
                velocity[i, m] = v
                trained.setdefault(m, []).append((c, w))
        for m, members in trained.items():
            models[m] = mean([w for _, w in members], [c for c, _ in members])
        for i in devices if t in milestones else ref.drawn(t):
            for m in scores[i]:
                history[i][m].append(ref.accuracy(models[m], validation[i]))
            if len(models) > 1:
                c = scored(i)
                kept = {m: s for m, s in c.items() if m not in lost(c, len(models))}
                scores[i] = {m: s / sum(kept.values()) for m, s in kept.items()}
    state = ref.engine()
    assert len(state.models) == len(models) == 4
    assert state.scores == [pytest.approx(device) for device in scores]
    assert any(len(device) < 4 for device in scores), "else nothing is deleted"
    for m in set().union(*scores):
        assert_same(state.models[m], models[m])
