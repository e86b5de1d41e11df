"""What happened to the values that were computed from records: not yet released, read, or used inside the node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from tacit.errors import TacitError

State = Literal["open", "read", "local"]
ExactUse = Literal["read", "local"]
Row = tuple[State, int, str]

BEFORE_RUN = -1  # the step of what was learnt from the records before the first round


class ExactValues:
    """The values that a ledger has no release for, or that an algorithm has seen without noise.

    Attributes:
        open: (step, purpose) of values that were computed and neither released nor used locally.
        read: For each purpose whose value was read before its release, the first such step.
        local: For each purpose whose value was used inside the node, the first such step.
        on_use: Called before a value is read or used inside the node.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.open: set[tuple[int, str]] = set()
        self.read: dict[str, int] = {}
        self.local: dict[str, int] = {}
        self.on_use: Callable[[ExactUse], None] | None = None
        for state, step, purpose in rows:
            if state == "open":
                self.open.add((step, purpose))
            else:
                self._first(self.read if state == "read" else self.local, step, purpose)

    def add(self, step: int, purpose: str) -> None:
        """Add a value that was computed from records."""
        if (step, purpose) in self.open:
            raise TacitError(f'Step {step} has already computed "{purpose}"; a second value needs its own purpose')
        self.open.add((step, purpose))

    def note_learnt(self, fact: str) -> None:
        """Note that a fact was learnt from the records before the run, such as "classes were learnt"."""
        self.note_read(BEFORE_RUN, fact)

    def note_read(self, step: int, purpose: str) -> None:
        self._notify("read")
        self._first(self.read, step, purpose)

    def note_local_use(self, step: int, purpose: str) -> None:
        self._notify("local")
        self._first(self.local, step, purpose)

    def rewind(self, step: int) -> None:
        """Forget what happened from `step` on. Only for runs that repeat these steps exactly."""
        self.open = {entry for entry in self.open if entry[0] < step}
        self.read = {purpose: first for purpose, first in self.read.items() if first < step}
        self.local = {purpose: first for purpose, first in self.local.items() if first < step}

    def rows(self) -> Iterator[Row]:
        """Yield everything, to be stored and given to a new instance."""
        yield from (("open", step, purpose) for step, purpose in sorted(self.open))
        yield from (("read", step, purpose) for purpose, step in sorted(self.read.items()))
        yield from (("local", step, purpose) for purpose, step in sorted(self.local.items()))

    def _notify(self, use: ExactUse) -> None:
        if self.on_use is not None:
            self.on_use(use)

    @staticmethod
    def _first(steps: dict[str, int], step: int, purpose: str) -> None:
        steps[purpose] = min(step, steps.get(purpose, step))
