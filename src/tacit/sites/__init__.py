"""Run a network of sites: one process per organisation, connected by gRPC with mutual TLS."""

from tacit.sites.certificates import CertificateFiles, create_authority, create_site_certificate
from tacit.sites.description import NetworkDescription, first_difference
from tacit.sites.identity import SiteIdentity, certificate_problem
from tacit.sites.message import VALUE_KINDS, Link, Message, MessageKind
from tacit.sites.names import check_site_name
from tacit.sites.payload import WireError, check_tensors
from tacit.sites.wire import decode, encode

__all__ = [
    "VALUE_KINDS",
    "CertificateFiles",
    "Link",
    "Message",
    "MessageKind",
    "NetworkDescription",
    "SiteIdentity",
    "WireError",
    "certificate_problem",
    "check_site_name",
    "check_tensors",
    "create_authority",
    "create_site_certificate",
    "decode",
    "encode",
    "first_difference",
]
