"""What an audit found: lower bounds on ε beside the guaranteed and the claimed ε."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from tacit.privacy import rounded_down, rounded_up


class ProfilePoint(NamedTuple):
    """The lower bound and the guaranteed ε at one δ. A guarantee has an ε for every δ (its privacy profile)."""

    delta: float
    lower: float
    guaranteed: float


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """The lower bound on ε that an attack found, with `confidence`, beside the guaranteed and the claimed ε.

    `guaranteed` is None if there is no guarantee, `claimed` None if the paper claims nothing. `profile` tests the
    guarantee at further δ, where the same number of trials reveals more. The audit of a correct algorithm reports
    a broken guarantee with a probability of at most 2 (1 − confidence).
    """

    algorithm: str
    lower: float
    guaranteed: float | None
    claimed: float | None
    delta: float
    confidence: float
    rounds: int
    profile: tuple[ProfilePoint, ...] = ()
    claimed_for: Literal["run", "round"] = "run"

    @property
    def points(self) -> list[ProfilePoint]:
        """All δ at which the guarantee was tested, the run's own first; empty if there is no guarantee."""
        if self.guaranteed is None:
            return []
        return [ProfilePoint(self.delta, self.lower, self.guaranteed), *self.profile]

    @property
    def worst_point(self) -> ProfilePoint | None:
        """The point at which the lower bound comes closest to the guarantee, or exceeds it most."""
        return max(self.points, key=lambda point: point.lower - point.guaranteed, default=None)

    @property
    def holds(self) -> bool:
        """Whether no lower bound exceeds the guarantee."""
        return self.worst_point is None or self.worst_point.lower <= self.worst_point.guaranteed

    @property
    def claimed_total(self) -> float | None:
        """The claim for all rounds together: a claim per round is multiplied by the number of rounds."""
        times = self.rounds if self.claimed_for == "round" else 1
        return None if self.claimed is None else times * self.claimed

    @property
    def refuted(self) -> bool:
        """Whether the lower bound exceeds the paper's claim."""
        return self.claimed_total is not None and self.claimed_total < self.lower

    def summary(self) -> str:
        """The result in two or three short sentences."""
        found = f"ε ≥ {rounded_down(self.lower)} at δ = {self.delta:g} with {100 * self.confidence:.4g} % confidence"
        guarantee = "no guarantee" if self.guaranteed is None else f"guaranteed ε = {rounded_up(self.guaranteed)}"
        scope = " per round" if self.claimed_for == "round" else ""
        claim = "" if self.claimed is None else f"; claimed ε = {self.claimed:.4g}{scope}"
        refuted = " The claim is refuted." if self.refuted else ""
        return f"{self.algorithm}: {found}; {guarantee}{claim}. {self._verdict()}{refuted}"

    def _verdict(self) -> str:
        if self.worst_point is None:
            return "There is no guarantee to test."
        if self.holds:
            return "This attack does not break the guarantee."
        delta, lower, guaranteed = self.worst_point
        bounds = f"ε = {rounded_up(guaranteed)} is guaranteed, but the attack shows ε ≥ {rounded_down(lower)}"
        return f"THE GUARANTEE IS BROKEN: at δ = {delta:g}, {bounds}."

    def as_dict(self) -> dict[str, Any]:
        """A JSON object for `--json` and audit.json."""
        points = [point._asdict() for point in self.profile]
        return {**asdict(self), "profile": points, "holds": self.holds, "refuted": self.refuted}


@dataclass(frozen=True, kw_only=True)
class TrialsAudit(AuditResult):
    """The result of many trials, each a small network; `separation` estimates μ (see `AttackScores`)."""

    trials: int
    separation: float


@dataclass(frozen=True, kw_only=True)
class OneRunAudit(AuditResult):
    """The result of one run with `canaries` at `node`: `correct` of `guesses` membership guesses were right.

    `guaranteed` is the ε of that node, from the ledger of that run.
    """

    node: int
    canaries: int
    guesses: int
    correct: int
