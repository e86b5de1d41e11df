"""The one exception a user is meant to see: its text is a sentence that says what is wrong and what would be right."""

from collections.abc import Iterable
from difflib import get_close_matches


class TacitError(Exception):
    """Something the user can put right. The command line prints its text alone and exits with 2.

    >>> raise TacitError("rounds must be at least 1, not 0")
    Traceback (most recent call last):
    tacit.errors.TacitError: rounds must be at least 1, not 0
    """


class BudgetExceeded(TacitError):
    """The next release would spend more privacy than the budget allows; it was not made."""


def unknown(kind: str, name: str, known: Iterable[str]) -> TacitError:
    """The error for a name that does not exist, with the nearest one that does.

    >>> unknown("graph", "rign", ["ring", "star"])
    TacitError('unknown graph "rign"; did you mean "ring"?')
    """
    known = sorted(known)
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f'did you mean "{near[0]}"?' if near else f"there are: {', '.join(known)}"
    return TacitError(f'unknown {kind} "{name}"; {hint}')
