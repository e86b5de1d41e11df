"""A site's part of a run: its own node, its own ledger, and a journal from which it goes on after any crash."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors.torch

from tacit.errors import TacitError
from tacit.graph_learning import Signals
from tacit.privacy.planning import PlansReleases
from tacit.runs import storage
from tacit.runs.checkpoint import Checkpoint
from tacit.runs.metrics import Evaluation, computed_once
from tacit.runs.observer import Observer, Row
from tacit.runs.run import Run
from tacit.sites.journal import Journal
from tacit.tasks import Metrics, Task

log = logging.getLogger(__name__)


def first_step(plan: PlansReleases, rounds: int, task: Task | Signals, t: int) -> int:
    """The first step of round t that releases something; past all steps where there is none."""
    if t >= rounds:
        return sys.maxsize
    return min((release.step for release in plan.releases(t, task.nodes, task.sampling)), default=0)


def check_journal(
    plan: PlansReleases, rounds: int, task: Task | Signals, journal: Journal, t: int, folder: Path
) -> None:
    """A journal that knows less than the ledger is an older one: what was sent would be sent again, otherwise.

    A crash can leave one round in the ledger of which nothing was said.
    """
    last = max((line.step for line in task.ledger.releases()), default=-1)
    planned = any(list(plan.releases(0, task.nodes, task.sampling)))
    if planned and last >= first_step(plan, rounds, task, max(t, journal.rounds_sent) + 1) > 0:
        raise TacitError(
            f"{folder / 'journal.sqlite'} knows of less than the ledger, as an older one or a new one does: "
            "put the run's own back"
        )


class SiteEvaluation(Evaluation):
    """The site's own model on its own test records. Sites exchange nothing to measure it."""

    all_nodes = False

    @computed_once
    def test(self) -> Metrics:
        return self.task.evaluate(self.models[0])

    @computed_once
    def norms(self) -> dict[str, float]:
        return {name: float(value) for name, value in self.algorithm.norms(self.state).items()}


class SiteRun(Run):
    """A run of which one node is here. The state is in the journal every `checkpoint_every` rounds.

    Nothing is measured across sites: a mean of models without noise would tell others what no ledger holds. The ledger
    is never rewound: rounds that are done again after a crash make the very same releases.
    """

    _evaluation = SiteEvaluation

    def __init__(self, *parts: Any, site: str, journal: Journal, checkpoint_every: int = 10, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.observers.insert(0, _SiteFolder())
        self._site, self._journal, self._often = site, journal, checkpoint_every
        self.bound: float | None = None  # on the ε that is spent until the next evaluation

    def go_on(self, folder: Path) -> SiteRun:
        """Keep everything in `folder`; what is there already is taken up."""
        self.out = folder
        self.check_current()
        kept = self._journal.load_checkpoint()
        if kept is not None:
            facts, path = json.loads(kept[0]), folder / "journal.sqlite"
            at = self.checkpoint.gone_on(safetensors.torch.load(kept[1]), facts, self.algorithm.title, path)
            at.check_ledger(self.task.ledger, folder)
            self.return_to(at)
            self.seconds = facts["seconds"]
        check_journal(self.algorithm.privacy, self.rounds, self.task, self._journal, self.t, folder)
        self._repeat()
        if (folder / "history.csv").is_file():
            self.history = self._remembered(folder / "history.csv")
        self.bound = self._bound()
        storage.write_config(folder / "config.toml", self.config)
        return self

    def _remembered(self, path: Path) -> list[Row]:
        """A power cut may have torn the file, which nothing depends on."""
        try:
            return [row for row in storage.read_history(path) if row["round"] <= self.t]
        except (TacitError, KeyError, TypeError):
            log.warning("%s is damaged, and begins anew", path)
            return []

    def result(self) -> dict[str, Any]:
        return {"site": self._site, **super().result()}

    def save_checkpoint(self) -> None:
        """Write the state to the journal: what led to it need not be repeated after a crash."""
        title = self.algorithm.title
        state = {key: value.contiguous().clone() for key, value in self.checkpoint.tensors(title).items()}
        facts = self.checkpoint.facts(title, self.seconds)
        self._journal.save_checkpoint(self.t, json.dumps(facts), safetensors.torch.save(state))

    def check_current(self) -> None:
        if self._journal.outdated:
            raise TacitError(self._journal.outdated)

    def _begins(self) -> bool:
        if self.t and self.t % self._often == 0:
            self.save_checkpoint()
        while (t := self.network.begin(self.t)) > self.t:
            self.checkpoint = replace(self.checkpoint, t=t)  # rounds that the others made without this site
            self.bound = self._bound()
            self.save_checkpoint()
        return self.t < self.rounds  # else all is over that was still held, and its senders have been told

    def return_to(self, checkpoint: Checkpoint) -> None:
        self.checkpoint, self.task.draws = checkpoint, checkpoint.draws
        self.network.traffic = replace(checkpoint.traffic)
        self._repeat()
        self._meter = self._new_meter()

    def _repeat(self) -> None:
        """What the ledger has of rounds that are to come may be made once more."""
        self.task.ledger.repeat(first_step(self.algorithm.privacy, self.rounds, self.task, self.t))

    def _bound(self) -> float | None:
        """What is in the ledger already, from before a crash perhaps, and what is planned until the next evaluation."""
        planned, spent = self._meter.by(min(self.t + self.every, self.rounds)), self.privacy.guaranteed
        return None if planned is None or spent is None else max(planned, spent)

    def _measure(self) -> Row:
        """The site's own model, on its own test records."""
        self.bound = self._bound()
        return super()._measure()


class _SiteFolder(Observer):
    """Keeps a site's run in its state folder; the state itself is in the journal."""

    def on_evaluation(self, run: Run, row: Row) -> None:
        assert run.out is not None, "go_on names the folder"
        run.task.ledger.flush()
        storage.write_history(run.out / "history.csv", run.history)
        storage.write_models(run.out / "models.safetensors", run.models)

    def on_finish(self, run: Run) -> None:
        assert isinstance(run, SiteRun)
        assert run.out is not None, "go_on names the folder"
        run.check_current()  # an outdated ledger may not be reported
        run.save_checkpoint()
        self.on_evaluation(run, {})
        storage.write_json(run.out / "result.json", run.result())
