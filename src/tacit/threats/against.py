"""The ε of a run against each adversary: what is proven for its view, or the bound for all messages if that is less."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.privacy.bounded import Relation
from tacit.privacy.ledger import Array, Release
from tacit.privacy.planning import plan
from tacit.privacy.statement import Privacy
from tacit.threats.costs import costs, shown
from tacit.threats.mixing import WORK, Ints, Mixing, mixing
from tacit.threats.models import Eavesdropper, ModelHolder, Neighbour, Threat

if TYPE_CHECKING:
    from tacit.runs import Run

PAIRS = 64  # nodes of the largest network for which every pair is looked at
_ALL = "it sees every message"
_LESS = "mixing hides part of what it does not hear"
_SHOWN = "what it does not hear can be worked out from what it is given"
_NOTE = (
    "Bounds below that of one who sees every message count on the noise of other nodes too: a node that leaves it out, "
    "or tells it, is to be counted among the colluding ones. They are proven for arithmetic without rounding errors."
)
_TOO_MANY = f"pairs are looked at in networks of at most {PAIRS} nodes that soon repeat"


@dataclass(frozen=True)
class Against:
    """ε against one adversary for the worst-off `unit` not its own, at node `victim`; None: nothing is guaranteed."""

    threat: Threat
    epsilon: float | None
    delta: float
    unit: str
    relation: Relation
    victim: int | None
    why: str
    adversary: str

    def as_dict(self) -> dict[str, Any]:
        """For `--json` and the report."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "threat"}


@dataclass(frozen=True)
class Assessment:
    """What holds against each adversary; `pairs` (n, n) has ε for a record of the row's node against the column's.

    `pairs` is None where that is not known to differ from the bound for all messages; on its diagonal it is not a
    number. `note` says what the bounds below that one count on.
    """

    against: tuple[Against, ...]
    pairs: Array | None
    note: str | None

    def as_dict(self) -> dict[str, Any]:
        rows = None if self.pairs is None else [[_number(cell) for cell in row] for row in self.pairs.tolist()]
        return {"against": [each.as_dict() for each in self.against], "pairs": rows, "note": self.note}


@dataclass(frozen=True)
class _Known:
    """The bound for all messages of the nodes hosted here, and the rounds, or why nothing better follows from them."""

    privacy: Privacy
    nodes: Ints
    rounds: Mixing | str

    @property
    def plain(self) -> Array:
        return self.privacy.per_node


def assess(run: Run, *, threats: Sequence[Threat] = (), planned: bool = False) -> Assessment:
    """The usual adversaries and the given `threats`, for what a run has released, or for all that it plans to.

    >>> from tacit.runs import Config, from_config
    >>> graph = {"name": "one-peer-exponential", "nodes": 8}
    >>> run = from_config(Config.parse({"rounds": 30, "graph": graph, "privacy": {"epsilon": 2.0}}))
    >>> found = assess(run, planned=True)
    >>> for each in found.against:
    ...     print(f"{each.adversary}: ε = {each.epsilon:.2f}")
    an eavesdropper on all links: ε = 2.00
    any one node: ε = 2.00
    who holds the mean of the final models: ε = 1.56
    who holds all final models: ε = 1.59
    >>> found.pairs.round(2)[0]  # a record of node 0, against each other node
    array([ nan, 1.65, 1.78, 1.65, 2.  , 1.65, 1.78, 1.65])
    """
    for threat in threats:
        threat.check(run.network.graph.nodes)
    known, several = _known(run, planned), run.network.graph.nodes > 1
    pairs = _pairs(known) if several else _ALL
    asked = [ModelHolder("mean"), ModelHolder("all"), *threats]
    found = [_against(known, Eavesdropper())]
    found += [_any_node(known, pairs)] if several else []
    found += [_against(known, threat) for threat in asked]
    table = None if isinstance(pairs, str) else pairs
    less = table is not None or any(each.why == _LESS for each in found)
    return Assessment(tuple(found), table, _NOTE if less else None)


def against(run: Run, threat: Threat, *, planned: bool = False) -> Against:
    """The ε of a run against one adversary."""
    threat.check(run.network.graph.nodes)
    return _against(_known(run, planned), threat)


