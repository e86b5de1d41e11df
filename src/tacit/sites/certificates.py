"""Who a site is: a certificate with its name, from an authority that all sites of a network trust."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tacit.errors import TacitError
from tacit.sites.identity import dates, dns_names, identity, issued, parse, parse_key, read, same_key
from tacit.sites.text import printable

AUTHORITY = "authority"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_RESERVED = (AUTHORITY, "localhost")
_AUTHORITY_DAYS, _SITE_DAYS = 365, 90
_RENEWED = timedelta(days=30)  # before its end
_SKEW = timedelta(minutes=5)  # by which the clocks of two sites may differ


@dataclass(frozen=True)
class CertificateFiles:
    """The files of a certificate and of its secret key."""

    certificate: Path
    key: Path

    @classmethod
    def named(cls, folder: Path, name: str) -> CertificateFiles:
        return cls(folder / f"{name}.crt", folder / f"{name}.key")


def check_site_name(name: str) -> str:
    """A site's name is a host name in small letters: TLS itself can then check it.

    >>> check_site_name("Hospital A")
    Traceback (most recent call last):
    tacit.errors.TacitError: "Hospital A" cannot name a site: small letters, digits, hyphens and dots can
    """
    if len(name) > 64 or not _NAME.fullmatch(name) or name in _RESERVED:
        raise TacitError(f'"{printable(name)}" cannot name a site: small letters, digits, hyphens and dots can')
    return name


def create_authority(folder: Path) -> CertificateFiles:
    """A private authority for trying out: made once, and taken as it is ever after."""
    pair = CertificateFiles.named(folder, AUTHORITY)
    if pair.certificate.exists():  # a key alone has signed nothing yet
        key, authority = _load(pair)
        if not same_key(key.public_key(), authority.public_key()):
            raise TacitError(f"{pair.key} is not the secret key of {pair.certificate}")
        if wrong := dates(authority, datetime.now(UTC), f"the authority {pair.certificate}"):
            raise TacitError(f"{wrong}: move {folder} away, and all sites get new certificates")
        return pair
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"tacit {os.urandom(8).hex()}")])
    builder = (
        _builder(subject, subject, key.public_key(), _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    _keep(pair, key, builder.sign(key, hashes.SHA256()))
    return pair


def create_site_certificate(folder: Path, name: str, hosts: Sequence[str] = ()) -> CertificateFiles:
    """The certificate of the site `name`, signed by the authority in `folder`.

    It is good for `localhost`, 127.0.0.1 and `hosts`, as a server and as a client. One that is good for all of them
    and for a month more is left alone; else it gets a new one. What another authority gave is never replaced.
    """
    check_site_name(name)
    signing, authority = _load(create_authority(folder))
    pair = CertificateFiles.named(folder, name)
    every = dict.fromkeys([name, "localhost", "127.0.0.1", *hosts])
    wanted = x509.SubjectAlternativeName([_general(host) for host in every])
    _check_apart(folder, name, wanted)
    if pair.certificate.exists() and _still_good(pair, authority, wanted):
        return pair
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        _builder(subject, authority.subject, key.public_key(), _SITE_DAYS, authority.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(wanted, critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
    )
    _keep(pair, key, builder.sign(signing, hashes.SHA256()))
    return pair


def _check_apart(folder: Path, name: str, wanted: x509.SubjectAlternativeName) -> None:
    """No site's certificate may be good for the name of another: its clients could not tell them apart."""
    for path in folder.glob("*.crt"):
        other = parse(read(path), str(path))[0]
        if (whose := identity(other)) == name:
            continue
        if whose in wanted.get_values_for_type(x509.DNSName) or name in dns_names(other):
            raise TacitError(f'the sites "{name}" and "{whose}" cannot have each other\'s names as host names')


def _still_good(pair: CertificateFiles, authority: x509.Certificate, wanted: x509.SubjectAlternativeName) -> bool:
    leaf = parse(read(pair.certificate), str(pair.certificate))[0]
    if not issued(leaf, authority):
        raise TacitError(f"{pair.certificate} is from another authority, and stays as it is: give another folder")
    if not pair.key.exists() or not same_key(_load(pair)[0].public_key(), leaf.public_key()):
        return False
    had = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return had == wanted and dates(leaf, datetime.now(UTC) + _RENEWED, "") is None


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    days: int,
    latest: datetime | None = None,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    end = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(end if latest is None else min(end, latest))
    )


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not _NAME.fullmatch(host.lower()) or len(host) > 253:
            raise TacitError(f"{host!a} is no host name or address, so no certificate can have it") from None
        return x509.DNSName(host.lower())


def _load(pair: CertificateFiles) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = parse_key(read(pair.key), str(pair.key))
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TacitError(f"{pair.key} is not the secret key of an elliptic curve")
    return key, parse(read(pair.certificate), str(pair.certificate))[0]


def _keep(pair: CertificateFiles, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_private_file(pair.key, secret)
    write_private_file(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM))


def write_private_file(path: Path, data: bytes) -> None:
    """The whole file or nothing, for the owner's eyes from its first byte."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise TacitError(f"cannot write {path}: {error.strerror or error}") from None
