"""Reads a `dp_accounting` event as a bag of elementary steps, the only things the accountant knows."""

import math
from collections import Counter
from typing import Literal, NamedTuple

import dp_accounting

from tacit.errors import TacitError
from tacit.privacy.bounded import Relation

Law = Literal["gaussian", "laplace"]


class Step(NamedTuple):
    """One release of additive noise: `mu` is sensitivity ÷ noise scale, `rate` the share of records used."""

    law: Law
    rate: float
    mu: float


Steps = Counter[Step]


def read_steps(event: dp_accounting.DpEvent, relation: Relation) -> Steps:
    """How often each step happens in `event`; a step without any noise has `mu` infinite.

    >>> sampled = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(2.0))
    >>> read_steps(dp_accounting.SelfComposedDpEvent(sampled, 5), "add-remove")
    Counter({Step(law='gaussian', rate=0.1, mu=0.5): 5})
    """
    if relation not in ("add-remove", "replace-one"):
        raise TacitError(f'the neighbouring relation is "add-remove" or "replace-one", not "{relation}"')
    steps: Steps = Counter()
    waiting: list[tuple[dp_accounting.DpEvent, int]] = [(event, 1)]
    while waiting:
        event, count = waiting.pop()
        if isinstance(event, dp_accounting.ComposedDpEvent):
            waiting.extend((part, count) for part in event.events)
        elif isinstance(event, dp_accounting.SelfComposedDpEvent):
            if event.count != int(event.count) or event.count < 0:
                raise TacitError(f"an event cannot be repeated {event.count} times")
            if event.count > 0:
                waiting.append((event.event, count * int(event.count)))
        else:
            rate, base = _sampling(event, relation)
            mu = _mu(base)
            if rate > 0 and mu > 0:
                law: Law = "laplace" if isinstance(base, dp_accounting.LaplaceDpEvent) else "gaussian"
                steps[Step(law, rate, mu)] += count
    return steps


def _sampling(event: dp_accounting.DpEvent, relation: Relation) -> tuple[float, dp_accounting.DpEvent]:
    """The share of records an event looks at, and what it does with them."""
    if isinstance(event, dp_accounting.PoissonSampledDpEvent):
        rate = float(event.sampling_probability)
        if not 0 <= rate <= 1:
            raise TacitError(f"a sampling rate lies between 0 and 1, and {rate} does not")
        return rate, event.event
    if isinstance(event, dp_accounting.SampledWithoutReplacementDpEvent):
        if relation == "add-remove":
            raise TacitError(
                "sampling without replacement is not accounted under add-remove, where the number of records "
                'is itself secret; use the relation "replace-one", or Poisson sampling'
            )
        size, source = event.sample_size, event.source_dataset_size
        if not 0 <= size <= source or source < 1:
            raise TacitError(f"cannot draw {size} of {source} records without replacement")
        return size / source, event.event
    return 1.0, event


def _mu(event: dp_accounting.DpEvent) -> float:
    if isinstance(event, dp_accounting.NoOpDpEvent):
        return 0.0
    if isinstance(event, dp_accounting.NonPrivateDpEvent):
        return math.inf
    if isinstance(event, dp_accounting.GaussianDpEvent | dp_accounting.LaplaceDpEvent):
        multiplier = float(event.noise_multiplier)
        if not multiplier >= 0:
            raise TacitError(f"a noise multiplier is a number of at least 0, not {multiplier}")
        return 1 / multiplier if multiplier > 1e-100 else math.inf
    raise TacitError(f"the privacy of {type(event).__name__} is not known here, so no ε can be given for it")