def _known(run: Run, planned: bool) -> _Known:
    privacy = run.planned() if planned else run.privacy
    lines: list[Release] = (
        plan(run.algorithm.privacy, run.rounds, run.algorithm.privacy.sampling(run.task), run.task.nodes)
        if planned
        else list(run.task.ledger.releases())
    )
    spread = len(privacy.per_node) > run.task.n  # over processes, each of which knows what all have spent
    nodes = np.arange(run.network.graph.nodes) if spread else run.task.nodes
    if privacy.reason or not lines or not np.isfinite(privacy.per_node).all():
        return _Known(privacy, nodes, privacy.reason or "nothing was released")
    return _Known(privacy, nodes, mixing(run.algorithm, run.task, run.network.graph, lines))


def _against(known: _Known, threat: Threat) -> Against:
    others = np.flatnonzero(~np.isin(known.nodes[: len(known.plain)], threat.controls))
    if isinstance(threat, Eavesdropper) or not len(others):
        return _stated(known, threat, others, known.plain[others], _ALL)
    if isinstance(known.rounds, str):
        return _stated(known, threat, others, known.plain[others], known.rounds)
    leverages = shown(known.rounds, threat)[:, others]
    found = _stated(known, threat, others, _bound(known, others, leverages), _LESS)
    open_ = (leverages[:, others == found.victim] == 1).all()
    return replace(found, why=_SHOWN) if open_ else found


def _stated(known: _Known, threat: Threat, rows: Ints, spent: Array, why: str) -> Against:
    """For the node that is worst off among those in the given rows, to which `spent` belongs."""
    privacy = known.privacy
    worst = _number(float(spent.max(initial=0.0))) if privacy.reason is None else None
    victim, why = int(known.nodes[rows[spent.argmax()]]) if len(spent) else None, privacy.reason or why
    return Against(threat, worst, privacy.delta, privacy.unit, privacy.relation, victim, why, threat.title)


def _bound(known: _Known, nodes: Ints, leverages: Array) -> Array:
    """The lesser of both bounds for a record of each of the nodes, whose leverages are the columns (kinds, …)."""
    assert isinstance(known.rounds, Mixing)
    spent = known.plain[nodes]
    less = np.flatnonzero((leverages < 1).any(axis=0))
    if len(less):
        spent[less] = np.minimum(spent[less], costs(known.rounds, nodes[less], leverages[:, less], known.privacy.delta))
    return spent


def _pairs(known: _Known) -> Array | str:
    """ε for every pair of nodes, or why it is the bound for all messages."""
    nodes, rounds = len(known.plain), known.rounds
    if isinstance(rounds, str):
        return rounds
    if nodes > PAIRS or len(rounds.kinds) * nodes**4 > WORK:
        return _TOO_MANY
    if (shown(rounds, ModelHolder("all")) == 1).all():  # part of what every node is given
        return _SHOWN
    leverages = np.stack([shown(rounds, Neighbour(node)) for node in range(nodes)], axis=2)  # kinds × whose × who
    others = ~np.eye(nodes, dtype=bool)
    if (leverages[:, others] == 1).all():
        return _SHOWN
    pairs = np.full((nodes, nodes), math.nan)
    pairs[others] = _bound(known, np.nonzero(others)[0], leverages[:, others])
    return pairs


def _any_node(known: _Known, pairs: Array | str) -> Against:
    """Whichever node is the worst to have for an adversary."""
    if isinstance(pairs, str):
        found = _stated(known, Neighbour(0), np.arange(len(known.plain)), known.plain, pairs)
        return replace(found, threat=Neighbour(int(found.victim == 0)), adversary="any one node")
    whose, who = (int(at) for at in np.unravel_index(np.nanargmax(pairs), pairs.shape))
    why = _LESS if pairs[whose, who] < known.plain[whose] else _SHOWN
    worst = f"{why}; node {who} is the worst, for a record of node {whose}"
    found = _stated(known, Neighbour(who), np.array([whose]), pairs[whose, [who]], worst)
    return replace(found, adversary="any one node")


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
