"""The journal of a run with secret noise: digests of all values that it has released, outside the run's folder."""

from __future__ import annotations

import fcntl
import json
import os
import weakref
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from tacit.errors import TacitError
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import Noise
from tacit.privacy.private_files import sync_folder, write_private_file
from tacit.privacy.records_ledger import FOLDER_VARIABLE, RecordsLedger

_ENDED = "ended"


class ReleaseJournal:
    """Admits a value that is released again only if it is the same as before, bit for bit.

    Privacy:
        Noise is a function of (key, purpose, node, step). A run that resumes repeats the rounds since its last
        checkpoint under the same key. Whatever these rounds released may have been seen: an observer or a file may have
        shown it. If each repeated value equals the earlier one, nothing new is released. If a value differs, because
        records, code, libraries or the number of threads have changed, the noise cancels in the difference of the two
        outputs, and what remains is exact. Equality is therefore enforced and not assumed. A release has four steps:

        1. The ledger records it, synced to disk.
        2. Noise is added.
        3. The digest of the noised value is written here, synced to disk, or compared with the one that is here.
        4. The value leaves `Mechanism.release`.

        After a crash before step 3, the value was never seen. After a crash later, the repeated value must have the
        digest. Steps of a run that has ended are never released again. It follows that no two different values are
        ever released for one (step, purpose), so the ledger, which has each of them once, accounts for everything.

        The file belongs to the run and not to its folder: it lies beside the records ledger. So a copy of the folder,
        or an older state of it, repeats the same values too, or is refused. The file is locked while the run is in use.

    Attributes:
        run: The id of the run.
        path: The file.
        refused: Whether a value was refused because it differs from the one before.

    Args:
        run: The id of the run.
        noise: The run's noise, whose `keyed_digest` is used.
    """

    def __init__(self, run: str, noise: Noise) -> None:
        self.run, self._noise = run, noise
        self.path = RecordsLedger().path.parent / "journals" / f"{run}.jsonl"
        self.refused = False
        self._digests: dict[tuple[int, str], str] = {}
        self._ended_steps = self._size = 0
        self._handle: int | None = None
        self._close: Callable[[], object] = _nothing

    def create(self) -> None:
        """Create and open the journal of a new run."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            sync_folder(self.path.parent)
        except OSError as error:
            raise TacitError(f"Cannot create {self.path}: {error.strerror or error}") from None
        self.open()

    def open(self) -> None:
        """Lock and read the journal.

        Raises:
            TacitError: It is missing or damaged, or another process uses it.
        """
        self.close()
        self.refused = False
        try:
            handle = os.open(self.path, os.O_RDWR)
        except FileNotFoundError:
            raise TacitError(
                f"{self.path} is missing. It has digests of what this run has released; without it, the run cannot be "
                f"resumed. Set {FOLDER_VARIABLE} to the folder with which the run was started"
            ) from None
        except OSError as error:
            raise TacitError(f"Cannot open {self.path}: {error.strerror or error}") from None
        self._handle, self._close = handle, weakref.finalize(self, os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise TacitError("This run, or a copy of its folder, is in use by another process") from None
        self._read()

    def close(self) -> None:
        """Unlock the journal."""
        self._close()
        self._handle, self._close = None, _nothing

    def check(self, ledger: Ledger, folder: Path) -> None:
        """Refuse a ledger that lacks releases: it is in an older copy of the folder."""
        made = {(release.step, release.purpose) for release in ledger.releases()}
        if not self._digests.keys() <= made or ledger.steps < self._ended_steps:
            raise TacitError(
                f"{folder} is an older copy of this run: its ledger lacks releases that the run has made since. Resume "
                "the run in the latest copy"
            )

    def admit(self, step: int, purpose: str, value: Tensor) -> None:
        """Return if a noised value may be released: it is new, or the same as before.

        Raises:
            TacitError: Another value was released for this step and purpose, or the journal cannot be written.
        """
        if self._handle is None:
            self.open()
        data = value.detach().cpu().contiguous().numpy()
        digest = self._noise.keyed_digest(f"{step} {purpose} {data.shape} {data.dtype}".encode(), data.data)
        known = self._digests.get((step, purpose))
        if step < self._ended_steps or known not in (None, digest):
            self.refused = True
            raise TacitError(
                f'Step {step} would release another value of "{purpose}" than before the run was interrupted. The same '
                "noise on both would reveal their difference. Resume the run with the same records, code, software, "
                "processor and number of threads (OMP_NUM_THREADS)"
            )
        if known is None:
            self._append(json.dumps([step, purpose, digest]))
            self._digests[step, purpose] = digest

    def end(self, steps: int) -> None:
        """Forget the digests of a run that has ended after so many steps: none of them is released again."""
        write_private_file(self.path, f"{json.dumps([steps, _ENDED])}\n".encode())
        sync_folder(self.path.parent)
        self.close()

    def remove(self) -> None:
        """Remove the journal of a run that could not begin."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _append(self, line: str) -> None:
        assert self._handle is not None
        data = f"{line}\n".encode()
        try:
            os.ftruncate(self._handle, self._size)  # removes a line that a full disk has cut off
            if os.pwrite(self._handle, data, self._size) < len(data):
                raise OSError("the disk is full")
            os.fsync(self._handle)
        except OSError as error:
            raise TacitError(f"Cannot write {self.path}: {error.strerror or error}") from None
        self._size += len(data)

    def _read(self) -> None:
        """Read all lines. A last line without an end was cut off by a crash, and its value never left."""
        assert self._handle is not None
        data = os.pread(self._handle, os.fstat(self._handle).st_size, 0)
        self._size, self._ended_steps, self._digests = data.rfind(b"\n") + 1, 0, {}
        try:
            for step, what, *digest in map(json.loads, data[: self._size].splitlines()):
                if digest:
                    self._digests[step, what] = digest[0]
                else:
                    self._ended_steps = step
        except (ValueError, TypeError):
            self.close()
            raise TacitError(f"{self.path} is damaged. Restore it to resume the run") from None


def _nothing() -> None:
    """There is no file to close."""
