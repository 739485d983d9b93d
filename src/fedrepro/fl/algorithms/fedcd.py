"""FedCD: federated cloning and deletion (Kopparapu, Lin, Zhao 2020, section 2, Algorithm 1).

The server holds several models. A device trains all those it has, scores each by its validation
images, and drops those that score low; a model is averaged with the scores as weights. After a
milestone round every model is cloned, and a clone scores high where its parent is bad, so that the
devices part in groups. Without milestones this is the paper's FedAvg, in which the drawn devices
count alike, however many images they hold.

The paper and its public code differ; each difference is a parameter whose description says which
reading is which. Cloning opens the round after a milestone, so the state between two rounds is the
one that the figures show: scored and pruned, not yet cloned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from fedrepro.base.errors import FedreproError
from fedrepro.fl import streams
from fedrepro.fl.algorithms import fedcd_scores as scoring
from fedrepro.fl.algorithms.algorithm import Algorithm, Cost, SamplingParams, params_of
from fedrepro.fl.algorithms.averaging import weighted_mean
from fedrepro.fl.algorithms.participants import mean_loss
from fedrepro.fl.requests import Lane, Objective, Predict, Prediction, Train, Trained

if TYPE_CHECKING:
    from fedrepro.fl.federation import Federation
    from fedrepro.fl.requests import OptimizerState, Steps, Weights
    from fedrepro.fl.spec import RunSpec

Held: TypeAlias = tuple[int, int]
"""A device and one of its models."""

SCORE_UNIT = 1000
"""Scores are recorded as integers, in thousandths."""


class Params(SamplingParams):
    """Parameters of FedCD and the switches between the readings of paper and code."""

    name: Literal["fedcd"]
    participants: int = Field(default=15, ge=1, description="K: devices drawn each round")
    milestones: tuple[int, ...] = Field(
        default=(5, 15, 25, 30),
        description="rounds, from 0, after which every model is cloned; none: federated averaging",
    )
    quantise_bits: int | None = Field(
        default=8, ge=1, le=24, description="bits of a weight that a device sends; null: float32"
    )
    quantise_clones: bool = Field(
        default=False, description="quantise a clone when it is made (as written)"
    )
    window: int = Field(default=3, ge=1, description="l: validation accuracies averaged (eq. 2)")
    score_noise_sd: float = Field(
        default=0.01, ge=0, description="standard deviation of the noise on one score"
    )
    score_scope: Literal["participants", "all"] = Field(
        default="participants",
        description="devices scored in a round without milestone: those drawn (as run), or all (as "
        "written)",
    )
    scoring: Literal["paper", "code"] = Field(
        default="paper",
        description="scores sum to 1 over a device's models, and none is deleted while models are "
        "cloned (as written); or the sum is over all models ever created, whose noise remains, and "
        "a device is scored anew after each clone (as run)",
    )
    clone_score: Literal["accuracy", "score"] = Field(
        default="accuracy",
        description="a clone starts with 1 - its parent's last validation accuracy in its history "
        "(as run), or with the score 1 - the parent's (as written; 0 at the first milestone, where "
        "no clone is born)",
    )
    delete_rule: Literal["code", "paper"] = Field(
        default="code",
        description="mean - c > sd or, once 4 models exist, c < max / 10; or max - c > sd (eq. 4)",
    )
    final_round: int | None = Field(
        default=20, ge=0, description="round, from 0, from which the worse of two models may go"
    )
    final_rule: Literal["score", "gap"] = Field(
        default="score", description="it goes by its score (as written), or by the gap (as run)"
    )
    final_threshold: float = Field(
        default=0.3, ge=0, le=1, description="score 0.3 (as written); gap 0.5 (as run)"
    )
    optimizer_state: Literal["keep", "reset"] = Field(
        default="keep", description="whether moments of a device and model survive a round"
    )
    clone_lr: Literal["global", "legacy"] = Field(
        default="global",
        description="the step size goes by the round; or clones start anew, with the milestones "
        "brought forward by the epochs that the device trained the parent (as run)",
    )
    momentum_kick: bool = Field(
        default=False,
        description="after a download every device that has trained the model takes a step of its "
        "momentum without a gradient (as run, with PyTorch of 2020)",
    )
    first_device_double: bool = Field(
        default=False, description="one drawn device counts twice in an average (as run)"
    )

    @model_validator(mode="after")
    def _milestones_ascend(self) -> Params:
        ascending = list(self.milestones) == sorted(set(self.milestones))
        if not ascending or min(self.milestones, default=0) < 0:
            raise ValueError("milestones must be rounds from 0, in ascending order")
        return self

    @model_validator(mode="after")
    def _code_clones_by_accuracy(self) -> Params:
        if self.scoring == "code" and self.clone_score != "accuracy":
            raise ValueError("scoring: code needs clone_score: accuracy")
        return self

    def require_fit(self, spec: RunSpec) -> None:
        """Refuse too few devices, and an optimiser that a switch does not know.

        Raises:
            ValueError: one of them is the run's.
        """
        super().require_fit(spec)
        optimizer = spec.optimizer
        if self.momentum_kick and not (
            optimizer.name == "sgd"
            and optimizer.momentum
            and not optimizer.nesterov
            and optimizer.vector_lr_factor == 1
            and self.optimizer_state == "keep"
        ):
            raise ValueError(
                "algorithm.momentum_kick needs sgd with momentum that is kept, without nesterov "
                "and vector_lr_factor"
            )
        if self.clone_lr == "legacy" and optimizer.lr_decay != 1:
            raise ValueError(
                "algorithm.clone_lr: legacy knows optimizer.lr_milestones and no lr_decay; leave "
                "one of the two out"
            )


@dataclass
class State:
    """The models, and what every device knows of those it has.

    Attributes:
        models: global models by index, float32 [size]; None once no device has it.
        scores: for every device, c of each of its active models.
        history: for every device, the last validation accuracies (fractions) of each model it ever
            had.
        moments: for every device, the optimiser state it keeps of each model.
        kicks: for every device, the step size of its last step without gradient on each model.
        averaged: rounds in which each model was averaged.
        epochs: for every device, epochs it has trained each model.
        offsets: for every device, epochs it had trained the parent of each clone when that was
            made; ``clone_lr: legacy`` brings the clone's milestones forward by as many.
        log: what happened in each round, and right answers in each evaluation.
    """

    models: list[Weights | None]
    scores: list[dict[int, float]]
    history: list[dict[int, list[float]]]
    moments: list[dict[int, OptimizerState]]
    kicks: list[dict[int, float]]
    averaged: list[int]
    epochs: list[dict[int, int]]
    offsets: list[dict[int, int]]
    log: dict[str, list[Any]] = field(default_factory=dict)


def init(fed: Federation) -> State:
    """Give every device the one model, with the score 1.

    Raises:
        FedreproError: the partition gives the devices no validation and test sets of their own.
    """
    missing = {"validation", "test"} - set(fed.partition.node_sets)
    if missing:
        raise FedreproError(
            f"algorithm.name: fedcd needs {' and '.join(sorted(missing))} images of every device; "
            "partition.scheme hierarchical and hypergeometric have them"
        )
    devices = range(len(fed.clients))
    return State(
        models=[fed.initial_weights()],
        scores=[{0: 1.0} for _ in devices],
        history=[{0: []} for _ in devices],
        moments=[{} for _ in devices],
        kicks=[{} for _ in devices],
        averaged=[0],
        epochs=[{0: 0} for _ in devices],
        offsets=[{0: 0} for _ in devices],
        log={"active": [], "preferred": [], "scores": [], "correct": []},
    )


def round(fed: Federation, state: State, t: int) -> Steps:
    """Clone if the last round was a milestone; train, average, score and delete (Algorithm 1).

    Yields:
        :class:`Train` for all pairs of a drawn device and one of its models; with milestones,
        :class:`Predict` on validation images.

    Returns:
        ``train_loss``; and counts: ``trained_models`` (pairs of device and model), ``sent_models``
        (downloads by all devices, drawn or not) and ``sample_passes`` (images trained on).
    """
    params = fed.params(Params)
    if t - 1 in params.milestones:
        yield from _clone_all(fed, state, t)
    drawn = fed.participants(t, params.participants)
    metrics = yield from _train(fed, state, t, drawn)
    if params.milestones:
        everyone = t in params.milestones or params.score_scope == "all"
        yield from _score(fed, state, t, range(len(fed.clients)) if everyone else drawn)
        _remember(state)
    return metrics


def _train(fed: Federation, state: State, t: int, drawn: Sequence[int]) -> Steps:
    """Train every model of every drawn device, and average each by the scores (equation 1)."""
    params = fed.params(Params)
    pairs = [(i, m) for i in drawn for m in sorted(state.scores[i]) if state.scores[i][m] > 0]
    lanes = [
        Lane(
            _held(fed, state, (i, m)),
            fed.clients[i],
            ("client", i, "model", m),
            state.moments[i].get(m),
            lr=_legacy_lr(fed, state, (i, m)) if params.clone_lr == "legacy" else None,
        )
        for i, m in pairs
    ]
    keep = params.optimizer_state == "keep"
    trained: list[Trained] = yield Train(
        lanes, t, keep_optimizer_state=keep, objective=Objective(quantise_bits=params.quantise_bits)
    )
    for (i, m), result in zip(pairs, trained, strict=True):
        state.epochs[i][m] += fed.spec.local_epochs
        if keep and result.optimizer_state:
            state.moments[i][m] = result.optimizer_state
    sent = 0
    for m in sorted({m for _, m in pairs}):
        members = [place for place, (_, model) in enumerate(pairs) if model == m]
        weights = [state.scores[pairs[place][0]][m] for place in members]
        if params.first_device_double:
            key = streams.key(fed.spec.seed, "double", t, m)
            weights[int(streams.choice(key, len(members), 1)[0])] *= 2
        state.models[m] = weighted_mean([trained[place].weights for place in members], weights)
        holders = [i for i, scores in enumerate(state.scores) if m in scores]
        if params.momentum_kick:
            _kick(fed, state, t, m, holders)
        state.averaged[m] += 1
        sent += len(holders)
    return {
        "train_loss": mean_loss(trained),
        "trained_models": len(pairs),
        "sent_models": sent,
        "sample_passes": fed.spec.local_epochs * sum(len(lane.examples) for lane in lanes),
    }


def _alive(state: State, m: int) -> Weights:
    model = state.models[m]
    assert model is not None
    return model


def _held(fed: Federation, state: State, held: Held) -> Weights:
    """Return a device's copy of a model: the server's, unless it has taken a step on it."""
    device, m = held
    model = _alive(state, m)
    lr = state.kicks[device].get(m)
    if lr is None:
        return model
    velocity = state.moments[device][m]["velocity"]
    copy = model.clone()
    copy[: fed.layout.parameters] -= lr * velocity
    return copy


def _kick(fed: Federation, state: State, t: int, m: int, holders: Iterable[int]) -> None:
    """Let the holders of a model that have trained it step with a gradient of zero."""
    optimizer, model = fed.spec.optimizer, _alive(state, m)
    assert optimizer.name == "sgd"
    legacy = fed.params(Params).clone_lr == "legacy"
    for i in holders:
        if m not in state.moments[i]:
            continue
        old = state.moments[i][m]["velocity"]
        decay = optimizer.weight_decay * model[: fed.layout.parameters]
        state.moments[i][m] = {"velocity": optimizer.momentum * old + decay}
        state.kicks[i][m] = _legacy_lr(fed, state, (i, m)) if legacy else optimizer.step_size(t)


def _legacy_lr(fed: Federation, state: State, held: Held) -> float:
    """Return the step size of a device's own schedule for a model, started when it was made.

    A milestone that the offset moves to before the start is never passed.
    """
    device, m = held
    optimizer = fed.spec.optimizer
    due = [milestone - state.offsets[device][m] for milestone in optimizer.lr_milestones]
    return optimizer.lr * 0.1 ** sum(0 <= milestone <= state.averaged[m] for milestone in due)


def _score(fed: Federation, state: State, t: int, devices: Iterable[int]) -> Steps:
    """Validate the devices' models, score them, and delete those that score low."""
    params = fed.params(Params)
    devices = list(devices)
    pairs = [(i, m) for i in devices for m in sorted(state.scores[i])]
    right, _ = yield from _ask(fed, state, "validation", pairs)
    for i, m in pairs:
        accuracy = right[i, m] / len(fed.partition.node_sets["validation"].parts[i])
        state.history[i][m] = [*state.history[i][m], accuracy][-params.window :]
    if len(state.models) == 1:
        return  # a single model keeps the score 1
    for i in devices:
        _refresh(fed, state, i, (t, i), delete=True)
        _finalise(params, state, i, t)
    _bury(state)


