"""A site's private state: the ledger, and the secret keys from which its noise is derived."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tacit.errors import TacitError
from tacit.privacy import (
    NOISE_KEY_FILE,
    Ledger,
    Noise,
    RatchetedKeys,
    ReleaseJournal,
    is_single_key,
    open_noise,
)
from tacit.sites.pair_keys import PairKeyFile

LEDGER = "ledger.sqlite"


@contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a state folder: two processes with one ledger would each record half of the releases."""
    _create_folder(folder)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise TacitError(f"{folder} is in use by another process: start a site only once") from None
    finally:
        os.close(handle)


class PrivateState(NamedTuple):
    """The ledger and the noise of a site.

    Attributes:
        ledger: The ledger.
        noise: The site's own noise.
        keys: The keys of the noise, which are erased round by round; None for noise from a seed.
    """

    ledger: Ledger
    noise: Noise
    keys: RatchetedKeys | None


def open_private_state(
    state: Path, run: bytes, noise_seed: int | None = None, pairs: PairKeyFile | None = None
) -> PrivateState:
    """Open the ledger and the noise in the folder `state`, or create them.

    Privacy:
        A restarted site draws the same noise again, only to send again what it sent before; `RatchetedKeys` refuses
        keys that do not belong to the ledger and to the run.

    Args:
        state: The site's state folder.
        run: Digest of everything that determines the values to which noise is added.
        noise_seed: Derive the noise from this public seed, as a simulation does. It protects nobody.
        pairs: The site's private key for paired noise; None without paired noise.

    Raises:
        TacitError: If key, ledger and run do not belong together.
    """
    path, key = state / LEDGER, state / NOISE_KEY_FILE
    _create_folder(state)
    if key.exists() and not path.exists():
        raise TacitError(f"{path} is missing, so past releases are unknown. Restore it to resume.")
    ledger = Ledger(path, durable=True)  # before the key: a crash in between leaves an empty ledger, which is harmless
    if noise_seed is not None:
        if key.exists():
            raise TacitError(f"noise_seed cannot be used in {state}, which has a secret key: use another state folder")
        return PrivateState(ledger, Noise.from_seed(noise_seed), None)
    if is_single_key(key):  # of a run that an earlier version began
        return PrivateState(ledger, open_noise(state, ledger, run), None)
    keys = RatchetedKeys.open(state, ledger, run, pairs)
    if pairs is not None:
        _open_journal(ledger, keys, state, pairs)
    return PrivateState(ledger, keys.noise, keys)


def _open_journal(ledger: Ledger, keys: RatchetedKeys, state: Path, pairs: PairKeyFile) -> None:
    """Give the ledger a journal of released values, outside the state folder.

    Privacy:
        If a round were repeated with another value, the noise of its pairs would cancel in the difference. The journal
        belongs to the epoch and not to the state folder: it refuses such a value also if the state folder is lost or
        is an older copy.
    """
    journal = ReleaseJournal(pairs.run, keys.noise)
    if journal.path.exists() or len(ledger):
        journal.open()
    else:
        journal.create()
    try:
        journal.check(ledger, state)
    except TacitError as error:
        raise TacitError(
            f"{error}. If it is lost, epoch {pairs.epoch} has ended for all sites: create new keys with tacit network "
            "key, and raise epoch in network.toml"
        ) from None
    finally:
        journal.close()
    ledger.journal = journal


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise TacitError(f"Cannot create the folder {folder}: {error.strerror or error}") from None
