"""Training and test records of a table."""

from __future__ import annotations

from typing import NamedTuple

import torch

from tacit.errors import TacitError
from tacit.tasks.data.private_columns import PrivateColumns
from tacit.tasks.data.split import Split, is_held_out, separate
from tacit.tasks.data.table_reader import read_table
from tacit.tasks.data.table_schema import TableSchema
from tacit.tasks.data.table_source import TableSource


class TableParts(NamedTuple):
    """Training and test records of a table with their targets, how they were split, and columns to be released."""

    x: torch.Tensor
    y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor
    split: Split | None
    private: PrivateColumns | None


def table_parts(
    table: TableSource, schema: TableSchema, test: float | TableSource, seed: int, name: str, split: Split
) -> TableParts:
    """Read a table, and the test records from another one or from a share of the same records.

    The arguments are those of `Dataset.from_frame`.
    """
    train, codes, numbers = read_table(table, schema)
    if not len(train):
        raise TacitError(f"data set {name}: there are no records")
    if isinstance(test, TableSource):
        held = read_table(test, schema)
        parts, by, sides = (train, codes, held.x, held.y), None, (numbers, held.private)
    else:
        mask = is_held_out(train, codes, test, split, seed, name)
        sides = numbers[~mask], numbers[mask]
        parts, by = separate(train, codes, mask), split
    private = PrivateColumns(schema, *sides) if schema.private_columns else None
    x, y, test_x, test_y = map(torch.from_numpy, parts)
    return TableParts(x, y, test_x, test_y, by, private)