def _refresh(
    fed: Federation, state: State, device: int, stream: tuple[str | int, ...], *, delete: bool
) -> None:
    """Compute a device's scores from its history; delete, then add noise, as the code does."""
    params = fed.params(Params)
    active, created = sorted(state.scores[device]), len(state.models)
    over_all = params.scoring == "code"
    scores = scoring.normalised(
        state.history[device], active, params.window, created if over_all else None
    )
    gone = scoring.dropped(scores, params.delete_rule, created) if delete else []
    _forget(state, device, gone)
    rng = streams.generator(fed.spec.seed, "score", *stream)
    if over_all:
        scores = scoring.noisy_as_run(scores, gone, created, params.score_noise_sd, rng)
    else:
        scores = {m: c for m, c in scores.items() if m not in gone}
        scores = scoring.noisy(scores, params.score_noise_sd, rng)
        total = sum(scores.values())
        scores = {m: c / total for m, c in scores.items()}
    state.scores[device] = scores


def _finalise(params: Params, state: State, device: int, t: int) -> None:
    """From the final round on, leave a device the better of its last two models."""
    if params.final_round is None or t < params.final_round:
        return
    loser = scoring.loser_of_two(state.scores[device], params.final_rule, params.final_threshold)
    if loser is not None:
        _forget(state, device, [loser])
        state.scores[device] = dict.fromkeys(state.scores[device], 1.0)


