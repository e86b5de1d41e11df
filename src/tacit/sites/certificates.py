"""Create certificates: a private authority, and one certificate per site that it signs."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tacit.errors import TacitError
from tacit.privacy import read_bytes, write_private_file
from tacit.sites.identity import (
    common_name,
    dns_names,
    is_issued_by,
    parse_certificates,
    parse_private_key,
    same_public_key,
    validity_problem,
)
from tacit.sites.names import AUTHORITY, HOST_NAME, check_site_name

_AUTHORITY_DAYS, _SITE_DAYS = 365, 90
_RENEW_BEFORE_EXPIRY = timedelta(days=30)
_CLOCK_SKEW = timedelta(minutes=5)  # allowed difference between the clocks of two sites


@dataclass(frozen=True)
class CertificateFiles:
    """Paths of a certificate and of its private key."""

    certificate: Path
    key: Path

    @classmethod
    def in_folder(cls, folder: Path, name: str) -> CertificateFiles:
        """NAME.crt and NAME.key in `folder`."""
        return cls(folder / f"{name}.crt", folder / f"{name}.key")


def create_authority(folder: Path) -> CertificateFiles:
    """Create a private certificate authority in `folder`, or return the one that is there.

    It is meant for trials on machines of one owner: whoever has its key can impersonate every site.

    Raises:
        TacitError: If the existing authority has expired or its key does not belong to it.
    """
    files = CertificateFiles.in_folder(folder, AUTHORITY)
    if files.certificate.exists():  # a key without a certificate has not signed anything yet
        key, authority = _load(files)
        if not same_public_key(key.public_key(), authority.public_key()):
            raise TacitError(f"{files.key} is not the private key of {files.certificate}")
        if problem := validity_problem(authority, datetime.now(UTC), f"The authority {files.certificate}"):
            raise TacitError(f"{problem}. Move {folder} away and create new certificates for all sites.")
        return files
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"tacit {os.urandom(8).hex()}")])
    builder = (
        _builder(subject, subject, key.public_key(), _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    _write(files, key, builder.sign(key, hashes.SHA256()))
    return files


def create_site_certificate(folder: Path, name: str, hosts: Sequence[str] = ()) -> CertificateFiles:
    """Create the certificate of a site, signed by the authority in `folder`, for server and client use.

    An existing certificate stays if it has the same hosts and is valid for 30 more days; otherwise it is replaced. A
    certificate of another authority is never replaced.

    Args:
        folder: The folder of the authority, which is created if needed; the certificate is written there too.
        name: The site's name, which becomes the common name and a DNS name.
        hosts: Further host names and IP addresses; `localhost` and 127.0.0.1 are always included.
    """
    check_site_name(name)
    authority_key, authority = _load(create_authority(folder))
    files = CertificateFiles.in_folder(folder, name)
    unique_hosts = dict.fromkeys([name, "localhost", "127.0.0.1", *hosts])
    names = x509.SubjectAlternativeName([_general_name(host) for host in unique_hosts])
    _check_names_are_unique(folder, name, names)
    if files.certificate.exists() and _can_stay(files, authority, names):
        return files
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        _builder(subject, authority.subject, key.public_key(), _SITE_DAYS, authority.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(names, critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    _write(files, key, builder.sign(authority_key, hashes.SHA256()))
    return files


def _check_names_are_unique(folder: Path, name: str, names: x509.SubjectAlternativeName) -> None:
    """No site's certificate may be valid for another site's name: clients could not distinguish the two."""
    for path in folder.glob("*.crt"):
        other = parse_certificates(read_bytes(path), str(path))[0]
        other_name = common_name(other)
        if other_name == name:
            continue
        if other_name in names.get_values_for_type(x509.DNSName) or name in dns_names(other):
            raise TacitError(f'Sites "{name}" and "{other_name}" use each other\'s names as host names: rename one')


def _can_stay(files: CertificateFiles, authority: x509.Certificate, names: x509.SubjectAlternativeName) -> bool:
    leaf = parse_certificates(read_bytes(files.certificate), str(files.certificate))[0]
    if not is_issued_by(leaf, authority):
        raise TacitError(f"{files.certificate} is from another authority and is not replaced: use another folder")
    if not files.key.exists() or not same_public_key(_load(files)[0].public_key(), leaf.public_key()):
        return False
    existing = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return existing == names and validity_problem(leaf, datetime.now(UTC) + _RENEW_BEFORE_EXPIRY, "") is None


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    days: int,
    latest_end: datetime | None = None,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    end = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(end if latest_end is None else min(end, latest_end))
    )


def _key_usage(authority: bool) -> x509.KeyUsage:
    """An authority's key signs certificates, a site's key signs handshakes."""
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not HOST_NAME.fullmatch(host.lower()) or len(host) > 253:
            raise TacitError(f"{host!a} is not a host name or an IP address") from None
        return x509.DNSName(host.lower())


def _load(files: CertificateFiles) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = parse_private_key(read_bytes(files.key), str(files.key))
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TacitError(f"{files.key} is not an elliptic-curve private key")
    return key, parse_certificates(read_bytes(files.certificate), str(files.certificate))[0]


def _write(files: CertificateFiles, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_private_file(files.key, private)
    write_private_file(files.certificate, certificate.public_bytes(serialization.Encoding.PEM))
