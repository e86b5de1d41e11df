"""One organisation, one process: what sites say to each other, who they are, and what they have agreed on."""

from tacit.sites.certificates import CertificateFiles, check_site_name, create_authority, create_site_certificate
from tacit.sites.description import NetworkDescription, first_difference
from tacit.sites.identity import SiteIdentity, identity, problem
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
    "check_site_name",
    "create_authority",
    "create_site_certificate",
    "decode",
    "encode",
    "first_difference",
    "fits",
    "identity",
    "problem",
]
