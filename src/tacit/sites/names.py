"""Names, addresses and public keys of sites, checked."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Annotated, TypeVar

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from pydantic import AfterValidator

from tacit.errors import TacitError
from tacit.sites.text import printable

AUTHORITY = "authority"
HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_RESERVED_NAMES = (AUTHORITY, "localhost")
_MAX_NAME_LENGTH = 64  # of a common name in X.509
_ADDRESS = re.compile(r"(?P<host>[^\s:/\[\]]+|\[(?P<ipv6>[0-9a-fA-F:.]+)\]):(?P<port>\d{1,5})", re.ASCII)

T = TypeVar("T", bound=Hashable)


def check_site_name(name: str) -> str:
    """Return `name` if it is a valid site name: a host name in lower case, so that TLS can verify it.

    >>> check_site_name("Hospital A")
    Traceback (most recent call last):
    tacit.errors.TacitError: Invalid site name "Hospital A": use lower-case letters, digits, hyphens and dots
    """
    if name in _RESERVED_NAMES:
        raise TacitError(f'Invalid site name "{name}": it is reserved, choose another name')
    if len(name) > _MAX_NAME_LENGTH:
        raise TacitError(f'Invalid site name "{printable(name)}": use at most {_MAX_NAME_LENGTH} characters')
    if not HOST_NAME.fullmatch(name):
        raise TacitError(f'Invalid site name "{printable(name)}": use lower-case letters, digits, hyphens and dots')
    return name


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT.

    >>> parse_address("[::1]:9401")
    ('::1', 9401)
    """
    found = _ADDRESS.fullmatch(address)
    if not found or int(found["port"]) > 65535 or (found["ipv6"] and not _is_ipv6(found["ipv6"])):
        raise TacitError(f'Invalid address "{printable(address)}": use HOST:PORT, such as hospital.example:7401')
    return found["ipv6"] or found["host"], int(found["port"])


def parse_public_key(text: str) -> X25519PublicKey:
    """Return the public key of a site from its base64 text, or raise ValueError."""
    try:
        key = X25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        key = None
    if key is None or base64.b64encode(key.public_bytes_raw()).decode() != text:
        raise ValueError("Input should be an X25519 public key: 32 bytes in base64")
    return key


def first_duplicate(values: Iterable[T]) -> T | None:
    """Return a value that occurs more than once, or None."""
    value, count = Counter(values).most_common(1)[0]
    return value if count > 1 else None


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _validated_name(name: str) -> str:
    try:
        return check_site_name(name)
    except TacitError as error:
        raise ValueError(str(error)) from None


def _validated_address(address: str) -> str:
    try:
        _, port = parse_address(address)
    except TacitError as error:
        raise ValueError(str(error)) from None
    if port == 0:
        raise ValueError(f'Invalid address "{address}": the port must be from 1 to 65535')
    return address


def _validated_public_key(text: str) -> str:
    parse_public_key(text)
    return text


SiteName = Annotated[str, AfterValidator(_validated_name)]
Address = Annotated[str, AfterValidator(_validated_address)]
PublicKey = Annotated[str, AfterValidator(_validated_public_key)]
