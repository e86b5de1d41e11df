"""What a site knows of another one."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.sites.status import PeerStatus


@dataclass
class Standing:
    """Another site, as far as it has been heard.

    `round` is the latest it was heard in. Of rounds before `begins` nothing more will come from it. We go on without
    one that is `absent`, until it says HELLO. One that has said GOODBYE has `left` after so many rounds.
    """

    lines: int = 0
    round: int = 0
    begins: int = 0
    absent: bool = False
    left: int | None = None

    @property
    def up(self) -> bool:
        """Whether there is a line to it or from it."""
        return self.lines > 0

    def speaks_in(self, round_: int) -> bool:
        """Whether something of this round may still come, as far as it has said."""
        return self.begins <= round_ and (self.left is None or round_ < self.left)

    def status(self) -> PeerStatus:
        return PeerStatus(up=self.up, round=self.round, absent=self.absent)
