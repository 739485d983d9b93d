"""Proposition 3.1 of Zhao et al. 2018, evaluated: a bound on FedAvg's distance from SGD.

The proposition is about gradients in expectation, so federated and central gradient descent run
side by side on full batches, with the step size eta and T local steps between two
synchronisations. With ``g_i(w)`` the mean gradient over all examples of class i,

- central: ``w_c <- w_c - eta sum_i p(i) g_i(w_c)``, p the class shares of all clients;
- client k: ``w_k <- w_k - eta sum_i p_k(i) g_i(w_k)``;
- every T steps all clients take ``w_f = sum_k (n_k / n) w_k``.

After the m-th synchronisation (eq. 2)

``||w_f - w_c|| <= sum_k (n_k / n) a_k^T D + eta sum_k (n_k / n) EMD_k sum_{j=1}^{T-1} a_k^j G_j``

where D is the distance after the synchronisation before, ``EMD_k = sum_i |p_k(i) - p(i)|``,
``G_j = max_i ||g_i(w_c)||`` at central step ``mT - 1 - j``, and ``a_k = 1 + eta sum_i p_k(i)
lambda_i`` with ``lambda_i`` the Lipschitz constant of ``g_i``. (Eq. 2 prints k in place of j inside
G.) A network's constants are not known, but the proof compares gradients only where a client stands
and where the centre stands at the same step. So the largest ratio
``||g_i(w_k) - g_i(w_c)|| / ||w_k - w_c||`` met in the run is constant enough: with it the bound
must hold for this run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from fedrepro.base.errors import FedreproError
from fedrepro.fl.algorithms.algorithm import Algorithm, AlgorithmParams, Cost
from fedrepro.fl.algorithms.averaging import weighted_mean
from fedrepro.fl.algorithms.evaluation import evaluate_models
from fedrepro.fl.algorithms.participants import mean_loss
from fedrepro.fl.algorithms.scalars import floats
from fedrepro.fl.requests import Lane, Train, Trained

if TYPE_CHECKING:
    from fedrepro.fl.federation import Federation
    from fedrepro.fl.requests import IntArray, Steps, Weights
    from fedrepro.fl.spec import RunSpec

TOO_CLOSE = 1e-5
"""Two models nearer than this share of the norm of one tell rounding, not curvature."""


class Params(AlgorithmParams):
    """Parameters of the evaluation; T is the spec's ``local_epochs``, m counts its rounds."""

    name: Literal["divergence_bound"]
    drawn: int = Field(
        default=2,
        ge=0,
        description="synchronisations of which the record keeps the inner products of all "
        "models' displacements from the start, to draw them in a plane",
    )

    def require_fit(self, spec: RunSpec) -> None:
        """Refuse all but gradient descent with a constant step size on examples as they are.

        Raises:
            ValueError: the run asks for it.
        """
        optimizer = spec.optimizer
        if optimizer.model_dump(exclude_defaults=True) != {"name": "sgd", "lr": optimizer.lr}:
            raise ValueError(
                "optimizer: algorithm divergence_bound needs sgd with a constant step size and "
                "nothing else, as in Proposition 3.1"
            )
        if spec.dataset.augment:
            raise ValueError(
                "dataset.augment: must be off for algorithm divergence_bound: the gradients of "
                "Proposition 3.1 are of the same examples everywhere"
            )


@dataclass
class State:
    """Both sides' weights, and what the bound is made of.

    Attributes:
        start: common initial weights, float32 [size].
        central: w_c, float32 [size].
        federated: w_f, float32 [size].
        lipschitz: largest ratio met so far for each class, [classes].
        largest_gradient: ``max_i ||g_i(w_c)||`` before each step.
        distance: ``||w_f - w_c||`` after each synchronisation.
        reference: ``||w_c||`` after each synchronisation.
        kept: displacements from the start at the drawn synchronisations: those of the clients
            before averaging, then of w_f and w_c.
    """

    start: Weights
    central: Weights
    federated: Weights
    lipschitz: list[float]
    largest_gradient: list[float] = field(default_factory=list)
    distance: list[float] = field(default_factory=list)
    reference: list[float] = field(default_factory=list)
    kept: list[Weights] = field(default_factory=list)


def init(fed: Federation) -> State:
    """Start both sides from the common initialisation.

    Raises:
        FedreproError: the network has running statistics.
    """
    if fed.layout.size != fed.layout.parameters:
        raise FedreproError(
            f"algorithm divergence_bound: model {fed.spec.model.name} has running statistics, "
            "which Proposition 3.1 does not know"
        )
    start = fed.initial_weights()
    return State(start, start, start, lipschitz=[0.0] * len(fed.partition.counts[0]))


