"""The privacy of a run in words that a privacy officer can sign: every number is a theorem about (ε, δ)."""

from __future__ import annotations

import math
from typing import NamedTuple

from tacit.privacy.statement import Privacy, rounded_up
from tacit.reports import sensitivity
from tacit.reports.record import Record, Released

_FALSE_ALARMS = 0.01


class Point(NamedTuple):
    """A question and its answer."""

    question: str
    answer: str


def guess(epsilon: float, delta: float) -> float:
    """How often the best guess between two equally likely neighbouring data sets can be right: (e^ε + δ) / (e^ε + 1).

    >>> guess(0.0, 0.0), round(guess(1.0, 1e-5), 3)
    (0.5, 0.731)
    """
    return min(1.0, (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon)))


def detection(epsilon: float, delta: float, false_alarms: float = _FALSE_ALARMS) -> float:
    """How often a test with so many false alarms can detect a record: both bounds that (ε, δ) gives, the smaller.

    >>> round(detection(1.0, 1e-5), 3)
    0.027
    """
    few = delta + math.exp(min(epsilon, 700.0)) * false_alarms
    many = 1 - math.exp(-epsilon) * (1 - delta - false_alarms)
    return max(0.0, min(1.0, few, many))


def statement(run: Record) -> list[Point]:
    """What is protected, from whom, how well, on what grounds."""
    privacy = run.privacy
    points = [Point("What is protected?", _protected(privacy)), Point("How well?", _how_well(privacy))]
    if privacy.guaranteed is not None:
        points.insert(1, Point("From whom?", f"From an adversary who {privacy.adversary}."))
    points.append(Point("Claimed or guaranteed?", _grounds(privacy)))
    if scaled := sensitivity.in_words(run):
        points.append(Point("How much noise?", scaled))
    if run.released:
        points.append(Point("What left the nodes?", " ".join(_released(kind, privacy.unit) for kind in run.released)))
    return points


def not_covered(run: Record) -> list[str]:
    """What the guarantee is silent about, said aloud."""
    whose = "the site keeps apart" if run.alone else "belong to no node"
    page = [
        f"Accuracy and loss on this page are measured on test records that {whose}. If those are sensitive, the "
        "figures need protection of their own.",
        "This page also shows how many records each node has and who talks to whom, as they are. Share it accordingly.",
    ]
    if run.privacy.guaranteed is None:
        return page
    seeded = (
        f"This was a simulation: its noise comes from the seed {run.config.get('seed')}, and who knows the seed can "
        "take the noise off. The guarantee is that of the same run with secret noise."
    )
    several = "A person with k records has up to k times this ε, at a larger δ."
    kept = "Parameters that are not shared stay at their node, without noise: whoever gets one of its models has them."
    return [
        *([seeded] if "seed" in run.config and run.result.get("simulated", True) else []),
        *page,
        *([several] if run.privacy.unit == "record" else []),
        *([kept] if run.config.get("algorithm", {}).get("share") else []),
        "The bound is for one run. Runs on the same records add up, those made to tune settings included.",
        "A node is protected by the noise it adds itself: one that does not follow the method is not.",
        f"What is true of the population can be learnt, with or without any one {run.privacy.unit} in the data.",
    ]


def _protected(privacy: Privacy) -> str:
    if privacy.guaranteed is None:
        return f"Nothing is: for this run there is no bound on what its messages tell about a {privacy.unit}."
    if privacy.unit == "node":
        return "All the data of any one node: they could have been any others. That the node takes part is not hidden."
    if privacy.relation == "add-remove":
        return f"Whether any one {privacy.unit} is in the data of a node at all, and so everything in it."
    return f"The content of any one {privacy.unit}: it could have been another one. How many there are is not hidden."


