"""The progress bar, on standard error so that standard output stays free for the result."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tacit.runs.run import Run


class ProgressBar:
    """Rounds done, loss, accuracy, guaranteed ε so far, and the time left."""

    def __init__(self, run: Run) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._bar = self._progress.add_task(run.algorithm.title, total=run.rounds, completed=run.t, numbers="")

    def update(self, run: Run) -> None:
        self._progress.update(self._bar, completed=run.t, numbers=numbers(run))

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


def numbers(run: Run) -> str:
    """The last evaluation, in brief."""
    if not run.history:
        return ""
    last = run.history[-1]
    epsilon = "none" if last["guaranteed"] is None else f"{last['guaranteed']:.3g}"
    return f"loss {last['loss']:.3f}  accuracy {last['accuracy']:.1%}  guaranteed ε {epsilon}"
