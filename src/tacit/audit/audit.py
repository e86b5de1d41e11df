"""A method attacked as it runs: the adversary of its privacy statement, thousands of times over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np

from tacit.algorithms import Algorithm
from tacit.audit.attack import Evidence, gathered
from tacit.audit.worlds import FAR, Copies, Eavesdropper, worlds
from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.privacy.accountant import guarantee
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import Noise
from tacit.privacy.statement import rounded_down, rounded_up
from tacit.runs import Batch, Config, PrivacyMeter, PrivacyTarget, apply_privacy_target, build_algorithm, from_config
from tacit.tasks.gradients import Engine

_NODES = 3  # of each little network: neighbours on both sides are all that an audited node needs
_LEAST = 40  # trials, of which ten to learn from
_RECORDS = 12  # that a node may hold at most; rates are rounded to such fractions
_DELTAS = (1e-3, 0.01, 0.03, 0.1, 0.3, 0.7)  # at which a guarantee is tried as well: few trials tell much there


class Point(NamedTuple):
    """A guarantee holds at every δ, each with its own ε: here it was tried too."""

    delta: float
    lower: float
    guaranteed: float


@dataclass(frozen=True, kw_only=True)
class Finding:
    """ε is at least `lower` with `confidence`; beside it what is guaranteed and claimed for what was attacked.

    `profile` tries the guarantee at other δ, where fewer trials tell more. A sound method fails one of these, or
    `lower`, with a probability of at most 2 (1 − confidence).
    """

    algorithm: str
    lower: float
    guaranteed: float | None
    claimed: float | None
    delta: float
    confidence: float
    rounds: int
    profile: tuple[Point, ...] = ()
    claimed_for: Literal["run", "round"] = "run"

    @property
    def points(self) -> list[Point]:
        """Where the guarantee was tried, the run's own δ first; nowhere, if there is none."""
        return [] if self.guaranteed is None else [Point(self.delta, self.lower, self.guaranteed), *self.profile]

    @property
    def worst(self) -> Point | None:
        """Where more was found than is guaranteed, or least was missing to that."""
        return max(self.points, key=lambda point: point.lower - point.guaranteed, default=None)

    @property
    def holds(self) -> bool:
        """Whether the guarantee survived."""
        return self.worst is None or self.worst.lower <= self.worst.guaranteed

    @property
    def claimed_in_all(self) -> float | None:
        """The claim for all rounds; what is claimed for each adds up."""
        times = self.rounds if self.claimed_for == "round" else 1
        return None if self.claimed is None else times * self.claimed

    @property
    def refuted(self) -> bool:
        """Whether the paper's claim did not survive."""
        return self.claimed_in_all is not None and self.claimed_in_all < self.lower

    def sentence(self) -> str:
        known = (
            "nothing is guaranteed" if self.guaranteed is None else f"guaranteed is ε = {rounded_up(self.guaranteed)}"
        )
        sure = f"{self.confidence:.0%} confidence, δ = {self.delta:g}"
        found = f"{self.algorithm}: ε is at least {rounded_down(self.lower)} ({sure})"
        verdict = "the guarantee holds" if self.guaranteed is not None else "there is no guarantee to break"
        if self.worst and not self.holds:
            delta, lower, upper = self.worst
            at = f"at δ = {delta:g} it is ε = {rounded_up(upper)}, and at least {rounded_down(lower)} is found"
            verdict = f"THE GUARANTEE IS BROKEN ({at})"
        scope = " a round" if self.claimed_for == "round" else ""
        claim = "" if self.claimed is None else f"; claimed is {self.claimed:.4g}{scope}"
        return f"{found}; {known}{claim}: {verdict}{', the claim is refuted' if self.refuted else ''}."

    def as_dict(self) -> dict[str, Any]:
        points = [point._asdict() for point in self.profile]
        return {**asdict(self), "profile": points, "holds": self.holds, "refuted": self.refuted}


@dataclass(frozen=True, kw_only=True)
class Audit(Finding):
    """What many small networks side by side told; `separation` estimates μ of the two worlds."""

    trials: int
    separation: float


