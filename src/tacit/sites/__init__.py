"""One organisation, one process: what sites say to each other, who they are, and what they have agreed on."""

from tacit.sites.certificates import Pair, check_name, make_authority, make_site
from tacit.sites.description import Description, mismatch
from tacit.sites.payload import WireError, fits
from tacit.sites.trust import Identity, identity, problem
from tacit.sites.wire import VALUES, Kind, Link, Message, decode, encode

__all__ = [
    "VALUES",
    "Description",
    "Identity",
    "Kind",
    "Link",
    "Message",
    "Pair",
    "WireError",
    "check_name",
    "decode",
    "encode",
    "fits",
    "identity",
    "make_authority",
    "make_site",
    "mismatch",
    "problem",
]
