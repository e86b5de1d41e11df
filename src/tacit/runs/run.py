"""The loop: rounds, evaluation, history, checkpoints, and a clean end however it ends."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from tacit.algorithms import Algorithm
from tacit.errors import BudgetExceeded, TacitError
from tacit.networks import Network
from tacit.privacy.ledger import Ledger
from tacit.privacy.statement import Privacy
from tacit.runs import storage
from tacit.runs.checkpoint import Checkpoint
from tacit.runs.cost import Cost, finite
from tacit.runs.measuring import Measuring
from tacit.tasks import Task

Row = dict[str, Any]
Watcher = Callable[["Run"], None]
TRACE = "trace.csv"


class Run:
    """An algorithm on a task over a network, from the first round to the last or to where it was stopped.

    `history` is a list of rows, one an evaluation (`pandas.DataFrame(run.history)`); `privacy` is what it
    cost; `models` are the nodes' models (n, d); `trace` is a row a round of what the algorithm watches. `keep` puts
    all in a folder, and `resume` goes on from one.
    """

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm[Any],
        network: Network,
        *,
        delta: float = 1e-5,
        evaluate_every: int | None = None,
        measure: Collection[str] = (),
        config: dict[str, Any] | None = None,
    ) -> None:
        self.task, self.algorithm, self.network, self.delta = task, algorithm, network, delta
        self.config = config or {}
        self._measuring = Measuring(task, algorithm, network, measure)
        self.rounds = algorithm.rounds
        self.every = evaluate_every or max(1, self.rounds // 20)
        self.out: Path | None = None
        self.history: list[Row] = []
        self.trace: list[Row] = []
        self.stopped: str | None = None
        self.interrupted = False
        self._began = time.monotonic()
        self._cost = self._new_cost()
        self._at = self._after(0, algorithm.start(task, network.graph))

    @property
    def t(self) -> int:
        """Whole rounds done."""
        return self._at.t

    @property
    def models(self) -> Tensor:
        """Each hosted node's model, (n, d)."""
        return self.algorithm.models(self._at.state)

    def keep(self, out: Path) -> Run:
        """Keep everything in the new folder `out`; nothing is left of it if that cannot be done."""
        if self.task.ledger.steps:
            raise TacitError("a run is kept from its start: give it a folder before its first round")
        out, before = self.network.folder(out), self.task.ledger
        with self.network.leader_first():
            storage.make_folder(out)
        try:
            self._use(out)
            storage.write_config(out / "config.toml", self.config)
            self.save()
        except BaseException:
            self.task.ledger, self.out = before, None
            shutil.rmtree(out)
            raise
        return self

    def resume(self, out: Path) -> Run:
        """Take up the run in `out`: the rounds that follow are those an unbroken run would have made."""
        if not self.task.noise.reproducible:
            raise TacitError("a run whose noise comes from the operating system cannot be repeated, so not resumed")
        out = self.network.folder(out)
        if not (out / "ledger.sqlite").is_file():
            raise TacitError(f"{out} has no ledger.sqlite, so what it has released is not known: put it back")
        at, seconds = Checkpoint.load(out, self._at, self.algorithm.title, self.config, self.network)
        history = storage.read_history(out / "history.csv")
        self._use(out)
        at.check_ledger(self.task.ledger, out)
        self._return_to(at)
        self.history = [row for row in history if row["round"] <= at.t]
        if (out / TRACE).is_file():
            self.trace = [row for row in storage.read_history(out / TRACE) if row["round"] <= at.t]
        self._began = time.monotonic() - seconds
        return self

    def go(self, watch: Watcher = lambda run: None) -> Run:
        """Run the rounds that are left, with `watch` called after each. Ctrl-C ends it at the last whole one."""
        self.stopped, self.interrupted = None, False
        try:
            self._evaluate_if_due()
            while self._begins():
                state = self.algorithm.round(self.t, self._at.state, self.task, self.network)
                self._at = self._after(self.t + 1, state)
                self._trace()
                self._evaluate_if_due()
                watch(self)
        except BudgetExceeded as refusal:
            self.stopped = str(refusal)
            self._drop_unreleased()
            self._evaluate()
        except KeyboardInterrupt:
            self.stopped, self.interrupted = f"stopped by hand after {self.t} of {self.rounds} rounds", True
            self._return_to(self._at)
        except BaseException as error:
            self.stopped = str(error) or type(error).__name__
            self.network.stop(self.stopped)
            with suppress(TacitError):  # the error that ended the run is the one to tell
                self.finish()
            raise
        self.finish()
        return self

    @property
    def privacy(self) -> Privacy:
        """What has been released so far, from the ledger."""
        return self._cost.spent(self.t)

    def planned(self) -> Privacy:
        """What the whole run will have cost, by the releases the algorithm plans."""
        return self._cost.planned()

    def result(self) -> dict[str, Any]:
        """The run in one object, as `--json` prints it."""
        now, traffic = self._now(), self.network.total()
        return {
            "algorithm": self.algorithm.title,
            "accuracy": now["accuracy"],
            "loss": now["loss"],
            "rounds": self.t,
            "nodes": self.network.graph.nodes,
            "processes": self.network.processes,
            "messages": traffic.messages,
            "bytes": traffic.bytes,
            "seconds": now["wall_seconds"],
            "out": None if self.out is None else str(self.out),
            "stopped": self.stopped,
            "simulated": self.task.noise.simulated,
            "privacy": self.privacy.as_dict(),
        }

    def save(self) -> None:
        """Bring the folder up to date: ledger first, so that it is never behind the rest."""
        if self.out is None:
            return
        self.task.ledger.flush()
        self._at.check_ledger(self.task.ledger, self.out)
        storage.write_history(self.out / "history.csv", self.history)
        if self.trace:
            storage.write_history(self.out / TRACE, self.trace)
        storage.write_models(self.out / "models.safetensors", self.models)
        if not self.network.whole:
            return  # what others have kept is of an earlier round: a run can go on from where all were
        seconds = time.monotonic() - self._began
        self._at.save(self.out, self.algorithm.title, seconds, self.network.processes)

    def finish(self) -> None:
        """Bring the folder up to date and add what is told at the end: result, nodes, graph, and the page."""
        self.save()
        if self.out is None:
            return
        from tacit.reports import PAGE, write_facts, write_page  # it reads what runs write, so it imports this package

        result = self.result()
        if self.network.leads:
            storage.write_json(self.out / "result.json", result)
        write_facts(self, self.out)
        if self.network.leads:
            write_page([self.out], self.out / PAGE)

    def _begins(self) -> bool:
        """Whether there is another round, which then has begun."""
        return self.t < self.rounds and self.network.begin(self.t) == self.t

    def _use(self, out: Path) -> None:
        before = self.task.ledger
        self.task.ledger = Ledger(out / "ledger.sqlite", budget=before.budget, durable=before.durable)
        self._cost = self._new_cost()
        self.out = out

    def _new_cost(self) -> Cost:
        return Cost(self.task, self.algorithm, self.delta, self._measuring.reads_records, self.network)

    def _after(self, t: int, state: Any) -> Checkpoint:
        return Checkpoint(t, state, self.task.ledger.steps, self.task.draws, replace(self.network.traffic))

    def _return_to(self, at: Checkpoint) -> None:
        """Forget what was done of the round after `at`: the same seed will do it again, bit for bit.

        Noise that cannot be drawn again was told for good, and stays in the ledger.
        """
        self._at, self.task.draws, self.network.traffic = at, at.draws, replace(at.traffic)
        if self.task.noise.reproducible:
            self.task.ledger.rewind(at.steps)
        self._cost = self._new_cost()

    def _drop_unreleased(self) -> None:
        """The refused value goes nowhere; what its round did release stays in the ledger."""
        for step, purpose in self.task.ledger.unreleased:
            if step >= self._at.steps:
                self.task.ledger.close(step, purpose)

    def _trace(self) -> None:
        """What the algorithm wants watched in every round, as the largest of the nodes' numbers."""
        watched = self.algorithm.traces(self._at.state)
        if watched:
            self.trace.append({"round": self.t, **{key: finite(float(v.max())) for key, v in watched.items()}})

    def _evaluate_if_due(self) -> None:
        due = self.t % self.every == 0 or self.t == self.rounds
        if due and not (self.history and self.history[-1]["round"] == self.t):
            self._evaluate()
            self.save()

    def _evaluate(self) -> None:
        row = self._measure()
        if self.history and self.history[-1]["round"] == self.t:
            self.history.pop()
        self.history.append(row)

    def _now(self) -> Row:
        if self.history and self.history[-1]["round"] == self.t:
            return self.history[-1]
        try:
            return self._measure()
        except TacitError:  # models that have grown out of bounds cannot be measured
            return {"accuracy": None, "loss": None, "wall_seconds": round(time.monotonic() - self._began, 3)}

    def _measure(self) -> Row:
        traffic, privacy = self.network.total(), self.privacy
        return {
            "round": self.t,
            **self._measuring(self._at.state),
            "guaranteed": privacy.guaranteed,
            "claimed": privacy.claimed,
            "messages": traffic.messages,
            "bytes": traffic.bytes,
            "cost_seconds": self.network.costs.seconds(self.task.draws, traffic.rounds, traffic.bytes_out),
            "wall_seconds": round(time.monotonic() - self._began, 3),
        }
