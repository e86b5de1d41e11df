"""Scattering: the moduli of two layers of fixed wavelets, averaged over parts of a picture."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from tacit.tasks.features.registry import Feature, features, picture_shape, unit

ANGLES = 8
SIZE = 7  # of the filters
SIGMA = 0.8
FREQUENCY = 3 * math.pi / 4
_MIN_SIZE = 8
_POOLED = 4  # the picture is averaged over so many pixels in each direction


def morlet_filters() -> Tensor:
    """Return the complex Morlet filters as real and imaginary parts (2 · ANGLES, 1, SIZE, SIZE), in float64.

    ψ_θ(u) = exp(−‖u‖²/2σ²) (exp(i ξ u·e_θ) − κ), where κ makes the sum of the filter zero; the Gaussian sums to one.
    """
    grid = torch.arange(SIZE, dtype=torch.float64) - SIZE // 2
    rows, columns = torch.meshgrid(grid, grid, indexing="ij")
    gaussian = torch.exp(-(rows.square() + columns.square()) / (2 * SIGMA**2))
    gaussian /= gaussian.sum()
    theta = torch.arange(ANGLES, dtype=torch.float64).view(-1, 1, 1) * (math.pi / ANGLES)
    phase = FREQUENCY * (columns * theta.cos() + rows * theta.sin())
    real, imaginary = gaussian * phase.cos(), gaussian * phase.sin()
    real = real - gaussian * real.sum(dim=(1, 2), keepdim=True)
    return torch.cat([real, imaginary]).unsqueeze(1)


@features.register("scattering")
class Scattering(Feature):
    """Scattering of order 2 with two scales and 8 angles: 1,409 values for 28 × 28 pixels.

    Order 0 is the picture; order 1 is |x ⋆ ψ_θ|, with the second scale on the picture at half size; order 2 is
    ||x ⋆ ψ_θ| ⋆ ψ_θ'|, from the first scale at half size. Each is averaged over fields of 4 × 4 pixels of the picture.
    Of the moduli, the square root is taken, and those of order 2 are averaged further, over 3 × 3 fields. Each order is
    a vector of unit norm. Channels are treated separately. Borders are reflected.

    References:
        Bruna, Mallat: Invariant Scattering Convolution Networks. IEEE TPAMI 35 (2013).
        Tramèr, Boneh: Differentially Private Learning Needs Better Features. ICLR 2021.
    """

    filters: Tensor

    def __init__(self, inputs: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = picture_shape("scattering", inputs, _MIN_SIZE)
        self.register_buffer("filters", morlet_filters(), persistent=False)
        _, height, width = self.shape
        # Sizes are constants, so that an exported model accepts any number of records.
        rows, columns = -(-height // _POOLED), -(-width // _POOLED)
        self._further = min(3, rows), min(3, columns)
        paths = [(side - field) // 2 + 1 for side, field in zip((rows, columns), self._further, strict=True)]
        self._values = rows * columns, 2 * ANGLES * rows * columns, ANGLES**2 * paths[0] * paths[1]
        self._missing = 0, -width % _POOLED, 0, -height % _POOLED  # to a multiple of the fields

    def forward(self, x: Tensor) -> Tensor:
        channels, height, width = self.shape
        x = F.pad(x.reshape(-1, channels, height, width), self._missing, mode="reflect")
        x = x.reshape(-1, 1, *x.shape[2:])
        half = F.avg_pool2d(x, 2)
        fine, coarse = self._moduli(x), self._moduli(half)
        middle = F.avg_pool2d(fine, 2)
        second = self._moduli(middle.reshape(-1, 1, *middle.shape[2:]))
        first = torch.cat([F.avg_pool2d(middle, 2), F.avg_pool2d(coarse, 2)], dim=1).sqrt()
        second = F.avg_pool2d(second, 2).sqrt()
        second = F.avg_pool2d(second, self._further, stride=2)
        orders = F.avg_pool2d(half, 2), first, second
        sizes = zip(orders, self._values, strict=True)
        return torch.cat([unit(order.reshape(-1, channels * values)) for order, values in sizes], dim=1)

    def _moduli(self, x: Tensor) -> Tensor:
        """Return |x ⋆ ψ_θ| (M, ANGLES, H, W) of pictures (M, 1, H, W)."""
        border = SIZE // 2
        padded = F.pad(x, (border, border, border, border), mode="reflect")
        squares = F.conv2d(padded, self.filters.to(x.dtype)).square_()
        return squares[:, :ANGLES].add_(squares[:, ANGLES:]).sqrt_()
