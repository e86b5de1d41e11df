"""Who holds which records: disjoint shares of the training set, one a node, the same for the same seed."""

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.registry import Registry

Indices = NDArray[np.int64]

shards: Registry[list[Indices]] = Registry("sharding", given=("labels", "nodes"))


@shards.register("iid")
def iid(labels: Indices, nodes: int, seed: int = 0, records: int | None = None) -> list[Indices]:
    """Records dealt at random, the same number to every node (give or take one), or exactly `records` each.

    >>> [len(part) for part in iid(np.zeros(10, np.int64), nodes=3)]
    [4, 3, 3]
    """
    total = _total("iid", labels, nodes, records)
    order = np.random.default_rng(seed).permutation(total)
    return np.array_split(order if records is None else order[: nodes * records], nodes)


@shards.register("sizes")
def by_size(
    labels: Indices, nodes: int, seed: int = 0, sizes: list[int] | None = None, ratio: float | None = None
) -> list[Indices]:
    """Records dealt at random in given `sizes`, or all of them in sizes growing geometrically by `ratio`.

    `ratio` is the last node's size over the first's.

    >>> [len(part) for part in by_size(np.zeros(70, np.int64), nodes=3, ratio=4)]
    [10, 20, 40]
    """
    total = _total("sizes", labels, nodes)
    if (sizes is None) == (ratio is None):
        raise TacitError("sharding sizes needs either sizes or ratio, and not both")
    if sizes is not None:
        if len(sizes) != nodes or min(sizes) < 1 or sum(sizes) > total:
            raise TacitError(
                f"sharding sizes: {nodes} sizes of at least 1 and at most {total} in all are needed, "
                f"not {len(sizes)} with smallest {min(sizes, default=0)} and sum {sum(sizes)}"
            )
        ends = np.cumsum(sizes)
    else:
        assert ratio is not None
        if not 0 < ratio < np.inf:
            raise TacitError(f"sharding sizes: ratio must be above 0 and finite, not {ratio}")
        ends = _cuts(np.exp(np.linspace(0, np.log(ratio), nodes)), total)
        smallest = int(np.diff(ends, prepend=0).min())
        if smallest < 1:
            raise TacitError(f"sharding sizes: ratio = {ratio} over {nodes} nodes leaves one with no record of {total}")
    order = np.random.default_rng(seed).permutation(total)
    return np.split(order[: ends[-1]], ends[:-1])


