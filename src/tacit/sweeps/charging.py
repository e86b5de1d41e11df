"""What a sweep costs: ε of all its runs together, and one target ε split over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tacit.errors import TacitError
from tacit.privacy import (
    RecordedRun,
    RecordsLedger,
    RecordsTotal,
    Release,
    epsilon_per_run,
    joint_epsilon,
    plan,
    rounded_down,
    rounded_up,
    total_of_runs,
)
from tacit.runs import Config
from tacit.sweeps.cell_runs import recorded_run, simulated_run
from tacit.sweeps.cells import SweepCell

_RELATIONS = {"add-remove": "add or remove one", "replace-one": "replace one"}


@dataclass(frozen=True)
class SweepPrivacy:
    """The privacy of a sweep.

    Attributes:
        guaranteed: The ε to state. If the sweep is charged, it is the total; otherwise it is that of the chosen run.
            With secret noise it is the total of all runs on these records, also of interrupted and earlier ones.
        chosen: ε of the chosen run alone; of several seeds, the largest.
        total: ε of all runs of the sweep together, an upper bound; None if there is none.
        total_reason: Why there is no total, if so.
        runs: The number of runs of the sweep.
        charged: Whether `guaranteed` includes the choice of the settings.
        recorded_total: With secret noise, ε of all runs on these records, also of those before the sweep.
        recorded_runs: The number of these runs.
        recorded_reason: Why there is no such total, if so.
        assumes: What the guarantees of the runs assume without a check; None if everything is proven or enforced.
        delta, unit, relation, adversary, simulated, covers_models: As in `Privacy`.
    """

    guaranteed: float | None
    chosen: float | None
    total: float | None
    total_reason: str | None
    runs: int
    charged: bool
    delta: float
    unit: str
    relation: str
    adversary: str
    simulated: bool
    covers_models: bool
    assumes: str | None = None
    recorded_total: float | None = None
    recorded_runs: int = 0
    recorded_reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "statement": self.sentence()}

    def sentence(self) -> str:
        """Return the statement in words: whether the tuning is included, and what it costs."""
        several = self.runs > 1
        runs = f"{self.runs} runs of the sweep" if several else "only run of the sweep"
        was, each = ("were", f"all {runs}") if several else ("was", f"the {runs}")
        together = (
            f"no total is guaranteed, because {self.total_reason}"
            if self.total is None
            else f"{'together they cost' if several else 'it costs'} ε = {rounded_up(self.total)}"
        )
        alone = "No ε" if self.chosen is None else f"ε = {rounded_up(self.chosen)}"
        if not self.charged:
            text = f"{alone} is that of the chosen run alone. The {runs} {was} not charged: {together}"
        elif self.total is None:
            text = f"The {runs} {'are' if several else 'is'} charged, but {together}"
        else:
            text = f"ε = {rounded_up(self.total)} covers {each} and the choice. The chosen run alone: {alone}"
        return f"{text} ({self._terms()}).{self._warnings()}"

    def _terms(self) -> str:
        relation = "replace all its data" if self.unit == "node" else _RELATIONS[self.relation]
        return f"δ = {self.delta:g} per {self.unit}, {relation}; against {self.adversary}; upper bounds"

    def _warnings(self) -> str:
        models = (
            ""
            if self.covers_models
            else " The models contain values without noise: no ε covers them, nor the choice, which was made by them."
        )
        simulated = " SIMULATION: the noise is derived from the seed, so these runs protect nobody."
        assumes = f" Assumption: {self.assumes}." if self.assumes else ""
        return f"{assumes}{models}{simulated if self.simulated else self._recorded()}"

    def _recorded(self) -> str:
        if self.recorded_total is None:
            return f" Of all runs on these records no total is known: {self.recorded_reason}."
        return f" All {self.recorded_runs} runs on these records: ε = {rounded_up(self.recorded_total)}."


def split_target(cells: Sequence[SweepCell], config: Config) -> list[SweepCell]:
    """Return the cells with the same ε each, such that all of them together have the target ε of the config.

    Runs without a target ε set their noise themselves, and are returned as they are.

    Privacy:
        The total is that of the planned releases of all cells, for a record that can be at any node in each run. Cells
        that plan the same releases at one ε plan the same at another, and are calibrated once.
    """
    target = config.privacy
    if target.epsilon is None:
        return list(cells)
    if target.calibration != "guaranteed":
        raise TacitError(f'charge splits a guaranteed ε, got privacy.calibration = "{target.calibration}"')
    if any(cell.config.privacy.epsilon != target.epsilon for cell in cells):
        raise TacitError("charge splits one target ε over all runs: remove privacy.epsilon from the grid")
    groups: dict[tuple[Any, ...], list[SweepCell]] = {}
    for cell in cells:
        groups.setdefault(_plan_key(planned_releases(cell)), []).append(cell)

    def total_at(epsilon: float) -> float:
        runs = []
        for group in groups.values():
            runs += [planned_releases(_with_share(group[0], epsilon))] * len(group)
        return joint_epsilon(runs, target.delta)

    each = epsilon_per_run(total_at, target.epsilon, len(cells))
    return [_with_share(cell, each) for cell in cells]


def _with_share(cell: SweepCell, epsilon: float) -> SweepCell:
    """The cell with its share of the target, rounded, so that a sweep that resumes has exactly the same configs."""
    return cell.with_epsilon(float(rounded_down(epsilon, 6)))


def check_population_budget(cells: Sequence[SweepCell], config: Config) -> None:
    """Refuse a sweep with secret noise whose runs together would exceed the budget of the population."""
    budget = config.privacy.population_budget
    if config.noise != "secret" or budget is None:
        return
    planned = [RecordedRun("", "", "", False, planned_releases(cell)) for cell in cells]
    total = total_of_runs(planned, config.privacy.delta)
    if total.epsilon is None or total.epsilon > budget:
        reach = f"no total is guaranteed, because {total.reason}"
        reach = reach if total.epsilon is None else f"together they would reach ε = {rounded_up(total.epsilon)}"
        raise TacitError(
            f"The budget of the records is ε = {budget:g} (privacy.population_budget). The sweep plans {len(cells)} "
            f"runs, and {reach}. No run was started: try fewer settings, or set privacy.epsilon to the budget"
        )


def planned_releases(cell: SweepCell) -> list[Release]:
    """Return what the run of a cell plans to release. Nothing is released, and the records ledger is not used."""
    run = simulated_run(cell)
    privacy = run.algorithm.privacy
    sampling = privacy.sampling(run.task.without_records(gradients=False))
    return plan(privacy, run.rounds, sampling, run.task.nodes)


def sweep_privacy(
    config: Config, chosen: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]], *, charged: bool
) -> SweepPrivacy:
    """Return the privacy of a finished sweep, from what its runs released.

    Args:
        config: The config of the sweep.
        chosen: The results of the chosen setting, one per seed.
        results: The results of all runs.
        charged: Whether the stated ε includes all runs.
    """
    delta, statements = config.privacy.delta, [result["privacy"] for result in results]
    total = total_of_runs([recorded_run(result) for result in results], delta)
    adversaries = sorted({each["adversary"] for each in statements})
    if len(adversaries) > 1:
        total = RecordsTotal(None, len(results), f"the runs hold against different adversaries: {adversaries}")
    alone = [result["privacy"]["guaranteed"] for result in chosen]
    largest = None if None in alone else max(alone)
    first = chosen[0]["privacy"]
    secret = config.noise == "secret"
    recorded = _recorded_total(results, delta) if secret else RecordsTotal(None, 0)
    return SweepPrivacy(
        guaranteed=recorded.epsilon if secret else total.epsilon if charged else largest,
        chosen=largest,
        total=total.epsilon,
        total_reason=total.reason,
        runs=len(results),
        charged=charged,
        delta=delta,
        unit=first["unit"],
        relation=first["relation"],
        adversary=first["adversary"],
        simulated=not secret,
        covers_models=all(each["covers_models"] is not False for each in statements),
        assumes="; ".join(dict.fromkeys(each["assumes"] for each in statements if each["assumes"])) or None,
        recorded_total=recorded.epsilon,
        recorded_runs=recorded.runs,
        recorded_reason=recorded.reason,
    )


def _recorded_total(results: Sequence[Mapping[str, Any]], delta: float) -> RecordsTotal:
    """ε of all runs on the records of the sweep, as the records ledger has it now."""
    ledger = RecordsLedger()
    totals = [ledger.total(str(each["recorded_as"]), delta) for each in results]
    total = totals[0]
    # Runs of one population have one total. The runs of a sweep are in one, or their total is not known.
    if total.runs < len(results) or any(other != total for other in totals):
        return RecordsTotal(None, total.runs, f"runs of this sweep are missing in the records ledger {ledger.path}")
    return total


def _plan_key(lines: Sequence[Release]) -> tuple[Any, ...]:
    """A value that is equal for equal plans."""
    return tuple((line.step, line.purpose, line.unit, *_mechanism_key(line), *_sampling_key(line)) for line in lines)


def _mechanism_key(line: Release) -> tuple[Any, ...]:
    entries = line.mechanism.to_ledger(len(line.rates)).items()
    return line.mechanism.name, *((key, each if isinstance(each, str) else each.tobytes()) for key, each in entries)


def _sampling_key(line: Release) -> tuple[Any, ...]:
    return line.sampling.kind, line.rates.tobytes(), line.sampling.relation
