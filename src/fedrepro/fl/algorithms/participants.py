"""What algorithms share that draw some clients each round (Nguyen et al. 2023).

``order`` says whether a client sees its examples in a fresh order every round. In one of the two
code paths of the paper's authors, that of FedAvg and FedProx, the random seed is set anew before
every local training, so shuffles and dropout masks are the same in every round: ``repeated``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedrepro.base.errors import FedreproError
from fedrepro.fl.requests import Lane, Objective, Predict, Prediction, Train, Trained

if TYPE_CHECKING:
    from fedrepro.fl.federation import Federation
    from fedrepro.fl.requests import IntArray, Steps, Weights

Order = Literal["fresh", "repeated"]
Weighting = Literal["examples", "uniform"]


def held(fed: Federation, clients: Sequence[int]) -> list[IntArray]:
    """Return the examples of each of some clients: positions in the training split, int64 [n].

    Raises:
        FedreproError: there is no such client.
    """
    for k in clients:
        if not 0 <= k < len(fed.clients):
            raise FedreproError(
                f"algorithm {fed.spec.algorithm.name}: asks for client {k}, and the partition has "
                f"the clients 0 to {len(fed.clients) - 1}"
            )
    return [fed.clients[k] for k in clients]


def train(
    fed: Federation,
    weights: Weights,
    clients: Sequence[int],
    t: int,
    objective: Objective,
    linear: Sequence[Weights] | None = None,
    order: Order = "fresh",
) -> Steps:
    """Train clients from the global weights on their own examples.

    Args:
        fed: the federation.
        weights: the global weights, float32 [size].
        clients: who takes part.
        t: round from 0.
        objective: what they minimise.
        linear: each client's linear term, float32 [parameters]; None: there is none.
        order: ``fresh`` or ``repeated`` (see the module).

    Yields:
        One :class:`Train`.

    Returns:
        One :class:`Trained` for each client.

    Raises:
        FedreproError: there is no such client.
    """
    terms = [None] * len(clients) if linear is None else linear
    lanes = [
        Lane(weights, examples, ("client", k), linear=term)
        for k, examples, term in zip(clients, held(fed, clients), terms, strict=True)
    ]
    stream = 0 if order == "repeated" else t
    trained: list[Trained] = yield Train(lanes, stream, objective=objective)
    return trained


def accuracies(fed: Federation, weights: Weights, clients: Sequence[int]) -> Steps:
    """Return a model's accuracy (fraction) on the training examples of each of some clients."""
    parts = held(fed, clients)
    answer: list[Prediction] = yield Predict([weights], "train", np.concatenate(parts))
    ends = np.cumsum([len(examples) for examples in parts])[:-1]
    return [float(part.mean()) for part in np.split(answer[0].correct, ends)]


def own_accuracies(fed: Federation, trained: Sequence[Trained], clients: Sequence[int]) -> Steps:
    """Return the accuracy (fraction) of each client's trained model on the client's examples.

    Yields:
        One :class:`Predict`.
    """
    models = [result.weights for result in trained]
    answers: list[Prediction] = yield Predict(models, "train", held(fed, clients))
    return [answer.accuracy for answer in answers]


def shares(fed: Federation, clients: Sequence[int], weighting: Weighting) -> list[int]:
    """Return the weight of each of some clients in an average: its number of examples, or 1."""
    return [len(own) if weighting == "examples" else 1 for own in held(fed, clients)]


def mean_loss(trained: Sequence[Trained]) -> float:
    """Return the unweighted mean of the clients' cross entropies.

    A client that takes no step, as it holds less than a batch, counts as 0. Records with such
    clients say how many there are (``idle_clients``).
    """
    return float(np.mean([result.loss for result in trained]))


def log_received(
    fed: Federation, weights: Weights, clients: Sequence[int], *, wanted: bool
) -> Steps:
    """Return what to log of the received model's accuracy on the participants' training examples.

    Yields:
        One :class:`Predict` if ``wanted``.

    Returns:
        ``local_accuracy`` and ``local_accuracy_sd``: mean and population standard deviation over
        the participants, as fractions; empty unless ``wanted``. FedOpt's ``local_accuracy`` is
        another: that of the clients' trained models on test images.
    """
    if not wanted:
        return {}
    received: list[float] = yield from accuracies(fed, weights, clients)
    return {
        "local_accuracy": float(np.mean(received)),
        "local_accuracy_sd": float(np.std(received)),
    }
