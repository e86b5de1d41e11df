"""The privacy of a run, recomputed from its ledgers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.privacy import (
    Array,
    Eavesdropper,
    Paired,
    Privacy,
    against_colluders,
    guarantee,
    ledger_guarantee,
)
from tacit.runs.verification.evidence import Evidence, LedgerEvidence
from tacit.runs.verification.rebuilt_run import RebuiltRun, largest

_OF_ALL_RUNS = ("total", "runs", "total_reason")  # in the statement, from the records ledger


class AccountedPrivacy:
    """What result, history and nodes of a run must state.

    Attributes:
        guaranteed: The guaranteed ε of the worst node; None if nothing is guaranteed.
        per_node: The guaranteed ε of every node.
        statement: The privacy statement, as far as it can be recomputed: all of it if the run could be rebuilt.

    Raises:
        TacitError: The releases cannot be accounted.
    """

    def __init__(self, evidence: Evidence, rebuilt: RebuiltRun | None) -> None:
        self._parts, self._rebuilt, self._delta = evidence.ledgers, rebuilt, evidence.facts.delta
        rounds = evidence.facts.rounds or 0
        if rebuilt is None:
            own = [
                ledger_guarantee(part.ledger, self._delta, exact_values_stay_local=part.facts.exact_values_stay_local)
                for part in self._parts
            ]
            spent, reasons = [each[0] for each in own], [each[1] for each in own]
        else:
            statements = rebuilt.statements(rounds)
            spent, reasons = [each.per_node for each in statements], [each.reason for each in statements]
        self.per_node = np.concatenate([_of_nodes(each, part) for each, part in zip(spent, self._parts, strict=True)])
        reason = next(filter(None, reasons), None)
        self.guaranteed = None if reason else float(self.per_node.max(initial=0.0))
        self.statement: dict[str, Any] = {"guaranteed": self.guaranteed, "delta": self._delta, "reason": reason}
        first = next((part.releases[0] for part in self._parts if part.releases), None)
        if first is not None:
            self.statement |= {"relation": first.sampling.relation, "unit": first.unit}
        if rebuilt is None:
            self.statement |= _paired_statement(evidence)
        else:
            known = {key: value for key, value in _worst(statements).as_dict().items() if key not in _OF_ALL_RUNS}
            self.statement = {**known, **self.statement}

    def at_round(self, t: int) -> dict[str, Any]:
        """The guaranteed ε of all releases until the evaluation after round t, and the claim if it can be computed."""
        spent = [self._until(part, t) for part in self._parts]
        claim = {} if self._rebuilt is None else {"claimed": self._rebuilt.claimed(t)}
        return {"guaranteed": largest(spent), **claim}

    def _until(self, part: LedgerEvidence, t: int) -> float | None:
        steps = next((mark.steps for mark in part.marks if mark.round == t), 0)
        values, stays = part.ledger.values, part.facts.exact_values_stay_local
        seen = [step for step, _ in values.open] + [*values.read.values()] + ([] if stays else [*values.local.values()])
        if any(step < steps for step in seen):
            return None
        spent = guarantee([each for each in part.releases if each.step < steps], self._delta).max(initial=0.0)
        return float(spent) if math.isfinite(spent) else None


def _of_nodes(spent: Array, part: LedgerEvidence) -> Array:
    return spent if len(spent) else np.zeros(part.facts.nodes[1])


def _worst(statements: Sequence[Privacy]) -> Privacy:
    """The statement of the first process, with the largest claim, worst single round and ε against colluders of all."""
    claimed, per_round = [each.claimed for each in statements], [each.per_round for each in statements]
    return replace(
        statements[0],
        claimed=largest(claimed),
        per_round=largest(per_round),
        against_colluders=_worst_curve([each.against_colluders for each in statements]),
    )


def _worst_curve(curves: Sequence[list[float] | None]) -> list[float] | None:
    """The largest ε of all processes against every number of colluders."""
    known = [curve for curve in curves if curve is not None]
    return [max(each) for each in zip(*known, strict=True)] if known else None


def _paired_statement(evidence: Evidence) -> dict[str, Any]:
    """Adversary and curve of paired noise, from the ledgers alone; empty for other noise.

    A run that has stopped early states no curve.
    """
    releases = [each for part in evidence.ledgers for each in part.releases]
    planned = {each.mechanism.plan.colluders for each in releases if isinstance(each.mechanism, Paired)}
    if not planned:
        return {}
    stated = {"adversary": Eavesdropper(min(planned)).title}
    if "against_colluders" not in ((evidence.result or {}).get("privacy") or {}):
        return stated
    curves = [against_colluders(part.releases, evidence.facts.delta) for part in evidence.ledgers]
    return {**stated, "against_colluders": _worst_curve(curves)}