@shards.register("classes")
def by_class(
    labels: Indices, nodes: int, seed: int = 0, per_node: int = 2, records: int | None = None
) -> list[Indices]:
    """Every node holds `per_node` of the classes, and all their records or exactly `records`.

    Classes are dealt so that each has as many holders as any other, give or take one: where nodes × per_node
    reaches the number of classes, every class is held. A class is shared evenly by its holders; with
    `records`, each node has its number spread evenly over its classes, and the others go unused.

    >>> labels = np.repeat(np.arange(10), 6000)
    >>> parts = by_class(labels, nodes=6, per_node=6, records=4000)  # as in DP-Norm
    >>> [(len(part), len(np.unique(labels[part]))) for part in parts][:2]
    [(4000, 6), (4000, 6)]
    """
    _total("classes", labels, nodes, records)
    values, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if not 1 <= per_node <= len(values):
        raise TacitError(f"sharding classes: per_node must be between 1 and the {len(values)} classes, not {per_node}")
    if records is not None and records < per_node:
        raise TacitError(f"sharding classes: {records} records a node cannot hold {per_node} classes")
    rng = np.random.default_rng(seed)
    holds = np.zeros((nodes, len(values)), np.int64)
    holders = np.zeros(len(values), np.int64)
    for node in range(nodes):  # the classes with fewest holders so far, ties at random
        holds[node, np.argsort(holders + rng.random(len(values)))[:per_node]] = 1
        holders += holds[node]
    wanted = holds * (1 if records is None else records // per_node)
    if records is not None and (rest := records % per_node):
        spare = counts - wanted.sum(0)
        for node in range(nodes):  # what does not divide comes from the classes with most to spare
            extra = np.argsort(np.where(holds[node] > 0, -spare, np.inf), kind="stable")[:rest]
            wanted[node, extra] += 1
            spare[extra] -= 1
    asked = wanted.sum(0)
    if (asked > counts).any():
        worst = int((asked - counts).argmax())
        raise TacitError(
            f"sharding classes: class {values[worst]} has {counts[worst]} records, but those that hold it "
            f"({holders[worst]} of {nodes} nodes) need {asked[worst]}; ask for fewer nodes or records"
        )
    owner = np.full(len(labels), -1)
    for code in range(len(values)):
        mine = rng.permutation(np.flatnonzero(codes == code))
        who = np.repeat(np.arange(nodes), wanted[:, code])
        if records is None and len(who):
            who = np.repeat(who, np.diff(_cuts(np.ones(len(who)), len(mine)), prepend=0))
        owner[mine[: len(who)]] = who
    return _by_owner(owner, nodes)


@shards.register("dirichlet")
def dirichlet(labels: Indices, nodes: int, seed: int = 0, alpha: float = 0.5, min_records: int = 1) -> list[Indices]:
    """Each class is shared out in proportions drawn from Dirichlet(alpha): small alpha, few classes a node.

    A node drawn fewer than `min_records` gets the missing ones, at random, from the nodes that have most.

    >>> parts = dirichlet(np.repeat(np.arange(4), 25), nodes=5, alpha=0.1, min_records=8)
    >>> sum(len(part) for part in parts), min(len(part) for part in parts) >= 8
    (100, True)
    """
    total = _total("dirichlet", labels, nodes)
    if not 0 < alpha < np.inf:
        raise TacitError(f"sharding dirichlet: alpha must be above 0 and finite, not {alpha}")
    if not 0 <= min_records <= total // nodes:
        raise TacitError(
            f"sharding dirichlet: min_records = {min_records} must be between 0 and, for {total} records on "
            f"{nodes} nodes, {total // nodes}"
        )
    rng = np.random.default_rng(seed)
    owner = np.empty(total, np.int64)
    for value in np.unique(labels):
        mine = rng.permutation(np.flatnonzero(labels == value))
        parts = _cuts(rng.dirichlet(np.full(nodes, alpha)), len(mine))
        owner[mine] = np.repeat(np.arange(nodes), np.diff(parts, prepend=0))
    return _by_owner(_topped_up(owner, nodes, min_records, rng), nodes)


def _topped_up(owner: Indices, nodes: int, least: int, rng: np.random.Generator) -> Indices:
    """Cut the largest shards to one level, and deal what is cut to those that have fewer than `least`."""
    sizes = np.bincount(owner, minlength=nodes)
    if sizes.min() >= least:
        return owner
    low, high = least, int(sizes.max())
    while low < high:  # the highest level that frees enough
        level = (low + high + 1) // 2
        low, high = (level, high) if sizes.clip(least, level).sum() <= len(owner) else (low, level - 1)
    goal = sizes.clip(least, low)
    goal[np.flatnonzero(sizes > low)[: len(owner) - goal.sum()]] += 1
    order = rng.permutation(len(owner))
    order = order[np.argsort(owner[order], kind="stable")]
    place = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    freed = rng.permutation(order[place >= goal[owner[order]]])
    owner = owner.copy()
    owner[freed] = np.repeat(np.arange(nodes), (goal - sizes).clip(0))
    return owner


def _by_owner(owner: Indices, nodes: int) -> list[Indices]:
    """The records of each node, in order; those of owner −1 are nobody's."""
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.searchsorted(owner[order], np.arange(nodes + 1)))[1:-1]


def _cuts(weights: NDArray[np.float64], total: int) -> Indices:
    """Ends of consecutive parts of `total`, in proportion to the weights."""
    ends: Indices = np.rint(np.cumsum(weights) / weights.sum() * total).astype(np.int64)
    ends[-1] = total
    return ends


def _total(name: str, labels: Indices, nodes: int, records: int | None = None) -> int:
    """How many records there are, if they go round."""
    if labels.ndim != 1:
        raise TacitError(f"sharding {name}: labels must be one a record, not of shape {labels.shape}")
    if nodes < 1:
        raise TacitError(f"sharding {name}: nodes must be at least 1, not {nodes}")
    if nodes > len(labels):
        raise TacitError(f"sharding {name}: {nodes} nodes are more than the {len(labels)} records")
    if records is not None and not 1 <= records <= len(labels) // nodes:
        raise TacitError(
            f"sharding {name}: records = {records} a node must be between 1 and, for {len(labels)} records "
            f"on {nodes} nodes, {len(labels) // nodes}"
        )
    return len(labels)
