"""The loop: rounds, evaluation, history, checkpoints, and a clean end however it ends."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from tacit.algorithms import Algorithm
from tacit.errors import BudgetExceeded, TacitError
from tacit.networks import Network, Traffic
from tacit.privacy.ledger import Array
from tacit.privacy.plan import guarantee, plan
from tacit.privacy.statement import Meter, Privacy, assess
from tacit.runs import storage
from tacit.tasks import Task

Row = dict[str, Any]
Watcher = Callable[["Run"], None]


class Run:
    """An algorithm on a task over a network, from the first round to the last or to where it was stopped.

    `history` is a list of rows, one an evaluation (`pandas.DataFrame(run.history)`); `privacy` is what it cost;
    `models` are the nodes' models (n, d). With `out` everything is kept in that folder, and `resume` goes on from it.
    """

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm[Any],
        network: Network,
        *,
        delta: float = 1e-5,
        evaluate_every: int | None = None,
        out: Path | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.task, self.algorithm, self.network, self.delta = task, algorithm, network, delta
        self.out, self.config = out, config or {}
        self.rounds = algorithm.rounds
        self.every = evaluate_every or max(1, self.rounds // 20)
        self.state: Any = algorithm.start(task, network.graph)
        self.t = 0
        self.history: list[Row] = []
        self.stopped: str | None = None
        self._mark = 0
        self._meter = Meter(task.ledger, delta)
        self._began = time.monotonic()

    def go(self, watch: Watcher = lambda run: None) -> Run:
        """Run the rounds that are left. `watch` is called after each."""
        if self.out is not None:
            storage.write_config(self.out / "config.toml", self.config)
        try:
            if self.t == 0:
                self._evaluate()
            while self.t < self.rounds:
                self.state = self.algorithm.round(self.t, self.state, self.task, self.network)
                self.t += 1
                self._mark = self.task.ledger.steps
                if self.t % self.every == 0 or self.t == self.rounds:
                    self._evaluate()
                    self.save()
                watch(self)
        except BudgetExceeded as refusal:
            self.stopped = str(refusal)
            self._evaluate()
        except KeyboardInterrupt:
            self.stopped = f"stopped by hand after {self.t} of {self.rounds} rounds"
            self.task.ledger.rewind(self._mark)
        finally:
            self.save()
        return self

    @property
    def models(self) -> Tensor:
        """Each hosted node's model, (n, d)."""
        return self.algorithm.models(self.state)

    @property
    def privacy(self) -> Privacy:
        """What has been released so far, from the ledger."""
        return self._statement(*assess(self.task.ledger, self.delta), self.t)

    def planned(self) -> Privacy:
        """What the whole run will have cost, by the releases the algorithm plans."""
        lines = plan(self.algorithm, self.task.sampler.sampling, self.task.nodes)
        spent = guarantee(lines, self.delta)
        reason = "values leave the nodes without noise" if not lines or math.isinf(spent.max()) else None
        return self._statement(spent, reason, self.rounds)

    def _statement(self, spent: Array, reason: str | None, rounds: int) -> Privacy:
        return Privacy(
            guaranteed=None if reason else float(spent.max(initial=0.0)),
            claimed=self._claim(rounds),
            delta=self.delta,
            unit=self.algorithm.unit,
            relation=self.task.sampler.sampling.relation,
            adversary=self.algorithm.adversary,
            reason=reason,
            per_node=spent,
        )

    def result(self) -> dict[str, Any]:
        """The run in one object, as `--json` prints it."""
        last = self.history[-1]
        return {
            "algorithm": self.algorithm.title,
            "accuracy": last["accuracy"],
            "loss": last["loss"],
            "rounds": self.t,
            "nodes": self.network.graph.nodes,
            "messages": last["messages"],
            "bytes": last["bytes"],
            "seconds": last["wall_seconds"],
            "out": None if self.out is None else str(self.out),
            "stopped": self.stopped,
            "privacy": self.privacy.as_dict(),
        }

    def save(self) -> None:
        """Bring the folder up to date: ledger first, so that it is never behind the rest."""
        if self.out is None:
            return
        self.task.ledger.flush()
        facts = {
            "algorithm": self.algorithm.title,
            "rounds": self.rounds,
            "round": self.t,
            "mark": self._mark,
            "draws": self.task.draws,
            "seconds": time.monotonic() - self._began,
            "traffic": dataclasses.asdict(self.network.traffic),
        }
        storage.write_history(self.out / "history.csv", self.history)
        storage.write_models(self.out / "models.safetensors", self.models)
        storage.write_checkpoint(self.out / "checkpoint.safetensors", vars(self.state), facts)

    def resume(self) -> Run:
        """Take up the state in `out`: the rounds that follow are those an unbroken run would have made."""
        assert self.out is not None
        path = self.out / "checkpoint.safetensors"
        tensors, facts = storage.read_checkpoint(path)
        expected = {key: tuple(value.shape) for key, value in vars(self.state).items()}
        found = {key: tuple(value.shape) for key, value in tensors.items()}
        if (facts["algorithm"], facts["rounds"], found) != (self.algorithm.title, self.rounds, expected):
            raise TacitError(
                f"{path} belongs to another run: {facts['algorithm']} over {facts['rounds']} rounds with {found}, "
                f"not {self.algorithm.title} over {self.rounds} with {expected}"
            )
        self.state = dataclasses.replace(self.state, **tensors)
        self.t, self._mark, self.task.draws = facts["round"], facts["mark"], facts["draws"]
        self._began = time.monotonic() - facts["seconds"]
        self.network.traffic = Traffic(**facts["traffic"])
        self.history = [row for row in storage.read_history(self.out / "history.csv") if row["round"] <= self.t]
        self.task.ledger.rewind(self._mark)
        return self

    def _evaluate(self) -> None:
        with self.network.unmetered():
            models = self.models
            mean = self.network.mean(models)
            spread = self.network.mean((models - mean).square().sum(1, keepdim=True))
        metrics = self.task.evaluate(mean)
        epsilon = self._meter.epsilon()
        row: Row = {
            "round": self.t,
            "accuracy": metrics.accuracy,
            "loss": metrics.loss,
            "consensus": math.sqrt(float(spread)),
            "guaranteed": epsilon if math.isfinite(epsilon) else None,
            "claimed": self._claim(self.t),
            "messages": self.network.traffic.messages,
            "bytes": self.network.traffic.bytes,
            "cost_seconds": self.network.seconds(self.task.draws),
            "wall_seconds": round(time.monotonic() - self._began, 3),
        }
        if self.history and self.history[-1]["round"] == self.t:
            self.history.pop()
        self.history.append(row)

    def _claim(self, rounds: int) -> float | None:
        if rounds == 0:
            return None
        return self.algorithm.claim(self.task.sampler.sampling, self.task.nodes, self.delta, rounds)