def _forget(state: State, device: int, models: Iterable[int]) -> None:
    """Delete models from a device, for ever; what it knew of their accuracy stays."""
    for m in models:
        state.scores[device].pop(m, None)
        for kept in (state.moments, state.kicks):
            kept[device].pop(m, None)


def _bury(state: State) -> None:
    """Drop the models that no device has any more; they keep their index."""
    alive = {m for scores in state.scores for m in scores}
    state.models = [model if m in alive else None for m, model in enumerate(state.models)]


def _clone_all(fed: Federation, state: State, t: int) -> Steps:
    """Clone model m as model M + m, on the devices that have m; M doubles."""
    params = fed.params(Params)
    count = len(state.models)
    for m in range(count):
        state.models.append(state.models[m])
        state.averaged.append(0)
        if params.scoring == "code":
            for i in range(len(state.scores)):
                _clone_as_run(fed, state, t, i, m, m + count)
    if params.scoring == "paper":
        for i in range(len(state.scores)):
            _clone_as_written(fed, state, t, i, count)
    _bury(state)
    if params.quantise_clones and params.quantise_bits is not None:
        yield from _quantise(fed, state, t, range(count, 2 * count))


def _clone_as_written(fed: Federation, state: State, t: int, device: int, count: int) -> None:
    """Give a device a clone of each of its models, then score all anew."""
    params, scores = fed.params(Params), state.scores[device]
    if params.clone_score == "score":
        born = {count + m: 1 - c for m, c in scores.items() if 0 < c < 1}
        total = sum(scores.values()) + sum(born.values())
        for m in born:
            _bear(state, device, m, m - count, [])
        state.scores[device] = {m: c / total for m, c in (scores | born).items()}
        return
    for m in list(scores):
        _bear(state, device, count + m, m, [1 - state.history[device][m][-1]])
    _refresh(fed, state, device, (t, device, "clone"), delete=False)


