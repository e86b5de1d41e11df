"""Checks before a run is resumed: the journal must be as recent as the ledger."""

from __future__ import annotations

import sys
from pathlib import Path

from tacit.errors import TacitError
from tacit.graph_learning import Signals
from tacit.privacy import NOISE_KEY_FILE, PlansReleases, RatchetedKeys
from tacit.sites.journal import Journal
from tacit.tasks import Task

JOURNAL = "journal.sqlite"


def first_release_step(plan: PlansReleases, rounds: int, task: Task | Signals, t: int) -> int:
    """Return the step of the first release of round t; after the last round, a number above all steps."""
    if t >= rounds:
        return sys.maxsize
    return min((release.step for release in plan.releases(t, task.nodes, task.sampling)), default=0)


def check_journal(
    plan: PlansReleases, rounds: int, task: Task | Signals, journal: Journal, t: int, folder: Path
) -> None:
    """Raise if the journal is older than the ledger.

    Privacy:
        With an older journal the site would repeat rounds whose messages its neighbours have received, and send other
        messages for them. A crash can leave at most one round in the ledger of which no message is in the journal.

    Args:
        plan: The releases of every round.
        rounds: The number of rounds.
        task: The site's task, with its ledger.
        journal: The site's journal.
        t: The round of the last checkpoint.
        folder: The state folder, for the error message.
    """
    last_step = max((release.step for release in task.ledger.releases()), default=-1)
    has_plan = bool(list(plan.releases(0, task.nodes, task.sampling)))
    if has_plan and last_step >= first_release_step(plan, rounds, task, max(t, journal.rounds_sent) + 1) > 0:
        raise TacitError(
            f"{folder / JOURNAL} is older than the ledger beside it, or new. Restore the journal of this run to resume."
        )


def check_keys(keys: RatchetedKeys | None, t: int, rounds: int, folder: Path) -> None:
    """Raise if the keys of a round are erased that the run would repeat from its checkpoint at round t.

    A site erases keys only after the checkpoint of a later round is on disk, so the journal is an older copy.
    """
    if keys is None or t >= rounds or (keys.position is not None and keys.position <= t):
        return
    left = "all keys" if keys.position is None else f"the keys of the rounds before {keys.position}"
    raise TacitError(
        f"{folder / JOURNAL} is an older copy: it resumes at round {t}, but {folder / NOISE_KEY_FILE} shows that "
        f"{left} are erased, because these rounds were complete. Restore the latest copy of the folder"
    )
