"""The loop of a run: rounds, evaluations, and a clean end however it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from tacit.algorithms import Algorithm, Stepper, inner_state
from tacit.errors import BudgetExceeded, TacitError
from tacit.networks import Coordinator, Network
from tacit.privacy import Privacy
from tacit.runs.checkpoint import Checkpoint
from tacit.runs.evaluated_run import EvaluatedRun
from tacit.runs.evaluator import Evaluator
from tacit.runs.metrics import Evaluation, Utility
from tacit.runs.observer import Observer, Row
from tacit.runs.prediction import TrainedModel, mean_parameters, trained_in_memory
from tacit.runs.preparation import release_statistics
from tacit.runs.privacy_meter import PrivacyMeter, finite_or_none
from tacit.runs.resolved_config import evaluation_interval
from tacit.runs.run_result import run_result
from tacit.runs.secret_noise import reserve_records
from tacit.tasks import Task


class Run(EvaluatedRun):
    """An algorithm on a task over a network, from the first round to the last.

    A run writes no files: it notifies its `observers`, in their order. Several processes of one run share a
    `coordinator`. A run with secret noise is added to the records ledger before it computes anything from records.

    Attributes:
        t: Complete rounds so far.
        rounds: Rounds after which the run ends. The schedules and the noise are those of a run of `algorithm.rounds`
            rounds; an extended run has more.
        evaluations, history: One row per evaluation, as a list of dicts and as a pandas DataFrame.
        trace: One row per round of the quantities in `Algorithm.traces`.
        models: The parameters of every hosted node, (n, d); `model()` returns the trained module.
        privacy: What has been released so far, accounted from the ledger; after the end, with the total of all runs on
            these records.
        stopped: Why the run ended early; None if it did not.
        interrupted: Whether it was ended by Ctrl-C.
        is_over: Whether no round is left: all are complete, or the budget refuses the next.
        out: The folder in which a `RunFolder` keeps the run.
    """

    _evaluation: ClassVar[type[Evaluation]] = Evaluation

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm[Any],
        network: Network,
        *,
        coordinator: Coordinator | None = None,
        observers: Sequence[Observer] = (),
        delta: float = 1e-5,
        evaluate_every: int | None = None,
        measure: Collection[str] = (),
        config: dict[str, Any] | None = None,
        rounds: int | None = None,
    ) -> None:
        self.task, self.algorithm, self.network, self.delta = task, algorithm, network, delta
        self.coordinator = coordinator or Coordinator()
        self.observers = list(observers)
        self.config = config or {}
        self._evaluator = Evaluator(task, algorithm, network, measure, self._evaluation)
        self.rounds = algorithm.rounds if rounds is None else rounds
        self.every = evaluate_every or evaluation_interval(algorithm.rounds)
        self.out: Path | None = None
        self.evaluations: list[Row] = []
        self.trace: list[Row] = []
        self.stopped: str | None = None
        self.interrupted = self._exhausted = False
        self.clock: Callable[[], float] = time.monotonic
        self._began = self.clock()
        self._meter = self._new_meter()
        self._meter.check_data()
        reserve_records(task, algorithm, delta)
        self._stepper = Stepper(algorithm)
        self.checkpoint = self._after(0, self._stepper.start(task.without_records(), network.graph))

    @property
    def t(self) -> int:
        return self.checkpoint.t

    @property
    def is_over(self) -> bool:
        return self._exhausted or self.t >= self.rounds

    @property
    def models(self) -> Tensor:
        return self._stepper.models(self.checkpoint.state)

    @property
    def has_all_nodes(self) -> bool:
        """Whether the run measures all nodes. A site has only its own, and sends nothing for a measurement."""
        return self._evaluation.all_nodes

    @property
    def seconds(self) -> float:
        """Time so far, with that before a resume; in a group of cells, the run's own and its share of common work."""
        return self.clock() - self._began

    @seconds.setter
    def seconds(self, spent: float) -> None:
        self._began = self.clock() - spent

    def mean_parameters(self) -> Tensor | None:
        """The mean of all nodes' shared parameters (s,), or a site's own model (d,); None if it is not finite."""
        return mean_parameters(self)

    def trained(self, node: int | None = None) -> TrainedModel:
        return trained_in_memory(self, node)

    def go(self) -> Run:
        """Run the remaining rounds. Ctrl-C ends the run after the last complete round, and it can be resumed."""
        self.stopped, self.interrupted, self._exhausted = None, False, False
        try:
            for observer in self.observers:
                observer.on_start(self)
            self._evaluate_if_due()
            while self._begins():
                if self.t == 0:
                    release_statistics(self.task, self.algorithm, self.network)
                task, last = self.task.without_records(), self.t + 1 == self.rounds
                state = self._stepper.step(self.t, self.checkpoint.state, task, self.network, last=last)
                self.checkpoint = self._after(self.t + 1, state)
                self._trace()
                self._evaluate_if_due()
                for observer in self.observers:
                    observer.on_round(self)
        except BudgetExceeded as refusal:
            self.stopped, self._exhausted = str(refusal), True
            self._drop_unreleased()
            self._evaluate()
        except KeyboardInterrupt:
            self.stopped, self.interrupted = f"stopped by hand after {self.t} of {self.rounds} rounds", True
            self._drop_unreleased()
            self.return_to(self.checkpoint)
        except BaseException as error:
            self.stopped = str(error) or type(error).__name__
            self.coordinator.stop(self.stopped)
            self._drop_unreleased()
            with suppress(Exception):  # the error that ended the run is the one to report
                self._finish()
            raise
        self._finish()
        return self

    @property
    def privacy(self) -> Privacy:
        spent, reservation = self._meter.spent(self.t), self.task.ledger.reservation
        return spent if reservation is None else reservation.stated(spent)

    @property
    def utility(self) -> Utility:
        """All metrics of the present model on the test records, beside those of the trivial predictor."""
        state, traffic = self.checkpoint.state, self.network.traffic
        return self._evaluator.utility(state, self.privacy, traffic, lambda: self.seconds)

    def planned(self) -> Privacy:
        """The privacy of the whole run, from the releases that the algorithm plans."""
        return self._meter.planned()

    def result(self) -> dict[str, Any]:
        """The run in one JSON object, as `--json` prints it."""
        return run_result(self, self._now())

    def return_to(self, checkpoint: Checkpoint) -> None:
        """Forget what was done after `checkpoint`: the same seed or key will do it again, bit for bit."""
        self.checkpoint = checkpoint
        self.network.traffic = replace(checkpoint.traffic)
        checkpoint.rewind(self.task)
        self._meter = self._new_meter()

    def _finish(self) -> None:
        """Notify every observer of the end, even if one of them fails; then raise the first failure."""
        failure: BaseException | None = None
        ends: list[Callable[[], None]] = [partial(observer.on_finish, self) for observer in self.observers]
        for end in (self._end_reservation, *ends):
            try:
                end()
            except BaseException as error:
                self.coordinator.stop(str(error) or type(error).__name__)  # other processes must not wait for this one
                failure = failure or error
        if failure is not None:
            raise failure

    def _end_reservation(self) -> None:
        """Replace the plan in the records ledger by what was released."""
        ledger = self.task.ledger
        if ledger.reservation is not None:
            ledger.reservation.end(ledger.releases(), self._meter.spent(self.t).reason)

    def _begins(self) -> bool:
        """Whether there is another round; if so, it has begun."""
        return self.t < self.rounds and self.network.begin(self.t) == self.t

    def _new_meter(self) -> PrivacyMeter:
        return PrivacyMeter(self.task, self.algorithm, self.delta, self._evaluator.reads_records, self.coordinator)

    def _after(self, t: int, state: Any) -> Checkpoint:
        return Checkpoint(t, state, self.task.ledger.steps_repeated, self.task.draws, replace(self.network.traffic))

    def _drop_unreleased(self) -> None:
        """Values that the round computed and never read or used go nowhere. All others stay in the ledger."""
        for step, purpose in self.task.ledger.unreleased:
            if step >= self.checkpoint.steps:
                self.task.ledger.close(step, purpose)

    def _trace(self) -> None:
        """Add the largest value over the hosted nodes of each traced quantity."""
        traced = self.algorithm.traces(inner_state(self.checkpoint.state))
        if traced:
            self.trace.append({"round": self.t, **{key: finite_or_none(float(v.max())) for key, v in traced.items()}})

    def _evaluate_if_due(self) -> None:
        due = self.t % self.every == 0 or self.t == self.rounds
        if due and not (self.evaluations and self.evaluations[-1]["round"] == self.t):
            self._evaluate()

    def _evaluate(self) -> None:
        row = self._measure()
        self.evaluations = [*(earlier for earlier in self.evaluations if earlier["round"] < self.t), row]
        for observer in self.observers:
            observer.on_evaluation(self, row)

    def _now(self) -> Row:
        if self.evaluations and self.evaluations[-1]["round"] == self.t:
            return self.evaluations[-1]
        try:
            return self._measure()
        except TacitError:  # models that are not finite cannot be measured
            none = dict.fromkeys(each.name for each in self._evaluator.metrics)
            return {"round": self.t, **none, "wall_seconds": round(self.seconds, 3)}

    def _measure(self) -> Row:
        traffic, privacy = self.coordinator.total_traffic(self.network), self.privacy
        measured = self._evaluator(self.checkpoint.state, privacy, traffic, lambda: self.seconds)
        return {"round": self.t, **measured}
