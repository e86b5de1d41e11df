"""Ledger lines as `dp_accounting` events. The events say what happened; `accountant` says what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.privacy.ledger import Release


def mechanism_event(mechanism: str, multiplier: float) -> dp.DpEvent:
    """The event of one release; without noise, or with noise that proves nothing, it is a non-private one."""
    if mechanism in ("exact", "unproven") or multiplier == 0:
        return dp.NonPrivateDpEvent()
    return dp.GaussianDpEvent(multiplier) if mechanism == "gaussian" else dp.LaplaceDpEvent(multiplier)


def sampled_event(event: dp.DpEvent, sampling: str, rate: float, relation: str) -> dp.DpEvent:
    """`event` on a random share `rate` of the records.

    Without replacement is accounted by its rate alone, so the event is written with the relation's Poisson form; the
    accountant treats both alike under "replace-one" (both are dominated by the same pair).
    """
    if sampling in ("without-replacement", "permutation") and relation != "replace-one":
        # One record more shifts every later batch of such a draw: no bound on a single batch would hold.
        raise TacitError(f'{sampling} sampling is accounted for relation = "replace-one" only')
    if sampling in ("none", "permutation") or rate >= 1 or isinstance(event, dp.NonPrivateDpEvent):
        return event
    return dp.PoissonSampledDpEvent(rate, event)


def draw(lines: Sequence[Release], members: npt.NDArray[np.intp]) -> tuple[dp.DpEvent, int | None]:
    """What one draw of records gave away, and, for a permutation, the epoch it belongs to.

    All lines of a step come from the same records, so they are composed first and amplified together. Members take
    the least noise and the highest rate among them, which dominates each.
    """
    first = lines[0]
    rate = float(first.rates[members].max())
    events = [mechanism_event(line.mechanism, float(line.multipliers[members].min())) for line in lines]
    epoch = first.step // max(1, math.floor(1 / rate + 1e-9)) if first.sampling == "permutation" else None
    return sampled_event(_together(events), first.sampling, rate, first.relation), epoch


def stream(lines: Iterable[Release], members: npt.NDArray[np.intp]) -> dp.DpEvent:
    """All that the rows `members` released, as one event that dominates each of theirs. Lines are in order of step."""
    return composed(draw(list(same), members) for _, same in groupby(lines, key=lambda line: line.step))


def composed(draws: Iterable[tuple[dp.DpEvent, int | None]]) -> dp.DpEvent:
    """The whole stream. In a permutation a record is drawn once an epoch, so an epoch counts as its worst draw."""
    stream: list[dp.DpEvent] = []
    for epoch, members in groupby(draws, key=lambda entry: entry[1]):
        events = [event for event, _ in members]
        stream += events if epoch is None else [_worst(events)]
    runs = [(event, len(list(same))) for event, same in groupby(stream)]
    return dp.ComposedDpEvent([e if count == 1 else dp.SelfComposedDpEvent(e, count) for e, count in runs])


def _together(events: Sequence[dp.DpEvent]) -> dp.DpEvent:
    if len(events) == 1:
        return events[0]
    if any(isinstance(event, dp.NonPrivateDpEvent) for event in events):
        return dp.NonPrivateDpEvent()
    if all(isinstance(event, dp.GaussianDpEvent) for event in events):
        return dp.GaussianDpEvent(sum(event.noise_multiplier**-2 for event in events) ** -0.5)
    raise TacitError("two releases of one batch can be accounted only if both are Gaussian")


def _worst(events: Sequence[dp.DpEvent]) -> dp.DpEvent:
    if any(isinstance(event, dp.NonPrivateDpEvent) for event in events):
        return dp.NonPrivateDpEvent()
    if len({type(event) for event in events}) > 1:
        raise TacitError(
            "one epoch of a permutation mixes Gaussian and Laplace noise, which cannot be accounted together"
        )
    return min(events, key=lambda event: event.noise_multiplier)
