"""A site's part of a graph learning run: one client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit.graph_learning import GraphLearningRun, GraphObserver
from tacit.privacy import declares, guarantee, plan
from tacit.runs import finite_or_none, record_start
from tacit.sites.journal import Journal
from tacit.sites.parts import GraphLearningParts
from tacit.sites.peers import Peers
from tacit.sites.resume_checks import check_journal
from tacit.sites.site_folder import GraphSiteFolder


class SiteGraphRun(GraphLearningRun):
    """A graph learning run of which this process hosts one client.

    The state contains signals and is never written to disk. A resumed run repeats all rounds from the journal: it sends
    nothing twice and makes the same releases again.

    Attributes:
        epsilon_bound: Guaranteed ε of the whole run, whatever the round; None if nothing is guaranteed.
        planned_epsilon: The same.
        accuracy: None: there are no test records.
    """

    def __init__(
        self, parts: GraphLearningParts, network: Peers, journal: Journal, observers: Sequence[GraphObserver] = ()
    ) -> None:
        folder = GraphSiteFolder(parts.site.state)
        folder.remove_result()
        method, task = parts.algorithm, parts.task
        check_journal(method.privacy, method.rounds, task, journal, 0, folder.path)
        task.ledger.repeat(0)
        record_start(
            task.ledger,
            parts.config.as_dict(),
            task.noise,
            parts.delta,
            nodes=(parts.node, 1),
            exact_values_stay_local=declares(method, "exact_values_stay_local"),
        )
        super().__init__(task, method, network, delta=parts.delta, observers=[folder, *observers])
        self._folder = folder.path
        releases = plan(method.privacy, method.rounds, task.sampling, task.nodes)
        self.epsilon_bound = self.planned_epsilon = finite_or_none(float(guarantee(releases, parts.delta).max()))
        self.accuracy: float | None = None

    def result(self) -> dict[str, Any]:
        return {**super().result(), "out": str(self._folder)}