def _clone_as_run(
    fed: Federation, state: State, t: int, device: int, parent: int, clone: int
) -> None:
    """Give a device the clone if it has the parent, and score it anew.

    Where it has lost the parent, it also deletes; and the last round's rule for the last two models
    holds after each clone.
    """
    has_parent = parent in state.scores[device]
    if has_parent:
        _bear(state, device, clone, parent, [1 - state.history[device][parent][-1]])
    _refresh(fed, state, device, (t, device, "clone", clone), delete=not has_parent)
    _finalise(fed.params(Params), state, device, t - 1)


def _bear(state: State, device: int, clone: int, parent: int, history: list[float]) -> None:
    """Give a device a clone of one of its models, with score 0 until it is scored."""
    state.scores[device][clone] = 0.0
    state.history[device][clone] = history
    state.epochs[device][clone] = 0
    state.offsets[device][clone] = state.epochs[device][parent]


def _quantise(fed: Federation, state: State, t: int, models: Iterable[int]) -> Steps:
    """Quantise models at the server: lanes that train for no epoch."""
    alive = [m for m in models if state.models[m] is not None]
    lanes = [Lane(_alive(state, m), fed.clients[0], ("clone", m)) for m in alive]
    objective = Objective(quantise_bits=fed.params(Params).quantise_bits)
    if lanes:
        done: list[Trained] = yield Train(lanes, t, epochs=0, objective=objective)
        for m, result in zip(alive, done, strict=True):
            state.models[m] = result.weights


