"""Augmentation multiplicity: several random copies of every image per step. One file per kind of change."""

from tacit.registry import discover
from tacit.tasks.augmentation.augmentation import Augmentation
from tacit.tasks.augmentation.image_change import ImageChange, augmentations

discover("tacit.tasks.augmentation")

__all__ = ["Augmentation", "ImageChange", "augmentations"]
