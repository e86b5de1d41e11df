"""Whether a claimed ε holds: compared with the guaranteed ε, and with a lower bound on the exact one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tacit.privacy import Privacy, Release


class ClaimVerdict(NamedTuple):
    """A claimed ε between bounds on the exact one.

    Attributes:
        claimed: The claimed ε.
        guaranteed: The guaranteed ε; None if nothing is guaranteed.
        at_least: A lower bound on the exact ε of the worst values that the stated sensitivities allow.
        delta: δ of all three.
    """

    claimed: float
    guaranteed: float | None
    at_least: float
    delta: float

    @property
    def holds(self) -> bool | None:
        """Whether the claim holds; None if the bounds do not decide it."""
        if self.guaranteed is not None and self.guaranteed <= self.claimed:
            return True
        return False if self.at_least > self.claimed else None

    def as_dict(self) -> dict[str, Any]:
        """Return the claim, the verdict and the lower bound, for JSON. An infinite bound is None."""
        at_least = self.at_least if math.isfinite(self.at_least) else None
        return {"claimed": self.claimed, "claim_holds": self.holds, "epsilon_at_least": at_least}


def claim_verdict(claimed: float, privacy: Privacy, releases: Sequence[Release], times: int = 1) -> ClaimVerdict:
    """Compare a claim with the guarantee for `releases`, made `times` times, and with a lower bound on the exact ε."""
    from tacit.privacy import epsilon_lower_bound

    at_least = epsilon_lower_bound(releases, privacy.delta, times=times)
    return ClaimVerdict(claimed, privacy.guaranteed, at_least, privacy.delta)


def claim_line(verdict: ClaimVerdict) -> str:
    """Return the verdict in one sentence.

    >>> claim_line(ClaimVerdict(1.0, 3.0259, 3.0142, 1e-4))
    'The claim ε = 1 does not hold: the guaranteed ε is 3.026, and the exact ε is at least 3.014.'
    >>> claim_line(ClaimVerdict(3.02, 3.0259, 3.0142, 1e-4))
    'The claim ε = 3.02 is undecided: the guaranteed ε is 3.026, and the exact ε is at least 3.014.'
    >>> claim_line(ClaimVerdict(4.0, 3.0259, 3.0142, 1e-4))
    'The claim ε = 4 holds: the guaranteed ε is 3.026.'
    """
    from tacit.privacy import rounded_down, rounded_up

    claimed, guaranteed, at_least = verdict.claimed, verdict.guaranteed, verdict.at_least
    claim = f"The claim ε = {claimed:.12g}"
    if guaranteed is None:
        upper = "no ε is guaranteed"
    else:
        upper = f"the guaranteed ε is {_on_its_side(rounded_up, guaranteed, claimed)}"
    if verdict.holds:
        return f"{claim} holds: {upper}."
    if math.isinf(at_least):
        lower = f", and no ε holds at δ = {verdict.delta:g}"
    else:
        lower = f", and the exact ε is at least {_on_its_side(rounded_down, at_least, claimed)}" if at_least else ""
    return f"{claim} {'is undecided' if verdict.holds is None else 'does not hold'}: {upper}{lower}."


def _on_its_side(rounded: Callable[[float, int], str], bound: float, claimed: float) -> str:
    """Return a bound with four digits, or with as many as keep it on its side of the claim."""
    texts = (rounded(bound, digits) for digits in (4, 5, 6))
    return next((text for text in texts if (float(text) <= claimed) == (bound <= claimed)), repr(bound))
