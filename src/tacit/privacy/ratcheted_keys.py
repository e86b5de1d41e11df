"""The keys of a site's noise in one small file, from which the keys of complete rounds are erased."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tacit.errors import TacitError
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise_key import (
    NOISE_KEY_FILE,
    check_fingerprint,
    missing_key,
    record_fingerprint,
    recorded_fingerprint,
)
from tacit.privacy.private_files import (
    create_private_file,
    erase_file,
    erase_leftover,
    read_bytes,
    replace_private_file,
)
from tacit.privacy.ratchet import Ratchet, RatchetedNoise, ShuffleNoise

_FORMAT = 1
_KEY_BYTES = 32
_OWN, _SHUFFLES = "own", "shuffles"


class PairSecrets(Protocol):
    """Where the keys come from that a node shares with its partners."""

    def derive(self) -> Mapping[int, bytes]:
        """Return the first key of each partner."""

    def erase(self) -> None:
        """Erase the secret from which the keys were derived. It may be erased already."""


class RatchetedKeys:
    """The key of a site's own noise, and the keys that it shares with its partners.

    Privacy:
        A crashed site repeats the rounds since its last checkpoint, with the same noise. The keys of earlier rounds
        are never needed again, and are erased (`erase_before`). Whoever gets the file then cannot compute the noise of
        those rounds, nor which records were drawn. What the keys were derived from is erased before the first round
        (`begin_round`), so that a site that has lost this file cannot repeat a round with other values.

        What remains is the key of digests, which is independent of all noise. Copies in backups, in swapped memory and
        in a disk's spare blocks are out of reach.

    Attributes:
        noise: The site's own noise.
        partners: The noise that the site shares with each of its partners.
    """

    def __init__(self, path: Path, table: Mapping[str, Any], source: PairSecrets | None = None) -> None:
        self._path, self._source = path, source
        self._identity, self._binding = bytes.fromhex(table["digest_key"]), table["binding"]
        self._chains = {name: Ratchet(at, bytes.fromhex(key)) for name, (at, key) in table["chains"].items()}
        ended = Ratchet(1 << 62, bytes(_KEY_BYTES))  # all keys before this position are erased
        own, shuffles = (self._chains.get(name, ended) for name in (_OWN, _SHUFFLES))
        self.noise = RatchetedNoise(self._identity, own, shuffles)
        self.partners = {
            int(name): RatchetedNoise(self._identity, chain)
            for name, chain in self._chains.items()
            if name not in (_OWN, _SHUFFLES)
        }
        self._round = self._first_shuffle = -1

    @classmethod
    def open(cls, folder: Path, ledger: Ledger, run: bytes, source: PairSecrets | None = None) -> RatchetedKeys:
        """Open the keys in `folder`, or create them if nothing was released with any.

        Args:
            folder: The folder of the key file.
            ledger: The ledger of the run.
            run: Digest of what the keys belong to. Keys of something else are replaced before the first release, and
                refused after it.
            source: The secret from which new keys of partners are derived; None without partners.

        Raises:
            TacitError: Keys, ledger and run do not belong together.
        """
        path, recorded = folder / NOISE_KEY_FILE, recorded_fingerprint(ledger)
        erase_leftover(path)
        if not path.exists() and len(ledger):
            raise missing_key(path)
        table = _read(path, run) if path.exists() else None
        keys = None if table is None else cls(path, table, source)
        check_fingerprint(path, recorded, None if keys is None else keys.noise.fingerprint, ledger)
        if keys is None:
            keys = cls(path, _created(path, run, source), source)
        record_fingerprint(ledger, recorded, keys.noise.fingerprint, new=table is None)
        return keys

    @property
    def position(self) -> int | None:
        """The first round whose keys are here; None after the end of the run."""
        return self._chains[_OWN].position if self._chains else None

    def begin_round(self, t: int) -> None:
        """Use the keys of round t, and erase what the keys of partners were derived from."""
        if self._source is not None:
            self._source.erase()
            self._source = None
        last = self._shuffles.last_used
        self._round, self._first_shuffle = t, self._shuffles.position if last is None else last
        for noise in (self.noise, *self.partners.values()):
            noise.begin_round(t)

    def erase_before(self, t: int) -> None:
        """Erase the keys of all rounds before t, whose checkpoint is on disk, from the file and from memory."""
        if not self._chains or t <= self._chains[_OWN].position:
            return
        last = self._shuffles.last_used
        # A round that is in progress will be repeated, with the shuffle from which it began.
        shuffle = self._first_shuffle if t <= self._round else self._shuffles.position if last is None else last
        later = {name: chain.advanced(shuffle if name == _SHUFFLES else t) for name, chain in self._chains.items()}
        replace_private_file(self._path, _encoded(self._identity, self._binding, later))
        self._use(later)

    def erase_all(self) -> None:
        """Erase all keys of a run that has ended, except for that of digests."""
        if self._chains:
            replace_private_file(self._path, _encoded(self._identity, self._binding, {}))
            ended = Ratchet(1 << 62, bytes(_KEY_BYTES))
            self._use(dict.fromkeys(self._chains, ended))
            self._chains = {}

    @property
    def _shuffles(self) -> Ratchet:
        assert isinstance(self.noise.shuffles, ShuffleNoise)
        return self.noise.shuffles.chain

    def _use(self, chains: dict[str, Ratchet]) -> None:
        assert isinstance(self.noise.shuffles, ShuffleNoise)
        self._chains = chains
        self.noise.rounds, self.noise.shuffles.chain = chains[_OWN], chains[_SHUFFLES]
        for partner, noise in self.partners.items():
            noise.rounds = chains[str(partner)]


def _created(path: Path, run: bytes, source: PairSecrets | None) -> dict[str, Any]:
    """Create the key file, in place of one with which nothing was released."""
    identity = os.urandom(_KEY_BYTES)
    new = {_OWN: os.urandom(_KEY_BYTES), _SHUFFLES: os.urandom(_KEY_BYTES)}
    new |= {str(partner): key for partner, key in (source.derive() if source is not None else {}).items()}
    if path.exists() and _read(path, run) is None:
        erase_file(path)
    create_private_file(
        path, _encoded(identity, _binding(identity, run), {name: Ratchet(0, key) for name, key in new.items()})
    )
    found = _read(path, run)
    if found is None:
        raise TacitError(f"Another process has just created {path} for another run: start a run only once")
    return found


def _encoded(identity: bytes, binding: str, chains: Mapping[str, Ratchet]) -> bytes:
    stored = {name: [chain.position, chain.key.hex()] for name, chain in chains.items()}
    table = {"format": _FORMAT, "digest_key": identity.hex(), "binding": binding, "chains": stored}
    return json.dumps(table).encode()


def _read(path: Path, run: bytes) -> dict[str, Any] | None:
    """Return the contents of the file, or None if it belongs to another run."""
    try:
        table = json.loads(read_bytes(path))
        identity, chains = bytes.fromhex(table["digest_key"]), table["chains"]
        keys = [identity, *(bytes.fromhex(key) for at, key in chains.values() if at >= 0)]
        assert table["format"] == _FORMAT
        assert len(keys) == len(chains) + 1
        assert all(len(key) == _KEY_BYTES for key in keys)
        assert not chains or {_OWN, _SHUFFLES} <= chains.keys()
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError):
        raise TacitError(f"{path} is damaged. Restore it to resume") from None
    return dict(table) if hmac.compare_digest(str(table.get("binding")), _binding(identity, run)) else None


def _binding(identity: bytes, run: bytes) -> str:
    """Bind keys to a run. The digest is keyed: from a plain one, records could be guessed."""
    return hashlib.blake2b(run, key=identity, digest_size=_KEY_BYTES, person=b"tacit noise key").hexdigest()
