"""A site's private state: the ledger, and the secret key from which its noise is derived."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tacit.errors import TacitError
from tacit.privacy import Ledger, Noise
from tacit.sites.files import read_bytes, write_private_file

LEDGER, KEY = "ledger.sqlite", "noise.key"
_KEY_BYTES = 32


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
        A restarted site draws the same noise again, only to send again what it sent before. The same noise on other
        values would reveal both, and other noise on the same values would be a second release. Therefore key, ledger
        and run belong together: if one is missing or has changed after the first release, this function raises.

    Args:
        state: The site's state folder.
        run: Digest of everything that determines the values to which noise is added.
        noise_seed: Derive the noise from this public seed, as a simulation does. It protects nobody.

    Raises:
        TacitError: If key, ledger and run do not belong together.
    """
    path, key = state / LEDGER, state / KEY
    _create_folder(state)
    if key.exists() and not path.exists():
        raise TacitError(f"{path} is missing, so past releases are unknown. Restore it to resume.")
    ledger = Ledger(path, durable=True)  # before the key: a crash in between leaves an empty ledger, which is harmless
    if noise_seed is not None:
        if key.exists():
            raise TacitError(f"noise_seed cannot be used in {state}, which has a secret key: use another state folder")
        return ledger, Noise.from_seed(noise_seed)
    if not key.exists() and len(ledger):
        raise TacitError(
            f"{key} is missing, but {path} contains releases made with it. Restore it, or start a new run with "
            "another state folder."
        )
    secret = _read_key(key, run) if key.exists() else None
    if secret is None and len(ledger):
        raise TacitError(
            f"{key} belongs to another run: the network or this site's data have changed since the first release. The "
            "same noise on other values would reveal both. Restore them, or start a new run with another state folder."
        )
    return ledger, Noise.from_key(secret or _create_key(key, run))


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise TacitError(f"Cannot create the folder {folder}: {error.strerror or error}") from None


def _create_key(path: Path, run: bytes) -> bytes:
    """Create the key file, in place of one with which nothing was released.

    If two processes do this at once, both end up with the key that was linked first.
    """
    secret, own = os.urandom(_KEY_BYTES), path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    write_private_file(own, secret + _binding(secret, run))
    try:
        if path.exists() and _read_key(path, run) is None:
            path.unlink()
        with suppress(FileExistsError):
            os.link(own, path)  # unlike a rename, a link never replaces a file
        _sync_folder(path.parent)
    except OSError as error:
        raise TacitError(f"Cannot write {path}: {error.strerror or error}") from None
    finally:
        own.unlink()
    found = _read_key(path, run)
    if found is None:
        raise TacitError(f"Another process has just created {path} for another run: start a site only once")
    return found


def _sync_folder(folder: Path) -> None:
    """Make new file names durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_key(path: Path, run: bytes) -> bytes | None:
    """Return the key, or None if it belongs to another run."""
    data = read_bytes(path)
    if len(data) != 2 * _KEY_BYTES:
        raise TacitError(f"{path} is damaged: it must have {2 * _KEY_BYTES} bytes, got {len(data)}")
    secret, binding = data[:_KEY_BYTES], data[_KEY_BYTES:]
    return secret if hmac.compare_digest(binding, _binding(secret, run)) else None


def _binding(secret: bytes, run: bytes) -> bytes:
    """Bind a key to a run. The digest is keyed: from a plain one, records could be guessed."""
    return hashlib.blake2b(run, key=secret, digest_size=_KEY_BYTES, person=b"tacit noise key").digest()
