"""Records that every node has already: one data set over all nodes, and the shard of each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from tacit.errors import TacitError
from tacit.tasks.data import checks
from tacit.tasks.data.checks import Values
from tacit.tasks.data.dataset import Dataset
from tacit.tasks.data.private_columns import joined_columns
from tacit.tasks.data.split import Split, is_held_out
from tacit.tasks.target import Label, Target

Shards = list[npt.NDArray[np.int64]]


def join_nodes(
    parts: Sequence[tuple[Values, Values]],
    test: float | tuple[Values, Values] = 0.2,
    seed: int = 0,
    name: str = "data",
    labels: Sequence[Label] | None = None,
    split: Split = "content",
    target: Target | None = None,
) -> tuple[Dataset, Shards]:
    """Create a data set from the records and labels (x, y) of every node, and the shards of the nodes.

    Test records are held out of all nodes' records as `Dataset.from_arrays` does it, whose arguments these are. A
    record is at the same node in neighbouring data sets.

    >>> data, shards = join_nodes([([[0.0], [1.0]], [0, 1]), ([[2.0]], [1])], test=0.0, labels=[0, 1])
    >>> data, [shard.tolist() for shard in shards]
    (Dataset data: 3 records of (1,) in 2 classes, 0 for testing, [[0, 1], [2]])
    """
    if not parts:
        raise TacitError(f"data set {name}: there are no nodes")
    pairs: list[tuple[checks.Array, checks.Array]] = []
    for node, (x, y) in enumerate(parts):
        own = f"{name} of node {node}"
        pair = checks.as_array(x, own, "x"), checks.as_array(y, own, "y")
        checks.check_records(own, "", *pair, target)
        _check_same(own, "records", pair[0].shape[1:], pairs[0][0].shape[1:] if pairs else pair[0].shape[1:])
        pairs.append(pair)
    if len({y.dtype.kind in "US" for _, y in pairs}) > 1:
        raise TacitError(f"data set {name}: some nodes have text as labels and others numbers; all must have the same")
    x, y = (np.concatenate(each) for each in zip(*pairs, strict=True))
    node_of = np.repeat(np.arange(len(pairs)), [len(each) for _, each in pairs])
    given = test if isinstance(test, tuple) else 0.0
    data = Dataset.from_arrays(x, y, given, seed, name, labels, split, target)
    if not isinstance(test, tuple):
        held = is_held_out(data.x.numpy(), y, test, split, seed, name)
        data, node_of = _hold_out(data, held), node_of[~held]
    return data, _shards(node_of, len(pairs))


def join_datasets(parts: Sequence[Dataset]) -> tuple[Dataset, Shards]:
    """Return the data set of all nodes, from one data set per node, and the shards of the nodes.

    The test records are those of all nodes together.
    """
    if not parts:
        raise TacitError("there are no nodes: give one data set per node")
    first = parts[0]
    for node, part in enumerate(parts):
        own = f"{part.name} of node {node}"
        _check_same(own, "records", part.inputs, first.inputs)
        if part.features is not None:
            raise TacitError(f"data set {own} has features: give the data sets without features, and features=[...]")
        if (part.target, part.schema, part.normalise) != (first.target, first.schema, first.normalise):
            raise TacitError(
                f"data set {own}: classes, columns or normalisation differ from those of node 0: declare the same for "
                "every node"
            )
    splits = {part.split for part in parts} - {None}
    if len(splits) > 1:
        raise TacitError(f"data set {first.name}: all nodes must hold out test records by the same split")
    x, y, test_x, test_y = (
        torch.cat([getattr(part, field) for part in parts]) for field in ("x", "y", "test_x", "test_y")
    )
    declared, split = all(part.declared for part in parts), next(iter(splits), None)
    columns = [part.private for part in parts if part.private is not None]
    private = joined_columns(columns) if columns else None
    decimal = first.decimal if len({part.decimal for part in parts}) == 1 else "both"
    joined = replace(first, x=x, y=y, test_x=test_x, test_y=test_y)
    whole = replace(joined, declared=declared, split=split, private=private, decimal=decimal)
    return whole, _shards(np.repeat(np.arange(len(parts)), [len(part.y) for part in parts]), len(parts))


def _hold_out(data: Dataset, held: npt.NDArray[np.bool_]) -> Dataset:
    is_test = torch.from_numpy(held)
    train_x, train_y, test_x, test_y = data.x[~is_test], data.y[~is_test], data.x[is_test], data.y[is_test]
    return replace(data, x=train_x, y=train_y, test_x=test_x, test_y=test_y)


def _shards(node_of: npt.NDArray[np.int64], nodes: int) -> Shards:
    """One array of record numbers per node. The records of a node stand together, in the order of the nodes."""
    ends = np.cumsum(np.bincount(node_of, minlength=nodes))
    return [np.asarray(part, np.int64) for part in np.split(np.arange(len(node_of)), ends[:-1])]


def _check_same(own: str, what: str, shape: tuple[int, ...], first: tuple[int, ...]) -> None:
    if shape != first:
        raise TacitError(f"data set {own}: {what} have shape {shape}, but those of node 0 have {first}")
