"""Clip norms: how a gradient is scaled down to a bound. One file per norm; every module here is imported."""

from tacit.registry import discover
from tacit.tasks.clipping.clip_norm import ClipNorm, clip_norms, vector_norms

discover("tacit.tasks.clipping")

__all__ = ["ClipNorm", "clip_norms", "vector_norms"]
