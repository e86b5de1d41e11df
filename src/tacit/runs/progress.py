"""Progress on standard error, so that standard output stays free for the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tacit.privacy.statement import rounded_up
from tacit.runs.run import Run


class ProgressBar:
    """Rounds done, loss, accuracy, guaranteed ε so far, time left; without a terminal, a line an evaluation."""

    def __init__(self, run: Run) -> None:
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
        title = run.algorithm.title.replace("[", r"\[")  # Dyn[C] is no markup
        self._bar = self._progress.add_task(title, total=run.rounds, completed=run.t, numbers=numbers(run))

    def update(self, run: Run) -> None:
        self._progress.update(self._bar, completed=run.t, numbers=numbers(run))
        if self._progress.disable and run.history[-1]["round"] == run.t:
            line = f"round {run.t} of {run.rounds}  {numbers(run)}"
            self._console.print(line, highlight=False, soft_wrap=True)

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
    epsilon = "none" if last["guaranteed"] is None else rounded_up(last["guaranteed"], 3)
    return f"loss {show(last['loss'], '.3f')}  accuracy {show(last['accuracy'], '.1%')}  guaranteed ε {epsilon}"


def show(value: float | None, style: str) -> str:
    return "none" if value is None else format(value, style)


@contextmanager
def counting(what: str, total: int, done: int) -> Iterator[Callable[[str], None]]:
    """A bar over many runs with the time left; a line for each that is finished, which is all without a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=console, disable=not console.is_terminal)
    task = progress.add_task(what, total=total, completed=done)
    if done:
        console.print(f"{done} of {total} {what} are there already", highlight=False)

    def tell(line: str) -> None:
        nonlocal done
        done += 1
        progress.console.print(f"{done}/{total}  {line}", highlight=False, markup=False, soft_wrap=True)
        progress.update(task, completed=done)

    with progress:
        yield tell
