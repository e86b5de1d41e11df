"""A site's part of a training run: one node, and a journal from which it resumes after any crash."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import safetensors.torch

from tacit.algorithms import inner_state
from tacit.errors import TacitError
from tacit.runs import Checkpoint, Observer, Row, Run, resolved_config, restore_preparation
from tacit.runs.metrics import Evaluation, computed_once
from tacit.sites.journal import Journal
from tacit.sites.parts import TrainingParts
from tacit.sites.peers import Peers
from tacit.sites.resume_checks import JOURNAL, check_journal, check_keys, first_release_step
from tacit.sites.site_folder import SiteFolder
from tacit.tasks import Predictions


class SiteEvaluation(Evaluation):
    """The site's own model on its own test records.

    Sites exchange nothing for a measurement: a mean of models without noise would reveal what no ledger contains.
    """

    all_nodes = False

    def over_models(self, measure: Callable[[Predictions], list[float]]) -> list[float]:
        return measure(self.task.predict_tests(self.models[0]))

    @computed_once
    def norms(self) -> dict[str, float]:
        return {name: float(value) for name, value in self.algorithm.norms(inner_state(self.state)).items()}


class SiteRun(Run):
    """A training run of which this process hosts one node.

    The state is written to the journal every `checkpoint_every` rounds. The ledger is never rewound: rounds that are
    repeated after a crash make the same releases again.

    Creating the run resumes it where the journal ends. Nothing is sent before `go`.

    Attributes:
        epsilon_bound: An upper bound on ε until the next evaluation; None if nothing is guaranteed.
        planned_epsilon: Guaranteed ε of the whole run; None if nothing is guaranteed.

    Raises:
        TacitError: If ledger, journal and checkpoint in the state folder do not belong together.
    """

    _evaluation = SiteEvaluation

    def __init__(
        self, parts: TrainingParts, network: Peers, journal: Journal, observers: Sequence[Observer] = ()
    ) -> None:
        site = parts.site
        folder = SiteFolder(site.state)
        folder.remove_result()
        super().__init__(
            parts.task,
            parts.algorithm,
            network,
            observers=[folder, *observers],
            delta=parts.delta,
            evaluate_every=parts.config.evaluate_every,
            config=resolved_config(parts.config).as_dict(),
        )
        self._site, self._journal, self._keys = site, journal, parts.keys
        self._restore_checkpoint()
        check_keys(self._keys, self.t, self.rounds, site.state)
        check_journal(self.algorithm.privacy, self.rounds, self.task, journal, self.t, site.state)
        self._allow_repetition()
        folder.begin(self)
        self.epsilon_bound = self._bound_until_next_evaluation()
        self.planned_epsilon = self.planned().guaranteed

    @property
    def accuracy(self) -> float | None:
        """The accuracy at the last evaluation; None if the model is no classifier."""
        return self.evaluations[-1].get("accuracy") if self.evaluations else None

    def result(self) -> dict[str, Any]:
        return {"site": self._site.name, **super().result()}

    def return_to(self, checkpoint: Checkpoint) -> None:
        self.checkpoint, self.task.draws = checkpoint, checkpoint.draws
        restore_preparation(self.task, checkpoint.t)
        self.network.traffic = replace(checkpoint.traffic)
        self._allow_repetition()
        self._meter = self._new_meter()

    def _restore_checkpoint(self) -> None:
        self._check_not_outdated()
        saved = self._journal.load_checkpoint()
        if saved is None:
            return
        facts, path = json.loads(saved[0]), self._site.state / JOURNAL
        checkpoint = self.checkpoint.restored(safetensors.torch.load(saved[1]), facts, self.algorithm.title, path)
        checkpoint.check_ledger(self.task.ledger, self._site.state)
        self.return_to(checkpoint)
        self.seconds = facts["seconds"]

    def _save_checkpoint(self) -> None:
        self.task.ledger.flush()  # what happened to exact values is never behind the checkpoint
        title = self.algorithm.title
        state = {key: value.contiguous().clone() for key, value in self.checkpoint.tensors(title).items()}
        facts = self.checkpoint.facts(title, self.seconds)
        self._journal.save_checkpoint(self.t, json.dumps(facts), safetensors.torch.save(state))
        if self._keys is not None:  # no round before the checkpoint is ever repeated
            self._keys.erase_before(self.t)

    def _check_not_outdated(self) -> None:
        if self._journal.outdated:
            raise TacitError(self._journal.outdated)

    def _allow_repetition(self) -> None:
        """Allow the ledger to repeat its releases of rounds that are not complete."""
        self.task.ledger.repeat(first_release_step(self.algorithm.privacy, self.rounds, self.task, self.t))

    def _bound_until_next_evaluation(self) -> float | None:
        """Return the larger of ε in the ledger, which a crash may have left ahead, and ε planned until then."""
        planned, spent = self._meter.planned_epsilon(min(self.t + self.every, self.rounds)), self.privacy.guaranteed
        return None if planned is None or spent is None else max(planned, spent)

    def _begins(self) -> bool:
        if self.t and self.t % self._site.checkpoint_every == 0:
            self._save_checkpoint()
        while (t := self.network.begin(self.t)) > self.t:  # the other sites continued without this one
            self.checkpoint = replace(self.checkpoint, t=t)
            self.epsilon_bound = self._bound_until_next_evaluation()
            self._save_checkpoint()
        if self._keys is not None and self.t < self.rounds:
            self._keys.begin_round(self.t)
        return self.t < self.rounds  # after `begin`, which replies to messages that are too late

    def _measure(self) -> Row:
        self.epsilon_bound = self._bound_until_next_evaluation()
        return super()._measure()

    def _finish(self) -> None:
        try:
            self._check_not_outdated()  # no result may be written from an outdated ledger
            self._save_checkpoint()
            if self.t >= self.rounds:
                self._erase_keys()
            super()._finish()
        finally:
            if self.task.ledger.journal is not None:
                self.task.ledger.journal.close()

    def _erase_keys(self) -> None:
        """Erase all keys of a run that has ended: nothing is released with them again."""
        ledger = self.task.ledger
        if ledger.journal is not None:
            ledger.journal.end(ledger.steps)
        if self._keys is not None:
            self._keys.erase_all()
