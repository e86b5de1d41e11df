"""A run in a few lines, as Python and notebooks show it: one form for a run in memory and one in a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tacit.privacy import Privacy
from tacit.runs.metrics import Metric, headline, headline_metrics, trivial_scores
from tacit.runs.observer import Row
from tacit.runs.privacy_meter import TESTED_NOTE

if TYPE_CHECKING:
    from tacit.runs.run import Run


@dataclass(frozen=True)
class RunSummary:
    """The key numbers of a run.

    Attributes:
        title: The title of the algorithm.
        nodes: The number of nodes.
        rounds: The number of complete rounds.
        history: One row per evaluation.
        trivial: The metrics of the trivial predictor, by name.
        privacy: The privacy so far; None if only all processes of the run together can compute it.
        stopped: Why the run ended early; None if it did not.
        folder: Where the run is kept; None if nowhere.
    """

    title: str
    nodes: int
    rounds: int
    history: Sequence[Row]
    trivial: Mapping[str, Any]
    privacy: Privacy | None
    stopped: str | None = None
    folder: str | None = None

    @property
    def size(self) -> str:
        """The length and width of the run."""
        return run_size(self.nodes, self.rounds)

    @property
    def last(self) -> Row:
        """The last evaluation; empty if there was none."""
        return self.history[-1] if self.history else {}

    @property
    def metrics(self) -> list[Metric]:
        """The most important metrics; the first is the main metric of the task."""
        return headline_metrics(self.last)

    @property
    def privacy_lines(self) -> list[str]:
        """The privacy statement in short, and the total of all runs on the same records if they are counted."""
        if self.privacy is None:
            return ["Privacy: call run.privacy in every process of the run"]
        tested = TESTED_NOTE if TESTED_NOTE in (self.privacy.note or "") else ""
        return [self.privacy.line, *filter(None, [tested, self.privacy.total_sentence])]

    def text(self) -> str:
        """Return the summary as lines of text."""
        measured = headline(self.last, self.trivial) or "not evaluated"
        lines = [f"{self.title}, {self.size}: {measured}", *self.privacy_lines]
        if self.stopped:
            lines.append(f"Stopped: {self.stopped}")
        if self.folder:
            lines.append(f"Results: {self.folder}")
        return "\n".join(lines)


class SummarisedRun:
    """A run that Python and notebooks show as its summary."""

    def summary(self) -> RunSummary:
        """Return the key numbers of a run in memory. A run in a folder overrides this."""
        return _in_memory(cast("Run", self))

    def __repr__(self) -> str:
        return self.summary().text()

    def _repr_html_(self) -> str:
        from tacit.runs.run_html import run_html

        return run_html(self.summary())


def run_size(nodes: int, rounds: int) -> str:
    """Return the numbers of nodes and rounds in words.

    >>> run_size(1, 50)
    '1 node, 50 rounds'
    """
    return f"{nodes} {'node' if nodes == 1 else 'nodes'}, {rounds} {'round' if rounds == 1 else 'rounds'}"


def _in_memory(run: Run) -> RunSummary:
    """The summary at this moment. It sends nothing: another process of the run may not be waiting for it."""
    return RunSummary(
        title=run.algorithm.title,
        nodes=run.network.graph.nodes,
        rounds=run.t,
        history=run.evaluations,
        trivial=trivial_scores(run.task.head, run.task.data.test_y, main=True),
        privacy=run.privacy if run.coordinator.processes == 1 else None,
        stopped=run.stopped,
        folder=None if run.out is None else str(run.out),
    )
