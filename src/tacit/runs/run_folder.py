"""The folder of a run: config, ledger, history, trace, model, models of all nodes, checkpoint and result."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import TacitError
from tacit.networks import Coordinator
from tacit.privacy import Ledger, Noise
from tacit.runs import storage
from tacit.runs.checkpoint import Checkpoint
from tacit.runs.observer import Observer, Row
from tacit.runs.prediction import covers_models, write_model
from tacit.runs.run_facts import (
    check_resume,
    extended_rounds,
    record_end,
    record_files,
    record_resume,
    record_run_start,
)
from tacit.runs.secret_state import SecretState
from tacit.runs.storage import (
    CONFIG_FILE,
    HISTORY_FILE,
    LEDGER_FILE,
    MODEL_FILE,
    MODELS_FILE,
    RESULT_FILE,
    RESULT_FILES,
    RUN_FILES,
    TRACE_FILE,
)

if TYPE_CHECKING:
    from tacit.runs.run import Run


class RunFolder(Observer):
    """Keeps a run in a folder, from which it can be resumed exactly.

    Make it with `create` or `open`, give its `ledger` to the task, and add it to the observers of the run. The folder
    is brought up to date at every evaluation and at the end.

    The folder of a run with secret noise also has the key of the noise, until the run has ended. Give `noise` to the
    task, too.

    Attributes:
        ledger: The ledger of the run.
        noise: The noise of a run with secret noise; None for other runs.

    Example:
        folder = RunFolder.create(Path("runs/mine"))
        task = Task(model, data, shards, ledger=folder.ledger)
        Run(task, algorithm, network, observers=[folder]).go()
    """

    def __init__(
        self, path: Path, coordinator: Coordinator, created: Sequence[Path] = (), *, secret: bool = False
    ) -> None:
        """Use `create` or `open`. `created` are the folders that did not exist before, innermost first."""
        self.path, self._coordinator, self._created = path, coordinator, created
        self._secret: SecretState | None = None
        try:
            self.ledger = Ledger(path / LEDGER_FILE, durable=secret)
            if secret:
                self._secret = SecretState(path, self.ledger, new=bool(created))
        except BaseException:
            self.discard()
            raise
        self._saved_round: int | None = None
        self._extension = 0
        self._continues = not created
        self._rounds_are_shown = False

    @classmethod
    def create(cls, out: Path, coordinator: Coordinator | None = None, *, secret: bool = False) -> RunFolder:
        """Create the new folder `out` with an empty ledger; a folder that contains anything is refused.

        With `secret`, it has a new noise key, and only its owner can read it.
        """
        coordinator = coordinator or Coordinator()
        path = coordinator.folder(out)
        with coordinator.leader_first():
            created = storage.create_folder(path, private=secret)
        return cls(path, coordinator, created, secret=secret)

    @classmethod
    def open(cls, out: Path, coordinator: Coordinator | None = None, *, secret: bool = False) -> RunFolder:
        """Open the folder of a stopped run, to resume it; `secret` if its noise is."""
        coordinator = coordinator or Coordinator()
        path = coordinator.folder(out)
        if not (path / LEDGER_FILE).is_file():
            raise TacitError(f"{path / LEDGER_FILE} is missing, so past releases are unknown. Restore it to resume.")
        return cls(path, coordinator, secret=secret)

    @property
    def noise(self) -> Noise | None:
        return None if self._secret is None else self._secret.noise

    def extend(self, rounds: int, more: int) -> int:
        """Return the length of a run of `rounds` rounds with its earlier extensions and with `more` rounds."""
        self._extension = more
        lengths = self._coordinator.gather_strings(str(extended_rounds(self.ledger, rounds)))
        return more + max(map(int, lengths))  # a crash may have left an extension in some ledgers only

    def begin(self, run: Run) -> None:
        """Write what exists before the first round, or return the run to its last checkpoint."""
        run.out = self.path
        if self._created:
            storage.write_config(self.path / CONFIG_FILE, run.config)
            record_run_start(run)
            self._save(run)
        else:
            self._restore(run)

    def discard(self) -> None:
        """Remove what was created for a run that could not begin."""
        if self._secret is not None:
            self._secret.discard()
        if not self._created:
            return
        shutil.rmtree(self.path, ignore_errors=True)  # another process may be removing it too
        with suppress(OSError):  # parents that are used by others stay
            for folder in self._created[1:]:
                folder.rmdir()

    def on_start(self, run: Run) -> None:
        if self._secret is not None:
            self._secret.open()
        if run.out is None:
            self.begin(run)
        if self._continues:
            record_resume(run, self._extension)
        self._extension, self._continues = 0, True
        self._rounds_are_shown = any(each is not self and _shows_rounds(each) for each in run.observers)
        storage.remove_files(self.path, RESULT_FILES)  # of an earlier end: no reader may take them for this one

    def on_round(self, run: Run) -> None:
        if self._rounds_are_shown:
            self.ledger.flush()

    def on_evaluation(self, run: Run, row: Row) -> None:
        if self.ledger.steps == self.ledger.steps_repeated:  # otherwise ε is that of more rounds
            self.ledger.facts.mark(run.t, self.ledger.steps)
        self._save(run)
        write_model(self.path / MODEL_FILE, run)

    def on_finish(self, run: Run) -> None:
        if self._secret is not None and self._secret.refused:
            self.ledger.flush()
            self._secret.close()
            return  # the other files stay as they were, so that the run can be resumed as before
        self._save(run)
        result = run.result()
        write_model(self.path / MODEL_FILE, run)
        if self._coordinator.is_leader:
            storage.write_json(self.path / RESULT_FILE, result)
        record_end(self.ledger, run.t, run.stopped, models_released=covers_models(run.privacy))
        record_files(self.ledger, run.task.noise, self.path, RUN_FILES)
        if self._secret is not None and run.is_over:
            self._secret.end()
        elif self._secret is not None:
            self._secret.close()

    def _save(self, run: Run) -> None:
        """Bring the folder up to date. The ledger comes first, so that it is never behind the other files."""
        self.ledger.flush()
        run.checkpoint.check_ledger(self.ledger, self.path)
        storage.write_history(self.path / HISTORY_FILE, run.evaluations)
        if run.trace:
            storage.write_history(self.path / TRACE_FILE, run.trace)
        storage.write_models(self.path / MODELS_FILE, run.models)
        if not self._coordinator.all_alive:
            return  # the other processes hold earlier checkpoints: the run resumes where all were
        keeps_previous = self._coordinator.processes > 1 and self._saved_round != run.t
        run.checkpoint.save(
            self.path, run.algorithm.title, run.seconds, self._coordinator.processes, keeps_previous=keeps_previous
        )
        self._saved_round = run.t

    def _restore(self, run: Run) -> None:
        if not run.task.noise.simulated and self._secret is None:
            raise TacitError(
                "This run cannot be resumed: its noise is secret, and its key is not in the folder. Create the folder "
                "with RunFolder.create(path, secret=True), and give its noise to the task"
            )
        path = self.path
        check_resume(run, path)
        at, seconds = Checkpoint.load(path, run.checkpoint, run.algorithm.title, self._coordinator)
        history = storage.read_history(path / HISTORY_FILE)
        trace = storage.read_history(path / TRACE_FILE) if (path / TRACE_FILE).is_file() else []
        at.check_ledger(self.ledger, path)
        run.return_to(at)
        if self._secret is not None:
            self._secret.check_key(run, at)
        last = self._last_mark(at)
        run.evaluations = [row for row in history if row["round"] <= last]
        run.trace = [row for row in trace if row["round"] <= at.t]
        run.seconds = seconds
        self._saved_round = at.t

    def _last_mark(self, at: Checkpoint) -> int:
        """The last round whose evaluation is kept: one that measured releases of an incomplete round is repeated."""
        facts = self.ledger.facts
        facts.forget_marks(at.t)
        if any(mark.round == at.t and mark.steps != at.steps for mark in facts.marks()):
            facts.forget_marks(at.t - 1)
            return at.t - 1
        return at.t


def _shows_rounds(observer: Observer) -> bool:
    return observer.shows_rounds and type(observer).on_round is not Observer.on_round
