"""A site at work: its lines, its journal and its part of the run, from the first HELLO to the last GOODBYE."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from tacit.graph_learning import (
    GraphLearningRun,
    GraphMethod,
    GraphObserver,
    Signals,
    matrices,
    to_networkx,
    write_graph,
)
from tacit.networks import Costs
from tacit.privacy.accountant import guarantee
from tacit.privacy.planning import plan
from tacit.runs import storage
from tacit.runs.observer import Observer
from tacit.runs.privacy_meter import finite
from tacit.runs.run import Run
from tacit.sites.build import SiteParts
from tacit.sites.exchange import Exchange
from tacit.sites.grpc_transport import GrpcTransport
from tacit.sites.journal import Journal
from tacit.sites.peers import Peers, neighbours, sender_check
from tacit.sites.run import SiteRun, check_journal
from tacit.sites.status import SiteState, SiteStatus
from tacit.tasks import Task

log = logging.getLogger(__name__)
_ROUNDS = 64  # of a graph that does not repeat, in which neighbours are looked for
_LONG = 10  # patiences for which a site that is done stays for others that may still need an answer


class Node:
    """One site's process: `work` does all of it, and `status` may be asked by any thread."""

    def __init__(
        self,
        parts: SiteParts,
        transport: Callable[..., GrpcTransport] = GrpcTransport,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._observers = observers
        site, names = parts.site, parts.description.sites
        self.parts, self.site, self.state = parts, site, "starting"
        self.journal = Journal(site.state / "journal.sqlite", parts.description.digest)
        most = _largest(parts.task)
        addresses = {one.name: one.address for one in site.network_config.sites}
        self.transport = transport(site.identity, site.listen_address, addresses, most)
        self.exchange = Exchange(
            self.journal,
            parts.description,
            site.name,
            self.transport,
            sender_check(parts.graph, names, site.name),
            tolerates_dropout=getattr(parts.algorithm, "tolerates_dropout", False),
            max_bytes=most,
            unreachable_after=site.peer_timeout,
        )
        costs = Costs(**parts.config.network.model_dump())
        self.network = Peers(parts.graph, names, self.exchange, site.peer_timeout, costs)
        self.around = sorted({names[j] for j in self._neighbours()})
        self.run: SiteRun | GraphLearningRun | None = None
        self._seen: dict[str, Any] = {"round": 0, "epsilon": None, "planned": None, "accuracy": None}

    state: SiteState

    def go(self, watch: Callable[[SiteStatus], None] = lambda status: None) -> dict[str, Any]:
        """All rounds that are left. What comes of it is in the state folder; told is the run in one object."""
        try:
            run = self.run = self.prepared()
            log.info("goes on" if self.journal.has_sent() else "begins", extra={"round": run.t, "rounds": self._rounds})
            self.transport.open(self.exchange.receiver)
            self.transport.connect(self.around)
            # One that starts again hears first what the others know of it; whoever is away then is not waited for.
            timeout = self.site.peer_timeout if self.journal.has_sent() else None
            self.exchange.wait_for_hello_replies(self.around, timeout)
            self.state = "running"
            result = self._train(run, watch) if isinstance(run, SiteRun) else self._learn(run, watch)
            if not run.interrupted:  # else it will be back
                self._part(result["stopped"])
            return result
        except BaseException as error:
            self.state = "failed"
            log.error("stopped: %s", str(error) or type(error).__name__)
            raise
        finally:
            self.transport.close()
            self.journal.close()

    def status(self) -> SiteStatus:
        """What may be told to whoever watches. ε is at most this; it is computed now and then, ahead of the rounds."""
        waiting = self.exchange.waiting_for
        waits = bool(waiting) and self.state in ("starting", "running")
        return SiteStatus(
            site=self.site.name,
            network=self.site.network_config.name,
            digest=self.parts.description.digest,
            algorithm=self.parts.algorithm.title,
            state="waiting" if waits else self.state,
            waiting_for=waiting,
            rounds=self._rounds,
            delta=self.parts.delta,
            **self._seen,
            **asdict(self.exchange.counts),
            bytes_sent=self.transport.bytes_sent,
            bytes_received=self.transport.bytes_received,
            peers={name: self.exchange.peers[name].status() for name in self.around},
        )

    def prepared(self) -> SiteRun | GraphLearningRun:
        """The run as it was left, or new; whatever is wrong with what is kept is found before anybody is called."""
        parts, folder = self.parts, self.site.state
        (folder / "result.json").unlink(missing_ok=True)  # what it says of ε is of an earlier end
        if isinstance(parts.task, Signals) and isinstance(parts.algorithm, GraphMethod):
            # Graph learning keeps no state on disk: it is done again from what was said and heard.
            check_journal(parts.algorithm, parts.algorithm.rounds, parts.task, self.journal, 0, folder)
            parts.task.ledger.repeat(0)
            spent = guarantee(
                plan(parts.algorithm, parts.algorithm.rounds, parts.task.sampling, parts.task.nodes), parts.delta
            )
            whole = finite(float(spent.max()))
            self._seen.update(epsilon=whole, planned=whole)
            return GraphLearningRun(parts.task, parts.algorithm, self.network, delta=parts.delta)
        run = SiteRun(
            parts.task,
            parts.algorithm,
            self.network,
            delta=parts.delta,
            evaluate_every=parts.config.evaluate_every,
            config=parts.config.as_dict(),
            observers=self._observers,
            site=self.site.name,
            journal=self.journal,
            checkpoint_every=self.site.checkpoint_every,
        ).go_on(folder)
        self._seen.update(round=run.t, epsilon=run.bound, planned=run.planned().guaranteed)
        return run

    def _train(self, run: SiteRun, watch: Callable[[SiteStatus], None]) -> dict[str, Any]:
        run.observers.append(_TrainingStatus(self, watch))
        return run.go().result()

    def seen(self, run: SiteRun) -> None:
        """Update what `status` reports."""
        last = run.history[-1] if run.history else {"round": None, "accuracy": None}
        self._seen.update(round=run.t, epsilon=run.bound, accuracy=last["accuracy"])
        if last["round"] == run.t:
            log.info("evaluated", extra={key: last[key] for key in ("round", "accuracy", "guaranteed")})

    def _learn(self, run: GraphLearningRun, watch: Callable[[SiteStatus], None]) -> dict[str, Any]:
        folder = self.site.state
        run.observers = (_StatusUpdates(self, watch),)
        run.go()
        storage.write_history(folder / "history.csv", run.history)
        graphs = {"graph": run.graphs[0], "consensus": run.consensus}
        for name, graph in graphs.items():
            if graph is not None:
                write_graph(to_networkx(matrices(graph.numpy())), folder, name)
        result = {**run.result(), "out": str(folder)}
        storage.write_json(folder / "result.json", result)
        return result

    @property
    def _rounds(self) -> int:
        return self.parts.algorithm.rounds

    def _part(self, stopped: str | None) -> None:
        """Stay until everything said has its answer and the others are done too, but not for ever."""
        self.state = "finished"
        log.info("done: %s", stopped or "all rounds")
        silent = self.exchange.wait_for_acknowledgements(
            self.site.peer_timeout * (1 if self.exchange.tolerates_dropout else _LONG)
        )
        if silent:
            log.warning("no answer from %s", ", ".join(sorted(silent)))
        self.exchange.close(self.around, stopped or "done")
        self.exchange.wait_for_close(self.around, self.site.peer_timeout)

    def _neighbours(self) -> set[int]:
        """All that this node ever talks with."""
        graph, node = self.parts.graph, self.parts.node
        if not isinstance(self.parts.task, Task):
            return set(range(graph.nodes)) - {node}
        return {j for t in range(graph.period or _ROUNDS) for side in neighbours(graph, node, t) for j in side}


class _TrainingStatus(Observer):
    """Updates a site's status after every round."""

    def __init__(self, node: Node, watch: Callable[[SiteStatus], None]) -> None:
        self._node, self._watch = node, watch

    def on_round(self, run: Run) -> None:
        assert isinstance(run, SiteRun)
        self._node.seen(run)
        self._watch(self._node.status())


class _StatusUpdates(GraphObserver):
    """Passes the site's status on after every round."""

    def __init__(self, node: Node, watch: Callable[[SiteStatus], None]) -> None:
        self._node, self._watch = node, watch

    def on_round(self, run: GraphLearningRun) -> None:
        self._node._seen["round"] = run.t
        self._watch(self._node.status())


def _largest(task: Task | Signals) -> int:
    """Bytes of the largest message: two vectors of doubles, and a description."""
    return (2 << 20) + 2 * 8 * (task.d if isinstance(task, Task) else task.p)