def _how_well(privacy: Privacy) -> str:
    epsilon, delta = privacy.guaranteed, privacy.delta
    if epsilon is None:
        return f"No privacy is guaranteed: {privacy.reason}."
    other = f"without that {privacy.unit}" if privacy.relation == "add-remove" else "with another in its place"
    found = f"detects a {privacy.unit}"
    if privacy.unit == "node":
        other, found = "with any other data at that node", "tells the data of a node from others"
    rounds = f", {rounded_up(privacy.per_round)} for the worst single round" if privacy.per_round is not None else ""
    words = (
        f"Guaranteed ε = {rounded_up(epsilon)} at δ = {delta:g}{rounds}. Whatever anyone concludes from the messages, "
        f"they would conclude at most e^ε ≈ {_factor(epsilon)} times as often as {other}, plus a chance of δ "
        f"({_one_in(delta)}). An adversary who guesses which of the two it was is right at most "
        f"{_percent(guess(epsilon, delta))} of the time, where a coin gives 50%; one who may raise a false alarm "
        f"once in a hundred times {found} at most {_percent(detection(epsilon, delta))} of the time."
    )
    if guess(epsilon, delta) > 0.99:
        words += " A bound this high rules out very little."
    return f"{words} All this takes for granted that {privacy.assumes}." if privacy.assumes else words


def _grounds(privacy: Privacy) -> str:
    guaranteed, claimed = privacy.guaranteed, privacy.claimed
    basis = "The guarantee is computed from the ledger of everything that was released, and is an upper bound"
    if claimed is None:
        also = "The method's paper claims no ε for this run"
        return f"{also}." if guaranteed is None else f"{basis}. {also}."
    claim = f"The formula of the method's paper claims ε = {claimed:.4g}"
    total = ""
    if privacy.claimed_for == "round":
        claim += " for each round"
        if guaranteed is not None and privacy.per_round is not None:
            whole = f"ε = {rounded_up(guaranteed)} is guaranteed"
            total = f" The claim says nothing of all rounds together, for which {whole}."
            guaranteed = privacy.per_round
    if guaranteed is None:
        return f"{claim}. It is a claim only, and nothing here supports it."
    if guaranteed > claimed * 1.005:
        return (
            f"{claim}; really guaranteed is ε = {rounded_up(guaranteed)}. The formula is an estimate that comes out "
            f"too low here. {basis}: rely on it.{total}"
        )
    if guaranteed < claimed * 0.995:
        proven = f"more than the ε = {rounded_up(guaranteed)} that is guaranteed"
        return f"{claim}, {proven}: the formula is cautious here. {basis}.{total}"
    return f"{claim}, and that is about what is guaranteed. {basis}.{total}"


def _released(kind: Released, unit: str) -> str:
    noise, scale = "no noise", _span(kind.multipliers, ".3g")
    if kind.mechanism == "unproven":
        noise = f"noise of {scale} times a sensitivity that is not proven to hold"
    elif kind.mechanism != "exact":
        noise = f"{kind.mechanism.capitalize()} noise of {scale} times what one {unit} can change"
    share = "all its records"
    if kind.sampling != "none":
        name = kind.sampling.replace("poisson", "Poisson")
        share = f"a random {_span(kind.rates, '.2%')} of its records ({name} sampling)"
    times = "once" if kind.times == 1 else f"{kind.times:,} times"
    drawn = "" if unit == "node" else f", each from {share}"  # all the data of a node are at stake, whatever was drawn
    return f"Each node released a {kind.purpose} {times}{drawn}, with {noise}."


def _span(ends: tuple[float, float], style: str) -> str:
    low, high = (format(end, style) for end in ends)
    return low if low == high else f"{low} to {high}"


def _factor(epsilon: float) -> str:
    return (
        f"{math.exp(epsilon):,.3g}"
        if epsilon < 6.9
        else f"{math.exp(epsilon):,.0f}"
        if epsilon < 14
        else f"10^{epsilon / math.log(10):.0f}"
    )


def _one_in(delta: float) -> str:
    return f"one in {1 / delta:,.0f}" if delta > 1e-12 else "next to nothing"


def _percent(share: float) -> str:
    """Rounded up, as a bound must be."""
    return f"{min(1.0, math.ceil(share * 1000 - 1e-9) / 1000):.1%}"
