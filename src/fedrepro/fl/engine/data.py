"""Examples on the device: stored bytes in, network inputs out, whole batches at a time.

Pixels stay as they are stored (uint8) until a batch is taken. Augmentation draws from streams named
by the lane and the step, so an example's crop does not depend on what is trained beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import torch

from fedrepro.fl import device_streams
from fedrepro.fl.data import Dataset, describe
from fedrepro.fl.spec import TUTORIAL_CROP, DatasetSpec

PADDING = 4
"""Zero pixels around an image before the random crop."""
_PREPARED_AT_ONCE = 1000
_DRAWS = 4  # stream values an image: row, column, flip, contrast

Split = Literal["train", "test"]


def tensors_of(dataset: Dataset) -> dict[str, torch.Tensor]:
    """Return what training needs of a data set, which another process may not have, as tensors.

    Returns:
        The arrays ``train_x``, ``train_y``, ``test_x`` and ``test_y``, and the constants ``mean``
        and ``std`` of its description, float32, in a shape that fits batches of examples.
    """
    info = describe(dataset.name)
    arrays = {
        name: torch.tensor(getattr(dataset, name))
        for name in ("train_x", "train_y", "test_x", "test_y")
    }
    constants = {"mean": info.mean, "std": info.std}
    return arrays | {
        name: torch.tensor(values).view(info.statistics_shape) for name, values in constants.items()
    }


class DeviceData:
    """A data set's two splits on a device."""

    def __init__(
        self, spec: DatasetSpec, tensors: Mapping[str, torch.Tensor], device: torch.device
    ) -> None:
        """Move the tensors, as of :func:`tensors_of`, to the device.

        Raises:
            FedreproError: the transform does not fit the examples.
        """
        self.images = {split: tensors[f"{split}_x"].to(device) for split in ("train", "test")}
        self.labels = {split: tensors[f"{split}_y"].to(device) for split in ("train", "test")}
        self.augments = spec.augment
        self.transform = spec.transform
        self.downsample = spec.downsample
        self.shape = spec.input_shape(tuple(self.images["train"].shape[1:]))
        self._scale = 255.0 if self.images["train"].dtype == torch.uint8 else 1.0
        self._ready: dict[Split, torch.Tensor] = {}
        self._tried: set[Split] = set()
        self._mean = self._std = None
        if spec.transform == "standard":
            self._mean, self._std = tensors["mean"].to(device), tensors["std"].to(device)
        elif spec.transform == "centred" and self._scale != 1.0:
            self._mean, self._std = torch.tensor([0.5, 1.0], device=device)

    @property
    def bytes(self) -> int:
        """Memory that the examples take on the device, with the inputs that were prepared."""
        tensors = (*self.images.values(), *self.labels.values(), *self._ready.values())
        return sum(one.nbytes for one in tensors)

    def prepare(self, split: Split, limit: int) -> None:
        """Compute a split's network inputs once, so that a batch of them is a mere selection.

        Augmented examples are always computed anew; those of a split that was prepared have the
        same bits as before. It is tried once: running out of memory costs a GPU its cache.

        Args:
            split: official split.
            limit: bytes; if the inputs would take more, nothing is prepared.
        """
        count, device = len(self.labels[split]), self.labels[split].device
        if split in self._tried:
            return
        self._tried.add(split)
        if 4 * count * math.prod(self.shape) > limit:
            return
        ready = torch.empty(count, *self.shape, device=device)
        for first in range(0, count, _PREPARED_AT_ONCE):
            end = min(first + _PREPARED_AT_ONCE, count)
            ready[first:end] = self.batch(split, torch.arange(first, end, device=device))[0]
        if ready.is_cuda:  # lanes in flight on other streams may take batches of it at once
            torch.cuda.current_stream(device).synchronize()
        self._ready[split] = ready

    def draws(self, key: torch.Tensor, count: int) -> torch.Tensor:
        """Return the random numbers in [0, 1) that augment batches, float32 [*key, 4 * count].

        Args:
            key: int64 [*key], the streams of some batches.
            count: examples of each batch; a smaller batch uses the first draws.
        """
        return device_streams.uniform(key, _DRAWS * count)

    def batch(
        self, split: Split, examples: torch.Tensor, draws: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return network inputs and labels.

        Args:
            split: official split.
            examples: positions in it, int64 [n], or [lanes, n].
            draws: of the augmentation, as of :meth:`draws`, for n examples or more, float32
                [4 m], or [lanes, 4 m]; None: do not augment.

        Returns:
            Inputs float32 [(lanes,) n, channels, height, width], labels int64 [(lanes,) n].
        """
        flat = examples.reshape(-1)
        labels = self.labels[split].index_select(0, flat)
        if not self.augments:
            draws = None
        if split in self._ready and draws is None:
            images = self._ready[split].index_select(0, flat)
            return images.view(*examples.shape, *self.shape), labels.view(examples.shape)
        images = self.images[split].index_select(0, flat)
        if draws is not None:
            draws = draws[..., : _DRAWS * examples.shape[-1]].reshape(-1, _DRAWS)
        if self.transform == "tutorial24":
            images = self._tutorial(images, draws)
        else:
            images = self._standard(images if draws is None else _crop_and_flip(images, draws))
        return images.view(*examples.shape, *self.shape), labels.view(examples.shape)

    def _standard(self, images: torch.Tensor) -> torch.Tensor:
        images = images.to(torch.float32)
        if self.downsample > 1:
            images = torch.nn.functional.avg_pool2d(images, self.downsample)
        if self._scale != 1.0:
            images.div_(self._scale)
        if self._mean is not None and self._std is not None:
            images.sub_(self._mean).div_(self._std)
        return images

    def _tutorial(self, images: torch.Tensor, draws: torch.Tensor | None) -> torch.Tensor:
        """Crop, flip, change the contrast, and standardise every image (Zhao et al. 2018).

        The tutorial's random brightness is left out: the standardisation takes it away again.
        """
        height, width = images.shape[2:]
        if draws is None:
            top, left = (height - TUTORIAL_CROP) // 2, (width - TUTORIAL_CROP) // 2
            cropped = images[:, :, top : top + TUTORIAL_CROP, left : left + TUTORIAL_CROP].float()
        else:
            rows = _offsets(draws[:, 0], height - TUTORIAL_CROP + 1)
            columns = _offsets(draws[:, 1], width - TUTORIAL_CROP + 1)
            shape = (TUTORIAL_CROP, TUTORIAL_CROP)
            cropped = _window(images, rows, columns, draws[:, 2] < 0.5, shape).float()
            factor = (0.2 + 1.6 * draws[:, 3]).view(-1, 1, 1, 1)
            centre = cropped.mean(dim=(2, 3), keepdim=True)
            cropped = (cropped - centre) * factor + centre
        mean = cropped.mean(dim=(1, 2, 3), keepdim=True)
        std = cropped.std(dim=(1, 2, 3), keepdim=True, correction=0)
        return (cropped - mean) / std.clamp(min=1 / math.sqrt(cropped[0].numel()))


def _offsets(draws: torch.Tensor, count: int) -> torch.Tensor:
    return (draws * count).long()


def _crop_and_flip(images: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
    """Crop at random after padding with zeros, and flip every other image on average."""
    padded = torch.nn.functional.pad(images, [PADDING] * 4)
    rows, columns = (_offsets(draws[:, i], 2 * PADDING + 1) for i in (0, 1))
    return _window(padded, rows, columns, draws[:, 2] < 0.5, images.shape[2:])


def _window(
    images: torch.Tensor,
    rows: torch.Tensor,
    columns: torch.Tensor,
    flipped: torch.Tensor,
    shape: Sequence[int],
) -> torch.Tensor:
    """Cut one window out of every image, [n, channels, height, width], some mirrored.

    Args:
        images: any dtype, [n, channels, H, W].
        rows: first row of each window, int64 [n].
        columns: first column of each window, int64 [n].
        flipped: which windows to mirror left to right, bool [n].
        shape: height and width of a window.
    """
    height, width = shape
    count, channels, _, full = images.shape
    across = torch.arange(width, device=images.device).expand(count, width)
    across = torch.where(flipped[:, None], width - 1 - across, across) + columns[:, None]
    down = torch.arange(height, device=images.device) + rows[:, None]
    positions = (down[:, :, None] * full + across[:, None, :]).view(count, 1, -1)
    pixels = images.flatten(2).gather(2, positions.expand(-1, channels, -1))
    return pixels.view(count, channels, height, width)
