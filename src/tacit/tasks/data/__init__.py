"""Data sets: built-in ones by name, files, and the user's arrays."""

from tacit.tasks.data import builtin, images, libsvm, user_files
from tacit.tasks.data.dataset import Dataset, Normalise, datasets
from tacit.tasks.data.files import DataFile
from tacit.tasks.data.split import Split, fitting_split

__all__ = [
    "DataFile",
    "Dataset",
    "Normalise",
    "Split",
    "builtin",
    "datasets",
    "fitting_split",
    "images",
    "libsvm",
    "user_files",
]
