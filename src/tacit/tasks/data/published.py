"""Published data sets: their classes, their fixed split and their first records are public constants.

Privacy:
    The files are public and their digests are verified, so the parts that are taken of them are constants, like the
    files themselves. They are never computed again for a neighbouring data set: a guarantee on a published data set
    is about its training records with the split held fixed. For a user's records, which have no such constant, these
    functions would let one record move others; no part of Tacit applies them there.
"""

from collections.abc import Sequence

import numpy as np
import torch

from tacit.errors import TacitError
from tacit.tasks.data import checks
from tacit.tasks.data.checks import Array
from tacit.tasks.data.dataset import Dataset, datasets
from tacit.tasks.data.normalising import Normalise
from tacit.tasks.target import Label, Target

_TEST_SHARE = 0.2

datasets.describe_parameters(
    limit="Number of training records to use, the first ones of each class; by default all.",
    normalise='"unit" divides every record by its own L2 norm; "none" leaves records as they are.',
)


def with_fixed_split(x: Array, y: Array, name: str, labels: Sequence[Label]) -> Dataset:
    """Return a published data set with the 20 % held out that all published numbers use: stratified, seed 0."""
    from sklearn.model_selection import train_test_split  # slow to import

    records, codes = checks.as_records(x, name, "x"), checks.encode_labels(y, labels, name, "y")
    parts = train_test_split(records, codes, test_size=_TEST_SHARE, random_state=0, stratify=codes)
    train, test, train_y, test_y = map(torch.from_numpy, parts)
    return Dataset(name, train, train_y, test, test_y, target=Target.of_classes(len(labels)))


def prepared(data: Dataset, limit: int | None, normalise: Normalise) -> Dataset:
    """Return the first `limit` records of a published data set, with every record normalised."""
    return (data if limit is None else limited(data, limit)).normalised(normalise)


def limited(data: Dataset, records: int) -> Dataset:
    """Return the first records of each class, in their order and proportions; the test set stays the same."""
    if not data.classes <= records <= len(data.y):
        valid = f"{data.classes} (the number of classes) to {len(data.y)} (the number of records)"
        raise TacitError(f"data set {data.name}: limit must be {valid}, got {records}")
    return data.subset(_first_of_each_class(data.y.numpy(), records))


def _first_of_each_class(labels: Array, count: int) -> Array:
    """Return the indices of the `count` records with the lowest position in their class relative to its size."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    rank = np.empty(len(labels))
    rank[order] = (np.arange(len(labels)) - starts) / np.repeat(sizes, sizes)
    return np.sort(np.argsort(rank, kind="stable")[:count])
