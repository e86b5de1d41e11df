"""The files that a site's run leaves in its state folder, besides ledger, journal and key."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import TacitError
from tacit.graph_learning import GraphLearningRun, GraphObserver, matrices, to_networkx, write_graph
from tacit.runs import (
    Observer,
    Row,
    Run,
    check_intact,
    covers_models,
    record_end,
    record_files,
    record_run_start,
    storage,
    write_model,
)
from tacit.sites.resume_checks import first_release_step

if TYPE_CHECKING:
    from tacit.sites.site_run import SiteRun

log = logging.getLogger(__name__)


class SiteFolder(Observer):
    """Writes config, history, model and result of a training run. The state itself is in the journal."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def remove_result(self) -> None:
        """Remove the result of an earlier run: its ε is outdated as soon as the run continues."""
        storage.remove_files(self.path, storage.RESULT_FILES)

    def begin(self, run: SiteRun) -> None:
        """Write the config, and read the history of a resumed run."""
        check_intact(run.task.ledger, self.path / storage.LEDGER_FILE)
        run.out = self.path
        storage.write_config(self.path / storage.CONFIG_FILE, run.config)
        if (self.path / storage.HISTORY_FILE).is_file():
            run.evaluations = self._read_history(run.t)
        run.task.ledger.facts.forget_marks(run.evaluations[-1]["round"] if run.evaluations else -1)
        record_run_start(run)

    def on_evaluation(self, run: Run, row: Row) -> None:
        ledger = run.task.ledger
        # A crash may have left the ledger ahead. Its ε is then that of more releases than those of the rounds so far.
        if ledger.steps <= first_release_step(run.algorithm.privacy, run.rounds, run.task, run.t):
            ledger.facts.mark(run.t, ledger.steps)
        self._write(run)

    def on_finish(self, run: Run) -> None:
        self._write(run)
        storage.write_json(self.path / storage.RESULT_FILE, run.result())
        record_end(run.task.ledger, run.t, run.stopped, models_released=covers_models(run.privacy))
        record_files(run.task.ledger, run.task.noise, self.path, storage.RUN_FILES)

    def _write(self, run: Run) -> None:
        run.task.ledger.flush()  # first: no other file may be ahead of the ledger
        storage.write_history(self.path / storage.HISTORY_FILE, run.evaluations)
        storage.write_models(self.path / storage.MODELS_FILE, run.models)
        write_model(self.path / storage.MODEL_FILE, run)

    def _read_history(self, rounds: int) -> list[Row]:
        """Return the rows up to the last checkpoint. A power cut can damage the file, which nothing depends on."""
        try:
            return [row for row in storage.read_history(self.path / storage.HISTORY_FILE) if row["round"] <= rounds]
        except (TacitError, KeyError, TypeError):
            log.warning("%s is damaged; the history restarts here", self.path / storage.HISTORY_FILE)
            return []


class GraphSiteFolder(GraphObserver):
    """Writes history, graphs and result of a graph learning run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def remove_result(self) -> None:
        """Remove the result of an earlier run."""
        (self.path / storage.RESULT_FILE).unlink(missing_ok=True)

    def on_finish(self, run: GraphLearningRun) -> None:
        storage.write_history(self.path / storage.HISTORY_FILE, run.history)
        for name, graph in {"graph": run.graphs[0], "consensus": run.consensus}.items():
            if graph is not None:
                write_graph(to_networkx(matrices(graph.numpy())), self.path, name)
        storage.write_json(self.path / storage.RESULT_FILE, run.result())
        record_end(run.task.ledger, run.t, run.stopped)
