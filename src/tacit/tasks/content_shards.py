"""Shardings in which the node of a record depends on this record alone.

Privacy:
    A record that is added or removed moves no other record, so neighbouring data sets have neighbouring shards.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.tasks.data import CategoryColumn, TableSchema
from tacit.tasks.shards import Indices, by_owner, checked_total, shards


@shards.register("digest")
def by_digest(labels: Indices, features: NDArray[np.float32], nodes: int, seed: int = 0) -> list[Indices]:
    """Each record at a node that depends on this record alone: a digest of its features and label, keyed by the seed.

    Sizes are random. Identical records have the same node.

    >>> features = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    >>> [len(part) for part in by_digest(np.zeros(60, np.int64), features, nodes=3)]
    [18, 21, 21]
    """
    checked_total("digest", labels, nodes)
    return by_owner(_digest_owner(labels, features, nodes, seed), nodes)


def _digest_owner(labels: Indices, features: NDArray[np.float32], nodes: int, seed: int) -> Indices:
    """The node of each record by a keyed digest of its content."""
    key = seed.to_bytes(8, "little")
    content = features.reshape(len(labels), -1) + np.float32(0)  # −0 is 0
    digests = [
        blake2b(row.tobytes() + label.tobytes(), digest_size=8, key=key).digest()
        for row, label in zip(content, labels, strict=True)
    ]
    return (np.frombuffer(b"".join(digests), "<u8") % np.uint64(nodes)).astype(np.int64)


@shards.register("column")
def by_column(
    labels: Indices, features: NDArray[np.float32], schema: TableSchema | None, nodes: int, column: str, seed: int = 0
) -> list[Indices]:
    """Each record at the node of its category in `column`, such as a department: one node per declared category.

    Node k has the records with category k. A record whose cell is missing is at the node of a digest of its content,
    keyed by the seed.
    """
    declared = None if schema is None else schema.input_columns.get(column)
    if schema is None or not isinstance(declared, CategoryColumn):
        raise TacitError(f'sharding column: "{column}" must be a column of a table that is declared with categories')
    if len(declared.categories) != nodes:
        raise TacitError(
            f"sharding column: {column} has {len(declared.categories)} categories, and the graph {nodes} nodes: set "
            f"graph.nodes = {len(declared.categories)}"
        )
    checked_total("column", labels, nodes)
    first = schema.features.index(declared.features(column)[0])
    chosen = features[:, first : first + nodes]
    owner = np.where(chosen.any(1), chosen.argmax(1), _digest_owner(labels, features, nodes, seed))
    return by_owner(owner.astype(np.int64), nodes)
