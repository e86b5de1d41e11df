"""The process of one site: it connects to its neighbours, runs its part of the run, and disconnects."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from tacit.networks import Costs
from tacit.runs import Observer
from tacit.sites.exchange import Exchange
from tacit.sites.grpc_transport import GrpcTransport
from tacit.sites.journal import Journal
from tacit.sites.parts import GraphLearningParts, SiteParts, TrainingParts
from tacit.sites.peers import Peers, sender_check
from tacit.sites.progress import GraphLearningProgress, Progress, TrainingProgress
from tacit.sites.resume_checks import JOURNAL
from tacit.sites.site_graph_run import SiteGraphRun
from tacit.sites.site_run import SiteRun
from tacit.sites.status import SiteState, SiteStatus

log = logging.getLogger(__name__)
_ACKNOWLEDGEMENT_TIMEOUTS = 10  # peer timeouts to wait for acknowledgements if no dropout is tolerated


class Node:
    """One site. `go` runs it, and `status` can be called from any thread.

    It owns the journal, the transport and the exchange of messages, and creates the run.

    Args:
        parts: What the site needs, from `build_site`.
        transport: The class of the transport.
        observers: Notified by a training run, after the site's own files are written.
    """

    def __init__(
        self,
        parts: SiteParts,
        transport: Callable[..., GrpcTransport] = GrpcTransport,
        observers: Sequence[Observer] = (),
    ) -> None:
        site, names = parts.site, parts.description.sites
        self.parts, self.site, self._observers = parts, site, observers
        self.journal = Journal(site.state / JOURNAL, parts.description.digest)
        addresses, max_bytes = site.network_config.addresses, parts.max_message_bytes
        self.transport = transport(site.identity, site.listen_address, addresses, max_bytes)
        self.exchange = Exchange(
            self.journal,
            parts.description,
            site.name,
            self.transport,
            sender_check(parts.graph, names, site.name, parts.graph_time),
            tolerates_dropout=parts.tolerates_dropout,
            max_bytes=max_bytes,
            unreachable_after=site.peer_timeout,
        )
        costs = Costs(**parts.config.network.model_dump())
        self.network = Peers(parts.graph, names, self.exchange, site.peer_timeout, costs, parts.graph_time)
        if isinstance(parts, TrainingParts):
            self.network.device = parts.task.device
        self.neighbours = parts.neighbours
        self.run: SiteRun | SiteGraphRun | None = None
        self._state: SiteState = "starting"
        self._progress = Progress()

    def go(self) -> dict[str, Any]:
        """Run all remaining rounds; return the result, which is also in the state folder."""
        try:
            run = self.create_run()
            has_sent = self.journal.has_sent()
            log.info("resumed" if has_sent else "started", extra={"round": run.t, "rounds": self._rounds})
            self.transport.open(self.exchange.receiver)
            self.transport.connect(self.neighbours)
            # A restarted site must learn which of its messages were used. It does not wait for absent neighbours.
            self.exchange.wait_for_hello_replies(self.neighbours, self.site.peer_timeout if has_sent else None)
            self._state = "running"
            result = run.go().result()
            if not run.interrupted:  # an interrupted site will be resumed: its neighbours must not see it leave
                self._leave(result["stopped"])
            return result
        except BaseException as error:
            self._state = "failed"
            log.error("stopped: %s", str(error) or type(error).__name__)
            raise
        finally:
            self.transport.close()
            self.journal.close()

    def create_run(self) -> SiteRun | SiteGraphRun:
        """Create the run, or resume it from the state folder. Nothing is sent yet."""
        match self.parts:
            case TrainingParts():
                observers = [TrainingProgress(self._progress), *self._observers]
                self.run = SiteRun(self.parts, self.network, self.journal, observers)
            case GraphLearningParts():
                observer = GraphLearningProgress(self._progress)
                self.run = SiteGraphRun(self.parts, self.network, self.journal, [observer])
            case _:
                raise TypeError(f"unknown parts {type(self.parts).__name__}")
        self._progress.record(self.run)
        return self.run

    def status(self) -> SiteStatus:
        """Return the current status. Its ε is computed at evaluations, and bounds ε until the next one."""
        waiting_for = self.exchange.waiting_for
        is_waiting = bool(waiting_for) and self._state in ("starting", "running")
        return SiteStatus(
            site=self.site.name,
            network=self.site.network_config.name,
            digest=self.parts.description.digest,
            algorithm=self.parts.algorithm.title,
            state="waiting" if is_waiting else self._state,
            waiting_for=waiting_for,
            rounds=self._rounds,
            delta=self.parts.delta,
            **asdict(self._progress),
            **asdict(self.exchange.counts),
            bytes_sent=self.transport.bytes_sent,
            bytes_received=self.transport.bytes_received,
            peers={name: self.exchange.peers[name].status() for name in self.neighbours},
        )

    @property
    def _rounds(self) -> int:
        return self.parts.algorithm.rounds

    def _leave(self, stopped: str | None) -> None:
        """Wait until all messages are acknowledged and the neighbours leave too, but not forever."""
        self._state = "finished"
        log.info("finished: %s", stopped or "all rounds complete")
        timeout = self.site.peer_timeout
        longest = timeout if self.exchange.tolerates_dropout else _ACKNOWLEDGEMENT_TIMEOUTS * timeout
        if pending := self.exchange.wait_for_acknowledgements(longest):
            log.warning("no acknowledgement from %s", ", ".join(sorted(pending)))
        self.exchange.close(self.neighbours, stopped or "finished")
        self.exchange.wait_for_close(self.neighbours, timeout)
