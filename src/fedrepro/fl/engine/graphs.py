"""Lane graphs: every lane in a network of its own, its step replayed beside those of the others.

A **slot** is a network with all that a lane's training changes, in buffers that stay where they are
(:class:`fedrepro.fl.engine.lane.Training` with ``fixed``). Its step is the step of the plain loop.
The first step of a size is taken as it is, and lets the libraries choose their kernels; the second
is captured as a CUDA graph of that slot, which is replayed from then on. Slots share a few streams,
so their kernels run side by side on the GPU, and no lane knows its neighbours. A lane that is done
leaves its slot to the next one of the same key, of whatever run and request; a smaller last batch
is a graph of its own; predictions are slots too, and run beside the training of other runs.

On a CPU the same code takes the steps one by one (:mod:`.places`), with the bits of
the loop. That is for tests; a CPU is kept busy by :mod:`fedrepro.fl.engine.pool`.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import torch

from fedrepro.base.errors import FedreproError
from fedrepro.fl import cost
from fedrepro.fl.engine import CompileChoice, lane, memory
from fedrepro.fl.engine import objective as objectives
from fedrepro.fl.engine.compiling import CompiledLosses, compiler_problem
from fedrepro.fl.engine.data import DeviceData
from fedrepro.fl.engine.device import (
    deterministic_operations,
    has_failed,
    never_free,
    precision,
    subnormals_flushed,
)
from fedrepro.fl.engine.jobs import (
    Answer,
    Ask,
    LaneError,
    LaneJob,
    OpenRequests,
    OutOfTime,
    PredictJob,
    check_time,
    is_out_of_memory,
    too_large,
    unexpected,
)
from fedrepro.fl.engine.lane import Predicting, Training
from fedrepro.fl.engine.network import FlatModule
from fedrepro.fl.engine.places import STREAMS, CudaPlace, HostPlace, Place
from fedrepro.fl.engine.resources import Resources
from fedrepro.fl.engine.slot import Kind, Piece, Slot
from fedrepro.fl.requests import Prediction, Trained
from fedrepro.fl.spec import RunSpec

MOST_SLOTS = 256
_MOST_PREDICTING = 8  # slots for predictions of one kind: a batch of 1,000 fills much of a GPU
_STALE = 10.0  # seconds after which slots that nothing is in make room for others
_SHARE_FOR_INPUTS = 0.1  # of the memory, for the network inputs of one split, computed once
_WORTH_COMPILING = 120.0  # seconds of work ahead; compiling takes 11 to 26, and saves a third
_FLOP_PER_SECOND = 15e12  # assumed of lane graphs on a large GPU, where nothing else is known
_PAUSE = 1e-4  # seconds between two looks at a GPU that has enough to do


class GraphsBackend:
    """Trains and predicts in slots on one device.

    Args:
        device: a PyTorch device name.
        compile: whether ``torch.compile`` makes the loss of full batches; ``auto``: on a GPU, if
            the work ahead pays for the time it takes.
        deterministic: use, on a GPU, only operations that give the same bits each time.
        memory_limit: bytes that examples and slots may take; None: a share of what is free.
    """

    name = "graphs"

    def __init__(
        self,
        device: str = "cpu",
        *,
        compile: CompileChoice = "off",
        deterministic: bool = False,
        memory_limit: int | None = None,
    ) -> None:
        self.device = torch.device(device)
        self.cores = int(self.device.type == "cpu")
        self.deterministic = deterministic
        self._compile = compile
        self._memory = memory_limit or memory.available(self.device)
        self._resources = Resources(self.device)
        self._open = OpenRequests()
        self._kinds: dict[Hashable, Kind] = {}
        self._most_slots = MOST_SLOTS
        self._places: list[Place] = []
        self._made = 0
        self._clock, self._looked = 0.0, time.perf_counter()
        if deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

    @property
    def compiles(self) -> bool:
        """Whether anything is compiled."""
        found = [kind.compiled for kind in self._kinds.values()]
        return any(compiled is not None and not compiled.failed for compiled in found)

    @property
    def _limit(self) -> int:
        """Bytes that the slots may take: what the examples leave."""
        return max(self._memory - self._resources.bytes, 1)

    def load(self, ask: Ask) -> float:
        """Return the larger share, of memory or of all slots, that the request's lanes take."""
        self._resources.add_dataset(ask.dataset)
        if not ask.jobs:
            return 0.0
        size = self._kind(ask.jobs[0]).size
        return max(ask.lanes / MOST_SLOTS, ask.lanes * size / self._limit)

    def submit(self, ticket: int, ask: Ask) -> None:
        """Take a request and divide it into lanes or models."""
        self._resources.add_dataset(ask.dataset)
        self._prepare(ask)
        jobs: Sequence[LaneJob | PredictJob] = ask.jobs or ask.predict_jobs
        kinds = [self._kind(job) for job in jobs]  # which may fail, before anything is open
        self._open.add(ticket, ask)
        for number, (kind, job) in enumerate(zip(kinds, jobs, strict=True)):
            kind.waiting.append(Piece(ticket, number, job))

    def _prepare(self, ask: Ask) -> None:
        """Compute the network inputs of the splits once, where there is room for them."""
        data = self._data(ask.spec)
        for split in ("train", "test"):
            if split == "test" or not data.augments:
                with contextlib.suppress(torch.OutOfMemoryError):
                    data.prepare(split, int(self._memory * _SHARE_FOR_INPUTS))

    def _data(self, spec: RunSpec) -> DeviceData:
        """Return a run's examples on the device; short of memory, idle slots make room for them."""
        try:
            return self._resources.data(spec)
        except torch.OutOfMemoryError:
            if not self._free_idle():
                raise
        return self._resources.data(spec)

    def _kind(self, job: LaneJob | PredictJob) -> Kind:
        key = job.key
        if key not in self._kinds:
            self._kinds[key] = (
                Kind(self._slot_bytes(job), MOST_SLOTS)
                if isinstance(job, LaneJob)
                else Kind(self._prediction_bytes(job.spec), _MOST_PREDICTING)
            )
        return self._kinds[key]

    def _slot_bytes(self, job: LaneJob) -> int:
        data, objective = self._data(job.spec), job.request.objective
        module = self._resources.blueprint(job.spec)
        return memory.lane_bytes(module, data.shape, job.spec, objective, job.batch)

    def _prediction_bytes(self, spec: RunSpec) -> int:
        module, data = self._resources.blueprint(spec), self._resources.data(spec)
        return memory.prediction_bytes(module, data.shape, lane.PREDICT_BATCH)

    @subnormals_flushed()
    def collect(self, deadline: float = math.inf) -> list[Answer]:
        """Keep the device busy until at least one request is answered; return all answers.

        Args:
            deadline: when to stop, in seconds of ``time.monotonic()``.

        Raises:
            OutOfTime: the deadline came first.
            FedreproError: networks must be compiled, and one cannot be.
        """
        while self._open:
            answers = self._open.answers()
            if answers:
                return answers
            self._start_waiting()
            ready = [slot for slot in self._busy() if slot.has_room]
            for slot in ready:
                check_time(deadline)
                self._attempt(slot, slot.advance)
            self._tick()
            done = [slot for slot in self._busy() if slot.done]
            for slot in done:
                self._finish(slot)
            if not (ready or done):
                check_time(deadline)
                time.sleep(_PAUSE)
        return []

    def give_way(self) -> bool:
        """Free idle slots, and use half as much memory from now on, unless there was but one."""
        sizes = [kind.size for kind in self._kinds.values() for _ in kind.slots]
        if len(sizes) < 2:
            return False
        self._memory = min(self._memory, self._resources.bytes + sum(sizes) // 2)
        self._free_idle()
        return True

    def close(self) -> None:
        """Free slots and examples; the slots of a lost device are left as they are."""
        if self.device.type == "cuda":
            try:
                torch.cuda.synchronize(self.device)
            except RuntimeError:
                never_free(self._open, self._kinds, self._places)
                self._open, self._kinds, self._places = OpenRequests(), {}, []
                return
        self._open = OpenRequests()
        for kind in self._kinds.values():
            kind.slots.clear()  # slots know their kind: only the garbage collector frees a cycle
        self._kinds.clear()
        self._places.clear()
        self._resources = Resources(self.device)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _busy(self) -> list[Slot]:
        slots = [slot for kind in self._kinds.values() for slot in kind.slots]
        return [slot for slot in slots if slot.piece is not None]

    def _tick(self) -> None:
        """Share out the time since the last tick over the busy slots."""
        now = time.perf_counter()
        busy = len(self._busy())
        if busy:
            self._clock += (now - self._looked) / busy
        self._looked = now

    def _finish(self, slot: Slot) -> None:
        piece = slot.piece
        assert piece is not None
        result = self._attempt(slot, slot.result)
        if result is not None:
            self._settle(piece, result)
        for kind in self._kinds.values():
            kind.pauses = False

    def _settle(self, piece: Piece, result: Trained | Prediction | LaneError) -> None:
        self._open.settle(piece.ticket, piece.number, result, self._clock - piece.since)

    def _attempt(self, slot: Slot, act: Callable[[], Any]) -> Any:
        """Do something with a slot; if that fails, its piece is settled, or tried again."""
        piece = slot.piece
        assert piece is not None
        try:
            with self._kernels(piece):
                return act()
        except LaneError as error:
            slot.leave()
            self._settle(piece, error)
        except (FedreproError, OutOfTime):
            raise
        except Exception as error:
            if has_failed(self.device, error):
                raise  # no lane is to blame
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)  # nothing may still use what is freed here
            slot.leave()
            self._kind(piece.job).slots.remove(slot)
            self._fail(piece, error)
        return None

    def _fail(self, piece: Piece, error: Exception) -> None:
        """Settle a piece over which something failed, or try it again if memory ran out."""
        if is_out_of_memory(error):
            self._do_with_less(piece, error)
        else:
            self._settle(piece, unexpected(error))

    def _do_with_less(self, piece: Piece, error: Exception) -> None:
        """Try a piece again, with fewer slots of its kind, unless it had all the memory."""
        kind = self._kind(piece.job)
        freed, busy = self._free_idle(), bool(self._busy())
        if not (freed or busy):
            self._settle(piece, too_large(piece.job.name, error))
            return
        kind.most = max(1, len(kind.slots))
        kind.pauses = busy
        kind.waiting.appendleft(piece)

    def _free_idle(self) -> bool:
        """Give the device the memory of slots that nothing is in; return whether there were any."""
        freed = self._drop_idle()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return freed

    def _drop_idle(self, since: float = 0.0) -> bool:
        """Free the slots that nothing is in; return whether there were any.

        Args:
            since: seconds for which no piece was put into a slot of their kind.
        """
        before = sum(len(kind.slots) for kind in self._kinds.values())
        now = time.monotonic()
        for kind in self._kinds.values():
            if now - kind.used >= since:
                kind.slots = [slot for slot in kind.slots if slot.piece is not None]
        freed = sum(len(kind.slots) for kind in self._kinds.values()) < before
        if freed:
            for kind in self._kinds.values():
                kind.most = kind.bound  # there is more memory than when it was found out
        return freed

    def _start_waiting(self) -> None:
        """Put waiting pieces into idle slots, and into new ones while there is memory."""
        if not self._busy():  # nothing will end that a kind could wait for
            for kind in self._kinds.values():
                kind.pauses = False
        for kind in self._kinds.values():
            while kind.waiting and not kind.pauses:
                kind.slots = [slot for slot in kind.slots if slot.piece or not slot.is_outdated]
                idle = [slot for slot in kind.slots if slot.piece is None]
                if not (idle or self._has_room(kind)):
                    break
                self._tick()
                piece = kind.waiting.popleft()
                piece.since, kind.used = self._clock, time.monotonic()
                slot = idle[0] if idle else self._new_slot(kind, piece)
                if slot is None:
                    continue
                slot.piece = piece
                self._attempt(slot, slot.begin)
                if slot.piece is not None:  # busy while the next one begins
                    self._attempt(slot, slot.advance)

    def _has_room(self, kind: Kind) -> bool:
        """Return whether another slot fits; where nothing runs, one may always be tried."""

        def fits() -> bool:
            kinds = [other for other in self._kinds.values() for _ in other.slots]
            taken = sum(other.size for other in kinds)
            return len(kinds) < self._most_slots and taken + kind.size <= self._limit

        if len(kind.slots) >= kind.most:
            return False
        if fits():
            return True
        if kind.slots:  # one of them will be free: others make room only if they are out of use
            return self._drop_idle(_STALE) and fits()
        self._drop_idle()
        return fits() or not self._busy()

    def _new_slot(self, kind: Kind, piece: Piece) -> Slot | None:
        """Make a slot that suits a piece; there is none where that fails, for memory or else."""
        try:
            with self._kernels(piece):
                search = self.device.type == "cuda" and not self.deterministic
                slot = Slot(self._work(kind, piece), self._next_place(), kind, search=search)
        except FedreproError:
            raise
        except Exception as error:
            if has_failed(self.device, error):
                raise  # no lane is to blame
            self._fail(piece, error)
            return None
        kind.slots.append(slot)
        return slot

    def _next_place(self) -> Place:
        if self.device.type == "cpu":
            return HostPlace()
        self._made += 1
        if len(self._places) < STREAMS:
            self._places.append(CudaPlace(self.device))
        return self._places[(self._made - 1) % STREAMS]

    def _work(self, kind: Kind, piece: Piece) -> Training | Predicting:
        job, spec = piece.job, piece.job.spec
        data = self._resources.data(spec)
        if isinstance(job, PredictJob):
            # Networks that train in bfloat16 predict in float32, which likes channels first.
            net = self._network(spec, channels_last=spec.precision == "tf32")
            return Predicting(net, data, job.split, fixed=True)
        if kind.compiled is None and self._pays_to_compile(job):
            kind.compiled = CompiledLosses(job.spec, required=self._compile == "on")
        last = spec.precision != "float32"
        distils = objectives.needs_teacher(job.request.objective)
        teacher = self._network(spec, channels_last=last) if distils else None
        net = self._network(spec, channels_last=last)
        return Training(net, teacher, data, job, fixed=True, compiled=kind.compiled)

    def _network(self, spec: RunSpec, *, channels_last: bool) -> FlatModule:
        """Make a network; on a GPU, TF32 and bfloat16 are faster with channels last."""
        on_gpu = self.device.type == "cuda"
        return self._resources.build(spec, channels_last=on_gpu and channels_last)

    def _pays_to_compile(self, job: LaneJob) -> bool:
        """Return whether full batches of a key are to be compiled; asked with each slot of it."""
        if self._compile != "auto":
            return self._compile == "on"
        if self.deterministic:  # the compiler chooses by timing
            return False
        if self.device.type == "cpu" or compiler_problem() is not None:
            return False
        examples = 0.0
        for ask in self._open.asks():
            if ask.jobs and ask.jobs[0].key == job.key:
                examples += (ask.spec.rounds - ask.jobs[0].request.round) * ask.passes / 3
        return examples * cost.flop(job.spec) / _FLOP_PER_SECOND > _WORTH_COMPILING

    @contextlib.contextmanager
    def _kernels(self, piece: Piece) -> Iterator[None]:
        """Set how kernels are chosen; a slot lets cuDNN search where it is worth it.

        Training alone looks for operations that are not deterministic: a network that trains
        without them predicts without them.
        """
        strict = self.deterministic and isinstance(piece.job, LaneJob)
        cudnn = torch.backends.cudnn
        before = cudnn.benchmark, cudnn.deterministic
        cudnn.benchmark, cudnn.deterministic = False, self.deterministic
        try:
            with (
                precision(piece.job.spec),
                deterministic_operations() if strict else contextlib.nullcontext(),
            ):
                yield
        finally:
            cudnn.benchmark, cudnn.deterministic = before
