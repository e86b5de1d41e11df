"""The ε of a run against each adversary: the bound proven for its view, or the eavesdropper's if that is smaller."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.privacy import (
    Adversary,
    Coalition,
    Eavesdropper,
    MetricReader,
    ModelHolder,
    Privacy,
    Release,
    plan,
)
from tacit.runs import finite_or_none
from tacit.threats.accounting import collusion_factor, epsilons_with_factor, leverages_of, view_epsilons
from tacit.threats.bounds import AdversaryBound, ThreatAnalysis
from tacit.threats.rounds import MAX_WORK, Array, Ints, MixingRounds, mixing_rounds, pair_plan

if TYPE_CHECKING:
    from tacit.runs import Run

MAX_PAIR_NODES = 64  # nodes of the largest network for which every pair is analysed
_SEES_ALL = "sees every message"
_MIXING_HIDES = "mixing hides part of the messages that it does not receive"
_VIEW_SHOWS_ALL = "the messages that it does not receive can be computed from what it sees"
_ANY_NODE = "any one node"
_FROM_RELEASES = "computed from released values and test records; test records are not protected"
_MODELS_NOT_COVERED = "the models contain values without noise"
_NOTE = (
    "Bounds below the eavesdropper's also rely on the noise of other nodes. Count a node that omits or reveals its "
    "noise as colluding. These bounds are proven for exact arithmetic, without rounding errors."
)
_TOO_MANY_PAIRS = f"pairs are analysed only in networks of at most {MAX_PAIR_NODES} nodes whose graph repeats soon"


def analyse_threats(run: Run, *, adversaries: Sequence[Adversary] = (), planned: bool = False) -> ThreatAnalysis:
    """Bound ε against an eavesdropper, any one node, holders of final models, readers of metrics, and `adversaries`.

    Args:
        run: The run to analyse.
        adversaries: Further adversaries, such as `Coalition((0, 3))`.
        planned: Account for all releases that the run plans, instead of those it has made so far.

    Example:
        >>> from tacit.runs import Config, from_config
        >>> graph = {"name": "one-peer-exponential", "nodes": 8}
        >>> run = from_config(Config.parse({"rounds": 30, "graph": graph, "privacy": {"epsilon": 2.0}}))
        >>> analysis = analyse_threats(run, planned=True)
        >>> for bound in analysis.bounds:
        ...     print(f"{bound.title}: ε = {bound.epsilon:.2f}")
        an eavesdropper on every link: ε = 2.00
        any one node: ε = 2.00
        a holder of the mean of the final models: ε = 1.56
        a holder of all final models: ε = 1.59
        a reader of the published accuracies and losses: ε = 2.00
        >>> analysis.pairs.round(2)[0]  # a record of node 0, against each other node
        array([ nan, 1.65, 1.78, 1.65, 2.  , 1.65, 1.78, 1.65])
    """
    for adversary in adversaries:
        adversary.check_nodes(run.network.graph.nodes)
    accounted, several = _account(run, planned), run.network.graph.nodes > 1
    pairs = _pairs(accounted) if several else _SEES_ALL
    headline = run.algorithm.privacy.adversary
    everything = [headline] if headline == Eavesdropper() else [headline, Eavesdropper()]
    bounds = [_bound_against(accounted, each) for each in everything]
    bounds += [_any_node(accounted, pairs)] if several else []
    others = (ModelHolder("mean"), ModelHolder("all"), MetricReader(), *adversaries)
    bounds += [_bound_against(accounted, each) for each in others]
    table = None if isinstance(pairs, str) else pairs
    some_smaller = table is not None or any(bound.reason == _MIXING_HIDES for bound in bounds)
    curve = accounted.privacy.against_colluders
    return ThreatAnalysis(tuple(bounds), table, _NOTE if some_smaller else None, curve)


def bound_against(run: Run, adversary: Adversary, *, planned: bool = False) -> AdversaryBound:
    """Bound ε of a run against one adversary (arguments as for `analyse_threats`)."""
    adversary.check_nodes(run.network.graph.nodes)
    return _bound_against(_account(run, planned), adversary)


@dataclass(frozen=True)
class _Accounted:
    """The stated bound for `nodes`, the releases, and the rounds, or the reason why they give no better bound."""

    privacy: Privacy
    nodes: Ints
    rounds: MixingRounds | str
    releases: Sequence[Release] = ()

    def with_all_messages(self, adversary: Adversary) -> Array:
        """ε (n,) if the adversary saw every message: the stated bound, unless its colluders know other noise of pairs.

        NaN for nodes under its control.
        """
        factor = collusion_factor(pair_plan(self.releases), adversary)
        if factor is None or (factor == 1).all():
            return self.privacy.per_node
        if len(self.privacy.per_node) > len(
            self.releases[0].rates
        ):  # of nodes on other hosts, only the worst ε is known
            number = adversary.colluders if isinstance(adversary, Eavesdropper) else len(adversary.controls)
            curve = self.privacy.against_colluders or []
            return np.full(len(self.nodes), curve[min(number, len(curve) - 1)] if curve else math.inf)
        return epsilons_with_factor(self.releases, factor[self.nodes], self.privacy.delta)


def _account(run: Run, planned: bool) -> _Accounted:
    privacy = run.planned() if planned else run.privacy
    releases: list[Release] = (
        plan(run.algorithm.privacy, run.rounds, run.algorithm.privacy.sampling(run.task), run.task.nodes)
        if planned
        else list(run.task.ledger.releases())
    )
    on_several_hosts = len(privacy.per_node) > run.task.n  # then per_node covers the nodes of all processes
    nodes = np.arange(run.network.graph.nodes) if on_several_hosts else run.task.nodes
    if privacy.reason or not releases or not np.isfinite(privacy.per_node).all():
        return _Accounted(privacy, nodes, privacy.reason or "nothing was released")
    return _Accounted(privacy, nodes, mixing_rounds(run.algorithm, run.task, run.network.graph, releases), releases)


def _bound_against(accounted: _Accounted, adversary: Adversary) -> AdversaryBound:
    per_node, rounds = accounted.with_all_messages(adversary), accounted.rounds
    rows = np.flatnonzero(~np.isin(accounted.nodes[: len(per_node)], adversary.controls))
    if isinstance(adversary, ModelHolder | MetricReader) and not accounted.privacy.covers_models:
        return replace(_worst_of(accounted, adversary, rows, per_node[rows], _MODELS_NOT_COVERED), epsilon=None)
    if isinstance(adversary, MetricReader):
        return _worst_of(accounted, adversary, rows, per_node[rows], _FROM_RELEASES)
    if isinstance(adversary, Eavesdropper) or not len(rows):
        return _worst_of(accounted, adversary, rows, per_node[rows], _SEES_ALL)
    if isinstance(rounds, str):
        return _worst_of(accounted, adversary, rows, per_node[rows], rounds)
    leverages = leverages_of(rounds, adversary)[:, rows]
    factor = collusion_factor(rounds.pairs, adversary)
    epsilons = _smaller_epsilons(accounted, rounds, rows, leverages, None if factor is None else factor[rows])
    found = _worst_of(accounted, adversary, rows, epsilons, _MIXING_HIDES)
    fully_visible = (leverages[:, rows == found.worst_node] == 1).all()
    return replace(found, reason=_VIEW_SHOWS_ALL) if fully_visible else found


def _worst_of(accounted: _Accounted, adversary: Adversary, rows: Ints, epsilons: Array, reason: str) -> AdversaryBound:
    """The bound for the node with the largest of `epsilons`, which belong to the given rows."""
    privacy = accounted.privacy
    worst = finite_or_none(float(epsilons.max(initial=0.0))) if privacy.reason is None else None
    node = int(accounted.nodes[rows[epsilons.argmax()]]) if len(epsilons) else None
    return AdversaryBound(
        adversary,
        worst,
        privacy.delta,
        privacy.unit,
        privacy.relation,
        node,
        privacy.reason or reason,
        adversary.title,
    )


def _smaller_epsilons(
    accounted: _Accounted, rounds: MixingRounds, nodes: Ints, leverages: Array, factor: Array | None
) -> Array:
    """The smaller of the view's bound and the stated one for a record of each node; one column per node.

    With paired noise, `factor` of each column relates the noise that the adversary does not know to the planned noise;
    then the stated bound is for other colluders, and does not count.
    """
    if factor is not None:
        return view_epsilons(rounds, nodes, leverages * factor, accounted.privacy.delta)
    epsilons = accounted.privacy.per_node[nodes]
    hidden = np.flatnonzero((leverages < 1).any(axis=0))
    if len(hidden):
        by_view = view_epsilons(rounds, nodes[hidden], leverages[:, hidden], accounted.privacy.delta)
        epsilons[hidden] = np.minimum(epsilons[hidden], by_view)
    return epsilons


def _pairs(accounted: _Accounted) -> Array | str:
    """ε for every pair of nodes, or the reason why it is the eavesdropper's for all of them."""
    nodes, rounds = len(accounted.privacy.per_node), accounted.rounds
    if isinstance(rounds, str):
        return rounds
    if nodes > MAX_PAIR_NODES or len(rounds.kinds) * nodes**4 > MAX_WORK:
        return _TOO_MANY_PAIRS
    if (leverages_of(rounds, ModelHolder("all")) == 1).all():  # every node's view contains this one
        return _VIEW_SHOWS_ALL
    # (kinds, attacked node, adversary)
    leverages = np.stack([leverages_of(rounds, Coalition((node,))) for node in range(nodes)], axis=2)
    others = ~np.eye(nodes, dtype=bool)
    if (leverages[:, others] == 1).all():
        return _VIEW_SHOWS_ALL
    pairs = np.full((nodes, nodes), math.nan)
    known = [collusion_factor(rounds.pairs, Coalition((node,))) for node in range(nodes)]
    factor = None if rounds.pairs is None else np.stack([each for each in known if each is not None], axis=1)[others]
    pairs[others] = _smaller_epsilons(accounted, rounds, np.nonzero(others)[0], leverages[:, others], factor)
    return pairs


def _any_node(accounted: _Accounted, pairs: Array | str) -> AdversaryBound:
    """The bound against the single node that can learn most."""
    per_node = accounted.with_all_messages(Eavesdropper(1))
    if isinstance(pairs, str):
        found = _worst_of(accounted, Coalition((0,)), np.arange(len(per_node)), per_node, pairs)
        return replace(found, adversary=Coalition((int(found.worst_node == 0),)), title=_ANY_NODE)
    attacked, attacker = (int(at) for at in np.unravel_index(np.nanargmax(pairs), pairs.shape))
    reason = _MIXING_HIDES if pairs[attacked, attacker] < per_node[attacked] else _VIEW_SHOWS_ALL
    worst = f"{reason}; the worst case is node {attacker} against a record of node {attacked}"
    found = _worst_of(accounted, Coalition((attacker,)), np.array([attacked]), pairs[attacked, [attacker]], worst)
    return replace(found, title=_ANY_NODE)
