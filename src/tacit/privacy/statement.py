"""The privacy of a run as a value: ε with δ, unit, relation and adversary, and the statement in words."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any, Literal

import numpy as np

from tacit.privacy.accounting import guarantee
from tacit.privacy.exact_values import BEFORE_RUN
from tacit.privacy.ledger import Ledger
from tacit.privacy.mechanisms import NO_PRIVACY, BandedGaussian
from tacit.privacy.release import Array, Release
from tacit.privacy.sampling import Relation

_NEIGHBOURS = {
    "add-remove": "one record of one node is added or removed; the stated number of records per node is public",
    "replace-one": "one record of one node is replaced by another",
}
_MODELS_NOT_COVERED = "; the models and results measured on them are not covered"
_RELATIONS = {"add-remove": "add or remove one", "replace-one": "replace one"}
_WEAK_EPSILON = 10.0
_NEIGHBOURS_OF_NODES = "all data of one node are replaced by any other data"


@dataclass(frozen=True)
class Privacy:
    """The privacy of a run, at the node with the largest ε.

    Attributes:
        guaranteed: The guaranteed ε; None if nothing is guaranteed.
        claimed: The ε that the paper's own formula claims; None if it claims none.
        delta: δ of both.
        unit: What is protected: a "record", or all data of a "node".
        relation: The neighbouring relation.
        adversary: Against whom the guarantee holds.
        reason: Why nothing is guaranteed, if so.
        note: Sentences that belong to the statement.
        assumes: What the guarantee assumes without a check; None if everything is proven or enforced.
        per_round: The guaranteed ε of the worst single round, if the paper claims no more than that.
        claimed_for: Whether the paper's claim is for the whole "run" or for each "round".
        simulated: Whether the noise is derived from a known seed, so that the run protects nobody.
        covers_models: Whether the guarantee also holds for someone who gets the nodes' models, and the accuracies and
            losses measured on them. None if no models are involved.
        runs: The number of runs with secret noise on these records, with this one; 0 if they are not counted.
        total: The guaranteed ε of all of them together, at the same δ; None if there is no total.
        total_reason: Why there is no total, if so.
        against_colluders: With paired noise, the guaranteed ε against 0, 1, … N − 1 colluding nodes. `guaranteed` is
            the entry of the planned number. None for other noise, and before the run has ended.
        per_node: (n,) the guaranteed ε of each node.

    Example:
        >>> Privacy(guaranteed=3.02, claimed=1.0, delta=1e-4).sentence()[:82]
        'Guaranteed ε = 3.02, δ = 0.0001 per record, against an eavesdropper on every link.'
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
    simulated: bool = False
    covers_models: bool | None = None
    runs: int = 0
    total: float | None = None
    total_reason: str | None = None
    against_colluders: list[float] | None = None
    per_node: Array = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return all values except `per_node`, for JSON; `against_colluders` only if it is known."""
        left_out = {"per_node"} if self.against_colluders else {"per_node", "against_colluders"}
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out}

    @property
    def label(self) -> str:
        """The word that belongs before every guaranteed ε."""
        return "Guaranteed (simulated)" if self.simulated and self.guaranteed is not None else "Guaranteed"

    @property
    def total_sentence(self) -> str:
        """ε of this run and of all runs on these records; empty if they are not counted.

        >>> Privacy(guaranteed=1.0, claimed=None, delta=1e-5, runs=3, total=2.1).total_sentence
        'This run: ε = 1. All 3 runs on these records: ε = 2.1.'
        """
        if self.runs == 0:
            return ""
        if self.runs == 1:
            return "No other run on these records is recorded."
        runs = f"All {self.runs} runs on these records"
        if self.total is None or self.guaranteed is None:
            return f"{runs}: no total is guaranteed, because {self.total_reason}."
        return f"This run: ε = {rounded_up(self.guaranteed)}. {runs}: ε = {rounded_up(self.total)}."

    @property
    def line(self) -> str:
        """ε, δ, unit and adversary in one line.

        >>> Privacy(guaranteed=2.9931, claimed=None, delta=1e-4).line
        'Guaranteed ε = 2.994, δ = 0.0001 per record (add or remove one), against an eavesdropper on every link'
        """
        return f"{self.label} {self.terms}" if self.guaranteed is not None else self.terms

    @property
    def terms(self) -> str:
        """The line without the word before ε; the reason if nothing is guaranteed."""
        if self.guaranteed is None:
            return f"No privacy is guaranteed: {self.reason}"
        relation = "replace all its data" if self.unit == "node" else _RELATIONS[self.relation]
        return (
            f"ε = {rounded_up(self.guaranteed)}, δ = {self.delta:g} per {self.unit} ({relation}), "
            f"against {self.adversary}{_MODELS_NOT_COVERED if self.covers_models is False else ''}"
        )

    def sentence(self) -> str:
        """Return the whole statement in words."""
        scope = " per round" if self.claimed_for == "round" else ""
        claim = "" if self.claimed is None else f" The paper's formula claims ε = {self.claimed:.4g}{scope}."
        total = f" {self.total_sentence}" if self.runs else ""
        if self.guaranteed is None:
            return f"No privacy is guaranteed: {self.reason}.{claim}{total}"
        neighbours = _NEIGHBOURS_OF_NODES if self.unit == "node" else _NEIGHBOURS[self.relation]
        single = "" if self.per_round is None else f" The worst single round has ε = {rounded_up(self.per_round)}."
        assumes = f" Assumption: {self.assumes}." if self.assumes else ""
        note = f" {self.note}" if self.note else ""
        return (
            f"{self.label} ε = {rounded_up(self.guaranteed)}, δ = {self.delta:g} per {self.unit}, against "
            f"{self.adversary}. Neighbouring data sets: {neighbours}.{single}{claim}{assumes}{note}{total}"
        )


def rounded_up(epsilon: float, digits: int = 4) -> str:
    """Return ε with the given number of digits, rounded up: an upper bound stays one.

    >>> rounded_up(13.20499)
    '13.21'
    """
    return _rounded(epsilon, digits, ROUND_CEILING)


def rounded_down(epsilon: float, digits: int = 3) -> str:
    """Return a lower bound on ε with the given number of digits, rounded down.

    >>> rounded_down(0.24599)
    '0.245'
    """
    return _rounded(epsilon, digits, ROUND_FLOOR)


def weak_protection(epsilon: float) -> str | None:
    """Return a sentence about an ε that is too large to protect much; None for other values.

    >>> print(weak_protection(25.0))
    ε = 25 is weak protection: one record can make an outcome e^25 times as likely. ε = 1 is strong
    >>> weak_protection(10.0)
    """
    if epsilon <= _WEAK_EPSILON or math.isinf(epsilon):
        return None
    value = rounded_up(epsilon)
    return f"ε = {value} is weak protection: one record can make an outcome e^{value} times as likely. ε = 1 is strong"


def _rounded(value: float, digits: int, rounding: str) -> str:
    rounded = Context(prec=digits, rounding=rounding).create_decimal(repr(float(value)))
    return f"{float(rounded):.{max(digits, 6)}g}"


def ledger_guarantee(
    ledger: Ledger, delta: float, *, exact_values_stay_local: bool = False
) -> tuple[Array, str | None]:
    """Return each node's guaranteed ε (n,) for everything in the ledger, and the reason if there is no guarantee.

    Args:
        ledger: The ledger.
        delta: δ.
        exact_values_stay_local: Whether exact values that were used inside a node are known not to influence what the
            node sends. Otherwise such values end the guarantee.
    """
    releases = list(ledger.releases())
    spent = guarantee(releases, delta)
    reason = _unprotected_value(ledger, exact_values_stay_local)
    if reason:
        return np.full_like(spent, math.inf), reason
    if not len(spent) or math.isfinite(spent.max()):
        return spent, None
    return spent, no_guarantee_reason(releases)


def no_guarantee_reason(releases: Iterable[Release]) -> str:
    """Return why releases with an infinite ε guarantee nothing."""
    unprotected = [release.mechanism for release in releases if release.mechanism.loss is NO_PRIVACY]
    return unprotected[0].no_guarantee_because if unprotected else "there is too little noise for any bound"


def correlation_notes(releases: Iterable[Release]) -> list[str]:
    """Return a sentence about noise that is correlated in time, if the releases have any."""
    banded = {(each.mechanism, each.sampling) for each in releases if isinstance(each.mechanism, BandedGaussian)}
    widest = max((int(mechanism.bandwidths(sampling).max()) for mechanism, sampling in banded), default=1)
    over = f"over up to {widest} steps"
    return (
        [f"The noise is correlated in time, {over}. ε accounts for all releases of the run jointly."] if banded else []
    )


def outside_parts(releases: Iterable[Release]) -> list[str]:
    """Return a sentence for each mechanism and sampling kind that is not part of Tacit."""
    parts: dict[tuple[str, str], type] = {}
    for release in releases:
        parts["mechanism", release.mechanism.name] = type(release.mechanism)
        parts["sampling kind", release.sampling.kind] = release.sampling.scheme
    outside = [part for part, made in parts.items() if not made.__module__.startswith("tacit.")]
    return [
        f'The {kind} "{name}" is not part of Tacit. The guarantee rests on its author\'s proof.'
        for kind, name in sorted(outside)
    ]


def _unprotected_value(ledger: Ledger, exact_values_stay_local: bool) -> str | None:
    """Return which value may have left a node without noise; None if there is none."""
    values = ledger.values
    if ledger.unreleased:
        step, purpose = ledger.unreleased[0]
        return f'"{purpose}" of step {step} was computed from the records and not released by a mechanism'
    if values.read:
        purpose, step = next(iter(values.read.items()))
        if step == BEFORE_RUN:
            return f"the {purpose} before the run, without noise"
        return f'"{purpose}" of step {step} was read before its release, so it may have left the node without noise'
    if values.local and not exact_values_stay_local:
        purpose, step = next(iter(values.local.items()))
        return (
            f'"{purpose}" of step {step} was used without noise inside the node, and the algorithm does not declare '
            "that such values never influence its messages (exact_values_stay_local)"
        )
    return None
