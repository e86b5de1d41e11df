"""The one form data take in Tacit: records and labels, for training and for testing, known to be sound."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from tacit.errors import TacitError
from tacit.registry import Registry
from tacit.tasks.data import checks
from tacit.tasks.data.checks import Array, Label, Values

Normalise = Literal["none", "unit"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled records: `x` (M, *inputs) float32, `y` (M,) int64 in 0 … classes−1, and the same for the test.

    >>> data = Dataset.from_arrays([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"], test=0.5)
    >>> data
    Dataset data: 2 records of (1,) in 2 classes, 2 for testing
    >>> Dataset.from_arrays([[0.0], [float("nan")]], [0, 1], name="my")
    Traceback (most recent call last):
    tacit.errors.TacitError: data set my: x holds 1 NaN or infinite value, first at row 1, column 0 (from 0)
    """

    name: str
    x: torch.Tensor
    y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor
    classes: int

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise self._wrong(f"there is {self.classes} class of labels; at least 2 are needed to learn")
        for part, x, y in (("", self.x, self.y), ("test_", self.test_x, self.test_y)):
            if x.dtype != torch.float32 or y.dtype != torch.int64:
                raise self._wrong(f"{part}x must be float32 and {part}y int64, not {x.dtype} and {y.dtype}")
            checks.sound(self.name, part, x.numpy(), y.numpy())
            out = (y < 0) | (y >= self.classes)
            if out.any():
                row = int(out.nonzero()[0])
                raise self._wrong(f"label {int(y[row])} at row {row} of {part}y is outside 0 … {self.classes - 1}")
        if self.x.shape[1:] != self.test_x.shape[1:]:
            here, there = tuple(self.x.shape[1:]), tuple(self.test_x.shape[1:])
            raise self._wrong(f"training records have shape {here}, test records {there}; they must agree")

    def __repr__(self) -> str:
        sizes = f"{len(self.x)} records of {self.inputs} in {self.classes} classes"
        return f"Dataset {self.name}: {sizes}, {len(self.test_x)} for testing"

    @property
    def inputs(self) -> tuple[int, ...]:
        """Shape of one record."""
        return tuple(self.x.shape[1:])

    def only(self, records: npt.NDArray[np.int64]) -> "Dataset":
        """The same with these training records alone, copied."""
        kept = torch.from_numpy(records)
        return replace(self, x=self.x[kept], y=self.y[kept])

    @classmethod
    def from_arrays(
        cls,
        x: Values,
        y: Values,
        test: float | tuple[Values, Values] = 0.2,
        seed: int = 0,
        name: str = "data",
        labels: Sequence[Label] | None = None,
    ) -> "Dataset":
        """Any arrays; `test` is a stratified share of them, or the test's own (x, y).

        Classes 0 … C−1 are the label values in sorted order, or in the order of `labels`. Sites that train
        together must give `labels`: one that lacks a class would otherwise number the rest differently.
        """
        train, train_y = checks.records(x, name, "x"), checks.array(y, name, "y")
        checks.sound(name, "", train, train_y)
        if labels is None:
            labels = np.unique(train_y).tolist()
        codes = checks.coded(train_y, labels, name, "y")
        if isinstance(test, tuple):
            held, held_y = checks.records(test[0], name, "test_x"), checks.array(test[1], name, "test_y")
            checks.sound(name, "test_", held, held_y)
            held_codes = checks.coded(held_y, labels, name, "test_y")
        else:
            from sklearn.model_selection import train_test_split  # slow to import

            checks.splittable(name, test, train_y)
            train, held, codes, held_codes = train_test_split(
                train, codes, test_size=test, random_state=seed, stratify=codes
            )
        x, y, test_x, test_y = map(torch.from_numpy, (train, codes, held, held_codes))
        return cls(name, x, y, test_x, test_y, classes=len(labels))

    def limited(self, records: int | None) -> "Dataset":
        """The first records of each class, in the data's order and proportions; the test stays whole."""
        if records is None:
            return self
        if not self.classes <= records <= len(self.y):
            wanted = f"between its {self.classes} classes and {len(self.y)} records"
            raise self._wrong(f"limit = {records} must be {wanted}")
        keep = torch.from_numpy(_first_of_each(self.y.numpy(), records))
        return replace(self, x=self.x[keep], y=self.y[keep])

    def normalised(self, how: Normalise) -> "Dataset":
        """`unit`: every record over its own L2 norm; no statistic of the data is used, so none leaks."""
        if how == "none":
            return self
        return replace(self, x=_unit(self.x), test_x=_unit(self.test_x))

    def _wrong(self, what: str) -> TacitError:
        return TacitError(f"data set {self.name}: {what}")


datasets: Registry[Dataset] = Registry("data set")


def _first_of_each(labels: Array, count: int) -> Array:
    """Indices of the `count` records that come first by place in their class over its size."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    rank = np.empty(len(labels))
    rank[order] = (np.arange(len(labels)) - starts) / np.repeat(sizes, sizes)
    return np.sort(np.argsort(rank, kind="stable")[:count])


def _unit(x: torch.Tensor) -> torch.Tensor:
    flat = x.flatten(1)
    return torch.nn.functional.normalize(flat).view_as(x)
