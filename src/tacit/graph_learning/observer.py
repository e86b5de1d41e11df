"""Observers of a graph learning run: progress displays and whoever else follows the rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit.graph_learning.run import GraphLearningRun


class GraphObserver:
    """Methods that `GraphLearningRun` calls while it runs. All are empty; a subclass overrides those that it needs."""

    def on_start(self, run: GraphLearningRun) -> None:
        """Called once, before the first round."""

    def on_round(self, run: GraphLearningRun) -> None:
        """Called after every round, when `run.history` has its row."""

    def on_finish(self, run: GraphLearningRun) -> None:
        """Called once, after the last round or when the run was interrupted."""
