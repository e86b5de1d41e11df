"""The contract of a random change of an image, and the registry of all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from tacit.registry import Registry


class ImageChange(ABC):
    """A random change of an image, such as a flip.

    Privacy:
        A changed image must be a function of this image and of its own random bits only, and must not be longer (L2
        norm) than the image.
    """

    @abstractmethod
    def apply(self, x: Tensor, bits: Tensor) -> Tensor:
        """Return the changed images, for x (M, C, H, W) and one random number in [0, 2⁵³) per image, (M,)."""


augmentations: Registry[ImageChange] = Registry("augmentation")
