"""The results of a threat analysis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.privacy import Adversary, Relation
from tacit.runs import finite_or_none
from tacit.threats.rounds import Array


@dataclass(frozen=True)
class AdversaryBound:
    """ε against one adversary.

    `epsilon` holds for every `unit` (record or node) that the adversary does not control; None: no guarantee.
    `worst_node` is the node for which ε is largest; None if the adversary controls all nodes. `title` describes
    the adversary, `reason` explains the bound.
    """

    adversary: Adversary
    epsilon: float | None
    delta: float
    unit: str
    relation: Relation
    worst_node: int | None
    reason: str
    title: str

    def as_dict(self) -> dict[str, Any]:
        """A JSON object for `--json` and threats.json."""
        return {
            "adversary": self.title,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": self.unit,
            "relation": self.relation,
            "worst_node": self.worst_node,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class ThreatAnalysis:
    """The bound against each adversary.

    `pairs` (n, n) has ε for a record of the row's node against the column's node, NaN on the diagonal; None if
    no pair is known to have a smaller ε than the eavesdropper. `note` states what the smaller bounds rely on. With
    paired noise, `against_colluders` has ε against 0, 1, … n − 1 colluders beside the eavesdropper.
    """

    bounds: tuple[AdversaryBound, ...]
    pairs: Array | None
    note: str | None
    against_colluders: list[float] | None = None

    def as_dict(self) -> dict[str, Any]:
        """A JSON object for `--json` and threats.json."""
        rows = None if self.pairs is None else [[finite_or_none(cell) for cell in row] for row in self.pairs.tolist()]
        curve = {} if self.against_colluders is None else {"against_colluders": self.against_colluders}
        return {"bounds": [bound.as_dict() for bound in self.bounds], "pairs": rows, "note": self.note, **curve}
