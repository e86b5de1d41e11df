"""Checks of the clients' tables of signals. They depend on the form, type and finiteness of the values only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.privacy import Array


def checked_tables(signals: Sequence[npt.ArrayLike], nodes: npt.NDArray[np.int64]) -> list[Array]:
    """Return the signals of every client as a table (N_i, d). `nodes` are the clients' ids, for errors.

    Raises:
        TacitError: If a table cannot be used. The position of a value that is not finite is shown, never the value.
    """
    if len(nodes) == 0:
        raise TacitError("No signals: give those of at least one client")
    clients = [_checked(x, int(node)) for x, node in zip(signals, nodes, strict=True)]
    counts = [x.shape[1] for x in clients]
    if len(set(counts)) > 1:
        other = next(i for i, count in enumerate(counts) if count != counts[0])
        raise TacitError(
            "All clients need signals on the same vertices: "
            f"client {nodes[0]} has {counts[0]}, client {nodes[other]} has {counts[other]}"
        )
    return clients


def _checked(signals: npt.ArrayLike, client: int) -> Array:
    try:
        x = np.asarray(signals, np.float64)
    except (TypeError, ValueError, OverflowError):  # the last one for integers beyond the largest float
        raise TacitError(f"Client {client}: the signals are not a table of numbers with one row per signal") from None
    if x.ndim != 2:
        raise TacitError(
            f"Client {client}: signals must be a table with one row per signal and one column per vertex, "
            f"got {x.ndim} axes"
        )
    if x.shape[1] < 2:
        raise TacitError(f"Client {client}: signals need at least 2 vertices, got {x.shape[1]}")
    if len(x) < 2:
        raise TacitError(f"Client {client} needs at least 2 signals, got {len(x)}")
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        row, column = bad[0]
        raise TacitError(
            f"Client {client}: the value in row {row}, column {column} (counted from 0) is missing or not finite. "
            "Fill it in, or remove the signal"
        )
    return x