def _ask(fed: Federation, state: State, name: str, pairs: Sequence[Held]) -> Steps:
    """Ask each model once about the images of all devices that are paired with it.

    Yields:
        One :class:`Predict`.

    Returns:
        Pair -> how many images of the device's set ``name`` the model gets right; and the mean loss
        over all answers.
    """
    node_set = fed.partition.node_sets[name]
    groups: dict[Held, list[int]] = {}
    for i, m in pairs:
        own = m in state.kicks[i]  # the device's copy is not the server's
        groups.setdefault((i if own else -1, m), []).append(i)
    models = [_held(fed, state, (devices[0], m)) for (_, m), devices in groups.items()]
    shown = [
        np.unique(np.concatenate([node_set.parts[i] for i in devices]))
        for devices in groups.values()
    ]
    answers: list[Prediction] = yield Predict(models, node_set.split, shown)
    right: dict[Held, int] = {}
    loss, asked = 0.0, 0
    for ((_, m), devices), examples, answer in zip(groups.items(), shown, answers, strict=True):
        for i in devices:
            places = np.searchsorted(examples, node_set.parts[i])
            right[i, m] = int(answer.correct[places].sum())
        loss, asked = loss + len(examples) * answer.loss, asked + len(examples)
    return right, loss / asked


def _remember(state: State) -> None:
    """Log the round: every device's models as bits, the one it prefers, and the scores."""
    log = state.log
    log["active"].append([sum(1 << m for m in scores) for scores in state.scores])
    log["preferred"].append([scoring.best(scores) for scores in state.scores])
    log["scores"].append(
        [[int(np.rint(SCORE_UNIT * scores[m])) for m in sorted(scores)] for scores in state.scores]
    )


def evaluate(fed: Federation, state: State) -> Steps:
    """Test every device's highest-scoring model on the device's own test images (section 2).

    Yields:
        One :class:`Predict`, with each model that some device prefers.

    Returns:
        ``accuracy`` (fraction), the unweighted mean over the devices; ``loss``, the mean over the
        distinct images that each model was asked about.
    """
    pairs = [(i, scoring.best(scores)) for i, scores in enumerate(state.scores)]
    right, loss = yield from _ask(fed, state, "test", pairs)
    sizes = [len(part) for part in fed.partition.node_sets["test"].parts]
    correct = [right[pair] for pair in pairs]
    state.log["correct"].append(correct)
    return {"accuracy": float(np.mean(np.array(correct) / sizes)), "loss": loss}


def summary(fed: Federation, state: State) -> dict[str, Any]:
    """Return the log of the run.

    Returns:
        ``tested``, test images of each device; ``correct``, right answers [evaluations][devices];
        and with milestones, [rounds][devices] each: ``active`` (bit m is set if the device has
        model m), ``preferred`` (the model with the highest score) and ``scores`` (in thousandths,
        of the active models in ascending order).
    """
    tested = [len(part) for part in fed.partition.node_sets["test"].parts]
    return {"tested": tested} | {name: entries for name, entries in state.log.items() if entries}


_LATE_MODELS = 2.1
"""Models that a device has after the first milestone, on average."""


def _models_a_device(spec: RunSpec) -> float:
    """Return how many models a device trains, mean over the rounds."""
    late = spec.rounds - min([*params_of(spec, Params).milestones, spec.rounds])
    return 1 + (_LATE_MODELS - 1) * late / spec.rounds


ALGORITHM = Algorithm(
    Params,
    init,
    round,
    evaluate,
    summary=summary,
    example={"name": "fedcd", "participants": 5, "milestones": [0]},
    cost=Cost(factor=_models_a_device),
)
