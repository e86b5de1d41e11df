"""What a run cost, in numbers and in words: always what it is, for whom, and against whom."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.privacy.accountant import Spent
from tacit.privacy.bounded import Relation
from tacit.privacy.events import stream
from tacit.privacy.ledger import Array, Ledger
from tacit.privacy.planning import classes, guarantee

_RELATIONS = {
    "add-remove": "one record of one node added or removed",
    "replace-one": "one record of one node replaced by another",
}


@dataclass(frozen=True)
class Privacy:
    """ε of the worst node, guaranteed and as the paper claims; None says that there is none.

    >>> privacy = Privacy(guaranteed=3.02, claimed=1.0, delta=1e-4)
    >>> privacy.sentence()[:89]
    "Guaranteed ε = 3.02 at δ = 0.0001 for each record (claimed by the paper's formula: ε = 1)"
    """

    guaranteed: float | None
    claimed: float | None
    delta: float
    unit: str = "record"
    relation: Relation = "add-remove"
    adversary: str = "sees every message"
    reason: str | None = None
    per_node: Array = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`: null where there is no such ε."""
        keys = ("claimed", "guaranteed", "delta", "unit", "relation", "adversary", "reason")
        return {key: getattr(self, key) for key in keys}

    def sentence(self) -> str:
        claim = "" if self.claimed is None else f" (claimed by the paper's formula: ε = {self.claimed:.4g})"
        if self.guaranteed is None:
            return f"No privacy is guaranteed{claim}: {self.reason}."
        return (
            f"Guaranteed ε = {self.guaranteed:.4g} at δ = {self.delta:g} for each {self.unit}{claim}, "
            f"neighbouring data sets: {_RELATIONS[self.relation]}, against an adversary who {self.adversary}."
        )


def assess(ledger: Ledger, delta: float) -> tuple[Array, str | None]:
    """Each node's guaranteed ε from the ledger, and, where that is infinite, why."""
    spent = guarantee(ledger.releases(), delta)
    if ledger.unreleased:
        step, purpose = ledger.unreleased[0]
        return np.full_like(
            spent, math.inf
        ), f'"{purpose}" of step {step} was computed from the records and not released by a mechanism'
    if len(spent) and math.isinf(spent.max()):
        return spent, "values left the nodes without noise"
    return spent, None


class Meter:
    """ε so far, while a run goes on: only what is new since the last look is composed."""

    def __init__(self, ledger: Ledger, delta: float) -> None:
        self._ledger, self._delta = ledger, delta
        self._next = 0
        self._parts: list[tuple[Any, Spent]] = []

    def epsilon(self) -> float:
        if self._ledger.unreleased:
            return math.inf
        lines = list(self._ledger.releases(self._next))
        if lines and lines[0].sampling == "permutation":  # an epoch is accounted whole
            return float(guarantee(self._ledger.releases(), self._delta).max())
        if lines and not self._parts:
            self._parts = [(members, Spent(lines[0].relation)) for members in classes(lines)]
        for members, spent in self._parts:
            if lines:
                spent.add(stream(lines, members))
        self._next = lines[-1].step + 1 if lines else self._next
        return max((spent.epsilon(self._delta) for _, spent in self._parts), default=0.0)
