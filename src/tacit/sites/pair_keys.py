"""Keys of paired noise between sites: one X25519 key per site, and one key per pair that both ends derive.

    k_ij = HKDF-SHA256(X25519(sk_i, pk_j), info = "tacit/pair" | digest(roster) | run | epoch | min(i, j) | max(i, j))

The public keys are in network.toml, so all sites of a run agree on them. The private key of a site is used once: it is
erased before the first round, and the keys of pairs change every round (`tacit.privacy.RatchetedKeys`).
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit.errors import TacitError
from tacit.privacy import PairPlan, create_private_file, erase_file, read_bytes
from tacit.sites.canonical import canonical_json
from tacit.sites.description import NetworkDescription
from tacit.sites.identity import parse_private_key
from tacit.sites.names import parse_public_key
from tacit.sites.site_config import SiteConfig

_INFO = b"tacit/pair"
_KEY_BYTES = 32


def pair_key_name(site: str) -> str:
    """The usual name of the file of a site's private key for paired noise."""
    return f"{site}.pair.key"


def create_pair_key(site: SiteConfig) -> tuple[Path, str]:
    """Create the private key of a site for paired noise; return its file and the public key for network.toml.

    Raises:
        TacitError: node.toml names no file for it, or the file exists.
    """
    path = site.certificates.pair_key
    if path is None:
        raise TacitError(f'Set certificates.pair_key in node.toml, such as "{pair_key_name(site.name)}"')
    return path, write_pair_key(path)


def write_pair_key(path: Path) -> str:
    """Create the private key of a site in a new file that only its owner can read; return the public key in base64.

    Raises:
        TacitError: The file exists.
    """
    if path.exists():
        raise TacitError(f"{path} exists and is not replaced: it may be the key of an epoch that has not begun")
    key = X25519PrivateKey.generate()
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    create_private_file(path, key.private_bytes(*form))
    return _text(key.public_key())


@dataclass(frozen=True)
class PairKeyFile:
    """The private key of a site, from which the keys of its pairs are derived once.

    Attributes:
        path: The file of the private key.
        node: The site's node id.
        partners: The nodes with which it shares keys.
        description: What all sites agreed on, with all public keys.
    """

    path: Path
    node: int
    partners: Sequence[int]
    description: NetworkDescription

    @classmethod
    def of(cls, path: Path | None, node: int, plan: PairPlan, description: NetworkDescription) -> PairKeyFile:
        """Return the key file of a site with the partners that the plan counts on.

        Raises:
            TacitError: A public key is missing, or no key file is configured.
        """
        assert description.pairs is not None
        public = description.pairs.public_keys
        if missing := [name for name in description.sites if name not in public]:
            raise TacitError(
                f"Paired noise needs a public key of every site: {missing[0]} has none. Create it with tacit network "
                "key, and set public_key in [[sites]] of network.toml"
            )
        if path is None:
            raise TacitError("Paired noise needs the site's private key: set certificates.pair_key in node.toml")
        return cls(path, node, sorted(plan.partners(node)), description)

    @property
    def epoch(self) -> int:
        """The epoch of the keys."""
        assert self.description.pairs is not None
        return self.description.pairs.epoch

    @property
    def run(self) -> str:
        """The id of this site's run in this epoch. Other keys, another roster or another epoch are another run."""
        text = f"tacit/pair run {self.description.digest} {self.node}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def derive(self) -> Mapping[int, bytes]:
        """Return the first key of each pair.

        Raises:
            TacitError: The private key is missing, readable by others, or not that of network.toml.
        """
        private = self._private_key()
        return {partner: self._pair_key(private, partner) for partner in self.partners}

    def erase(self) -> None:
        """Erase the private key: nobody can derive the keys of this epoch again."""
        erase_file(self.path)

    def _private_key(self) -> X25519PrivateKey:
        name, pairs = self.description.sites[self.node], self.description.pairs
        assert pairs is not None
        if not self.path.exists():
            raise TacitError(
                f"{self.path} is missing. A site erases it when an epoch begins, so that no round can be repeated with "
                f"other values. If the state folder of epoch {pairs.epoch} is lost, it cannot be resumed: create new "
                "keys with tacit network key, and raise epoch in network.toml at all sites"
            )
        if os.stat(self.path).st_mode & 0o077:
            raise TacitError(f"{self.path} can be read by others: run chmod 600 {self.path}")
        key = parse_private_key(read_bytes(self.path), str(self.path))
        if not isinstance(key, X25519PrivateKey):
            raise TacitError(f"{self.path} is not an X25519 private key")
        if _text(key.public_key()) != pairs.public_keys[name]:
            raise TacitError(
                f"{self.path} is not the private key of public_key of {name} in network.toml: all sites need the "
                "public key of this file"
            )
        return key

    def _pair_key(self, private: X25519PrivateKey, partner: int) -> bytes:
        assert self.description.pairs is not None
        name = self.description.sites[partner]
        public = parse_public_key(self.description.pairs.public_keys[name])
        try:
            shared = private.exchange(public)
        except ValueError:  # a point of small order: anybody could compute the key
            raise TacitError(f"The public key of {name} in network.toml is not secure: create a new one") from None
        low, high = sorted((self.node, partner))
        numbers = b"".join(each.to_bytes(8, "big") for each in (self.epoch, low, high))
        info = _INFO + roster_digest(self.description) + bytes.fromhex(self.description.digest) + numbers
        return HKDF(SHA256(), _KEY_BYTES, salt=None, info=info).derive(shared)


def roster_digest(description: NetworkDescription) -> bytes:
    """Digest of the certified sites in the order of their node ids, with their public keys and numbers of records."""
    assert description.pairs is not None
    public, records = description.pairs.public_keys, description.records or ()
    roster = [[name, public.get(name), *records[node : node + 1]] for node, name in enumerate(description.sites)]
    return hashlib.sha256(canonical_json({"roster": roster}).encode()).digest()


def _text(key: X25519PublicKey) -> str:
    return base64.b64encode(key.public_bytes_raw()).decode()
