"""What has come already: a message counts once, however often it is sent."""

from __future__ import annotations

import os

from cryptography.hazmat.primitives.poly1305 import Poly1305

from tacit.sites.payload import WireError
from tacit.sites.wire import VALUES, Kind, Message


class Heard:
    """The messages with values of the rounds that are open: from `first` to `ahead` rounds later.

    The same message again is answered, and not used again; another one in its place is a lie. Rounds before `first`
    are over and those too far ahead cannot have come about: both are refused, so that what is remembered is bounded.
    The other kinds of message may be said any number of times.
    """

    def __init__(self, first: int = 0, ahead: int = 1) -> None:
        self.first, self.ahead = first, ahead
        self._digests: dict[int, dict[tuple[str, Kind, int], bytes]] = {}
        # A quarter of the time of SHA-256. Neither key nor digests leave, so nobody can make two messages that agree.
        self._key = os.urandom(32)

    def admit(self, message: Message, data: bytes) -> bool:
        """Whether this is the first time; `data` are the bytes that it came as."""
        if message.kind not in VALUES:
            return True
        sender, what = message.link.sender, f"{message.kind.name} {message.sequence} of round {message.round}"
        if not self.first <= message.round <= self.first + self.ahead:
            last = self.first + self.ahead
            raise WireError(f"{sender} sent {what}, and only rounds {self.first} to {last} are open")
        key, digest = (sender, message.kind, message.sequence), Poly1305.generate_tag(self._key, data)
        known = self._digests.setdefault(message.round, {})
        if key in known and known[key] != digest:
            raise WireError(f"{sender} sent {what} twice, with different contents")
        new = key not in known
        known[key] = digest
        return new

    def close(self, first: int) -> None:
        """Rounds before `first` are over."""
        self.first = max(self.first, first)
        for round_ in [one for one in self._digests if one < self.first]:
            del self._digests[round_]
