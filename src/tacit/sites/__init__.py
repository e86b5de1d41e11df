"""Run a network of sites: one process per organisation, connected by gRPC with mutual TLS.

`create_network` writes the files of a network, `build_site` and `Node` run one site, `Supervisor` runs all sites on one
machine. `docs/architecture.md` follows one message from a site to its neighbour.
"""

from tacit.errors import require_extra

require_extra("sites", "Sites", "grpc", "google.protobuf", "prometheus_client")

from tacit.sites.build import build_site
from tacit.sites.certificates import CertificateFiles, create_authority, create_site_certificate
from tacit.sites.description import NetworkDescription, first_difference
from tacit.sites.identity import SiteIdentity, certificate_problem
from tacit.sites.logs import configure_logging
from tacit.sites.message import VALUE_KINDS, Link, Message, MessageKind
from tacit.sites.metrics_server import MetricsServer
from tacit.sites.names import check_site_name
from tacit.sites.native_stderr import capture_native_stderr
from tacit.sites.network_config import NetworkConfig
from tacit.sites.node import Node
from tacit.sites.pair_keys import create_pair_key
from tacit.sites.parts import SiteParts
from tacit.sites.payload import WireError, check_tensors
from tacit.sites.private_state import exclusive_lock
from tacit.sites.setup import NetworkFiles, create_network
from tacit.sites.site_config import SiteConfig
from tacit.sites.status import SiteStatus
from tacit.sites.supervisor import Supervisor
from tacit.sites.wire import decode, encode

__all__ = [
    "VALUE_KINDS",
    "CertificateFiles",
    "Link",
    "Message",
    "MessageKind",
    "MetricsServer",
    "NetworkConfig",
    "NetworkDescription",
    "NetworkFiles",
    "Node",
    "SiteConfig",
    "SiteIdentity",
    "SiteParts",
    "SiteStatus",
    "Supervisor",
    "WireError",
    "build_site",
    "capture_native_stderr",
    "certificate_problem",
    "check_site_name",
    "check_tensors",
    "configure_logging",
    "create_authority",
    "create_network",
    "create_pair_key",
    "create_site_certificate",
    "decode",
    "encode",
    "exclusive_lock",
    "first_difference",
]
