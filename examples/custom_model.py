"""A model of your own: a small residual network with its own loss, from Python and from a config.

    python examples/custom_model.py                                # about 10 s
    tacit train --set model.name=examples/custom_model.py:residual_network --set rounds=20

Any torch module works if it treats each record by itself. GroupNorm does, and BatchNorm does not: docs/models.md. The
loss is the cross-entropy with smoothed labels, one number per record, so that the gradient of each record can be
clipped.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import tacit


class Residual(nn.Module):
    """Two convolutions with GroupNorm, added to their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(4, channels), nn.ReLU()),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.layers(x))


def residual_network(inputs: tuple[int, ...], classes: int, channels: int = 8) -> nn.Module:
    """Return the network for images of `inputs` = (channels, height, width). A config calls it by its name."""
    return nn.Sequential(
        *(nn.Conv2d(inputs[0], channels, 3, padding=1), nn.ReLU(), Residual(channels), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(channels * (inputs[1] // 2) * (inputs[2] // 2), classes)),
    )


def smoothed_cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """Return one loss per record, each from its own outputs only."""
    return nn.functional.cross_entropy(outputs, y, label_smoothing=0.1, reduction="none")


def main(rounds: int = 60) -> None:
    torch.manual_seed(0)
    model = tacit.Model(residual_network((1, 8, 8), 10), smoothed_cross_entropy)
    run = tacit.train(model, "digits", algorithm="const-d2p", lr=0.5, nodes=4, rounds=rounds, epsilon=3.0, delta=1e-4)
    print(f"{run.task.d} parameters, {run.utility.headline}")
    print(run.privacy.sentence())


if __name__ == "__main__":
    main()
