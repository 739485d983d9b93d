"""How exact PyTorch's batch normalisation is on a CPU, channels first and channels last.

Images with an empty border, as MNIST's, go through a convolution and a batch normalisation in
single and in double precision. Prints a JSON line for each layout and batch size: the distance
between the two, relative to the values' size (2-norms), after the convolution and after the
normalisation.

    .venv/bin/python benchmarks/batch_norm.py
"""

from __future__ import annotations

import json

import torch
from torch import Tensor, nn

LAYOUTS = {"channels first": torch.contiguous_format, "channels last": torch.channels_last}


def images(batch: int) -> Tensor:
    """Return images, (batch, 1, 28, 28), standardised: random pixels in a black border."""
    pixels = torch.zeros(batch, 1, 28, 28)
    pixels[:, :, 8:20, 10:18] = torch.rand(batch, 1, 12, 8)
    return (pixels - 0.1307) / 0.3081


def off(values: Tensor, exact: Tensor) -> float:
    """Return the relative distance of ``values`` from ``exact``."""
    return float((values.double() - exact).norm() / exact.norm())


@torch.no_grad()
def main() -> None:
    """Measure and print."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for batch in (10, 32, 100):
        inputs = images(batch)
        exact_conv = nn.Conv2d(1, 32, 5, padding=2).double()
        exact = exact_conv(inputs.double())
        exact_normalised = nn.BatchNorm2d(32).double()(exact)
        for layout, memory_format in LAYOUTS.items():
            conv = nn.Conv2d(1, 32, 5, padding=2)
            conv.load_state_dict(exact_conv.state_dict())
            conv.to(memory_format=memory_format)
            values = conv(inputs.contiguous(memory_format=memory_format))
            normalised = nn.BatchNorm2d(32)(values)
            result = {
                "layout": layout,
                "batch": batch,
                "off_after_convolution": off(values, exact),
                "off_after_normalisation": off(normalised, exact_normalised),
            }
            print(json.dumps(result))


if __name__ == "__main__":
    main()
