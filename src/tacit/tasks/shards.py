"""Shardings: disjoint parts of the training set, one per node, determined by a seed.

Privacy:
    In a simulation the shards are the simulated world: they stand for organisations that have their records before
    Tacit runs. A guarantee is about one record of one node, with the records of all other nodes held fixed. It does
    not cover how one table was divided among the nodes:

    - `iid` and `sizes` depend on the number of records only. A *replaced* record stays at its node, and all others
      stay too. A record *added* to the table, or removed from it, moves others between nodes.
    - `classes` and `dirichlet` depend on the labels of all records, also in what they refuse: one changed label moves
      others between nodes.

    Sites do not use shardings: each loads its own records.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.privacy import Relation
from tacit.registry import Registry

Indices = NDArray[np.int64]


def check_records(parts: Sequence[Indices], nodes: Indices, *, repeats: bool = False) -> None:
    """Refuse a node without records, and shards in which a record stands twice, unless `repeats`.

    A guarantee is for records that stand in one place.
    """
    if empty := [node for node, part in zip(nodes.tolist(), parts, strict=True) if not len(part)]:
        raise TacitError(f"node {empty[0]} has no records; use fewer nodes or another sharding")
    held = np.concatenate(parts)
    if not repeats and len(np.unique(held)) < len(held):
        raise TacitError("shards overlap: every record must belong to at most one node, once")


shards: Registry[list[Indices]] = Registry("sharding", given=("labels", "features", "schema", "nodes"))
shards.describe_parameters(
    seed="Seed of the shards; by default the seed of the run.",
    records="Number of records per node; by default all records are divided.",
    sizes="Number of records of each node.",
    ratio="Size of the last shard divided by the size of the first.",
    per_node="Number of classes per node.",
    alpha="Parameter of the Dirichlet distribution.",
    min_records="Least number of records per node.",
    column="Name of a column with declared categories.",
)

STABLE_FOR: dict[str, Relation] = {
    "iid": "replace-one",
    "sizes": "replace-one",
    "digest": "add-remove",
    "column": "add-remove",
}
"""Shardings of neighbouring data sets that differ in one record only: no other record changes its node.

