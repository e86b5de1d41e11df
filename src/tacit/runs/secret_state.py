"""The noise key and the journal of a run with secret noise that is kept in a folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import TacitError
from tacit.privacy import (
    Ledger,
    Noise,
    RecordsLedger,
    ReleaseJournal,
    erase_noise,
    first_step_of_key,
    is_erased,
    open_noise,
)

if TYPE_CHECKING:
    from tacit.runs.checkpoint import Checkpoint
    from tacit.runs.run import Run

_BINDING = b"tacit train"  # of keys; what the run reads is compared with the facts in its ledger
_RUN, _DIGEST_CHECK = "run", "digest_check"


class SecretState:
    """Opens the key and the journal of a run, and erases the key when the run has ended.

    Privacy:
        A run that resumes has the key of before, and repeats what it released, which its journal checks
        (`ReleaseJournal`). A run that has ended releases nothing of its steps again, so its key is erased: whoever gets
        the folder later cannot remove the noise, and cannot learn which records were drawn. Rounds that are added later
        have a new key. So no key is ever used for two values of the same step and purpose.

        Digests of records and models in the ledger have a key of their own, from the records ledger. It outlives the
        noise: the owner can check later that records and files are those of the run, and nobody else can test a guess.

    Attributes:
        noise: The noise of the run.

    Args:
        folder: The folder of the run.
        ledger: The run's ledger, in this folder.
        new: Whether the run is new; otherwise it is resumed.

    Raises:
        TacitError: Folder, key, ledger, journal and records ledger do not belong together.
    """

    def __init__(self, folder: Path, ledger: Ledger, *, new: bool) -> None:
        self._folder, self._ledger, self._new = folder, ledger, new
        facts, self._has_new_key = ledger.facts.read(), new or is_erased(ledger)
        if not new and _RUN not in facts:
            raise TacitError(f"{folder} cannot be resumed: its ledger is not that of a run with a stored noise key")
        self.noise = open_noise(folder, ledger, _BINDING)
        run = str(facts.get(_RUN, self.noise.fingerprint))
        self._journal = ledger.journal = ReleaseJournal(run, self.noise)
        try:
            self.noise.digest_key = RecordsLedger().digest_key(run)
            if new:
                self._begin(run)
            else:
                self._resume(facts)
        except BaseException:
            self.discard()
            raise

    def _begin(self, run: str) -> None:
        self._ledger.facts.write(**{_RUN: run, _DIGEST_CHECK: self.noise.keyed_digest()})
        self._journal.create()

    def _resume(self, facts: dict[str, Any]) -> None:
        self.open()
        if facts[_DIGEST_CHECK] != self.noise.keyed_digest():
            raise TacitError(f"{RecordsLedger().path} is not the records ledger of this run. Restore it to resume")

    def open(self) -> None:
        """Lock the run, and check that its ledger is up to date."""
        self._journal.open()
        self._journal.check(self._ledger, self._folder)

    def check_key(self, run: Run, at: Checkpoint) -> None:
        """Refuse to continue at a checkpoint for which the key in use is too new.

        Steps before the first of the key had a key that is erased. If batches are drawn by permutation, a record is in
        one batch per epoch only as long as the key stays the same, so a new key must begin with an epoch.
        """
        first = first_step_of_key(self._ledger)
        if at.steps < first:
            raise TacitError(
                f"{self._folder} cannot be resumed: it has ended, its noise key is erased, and its checkpoint is from "
                f"step {at.steps} of {first}. Start a new run"
            )
        if run.t < run.rounds and (first % run.task.sampler.period).any():
            raise TacitError(
                f"{self._folder} cannot be extended: its noise key is erased, and it has ended within an epoch of "
                f'sampling "{run.task.sampler.kind}". Start a new run'
            )

    def close(self) -> None:
        """Unlock the run."""
        self._journal.close()

    def end(self) -> None:
        """Erase the key of a run that has ended, and forget the digests of its values."""
        self._journal.end(self._ledger.steps)
        erase_noise(self._folder, self._ledger)

    @property
    def refused(self) -> bool:
        """Whether the run was stopped because it did not repeat its values."""
        return self._journal.refused

    def discard(self) -> None:
        """Undo what was created for a run that could not begin or resume."""
        if self._has_new_key:
            erase_noise(self._folder, self._ledger)
        if self._new:
            self._journal.remove()
        self.close()


def own_digests(run: str | None, digest_check: str | None) -> Noise | None:
    """Return noise that makes the keyed digests of a run with secret noise, if the run's records ledger is here.

    It is new noise: that of the run is erased.
    """
    records = RecordsLedger()
    if run is None or not records.path.is_file():
        return None
    noise = Noise.from_system()
    with suppress(TacitError):  # a records ledger that cannot be read is not here
        noise.digest_key = records.digest_key(run)
    return noise if noise.keyed_digest() == digest_check else None
