"""The stacked backend: lanes of all runs in flight that fit together are trained as one.

Small dense networks on a CPU go to :mod:`fedrepro.engine.dense`, everything else to
:mod:`fedrepro.engine.vmapped`, which a GPU replays as a CUDA graph. How many lanes a stack holds
follows from an estimate of the bytes a lane takes; if memory runs out all the same, the stack is
halved and training goes on.

Measured on one core, time of a client's step with the MNIST network relative to a plain loop, at
batches of 100 and 10, full width and an eighth of it (benchmarks/mechanisms.py): loop with kernels
stored channels last 0.6 to 0.9, vmap 1.0 to 1.6, grouped convolutions 0.9 to 1.5, convolutions one
by one with batched dense layers 0.8 to 1.5, im2col and batched products 1.0 to 4.4. So on a CPU
such networks are not stacked (:mod:`fedrepro.engine.pool`), and vmap, the one way that needs no
second description of each network, is kept for GPUs, where a graph takes its overhead away; there
nothing has been measured yet.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Hashable, Sequence

import torch
from torch.nn import functional

from fedrepro.engine import dense, lane, memory, vmapped
from fedrepro.engine.data import DeviceData
from fedrepro.engine.jobs import (
    Answer,
    Ask,
    LaneError,
    LaneJob,
    check_precision,
    data_key,
    is_out_of_memory,
    result_of,
    share,
    too_large,
)
from fedrepro.engine.network import FlatModule
from fedrepro.engine.resources import Resources, precision
from fedrepro.requests import Predict, Prediction, Train, Trained, Weights
from fedrepro.spec import RunSpec

_LANES = {"cpu": dense.MOST_STACKED, "cuda": 128}
_KEPT_STACKS = 8


class StackedBackend:
    """Trains the lanes of many runs as stacks on one device.

    Args:
        device: a PyTorch device name.
        memory_limit: bytes that a stack may take; None: a share of what is free.
    """

    name = "stacked"

    def __init__(self, device: str = "cpu", memory_limit: int | None = None) -> None:
        self.device = torch.device(device)
        self.cores = int(self.device.type == "cpu")
        self._lanes = _LANES[self.device.type]
        self._limit = memory_limit
        self._resources = Resources(self.device)
        self._open: list[tuple[int, Ask]] = []
        self._most: dict[Hashable, int] = {}
        self._stacks: dict[Hashable, vmapped.Stack] = {}

    def check(self, spec: RunSpec) -> None:
        """Refuse a precision that the device does not have."""
        check_precision(spec, self.device.type)

    def load(self, ask: Ask) -> float:
        """Return the share of a full stack."""
        return ask.lanes / self._lanes

    def submit(self, ticket: int, ask: Ask) -> None:
        """Take a request."""
        self._resources.add_dataset(ask.dataset)
        self._open.append((ticket, ask))

    def collect(self, deadline: float = math.inf) -> list[Answer]:
        """Answer all open requests, lanes and models of different runs together."""
        started = time.perf_counter()
        opened, self._open = self._open, []
        asks = [ask for _, ask in opened]
        found: list[dict[int, Trained | Prediction | LaneError]] = [{} for _ in asks]
        lanes: dict[Hashable, list[tuple[int, int, LaneJob]]] = defaultdict(list)
        models: dict[Hashable, list[tuple[int, int, Ask]]] = defaultdict(list)
        for a, ask in enumerate(asks):
            request = ask.request
            if isinstance(request, Train):
                for i, one in enumerate(request.lanes):
                    job = LaneJob(ask.spec, request, one)
                    lanes[job.key].append((a, i, job))
            else:
                spec, examples = ask.spec, _content(request)
                key = (data_key(spec), spec.model, spec.precision, request.split, examples)
                models[key] += [(a, i, ask) for i in range(len(request.models))]
        for members in lanes.values():
            trained = self._train([job for _, _, job in members], deadline)
            for (a, i, _), result in zip(members, trained, strict=True):
                found[a][i] = result
        for asked in models.values():
            predictions = self._predict([(ask, i) for _, i, ask in asked])
            for (a, i, _), prediction in zip(asked, predictions, strict=True):
                found[a][i] = prediction
        seconds = share(time.perf_counter() - started, asks)
        return [
            Answer(ticket, result_of([results[i] for i in range(ask.lanes)]), spent)
            for (ticket, ask), results, spent in zip(opened, found, seconds, strict=True)
        ]

    def close(self) -> None:
        """Free the stacks."""
        self._stacks.clear()

    def _train(self, jobs: Sequence[LaneJob], deadline: float) -> list[Trained | LaneError]:
        """Train lanes of one key, as many at a time as memory allows."""
        spec = jobs[0].spec
        net, data = self._resources.network(spec), self._resources.data(spec)
        # Lanes of like lengths together: a stack goes on until its longest lane is done.
        order = sorted(range(len(jobs)), key=lambda i: -jobs[i].epochs * len(jobs[i].lane.examples))
        most = self._most_lanes(net, data, jobs[0])
        results: dict[int, Trained | LaneError] = {}
        with precision(spec):
            while order:
                chosen = order[:most]
                try:
                    trained = self._train_stack(net, data, [jobs[i] for i in chosen], deadline)
                except RuntimeError as error:
                    if not is_out_of_memory(error):
                        raise
                    self._free()
                    if len(chosen) > 1:
                        most = self._most[jobs[0].key] = len(chosen) // 2
                        continue
                    trained = [too_large(jobs[chosen[0]])]
                results |= zip(chosen, trained, strict=True)
                order = order[len(chosen) :]
        return [results[i] for i in range(len(jobs))]

    def _train_stack(
        self, net: FlatModule, data: DeviceData, jobs: Sequence[LaneJob], deadline: float
    ) -> list[Trained | LaneError]:
        if self.device.type == "cpu" and dense.can_stack(net, jobs[0]):
            return dense.train_stack(net, data, jobs, deadline)
        # Sizes are rounded up so that few different graphs serve requests of many sizes.
        lanes = _rounded_up(len(jobs))
        steps = _rounded_up(max(1, *(job.epochs * len(job.sizes) for job in jobs)))
        key = (jobs[0].key, lanes, steps)
        if key not in self._stacks:
            while len(self._stacks) >= _KEPT_STACKS:
                self._stacks.pop(next(iter(self._stacks)))
            self._stacks[key] = vmapped.Stack(net, data, jobs[0], lanes, steps)
        return self._stacks[key].train(jobs, deadline)

    def _most_lanes(self, net: FlatModule, data: DeviceData, job: LaneJob) -> int:
        key = job.key
        if key not in self._most:
            limit = self._limit or memory.available(self.device)
            size = memory.lane_bytes(net, data.shape, job.spec, job.request.objective, job.batch)
            self._most[key] = max(1, min(self._lanes, limit // size))
        return self._most[key]

    def _free(self) -> None:
        self._stacks.clear()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    @torch.no_grad()
    def _predict(self, asked: Sequence[tuple[Ask, int]]) -> list[Prediction]:
        """Ask models about the same examples; on a GPU all at once."""
        spec, request = asked[0][0].spec, asked[0][0].request
        assert isinstance(request, Predict)
        net, data = self._resources.network(spec), self._resources.data(spec)
        weights = [_models(ask)[i] for ask, i in asked]
        with precision(spec):
            if self.device.type == "cpu":
                return [lane.predict(net, data, request, model) for model in weights]
            return self._predict_stacked(net, data, request, weights)

    def _predict_stacked(
        self, net: FlatModule, data: DeviceData, request: Predict, weights: Sequence[Weights]
    ) -> list[Prediction]:
        net.module.eval()
        logits_of = vmapped.predictor(net)
        everything = lane.positions(request, data)
        per_model = memory.activation_bytes(net.module, data.shape) * lane.PREDICT_BATCH
        together = max(1, (self._limit or memory.available(self.device)) // (2 * per_model))
        predictions: list[Prediction] = []
        for first in range(0, len(weights), together):
            stack = torch.stack([w.to(self.device) for w in weights[first : first + together]])
            classes, correct = [], []
            loss = torch.zeros(len(stack), device=self.device)
            for examples in torch.split(everything, lane.PREDICT_BATCH):
                images, labels = data.batch(request.split, examples)
                logits = logits_of(stack, images)
                repeated = labels.expand(len(stack), -1)
                each = functional.cross_entropy(
                    logits.flatten(0, 1), repeated.flatten(), reduction="none"
                )
                loss += each.view(repeated.shape).sum(1)
                classes.append(logits.argmax(dim=2))
                correct.append(classes[-1] == repeated)
            all_classes, all_correct = torch.cat(classes, 1).cpu(), torch.cat(correct, 1).cpu()
            predictions += [
                Prediction(all_classes[m].numpy(), all_correct[m].numpy(), total / len(everything))
                for m, total in enumerate(loss.tolist())
            ]
        return predictions


def _models(ask: Ask) -> Sequence[Weights]:
    assert isinstance(ask.request, Predict)
    return ask.request.models


def _content(request: Predict) -> bytes | None:
    """Return what tells the examples of two predictions apart."""
    return None if request.examples is None else request.examples.tobytes()


def _rounded_up(count: int) -> int:
    """Return the next of 1, 2, 3, 4, 6, 8, 12, 16, ..."""
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if power >= 4 and count <= power * 3 // 4 else power
