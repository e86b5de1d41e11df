"""The privacy statement of a run: what is guaranteed and claimed, for what, against whom, under which assumptions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tacit.privacy import FALSE_ALARMS, Privacy, detection_bound, guess_bound, rounded_up
from tacit.reports.release_summary import ReleaseSummary
from tacit.reports.run_record import RunRecord
from tacit.reports.sensitivity_chart import noise_scale_text

MEANING = "What ε means"
_WEAK_GUESS = 0.99


class StatementItem(NamedTuple):
    """One line of the statement."""

    term: str
    text: str


def privacy_statement(run: RunRecord) -> list[StatementItem]:
    """The statement of a run."""
    items = statement_items(run.privacy, run.releases, noise_scale_text(run))
    features = run.result.get("features")
    return items if features is None else [*items, StatementItem("Features", str(features.get("sentence", "")))]


def statement_items(privacy: Privacy, releases: Sequence[ReleaseSummary], noise_scale: str = "") -> list[StatementItem]:
    """The statement, one item per fact."""
    items = [
        StatementItem(f"{privacy.label} ε", _guaranteed(privacy)),
        StatementItem("All runs on these records", _total(privacy)),
        StatementItem("Claimed ε", _claimed(privacy)),
        StatementItem("δ", f"{privacy.delta:g} ({_one_in(privacy.delta)})."),
        StatementItem("Protected unit", _unit(privacy)),
        StatementItem("Neighbouring data sets", _neighbours(privacy)),
        StatementItem("Adversary", _adversary(privacy)),
        StatementItem(MEANING, _meaning(privacy)),
        StatementItem("Assumptions", f"{_capitalised(privacy.assumes)}." if privacy.assumes else ""),
        StatementItem("Noise scale", noise_scale),
        StatementItem("Releases", " ".join(_release(each, privacy.unit) for each in releases)),
        StatementItem("Notes", privacy.note or ""),
    ]
    return [item for item in items if item.text]


def simulation_sentence(run: RunRecord) -> str:
    """What a reader must know first about a run with simulated noise; empty for other runs."""
    noisy = not run.releases or any(release.mechanism != "exact" for release in run.releases)
    if not run.privacy.simulated or not noisy:
        return ""
    text = f"The noise is derived from seed {run.config.get('seed')}, so this run protects nobody."
    if run.privacy.guaranteed is None:
        return text
    return f"{text} The privacy below is that of the same run with secret noise."


def share_text(share: float) -> str:
    """A probability in per cent, rounded up.

    >>> share_text(0.19951).split(), share_text(1.0).split()
    (['20.0', '%'], ['100.0', '%'])
    """
    return f"{100 * min(1.0, math.ceil(share * 1000 - 1e-9) / 1000):.1f}\N{NO-BREAK SPACE}%"


def limitations(run: RunRecord) -> list[str]:
    """What the guarantee does not cover."""
    test_owner = "the site keeps apart" if run.is_site else "belong to no node"
    page = [
        f"All metrics are measured on test records that {test_owner}. These records are not protected.",
        "This page shows the number of records of each node and the communication graph. Share it accordingly.",
    ]
    privacy = run.privacy
    if privacy.guaranteed is None:
        return page
    seed = run.config.get("seed")
    simulated = (
        f"This run is a simulation: its noise is derived from seed {seed}. Anyone who knows the seed can remove the "
        "noise. The guarantee is that of the same run with secret noise."
    )
    local = "Parameters that are not shared stay at their node without noise. Do not publish the nodes’ models."
    return [
        *([simulated] if seed is not None and run.result.get("simulated", True) else []),
        *page,
        *(["A person with k records has up to k times this ε, at a larger δ."] if privacy.unit == "record" else []),
        *([local] if run.config.get("algorithm", {}).get("share") else []),
        several_runs_limitation(privacy, "records"),
        _whose_noise(run.config) + " A node that does not follow the method is not protected.",
        f"Facts about the population can be learned with or without any one {privacy.unit}.",
    ]


def _whose_noise(config: Mapping[str, Any]) -> str:
    """Which noise protects a node."""
    if config.get("privacy", {}).get("noise") == "paired":
        return "A node is protected by its own noise, and by noise that it shares with nodes that do not collude."
    return "A node is protected by its own noise."


def several_runs_limitation(privacy: Privacy, records: str) -> str:
    """What the ε of one run, or the total of all recorded runs, does not include."""
    if not privacy.runs:
        return (
            f"The guarantee is for one run. If several runs use the same {records}, also for tuning, their ε values "
            "add up."
        )
    return (
        f"The total includes the runs that this computer has recorded for exactly these {records}, or for their "
        f"declared population. Runs elsewhere, and runs on changed {records} without a declared population, add to it."
    )


def _total(privacy: Privacy) -> str:
    if privacy.runs <= 1:
        return "" if privacy.runs == 0 else "No other run is recorded."
    if privacy.total is None:
        return f"No total for {privacy.runs} runs: {privacy.total_reason}."
    return f"{rounded_up(privacy.total)} for all {privacy.runs} runs together, at the same δ (one joint accounting)."


def _guaranteed(privacy: Privacy) -> str:
    if privacy.guaranteed is None:
        return f"No guarantee: {privacy.reason}."
    text = f"{rounded_up(privacy.guaranteed)} for the whole run"
    if privacy.per_round is not None:
        text += f"; {rounded_up(privacy.per_round)} for the worst single round"
    return f"{text}. An upper bound, computed from the ledger of all releases."


def _claimed(privacy: Privacy) -> str:
    if privacy.claimed is None:
        return "No claim: the paper has no formula for this run."
    by_round = privacy.claimed_for == "round"
    text = f"{privacy.claimed:.4g}{' per round' if by_round else ''}, by the paper’s formula."
    guaranteed = privacy.per_round if by_round else privacy.guaranteed
    if guaranteed is None:
        return f"{text} Nothing here supports the claim."
    if by_round:
        text += " The paper claims nothing for all rounds together."
    if guaranteed > privacy.claimed * 1.005:
        return f"{text} The claim is too low: rely on the guaranteed ε."
    if guaranteed < privacy.claimed * 0.995:
        return f"{text} The claim is higher than necessary."
    return f"{text} It agrees with the guarantee."


def _unit(privacy: Privacy) -> str:
    if privacy.guaranteed is None:
        return f"Nothing is protected: the messages may reveal any {privacy.unit}."
    if privacy.unit == "node":
        return "All data of one node. The participation of the node is not hidden."
    if privacy.relation == "add-remove":
        return f"One {privacy.unit}: its presence and its content."
    return f"One {privacy.unit}: its content. The number of {privacy.unit}s is not hidden."


def _neighbours(privacy: Privacy) -> str:
    if privacy.unit == "node":
        return "All data of one node are replaced by any other data."
    if privacy.relation == "add-remove":
        return (
            f"One {privacy.unit} of one node is added or removed (add-remove). "
            f"The stated numbers of {privacy.unit}s per node are public."
        )
    return f"One {privacy.unit} of one node is replaced by another (replace-one)."


def _adversary(privacy: Privacy) -> str:
    rest = "all data of the other nodes" if privacy.unit == "node" else f"every other {privacy.unit}"
    return f"{_capitalised(privacy.adversary)}. It also knows the method, the graph and {rest}."


def _meaning(privacy: Privacy) -> str:
    epsilon, delta = privacy.guaranteed, privacy.delta
    if epsilon is None:
        return ""
    change = f"Replacing any one {privacy.unit}"
    if privacy.unit == "node":
        change = "Replacing all data of any one node"
    elif privacy.relation == "add-remove":
        change = f"Adding or removing any one {privacy.unit}"
    alarms = f"{100 * FALSE_ALARMS:.0f} %"
    text = (
        f"An attack with {alarms} false positives succeeds with probability at most "
        f"{share_text(detection_bound(epsilon, delta))} (chance: {alarms}). "
        f"{change} changes the probability of any outcome by at most a factor e^ε ≈ {_factor(epsilon)}, plus δ. "
        f"Guessing which of two neighbouring data sets was used succeeds with probability at most "
        f"{share_text(guess_bound(epsilon, delta))} (chance: 50 %)."
    )
    weak = guess_bound(epsilon, delta) > _WEAK_GUESS
    return f"{text} This is weak protection." if weak else text


def _release(release: ReleaseSummary, unit: str) -> str:
    noise, multiplier = "without noise", _span(release.multipliers, ".3g")
    if release.mechanism == "unproven":
        noise = f"with noise of {multiplier} times a sensitivity that is not proven"
    elif release.mechanism == "banded-gaussian":
        noise = (
            "with Gaussian noise that is correlated in time and as private as independent noise of "
            f"{multiplier} times the sensitivity to one {unit}"
        )
    elif release.mechanism != "exact":
        noise = f"with {release.mechanism.capitalize()} noise of {multiplier} times the sensitivity to one {unit}"
    batch = f"from all its {unit}s"
    if release.sampling != "none":
        kind = release.sampling.replace("poisson", "Poisson")
        low, high = release.rates
        batch = f"from {_span((100 * low, 100 * high), '.2f')} % of its records ({kind} sampling)"
    count = "once" if release.count == 1 else f"{release.count:,} times"
    sampled = "" if unit == "node" else f", {batch}"  # the batch does not matter to a guarantee for whole nodes
    return f"Each node released a {release.purpose} {count}{sampled}, {noise}."


def _span(ends: tuple[float, float], style: str) -> str:
    low, high = (format(end, style) for end in ends)
    return low if low == high else f"{low} to {high}"


def _factor(epsilon: float) -> str:
    if epsilon < 6.9:
        return f"{math.exp(epsilon):,.3g}"
    return f"{math.exp(epsilon):,.0f}" if epsilon < 14 else f"10^{epsilon / math.log(10):.0f}"


def _one_in(delta: float) -> str:
    return f"one in {1 / delta:,.0f}" if delta > 1e-12 else "negligible"


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
