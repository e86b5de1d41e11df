"""What a run cost, in numbers and in words: always what it is, for whom, and against whom."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any, Literal

import numpy as np

from tacit.privacy.accounting import guarantee
from tacit.privacy.ledger import Ledger
from tacit.privacy.release import Array
from tacit.privacy.sampling import Relation

_RELATIONS = {
    "add-remove": "one record of one node added or removed, how many records each node is said to hold being public",
    "replace-one": "one record of one node replaced by another",
}
_NODES = "all the data of one node replaced by any other"


@dataclass(frozen=True)
class Privacy:
    """ε of the worst node, guaranteed and as the paper claims; None says that there is none.

    `per_round` is the guaranteed ε of the worst single round, told where a paper claims no more than that
    (`claimed_for` = "round"); `assumes` is what the guarantee takes for granted and nobody checks.

    >>> privacy = Privacy(guaranteed=3.02, claimed=1.0, delta=1e-4)
    >>> privacy.sentence()[:89]
    "Guaranteed ε = 3.02 at δ = 0.0001 for each record (claimed by the paper's formula: ε = 1)"
    """

    guaranteed: float | None
    claimed: float | None
    delta: float
    unit: str = "record"
    relation: Relation = "add-remove"
    adversary: str = "an eavesdropper on every link"
    reason: str | None = None
    note: str | None = None
    assumes: str | None = None
    per_round: float | None = None
    claimed_for: Literal["run", "round"] = "run"
    per_node: Array = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`: null where there is no such ε."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "per_node"}

    def sentence(self) -> str:
        scope = " a round" if self.claimed_for == "round" else ""
        claim = "" if self.claimed is None else f" (claimed by the paper's formula: ε = {self.claimed:.4g}{scope})"
        assumes = f" It takes for granted that {self.assumes}." if self.assumes else ""
        note = f" {self.note}" if self.note else ""
        if self.guaranteed is None:
            return f"No privacy is guaranteed{claim}: {self.reason}."
        single = "" if self.per_round is None else f", {rounded_up(self.per_round)} for the worst single round"
        neighbours = _NODES if self.unit == "node" else _RELATIONS[self.relation]
        return (
            f"Guaranteed ε = {rounded_up(self.guaranteed)} at δ = {self.delta:g} for each {self.unit}{single}{claim}, "
            f"neighbouring data sets: {neighbours}, against {self.adversary}.{assumes}{note}"
        )


def rounded_up(epsilon: float, digits: int = 4) -> str:
    """An ε to so many digits, never below itself.

    >>> rounded_up(13.20499)
    '13.21'
    """
    return _rounded(epsilon, digits, ROUND_CEILING)


def rounded_down(epsilon: float, digits: int = 3) -> str:
    """A lower bound on ε to so many digits, never above itself.

    >>> rounded_down(0.24599)
    '0.245'
    """
    return _rounded(epsilon, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, rounding: str) -> str:
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal(repr(float(value)))):g}"


def assess(ledger: Ledger, delta: float) -> tuple[Array, str | None]:
    """Each node's guaranteed ε from the ledger, and, where that is infinite, why."""
    spent = guarantee(ledger.releases(), delta)
    if ledger.unreleased:
        step, purpose = ledger.unreleased[0]
        return np.full_like(
            spent, math.inf
        ), f'"{purpose}" of step {step} was computed from the records and not released by a mechanism'
    if len(spent) and math.isinf(spent.max()):
        unproven = [line.step for line in ledger.releases() if line.mechanism.name == "unproven"]
        if unproven:
            rest = len(unproven) - 1
            more = f" and {rest} other{'s' if rest > 1 else ''}" if rest else ""
            what = "a sensitivity that is not proven for all that it covers"
            return spent, f"the noise of round {unproven[0] + 1}{more} follows {what}"
        return spent, "values left the nodes without noise"
    return spent, None
