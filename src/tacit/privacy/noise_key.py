"""The secret key of a run's noise, in a file beside its ledger: created, read, and erased at the end."""

from __future__ import annotations

import hashlib
import hmac
import os
from contextlib import suppress
from pathlib import Path

from tacit.errors import TacitError
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import Noise
from tacit.privacy.private_files import read_bytes, sync_folder, write_private_file

NOISE_KEY_FILE = "noise.key"
_KEY_BYTES = 32
_FINGERPRINT, _FIRST_STEP = "noise_key", "noise_key_from"  # facts in the ledger about the key in use
_ERASED = "erased"


def open_noise(folder: Path, ledger: Ledger, run: bytes) -> Noise:
    """Return the noise of the key in `folder`; create a key if nothing was released with one, or if it was erased.

    Privacy:
        A run that resumes draws the same noise again, only to repeat what it released before. The same noise on other
        values would reveal both, and other noise on the same values would be a second release. Therefore key, ledger
        and run belong together: the ledger records which key is in use. If the key is missing or has changed after the
        first release, this function raises.

    Args:
        folder: The folder of the key file.
        ledger: The ledger of the run.
        run: Digest of what the key belongs to. A key of something else is replaced before the first release, and
            refused after it.

    Raises:
        TacitError: Key, ledger and run do not belong together.
    """
    key, recorded = folder / NOISE_KEY_FILE, ledger.facts.read().get(_FINGERPRINT)
    if recorded == _ERASED:
        _erase(key)  # a crash has left it behind; nothing was released with it
    elif not key.exists() and len(ledger):
        raise TacitError(
            f"{key} is missing, but the ledger beside it contains releases made with it. Restore it, or start a new "
            "run in another folder."
        )
    secret = _read_key(key, run) if key.exists() else None
    found = None if secret is None else Noise.from_key(secret).fingerprint
    replaced = found is not None and recorded not in (None, found)
    if replaced or (secret is None and len(ledger) and recorded != _ERASED):
        raise TacitError(
            f"{key} belongs to another run, or the settings or the data have changed since the first release. The same "
            "noise on other values would reveal both. Restore them, or start a new run in another folder."
        )
    noise = Noise.from_key(secret or _create_key(key, run))
    if recorded != noise.fingerprint:
        first = ledger.steps if secret is None else 0
        ledger.facts.write(**{_FINGERPRINT: noise.fingerprint, _FIRST_STEP: first})
    return noise


def erase_noise(folder: Path, ledger: Ledger) -> None:
    """Erase the key of a run that has ended: nobody can compute its noise any more.

    The ledger records it first, so that a crash in between leaves a key that is never used.
    """
    ledger.facts.write(**{_FINGERPRINT: _ERASED})
    _erase(folder / NOISE_KEY_FILE)


def is_erased(ledger: Ledger) -> bool:
    """Whether the run of this ledger has ended and its key is erased."""
    return ledger.facts.read().get(_FINGERPRINT) == _ERASED


def first_step_of_key(ledger: Ledger) -> int:
    """The first step whose noise the key in use gives; earlier steps had keys that are erased."""
    return int(ledger.facts.read().get(_FIRST_STEP, 0))


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
        sync_folder(path.parent)
    except OSError as error:
        raise TacitError(f"Cannot write {path}: {error.strerror or error}") from None
    finally:
        own.unlink()
    found = _read_key(path, run)
    if found is None:
        raise TacitError(f"Another process has just created {path} for another run: start a run only once")
    return found


def _erase(path: Path) -> None:
    """Overwrite the file and remove it. Copies in backups and in a disk's spare blocks are out of reach."""
    try:
        if path.exists():
            with path.open("r+b") as file:
                file.write(bytes(path.stat().st_size))
                file.flush()
                os.fsync(file.fileno())
            path.unlink()
            sync_folder(path.parent)
    except OSError as error:
        raise TacitError(f"Cannot erase {path}: {error.strerror or error}") from None


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
