"""What a site keeps of its privacy: the ledger, and the secret key that its noise comes from."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tacit.errors import TacitError
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import Noise
from tacit.sites.certificates import write_private_file
from tacit.sites.identity import read

LEDGER, KEY = "ledger.sqlite", "noise.key"
_BYTES = 32


def open_private_state(state: Path, run: bytes, noise_seed: int | None = None) -> tuple[Ledger, Noise]:
    """The ledger and the noise in the folder `state`, made there if this is the first time.

    `run` is a digest of all that decides what the noise is added to. A site repeats its noise only to say again what
    it said before a crash: on other values the same noise would give both away, and other noise on the same values
    would be a second release. So the key, the ledger and the run stay together, or nothing is done.
    """
    path, key = state / LEDGER, state / KEY
    _make(state)
    if key.exists() and not path.exists():
        raise TacitError(f"{key} is there, and {path} is not, so what was released is not known: put it back")
    ledger = Ledger(path, durable=True)  # before the key: a crash in between leaves a ledger that holds nothing
    if noise_seed is not None:
        if key.exists():
            raise TacitError(f"{state} has a secret key, and noise_seed protects nothing: give it a state of its own")
        return ledger, Noise.from_seed(noise_seed)
    if not key.exists() and len(ledger):
        raise TacitError(
            f"{key} is lost, and with it the noise of what {path} says was released: put it back, or begin a run "
            "with another state"
        )
    secret = _read(key, run) if key.exists() else None
    if secret is None and len(ledger):
        raise TacitError(
            f"{key} was made for another run: the network or this site's data have changed since, and the same noise "
            "on other values would give both away: put back what was, or begin a run with another state"
        )
    return ledger, Noise.from_key(secret or _new(key, run))


def _make(state: Path) -> None:
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise TacitError(f"cannot make the folder {state}: {error.strerror or error}") from None


def _new(path: Path, run: bytes) -> bytes:
    """A new key, in place of one that nothing was released with if there is such.

    Another process may be at it too: what is in the file in the end is the key, for both.
    """
    secret, own = os.urandom(_BYTES), path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    write_private_file(own, secret + _seal(secret, run))
    try:
        if path.exists() and _read(path, run) is None:
            path.unlink()
        with suppress(FileExistsError):
            os.link(own, path)  # unlike a rename, it replaces nothing
        _sync(path.parent)
    except OSError as error:
        raise TacitError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        own.unlink()
    found = _read(path, run)
    if found is None:
        raise TacitError(f"{path} was made for another run just now: a site is one process")
    return found


def _sync(folder: Path) -> None:
    """The names of files must survive a crash too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(path: Path, run: bytes) -> bytes | None:
    """The key; None if it was made for another run."""
    data = read(path)
    if len(data) != 2 * _BYTES:
        raise TacitError(f"{path} is damaged: it must have {2 * _BYTES} bytes, and has {len(data)}")
    secret, seal = data[:_BYTES], data[_BYTES:]
    return secret if hmac.compare_digest(seal, _seal(secret, run)) else None


def _seal(secret: bytes, run: bytes) -> bytes:
    """Ties a key to a run, and tells nothing about it: records could be guessed from a bare digest."""
    return hashlib.blake2b(run, key=secret, digest_size=_BYTES, person=b"tacit noise key").digest()


@contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """The only process that works in a folder: two with one ledger would each tell half of what was released."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise TacitError(f"another process works in {folder}: a site is one process") from None
    finally:
        os.close(handle)
