"""A federation without data or training, for tests of one algorithm's generator at a time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch

from fedrepro.fl.requests import Train, Trained


class FakeFederation:
    """Two or more nodes with one-number models; every draw is known."""

    def __init__(self, params, sizes=(1, 3), batch=2):
        ends = np.cumsum(sizes)
        self.clients = tuple(
            np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)
        )
        self.spec = SimpleNamespace(batch=batch, local_epochs=1, rounds=4, algorithm=params)
        self.partition = SimpleNamespace(validation=np.arange(5), node_sets={})
        self._params = params

    def params(self, kind):
        assert isinstance(self._params, kind)
        return self._params

    def initial_weights(self, node=None):
        return torch.tensor([0.0 if node is None else 10.0 * (node + 1)])

    def participants(self, t, count):
        return list(range(len(self.clients)))[: count or len(self.clients)]


def drive(steps, answer):
    """Answer a generator's requests; return them and its result."""
    requests, reply = [], None
    while True:
        try:
            requests.append(steps.send(reply))
        except StopIteration as stop:
            return requests, stop.value
        reply = answer(requests[-1])


def add_client(request):
    """Pretend training: add the client's number plus one; count the moments.

    The losses are 0.25 for client 0, 0.75 for client 1 and so on, and 2 for anyone else.
    """
    assert isinstance(request, Train)
    answers = []
    for lane in request.lanes:
        steps = (lane.optimizer_state or {"step": 0})["step"] + 1
        of_client = lane.stream[0] == "client"
        shift = lane.stream[1] + 1 if of_client else 100
        loss = 0.25 + 0.5 * lane.stream[1] if of_client else 2.0
        state = {"step": steps} if request.keep_optimizer_state else None
        answers.append(Trained(lane.weights + shift, loss, state))
    return answers
