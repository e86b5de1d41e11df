"""What a run costs in privacy: by its plan, while it goes on, and in the end."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from tacit.algorithms import Algorithm
from tacit.networks import Coordinator
from tacit.privacy.accountant import guarantee
from tacit.privacy.planning import plan
from tacit.privacy.release import Array, Release
from tacit.privacy.statement import Privacy, assess
from tacit.tasks import Task

_SIMULATED = "The noise comes from the run's seed: this is a simulation, and protects only where the seed stays secret."
_KEPT = (
    "Parameters that are not shared stay at their node without noise: nothing here covers them, nor an accuracy "
    "measured with them."
)
_MEASURED = "Stationarity is measured on the nodes' own records, and nothing here covers it."
_BARE = "values leave the nodes without noise"


class PrivacyMeter:
    """The privacy of an algorithm on a task. A ledger that is exchanged or rewound needs a new one.

    Where a network spreads the run over processes, each accounts for its own nodes, and `spent` tells the worst of all.
    """

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm[Any],
        delta: float,
        measures: bool = False,
        coordinator: Coordinator | None = None,
    ) -> None:
        self.task, self.algorithm, self.delta, self.measures = task, algorithm, delta, measures
        self._coordinator = coordinator or Coordinator()
        self._known: tuple[object, Privacy] | None = None

    def claim(self, rounds: int) -> float | None:
        """The ε that the paper's formula claims."""
        if rounds == 0:
            return None
        privacy = self.algorithm.privacy
        claimed = privacy.claim(privacy.sampling(self.task), self.task.nodes, self.delta, rounds)
        return None if claimed is None else finite_or_none(claimed)

    def spent(self, rounds: int) -> Privacy:
        """All that the ledgers hold."""
        ledger = self.task.ledger
        version = (rounds, len(ledger), ledger.unreleased)
        if self._known is None or self._known[0] != version:
            self._known = version, self._worst(self._statement(*assess(ledger, self.delta), rounds))
        return self._known[1]

    def _worst(self, own: Privacy) -> Privacy:
        """What holds for the nodes of all processes: what one of them cannot guarantee, nobody can."""
        kinds = [own.guaranteed, own.claimed, own.per_round]
        numbers = torch.tensor([[math.nan if e is None else e for e in kinds]], dtype=torch.float64)
        guaranteed, claimed, per_round = map(finite_or_none, self._coordinator.all_gather(numbers).amax(0).tolist())
        return replace(
            own,
            guaranteed=guaranteed,
            claimed=claimed,
            per_round=per_round,
            reason=next(filter(None, self._coordinator.gather_strings(own.reason or "")), None),
            per_node=self._coordinator.all_gather(torch.from_numpy(own.per_node)).numpy(),
        )

    def planned(self) -> Privacy:
        """All that the algorithm says it will release."""
        lines = self._plan()
        spent = guarantee(lines, self.delta)
        reason = None
        if not lines:
            reason = f"{self.algorithm.title} does not say in advance what it releases"
        elif math.isinf(spent.max()):
            unproven = any(line.mechanism.name == "unproven" for line in lines)
            reason = "the noise follows a sensitivity that is not proven for all that it covers" if unproven else _BARE
        return self._statement(spent, reason, self.algorithm.rounds)

    def by(self, rounds: int) -> float | None:
        """The ε that so many rounds cost, by the plan; None where nothing is guaranteed."""
        lines, privacy = self._plan(), self.algorithm.privacy
        if rounds < self.algorithm.rounds:
            later = privacy.releases(rounds, self.task.nodes, privacy.sampling(self.task))
            first = min((release.step for release in later), default=math.inf)
            lines = [line for line in lines if line.step < first]
        return finite_or_none(float(guarantee(lines, self.delta).max())) if lines else None

    def _statement(self, spent: Array, reason: str | None, rounds: int) -> Privacy:
        privacy = self.algorithm.privacy
        by_round = privacy.claimed_for == "round"
        return Privacy(
            guaranteed=None if reason else float(spent.max(initial=0.0)),
            claimed=self.claim(rounds),
            delta=self.delta,
            unit=privacy.unit,
            relation=privacy.sampling(self.task).relation,
            adversary=privacy.adversary,
            reason=reason,
            note=" ".join(self._notes()) or None,
            assumes="; ".join(privacy.assumptions) or None,
            per_round=self._worst_round() if by_round and not reason else None,
            claimed_for=privacy.claimed_for,
            per_node=spent,
        )

    def _notes(self) -> list[str]:
        kept = [_KEPT] if self.task.model.bounded < self.task.d else []
        measured = [_MEASURED] if self.measures else []
        simulated = [_SIMULATED] if self.task.noise.simulated else []
        return [*self.algorithm.privacy.notes, *kept, *measured, *simulated]

    def _plan(self) -> list[Release]:
        privacy = self.algorithm.privacy
        return plan(privacy, self.algorithm.rounds, privacy.sampling(self.task), self.task.nodes)

    def _worst_round(self) -> float | None:
        lines = list(self.task.ledger.releases()) or self._plan()
        worst = min(lines, key=lambda line: float(line.multipliers.min()), default=None)
        return None if worst is None else finite_or_none(float(guarantee([worst], self.delta).max()))


def finite_or_none(value: float) -> float | None:
    """None for what is no number a table or JSON could hold."""
    return value if math.isfinite(value) else None
