"""The privacy of a run: planned, and spent so far."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from tacit.algorithms import Algorithm
from tacit.networks import Coordinator
from tacit.privacy import (
    NO_PRIVACY,
    Array,
    Privacy,
    Release,
    against_colluders,
    correlation_notes,
    declares,
    generator_of,
    guarantee,
    ledger_guarantee,
    no_guarantee_reason,
    outside_parts,
    plan,
)
from tacit.runs.preparation_stages import RANGES_PURPOSE
from tacit.tasks import Task

_MODELS_NOT_COVERED = (
    "The models contain values without noise. The guarantee covers neither the models nor the accuracies, losses and "
    "norms measured on them."
)
TESTED_NOTE = (
    "Accuracies and losses are measured exactly on test records that were held out of the data. This guarantee does "
    "not protect these records."
)
_RELIES_ON_OTHERS = (
    "Paired noise: the guarantee relies on the noise of nodes that do not collude. Count sites of one operator, stolen "
    "keys, and nodes that omit or reveal their noise as colluders."
)
_MEASURED = "Some metrics are measured on the nodes' own records. This guarantee does not cover them."


class PrivacyMeter:
    """Accounts the privacy of an algorithm on a task. After the ledger is rewound, a new meter is needed.

    In a run over several processes, each process accounts for its own nodes, and `spent` is the maximum over all.
    Without `colluders`, paired noise is accounted against the planned number of colluders only.
    """

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm[Any],
        delta: float,
        measures: bool = False,
        coordinator: Coordinator | None = None,
        colluders: bool = True,
    ) -> None:
        self.task, self.algorithm, self.delta, self.measures = task, algorithm, delta, measures
        self._seen = task.without_records(gradients=False)  # a plan must not depend on the records
        self._coordinator = coordinator or Coordinator()
        self._colluders = colluders
        self._last: tuple[object, Privacy] | None = None

    def check_data(self) -> None:
        """Refuse records that were labelled or split by looking at other records, if a guarantee could be stated.

        A release without privacy rules a guarantee out, and so does a value that was read without noise. An algorithm
        that plans no releases could still state one.
        """
        privacy, task = self.algorithm.privacy, self.task
        if task.ledger.values.read:
            return
        sampling = privacy.sampling(task)
        first = privacy.releases(0, task.nodes, sampling)
        if not any(release.mechanism.loss is NO_PRIVACY for release in first):
            released = any(each.purpose == RANGES_PURPOSE for each in self.algorithm.preparation)
            task.data.check_public_facts(sampling.relation, releases_ranges=released)

    def claim(self, rounds: int) -> float | None:
        """The ε that the formula of the paper claims after `rounds` rounds."""
        if rounds == 0:
            return None
        privacy = self.algorithm.privacy
        claimed = privacy.claim(privacy.sampling(self._seen), self.task.nodes, self.delta, rounds)
        return None if claimed is None else finite_or_none(claimed)

    def spent(self, rounds: int) -> Privacy:
        """The privacy of everything in the ledgers."""
        ledger = self.task.ledger
        version = (rounds, len(ledger), list(ledger.values.rows()))
        if self._last is None or self._last[0] != version:
            stays = declares(self.algorithm, "exact_values_stay_local")
            spent, reason = ledger_guarantee(ledger, self.delta, exact_values_stay_local=stays)
            self._last = version, self._worst(self._statement(list(ledger.releases()), spent, reason, rounds))
        return self._last[1]

    def _worst(self, own: Privacy) -> Privacy:
        """The maximum over all processes; None if one process can guarantee nothing."""
        kinds = [own.guaranteed, own.claimed, own.per_round]
        numbers = torch.tensor([[math.nan if e is None else e for e in kinds]], dtype=torch.float64)
        guaranteed, claimed, per_round = map(finite_or_none, self._coordinator.all_gather(numbers).amax(0).tolist())
        return replace(
            own,
            guaranteed=guaranteed,
            claimed=claimed,
            per_round=per_round,
            against_colluders=self._worst_curve(own.against_colluders),
            reason=next(filter(None, self._coordinator.gather_strings(own.reason or "")), None),
            per_node=self._coordinator.all_gather(torch.from_numpy(own.per_node)).numpy(),
        )

    def _worst_curve(self, own: list[float] | None) -> list[float] | None:
        """The largest ε of all processes against every number of colluders."""
        if own is None:
            return None
        return [float(each) for each in self._coordinator.all_gather(torch.tensor([own], dtype=torch.float64)).amax(0)]

    def planned(self) -> Privacy:
        """The privacy of everything the algorithm plans to release."""
        lines = self._plan()
        spent = guarantee(lines, self.delta)
        reason = None
        if not lines:
            reason = f"{self.algorithm.title} does not plan its releases"
        elif math.isinf(spent.max()):
            reason = no_guarantee_reason(lines)
        return self._statement(lines, spent, reason, self.algorithm.rounds, planned=True)

    def planned_epsilon(self, rounds: int) -> float | None:
        """The guaranteed ε of the first `rounds` rounds as planned; None if nothing is guaranteed."""
        lines, privacy = self._plan(), self.algorithm.privacy
        if rounds < self.algorithm.rounds:
            later = privacy.releases(rounds, self.task.nodes, privacy.sampling(self._seen))
            first = min((release.step for release in later), default=math.inf)
            lines = [line for line in lines if line.step < first]
        return finite_or_none(float(guarantee(lines, self.delta).max())) if lines else None

    def _statement(
        self, lines: list[Release], spent: Array, reason: str | None, rounds: int, *, planned: bool = False
    ) -> Privacy:
        privacy = self.algorithm.privacy
        by_round, at_end = privacy.claimed_for == "round", rounds >= self.algorithm.rounds
        # Unit and relation are those of the releases. Without any, they are those of the plan.
        first = next(iter(lines or self._plan()), None)
        return Privacy(
            guaranteed=None if reason else float(spent.max(initial=0.0)),
            claimed=self.claim(rounds),
            delta=self.delta,
            unit="record" if first is None else first.unit,
            relation=privacy.sampling(self._seen).relation if first is None else first.sampling.relation,
            adversary=privacy.adversary.title,
            reason=reason,
            note=" ".join(self._notes(lines, planned)) or None,
            assumes="; ".join(privacy.assumptions) or None,
            per_round=self._worst_round() if by_round and not reason else None,
            claimed_for=privacy.claimed_for,
            simulated=self.task.noise.simulated and not planned,
            covers_models=self._covers_models,
            # It takes one composition per number of colluders, so it is computed at the end only.
            against_colluders=against_colluders(lines, self.delta) if self._colluders and at_end else None,
            per_node=spent,
        )

    @property
    def _holds_out(self) -> bool:
        """Whether real records, and not those of a simulation, are held out to measure the models."""
        data = self.task.data
        return not self.task.noise.simulated and data.split is not None and len(data.test_y) > 0

    @property
    def _covers_models(self) -> bool:
        """Whether the models consist of released values only."""
        return declares(self.algorithm, "models_are_released") and self.task.model.bounded == self.task.d

    def _notes(self, lines: list[Release], planned: bool) -> list[str]:
        models = [] if self._covers_models else [_MODELS_NOT_COVERED]
        measured = [_MEASURED] if self.measures else []
        tested = [TESTED_NOTE] if self._holds_out and not planned else []
        note = None if planned else self.task.noise.simulation_note  # a plan holds for secret noise, too
        simulated = [] if note is None else [note]
        paired = [] if self.algorithm.pairs is None else [_RELIES_ON_OTHERS]
        drawn = [] if self.task.device.type == "cpu" else [f"The noise is drawn with {generator_of(self.task.device)}."]
        own = [*self.algorithm.privacy.notes, *correlation_notes(lines), *paired, *drawn]
        return [*own, *models, *tested, *measured, *outside_parts(lines), *simulated]

    def _plan(self) -> list[Release]:
        privacy = self.algorithm.privacy
        return plan(privacy, self.algorithm.rounds, privacy.sampling(self._seen), self.task.nodes)

    def _worst_round(self) -> float | None:
        lines = list(self.task.ledger.releases()) or self._plan()
        worst = min(lines, key=lambda line: float(line.multipliers.min()), default=None)
        return None if worst is None else finite_or_none(float(guarantee([worst], self.delta).max()))


def finite_or_none(value: float) -> float | None:
    """None for infinity and NaN, which JSON cannot represent."""
    return value if math.isfinite(value) else None