def audit(
    config: Config,
    *,
    trials: int = 20_000,
    rounds: int = 4,
    confidence: float = 0.95,
    seed: int = 0,
    watch: Callable[[int], None] = lambda done: None,
) -> Audit:
    """Attack the method of a config over its first `rounds` rounds, in which it gets the config's ε (or has its noise).

    A trial is a network of three nodes in which one record, the worst there can be, is there or is not, and one listens
    on all links. Sampling rate, clip and method are the config's; model and data play no part, as the adversary knows
    all of the data but that record. Noise is drawn by the code that always draws it. Half as many trials more, in which
    all other records oppose that one, try the guarantee where it hides or stands out among them.

    >>> found = audit(Config.parse({"algorithm": "const-d2p", "privacy": {"epsilon": 2.0}}), trials=400, rounds=2)
    >>> found.holds, found.lower <= found.guaranteed <= 2.0
    (True, True)
    """
    length = min(config.rounds, rounds)
    method = build_algorithm(config.algorithm).with_rounds(length)
    if method.share is not None:
        method = replace(method, share=("shared",))
    size, batch = _sizes(config)
    draws = config.batch.model_copy(update={"size": batch})
    common: dict[str, Any] = {"privacy": config.privacy, "confidence": confidence, "seed": seed}
    found = attacked(method, draws, size, trials=trials, **common, watch=watch)
    opposed = attacked(method, draws, size, trials=max(trials // 2, _LEAST), **common, others=-FAR)
    return replace(found, profile=found.profile + opposed.profile)


def attacked(
    method: Algorithm[Any],
    draws: Batch,
    size: int,
    *,
    trials: int,
    privacy: PrivacyTarget,
    confidence: float = 0.95,
    seed: int = 0,
    others: float = 0.0,
    engine: Engine = "auto",
    watch: Callable[[int], None] = lambda done: None,
) -> Audit:
    """Attack all rounds of a method at nodes with `size` records; those but the canary have gradients of `others`."""
    enough(trials)
    task, there = worlds(trials, _NODES, size, draws, method, Noise.from_seed(seed), others, engine)
    graph = Copies(graphs.build("ring", {"nodes": _NODES}), trials)
    method, task.ledger.budget = apply_privacy_target(method, task, graph, privacy)
    network = Eavesdropper(graph, trials)
    state = method.start(task, graph)
    for t in range(method.rounds):
        state = method.round(t, state, task, network)
        watch(t + 1)
    rate = float(method.privacy.sampling(task).rate[0])
    evidence = gathered(network.transcript(), there, rate, method.rounds)
    stated = PrivacyMeter(task, method, privacy.delta).spent(method.rounds)
    return Audit(
        algorithm=method.title,
        lower=evidence.lower(privacy.delta, confidence),
        guaranteed=stated.guaranteed,
        claimed=stated.claimed,
        delta=privacy.delta,
        confidence=confidence,
        trials=trials,
        rounds=method.rounds,
        separation=evidence.separation,
        profile=() if stated.guaranteed is None else profile(evidence, task.ledger, confidence),
        claimed_for=stated.claimed_for,
    )


def enough(trials: int) -> None:
    if trials < _LEAST:
        raise TacitError(f"an audit needs at least {_LEAST} trials to say anything, not {trials}")


def profile(evidence: Evidence, ledger: Ledger, confidence: float) -> tuple[Point, ...]:
    """The guarantee of all that a ledger holds, tried at several δ, which share half the error that is left."""
    each = 1 - (1 - confidence) / (2 * len(_DELTAS))
    lines = list(ledger.releases())
    assert all((vector == vector[0]).all() for line in lines for vector in (line.multipliers, line.rates)), "not alike"
    first = [line.for_rows(np.zeros(1, np.int64)) for line in lines]
    return tuple(Point(delta, evidence.lower(delta, each), float(guarantee(first, delta).max())) for delta in _DELTAS)


def _sizes(config: Config) -> tuple[int, int | None]:
    """Records of a node and of a batch, small and in about the proportion of the run's."""
    if config.batch.size is None:
        return 2, None
    rate = float(from_config(config).task.sampler.sampling.rate.max())
    share = Fraction(rate).limit_denominator(_RECORDS) or Fraction(1, _RECORDS)
    return share.denominator, share.numerator
