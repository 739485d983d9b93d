"""A network whose tensors are views of one flat vector."""

from __future__ import annotations

import math

import torch
from torch import nn

from fedrepro.fl.layout import Layout
from fedrepro.fl.models.parts import layers
from fedrepro.fl.requests import Weights


class FlatModule:
    """A module whose parameters and buffers are views of a flat vector.

    With ``channels_last`` the convolution kernels are stored in that memory format, unless a
    library may get one of the network's layers wrong that way. It is faster on a CPU, and on a GPU
    in TF32 and bfloat16. With ``aligned``, tensors of a multiple of four numbers begin at a
    multiple of 16 bytes, which cuDNN's fastest kernels ask for: they come first among the
    parameters, and first among the buffers. The order of ``flat`` then differs from
    :class:`Layout`; :meth:`inward` and :meth:`outward` translate.

    Attributes:
        module: the network, an ``nn.Sequential`` of ``body`` and ``classifier``.
        body: from inputs to representations.
        classifier: from representations to logits.
        layout: names, shapes and places in a flat vector.
        flat: parameters, then buffers, float32 [size], or up to three numbers more between the two.
        gradient: of :meth:`differentiate`'s last loss, float32 [parameters].
        dropouts: its dropout layers, which need a key before each training step.
        normalises_vectors: whether it normalises over the batch alone (BatchNorm1d).
    """

    def __init__(
        self,
        module: nn.Sequential,
        device: torch.device,
        *,
        channels_last: bool = False,
        aligned: bool = False,
    ) -> None:
        self.layout = Layout.of(module)
        self._begins = _aligned(self.layout) if aligned else self.layout.offsets[:-1]
        self.module = module
        safe = _is_safe_channels_last(module, device)
        self.channels_last = channels_last and _has_convolutions(module) and safe
        self._reordered = self.channels_last or self._begins != self.layout.offsets[:-1]
        sizes = map(math.prod, self.layout.shapes)
        length = max(begin + size for begin, size in zip(self._begins, sizes, strict=True))
        self.flat = torch.zeros(length, device=device)
        self.gradient = torch.zeros(self.layout.parameters, device=device)
        self.load(self.layout.flatten(module))
        for position, name in enumerate(self.layout.names):
            view = self._view(self.flat, position)
            owner, _, own = name.rpartition(".")
            trained = self.layout.offsets[position] < self.layout.parameters
            setattr(module.get_submodule(owner), own, nn.Parameter(view) if trained else view)
        for name, constant in list(module.named_buffers()):
            if name not in self.layout.names:
                owner, _, own = name.rpartition(".")
                setattr(module.get_submodule(owner), own, constant.to(device))
        self._trainable = list(self.module.parameters())
        self._gradients = [self._view(self.gradient, i) for i in range(len(self._trainable))]
        self.normalises_vectors = layers.normalises_vectors(module)
        self.body, self.classifier = self.module[:-1], self.module[-1]
        self.dropouts = layers.dropouts(module)

    def _view(self, flat: torch.Tensor, position: int) -> torch.Tensor:
        """Return tensor number ``position`` of a vector in this module's own order."""
        shape, begin = self.layout.shapes[position], self._begins[position]
        part = flat[begin : begin + math.prod(shape)]
        if not self.channels_last or len(shape) != 4:
            return part.view(shape)
        out, into, height, width = shape
        return part.view(out, height, width, into).permute(0, 3, 1, 2)

    @property
    def parameters(self) -> torch.Tensor:
        """The trainable front part of ``flat``, float32 [parameters]."""
        return self.flat[: self.layout.parameters]

    def load(self, weights: Weights) -> None:
        """Take weights in the layout's order, float32 [size]."""
        self._reorder(weights, self.flat, outward=False)

    def weights(self) -> Weights:
        """Return a copy of the weights in the layout's order, float32 [size]."""
        return self._reorder(self.flat, self.flat.new_empty(self.layout.size), outward=True)

    def inward(self, vector: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Copy a vector of parameters to this module's order and device.

        Args:
            vector: in the layout's order, float32 [parameters], on any device.
            out: of the same length, to be filled and returned; None: a new vector.
        """
        if out is None:
            out = torch.empty_like(vector, device=self.flat.device)
        return self._reorder(vector, out, outward=False)

    def outward(self, vector: torch.Tensor) -> torch.Tensor:
        """Return a copy of a vector of parameters, float32 [parameters], in the layout's order."""
        return self._reorder(vector, torch.empty_like(vector), outward=True)

    def _reorder(
        self, source: torch.Tensor, target: torch.Tensor, *, outward: bool
    ) -> torch.Tensor:
        if not self._reordered:
            return target.copy_(source, non_blocking=True)
        if source.device != target.device:  # one transfer rather than one a tensor
            source = source.to(target.device, non_blocking=True)
        for position, end in enumerate(self.layout.offsets[1:]):
            if end > min(source.numel(), target.numel()):
                break
            inside, outside = (target, source) if not outward else (source, target)
            ours, theirs = self._view(inside, position), self.layout.view(outside, position)
            if outward:
                theirs.copy_(ours)
            else:
                ours.copy_(theirs)
        return target

    def arranged(self, images: torch.Tensor) -> torch.Tensor:
        """Return images in the memory format of the convolutions."""
        if self.channels_last:
            return images.contiguous(memory_format=torch.channels_last)
        return images

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the representation, [n, features], and the logits, [n, classes]."""
        representation = self.body(self.arranged(images))
        return representation, self.classifier(representation)

    def differentiate(self, loss: torch.Tensor) -> None:
        """Write the gradient of a loss, float32 [], to ``gradient``, in this module's order.

        Copied rather than added up in place by ``backward``, which reads and writes it once more;
        on a GPU by one kernel for all tensors.
        """
        found = torch.autograd.grad(loss, self._trainable)
        torch._foreach_copy_(self._gradients, found)


def _aligned(layout: Layout) -> tuple[int, ...]:
    """Return where each tensor begins, if those of a multiple of four numbers come first.

    Parameters stay in front of buffers, which begin at the next multiple of four.
    """
    sizes = [math.prod(shape) for shape in layout.shapes]
    buffer = [offset >= layout.parameters for offset in layout.offsets[:-1]]
    begins, end = [0] * len(sizes), 0
    for i in sorted(range(len(sizes)), key=lambda i: (buffer[i], sizes[i] % 4 != 0)):
        if buffer[i]:
            end = max(end, -(-layout.parameters // 4) * 4)
        begins[i], end = end, end + sizes[i]
    return tuple(begins)


def _has_convolutions(module: nn.Module) -> bool:
    return any(isinstance(layer, nn.Conv2d) for layer in module.modules())


def _is_safe_channels_last(module: nn.Module, device: torch.device) -> bool:
    """Whether the device's library gets all layers of a network right with channels last.

    On a CPU oneDNN writes past its workspace in the weight gradient of a strided 1 x 1 convolution
    of fewer input channels than a vector register holds: 8 with AVX2, 16 with AVX-512
    (https://github.com/uxlfoundation/oneDNN/issues/6035). The bound is 16 everywhere, so that a
    run's bits do not depend on it. On a GPU cuDNN's batch normalisation reads 16 bytes of weights
    and statistics at a time, and they begin there only if their number is a multiple of four.
    """
    if device.type != "cpu":
        norms = [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d)]
        return all(norm.num_features % 4 == 0 for norm in norms)
    kernels = [layer for layer in module.modules() if isinstance(layer, nn.Conv2d)]
    return not any(
        kernel.kernel_size == (1, 1) and kernel.stride != (1, 1) and kernel.in_channels < 16
        for kernel in kernels
    )
