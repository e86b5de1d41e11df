"""A site's identity: its certificate and key, and the checks that every certificate must pass."""

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
from tacit.privacy import read_bytes
from tacit.sites.text import printable


@dataclass(frozen=True)
class SiteIdentity:
    """A site's certificate and private key, and the certificate authority it trusts.

    `load` checks all three files, so that a site with a bad certificate fails at its start, with a reason.

    Both ends of every connection present a certificate. A client also checks that the server is the site it means to
    reach (`channel_options`), not just any site of the same authority.
    """

    name: str
    certificate: Path
    key: Path
    authority: Path
    _pem: tuple[bytes, bytes, bytes] = field(repr=False)

    @classmethod
    def load(cls, certificate: Path, key: Path, authority: Path) -> SiteIdentity:
        """Read and check the PEM files of a site.

        Raises:
            TacitError: If a file cannot be read, the certificate is not valid now or not issued by the authority, or
                the key does not belong to it.
        """
        pem, private, trusted = read_bytes(certificate), read_bytes(key), read_bytes(authority)
        leaf = parse_certificates(pem, str(certificate))[0]
        name = common_name(leaf)
        if reason := certificate_problem(pem, trusted, name):
            raise TacitError(f"{certificate}: {reason}")
        if not same_public_key(parse_private_key(private, str(key)).public_key(), leaf.public_key()):
            raise TacitError(f"{key} is not the private key of {certificate}")
        return cls(name, certificate, key, authority, (pem, private, trusted))

    def server_credentials(self) -> grpc.ServerCredentials:
        """Credentials of a gRPC server that requires a client certificate of the authority."""
        pem, private, trusted = self._pem
        return grpc.ssl_server_credentials([(private, pem)], trusted, require_client_auth=True)

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Credentials of a gRPC client."""
        pem, private, trusted = self._pem
        return grpc.ssl_channel_credentials(trusted, private, pem)

    def channel_options(self, peer: str) -> list[tuple[str, str]]:
        """Options that make gRPC check the server's certificate for the name `peer`, whatever its address is."""
        return [("grpc.ssl_target_name_override", peer)]

    def context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        """The same for plain sockets: `ssl.Purpose.SERVER_AUTH` for a client, `CLIENT_AUTH` for a server."""
        context = ssl.create_default_context(purpose, cafile=str(self.authority))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(self.certificate, self.key)
        return context


def certificate_problem(
    certificate: bytes, authority: bytes, name: str | None = None, now: datetime | None = None
) -> str | None:
    """Return why a certificate is not acceptable, or None if it is.

    TLS also refuses such a certificate, but does not report a readable reason.

    Args:
        certificate: PEM of the certificate, followed by its chain if it has one.
        authority: PEM of the trusted certificate authorities.
        name: The site that the certificate must belong to; None accepts any.
        now: The time at which it must be valid; by default the current time.
    """
    try:
        chain = parse_certificates(certificate, "The certificate")
        return _chain_problem(chain, parse_certificates(authority, "The authority"), name, now or datetime.now(UTC))
    except TacitError as error:
        return str(error)
    except ValueError:  # cryptography parses some fields only when they are read
        return "The certificate is damaged"


def _chain_problem(
    chain: list[x509.Certificate], trusted: list[x509.Certificate], name: str | None, now: datetime
) -> str | None:
    leaf, last = chain[0], chain[-1]
    subject = f'The certificate of "{printable(common_name(leaf))}"'
    if problem := validity_problem(leaf, now, subject):
        return problem
    for intermediate in chain[1:]:
        if problem := validity_problem(intermediate, now, f'The authority "{_subject(intermediate)}"'):
            return problem
    for issued, issuer in pairwise(chain):
        if not is_issued_by(issued, issuer):
            return f'Broken certificate chain: "{_subject(issued)}" is not signed by "{_subject(issuer)}"'
    issuers = [one for one in trusted if one == last or is_issued_by(last, one)]
    if not issuers:
        return f"{subject} is issued by an unknown authority, {printable(last.issuer.rfc4514_string())}"
    problems = [validity_problem(one, now, f'The authority "{_subject(one)}"') for one in issuers]
    if all(problems):
        return problems[0]
    if name is not None and common_name(leaf) != name:
        return f'{subject} does not belong to "{name}"'
    if name is not None and name not in dns_names(leaf):
        return f'{subject} does not have "{name}" as a DNS subject alternative name, which TLS requires'
    return None


def _subject(certificate: x509.Certificate) -> str:
    return printable(certificate.subject.rfc4514_string())


def common_name(certificate: x509.Certificate | bytes) -> str:
    """Return the site's name: the certificate's only common name."""
    leaf = parse_certificates(certificate, "The certificate")[0] if isinstance(certificate, bytes) else certificate
    names = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) != 1 or not isinstance(names[0].value, str):
        raise TacitError(f"A site's certificate must have exactly one common name, got {len(names)}")
    return names[0].value


def dns_names(certificate: x509.Certificate) -> list[str]:
    """Return the DNS names among the subject alternative names."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return names.get_values_for_type(x509.DNSName)


def validity_problem(certificate: x509.Certificate, now: datetime, what: str) -> str | None:
    """Return why `certificate` is not valid at the time `now`, or None if it is."""
    if now < certificate.not_valid_before_utc:
        return f"{what} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    if now > certificate.not_valid_after_utc:
        return f"{what} expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    return None


def is_issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Return whether `issuer` is a certificate authority and has signed `certificate`."""
    try:
        certificate.verify_directly_issued_by(issuer)
        return issuer.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False


def parse_certificates(pem: bytes, what: str) -> list[x509.Certificate]:
    """Return the certificates in PEM data; `what` names them in the error."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise TacitError(f"{what} is not a certificate in PEM format") from None


def parse_private_key(pem: bytes, what: str) -> PrivateKeyTypes:
    """Return the private key in PEM data; `what` names it in the error."""
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        raise TacitError(f"{what} is not a private key in PEM format without a password") from None


def same_public_key(first: PublicKeyTypes, second: PublicKeyTypes) -> bool:
    """Return whether two public keys are equal."""
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return first.public_bytes(*form) == second.public_bytes(*form)
