"""Progress on standard error, so that standard output stays free for the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tacit.runs.metrics import headline, metric
from tacit.runs.observer import Observer
from tacit.runs.run import Run


class ProgressBar(Observer):
    """Shows rounds, loss, accuracy, guaranteed ε so far and the remaining time on standard error.

    Without a terminal it prints one line per evaluation.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )

    def on_start(self, run: Run) -> None:
        title = run.algorithm.title.replace("[", r"\[")  # Dyn[C] is no markup
        self._bar = self._progress.add_task(title, total=run.rounds, completed=run.t, numbers=numbers(run))
        self._progress.start()

    def on_round(self, run: Run) -> None:
        self._progress.update(self._bar, completed=run.t, numbers=numbers(run))
        if self._progress.disable and run.evaluations[-1]["round"] == run.t:
            line = f"round {run.t} of {run.rounds}  {numbers(run)}"
            self._console.print(line, highlight=False, soft_wrap=True)

    def on_finish(self, run: Run) -> None:
        self._progress.stop()


def numbers(run: Run) -> str:
    """The last evaluation in one line."""
    if not run.evaluations:
        return ""
    last = run.evaluations[-1]
    simulated = " (simulated)" if run.task.noise.simulated else ""
    return f"{headline(last)}, guaranteed{simulated} ε {metric('guaranteed').text(last['guaranteed'])}"


@contextmanager
def progress_counter(what: str, total: int, done: int) -> Iterator[Callable[[str], None]]:
    """A progress bar over `total` items, of which `done` are finished.

    Call the yielded function once per finished item. It prints one line per item; without a terminal there is no bar.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=console, disable=not console.is_terminal)
    task = progress.add_task(what, total=total, completed=done)
    if done:
        console.print(f"{done} of {total} {what} are already finished", highlight=False)

    def advance(line: str) -> None:
        nonlocal done
        done += 1
        progress.console.print(f"{done}/{total}  {line}", highlight=False, markup=False, soft_wrap=True)
        progress.update(task, completed=done)

    with progress:
        yield advance
