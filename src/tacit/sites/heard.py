"""What has come already: a message counts once, however often it is sent."""

from __future__ import annotations

import os

from cryptography.hazmat.primitives.poly1305 import Poly1305

from tacit.sites.payload import WireError
from tacit.sites.wire import VALUES, Kind, Message


class Heard:
    """Which messages with values have come, in the rounds that are open: `first` and `ahead` more.

    The same message again is answered, and not used again; another one in its place is a lie. Rounds that are over are
    remembered for `behind` more, since an answer may have been lost; what comes for the first time then is too late.
    All other rounds are refused, so that memory is bounded. Kinds without values may be said any number of times.
    Nothing is kept on disk: a site that starts again hears the rounds since its checkpoint anew.
    """

    def __init__(self, first: int = 0, ahead: int = 1, behind: int = 8) -> None:
        self.first, self._ahead, self._behind = first, ahead, behind
        self._digests: dict[int, dict[tuple[str, Kind, int], bytes]] = {}
        # A quarter of the time of SHA-256. Neither key nor digests leave, so nobody can make two messages that agree.
        self._key = os.urandom(32)

    def admit(self, message: Message, data: bytes) -> bool:
        """Whether to use it: False if it has been used. `data` are the bytes that it came as."""
        if message.kind not in VALUES:
            return True
        sender, last = message.link.sender, self.first + self._ahead
        if not self.first - self._behind <= message.round <= last:
            raise WireError(f"{sender} sent {message}, and only rounds {self.first} to {last} are open")
        key, digest = (sender, message.kind, message.sequence), Poly1305.generate_tag(self._key, data)
        known = self._digests.setdefault(message.round, {})
        if key in known and known[key] != digest:
            raise WireError(f"{sender} sent {message} twice, with different contents")
        if key in known:
            return False
        if message.round < self.first:
            raise WireError(f"{sender} sent {message} too late: round {self.first} has begun")
        known[key] = digest
        return True

    def close(self, first: int) -> None:
        """Rounds before `first` are over."""
        self.first = max(self.first, first)
        for over in [round_ for round_ in self._digests if round_ < self.first - self._behind]:
            del self._digests[over]
