"""The state of one peer, as another site sees it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from tacit.sites.status import PeerStatus


@dataclass
class PeerState:
    """What a site has learnt about one peer from its messages and connections.

    Attributes:
        connections: Number of open connections to and from the peer.
        disconnected_at: Monotonic time at which the last connection ended.
        has_replied: The peer has sent HELLO_REPLY, so it has reported which of this site's messages it has used.
        round: Number of rounds up to the last from which a value arrived.
        first_round: The peer sends nothing more for rounds before this one.
        absent: The run continues without the peer until it sends HELLO.
        last_hello: Monotonic time of the last HELLO that was sent to the peer because it is absent.
        closed_after: Number of rounds after which the peer stopped, from its CLOSE; None if it has not stopped.
    """

    connections: int = 0
    disconnected_at: float = field(default_factory=time.monotonic)
    has_replied: bool = False
    round: int = 0
    first_round: int = 0
    absent: bool = False
    last_hello: float = 0.0
    closed_after: int | None = None

    @property
    def connected(self) -> bool:
        return self.connections > 0

    @property
    def seconds_disconnected(self) -> float:
        return 0.0 if self.connected else time.monotonic() - self.disconnected_at

    def add_connection(self) -> None:
        self.connections += 1

    def remove_connection(self) -> None:
        self.connections -= 1
        if not self.connections:
            self.disconnected_at = time.monotonic()

    def takes_part_in(self, round_: int) -> bool:
        """Return whether messages of this round may still arrive, according to the peer's HELLO and CLOSE."""
        return self.first_round <= round_ and (self.closed_after is None or round_ < self.closed_after)

    def status(self) -> PeerStatus:
        return PeerStatus(up=self.connected, round=self.round, absent=self.absent)
