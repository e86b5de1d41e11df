"""The interface between the message protocol and the connections that carry its bytes.

The protocol (`Exchange`) calls a `Transport`. A transport calls back through `MessageHandler`, which it receives in
`open`; it does not interpret the bytes that it carries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol


class Replies(NamedTuple):
    """The result of handling a message: whether it was accepted, and the replies to send on the same connection."""

    accepted: bool
    messages: list[bytes]


class MessageHandler(Protocol):
    """What a transport requires of the protocol. It calls these methods from its own thread; none of them blocks."""

    @property
    def peers(self) -> Collection[str]:
        """Names of the sites that may connect."""

    def hello(self, peer: str) -> bytes:
        """Return the first message of a connection."""

    def on_first_message(self, peer: str, data: bytes) -> Replies:
        """Handle the first message of a connection. The connection is used only if it is accepted."""

    def on_message(self, peer: str, data: bytes) -> Replies:
        """Handle a later message. `data` is untrusted."""

    def pending(self, peer: str) -> list[bytes]:
        """Return the messages to repeat on a new connection because the peer has not replied to them."""

    def on_connected(self, peer: str) -> None:
        """A connection to or from the peer is in use."""

    def on_disconnected(self, peer: str) -> None:
        """A connection to or from the peer has ended."""

    def on_tick(self) -> None:
        """Called about twice per second."""

    def on_failure(self, reason: str) -> None:
        """The transport has failed and cannot continue."""


class Transport(ABC):
    """Connections to other sites. They may lose, delay and repeat messages; the protocol tolerates that.

    A site sends values on the connections that it opens, and replies on the same connection. The transport reopens a
    connection that breaks.
    """

    def __init__(self) -> None:
        self.bytes_sent = 0
        self.bytes_received = 0

    @abstractmethod
    def open(self, handler: MessageHandler) -> None:
        """Start to accept connections. Messages go to `handler` until `close`."""

    @abstractmethod
    def connect(self, peers: Iterable[str]) -> None:
        """Open a connection to each of these sites, and keep it open."""

    @abstractmethod
    def send(self, peer: str, data: bytes) -> None:
        """Send a message on the connection that this site opened, or drop it if there is none. Does not block."""

    @abstractmethod
    def reply(self, peer: str, data: bytes) -> None:
        """Send a message on the connection that the peer opened, or drop it if there is none. Does not block."""

    @abstractmethod
    def close(self) -> None:
        """End all connections and refuse new ones."""
