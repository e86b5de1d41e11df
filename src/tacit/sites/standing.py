"""What a site knows of another one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from tacit.sites.status import PeerStatus


@dataclass
class Standing:
    """Another site, as far as it has been heard.

    `round` counts the rounds up to the latest it was heard in. Of rounds before `begins` nothing more will come. It has
    `told` how much it has heard of us. We go on without one that is `absent`, until it says HELLO, as we do to it; the
    last time was `greeted`. One that has said GOODBYE has `left` after so many rounds. There is no line since `down`.
    """

    lines: int = 0
    down: float = field(default_factory=time.monotonic)
    told: bool = False
    round: int = 0
    begins: int = 0
    absent: bool = False
    greeted: float = 0.0
    left: int | None = None

    def count(self, by: int) -> None:
        """A line more, or less."""
        self.lines += by
        if not self.lines:
            self.down = time.monotonic()

    @property
    def away(self) -> float:
        """Seconds since there was a line."""
        return 0.0 if self.up else time.monotonic() - self.down

    @property
    def up(self) -> bool:
        """Whether there is a line to it or from it."""
        return self.lines > 0

    def speaks_in(self, round_: int) -> bool:
        """Whether something of this round may still come, as far as it has said."""
        return self.begins <= round_ and (self.left is None or round_ < self.left)

    def status(self) -> PeerStatus:
        return PeerStatus(up=self.up, round=self.round, absent=self.absent)
