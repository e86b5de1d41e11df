"""Ed25519 signatures of finished runs: who vouches for a run, and that nothing was changed since."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from tacit.errors import TacitError
from tacit.runs import storage
from tacit.runs.run_facts import utc_now

_FORMAT = "tacit-signature-1"
_EXPORT = "openssl pkey -in key.pem -pubout -out public.pem"
_CREATE = "openssl genpkey -algorithm ed25519 -out key.pem"


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key in PEM without a passphrase.

    Raises:
        TacitError: The file is not such a key. The error contains nothing of the file.
    """
    try:
        key = load_pem_private_key(_read(path), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise TacitError(
            f"{path} is not an Ed25519 private key in PEM without a passphrase. Create one: {_CREATE}"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise TacitError(f"{path} is a private key of another kind than Ed25519. Create one: {_CREATE}")
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key in PEM.

    Raises:
        TacitError: The file is not such a key.
    """
    try:
        key = load_pem_public_key(_read(path))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise TacitError(
            f"{path} is not an Ed25519 public key in PEM: openssl pkey -in key.pem -pubout -out public.pem"
        )
    return key


def sign_run(folder: Path, ledger_digests: Sequence[str], key: Ed25519PrivateKey) -> None:
    """Write the signature of a run. The ledgers contain digests of all other files, so it covers those, too."""
    digest = _signed_digest(ledger_digests)
    table = {
        "format": _FORMAT,
        "digest": digest,
        "time": utc_now(),
        "public_key": _raw(key.public_key()).hex(),
    }
    storage.write_json(folder / storage.SIGNATURE_FILE, {**table, "signature": key.sign(_message(table)).hex()})


def signature_difference(table: dict[str, Any], ledger_digests: Sequence[str]) -> str | None:
    """Return why a signature is not valid for these ledgers, or None if it is."""
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(table["public_key"]))
        key.verify(bytes.fromhex(table["signature"]), _message(table))
    except (KeyError, TypeError, ValueError, InvalidSignature):
        return "the signature is not valid"
    if table.get("digest") != _signed_digest(ledger_digests):
        return "the ledger was changed after it had been signed"
    return None


def fingerprint(key: Ed25519PublicKey | str) -> str:
    """A short name of a public key, given as a key or in hexadecimal: the beginning of its SHA-256.

    >>> fingerprint("00" * 32)
    '66687aad f862bd77 6c8fc18b 8e9f8e20'
    """
    raw = bytes.fromhex(key) if isinstance(key, str) else _raw(key)
    text = hashlib.sha256(raw).hexdigest()[:32]
    return " ".join(text[i : i + 8] for i in range(0, 32, 8))


def _message(table: dict[str, Any]) -> bytes:
    return json.dumps([table["format"], table["digest"], table["time"], table["public_key"]]).encode()


def _signed_digest(ledger_digests: Sequence[str]) -> str:
    return hashlib.blake2b(" ".join(ledger_digests).encode(), digest_size=32).hexdigest()


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TacitError(f"cannot read the key {path}: {error.strerror or error}") from None
