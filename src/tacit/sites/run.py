"""A site's part of a run: its own node, its own ledger, and a journal from which it goes on after any crash."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors.torch

from tacit.runs import storage
from tacit.runs.checkpoint import Checkpoint
from tacit.runs.cost import finite
from tacit.runs.run import Row, Run
from tacit.sites.journal import Journal


class SiteRun(Run):
    """A run of which one node is here. The state is in the journal every `checkpoint_every` rounds.

    Nothing is measured across sites: a mean of models without noise would tell others what no ledger holds. The ledger
    is never rewound: rounds that are done again after a crash make the very same releases.
    """

    def __init__(self, *parts: Any, site: str, journal: Journal, checkpoint_every: int = 10, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._site, self._journal, self._often = site, journal, checkpoint_every
        self.bound: float | None = None  # on the ε that is spent until the next evaluation

    def go_on(self, folder: Path) -> SiteRun:
        """Keep everything in `folder`; what is there already is taken up."""
        self.out = folder
        kept = self._journal.last()
        if kept is not None:
            facts, path = json.loads(kept[0]), folder / "journal.sqlite"
            at = self._at.gone_on(safetensors.torch.load(kept[1]), facts, self.algorithm.title, path)
            at.check_ledger(self.task.ledger, folder)
            self._return_to(at)
            self._began = time.monotonic() - facts["seconds"]
        planned = [step for step, _, _ in self.algorithm.releases(self.t, self.task.nodes)]
        self.task.ledger.repeat(min(planned, default=0))
        if (folder / "history.csv").is_file():
            self.history = [row for row in storage.read_history(folder / "history.csv") if row["round"] <= self.t]
        self.bound = self._bound()
        storage.write_config(folder / "config.toml", self.config)
        return self

    def result(self) -> dict[str, Any]:
        return {"site": self._site, **super().result()}

    def save(self) -> None:
        if self.out is None:
            return
        self.task.ledger.flush()
        storage.write_history(self.out / "history.csv", self.history)
        storage.write_models(self.out / "models.safetensors", self.models)

    def checkpoint(self) -> None:
        """What led here need not be done again."""
        title = self.algorithm.title
        state = {key: value.contiguous().clone() for key, value in self._at.tensors(title).items()}
        facts = self._at.facts(title, time.monotonic() - self._began)
        self._journal.checkpoint(self.t, json.dumps(facts), safetensors.torch.save(state))

    def finish(self) -> None:
        self.checkpoint()
        super().finish()

    def _begins(self) -> bool:
        if self.t and self.t % self._often == 0:
            self.checkpoint()
        while self.t < self.rounds:
            t = self.network.begin(self.t)
            if t == self.t:
                return True
            self._at = replace(self._at, t=t)  # rounds that the others made without this site
            self.checkpoint()
        return False

    def _return_to(self, at: Checkpoint) -> None:
        self._at, self.task.draws, self.network.traffic = at, at.draws, replace(at.traffic)
        self._cost = self._new_cost()

    def _bound(self) -> float | None:
        """What is in the ledger already, from before a crash perhaps, and what is planned until the next evaluation."""
        planned, spent = self._cost.by(min(self.t + self.every, self.rounds)), self.privacy.guaranteed
        return None if planned is None or spent is None else max(planned, spent)

    def _measure(self) -> Row:
        """The site's own model, on its own test records."""
        self.bound = self._bound()
        metrics, privacy, traffic = self.task.evaluate(self.models[0]), self.privacy, self.network.traffic
        norms = {key: finite(float(value)) for key, value in self.algorithm.norms(self._at.state).items()}
        return {
            "round": self.t,
            "accuracy": finite(metrics.accuracy),
            "loss": finite(metrics.loss),
            **norms,
            "guaranteed": privacy.guaranteed,
            "claimed": privacy.claimed,
            "messages": traffic.messages,
            "bytes": traffic.bytes,
            "cost_seconds": self.network.seconds(self.task.draws),
            "wall_seconds": round(time.monotonic() - self._began, 3),
        }
