"""Progress on standard error, so that standard output stays free for the result."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from tacit.runs.metrics import headline, metric
from tacit.runs.observer import Observer
from tacit.runs.run import Run

if TYPE_CHECKING:
    from rich.console import Console


class ProgressBar(Observer):
    """Shows rounds, loss, accuracy, guaranteed ε so far and the remaining time on standard error.

    In a notebook the bar is a widget, which needs ipywidgets. Without a terminal or a widget it prints one line per
    evaluation.

    Args:
        console: Where to show it; standard error by default.
    """

    shows_rounds: ClassVar[bool] = False  # only their number, and evaluations

    def __init__(self, console: Console | None = None) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = console or _standard_error()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not shows_bars(self._console),
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
        self._progress.refresh()  # `stop` does not redraw the widget of a notebook
        self._progress.stop()


def shows_bars(console: Console) -> bool:
    """Whether a bar can be redrawn in place: in a terminal, or in a notebook that has widgets."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


def numbers(run: Run) -> str:
    """The last evaluation in one line."""
    if not run.evaluations:
        return ""
    last = run.evaluations[-1]
    simulated = " (simulated)" if run.task.noise.simulated else ""
    return f"{headline(last)}, guaranteed{simulated} ε {metric('guaranteed').text(last['guaranteed'])}"


class ProgressCounter:
    """A progress bar over `total` items, of which `done` are finished. Without a terminal there is no bar.

    Call it once per finished item, with the line to print.
    """

    def __init__(self, what: str, total: int, done: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = _standard_error()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, disable=not shows_bars(console))
        self._task = self._progress.add_task(what, total=total, completed=done)
        self._total, self._done = total, done
        if done:
            console.print(f"{done} of {total} {what} are already finished", highlight=False)

    def __call__(self, line: str) -> None:
        self._done += 1
        text = f"{self._done}/{self._total}  {line}"
        self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)
        self.show(0.0)

    def show(self, more: float) -> None:
        """Show that so much of the unfinished items is done, in items."""
        self._progress.update(self._task, completed=self._done + more)

    def __enter__(self) -> ProgressCounter:
        self._progress.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._progress.stop()


def _standard_error() -> Console:
    from rich.console import Console  # slow to import

    return Console(stderr=True)
