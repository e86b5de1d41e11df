"""Several random copies of every image; the gradient of a record is the mean over its copies."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.privacy import Noise
from tacit.tasks.augmentation.image_change import ImageChange, augmentations
from tacit.tasks.splitmix import STEP, mixed, shifted

_UNUSED_BITS = 11  # a change gets the other 53


@dataclass(frozen=True)
class Augmentation:
    """K random copies of every image of a step.

    The gradient of a record is the mean over its copies, and this mean is clipped. So a record has the same influence
    with K copies as with one, but the direction of its gradient depends less on chance.

    Privacy:
        The copies of a record are a function of this record, its node, the step and the node's noise key. They depend
        on no other record and not on the draw. For fixed random bits, the mean over the copies is a function of one
        record, so the clipped gradients of neighbouring data sets differ as without copies: the sensitivity is
        unchanged. This holds for all bits, so it also holds for random ones, which are never sent.

    Args:
        copies: K.
        changes: The names of the changes that make a copy, in this order.

    References:
        De, Berrada, Hayes, Smith, Balle: Unlocking high-accuracy differentially private image classification, 2022.
    """

    copies: int
    changes: tuple[str, ...]
    _made: tuple[ImageChange, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise TacitError(f"augmentations must be at least 1, got {self.copies}")
        object.__setattr__(self, "_made", tuple(augmentations.build(name) for name in self.changes))

    def check(self, inputs: tuple[int, ...]) -> None:
        """Raise unless records of this shape are images."""
        if len(inputs) != 3:
            raise TacitError(
                f"batch.augmentations needs images of shape (channels, height, width), but the records have shape "
                f"{inputs}: remove batch.augmentations. Features (data.features) are computed before a copy is made"
            )

    def keys(self, noise: Noise, nodes: npt.NDArray[np.int64], step: int, records: Tensor) -> Tensor:
        """Return one key per record (n, B), for the positions `records` (n, B) in the shards of the hosted nodes.

        >>> keys = Augmentation(2, ()).keys(Noise.from_seed(0), np.array([3]), 7, torch.tensor([[4, 9]]))
        >>> alone = Augmentation(2, ()).keys(Noise.from_seed(0), np.array([3]), 7, torch.tensor([[9]]))
        >>> bool(keys[0, 1] == alone[0, 0])
        True
        """
        words = noise.words("augmentation", nodes, step, 2).to(torch.int64)
        return mixed(((words[:, :1] << 32) ^ words[:, 1:]) + STEP * (records + 1))

    def expand(self, x: Tensor, keys: Tensor) -> Tensor:
        """Return the copies (n, B, K, C, H, W) of images x (n, B, C, H, W)."""
        shape = (*keys.shape, self.copies, *x.shape[2:])
        copies = x.unsqueeze(2).expand(shape).reshape(-1, *x.shape[2:])
        number = torch.arange(self.copies, device=keys.device)
        for place, change in enumerate(self._made):
            words = mixed(keys.unsqueeze(2) + STEP * (number * len(self._made) + place + 1))
            copies = change.apply(copies, shifted(words, _UNUSED_BITS).flatten())
        return copies.view(shape)
