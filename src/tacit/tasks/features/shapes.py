"""Synthetic pictures of random shapes. They replace public data where features are whitened; no record is used."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from tacit.tasks.features.registry import UNSCALED, PixelScale

PICTURES = 6_000
_MAX_SHAPES = 6
_SEED = 0
_AT_ONCE = 1_000
_BLUR = 0.6  # standard deviation in pixels
_TEXTURE = 0.1  # largest amplitude of the sine textures
_BLACK = 0.2  # share of the shapes


def random_shapes(
    inputs: tuple[int, int, int], pixels: PixelScale = UNSCALED, count: int = PICTURES, seed: int = _SEED
) -> Tensor:
    """Return pictures (count, *inputs) of ellipses and rectangles that are painted over each other, in float64.

    Each picture has 1 to 6 shapes. Their centres are N(0, 0.35²) on [−1, 1]², their half-axes are log-normal(−1, 0.6),
    and their rotation is uniform. One shape in five is black. A shape has a faint sine texture, and the picture is
    slightly blurred. Pixels are in [0, 1], and then standardised as those of the data.

    >>> random_shapes((1, 28, 28), count=2).shape
    torch.Size([2, 1, 28, 28])
    """
    rng = np.random.default_rng(seed)
    pictures = [_paint(rng, min(_AT_ONCE, count - start), inputs) for start in range(0, count, _AT_ONCE)]
    made = _blurred(torch.from_numpy(np.concatenate(pictures)))
    mean, std = pixels.tensors(made)
    return (made - mean) / std


def _paint(rng: np.random.Generator, count: int, inputs: tuple[int, int, int]) -> NDArray[np.float64]:
    channels, height, width = inputs
    down = np.linspace(-1, 1, height)[:, None]
    across = np.linspace(-1, 1, width)[None, :]
    canvas = np.zeros((count, channels, height, width))
    shapes = rng.integers(1, _MAX_SHAPES + 1, count)
    for layer in range(_MAX_SHAPES):
        inside = _inside(rng, count, down, across) & (layer < shapes)[:, None, None]
        colour = rng.random((count, channels)) * (rng.random((count, 1)) >= _BLACK)
        painted = np.clip(colour[:, :, None, None] * (1 + _texture(rng, count, down, across)[:, None]), 0, 1)
        canvas = np.where(inside[:, None], painted, canvas)
    return canvas


def _inside(
    rng: np.random.Generator, count: int, down: NDArray[np.float64], across: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which pixels (count, H, W) are inside one random shape per picture."""
    centre = 0.35 * rng.standard_normal((2, count, 1, 1))
    axes = np.exp(-1 + 0.6 * rng.standard_normal((2, count, 1, 1)))
    angle = rng.uniform(0, math.pi, (count, 1, 1))
    y, x = down - centre[0], across - centre[1]
    u = np.abs(np.cos(angle) * x + np.sin(angle) * y) / axes[0]
    v = np.abs(np.cos(angle) * y - np.sin(angle) * x) / axes[1]
    is_ellipse = rng.random((count, 1, 1)) < 0.5
    return np.asarray(np.where(is_ellipse, u * u + v * v, np.maximum(u, v)) <= 1)


def _texture(
    rng: np.random.Generator, count: int, down: NDArray[np.float64], across: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return one faint sine wave (count, H, W) per picture, with a random direction and frequency."""
    frequency = rng.uniform(5, 30, (count, 1, 1))
    angle, phase = rng.uniform(0, math.pi, (count, 1, 1)), rng.uniform(0, 2 * math.pi, (count, 1, 1))
    amplitude = rng.uniform(0, _TEXTURE, (count, 1, 1))
    wave = np.sin(frequency * (np.cos(angle) * across + np.sin(angle) * down) + phase)
    return np.asarray(amplitude * wave)


def _blurred(pictures: Tensor) -> Tensor:
    taps = torch.exp(-torch.tensor([-1.0, 0.0, 1.0], dtype=pictures.dtype).square() / (2 * _BLUR**2))
    taps /= taps.sum()
    count, channels, height, width = pictures.shape
    x = F.pad(pictures.reshape(-1, 1, height, width), (1, 1, 1, 1), mode="replicate")
    x = F.conv2d(F.conv2d(x, taps.view(1, 1, 3, 1)), taps.view(1, 1, 1, 3))
    return x.reshape(count, channels, height, width)
