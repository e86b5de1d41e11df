"""Labelled records for training and testing, checked when they are created."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from tacit.errors import TacitError
from tacit.privacy import Relation
from tacit.registry import Registry
from tacit.tasks.data import checks
from tacit.tasks.data.checks import Label, Values
from tacit.tasks.data.split import Split, fitting_split, is_held_out

Normalise = Literal["none", "unit"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled records: `x` (M, *inputs) float32, `y` (M,) int64 in 0 … classes−1, and the same for testing.

    Attributes:
        name: The name in reports and error messages.
        classes: The number of classes.
        declared: Whether the classes are public: given, and not learnt from the records.
        split: How test records were held out of the records; None: they were given.

    >>> Dataset.from_arrays([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"], labels=["no", "yes"])
    Dataset data: 3 records of (1,) in 2 classes, 1 for testing
    >>> Dataset.from_arrays([[0.0], [float("nan")]], [0, 1], name="my")
    Traceback (most recent call last):
    tacit.errors.TacitError: data set my: x has 1 NaN or infinite value, first at row 1, column 0 (counted from 0)
    """

    name: str
    x: torch.Tensor
    y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor
    classes: int
    declared: bool = True
    split: Split | None = None

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise self._error(f"the labels have {self.classes} class; at least 2 are needed")
        for part, x, y in (("", self.x, self.y), ("test_", self.test_x, self.test_y)):
            if x.dtype != torch.float32 or y.dtype != torch.int64:
                raise self._error(f"{part}x must be float32 and {part}y int64, got {x.dtype} and {y.dtype}")
            checks.check_records(self.name, part, x.numpy(), y.numpy())
            invalid = (y < 0) | (y >= self.classes)
            if invalid.any():
                row = int(invalid.nonzero()[0])
                raise self._error(f"the label at row {row} of {part}y is not in 0 … {self.classes - 1}")
        if not len(self.y):
            raise self._error("there are no training records; give more records, or a smaller share for testing")
        if self.x.shape[1:] != self.test_x.shape[1:]:
            train, test = tuple(self.x.shape[1:]), tuple(self.test_x.shape[1:])
            raise self._error(
                f"training records have shape {train}, test records {test}; they must have the same shape"
            )

    def __repr__(self) -> str:
        sizes = f"{len(self.x)} records of {self.inputs} in {self.classes} classes"
        return f"Dataset {self.name}: {sizes}, {len(self.test_x)} for testing"

    @property
    def inputs(self) -> tuple[int, ...]:
        """The shape of one record."""
        return tuple(self.x.shape[1:])

    def subset(self, records: npt.NDArray[np.int64]) -> "Dataset":
        """Return a data set with copies of these training records; the test set stays the same."""
        index = torch.from_numpy(records)
        return replace(self, x=self.x[index], y=self.y[index])

    @classmethod
    def from_arrays(
        cls,
        x: Values,
        y: Values,
        test: float | tuple[Values, Values] = 0.2,
        seed: int = 0,
        name: str = "data",
        labels: Sequence[Label] | None = None,
        split: Split = "content",
    ) -> "Dataset":
        """Create a data set from arrays.

        Privacy:
            A run with a guarantee needs `labels`, and test records that were given or held out by the `split` that
            fits its neighbouring relation: "content" if a record is added or removed, "index" if one is replaced.
            Then no record influences the class number or the side of another.

        Args:
            x: The records, records × features.
            y: The labels, one per record: numbers or text.
            test: The share of the records to hold out for testing (approximately), or test records and labels (x, y).
            seed: The key of the split.
            name: The name in reports and error messages.
            labels: The label values in the order of the classes 0 … C−1. None learns them from the records, in sorted
                order; then nothing can be guaranteed.
            split: What decides whether a record is held out: a digest of its "content" or of its "index".

        Raises:
            TacitError: If shapes, lengths, values or labels are not valid.
        """
        train, train_y = checks.as_records(x, name, "x"), checks.as_array(y, name, "y")
        checks.check_records(name, "", train, train_y)
        if not len(train):
            raise TacitError(f"data set {name}: there are no records")
        declared = labels is not None
        if labels is None:
            labels = np.unique(train_y).tolist()
        codes = checks.encode_labels(train_y, labels, name, "y", declared)
        if isinstance(test, tuple):
            held, held_y = checks.as_records(test[0], name, "test_x"), checks.as_array(test[1], name, "test_y")
            checks.check_records(name, "test_", held, held_y)
            held_codes = checks.encode_labels(held_y, labels, name, "test_y", declared)
        else:
            mask = is_held_out(train, train_y, test, split, seed, name)
            train, held, codes, held_codes = train[~mask], train[mask], codes[~mask], codes[mask]
        x, y, test_x, test_y = map(torch.from_numpy, (train, codes, held, held_codes))
        by = None if isinstance(test, tuple) else split
        return cls(name, x, y, test_x, test_y, classes=len(labels), declared=declared, split=by)

    def check_public_facts(self, relation: Relation) -> None:
        """Raise if the classes, or the side of a record (training or test), depend on other records.

        Neighbouring data sets under `relation` would then differ in more than one record, and no guarantee would hold.
        """
        if not self.declared:
            raise self._error(
                "the classes were learnt from the records, so no privacy can be guaranteed: declare them, with "
                "data.labels = [...] in a config or Dataset.from_arrays(x, y, labels=[...]) in Python"
            )
        if self.split not in (None, fitting := fitting_split(relation)):
            raise self._error(
                f'split = "{self.split}" does not fit the relation "{relation}", under which one record would move '
                f'others between training and test set: set split = "{fitting}", or give test records'
            )

    def normalised(self, how: Normalise) -> "Dataset":
        """Return the data with every record divided by its own L2 norm (`unit`), or unchanged (`none`).

        No statistic over several records is used, so normalising reveals nothing about other records.
        """
        if how == "none":
            return self
        return replace(self, x=_unit(self.x), test_x=_unit(self.test_x))

    def _error(self, message: str) -> TacitError:
        return TacitError(f"data set {self.name}: {message}")


datasets: Registry[Dataset] = Registry("data set")


def _unit(x: torch.Tensor) -> torch.Tensor:
    flat = x.flatten(1)
    return torch.nn.functional.normalize(flat).view_as(x)
