"""Data sets: built-in ones by name, files, and the user's arrays."""

from tacit.tasks.data import builtin, images, tables
from tacit.tasks.data.dataset import Dataset, Normalise, datasets
from tacit.tasks.data.files import DataFile

__all__ = ["DataFile", "Dataset", "Normalise", "builtin", "datasets", "images", "tables"]
