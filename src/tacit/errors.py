"""The exceptions that users see. Their text states what is wrong, the value, what is accepted, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class TacitError(Exception):
    """An error that the user can correct. The command line prints its text without a traceback and exits with code 2.

    >>> raise TacitError("rounds must be at least 1, got 0")
    Traceback (most recent call last):
    tacit.errors.TacitError: rounds must be at least 1, got 0
    """


class BudgetExceeded(TacitError):
    """The next release would exceed the privacy budget. It was not made."""


def unknown(kind: str, name: str, known: Iterable[str]) -> TacitError:
    """Return the error for a name that does not exist, with the closest name that does.

    >>> unknown("graph", "rign", ["ring", "star"])
    TacitError('unknown graph "rign"; did you mean "ring"?')
    """
    known = sorted(known)
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f'did you mean "{near[0]}"?' if near else f"available: {', '.join(known)}"
    return TacitError(f'unknown {kind} "{name}"; {hint}')
