"""Mirror images."""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.tasks.augmentation.image_change import ImageChange, augmentations


@augmentations.register("flip")
class Flip(ImageChange):
    """Mirror the image from left to right, with probability ½."""

    def apply(self, x: Tensor, bits: Tensor) -> Tensor:
        return torch.where((bits % 2 == 1).view(-1, 1, 1, 1), x.flip(-1), x)
