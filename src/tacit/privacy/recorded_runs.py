"""Runs on the same records: their joint ε, and whether another run fits their budget."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tacit.errors import BudgetExceeded, TacitError
from tacit.privacy.accounting import joint_epsilon
from tacit.privacy.budget import Budget
from tacit.privacy.colluders import planned_colluders, releases_against
from tacit.privacy.ledger import Ledger
from tacit.privacy.release import Release
from tacit.privacy.statement import no_guarantee_reason, rounded_up

_UNKNOWN = "a run that plans no releases, or did not follow its plan, has not ended"


class RecordsTotal(NamedTuple):
    """ε of all runs on the same records together. It is None if there is no total, and `reason` says why.

    It holds against any coalition of `colluders` nodes: the largest number of any run with paired noise.
    """

    epsilon: float | None
    runs: int
    reason: str | None = None
    colluders: int = 0


class RecordedRun(NamedTuple):
    """A run on some records.

    Attributes:
        id: Identifies the run, also after it resumes.
        title: What it is, for lists.
        started: When it started, in UTC.
        ended: Whether it has ended; until then its releases are those that it plans.
        releases: Its releases; None if they are unknown.
        reason: Why it guarantees nothing, if so.
    """

    id: str
    title: str
    started: str
    ended: bool
    releases: list[Release] | None
    reason: str | None = None

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> RecordedRun:
        """Return the run in a row that `as_row` made."""
        number, title, started, ended, packed, reason = row
        releases = None
        try:
            releases = None if packed is None else _unpacked(packed)
        except TacitError as error:  # a mechanism or sampling kind in a file that was not loaded here
            releases, reason = [], f"the releases of a run cannot be read: {error}"
        return cls(number, title, started, bool(ended), releases, reason)

    def as_row(self) -> tuple[Any, ...]:
        """Return the values that a database stores."""
        return (*self[:4], None if self.releases is None else pack_releases(self.releases), self.reason)


def planned_run(
    run: RecordedRun, planned: Sequence[Release], released: Sequence[Release], before: RecordedRun | None
) -> RecordedRun:
    """Return the entry of a run that starts, or resumes: all that it plans, and all that it has released unplanned.

    Args:
        run: The entry without releases.
        planned: What the run plans to release; empty if it has no plan.
        released: What it has released so far.
        before: Its entry so far, if it resumes.

    Raises:
        TacitError: The run has ended before with releases that are not in `released`.
    """
    lines = {(line.step, line.purpose): line for line in planned}
    unplanned = {(line.step, line.purpose): line for line in released if not is_planned(lines, line)}
    if before is None:
        before = run._replace(releases=[])
    made = {(line.step, line.purpose) for line in released}
    if before.ended and not all((line.step, line.purpose) in made for line in before.releases or ()):
        raise TacitError(
            "The records ledger has releases of this run that are missing in the run's own ledger: the run's ledger is "
            "outdated, or another run has used the same noise. Restore the ledger, or start a new run"
        )
    known = bool(planned) and before.releases is not None
    releases = [line for _, line in sorted({**lines, **unplanned}.items(), key=lambda item: item[0])]
    return run._replace(releases=releases if known else None, reason=before.reason)


def is_planned(planned: Mapping[tuple[int, str], Release], release: Release) -> bool:
    """Whether a plan has this release, with at most its noise and at least its sampling rates."""
    expected = planned.get((release.step, release.purpose))
    return expected is not None and release.is_at_least_as_private_as(expected)


def total_of_runs(runs: Sequence[RecordedRun], delta: float) -> RecordsTotal:
    """Return ε of all `runs` together: one joint accounting, and no sum of their ε.

    Runs with paired noise may be planned for different numbers of colluders. All of them are accounted against the
    largest number, so that the total holds against the adversary of every run.
    """
    released = [run.releases for run in runs if run.releases]
    kinds = sorted({f"{line.unit}, {line.sampling.relation}" for lines in released for line in lines[:1]})
    reason = next((run.reason for run in runs if run.reason), None)
    if any(run.releases is None for run in runs):
        reason = _UNKNOWN
    elif len(kinds) > 1:
        reason = f"the runs protect different things ({'; '.join(kinds)})"
    if reason:
        return RecordsTotal(None, len(runs), reason)
    colluders = max(map(planned_colluders, released), default=0)
    released = [releases_against(lines, colluders) for lines in released]
    try:
        epsilon = joint_epsilon(released, delta)
    except TacitError as error:
        return RecordsTotal(None, len(runs), str(error))
    if math.isinf(epsilon):
        return RecordsTotal(None, len(runs), no_guarantee_reason(line for lines in released for line in lines))
    return RecordsTotal(epsilon, len(runs), colluders=colluders)


def check_budget(budget: Budget, past: Sequence[RecordedRun], planned: RecordedRun) -> None:
    """Raise BudgetExceeded unless `planned` fits the budget in addition to all `past` runs."""
    after = total_of_runs([*past, planned], budget.delta)
    if after.epsilon is not None and after.epsilon <= budget.epsilon:
        return
    spent, own = total_of_runs(past, budget.delta), total_of_runs([planned], budget.delta)
    runs = f"{len(past)} run{'' if len(past) == 1 else 's'}"
    outcome = (
        f"no total can be guaranteed, because {after.reason}"
        if after.epsilon is None
        else f"together they would reach {rounded_up(after.epsilon)}"
    )
    raise BudgetExceeded(
        f"These records have a budget of ε = {budget.epsilon:g} at δ = {budget.delta:g}: {runs} spent "
        f"{_stated(spent)}, this run plans {_stated(own)}, and {outcome}. The run is refused"
    )


def _stated(total: RecordsTotal) -> str:
    return "an unknown ε" if total.epsilon is None else rounded_up(total.epsilon)


def pack_releases(releases: Iterable[Release]) -> bytes:
    """Return releases in the format of the ledger, compressed."""
    ledger = Ledger()
    for release in releases:
        ledger.record(release)
    ledger.flush()
    return zlib.compress(ledger._db.serialize())


def _unpacked(data: bytes) -> list[Release]:
    ledger = Ledger()
    ledger._db.deserialize(zlib.decompress(data))
    return list(ledger.releases())
