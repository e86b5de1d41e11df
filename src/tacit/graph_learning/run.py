"""The loop: rounds until the graphs are found, or until the noise is spent, and what that cost.

`tacit.runs.Run` drives models that are tested on records, and keeps its state on disk to go on from. Here there is
nothing to test on, a state holds what the signals are and belongs on no disk, and rounds take milliseconds: so the
loop is this one, with the same networks, mechanisms, ledger and statement.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from tacit.errors import BudgetExceeded, TacitError
from tacit.graph_learning.method import GraphMethod
from tacit.graph_learning.observer import GraphObserver
from tacit.graph_learning.signals import Signals
from tacit.networks import Network
from tacit.privacy.statement import Privacy, assess

Row = dict[str, Any]
_SIMULATED = "The noise comes from a seed: this is a simulation, and protects only where the seed stays secret."


class GraphLearningRun:
    """A method on clients' signals over a network, from the first round to the last.

    It has converged when in one round the residual of every client's problem (‖w − Proj(w − ∇f/κ)‖ ÷ ‖w‖, at the
    consensus just found; FedAvg by steps has only the change) and the relative change of the consensus are at most
    `tolerance`. One that finds the minimum in one round has converged when the solver says so. Where each round
    releases something with noise, whether it has would itself tell about the signals: then all rounds are made, and
    nobody asks.

    `z` is what the method has learned from the signals already, if it has. A run that does not converge warns, unless
    it is `quiet`.

    `history` has a row a round: objective and residual (None where they are secrets), change, ε spent, traffic.
    """

    def __init__(
        self,
        task: Signals,
        method: GraphMethod[Any],
        network: Network,
        *,
        delta: float = 1e-5,
        tolerance: float = 1e-6,
        z: Tensor | None = None,
        quiet: bool = False,
        observers: Sequence[GraphObserver] = (),
    ) -> None:
        self.task, self.method, self.network = task, method, network
        self.delta, self.tolerance, self.quiet = delta, tolerance, quiet
        self.observers = tuple(observers)
        self.history: list[Row] = []
        self.converged: bool | None = None
        self.stopped: str | None = None
        self.interrupted = False
        self.t = 0
        self._began = time.monotonic()
        self._state = method.start(task, network.graph, z)

    @property
    def graphs(self) -> Tensor:
        """Each hosted client's graph, (n, p)."""
        return self.method.graphs(self._state)

    @property
    def consensus(self) -> Tensor | None:
        """The graph that all agree on, (p,)."""
        return self.method.consensus(self._state)

    @property
    def weights(self) -> Tensor | None:
        """γ_i of each client, where the method has such."""
        gamma: Tensor | None = getattr(self._state, "gamma", None)
        return gamma

    def go(self) -> GraphLearningRun:
        """All rounds. Ctrl-C ends at the last whole one; a refused release ends before it."""
        for observer in self.observers:
            observer.on_start(self)
        try:
            while self.t < self.method.rounds and not self.converged:
                self.network.begin(self.t)
                before, self._state = self._state, self.method.round(self.t, self._state, self.task, self.network)
                self.t += 1
                self._measure(before)
                if self.method.solves_in_one_round:
                    self.converged = True  # the solver has proven its error
                for observer in self.observers:
                    observer.on_round(self)
        except KeyboardInterrupt:
            self.stopped = f"stopped by hand after {self.t} of at most {self.method.rounds} rounds"
            self.interrupted = True
        except BudgetExceeded as refusal:
            self.stopped = str(refusal)
        if self.converged is False and not self.stopped and not self.quiet:
            warnings.warn(
                f"{self.method.title} has not converged: after {self.t} rounds the residual is "
                f"{self.history[-1]['residual']:.2g}, above {self.tolerance:g}; allow more rounds",
                stacklevel=2,
            )
        for observer in self.observers:
            observer.on_finish(self)
        return self

    @property
    def privacy(self) -> Privacy:
        """What has been released so far, from the ledger."""
        method, task = self.method, self.task
        spent, reason = assess(task.ledger, self.delta)
        reason = reason or method.unprotected_reason
        simulated = (_SIMULATED,) if task.noise.simulated and method.noise is not None else ()
        return Privacy(
            guaranteed=None if reason else float(spent.max(initial=0.0)),
            claimed=method.claim(task.nodes, self.delta, self.t) if self.t else None,
            delta=self.delta,
            unit=method.unit,
            relation=task.sampling.relation,
            adversary=method.adversary,
            reason=reason,
            note=" ".join([*method.notes, *simulated]) or None,
            per_node=spent,
        )

    def result(self) -> dict[str, Any]:
        """The run in one object, as `--json` prints it."""
        last, traffic = self.history[-1] if self.history else {}, self.network.traffic
        return {
            "method": self.method.title,
            "clients": self.network.graph.nodes,
            "vertices": self.task.d,
            "rounds": self.t,
            "converged": self.converged,
            "objective": last.get("objective"),
            "residual": last.get("residual"),
            "messages": traffic.messages,
            "bytes": traffic.bytes,
            "seconds": round(time.monotonic() - self._began, 3),
            "stopped": self.stopped,
            "privacy": self.privacy.as_dict(),
        }

    def _measure(self, before: Any) -> None:
        method, network = self.method, self.network
        objective = residual = None
        old, new = method.consensus(before), method.consensus(self._state)
        change = 0.0 if old is None or new is None else float((new - old).norm() / new.norm().clamp(min=1e-300))
        if not math.isfinite(change):
            raise TacitError(f"the graphs have grown out of bounds in round {self.t - 1}: take a smaller step")
        if not method.noise_in_rounds:
            with network.unmetered():
                objective = method.objective(self._state, network)
                residual = float(network.max(method.residual(self._state)))
            self.converged = max(residual, 0.0 if method.solves_in_one_round else change) <= self.tolerance
        row = {"round": self.t, "objective": objective, "residual": residual, "change": change}
        self.history.append({**row, "messages": network.traffic.messages, "bytes": network.traffic.bytes})
