"""Columns that a model predicts: one class, several labels, a number or a count.

Privacy:
    A cell that is not valid must not stop a run or change the number of records, because others could observe that. It
    counts as the first label, the middle of the range, a count of 0, or a label that is not set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.tasks.data.categories import Category, check_different, positions
from tacit.tasks.data.cells import DecimalMark, numbers
from tacit.tasks.data.columns import Column, Interval, Valid, column_kinds
from tacit.tasks.target import Target

if TYPE_CHECKING:
    import pandas as pd


class TargetColumn(Column, ABC):
    """A column that a model predicts."""

    @abstractmethod
    def target_of(self, name: str) -> Target:
        """Return the target, if this is the only column that is predicted."""

    @abstractmethod
    def values(self, cells: pd.Series, decimal: DecimalMark) -> tuple[NDArray[Any], Valid]:
        """Return the targets of the records, and which cells are valid."""


@column_kinds.register("label")
@dataclass(frozen=True, kw_only=True)
class LabelColumn(TargetColumn):
    """The class of a record: `outcome = {label = ["no", "yes"]}`, in the order of the classes."""

    label: tuple[Category, ...]

    def __post_init__(self) -> None:
        check_different("label", self.label, least=2)

    def target_of(self, name: str) -> Target:
        return Target("class", self.label, name=name)

    def values(self, cells: pd.Series, decimal: DecimalMark) -> tuple[NDArray[Any], Valid]:
        found = positions(cells, self.label, decimal)
        return np.maximum(found, 0), found >= 0


@column_kinds.register("flag")
@dataclass(frozen=True, kw_only=True)
class FlagColumn(TargetColumn):
    """One of several labels that a record can have: `diabetes = {flag = ["no", "yes"]}`: not set, set.

    The label's name is that of the column. All flags of a table are predicted together.
    """

    flag: tuple[Category, ...]

    def __post_init__(self) -> None:
        check_different("flag", self.flag, least=2, most=2)

    def target_of(self, name: str) -> Target:
        return Target("labels", (name,))

    def values(self, cells: pd.Series, decimal: DecimalMark) -> tuple[NDArray[Any], Valid]:
        found = positions(cells, self.flag, decimal)
        return (found == 1).astype(np.float32), found >= 0


@column_kinds.register("target")
@dataclass(frozen=True, kw_only=True)
class NumberTargetColumn(TargetColumn):
    """A number to predict: `stay = {target = [0, 60]}`. Numbers outside the range are clamped."""

    target: Interval

    def target_of(self, name: str) -> Target:
        return Target("number", range=self.target, name=name)

    def values(self, cells: pd.Series, decimal: DecimalMark) -> tuple[NDArray[Any], Valid]:
        target = self.target_of("")
        return _encoded(target, numbers(cells, decimal), otherwise=target.middle)


@column_kinds.register("count")
@dataclass(frozen=True, kw_only=True)
class CountColumn(TargetColumn):
    """A number of events to predict: `falls = {count = [0, 20]}`. Counts outside the range are clamped."""

    count: Interval

    def __post_init__(self) -> None:
        if self.count[0] < 0:
            raise TacitError(f"count = {list(self.count)} must not be negative")

    def target_of(self, name: str) -> Target:
        return Target("count", range=self.count, name=name)

    def values(self, cells: pd.Series, decimal: DecimalMark) -> tuple[NDArray[Any], Valid]:
        return _encoded(self.target_of(""), numbers(cells, decimal), otherwise=0.0)


def _encoded(target: Target, values: NDArray[np.float64], otherwise: float) -> tuple[NDArray[np.float32], Valid]:
    valid = ~np.isnan(values)
    return target.encode(torch.from_numpy(np.where(valid, values, otherwise))).numpy(), valid
