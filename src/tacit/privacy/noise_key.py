"""The secret key of a run's noise, in a file beside its ledger: created, read, and erased at the end."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from tacit.errors import TacitError
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import Noise
from tacit.privacy.private_files import create_private_file, erase_file, read_bytes

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
    key, recorded = folder / NOISE_KEY_FILE, recorded_fingerprint(ledger)
    if recorded == _ERASED:
        erase_file(key)  # a crash has left it behind; nothing was released with it
    elif not key.exists() and len(ledger):
        raise missing_key(key)
    secret = _read_key(key, run) if key.exists() else None
    check_fingerprint(key, recorded, None if secret is None else Noise.from_key(secret).fingerprint, ledger)
    noise = Noise.from_key(secret or _create_key(key, run))
    record_fingerprint(ledger, recorded, noise.fingerprint, new=secret is None)
    return noise


def is_single_key(path: Path) -> bool:
    """Whether the file has one key for all rounds, as `open_noise` creates it."""
    return path.exists() and path.stat().st_size == 2 * _KEY_BYTES


def recorded_fingerprint(ledger: Ledger) -> str | None:
    """The fingerprint of the key with which the releases in the ledger were made; None before the first key."""
    found: str | None = ledger.facts.read().get(_FINGERPRINT)
    return found


def missing_key(key: Path) -> TacitError:
    """The error for a key that is not there, although something was released with it."""
    return TacitError(
        f"{key} is missing, but the ledger beside it contains releases made with it. Restore it, or start a new "
        "run in another folder."
    )


def check_fingerprint(key: Path, recorded: str | None, found: str | None, ledger: Ledger) -> None:
    """Raise unless the key in use is `found`, or no key was used yet; `found` is None if there is no key of this run.

    Raises:
        TacitError: The same noise would be used on other values.
    """
    replaced = found is not None and recorded not in (None, found)
    if replaced or (found is None and len(ledger) and recorded != _ERASED):
        raise TacitError(
            f"{key} belongs to another run, or the settings or the data have changed since the first release. The same "
            "noise on other values would reveal both. Restore them, or start a new run in another folder."
        )


def record_fingerprint(ledger: Ledger, recorded: str | None, fingerprint: str, *, new: bool) -> None:
    """Record in the ledger which key is in use, and for a new key from which step on."""
    if recorded != fingerprint:
        ledger.facts.write(**{_FINGERPRINT: fingerprint, _FIRST_STEP: ledger.steps if new else 0})


def erase_noise(folder: Path, ledger: Ledger) -> None:
    """Erase the key of a run that has ended: nobody can compute its noise any more.

    The ledger records it first, so that a crash in between leaves a key that is never used.
    """
    ledger.facts.write(**{_FINGERPRINT: _ERASED})
    erase_file(folder / NOISE_KEY_FILE)


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
    secret = os.urandom(_KEY_BYTES)
    if path.exists() and _read_key(path, run) is None:
        path.unlink()
    create_private_file(path, secret + _binding(secret, run))
    found = _read_key(path, run)
    if found is None:
        raise TacitError(f"Another process has just created {path} for another run: start a run only once")
    return found


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
