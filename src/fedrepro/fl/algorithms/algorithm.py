"""What an algorithm is: its parameters and functions, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field

from fedrepro.base.strict import Strict
from fedrepro.fl.algorithms.evaluation import evaluate_global

if TYPE_CHECKING:
    from fedrepro.fl.federation import Federation
    from fedrepro.fl.losses import LossTerm
    from fedrepro.fl.requests import Steps
    from fedrepro.fl.spec import RunSpec


class AlgorithmParams(Strict):
    """Base of every algorithm's parameters: a model with a field ``name``, a literal."""

    if TYPE_CHECKING:

        @property
        def name(self) -> str: ...  # noqa: D102

    def require_fit(self, spec: RunSpec) -> None:
        """Refuse a run whose other fields the algorithm cannot work with, before data are read.

        Args:
            spec: the run; its ``algorithm`` is this.

        Raises:
            ValueError: it cannot; the message names the key.
        """


class SamplingParams(AlgorithmParams):
    """Parameters of an algorithm that draws the clients of a round."""

    participants: int | None = Field(
        default=None, ge=1, description="clients drawn each round; null: all"
    )

    def require_fit(self, spec: RunSpec) -> None:
        """Refuse a partition with fewer clients than a round draws.

        Raises:
            ValueError: it has.
        """
        drawn, clients = self.participants, spec.partition.clients
        if drawn is not None and drawn > clients:
            raise ValueError(
                f"algorithm.participants: {drawn}, but the partition has {clients} clients; set it "
                f"to at most {clients}"
            )


P = TypeVar("P", bound=AlgorithmParams)


def params_of(spec: RunSpec, kind: type[P]) -> P:
    """Return the parameters of a run's algorithm; ``kind`` is their class."""
    params = spec.algorithm
    assert isinstance(params, kind)
    return params


def _all_rounds(spec: RunSpec) -> int:
    return spec.rounds


def _nothing(fed: Federation, state: Any) -> dict[str, Any]:
    return {}


def clients_a_round(spec: RunSpec) -> int:
    """Return how many clients train in a round."""
    count: int | None = getattr(spec.algorithm, "participants", None)
    return spec.partition.clients if count is None else count


@dataclass(frozen=True)
class Cost:
    """What a run costs, as functions of its spec; :func:`fedrepro.fl.cost.sample_passes` uses them.

    The defaults are FedAvg's: each round the participants train one model each for E epochs, and
    each evaluation predicts with one model. A sample pass is one example trained on once.

    Attributes:
        factor: factor on the sample passes of the participants' E epochs.
        extra: further sample passes of the whole run; its second argument is the sample passes of
            E epochs on the data of all clients.
        lanes: models that a round trains side by side.
        models: models that an evaluation predicts with.
        predicted: examples that an evaluation predicts besides those of the partition.
    """

    factor: Callable[[RunSpec], float] = lambda _: 1.0
    extra: Callable[[RunSpec, float], float] = lambda _spec, _epochs: 0.0
    lanes: Callable[[RunSpec], int] = clients_a_round
    models: Callable[[RunSpec], int] = lambda _: 1
    predicted: Callable[[RunSpec], float] = lambda _: 0.0


@dataclass(frozen=True)
class Algorithm:
    """A federated algorithm; :mod:`fedrepro.fl.algorithms` says what its functions are given.

    Attributes:
        params: model of its parameters, with a field ``name`` that is a literal of its name.
        init: returns the state before the first round.
        round: a generator that asks for work in a round, counted from 0, updates the state, and
            returns what to log: name -> number.
        evaluate: a generator that returns the metrics of the state: name -> number or list of
            numbers; by default those of the global model ``state.weights``.
        rounds: how many rounds a run takes in all; by default ``spec.rounds``.
        summary: what to keep in the record besides metrics, as JSON values; by default nothing.
        example: parameters of a small case, for golden tests.
        cost: what a run costs.
        loss_terms: the loss terms that it uses besides the cross entropy: names, or terms that the
            program defines itself.
        version: raised when the algorithm's numbers change, so that exactly its runs train again.
    """

    params: type[AlgorithmParams]
    init: Callable[[Federation], Any]
    round: Callable[[Federation, Any, int], Steps]
    evaluate: Callable[[Federation, Any], Steps] = evaluate_global
    rounds: Callable[[RunSpec], int] = _all_rounds
    summary: Callable[[Federation, Any], dict[str, Any]] = _nothing
    example: Mapping[str, Any] = field(default_factory=dict)
    cost: Cost = Cost()
    loss_terms: tuple[str | LossTerm, ...] = ()
    version: int = 1

    @property
    def name(self) -> str:
        """What specs call it."""
        annotation: Any = self.params.model_fields["name"].annotation
        return str(annotation.__args__[0])

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of its loss terms."""
        return tuple(term if isinstance(term, str) else term.name for term in self.loss_terms)

    @property
    def module(self) -> str:
        """Dotted name of the file that defines it."""
        return self.params.__module__
