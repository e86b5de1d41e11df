"""Runs items in groups that share a task, in one process or several."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from tacit.runs.cell_group import Cell, CellGroup
from tacit.runs.config import Config
from tacit.runs.data_part import loading_once
from tacit.runs.parallel import run_in_parallel
from tacit.runs.parts import UserParts

T = TypeVar("T")
R = TypeVar("R")
Surroundings: TypeAlias = Callable[[], AbstractContextManager[Any]]

MOST_CELLS = 8
"""Cells per group. More are hardly faster, and all that a stopped group has computed is lost."""
_TASK_SECTIONS = ("seed", "device", "precision", "data", "sharding", "task", "model", "batch")


def task_key(config: Config, parts: UserParts | None = None) -> Hashable | None:
    """Return a value that runs have in common if they have the same task and draw the same records.

    They may differ in algorithm, privacy target, length, measurements, and in graphs with as many nodes. None: the run
    shares nothing, because its noise is secret.
    """
    if config.noise == "secret":
        return None
    parts = parts or UserParts()
    sections = config.model_dump_json(include=set(_TASK_SECTIONS))
    given = parts.data, parts.sharding, parts.task, parts.model, parts.features
    nodes = config.graph.parameters.get("nodes", config.graph.model_dump_json()) if parts.graph is None else None
    return sections, nodes, id(parts.graph), *map(id, given)


def run_grouped(
    work: Callable[[T, Cell], R],
    items: Sequence[T],
    jobs: int,
    *,
    group: Callable[[T], Hashable | None],
    around: Surroundings = loading_once,
    on_progress: Callable[[float], None] | None = None,
) -> Generator[tuple[T, R], None, None]:
    """Yield each item with the result of `work`, as they finish.

    Args:
        work: Returns the result of an item. It builds a run, gives it to `Cell.join` and lets it go.
        items: What to run. With several jobs, `work`, the items and the results must be picklable.
        jobs: The number of processes. Groups are split so that each has work.
        group: Items with the same value run together, as one `CellGroup`; None: the item runs alone.
        around: A context manager in which every group runs, in its process. By default it loads data once.
        on_progress: Called now and then with the progress of a group in this process, in items.
    """
    groups = _groups(items, group, min(MOST_CELLS, -(-len(items) // max(1, jobs))))
    if jobs == 1 or len(groups) <= 1:
        for members in groups:
            with around():
                yield from _results(work, members, on_progress)
        return
    for _, results in run_in_parallel(_GroupWork(work, around), groups, jobs):
        yield from results


@dataclass(frozen=True)
class _GroupWork(Generic[T, R]):
    """Runs one group in a process of its own."""

    work: Callable[[T, Cell], R]
    around: Surroundings

    def __call__(self, members: Sequence[T]) -> list[tuple[T, R]]:
        with self.around():
            return list(_results(self.work, members, None))


def _results(
    work: Callable[[T, Cell], R], members: Sequence[T], on_progress: Callable[[float], None] | None
) -> Generator[tuple[T, R], None, None]:
    if len(members) == 1:
        yield members[0], work(members[0], Cell())
    else:
        yield from CellGroup(work, members, on_progress).run()


def _groups(items: Sequence[T], group: Callable[[T], Hashable | None], size: int) -> list[list[T]]:
    """Return the items in groups of at most `size`, in the order of their first items."""
    groups: list[list[T]] = []
    open_groups: dict[Hashable, list[T]] = {}
    for item in items:
        key = group(item)
        if key is None or len(open_groups.get(key, ())) in (0, size):
            groups.append([])
            open_groups[key] = groups[-1]
        open_groups[key].append(item)
    return groups
