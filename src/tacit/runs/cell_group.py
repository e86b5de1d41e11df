"""Runs that share task and draws, as one simulation: they ask for gradients together, and one call computes them.

Each cell is a run in a thread, with its own algorithm, ledger, network and noise. Only one thread runs at a time: a
cell runs until it asks for a gradient, and then the next one does. When every cell has asked, the group answers the
requests for the earliest draw, and those cells go on. So cells with different numbers of rounds or local steps stay
together where they use the same draw, every cell goes on at some time, and the order is the same in every repetition.

Privacy:
    What cells share are batches, which are the same for the same seed. Releases, noise, ledgers and budgets are those
    of separate runs. Runs with secret noise are never grouped, and share nothing.
"""

from __future__ import annotations

import contextvars
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Generic, TypeVar, cast

from torch import Tensor

from tacit.runs.run import Run
from tacit.tasks import GradientRequest, sum_together

T = TypeVar("T")
R = TypeVar("R")

_CELL_BYTES = 1 << 31  # of the parameters of all cells that run together, with what is derived from them
_SECONDS_BETWEEN_UPDATES = 0.2  # of the progress bar
_MATRICES = 32  # of the size of the parameters that one cell may hold: state, checkpoint, messages of its edges


class Cell:
    """One run of a group, or of none.

    Attributes:
        seconds: The time that the cell has taken: its own, and its share of the computations for several cells.
    """

    def __init__(self) -> None:
        self.seconds, self._since = 0.0, time.monotonic()
        self._run: Run | None = None

    def join(self, run: Run) -> None:
        """Let the run take part in the group, before its first round."""
        self._run, spent = run, run.seconds
        run.clock, run.seconds = self.clock, spent

    def clock(self) -> float:
        """Return the time that the cell has taken, while it runs."""
        return self.seconds + time.monotonic() - self._since

    @property
    def progress(self) -> float:
        """The share of the run's rounds that are complete."""
        return 0.0 if self._run is None else self._run.t / self._run.rounds


class _GroupedCell(Cell, Generic[T, R]):
    """A cell in a thread of its own, which runs only while `advance` waits for it."""

    def __init__(self, work: Callable[[T, Cell], R], item: T) -> None:
        super().__init__()
        self.item, self.is_over = item, False
        self.outcome: R | BaseException | None = None
        self.request: GradientRequest | None = None
        self._work, self._answer = work, cast("Tensor | BaseException | None", None)
        self._go_on, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run_work,), daemon=True, name="tacit-cell")

    def join(self, run: Run) -> None:
        super().join(run)
        run.task.sum_gradients = self._ask

    def advance(self, answer: Tensor | BaseException | None = None) -> None:
        """Answer the cell's request, and let it run until its next request or its end."""
        self._answer, self.request, self._since = answer, None, time.monotonic()
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._go_on.release()
        self._paused.acquire()
        self.seconds += time.monotonic() - self._since

    def stop(self) -> None:
        """End the cell after its last complete round, as Ctrl-C does."""
        while not self.is_over:
            self.advance(KeyboardInterrupt())

    def _ask(self, request: GradientRequest) -> Tensor:
        """Return the answer to a request. Called in the cell's thread."""
        self.request = request
        self._paused.release()
        self._go_on.acquire()
        if isinstance(self._answer, BaseException):
            raise self._answer
        assert self._answer is not None
        return self._answer

    def _run_work(self) -> None:
        try:
            self.outcome = self._work(self.item, self)
        except BaseException as failure:  # raised by the group
            self.outcome = failure
        self.is_over, self._run = True, None
        self._paused.release()


