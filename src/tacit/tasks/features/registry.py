"""The registry of features: frozen modules that map each record to a vector."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tacit.errors import TacitError
from tacit.registry import Registry


class PixelScale(NamedTuple):
    """The public constants with which pixels in [0, 1] were standardised: (pixel − mean) / std, per channel."""

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def tensors(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation (C, 1, 1) with the type of `like`."""
        mean, std = (like.new_tensor(values).view(-1, 1, 1) for values in self)
        return mean, std


UNSCALED = PixelScale()


class Feature(nn.Module):
    """A frozen map from records (M, *inputs) to values (M, k). Each row depends on its own record only.

    Attributes:
        exact: Whether the map is quick enough to be evaluated in float64, with which whitening is fitted. Then all
            machines fit the same whitening up to the rounding to float32.
    """

    exact = True


features: Registry[nn.Module] = Registry("feature", given=("inputs", "pixels"))


def picture_shape(feature: str, inputs: tuple[int, ...], min_size: int) -> tuple[int, int, int]:
    """Return the shape of pictures as (channels, height, width); raise if records are no pictures of this size."""
    shape = (1, *inputs) if len(inputs) == 2 else inputs
    if len(shape) != 3:
        raise TacitError(
            f'features = ["{feature}"] needs pictures (channels, height, width), got records of shape {tuple(inputs)}: '
            "use your own function, such as path/to/file.py:function"
        )
    channels, height, width = shape
    if min(height, width) < min_size:
        raise TacitError(
            f'features = ["{feature}"] needs pictures of at least {min_size}×{min_size} pixels, with the channels '
            f"first, got {channels} channels of {height}×{width}"
        )
    return channels, height, width


def unit(x: Tensor) -> Tensor:
    """Return rows (M, …), flattened to (M, k) and divided by their L2 norm. Rows of zeros stay as they are."""
    return F.normalize(x.flatten(1))


@features.register("pixels")
class Pixels(Feature):
    """The record itself, as a vector of unit norm."""

    def __init__(self, inputs: tuple[int, ...]) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return unit(x)


def finite_rows(x: Tensor) -> Tensor:
    """Return rows (M, k) in which every row with a value that is not finite is zero.

    Privacy:
        A record must not decide whether a run continues, so such a record counts as zero and raises no error.
    """
    return torch.where(x.isfinite().all(dim=1, keepdim=True), x, torch.zeros_like(x))
