"""Targets that do not fit a model or a head."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tacit.errors import TacitError

DECLARE_NUMBER = 'target=tacit.Target("number", range=(low, high))'


class TargetMismatch(TacitError):
    """The target does not fit the model or the head. The text contains facts of the target, such as the classes."""


@contextmanager
def refuse_mismatch(*, declared: bool) -> Iterator[None]:
    """Replace the text of a `TargetMismatch` if the classes are not declared.

    Privacy:
        Classes that were learnt from the records are private, and so is their number. No error may contain it.
    """
    try:
        yield
    except TargetMismatch:
        if declared:
            raise
        raise TacitError(
            "the classes were learnt from y and do not fit the model or the task: declare what y is, labels=[...] for "
            f"classes (in a config: data.labels = [...]), or {DECLARE_NUMBER} for numbers"
        ) from None
