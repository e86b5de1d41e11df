"""Features: frozen maps that turn each record into a vector, by itself and before training."""

from tacit.tasks.features import efficientnet, gradients, scattering  # noqa: F401 (registers them)
from tacit.tasks.features.description import FeatureDescription
from tacit.tasks.features.feature_map import AppliedFeatures, FeatureMap
from tacit.tasks.features.registry import Feature, PixelScale, features

__all__ = ["AppliedFeatures", "Feature", "FeatureDescription", "FeatureMap", "PixelScale", "features"]
