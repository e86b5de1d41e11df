"""What a site tells of itself, to whoever watches it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from tacit.registry import invalid

SiteState = Literal["starting", "waiting", "running", "finished", "failed"]


@dataclass(frozen=True)
class PeerStatus:
    """A neighbour: whether it is connected, the round it was last heard of, whether we go on without it."""

    up: bool
    round: int
    absent: bool


@dataclass(frozen=True)
class SiteStatus:
    """A site at one moment. `epsilon` is guaranteed so far, `planned` for the whole run; None: nothing is guaranteed.

    `sent` and `received` count messages with values; `refused`, those that were not let in; `missed`, those that we
    went on without; `returned`, our own that others went on without, and whose values we took back.
    """

    site: str
    network: str
    digest: str
    algorithm: str
    state: SiteState
    waiting_for: tuple[str, ...]
    round: int
    rounds: int
    epsilon: float | None
    delta: float
    planned: float | None
    accuracy: float | None
    sent: int
    received: int
    bytes_sent: int
    bytes_received: int
    refused: int
    missed: int
    returned: int
    peers: Mapping[str, PeerStatus]

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no infinity: an infinite ε is none."""
        told = {each.name: _finite(getattr(self, each.name)) for each in fields(self)}
        return told | {"peers": {name: asdict(peer) for name, peer in self.peers.items()}}

    @classmethod
    def from_dict(cls, told: object, where: str = "the status") -> SiteStatus:
        """What `as_dict` gave, which may have come from anyone."""
        try:
            return _adapter().validate_python(told)
        except ValidationError as error:
            raise invalid(where, error) from None


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@cache
def _adapter() -> TypeAdapter[SiteStatus]:
    return TypeAdapter(SiteStatus)
