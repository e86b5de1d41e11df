"""What arrays must be before they count as data; every refusal says which set, which part and where."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from tacit.errors import TacitError

Array = NDArray[Any]
Values = ArrayLike | torch.Tensor
Label = str | int | float


def sound(name: str, part: str, x: Array, y: Array) -> None:
    """Refuse records and labels of odd shape, of different number, empty, or not finite."""
    if x.ndim < 2 or y.ndim != 1:
        raise TacitError(
            f"data set {name}: {part}x must be records × features and {part}y one label a record, "
            f"not of shape {x.shape} and {y.shape}"
        )
    if len(x) != len(y):
        raise TacitError(f"data set {name}: {part}x has {len(x)} records but {part}y {len(y)} labels")
    if x.size == 0:
        raise TacitError(f"data set {name}: {part}x is empty, of shape {x.shape}")
    finite(name, f"{part}x", x)
    finite(name, f"{part}y", y)


def finite(name: str, what: str, values: Array) -> None:
    """Refuse NaN and infinity, by count and first place."""
    if values.dtype.kind != "f" or (good := np.isfinite(values)).all():
        return
    places = np.argwhere(~good)
    row, *column = (int(i) for i in places[0])
    count = "1 NaN or infinite value" if len(places) == 1 else f"{len(places)} NaN or infinite values"
    at = f", column {column[0] if len(column) == 1 else tuple(column)}" if column else ""
    raise TacitError(f"data set {name}: {what} holds {count}, first at row {row}{at} (from 0)")


def splittable(name: str, test: float, y: Array) -> None:
    """Refuse a share that leaves a class without records to train on or to test on."""
    if not 0 < test < 1:
        raise TacitError(f"data set {name}: test = {test} must be a share between 0 and 1")
    values, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        raise TacitError(
            f"data set {name}: class {values[counts.argmin()]} has 1 record; "
            "to train and to test every class needs at least 2"
        )
    held = int(np.ceil(test * len(y)))
    if min(held, len(y) - held) < len(values):
        raise TacitError(
            f"data set {name}: test = {test} leaves {len(y) - held} records to train and {held} to test, "
            f"fewer than the {len(values)} classes"
        )


def array(values: Values, name: str, what: str) -> Array:
    """Numbers or text, as numpy."""
    try:
        result = np.asarray(values.detach().cpu() if isinstance(values, torch.Tensor) else values)
    except ValueError:
        raise TacitError(f"data set {name}: the rows of {what} differ in length; all must be alike") from None
    if result.dtype.kind not in "biufUS":
        raise TacitError(f"data set {name}: {what} holds {result.dtype} values; numbers are needed")
    return result


def records(values: Values, name: str, what: str) -> Array:
    """Numbers, as float32."""
    result = array(values, name, what)
    if result.dtype.kind in "US":
        raise TacitError(f"data set {name}: {what} holds text; numbers are needed")
    with np.errstate(over="ignore"):  # becomes infinite, which is refused by place
        return result.astype(np.float32)


def coded(y: Array, labels: Sequence[Label], name: str, what: str) -> Array:
    """Each label's place in `labels`.

    >>> coded(np.array(["no", "yes", "no"]), ["yes", "no"], "mine", "y")
    array([1, 0, 1])
    >>> coded(np.array([1, 7]), [0, 1], "mine", "y")
    Traceback (most recent call last):
    tacit.errors.TacitError: data set mine: label 7 at row 1 of y (from 0) is none of the labels 0, 1
    """
    known = np.asarray(labels)
    if known.ndim != 1 or len(np.unique(known)) != len(known):
        raise TacitError(f"data set {name}: labels must be a list of different values, not {labels}")
    if (known.dtype.kind in "US") == (y.dtype.kind in "US"):
        strange = np.flatnonzero(~np.isin(y, known))
    else:
        strange = np.arange(len(y))
    if len(strange):
        row = int(strange[0])
        some = ", ".join(map(str, labels[:10])) + ("…" if len(labels) > 10 else "")
        raise TacitError(
            f"data set {name}: label {y[row]} at row {row} of {what} (from 0) is none of the labels {some}"
        )
    order = np.argsort(known)
    place: Array = order[np.searchsorted(known[order], y)]
    return place.astype(np.int64)
