"""Checks and conversions of arrays; every error names the data set, the array and the position."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from tacit.errors import TacitError
from tacit.tasks.target import Label, Target

Array = NDArray[Any]
Values = ArrayLike | torch.Tensor


def check_records(name: str, part: str, x: Array, y: Array, target: Target | None = None) -> None:
    """Raise if records and labels have wrong shapes or different lengths, have no features or are not finite."""
    shape = () if target is None else target.shape
    if x.ndim < 2 or y.ndim < 1 or y.shape[1:] != shape:
        expected = f"(records, {shape[0]})" if shape else "(records,)"
        raise TacitError(
            f"data set {name}: {part}x must have shape (records, features, …) and {part}y {expected}, "
            f"got {x.shape} and {y.shape}"
        )
    if len(x) != len(y):
        raise TacitError(f"data set {name}: {part}x has {len(x)} records but {part}y has {len(y)} labels")
    if 0 in x.shape[1:]:
        raise TacitError(f"data set {name}: the records of {part}x have no features (shape {x.shape})")
    check_finite(name, f"{part}x", x)
    check_finite(name, f"{part}y", y)


def own_memory(values: torch.Tensor) -> torch.Tensor:
    """Return the tensor, or a copy if PyTorch would not notice that its values change.

    Norms of records are computed once, and again after a change. PyTorch counts the changes of a tensor, but not those
    of a numpy array behind it, and none of a tensor that was made in inference mode.
    """
    return values if values.untyped_storage().resizable() and not values.is_inference() else values.clone()


def check_finite(name: str, what: str, values: Array) -> None:
    """Raise if there are NaN or infinite values, with the position of the first. Their number is private."""
    if values.dtype.kind != "f" or (is_finite := np.isfinite(values)).all():
        return
    positions = np.argwhere(~is_finite)
    row, *column = (int(i) for i in positions[0])
    column_text = f", column {column[0] if len(column) == 1 else tuple(column)}" if column else ""
    raise TacitError(
        f"data set {name}: {what} has a NaN or infinite value, first at row {row}{column_text} (counted from 0)"
    )


def as_array(values: Values, name: str, what: str) -> Array:
    """Return numbers or text as a numpy array."""
    if isinstance(values, torch.Tensor) and values.layout is not torch.strided:
        raise TacitError(f"data set {name}: {what} is a sparse tensor: pass {what}.to_dense()")
    if type(values).__module__.startswith("scipy.sparse"):
        raise TacitError(f"data set {name}: {what} is a sparse matrix: pass {what}.toarray()")
    try:
        result = np.asarray(values.detach().cpu() if isinstance(values, torch.Tensor) else values)
    except ValueError:
        raise TacitError(f"data set {name}: the rows of {what} must have the same length") from None
    if result.dtype.kind not in "biufUS":
        raise TacitError(f"data set {name}: {what} must contain numbers, got {result.dtype} values")
    return result


def as_records(values: Values, name: str, what: str) -> Array:
    """Return numbers as a float32 array."""
    result = as_array(values, name, what)
    if result.dtype.kind in "US":
        raise TacitError(f"data set {name}: {what} must contain numbers, got text")
    with np.errstate(over="ignore"):  # too large numbers become infinite, which check_finite reports
        return result.astype(np.float32)


def as_tokens(values: Values, name: str, what: str) -> Array:
    """Return integers as an int64 array."""
    result = as_array(values, name, what)
    if result.dtype.kind not in "iu":
        raise TacitError(
            f"data set {name}: {what} must contain integers, as tokens=True is set; got {result.dtype} values"
        )
    return result.astype(np.int64)


def encode_labels(y: Array, labels: Sequence[Label], name: str, what: str, declared: bool = True) -> Array:
    """Return the position of each label in `labels`. Errors name a row, and never its label.

    Args:
        y: The labels of the records.
        labels: The label values, in the order of the classes.
        name: The name of the data set.
        what: The name of the array.
        declared: Whether the label values are public, so that errors can list them.

    >>> encode_labels(np.array(["no", "yes", "no"]), ["yes", "no"], "mine", "y")
    array([1, 0, 1])
    >>> encode_labels(np.array([1, 7]), [0, 1], "mine", "y")
    Traceback (most recent call last):
    tacit.errors.TacitError: data set mine: the label at row 1 of y (counted from 0) is not one of the labels 0, 1
    """
    if (row := first_unlisted(y, labels)) is not None:
        listed = listing(labels) if declared else "that y has"
        raise TacitError(
            f"data set {name}: the label at row {row} of {what} (counted from 0) is not one of the labels {listed}"
        )
    if not len(y):
        return np.zeros(0, np.int64)
    known = np.asarray(labels)
    order = np.argsort(known)
    positions: Array = order[np.searchsorted(known[order], y)]
    return positions.astype(np.int64)


def class_target(labels: Sequence[Label], name: str) -> Target:
    """Return the target with these classes."""
    known = np.asarray(labels)
    if known.ndim != 1 or len(np.unique(known)) != len(known):
        raise TacitError(f"data set {name}: labels must be a list of different values, got {labels}")
    if len(labels) < 2:
        raise TacitError(f"data set {name}: the labels have {len(labels)} class; at least 2 are needed")
    return Target("class", tuple(labels))


def encode_targets(y: Array, target: Target, name: str, what: str, declared: bool = True) -> Array:
    """Return values in the unit of the records as targets: class numbers, 0 and 1, or encoded numbers."""
    if target.kind == "class":
        return encode_labels(y, target.labels, name, what, declared)
    if y.dtype.kind in "US":
        raise TacitError(f"data set {name}: {what} must contain numbers, got text")
    if target.kind != "labels":
        return target.encode(torch.from_numpy(y.astype(np.float64))).numpy()
    if len(rows := np.argwhere((y != 0) & (y != 1))):
        raise TacitError(f"data set {name}: row {rows[0, 0]} of {what} (counted from 0) must contain 0 and 1 only")
    return y.astype(np.float32)


def first_unlisted(y: Array, labels: Sequence[Label]) -> int | None:
    """Return the row of the first label that is not in `labels`. Text is never equal to a number."""
    known = np.asarray(labels)
    same_kind = (known.dtype.kind in "US") == (y.dtype.kind in "US")
    unlisted = np.flatnonzero(~np.isin(y, known)) if same_kind else np.arange(len(y))
    return int(unlisted[0]) if len(unlisted) else None


def listing(labels: Sequence[Label]) -> str:
    """Return the first labels in words."""
    return ", ".join(map(str, labels[:10])) + ("…" if len(labels) > 10 else "")
