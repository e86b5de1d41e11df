"""Moved images."""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.tasks.augmentation.image_change import ImageChange, augmentations

_SHARE = 8  # an image moves by at most its side divided by this number


@augmentations.register("shift")
class Shift(ImageChange):
    """Move the image by up to an eighth of its side in both directions; zeros fill the rest.

    All moves by a whole number of pixels have almost the same probability: 2⁵³ is not a multiple of their number.
    """

    def apply(self, x: Tensor, bits: Tensor) -> Tensor:
        for axis in (2, 3):
            side = x.shape[axis]
            most = max(1, side // _SHARE)
            moves = 2 * most + 1
            x, bits = _moved(x, bits % moves - most, axis), bits // moves
        return x


def _moved(x: Tensor, by: Tensor, axis: int) -> Tensor:
    """Return each image moved by its number of pixels `by` (M,) along an axis."""
    side = x.shape[axis]
    shape = [-1 if k == axis else 1 for k in range(4)]
    source = torch.arange(side, device=x.device).view(shape) - by.view(-1, 1, 1, 1)
    inside = (source >= 0) & (source < side)
    return torch.where(inside, x.gather(axis, source.clamp(0, side - 1).expand(x.shape)), 0.0)
