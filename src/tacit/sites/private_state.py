"""A site's private state: the ledger, and the secret key from which its noise is derived."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tacit.errors import TacitError
from tacit.privacy import NOISE_KEY_FILE, Ledger, Noise, open_noise

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


def open_private_state(state: Path, run: bytes, noise_seed: int | None = None) -> tuple[Ledger, Noise]:
    """Open the ledger and the noise in the folder `state`, or create them.

    Privacy:
        A restarted site draws the same noise again, only to send again what it sent before; `open_noise` refuses a key
        that does not belong to the ledger and to the run.

    Args:
        state: The site's state folder.
        run: Digest of everything that determines the values to which noise is added.
        noise_seed: Derive the noise from this public seed, as a simulation does. It protects nobody.

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
        return ledger, Noise.from_seed(noise_seed)
    return ledger, open_noise(state, ledger, run)


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise TacitError(f"Cannot create the folder {folder}: {error.strerror or error}") from None
