"""Stacked training of any network: ``torch.func.vmap`` over lanes, static shapes, CUDA graphs.

A step of the stack is one function of buffers that stay where they are: it takes the next batch of
every lane by index, augments it, computes all gradients, and updates all lanes. Nothing in it waits
for the host, so on a GPU it is captured once and replayed for every step of the request, the step
number included. Lanes that have a smaller batch, or are done, are masked: padded examples have no
part in losses, gradients and batch statistics, and a step without examples changes nothing. A batch
is padded with its own first example: what is not a number stays one under any mask, and must not
come from an example that the lane does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from fedrepro import device_streams
from fedrepro.engine import objective as objectives
from fedrepro.engine import optim
from fedrepro.engine.data import DeviceData
from fedrepro.engine.jobs import LaneError, LaneJob, check_finite, check_lane, check_time
from fedrepro.engine.lane import epoch_order, half_precision, stream_key
from fedrepro.engine.network import FlatModule
from fedrepro.models import layers
from fedrepro.requests import OptimizerState, Trained

_PURPOSES = ("augment", "dropout", "noise")
_STEPS_BETWEEN_LOOKS_AT_THE_CLOCK = 50
_WARM_UPS = 3  # steps outside the graph, in which libraries choose their kernels


class Stack:
    """Buffers and the step for up to ``lanes`` lanes of one key and up to ``steps`` steps.

    Args:
        net: a network of the lanes' architecture.
        data: the examples, on the same device.
        job: one of the lanes.
        lanes: most lanes.
        steps: most steps of a lane.
    """

    def __init__(
        self, net: FlatModule, data: DeviceData, job: LaneJob, lanes: int, steps: int
    ) -> None:
        self.net, self.data, self.spec = net, data, job.spec
        self.objective, self.lanes, self.steps = job.request.objective, lanes, steps
        self.device = net.flat.device
        layout, device = net.layout, self.device
        rows = [torch.zeros(layout.size, device=device)] * lanes
        self.weights = optim.stack_rows(rows)
        keeps_start = objectives.needs_start(self.objective) or self.objective.distillation
        self.start = optim.stack_rows(rows) if keeps_start else None
        self.state = optim.stack_states(self.spec.optimizer, [None] * lanes, layout.parameters)
        self.state = {name: torch.as_tensor(v).to(device) for name, v in self.state.items()}
        self.lr = torch.zeros(lanes, 1, dtype=torch.float64, device=device)
        self.scale = optim.factors(self.spec.optimizer, layout, device)
        self.linear = None
        if job.lane.linear is not None:
            self.linear = torch.zeros(lanes, layout.parameters, device=device)
        self.order = torch.full((steps, lanes, job.batch), -1, device=device)
        self.keys = {
            name: torch.zeros(lanes, dtype=torch.int64, device=device) for name in _PURPOSES
        }
        self.losses = torch.zeros(lanes, device=device)
        self.number = torch.zeros(1, dtype=torch.int64, device=device)
        self._norms = layers.batch_norms(net.module)
        self._gradients = vmap(
            grad(self._lane_loss, has_aux=True),
            in_dims=(0, 0, None if self.start is None else 0, 0, 0, 0, 0),
        )
        self._graph: torch.cuda.CUDAGraph | None = None

    def train(
        self, jobs: Sequence[LaneJob], deadline: float = math.inf
    ) -> list[Trained | LaneError]:
        """Train lanes of the stack's key.

        Args:
            jobs: at most ``lanes``; lanes that cannot be trained get an error.
            deadline: ``time.monotonic()`` to give up at.

        Raises:
            OutOfTime: the deadline has passed.
        """
        refused: dict[int, LaneError] = {}
        for i, job in enumerate(jobs):
            try:
                check_lane(job, self.net.layout, normalises_vectors=self.net.normalises_vectors)
            except LaneError as error:
                refused[i] = error
        self._capture_if_useful()
        steps = self._load(jobs, refused)
        step = self._graph.replay if self._graph is not None else self._step
        for number in range(steps):
            if deadline < math.inf and number % _STEPS_BETWEEN_LOOKS_AT_THE_CLOCK == 0:
                if self.device.type == "cuda":
                    torch.cuda.synchronize(self.device)
                check_time(deadline)
            step()
        return self._results(jobs, refused)

    def _load(self, jobs: Sequence[LaneJob], refused: dict[int, LaneError]) -> int:
        """Fill the buffers; return how many steps the longest lane takes."""
        batch = self.order.shape[2]
        order = torch.full(tuple(self.order.shape), -1)
        longest = 0
        for i, job in enumerate(jobs):
            lane = job.lane
            if i in refused:
                continue
            self.weights[i].copy_(lane.weights, non_blocking=True)
            for name, value in self.state.items():
                row = torch.as_tensor(value)[i]
                given = 0 if lane.optimizer_state is None else lane.optimizer_state[name]
                row.copy_(torch.as_tensor(given), non_blocking=True)
            if self.linear is not None and lane.linear is not None:
                self.linear[i].copy_(lane.linear, non_blocking=True)
            sizes = job.sizes
            for epoch in range(job.epochs):
                examples = torch.from_numpy(epoch_order(job, epoch)[: sum(sizes)])
                rows = order[epoch * len(sizes) : (epoch + 1) * len(sizes), i]
                full = len(examples) // batch
                rows[:full] = examples[: full * batch].view(full, batch)
                if full < len(sizes):
                    rows[full, : len(examples) - full * batch] = examples[full * batch :]
            longest = max(longest, job.epochs * len(sizes))
        for name, keys in self.keys.items():
            keys[: len(jobs)].copy_(torch.tensor([stream_key(job, name) for job in jobs]))
        self.lr[: len(jobs)].copy_(torch.tensor([[job.lr] for job in jobs], dtype=torch.float64))
        if self.start is not None:
            self.start.copy_(self.weights)
        self.order.copy_(order)
        self.losses.zero_()
        self.number.zero_()
        return longest

    def _capture_if_useful(self) -> None:
        """On a GPU, record the step once; the buffers hold no lanes while it is tried out."""
        if self.device.type != "cuda" or self._graph is not None:
            return
        self.order.fill_(-1)
        side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                self.number.zero_()
                self._step()
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.number.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        self._graph = graph

    @torch.no_grad()
    def _step(self) -> None:
        now = self.order.index_select(0, self.number)[0]
        real = (now >= 0).float()
        count = real.sum(1, keepdim=True)
        active = count > 0
        augment = None
        if self.data.augments:
            augment = device_streams.child(self.keys["augment"], self.number)
        examples = torch.where(now >= 0, now, now[:, :1].clamp(min=0))
        images, labels = self.data.batch("train", examples, augment)
        split = self.net.layout.parameters
        parameters, buffers = self.weights[:, :split], self.weights[:, split:]
        gradient, (loss, updated) = self._gradients(
            parameters,
            buffers,
            self.start,
            images,
            labels,
            real,
            device_streams.child(self.keys["dropout"], self.number),
        )
        start = None if self.start is None else self.start[:, :split]
        noise = None
        if self.objective.gradient_noise:
            key = device_streams.child(self.keys["noise"], self.number)
            noise = device_streams.normal(key, split)
        clip = self.spec.optimizer.clip_norm
        objectives.adjust_gradient(
            self.objective, clip, parameters, gradient, start, self.linear, noise
        )
        before = {name: torch.as_tensor(value).clone() for name, value in self.state.items()}
        changed = parameters.clone()
        optim.step(self.spec.optimizer, self.lr, changed, gradient, self.state, self.scale)
        projected = objectives.project(self.objective, changed, start)
        parameters.copy_(
            torch.where(active, changed if projected is None else projected, parameters)
        )
        for name, value in self.state.items():
            now_state = torch.as_tensor(value)
            now_state.copy_(torch.where(active, now_state, before[name]))
        buffers.copy_(torch.where(active, updated, buffers))
        self.losses.add_(torch.where(active[:, 0], loss * count[:, 0], 0.0))
        self.number.add_(1)

    def _lane_loss(
        self,
        parameters: torch.Tensor,
        buffers: torch.Tensor,
        start: torch.Tensor | None,
        images: torch.Tensor,
        labels: torch.Tensor,
        real: torch.Tensor,
        key: torch.Tensor,
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """Return what one lane minimises, and its cross entropy and new running statistics."""
        module = self.net.module
        for _, norm in self._norms:
            norm.mask = real
        try:
            layers.set_keys(module, key)
            representation, logits = self._forward(parameters, buffers, images)
            each = functional.cross_entropy(logits.float(), labels, reduction="none")
            loss = (each * real).sum() / real.sum().clamp(min=1)
            updated = buffers
            if self._norms:
                parts = [part for _, norm in self._norms for part in norm.updated or ()]
                updated = torch.cat(parts)
            total = loss
            if start is not None and self.objective.distillation:
                split = self.net.layout.parameters
                anchor, _ = self._forward(start[:split], start[split:], images)
                divergence = objectives.pairwise_divergence(
                    representation.float(), anchor.float(), real
                )
                total = loss + self.objective.distillation * divergence
        finally:
            layers.set_keys(module, None)
            for _, norm in self._norms:
                norm.mask = norm.updated = None
        return total, (loss, updated)

    def _forward(
        self, parameters: torch.Tensor, buffers: torch.Tensor, images: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        flat = torch.cat([parameters, buffers])
        tensors = {n: self.net.layout.view(flat, i) for i, n in enumerate(self.net.layout.names)}
        self.net.module.train()
        with half_precision(self.spec, self.device):
            return _apart(self.net, tensors, images)

    def _results(
        self, jobs: Sequence[LaneJob], refused: dict[int, LaneError]
    ) -> list[Trained | LaneError]:
        count = len(jobs)
        finite = torch.isfinite(self.weights[:count]).all(dim=1).tolist()
        losses = self.losses[:count].tolist()
        moments: OptimizerState = {}
        if any(job.request.keep_optimizer_state for job in jobs):
            moments = {name: torch.as_tensor(v).cpu() for name, v in self.state.items()}
        results: list[Trained | LaneError] = []
        bits = self.objective.quantise_bits
        named = objectives.quantised_layers(self.net.module)
        for i, job in enumerate(jobs):
            if i in refused:
                results.append(refused[i])
                continue
            loss = losses[i] / max(1, job.epochs * sum(job.sizes))
            try:
                check_finite(job, loss, finite_weights=finite[i])
            except LaneError as error:
                results.append(error)
                continue
            weights = self.weights[i].clone()
            if bits is not None:
                key = torch.tensor(stream_key(job, "quantise"), device=self.device)
                objectives.quantise(weights, bits, self.net.layout, named, key)
            kept = job.request.keep_optimizer_state
            state = optim.lane_state(moments, i) if kept else None
            results.append(Trained(weights.cpu(), loss, state))
        return results


def _apart(
    net: FlatModule, tensors: dict[str, torch.Tensor], images: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return representation and logits of the network with the given tensors in its place."""
    last = list(net.module.named_children())[-1][0] + "."
    head = {n.removeprefix(last): t for n, t in tensors.items() if n.startswith(last)}
    body = {n: t for n, t in tensors.items() if not n.startswith(last)}
    representation = functional_call(net.body, body, (images,))
    return representation, functional_call(net.classifier, head, (representation,))


def predictor(net: FlatModule) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return logits [models, n, classes] as a function of weights [models, size] and images."""

    def logits(weights: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        tensors = {n: net.layout.view(weights, i) for i, n in enumerate(net.layout.names)}
        return _apart(net, tensors, images)[1]

    return vmap(logits, in_dims=(0, None))
