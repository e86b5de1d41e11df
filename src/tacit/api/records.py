"""Records and labels (x, y) from what users have: arrays, tensors, data frames and torch data sets."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

from tacit.api.arguments import kind
from tacit.errors import TacitError, unknown
from tacit.tasks import Dataset

if TYPE_CHECKING:
    import pandas as pd

Values: TypeAlias = npt.ArrayLike | torch.Tensor
Records: TypeAlias = "tuple[Values, Values] | pd.DataFrame | TorchDataset[Any]"
"""Records with labels: arrays (x, y), a data frame with a target column, or a torch data set of items (x, y)."""
FORMS = "(x, y), a data frame, a torch Dataset or a tacit.Dataset"


@dataclass(frozen=True, eq=False)
class Pairs:
    """Records `x` and labels `y`, with the columns of x if it is a table."""

    x: Any
    y: Any
    columns: tuple[str, ...] | None = None

    def ordered_as(self, other: Pairs, what: str) -> Pairs:
        """Return the same records with their columns in the order of another table."""
        if self.columns is None or other.columns is None or self.columns == other.columns:
            return self
        if sorted(self.columns) != sorted(other.columns):
            raise TacitError(f"{what} must have the same columns as the first table: {', '.join(other.columns)}")
        return replace(self, x=self.x[:, [self.columns.index(name) for name in other.columns]], columns=other.columns)


def read_pairs(source: object, column: str | None, what: str = "data") -> Pairs:
    """Return the records and labels of one source; `column` is the target of a data frame.

    Integers stay integers.

    Raises:
        TacitError: The source has no known form.
    """
    if isinstance(source, Dataset):
        return _all_records(source)
    if is_frame(source):
        return _frame_pairs(source, column, what)
    if column is not None:
        raise TacitError(f'target="{column}" names a column of a data frame, but {what} is a {kind(source)}')
    if isinstance(source, DataLoader):
        raise TacitError(f"{what} is a DataLoader: pass loader.dataset; Tacit draws the batches itself (batch=)")
    if isinstance(source, IterableDataset):
        raise TacitError(f"{what} is an iterable data set ({kind(source)}), which has no length: pass a map-style one")
    if isinstance(source, TensorDataset) and len(source.tensors) == 2:
        return Pairs(*source.tensors)
    if isinstance(source, TorchDataset):
        return _item_pairs(source, what)
    if isinstance(source, tuple) and len(source) == 2:
        x, y = source
        return Pairs(_features(x, what) if is_frame(x) else x, _labels(y, what))
    raise TacitError(f"{what} must be {FORMS}, got {_form(source)}")


def is_frame(source: object) -> bool:
    """Whether this is a pandas data frame. Pandas is not imported for the answer."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(source, pandas.DataFrame)


def _form(source: object) -> str:
    return f"a tuple of {len(source)}" if isinstance(source, tuple) else kind(source)


def _all_records(data: Dataset) -> Pairs:
    """All records of a data set, with their labels as they were given."""
    x, y, target = torch.cat([data.x, data.test_x]), torch.cat([data.y, data.test_y]), data.target
    if target.kind == "class":
        return Pairs(x, np.asarray(target.labels)[y.numpy()])
    return Pairs(x, y if target.kind == "labels" else target.decode(y))


def _frame_pairs(frame: Any, column: str | None, what: str) -> Pairs:
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise TacitError(f"{what} has several columns of the same name: rename them")
    if column is None:
        raise TacitError(f'{what} is a data frame: name the column of its labels, target="COLUMN"')
    if column not in names:
        raise unknown(f"column of {what}", column, names)
    chosen = names.index(column)
    features = frame.iloc[:, [at for at in range(len(names)) if at != chosen]]
    return Pairs(_features(features, what), _labels(frame.iloc[:, chosen], what), tuple(map(str, features.columns)))


def _features(frame: Any, what: str) -> npt.NDArray[Any]:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if not (is_numeric_dtype(dtype) or is_bool_dtype(dtype)):
            raise TacitError(
                f'column "{name}" of {what} is not numeric ({dtype}): declare the columns with '
                "tacit.Dataset.from_frame(frame, columns={...}), or leave the column out"
            )
    array: npt.NDArray[Any] = frame.to_numpy()
    if array.dtype.kind == "O" and len(cells := np.argwhere(frame.isna().to_numpy())):
        row, column = cells[0]
        raise TacitError(
            f'column "{frame.columns[column]}" of {what} has a missing value, first at row {row} (counted from 0): '
            "fill it, or declare the columns with tacit.Dataset.from_frame(frame, columns={...})"
        )
    return array.astype(np.float64) if array.dtype.kind == "O" else array  # pandas' own types of numbers


def _labels(y: Any, what: str) -> Any:
    """Labels as numbers or text. Pandas stores text as Python objects."""
    if isinstance(y, torch.Tensor) or not hasattr(y, "dtype"):
        return y
    array = np.asarray(y)
    if array.dtype.kind != "O":
        return array
    if not all(isinstance(label, str) for label in array.flat):
        raise TacitError(f"the labels of {what} must all be text or all be numbers, without missing ones")
    return array.astype(str)


def _item_pairs(source: TorchDataset[Any], what: str) -> Pairs:
    """Read every item of a map-style data set once."""
    try:
        count = len(source)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        raise TacitError(f"{what} ({kind(source)}) has no length: define __len__") from None
    items = [source[at] for at in range(count)]
    for item in items:
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise TacitError(f"the items of {what} ({kind(source)}) must be pairs (x, y), got {_form(item)}")
    try:
        x = np.stack([_array(item[0]) for item in items]) if items else np.zeros((0, 1))
        return Pairs(x, np.asarray([_array(item[1]) for item in items]))
    except ValueError:
        raise TacitError(f"the records of {what} ({kind(source)}) must all have the same shape") from None


def _array(value: Any) -> npt.NDArray[Any]:
    return np.asarray(value.detach().cpu() if isinstance(value, torch.Tensor) else value)
