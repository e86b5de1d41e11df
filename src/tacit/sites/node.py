"""A site at work: its lines, its journal and its part of the run, from the first HELLO to the last GOODBYE."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.graph_learning import GraphMethod, Signals
from tacit.graph_learning.files import write_graph
from tacit.graph_learning.learner import matrices, to_networkx
from tacit.graph_learning.learning import Learning
from tacit.networks import Costs
from tacit.privacy.planning import guarantee, plan
from tacit.runs import storage
from tacit.runs.cost import finite
from tacit.runs.run import Run
from tacit.sites.build import Built
from tacit.sites.journal import Journal
from tacit.sites.lines import Lines
from tacit.sites.peers import Peers, neighbours, speaks
from tacit.sites.post import Post
from tacit.sites.run import SiteRun, check_journal
from tacit.sites.status import State, Status
from tacit.tasks import Task

log = logging.getLogger(__name__)
_ROUNDS = 64  # of a graph that does not repeat, in which neighbours are looked for
_LONG = 10  # patiences for which a site that is done stays for others that may still need an answer


class Node:
    """One site's process: `work` does all of it, and `status` may be asked by any thread."""

    def __init__(self, built: Built, wires: Callable[..., Lines] = Lines) -> None:
        site, names = built.site, built.description.sites
        self.built, self.site, self.state = built, site, "starting"
        self.journal = Journal(site.state / "journal.sqlite", built.description.network)
        most = _largest(built.task)
        self.lines = wires(site.identity, site.listening, {one.name: one.address for one in site.agreed.sites}, most)
        self.post = Post(
            self.journal,
            built.description,
            site.name,
            self.lines,
            speaks(built.graph, names, site.name),
            tolerates_dropout=getattr(built.algorithm, "tolerates_dropout", False),
            most=most,
            silence=site.patience,
        )
        costs = Costs(**built.config.network.model_dump())
        self.network = Peers(built.graph, names, self.post, site.patience, costs)
        self.around = sorted({names[j] for j in self._neighbours()})
        self.run: SiteRun | Learning | None = None
        self._seen: dict[str, Any] = {"round": 0, "epsilon": None, "planned": None, "accuracy": None}

    state: State

    def work(self, watch: Callable[[Status], None] = lambda status: None) -> dict[str, Any]:
        """All rounds that are left. What comes of it is in the state folder; told is the run in one object."""
        try:
            run = self.run = self.prepared()
            log.info("goes on" if self.journal.begun else "begins", extra={"round": run.t, "rounds": self._rounds})
            self.lines.open(self.post)
            self.lines.dial(self.around)
            # One that starts again hears first what the others know of it; whoever is away then is not waited for.
            self.post.meet(self.around, self.site.patience if self.journal.begun else None)
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
            self.lines.shut()
            self.journal.shut()

    def status(self) -> Status:
        """What may be told to whoever watches. ε is at most this; it is computed now and then, ahead of the rounds."""
        counts, waiting = self.post.counts, self.post.waiting_for
        waits = bool(waiting) and self.state in ("starting", "running")
        return Status(
            site=self.site.name,
            network=self.site.agreed.name,
            digest=self.built.description.network,
            algorithm=self.built.algorithm.title,
            state="waiting" if waits else self.state,
            waiting_for=waiting,
            rounds=self._rounds,
            delta=self.built.delta,
            **self._seen,
            **{key: counts[key] for key in ("sent", "received", "bytes_sent", "bytes_received")},
            **{key: counts[key] for key in ("refused", "missed", "returned")},
            peers={name: self.post.peers[name].status() for name in self.around},
        )

    def prepared(self) -> SiteRun | Learning:
        """The run as it was left, or new; whatever is wrong with what is kept is found before anybody is called."""
        built, folder = self.built, self.site.state
        (folder / "result.json").unlink(missing_ok=True)  # what it says of ε is of an earlier end
        if isinstance(built.task, Signals) and isinstance(built.algorithm, GraphMethod):
            # Graph learning keeps no state on disk: it is done again from what was said and heard.
            check_journal(built.algorithm, built.task, self.journal, 0, folder)
            built.task.ledger.repeat(0)
            spent = guarantee(plan(built.algorithm, built.task.sampling, built.task.nodes), built.delta)
            whole = finite(float(spent.max()))
            self._seen.update(epsilon=whole, planned=whole)
            return Learning(built.task, built.algorithm, self.network, delta=built.delta)
        run = SiteRun(
            built.task,
            built.algorithm,
            self.network,
            delta=built.delta,
            evaluate_every=built.config.evaluate_every,
            config=built.config.as_dict(),
            site=self.site.name,
            journal=self.journal,
            checkpoint_every=self.site.checkpoint_every,
        ).go_on(folder)
        self._seen.update(round=run.t, epsilon=run.bound, planned=run.planned().guaranteed)
        return run

    def _train(self, run: SiteRun, watch: Callable[[Status], None]) -> dict[str, Any]:
        def look(_: Run) -> None:
            last = run.history[-1] if run.history else {"round": None, "accuracy": None}
            self._seen.update(round=run.t, epsilon=run.bound, accuracy=last["accuracy"])
            if last["round"] == run.t:
                log.info("evaluated", extra={key: last[key] for key in ("round", "accuracy", "guaranteed")})
            watch(self.status())

        run.go(look)
        return run.result()

    def _learn(self, run: Learning, watch: Callable[[Status], None]) -> dict[str, Any]:
        folder = self.site.state

        def look(_: Learning) -> None:
            self._seen["round"] = run.t
            watch(self.status())

        run.go(look)
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
        return self.built.algorithm.rounds

    def _part(self, stopped: str | None) -> None:
        """Stay until everything said has its answer and the others are done too, but not for ever."""
        self.state = "finished"
        log.info("done: %s", stopped or "all rounds")
        silent = self.post.settle(self.site.patience * (1 if self.post.tolerates_dropout else _LONG))
        if silent:
            log.warning("no answer from %s", ", ".join(sorted(silent)))
        self.post.leave(self.around, stopped or "done")
        self.post.farewell(self.around, self.site.patience)

    def _neighbours(self) -> set[int]:
        """All that this node ever talks with."""
        graph, node = self.built.graph, self.built.node
        if not isinstance(self.built.task, Task):
            return set(range(graph.nodes)) - {node}
        return {j for t in range(graph.period or _ROUNDS) for side in neighbours(graph, node, t) for j in side}


def _largest(task: Task | Signals) -> int:
    """Bytes of the largest message: two vectors of doubles, and a description."""
    return (2 << 20) + 2 * 8 * (task.d if isinstance(task, Task) else task.p)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """The only process that works in a folder: two with one ledger would each tell half of what was released."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise TacitError(f"another process works in {folder}: a site is one process") from None
    finally:
        os.close(handle)
