"""What a certificate says, what is wrong with it, and how a site shows its own."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.x509.oid import NameOID

from tacit.errors import TacitError
from tacit.sites.text import printable


@dataclass(frozen=True)
class SiteIdentity:
    """A site's own certificate and key, and the authority it trusts: checked, so that the network starts or says why.

    Both ends of every connection show a certificate. A client also checks that the server is the very site it wants to
    reach (`channel_options`), and not just any that the authority knows.
    """

    name: str
    certificate: Path
    key: Path
    authority: Path
    _pem: tuple[bytes, bytes, bytes] = field(repr=False)

    @classmethod
    def load(cls, certificate: Path, key: Path, authority: Path) -> SiteIdentity:
        pem, secret, trusted = read(certificate), read(key), read(authority)
        leaf = parse(pem, str(certificate))[0]
        name = identity(leaf)
        if wrong := problem(pem, trusted, name):
            raise TacitError(f"{certificate}: {wrong}")
        if not same_key(parse_key(secret, str(key)).public_key(), leaf.public_key()):
            raise TacitError(f"{key} is not the secret key of {certificate}")
        return cls(name, certificate, key, authority, (pem, secret, trusted))

    def server_credentials(self) -> grpc.ServerCredentials:
        """Who shows no certificate of the authority is not let in."""
        pem, secret, trusted = self._pem
        return grpc.ssl_server_credentials([(secret, pem)], trusted, require_client_auth=True)

    def channel_credentials(self) -> grpc.ChannelCredentials:
        pem, secret, trusted = self._pem
        return grpc.ssl_channel_credentials(trusted, secret, pem)

    def channel_options(self, peer: str) -> list[tuple[str, str]]:
        """The connection holds only if the server's certificate names `peer`, at whatever address it is."""
        return [("grpc.ssl_target_name_override", peer)]

    def context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        """The same for plain sockets: `ssl.Purpose.SERVER_AUTH` is a client's, `CLIENT_AUTH` a server's."""
        context = ssl.create_default_context(purpose, cafile=str(self.authority))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(self.certificate, self.key)
        return context


def problem(certificate: bytes, authority: bytes, name: str | None = None, now: datetime | None = None) -> str | None:
    """What is wrong with a certificate (PEM, with its chain), as a sentence; None if nothing is.

    `authority` is the PEM of those who are trusted. TLS refuses such a certificate too, but does not say why.
    """
    try:
        return _problem(parse(certificate, "the certificate"), parse(authority, "the authority"), name, now)
    except TacitError as error:
        return str(error)
    except ValueError:  # what is read of a certificate late
        return "the certificate is damaged"


def _problem(
    chain: list[x509.Certificate], trusted: list[x509.Certificate], name: str | None, now: datetime | None
) -> str | None:
    leaf, last, now = chain[0], chain[-1], now or datetime.now(UTC)
    whose = f'the certificate of "{printable(identity(leaf))}"'
    for one, what in [(leaf, whose), *((link, f"an authority behind {whose}") for link in chain[1:])]:
        if wrong := dates(one, now, what):
            return wrong
    if not all(issued(one, by) for one, by in pairwise(chain)):
        return f"{whose} comes with a chain of authorities of which one did not sign the one before"
    signers = [one for one in trusted if one == last or issued(last, one)]
    if not signers:
        return f"{whose} is from another authority, {printable(last.issuer.rfc4514_string())}"
    ends = [dates(one, now, f"the authority of {whose}") for one in signers]
    if all(ends):
        return ends[0]
    if name is not None and identity(leaf) != name:
        return f'{whose} is not that of "{name}"'
    if name is not None and name not in dns_names(leaf):
        return f"{whose} lacks {name} as an alternative name, where TLS looks for it"
    return None


def identity(certificate: x509.Certificate | bytes) -> str:
    """The site's name, as its certificate has it: the subject's one common name."""
    leaf = parse(certificate, "the certificate")[0] if isinstance(certificate, bytes) else certificate
    names = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) != 1 or not isinstance(names[0].value, str):
        raise TacitError(f"a certificate names {len(names)} sites: it must have one common name")
    return names[0].value


def dns_names(leaf: x509.Certificate) -> list[str]:
    """The host names it is good for."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return names.get_values_for_type(x509.DNSName)


def dates(one: x509.Certificate, now: datetime, what: str) -> str | None:
    """What is wrong with the time it is shown at."""
    if now < one.not_valid_before_utc:
        return f"{what} is not valid before {one.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    if now > one.not_valid_after_utc:
        return f"{what} expired on {one.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    return None


def issued(one: x509.Certificate, by: x509.Certificate) -> bool:
    """Whether `by` is an authority, and has signed `one`."""
    try:
        one.verify_directly_issued_by(by)
        return by.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False


def parse(pem: bytes, what: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise TacitError(f"{what} is not a certificate in PEM form") from None


def parse_key(pem: bytes, what: str) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        raise TacitError(f"{what} is not a secret key in PEM form without a password") from None


def same_key(one: PublicKeyTypes, other: PublicKeyTypes) -> bool:
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return one.public_bytes(*form) == other.public_bytes(*form)


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TacitError(f"cannot read {path}: {error.strerror}") from None
