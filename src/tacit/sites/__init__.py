"""Run a network of sites: one process per organisation, connected by gRPC with mutual TLS."""

from tacit.sites.certificates import CertificateFiles, create_authority, create_site_certificate
from tacit.sites.description import NetworkDescription, first_difference
from tacit.sites.identity import SiteIdentity, certificate_problem
from tacit.sites.names import check_site_name
from tacit.sites.payload import WireError, fits
from tacit.sites.wire import VALUES, Kind, Link, Message, decode, encode

__all__ = [
    "VALUES",
    "CertificateFiles",
    "Kind",
    "Link",
    "Message",
    "NetworkDescription",
    "SiteIdentity",
    "WireError",
    "certificate_problem",
    "check_site_name",
    "create_authority",
    "create_site_certificate",
    "decode",
    "encode",
    "first_difference",
    "fits",
]
