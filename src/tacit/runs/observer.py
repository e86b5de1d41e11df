"""What may follow a run: a progress bar, a folder, a report, a user's callback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from tacit.runs.run import Run

Row = dict[str, Any]


class Observer:
    """Follows a run. Override what you need; every method is empty by default.

    An exception raised here stops the run; `KeyboardInterrupt` stops it as Ctrl-C does.

    Attributes:
        shows_rounds: Whether `on_round` may show or store what the round released. A run that is kept in a folder then
            writes its ledger to the file before every call of it.

    >>> class PrintLoss(Observer):
    ...     def on_evaluation(self, run, row):
    ...         print(f"round {row['round']}: loss {row['loss']:.3f}")
    """

    shows_rounds: ClassVar[bool] = True

    def on_start(self, run: Run) -> None:
        """Called by `Run.go` before the first round."""

    def on_round(self, run: Run) -> None:
        """Called after every complete round, and after its evaluation if there was one."""

    def on_evaluation(self, run: Run, row: Row) -> None:
        """Called after an evaluation; `row` is the last row of `run.evaluations`."""

    def on_finish(self, run: Run) -> None:
        """Called once at the end, however the run ended; `run.stopped` is the reason if it ended early."""
