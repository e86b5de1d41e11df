"""The data of `tacit.train`: a name, or the user's records as a `Dataset`, with shards if every node has its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from tacit.api.arguments import kind
from tacit.api.records import FORMS, Pairs, Records, is_frame, read_pairs
from tacit.errors import TacitError
from tacit.tasks import Dataset, Label, Split, Target, join_datasets, join_nodes

Data: TypeAlias = "str | Dataset | Records | list[Dataset] | list[Records]"
Test: TypeAlias = "float | Dataset | Records"
Shards: TypeAlias = list[npt.NDArray[np.int64]]
_OWN = {"target": "target", "labels": "classes", "test": "test records"}
_SHARE = 0.2  # of the records, held out for testing


class UserData(NamedTuple):
    """The data set of a run, and the shards if the data were given per node; None: the config names them."""

    data: Dataset | None
    shards: Shards | None


def adapt_data(
    data: Data, target: str | Target | None, labels: Sequence[Label] | None, test: Test | None, split: Split
) -> UserData:
    """Return the data that were given as objects. Test records are held out by `split`, unless they are given.

    Raises:
        TacitError: The data have no known form, or their records are not valid.
    """
    if isinstance(data, str | Dataset) or _are_datasets(data):
        _refuse_declarations(data, target=target, labels=labels, test=test)
        if isinstance(data, list):
            return UserData(*join_datasets(data))
        return UserData(data if isinstance(data, Dataset) else None, None)
    if target is not None and not isinstance(target, str | Target):
        raise TacitError(f"target must be the name of a column or a tacit.Target, got {kind(target)}")
    column = target if isinstance(target, str) else (target.name or None if target else None)
    how: dict[str, Any] = {"labels": labels, "split": split, "target": target if isinstance(target, Target) else None}
    if isinstance(data, list):
        nodes = _node_pairs(data, column)
        how["test"] = _held_out(test, column, nodes[0])
        return UserData(*join_nodes([(pairs.x, pairs.y) for pairs in nodes], **how))
    pairs = read_pairs(data, column)
    return UserData(Dataset.from_arrays(pairs.x, pairs.y, _held_out(test, column, pairs), **how), None)


def _are_datasets(data: object) -> bool:
    return isinstance(data, list) and bool(data) and all(isinstance(part, Dataset) for part in data)


def _refuse_declarations(data: object, **given: object) -> None:
    for argument, value in given.items():
        if value is None:
            continue
        if isinstance(data, str):
            raise TacitError(f'{argument}= is for your own records; the data set "{data}" is declared completely')
        raise TacitError(f"a Dataset has its own {_OWN[argument]}: remove {argument}=, or set it where it is created")


def _node_pairs(data: Sequence[object], column: str | None) -> list[Pairs]:
    if not data:
        raise TacitError("data is an empty list: give one (x, y) per node")
    nodes: list[Pairs] = []
    for node, part in enumerate(data):
        if isinstance(part, Dataset):
            raise TacitError("data has a tacit.Dataset for some nodes and other records for others: use one form")
        if not (isinstance(part, tuple | TorchDataset | DataLoader) or is_frame(part)):
            raise TacitError(
                f"a list of data has one entry per node, and entry {node} must be {FORMS}, got {kind(part)}: for "
                "records without nodes, pass the tuple (x, y)"
            )
        pairs = read_pairs(part, column, f"data of node {node}")
        nodes.append(pairs.ordered_as(nodes[0], f"data of node {node}") if nodes else pairs)
    return nodes


def _held_out(test: Test | None, column: str | None, train: Pairs) -> float | tuple[Any, Any]:
    if test is None:
        return _SHARE
    if isinstance(test, bool | str | list):
        raise TacitError(f"test must be a share in [0, 1), {FORMS}, got {kind(test)}")
    if isinstance(test, int | float):
        return float(test)
    pairs = read_pairs(test, column, "test").ordered_as(train, "test")
    return pairs.x, pairs.y