`iid` and `sizes` depend on the number of records, which a replaced record does not change. `digest` and `column` depend
on each record alone, so that a record that is added or removed moves no other.
"""


@shards.register("iid")
def iid(labels: Indices, nodes: int, seed: int = 0, records: int | None = None) -> list[Indices]:
    """Random shards of equal size (up to one record), or of exactly `records` records per node.

    They depend on the number of records, and not on their contents. The guarantee assumes that the nodes had these
    records: adding a record to the table before it is divided would move others between nodes.

    >>> [len(part) for part in iid(np.zeros(10, np.int64), nodes=3)]
    [4, 3, 3]
    """
    total = checked_total("iid", labels, nodes, records)
    order = np.random.default_rng(seed).permutation(total)
    return np.array_split(order if records is None else order[: nodes * records], nodes)


@shards.register("sizes")
def by_size(
    labels: Indices, nodes: int, seed: int = 0, sizes: list[int] | None = None, ratio: float | None = None
) -> list[Indices]:
    """Random shards of the given `sizes`, or of all records with sizes that grow geometrically by `ratio`.

    `ratio` is the size of the last shard divided by the size of the first. As for `iid`, shards depend on the number
    of records only, and the guarantee assumes that the nodes had these records.

    >>> [len(part) for part in by_size(np.zeros(70, np.int64), nodes=3, ratio=4)]
    [10, 20, 40]
    """
    total = checked_total("sizes", labels, nodes)
    if (sizes is None) == (ratio is None):
        raise TacitError("sharding sizes: set either sizes or ratio, not both")
    if sizes is not None:
        if len(sizes) != nodes or min(sizes) < 1 or sum(sizes) > total:
            raise TacitError(
                f"sharding sizes: sizes must be {nodes} numbers of at least 1 with a sum of at most {total}, "
                f"got {len(sizes)} numbers with minimum {min(sizes, default=0)} and sum {sum(sizes)}"
            )
        ends = np.cumsum(sizes)
    else:
        assert ratio is not None
        if not 0 < ratio < np.inf:
            raise TacitError(f"sharding sizes: ratio must be positive and finite, got {ratio}")
        ends = _cuts(np.exp(np.linspace(0, np.log(ratio), nodes)), total)
        smallest = int(np.diff(ends, prepend=0).min())
        if smallest < 1:
            raise TacitError(
                f"sharding sizes: ratio = {ratio} leaves a node without records ({total} records, {nodes} nodes); "
                "use a ratio closer to 1"
            )
    order = np.random.default_rng(seed).permutation(total)
    return np.split(order[: ends[-1]], ends[:-1])


@shards.register("classes")
def by_class(
    labels: Indices, nodes: int, seed: int = 0, per_node: int = 2, records: int | None = None
) -> list[Indices]:
    """Every node has records of `per_node` classes: all their records, or exactly `records` per node.

    Every class is assigned to the same number of nodes (up to one), so all classes are used if nodes × per_node is at
    least the number of classes. The records of a class are divided evenly among its nodes. With `records`, each node's
    records are divided evenly among its classes, and the remaining records are not used. Shards depend on the labels
    of all records: they simulate organisations that had their records before.

    >>> labels = np.repeat(np.arange(10), 6000)
    >>> parts = by_class(labels, nodes=6, per_node=6, records=4000)  # as in DP-Norm
    >>> [(len(part), len(np.unique(labels[part]))) for part in parts][:2]
    [(4000, 6), (4000, 6)]
    """
    checked_total("classes", labels, nodes, records)
    values, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if not 1 <= per_node <= len(values):
        raise TacitError(
            f"sharding classes: per_node must be 1 to {len(values)} (the number of classes), got {per_node}"
        )
    if records is not None and records < per_node:
        raise TacitError(f"sharding classes: records must be at least per_node = {per_node}, got {records}")
    rng = np.random.default_rng(seed)
    holds = np.zeros((nodes, len(values)), np.int64)
    holders = np.zeros(len(values), np.int64)
    for node in range(nodes):  # the classes with the fewest nodes so far, ties at random
        holds[node, np.argsort(holders + rng.random(len(values)))[:per_node]] = 1
        holders += holds[node]
    wanted = holds * (1 if records is None else records // per_node)
    if records is not None and (rest := records % per_node):
        spare = counts - wanted.sum(0)
        for node in range(nodes):  # the remainder comes from the classes with the most unassigned records
            extra = np.argsort(np.where(holds[node] > 0, -spare, np.inf), kind="stable")[:rest]
            wanted[node, extra] += 1
            spare[extra] -= 1
    asked = wanted.sum(0)
    if (asked > counts).any():
        worst = int((asked - counts).argmax())
        raise TacitError(
            f"sharding classes: class {values[worst]} has fewer records than the {asked[worst]} that are needed for "
            f"the {holders[worst]} of {nodes} nodes that use it; use fewer nodes or records"
        )
    owner = np.full(len(labels), -1)
    for code in range(len(values)):
        mine = rng.permutation(np.flatnonzero(codes == code))
        who = np.repeat(np.arange(nodes), wanted[:, code])
        if records is None and len(who):
            who = np.repeat(who, np.diff(_cuts(np.ones(len(who)), len(mine)), prepend=0))
        owner[mine[: len(who)]] = who
    return by_owner(owner, nodes)


@shards.register("dirichlet")
def dirichlet(labels: Indices, nodes: int, seed: int = 0, alpha: float = 0.5, min_records: int = 1) -> list[Indices]:
    """Each class is divided in proportions drawn from Dirichlet(alpha). A small alpha gives few classes per node.

    A node with fewer than `min_records` records receives random records of the largest shards. Shards depend on the
    labels of all records: they simulate organisations that had their records before.

    >>> parts = dirichlet(np.repeat(np.arange(4), 25), nodes=5, alpha=0.1, min_records=8)
    >>> sum(len(part) for part in parts), min(len(part) for part in parts) >= 8
    (100, True)
    """
    total = checked_total("dirichlet", labels, nodes)
    if not 0 < alpha < np.inf:
        raise TacitError(f"sharding dirichlet: alpha must be positive and finite, got {alpha}")
    if not 0 <= min_records <= total // nodes:
        raise TacitError(
            f"sharding dirichlet: min_records must be 0 to {total // nodes} for {total} records on {nodes} nodes, "
            f"got {min_records}"
        )
    rng = np.random.default_rng(seed)
    owner = np.empty(total, np.int64)
    for value in np.unique(labels):
        mine = rng.permutation(np.flatnonzero(labels == value))
        parts = _cuts(rng.dirichlet(np.full(nodes, alpha)), len(mine))
        owner[mine] = np.repeat(np.arange(nodes), np.diff(parts, prepend=0))
    return by_owner(_fill_small_shards(owner, nodes, min_records, rng), nodes)


def _fill_small_shards(owner: Indices, nodes: int, min_records: int, rng: np.random.Generator) -> Indices:
    """Move random records from the largest shards to those with fewer than `min_records`."""
    sizes = np.bincount(owner, minlength=nodes)
    if sizes.min() >= min_records:
        return owner
    low, high = min_records, int(sizes.max())
    while low < high:  # the largest maximum size that frees enough records
        level = (low + high + 1) // 2
        low, high = (level, high) if sizes.clip(min_records, level).sum() <= len(owner) else (low, level - 1)
    goal = sizes.clip(min_records, low)
    goal[np.flatnonzero(sizes > low)[: len(owner) - goal.sum()]] += 1
    order = rng.permutation(len(owner))
    order = order[np.argsort(owner[order], kind="stable")]
    place = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    freed = rng.permutation(order[place >= goal[owner[order]]])
    owner = owner.copy()
    owner[freed] = np.repeat(np.arange(nodes), (goal - sizes).clip(0))
    return owner


def by_owner(owner: Indices, nodes: int) -> list[Indices]:
    """Return the records of each node, in order. Records with owner −1 are not used."""
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.searchsorted(owner[order], np.arange(nodes + 1)))[1:-1]


def _cuts(weights: NDArray[np.float64], total: int) -> Indices:
    """Return the ends of consecutive parts of `total`, in proportion to the weights."""
    ends: Indices = np.rint(np.cumsum(weights) / weights.sum() * total).astype(np.int64)
    ends[-1] = total
    return ends


def checked_total(name: str, labels: Indices, nodes: int, records: int | None = None) -> int:
    """Return the number of records; raise if there are too few of them for the nodes."""
    if labels.dtype.kind == "f" and name in ("classes", "dirichlet"):
        raise TacitError(f"sharding {name} needs targets that are classes: use iid, sizes or digest")
    if labels.ndim != 1 and labels.dtype.kind != "f":
        raise TacitError(f"sharding {name}: labels must have shape (records,), got {labels.shape}")
    if nodes < 1:
        raise TacitError(f"sharding {name}: nodes must be at least 1, got {nodes}")
    if nodes > len(labels):
        raise TacitError(f"sharding {name}: nodes must be at most {len(labels)} (the number of records), got {nodes}")
    if records is not None and not 1 <= records <= len(labels) // nodes:
        raise TacitError(
            f"sharding {name}: records (per node) must be 1 to {len(labels) // nodes} for {len(labels)} records on "
            f"{nodes} nodes, got {records}"
        )
    return len(labels)
