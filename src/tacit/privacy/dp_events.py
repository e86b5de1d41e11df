"""Export of releases as `dp_accounting` events, so that other accountants can check a ledger."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from tacit.errors import TacitError
from tacit.privacy.accounting.losses import draw_losses
from tacit.privacy.mechanisms import NO_PRIVACY
from tacit.privacy.release import Release


def to_dp_events(releases: Sequence[Release]) -> list[Any]:
    """Return one `dp_accounting.ComposedDpEvent` per hosted node.

    Releases of one draw are combined, and draws of one epoch of a permutation are replaced by the worst, as in Tacit's
    own accountant. Compose an event with the neighbouring relation of the releases:
    `dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE` or `REPLACE_ONE`.

    Raises:
        TacitError: If dp_accounting is not installed, or has no event for a mechanism or a sampling kind.
    """
    dp = _dp_accounting()
    nodes = len(releases[0].rates) if releases else 0
    return [dp.ComposedDpEvent(_node_events(dp, releases, node)) for node in range(nodes)]


def _node_events(dp: Any, releases: Sequence[Release], node: int) -> list[Any]:
    events = []
    for draw in draw_losses(releases, np.array([node], np.intp)):
        event = draw.law.to_dp_event(dp, draw.multiplier)
        events.append(event if draw.law is NO_PRIVACY else draw.scheme.to_dp_event(dp, event, draw.rate))
    runs = [(event, len(list(same))) for event, same in groupby(events)]
    return [event if count == 1 else dp.SelfComposedDpEvent(event, count) for event, count in runs]


def _dp_accounting() -> Any:
    try:
        return importlib.import_module("dp_accounting")
    except ImportError:
        raise TacitError("dp_accounting is not installed: run pip install 'tacit[dp-accounting]'") from None