def round(fed: Federation, state: State, t: int) -> Steps:
    """Take T steps on both sides, then synchronise the clients."""
    shares = _shares(fed)
    together = fed.partition.counts.sum(axis=0) / fed.partition.counts.sum()
    by_class = _examples_by_class(fed)
    local = [state.federated for _ in shares]
    eta = fed.spec.optimizer.lr
    for _ in range(fed.spec.local_epochs):
        models, mixes = [*local, state.central], [*shares, together]
        lanes = [
            Lane(model, by_class[i], ("model", k, "class", i), batch=len(by_class[i]), lr=1.0)
            for k, (model, mix) in enumerate(zip(models, mixes, strict=True))
            for i in np.flatnonzero(mix).tolist()
        ]
        trained: list[Trained] = yield Train(lanes, t, epochs=1)
        gradients: list[dict[int, Weights]] = [{} for _ in models]
        for lane, result in zip(lanes, trained, strict=True):
            gradients[int(lane.stream[1])][int(lane.stream[3])] = lane.weights - result.weights
        _learn_constants(state, local, gradients)
        stepped = [
            model - eta * sum(float(mix[i]) * g for i, g in found.items())
            for model, mix, found in zip(models, mixes, gradients, strict=True)
        ]
        local, state.central = stepped[:-1], stepped[-1]
    state.federated = weighted_mean(local, fed.partition.counts.sum(axis=1).tolist())
    distance, norm = floats(w.norm() for w in (state.federated - state.central, state.central))
    state.distance.append(distance)
    state.reference.append(norm)
    if t < fed.params(Params).drawn:
        ends = [*local, state.federated, state.central]
        state.kept += [model - state.start for model in ends]
    loss = mean_loss(trained)
    return {"train_loss": loss, "distance": state.distance[-1]}


def _shares(fed: Federation) -> Any:
    """Return ``p_k(i)``, float64 [clients, classes]."""
    counts = fed.partition.counts
    return counts / counts.sum(axis=1, keepdims=True)


def _examples_by_class(fed: Federation) -> list[IntArray]:
    """Return all examples of each class that any client holds, ascending."""
    union = np.unique(np.concatenate(fed.clients))
    labels = fed.labels[union]
    return [union[labels == label] for label in range(fed.partition.counts.shape[1])]


def _learn_constants(
    state: State, local: list[Weights], gradients: list[dict[int, Weights]]
) -> None:
    """Note the largest class gradient at the centre, and raise ``lambda_i`` where a pair asks."""
    central = gradients[-1]
    norm, *sizes = floats(w.norm() for w in (state.central, *central.values()))
    distances = floats((model - state.central).norm() for model in local)
    state.largest_gradient.append(max(sizes))
    asked = [
        (i, gradient, apart)
        for found, apart in zip(gradients[:-1], distances, strict=True)
        if apart > TOO_CLOSE * norm
        for i, gradient in found.items()
    ]
    changes = floats((gradient - central[i]).norm() for i, gradient, _ in asked)
    for (i, _, apart), change in zip(asked, changes, strict=True):
        state.lipschitz[i] = max(state.lipschitz[i], change / apart)


def bound(
    *,
    shares: Any,
    sizes: Any,
    emd: Any,
    lipschitz: Any,
    largest_gradient: Any,
    distance: Any,
    eta: float,
    steps: int,
) -> list[float]:
    """Return the right side of eq. 2, a bound on a Euclidean distance of weights.

    Args:
        shares: p_k(i), float64 [clients, classes].
        sizes: n_k, [clients].
        emd: EMD_k, float64 [clients].
        lipschitz: lambda_i, [classes].
        largest_gradient: max_i ||g_i(w_c)|| before each central step, [m * T].
        distance: measured ||w_f - w_c|| after each synchronisation, [m].
        eta: step size.
        steps: T, local steps between two synchronisations.

    Returns:
        One bound for each of the m synchronisations.
    """
    weights = np.asarray(sizes) / np.sum(sizes)
    growth = 1 + eta * np.asarray(shares) @ np.asarray(lipschitz)
    before = [0.0, *distance[:-1]]
    bounds = []
    for m in range(1, len(distance) + 1):
        inherited = weights @ growth**steps * before[m - 1]
        drift = sum(
            weights * emd * growth**j * largest_gradient[m * steps - 1 - j] for j in range(1, steps)
        )
        bounds.append(float(inherited + eta * np.sum(drift)))
    return bounds


def evaluate(fed: Federation, state: State) -> Steps:
    """Evaluate the averaged model."""
    owners = [0] * len(fed.clients)
    return (yield from evaluate_models(fed, [state.federated], owners))


def summary(fed: Federation, state: State) -> dict[str, Any]:
    """Return the measured distances, the bound and its parts.

    Returns:
        For each synchronisation ``distance``, ``norm`` (of w_c) and ``bound``; ``lipschitz``, one
        for each class; ``largest_gradient``, one for each step; and ``inner_products`` of the drawn
        displacements, if any.
    """
    counts = fed.partition.counts
    kept: dict[str, Any] = {
        "distance": state.distance,
        "norm": state.reference,
        "bound": bound(
            shares=_shares(fed),
            sizes=counts.sum(axis=1),
            emd=fed.partition.emd,
            lipschitz=state.lipschitz,
            largest_gradient=state.largest_gradient,
            distance=state.distance,
            eta=fed.spec.optimizer.lr,
            steps=fed.spec.local_epochs,
        ),
        "lipschitz": state.lipschitz,
        "largest_gradient": state.largest_gradient,
    }
    if state.kept:
        kept["inner_products"] = [floats(a @ b for b in state.kept) for a in state.kept]
    return kept


ALGORITHM = Algorithm(
    Params,
    init,
    round,
    evaluate,
    summary=summary,
    example={"name": "divergence_bound"},
    cost=Cost(factor=lambda spec: 1 + spec.partition.clients),
)
