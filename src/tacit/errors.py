"""The exceptions that users see. Their text states what is wrong, the value, what is accepted, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module


class TacitError(Exception):
    """An error that the user can correct. The command line prints its text without a traceback and exits with code 2.

    >>> raise TacitError("rounds must be at least 1, got 0")
    Traceback (most recent call last):
    tacit.errors.TacitError: rounds must be at least 1, got 0
    """


class BudgetExceeded(TacitError):
    """The next release would exceed the privacy budget. It was not made."""


class MissingExtra(TacitError, ImportError):
    """A package is not installed that an extra of Tacit contains."""


def require_extra(extra: str, what: str, *modules: str) -> None:
    """Raise MissingExtra unless all `modules` of an extra can be imported; `what` names what needs them.

    >>> require_extra("sites", "Sites", "math", "no_such_module")
    Traceback (most recent call last):
    tacit.errors.MissingExtra: Sites need no_such_module, which is not installed: pip install "tacit[sites]"
    """
    for module in modules:
        try:
            import_module(module)
        except ImportError:
            raise missing_extra(extra, what, module) from None


def missing_extra(extra: str, what: str, module: str) -> MissingExtra:
    """Return the error for a module of an extra that is not installed."""
    return MissingExtra(f'{what} need {module}, which is not installed: pip install "tacit[{extra}]"')


def unknown(kind: str, name: str, known: Iterable[str]) -> TacitError:
    """Return the error for a name that does not exist, with the closest name that does.

    >>> unknown("graph", "rign", ["ring", "star"])
    TacitError('unknown graph "rign"; did you mean "ring"?')
    """
    known = sorted(known)
    near = close_name(name, known)
    hint = f"available: {', '.join(known)}" if near is None else f'did you mean "{near}"?'
    return TacitError(f'unknown {kind} "{name}"; {hint}')


def close_name(name: str, known: Iterable[str]) -> str | None:
    """Return the name that exists and is closest to `name`, in upper or lower case; None if none is close.

    >>> close_name("age", ["AGE", "sex"]), close_name("age", ["sex"])
    ('AGE', None)
    """
    folded = {each.casefold(): each for each in sorted(known, reverse=True)}
    near = get_close_matches(name.casefold(), sorted(folded), n=1, cutoff=0.5)
    return folded[near[0]] if near else None
