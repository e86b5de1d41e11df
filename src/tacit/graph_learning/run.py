"""The loop of graph learning: rounds until convergence, or until the planned rounds are done, and their privacy cost.

`tacit.runs.Run` trains models: it evaluates them on test records and stores checkpoints. Graph learning has no test
records, its state contains secrets that should not be stored, and its rounds take milliseconds. So it has its own
loop, with the same networks, mechanisms, ledger and privacy statement.
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
from tacit.graph_learning.records import reserve_signals
from tacit.graph_learning.signals import Signals
from tacit.networks import Network
from tacit.privacy import Privacy, declares, ledger_guarantee, outside_parts


class GraphLearningRun:
    """A graph learning method on the clients' signals over a network.

    A run has converged when, in one round, the residual of every client's problem and the relative change of the
    consensus are both at most `tolerance`. The residual is ‖w − Proj(w − ∇f/κ)‖ ÷ ‖w‖ at the new consensus; FedAvg with
    local steps has only the change. A method that finds the minimum in one round has converged after it. If every round
    adds noise, convergence would reveal something about the signals. It is then not tested, and all rounds are run.

    Args:
        task: The clients' signals.
        method: The method.
        network: The network that connects the clients.
        delta: The δ of the privacy statement.
        tolerance: The tolerance of the convergence test.
        z: The result of `method.prepare_z(task)`, if it was called before.
        quiet: Whether to suppress the warning that a run has not converged.
        observers: Observers that are notified of every round.

    Attributes:
        history: One row per round: objective and residual (None if they are secret), change, messages and bytes.
        converged: Whether the run has converged; None if it is not tested.
        stopped: Why the run stopped early; None if it did not.
        interrupted: Whether Ctrl-C stopped it.
        t: The number of completed rounds.
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
        self.history: list[dict[str, Any]] = []
        self.converged: bool | None = None
        self.stopped: str | None = None
        self.interrupted = False
        self.t = 0
        self._started = time.monotonic()
        if method.noise is not None:
            reserve_signals(task, method, delta)
        if z is not None and method.noise_in_rounds:
            raise TacitError(f"{method.title} adds noise in every round, so its z is secret: leave out z")
        # Values of another origin could contain exact signals.
        self._has_other_z = z is not None and method.noise is not None and not task.has_released(z)
        self._seen = task.without_records()
        self._state = method.start(self._seen, network.graph, z)

    @property
    def graphs(self) -> Tensor:
        """Each hosted client's graph, (n, p)."""
        return self.method.graphs(self._state)

    @property
    def consensus(self) -> Tensor | None:
        """The consensus graph (p,); None if the method has none."""
        return self.method.consensus(self._state)

    @property
    def weights(self) -> Tensor | None:
        """The weight γ_i of each client, (n,); None if the method has no weights."""
        gamma: Tensor | None = getattr(self._state, "gamma", None)
        return gamma

    def go(self) -> GraphLearningRun:
        """Run all rounds. Ctrl-C stops after the last complete round; an exceeded budget stops before the release."""
        for observer in self.observers:
            observer.on_start(self)
        try:
            while self.t < self.method.rounds and not self.converged:
                self._round()
        except KeyboardInterrupt:
            self.stopped = f"interrupted after {self.t} of at most {self.method.rounds} rounds"
            self.interrupted = True
        except BudgetExceeded as refusal:
            self.stopped = str(refusal)
        if self.converged is False and not self.stopped and not self.quiet:
            warnings.warn(
                f"{self.method.title} has not converged after {self.t} rounds: the residual is "
                f"{self.history[-1]['residual']:.2g}, the tolerance {self.tolerance:g}. Increase rounds",
                stacklevel=2,
            )
        if self.task.ledger.reservation is not None:
            self.task.ledger.reservation.end(self.task.ledger.releases(), self.privacy.reason)
        for observer in self.observers:
            observer.on_finish(self)
        return self

    @property
    def privacy(self) -> Privacy:
        """The privacy of what has been released so far, and after the end the total of all runs on these signals."""
        task, plan = self.task, self.method.privacy
        stays = declares(self.method, "exact_values_stay_local")
        spent, reason = ledger_guarantee(task.ledger, self.delta, exact_values_stay_local=stays)
        reason = reason or plan.unprotected_reason
        if self._has_other_z or (self.t and self.method.noise is not None and not len(task.ledger)):
            reason = "the graphs were learned from values that are not in this ledger"
        note = task.noise.simulation_note
        simulation = (note,) if note and self.method.noise is not None else ()
        spent_so_far = Privacy(
            guaranteed=None if reason else float(spent.max(initial=0.0)),
            claimed=plan.claim(task.sampling, task.nodes, self.delta, self.t) if self.t else None,
            delta=self.delta,
            unit=plan.unit,
            relation=task.sampling.relation,
            adversary=plan.adversary,
            reason=reason,
            note=" ".join([*plan.notes, *outside_parts(task.ledger.releases()), *simulation]) or None,
            simulated=bool(simulation),
            per_node=spent,
        )
        return spent_so_far if task.ledger.reservation is None else task.ledger.reservation.stated(spent_so_far)

    def result(self) -> dict[str, Any]:
        """Return the result of the run as a dictionary, for JSON."""
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
            "seconds": round(time.monotonic() - self._started, 3),
            "stopped": self.stopped,
            "privacy": self.privacy.as_dict(),
        }

    def _round(self) -> None:
        self.network.begin(self.t)
        before, self._state = self._state, self.method.round(self.t, self._state, self._seen, self.network)
        self.t += 1
        self._measure(before)
        if self.method.solves_in_one_round:
            self.converged = True  # the solver has proven the error of its solution
        for observer in self.observers:
            observer.on_round(self)

    def _measure(self, before: Any) -> None:
        """Append a row to the history and test for convergence."""
        method, network = self.method, self.network
        objective = residual = None
        old, new = method.consensus(before), method.consensus(self._state)
        change = 0.0 if old is None or new is None else float((new - old).norm() / new.norm().clamp(min=1e-300))
        if not math.isfinite(change):
            raise TacitError(f"The graphs diverged in round {self.t - 1}: use a smaller step")
        if not method.noise_in_rounds:
            with network.unmetered():
                objective = method.objective(self._state, network)
                residual = float(network.max(method.residual(self._state)))
            self.converged = max(residual, 0.0 if method.solves_in_one_round else change) <= self.tolerance
        row = {"round": self.t, "objective": objective, "residual": residual, "change": change}
        self.history.append({**row, "messages": network.traffic.messages, "bytes": network.traffic.bytes})
