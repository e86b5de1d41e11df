"""Oriented gradients: how strong the edges of each direction are, in each part of a picture."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from tacit.tasks.features.registry import Feature, features, picture_shape, unit

ORIENTATIONS = 8
_MIN_SIZE = 8


@features.register("gradients")
class OrientedGradients(Feature):
    """Oriented gradients of pictures: 441 values for 28 × 28 pixels.

    The gradient of a pixel is the central difference of its neighbours; the border is repeated. With several channels,
    the strongest gradient counts. Its magnitude is shared between the two nearest of 8 orientations in [0, π), in
    proportion to the distance. The orientations are averaged over fields of 6 × 6 pixels, every 4 pixels. The square
    roots of these averages, as a vector of unit norm, are one part of the features. The other part is the picture
    averaged over 4 × 4 pixels, as a vector of unit norm.

    References:
        Dalal, Triggs: Histograms of Oriented Gradients for Human Detection. CVPR 2005.
    """

    def __init__(self, inputs: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = picture_shape("gradients", inputs, _MIN_SIZE)

    def forward(self, x: Tensor) -> Tensor:
        x = x.reshape(-1, *self.shape)
        padded = F.pad(x, (1, 1, 1, 1), mode="replicate")
        across = (padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2]) / 2
        down = (padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]) / 2
        strength, channel = (across.square() + down.square()).max(dim=1, keepdim=True)
        across, down = across.gather(1, channel), down.gather(1, channel)
        turn = torch.atan2(down, across) * (ORIENTATIONS / math.pi)  # in units of one orientation
        orientations = torch.arange(ORIENTATIONS, dtype=x.dtype, device=x.device).view(1, -1, 1, 1)
        away = torch.remainder(turn - orientations + ORIENTATIONS / 2, ORIENTATIONS) - ORIENTATIONS / 2
        shares = strength.sqrt() * (1 - away.abs()).clamp(min=0)
        edges = F.avg_pool2d(shares, kernel_size=6, stride=4, padding=1)
        return torch.cat([unit(edges.sqrt()), unit(F.avg_pool2d(x, 4))], dim=1)
