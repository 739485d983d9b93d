"""What an algorithm sees of its run: the spec, the clients' examples and the named streams."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import torch

from fedrepro.base.errors import FedreproError
from fedrepro.fl import models, streams
from fedrepro.fl.algorithms.algorithm import AlgorithmParams, params_of
from fedrepro.fl.data import Dataset
from fedrepro.fl.layout import Layout
from fedrepro.fl.models import NETWORKS
from fedrepro.fl.models.parts.initial import draw
from fedrepro.fl.network_check import require_network
from fedrepro.fl.partition import Partition, build_partition
from fedrepro.fl.requests import Weights
from fedrepro.fl.spec import RunSpec

CPU = torch.device("cpu")
P = TypeVar("P", bound=AlgorithmParams)


class Federation:
    """One run's clients and constants.

    Making one raises a FedreproError if the data set cannot be cut or transformed as ``spec`` says,
    its examples are too small for the network, or that is not what the engine relies on.

    Args:
        spec: the run.
        dataset: its data set.
        data_root: folder of packed data, for published partitions; None takes the usual places.
        device: where to put weights.

    Attributes:
        spec: the run.
        partition: who holds which examples.
        clients: positions in the training split, int64 [n_k] for each client.
        train_size: examples in the official training split.
        test_size: examples in the official test split.
        labels: classes of the training split, int64 [train_size].
        layout: where each parameter lies in a flat weight vector.
        device: where weights are, also between requests.
    """

    def __init__(
        self,
        spec: RunSpec,
        dataset: Dataset,
        data_root: Path | None = None,
        device: torch.device = CPU,
    ) -> None:
        self.spec = spec
        self.device = device
        self.partition: Partition = build_partition(
            spec.partition, dataset.train_y, dataset.test_y, dataset.classes, spec.seed, data_root
        )
        self.clients = self.partition.clients
        self.train_size = len(dataset.train_y)
        self.test_size = len(dataset.test_y)
        self.labels = dataset.train_y
        self._shape = spec.dataset.input_shape(dataset.train_x.shape[1:])
        self._classes = dataset.classes
        network = NETWORKS[spec.model.name]
        require_network(network, self._shape, self._classes, spec.model.width)
        self.layout = Layout.of(self._module())

    def _module(self) -> torch.nn.Module:
        model = self.spec.model
        return models.build(model.name, self._shape, self._classes, model.width)

    def params(self, kind: type[P]) -> P:
        """Return the algorithm's parameters; ``kind`` is their class."""
        return params_of(self.spec, kind)

    def initial_weights(self, node: int | None = None) -> Weights:
        """Draw initial weights, float32 [size] on the device: the common ones, or a node's own.

        They depend on ``init_seed`` (the run seed if that is null) and the node alone, not on the
        device, since they are drawn on the CPU.
        """
        seed = self.spec.seed if self.spec.init_seed is None else self.spec.init_seed
        ids = () if node is None else ("node", node)
        with torch.random.fork_rng(devices=[]):
            # torch.manual_seed would also seed the generators of the GPUs
            torch.default_generator.manual_seed(streams.key(seed, "init", *ids) >> 1)
            module = self._module()
            if self.spec.model.init != "own":
                draw(module, self.spec.model.init, self.spec.model.width)
            return self.layout.flatten(module).to(self.device)

    def participants(self, t: int, count: int | None) -> list[int]:
        """Return the clients of round ``t`` (from 0), ascending.

        Args:
            t: round.
            count: how many are drawn, without replacement; None: all.

        Raises:
            FedreproError: there are not so many.
        """
        total = len(self.clients)
        if count is None or count == total:
            return list(range(total))
        if count > total:
            raise FedreproError(
                f"algorithm {self.spec.algorithm.name}: draws {count} clients for a round, and the "
                f"partition has {total}"
            )
        return [int(client) for client in streams.participants(self.spec.seed, t, total, count)]
