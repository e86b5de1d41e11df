"""The status that a site publishes at /healthz and /metrics."""

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
    """The status of a neighbour, as a site sees it.

    Attributes:
        up: Whether it is connected.
        round: Rounds up to the last message from it.
        absent: Whether the site currently continues without it.
    """

    up: bool
    round: int
    absent: bool


@dataclass(frozen=True)
class SiteStatus:
    """A snapshot of a site: names, counts, ε and the accuracy on the site's own test records.

    Attributes:
        epsilon: Guaranteed ε so far, an upper bound; None if nothing is guaranteed.
        planned: Guaranteed ε of the whole run; None if nothing is guaranteed.
        sent: Messages with values that were sent.
        received: Messages with values that were accepted.
        refused: Messages that were rejected.
        missed: Messages that arrived too late to be used.
        returned: Messages of this site that others did not use, and whose values it took back.
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
        """Return the status for JSON, which has no infinity: an infinite ε becomes None."""
        values = {each.name: _finite(getattr(self, each.name)) for each in fields(self)}
        return values | {"peers": {name: asdict(peer) for name, peer in self.peers.items()}}

    @classmethod
    def from_dict(cls, table: object, where: str = "the status") -> SiteStatus:
        """Return the status that `as_dict` wrote; raise `TacitError` if `table` is anything else."""
        try:
            return _adapter().validate_python(table)
        except ValidationError as error:
            raise invalid(where, error) from None


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@cache
def _adapter() -> TypeAdapter[SiteStatus]:
    return TypeAdapter(SiteStatus)
