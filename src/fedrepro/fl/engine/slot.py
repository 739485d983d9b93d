"""A slot of lane graphs: a network in buffers that stay, and the lane or model that is in it."""

from __future__ import annotations

import functools
import warnings
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from fedrepro.fl.engine.compiling import CompiledLosses
from fedrepro.fl.engine.jobs import LaneJob, PredictJob, is_out_of_memory
from fedrepro.fl.engine.lane import Ended, Predicted, Predicting, Training
from fedrepro.fl.engine.places import Place, Step
from fedrepro.fl.requests import Prediction, Trained
from fedrepro.fl.spec import run_id

_MOST_GRAPHS = 16  # of a slot; full batches have one in any case
_OFTEN = 4  # steps of another size before it is captured: capturing one takes as long as many steps


@dataclass(eq=False)
class Piece:
    """One lane, or one model to ask, of an open request."""

    ticket: int
    number: int
    job: LaneJob | PredictJob
    since: float = 0.0


@dataclass
class Kind:
    """What slots of one key have in common.

    Attributes:
        size: bytes of a slot, estimated.
        bound: slots that it may have.
        most: slots that it may have now: fewer than the bound where memory ran out.
        used: when a piece was last put into a slot, in seconds of ``time.monotonic()``.
        captured: whether steps are captured.
        pauses: whether, short of memory, no piece begins until another one has ended.
        compiled: a faster loss, or None.
    """

    size: int
    bound: int
    most: int = field(init=False)
    used: float = 0.0
    captured: bool = True
    pauses: bool = False
    compiled: CompiledLosses | None = None
    slots: list[Slot] = field(default_factory=list)
    waiting: deque[Piece] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.most = self.bound


class Slot:
    """Buffers, the graphs that read and write them, and the lane or model that is in them."""

    def __init__(
        self, work: Training | Predicting, place: Place, kind: Kind, *, search: bool
    ) -> None:
        """Keep the parts; ``search`` lets cuDNN look for the fastest kernels of full batches."""
        self.work, self._place, self._kind, self._search = work, place, kind, search
        self._compiled = kind.compiled
        self.piece: Piece | None = None
        self._left: deque[int] = deque()
        self._marks: deque[Callable[[], bool]] = deque()
        self._taken: Counter[int] = Counter()
        self._replays: dict[int, Step] = {}
        self._ended: Ended | Predicted | None = None
        self._scalars: torch.Tensor | None = None

    def begin(self) -> None:
        """Load the piece that was put into it.

        Raises:
            LaneError: the lane cannot be trained.
        """
        assert self.piece is not None
        job = self.piece.job
        self._marks.clear()
        with self._place.using():
            if isinstance(self.work, Training):
                assert isinstance(job, LaneJob)
                one = job.lane
                moments = (one.optimizer_state or {}).values()
                tensors = [value for value in moments if isinstance(value, torch.Tensor)]
                self._place.take_over(one.weights, one.linear, *tensors)
                moved = self.work.load(job)
            else:
                assert isinstance(job, PredictJob)
                self._place.take_over(job.weights)
                moved = self.work.load(job)
        if moved:
            self._replays.clear()
        self._left.extend(self.work.sizes)

    @property
    def is_outdated(self) -> bool:
        """Whether it was made before the kind's loss was compiled."""
        return self._compiled is not self._kind.compiled

    @property
    def has_room(self) -> bool:
        """Whether another group of steps can be handed over."""
        while self._marks and self._marks[0]():
            self._marks.popleft()
        return self._ended is None and len(self._marks) < self._place.ahead

    def advance(self) -> None:
        """Hand over a group of steps."""
        with self._place.using():
            for _ in range(min(self._place.group, len(self._left))):
                self._step(self._left.popleft())
            if not self._left:
                self._end()
            self._marks.append(self._place.mark())

    def _step(self, size: int) -> None:
        replay = self._replays.get(size)
        if replay is not None:
            replay()
            return
        capturing = self._is_to_be_captured(size)
        # Searching takes a while: not for the last batches, of which there may be many sizes. What
        # was found is taken in a capture, too, where searching again, short of memory, is illegal.
        search = self._search and size == self.work.batch and not capturing
        torch.backends.cudnn.benchmark = search
        if capturing:
            self._capture(size)
        else:
            self.work.step(size)
            self._taken[size] += 1

    def _is_to_be_captured(self, size: int) -> bool:
        """Return whether a step was taken often enough: a compiler may look at the first two."""
        often = 1 if self._compiled is None else 2
        if size != self.work.batch:
            often = _OFTEN
        room = len(self._replays) < _MOST_GRAPHS or size == self.work.batch
        return self._kind.captured and self._taken[size] >= often and room

    def _capture(self, size: int) -> None:
        """Capture the step and replay it, or take it as it is, from now on, if that fails."""
        try:
            replay = self._place.capture(functools.partial(self.work.step, size))
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            self._kind.captured = False
            warnings.warn(self._not_captured(size, error), stacklevel=2)
            self.work.step(size)
        else:
            self._replays[size] = replay
            replay()

    def _not_captured(self, size: int, error: RuntimeError) -> str:
        assert self.piece is not None
        what = "its step"
        if isinstance(self.work, Training):
            for field, stage in self.work.stages(size):
                try:
                    self._place.capture(stage)
                except Exception:
                    plain = self.piece.job.spec.model_dump(mode="json", exclude_defaults=True)
                    what = f"spec field {field} = {plain.get(field)}"
                    break
        return (
            f"run {run_id(self.piece.job.spec)}, {self.piece.job.name}, takes its steps without a "
            f"CUDA graph, several times slower: {what} cannot be captured "
            f"({str(error).splitlines()[0]})"
        )

    def _end(self) -> None:
        self._ended = self.work.end()
        if isinstance(self._ended, Ended):
            state = (self._ended.state or {}).values()
            tensors = [value for value in state if isinstance(value, torch.Tensor)]
            self._place.hand_over(self._ended.weights, *tensors)
            self._scalars = self._place.fetch(self._ended.scalars)
        else:
            fetch, found = self._place.fetch, self._ended
            self._ended = Predicted(fetch(found.classes), fetch(found.correct), fetch(found.loss))

    @property
    def done(self) -> bool:
        """Whether the piece's last step has been taken and its result has arrived."""
        return self._ended is not None and all(mark() for mark in self._marks)

    def result(self) -> Trained | Prediction:
        """Return the result and leave the slot.

        Raises:
            LaneError: loss or weights are no longer finite.
        """
        ended, scalars = self._ended, self._scalars
        self.leave()
        if isinstance(self.work, Training):
            assert isinstance(ended, Ended)
            assert scalars is not None
            return self.work.result(ended, scalars.tolist())
        assert isinstance(ended, Predicted)
        return self.work.result(ended)

    def leave(self) -> None:
        """Be idle, and hold nothing of the piece."""
        self.piece = self._ended = self._scalars = None
        self._left.clear()
