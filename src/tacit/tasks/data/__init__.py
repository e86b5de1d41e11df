"""Data sets: labelled records, checked on arrival, by name, from a file or from the user's arrays."""

from tacit.tasks.data import builtin, images, tables
from tacit.tasks.data.dataset import Dataset, Normalise, datasets

__all__ = ["Dataset", "Normalise", "builtin", "datasets", "images", "tables"]
