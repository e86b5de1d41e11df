"""Private ranges of columns: the histograms that a run releases, and records scaled by the ranges found in them."""

from __future__ import annotations

import math

import numpy as np

from tacit.errors import TacitError
from tacit.privacy import Bounded, Relation, Sampling
from tacit.tasks.data import Ranges
from tacit.tasks.task import Task

RANGES_PURPOSE = "column histogram"
"""The purpose of the release in the ledger. It is made before round 0, and belongs to step 0."""


def column_histograms(task: Task, relation: Relation) -> Bounded:
    """Return each node's histograms of its private columns, over all its training records.

    Every number is counted in one of `RANGE_BINS` bins of equal width, from −1 to 1 in the scaled column. The
    histograms of k columns are one vector per node, (n, k · bins). Missing cells are not counted.

    Privacy:
        The bins of a record depend on this record alone (`PrivateColumns.bins`), and a record belongs to one node. So a
        record adds at most one count per column: its part of the vector has at most k entries, which are 1. Adding or
        removing the record therefore changes the vector by at most √k (L2). Replacing it subtracts one such part and
        adds another. They differ by at most two entries of size 1 per column, so the vector changes by at most √(2k).
        All records take part, so sampling amplifies nothing.

    Args:
        task: The task with its records. An algorithm's task has none.
        relation: The neighbouring relation of the run.

    Raises:
        TacitError: No column has a private range, or the task has no records.
    """
    private = task.data.private
    if private is None:
        raise TacitError('no column has a private range: declare one with range = "private", within = [low, high]')
    counts = task._records.range_histograms()
    task.ledger.open(0, RANGES_PURPOSE)
    entries = len(private.names) * (1 if relation == "add-remove" else 2)
    return Bounded(
        counts,
        sensitivity=np.full(task.n, math.sqrt(entries)),
        norm="l2",
        sampling=Sampling("none", np.ones(task.n), relation),
        step=0,
        purpose=RANGES_PURPOSE,
        context=task.release_context,
        unit="record",
    )


def use_ranges(task: Task, ranges: Ranges | None) -> None:
    """Scale the private columns of all records by released ranges; None: by `within`, as before the release."""
    if task.data.private is not None:
        task._records.use_ranges(ranges)