class CellGroup(Generic[T, R]):
    """Runs `work` for several items at once.

    A cell that ends, whether with a result or with an error, leaves the group, and the others continue. The first error
    is raised after the last cell has ended. Ctrl-C ends all cells after their last complete round.

    Args:
        work: Returns the result of an item. It builds a run, gives it to `Cell.join` and lets it go.
        items: What to run. The tasks of their runs may differ in what an algorithm or a target ε changes only.
        on_progress: Called now and then with the sum of the cells' `progress`.
    """

    def __init__(
        self, work: Callable[[T, Cell], R], items: Sequence[T], on_progress: Callable[[float], None] | None = None
    ) -> None:
        self._waiting = [_GroupedCell(work, item) for item in items]
        self._live: list[_GroupedCell[T, R]] = []
        self._failure: BaseException | None = None
        self._interrupted = False
        self._on_progress, self._shown = on_progress, time.monotonic()

    def run(self) -> Iterator[tuple[T, R]]:
        """Yield each item with its result as soon as its run has ended."""
        with self._noticing_ctrl_c():
            while self._live or (self._waiting and not self._interrupted):
                advanced = self._answer() if self._live else self._start()
                if self._interrupted:
                    advanced = self._stop()
                try:
                    yield from self._ended(advanced)
                except GeneratorExit:  # the caller has failed, and uses no more results
                    self._stop()
                    raise
                self._show()
        if self._interrupted:
            raise KeyboardInterrupt
        if self._failure is not None:
            raise self._failure

    def _start(self) -> list[_GroupedCell[T, R]]:
        """Start as many cells as have a place, up to their first requests."""
        started: list[_GroupedCell[T, R]] = []
        places = 1
        while self._waiting and len(started) < places and not self._interrupted:
            cell = self._waiting.pop(0)
            cell.advance()
            if cell.request is not None:
                places = max(places, _places(cell.request))
                for other in self._live:
                    if other.request is not None:
                        cell.request.share_batches(other.request)
            self._live.append(cell)
            started.append(cell)
        return started

    def _answer(self) -> list[_GroupedCell[T, R]]:
        """Answer the requests for the earliest draw, and return the cells that have gone on."""
        pending = [(cell, cell.request) for cell in self._live if cell.request is not None]
        first = min((request for _, request in pending), key=lambda request: request.step)
        same = [(cell, request) for cell, request in pending if request.has_same_batch(first)]
        began = time.monotonic()
        answers = _sums([request for _, request in same])
        share = (time.monotonic() - began) / len(same)
        for (cell, _), answer in zip(same, answers, strict=True):
            cell.seconds += share
            cell.advance(answer)
        return [cell for cell, _ in same]

    def _stop(self) -> list[_GroupedCell[T, R]]:
        """Interrupt all cells, and return them."""
        for cell in self._live:
            cell.stop()
        return list(self._live)

    def _ended(self, cells: Sequence[_GroupedCell[T, R]]) -> Iterator[tuple[T, R]]:
        """Take the cells that are over out of the group, and yield their results."""
        for cell in cells:
            if not cell.is_over:
                continue
            self._live.remove(cell)
            if isinstance(cell.outcome, KeyboardInterrupt):
                self._interrupted = True
            elif isinstance(cell.outcome, BaseException):
                self._failure = self._failure or cell.outcome
            else:
                yield cell.item, cast("R", cell.outcome)

    def _show(self) -> None:
        if self._on_progress is not None and time.monotonic() - self._shown > _SECONDS_BETWEEN_UPDATES:
            self._shown = time.monotonic()
            self._on_progress(sum(cell.progress for cell in self._live))

    @contextmanager
    def _noticing_ctrl_c(self) -> Iterator[None]:
        """The first Ctrl-C lets the cells end at their next gradient; a second one ends everything at once."""
        before = signal.getsignal(signal.SIGINT)
        in_main = threading.current_thread() is threading.main_thread()
        if not in_main or before is None or before is signal.SIG_IGN:
            yield
            return

        def notice(number: int, _: FrameType | None) -> None:
            self._interrupted = True
            signal.signal(number, before)

        signal.signal(signal.SIGINT, notice)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _places(request: GradientRequest) -> int:
    """Return how many cells like this one run together: several only if that is faster, and if they fit in memory."""
    return max(1, _CELL_BYTES // (_MATRICES * max(1, request.point.params.nbytes))) if request.stacks else 1


def _sums(requests: Sequence[GradientRequest]) -> list[Tensor | Exception]:
    """Return the answer to each request, or the error that it causes alone."""
    try:
        return [*sum_together(requests)]
    except Exception as error:
        return [error] if len(requests) == 1 else [_sums([request])[0] for request in requests]
