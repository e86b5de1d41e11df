"""Check claims of privacy: a claimed ε, compared with the guaranteed one and with a lower bound on the exact one.

>>> import tacit
>>> print(tacit.claims.check(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5, claimed=1.6))
The claim ε = 1.6 does not hold: the guaranteed ε is 1.832, and the exact ε is at least 1.824.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from tacit.errors import TacitError, unknown
from tacit.privacy import (
    Gaussian,
    Laplace,
    Privacy,
    Relation,
    Release,
    Sampling,
    SamplingKind,
    calibrate,
    epsilon_lower_bound,
    rounded_down,
    rounded_up,
    sampling_kinds,
)
from tacit.privacy import epsilon as guaranteed_epsilon

_ADVERSARY = "an observer of every release"

NoiseName = Literal["gaussian", "laplace"]


def check(
    *,
    claimed: float,
    noise_multiplier: float,
    steps: int = 1,
    sampling: str | float | None = None,
    sample_rate: float | None = None,
    delta: float = 1e-5,
    relation: Relation | None = None,
    mechanism: NoiseName = "gaussian",
) -> ClaimVerdict:
    """Return whether a claimed ε holds for repeated releases with noise.

    Args:
        claimed: The claimed ε.
        noise_multiplier: The noise scale divided by the sensitivity.
        steps: The number of releases, each from a draw of its own.
        sampling: How records are drawn: "poisson", "without-replacement", "permutation" or "none". A number is the
            sample rate of Poisson sampling. None: Poisson sampling with a `sample_rate`, otherwise all records.
        sample_rate: The share of the records in one draw; for a permutation, 1 / (number of batches).
        delta: δ.
        relation: "add-remove" or "replace-one"; None: the first that the sampling supports.
        mechanism: "gaussian" or "laplace".

    Returns:
        The verdict; `holds` is True, False, or None if the bounds do not decide it. `print(verdict)` shows a sentence.

    Raises:
        TacitError: If an argument is not valid.
    """
    for name, value in (("claimed", claimed), ("noise_multiplier", noise_multiplier), ("delta", delta)):
        _check_number(name, value)
    check_claim(claimed)
    _check_number("steps", steps, whole=True)
    if mechanism not in get_args(NoiseName):
        raise unknown("mechanism", str(mechanism), get_args(NoiseName))
    kind, rate = _kind_and_rate(sampling, sample_rate)
    drawn = sampling_of_steps(kind, rate, relation)
    return account_for_noise(mechanism, drawn, steps, delta, noise_multiplier=noise_multiplier).verdict(claimed)


def _kind_and_rate(sampling: str | float | None, sample_rate: float | None) -> tuple[str, float]:
    """The kind of sampling and its rate. A kind that draws at random has no default rate: ε depends on it."""
    if sample_rate is not None:
        _check_number("sample_rate", sample_rate)
    if sampling is None or sampling == "none":
        return sampling or "poisson", 1.0 if sample_rate is None else sample_rate
    if isinstance(sampling, str):
        if sample_rate is None and sampling in sampling_kinds:
            raise TacitError(f'sampling="{sampling}" needs sample_rate, the share of the records in one draw')
        return sampling, 1.0 if sample_rate is None else sample_rate
    _check_number("sampling", sampling)
    if sample_rate is not None:
        raise TacitError(f"sampling={sampling} and sample_rate={sample_rate} are both rates: set one of them")
    return "poisson", sampling


def _check_number(name: str, value: object, *, whole: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
        raise TacitError(f"{name} must be a {'whole ' if whole else ''}number, got {value!r}")


def check_claim(claimed: float) -> None:
    """Raise if a claim is not a finite number of at least 0."""
    if not 0 <= claimed < math.inf:
        raise TacitError(f"claimed must be a finite number of at least 0, got {claimed}")


class AccountResult(NamedTuple):
    """The privacy of `releases`, made `times` times, and the noise multiplier if it was computed for a target ε."""

    privacy: Privacy
    releases: Sequence[Release]
    times: int = 1
    noise_multiplier: float | None = None

    def verdict(self, claimed: float) -> ClaimVerdict:
        """Compare a claimed ε with the guarantee, and with a lower bound on the exact ε."""
        delta = self.privacy.delta
        at_least = epsilon_lower_bound(self.releases, delta, times=self.times)
        return ClaimVerdict(claimed, self.privacy.guaranteed, at_least, delta)


def sampling_of_steps(kind: str, sample_rate: float = 1.0, relation: Relation | None = None) -> Sampling:
    """Return the sampling of one node, by default with the first relation that the kind supports.

    Raises:
        TacitError: If the kind is unknown or the rate does not fit it.
    """
    scheme, rate = sampling_kinds.registered(kind), sample_rate
    assert isinstance(scheme, type)
    assert issubclass(scheme, SamplingKind)
    if not 0 < rate <= 1:
        raise TacitError(f"sample_rate must be above 0 and at most 1, got {sample_rate}")
    if scheme.epoch(0, rate) is not None:
        batches = round(1 / rate)
        if abs(rate * batches - 1) > 0.01:
            raise TacitError(f"sample_rate must be 1 / (number of batches) for {kind} sampling, got {sample_rate}")
        rate = 1 / batches
    if not scheme.is_random and rate < 1:
        raise TacitError(f"sampling {kind} uses all records, got sample_rate {sample_rate}: omit it")
    return Sampling(kind, np.array([rate]), relation or scheme.relations[0])


def account_for_noise(
    kind: NoiseName,
    sampling: Sampling,
    steps: int,
    delta: float,
    *,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
) -> AccountResult:
    """Return ε of `steps` releases with this noise, or with the noise that a target ε needs."""
    if steps < 1:
        raise TacitError(f"steps must be at least 1, got {steps}")
    last_epoch = sampling.scheme.epoch(steps - 1, float(sampling.rate[0]))
    times = steps if last_epoch is None else last_epoch + 1  # an epoch counts as its worst draw

    def releases_at(noise: float) -> list[Release]:
        return [Release(0, kind, Gaussian(noise) if kind == "gaussian" else Laplace(noise), sampling)]

    if noise_multiplier is not None and epsilon is None:
        if not noise_multiplier > 0:
            raise TacitError(f"noise_multiplier must be positive, got {noise_multiplier}")
        noise = noise_multiplier
    elif epsilon is not None and noise_multiplier is None:
        noise = calibrate(releases_at, epsilon, delta, times=times)
    else:
        raise TacitError("Set either the noise multiplier to compute ε, or epsilon to compute the noise")
    spent = guaranteed_epsilon(releases_at(noise), delta, times=times)
    too_little = "there is too little noise for any bound" if delta else f"no ε holds for {kind} noise at δ = 0"
    reason = None if math.isfinite(spent) else too_little
    privacy = Privacy(
        None if reason else spent, None, delta, relation=sampling.relation, adversary=_ADVERSARY, reason=reason
    )
    return AccountResult(privacy, releases_at(noise), times, None if epsilon is None else noise)


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

    def __str__(self) -> str:
        return claim_line(self)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self._asdict().items())
        return f"ClaimVerdict(holds={self.holds}, {values})"

    def __bool__(self) -> bool:
        raise TacitError("a verdict is not True or False, since it can be undecided: use verdict.holds")


def claim_line(verdict: ClaimVerdict) -> str:
    """Return the verdict in one sentence.

    >>> claim_line(ClaimVerdict(1.0, 3.0259, 3.0142, 1e-4))
    'The claim ε = 1 does not hold: the guaranteed ε is 3.026, and the exact ε is at least 3.014.'
    >>> claim_line(ClaimVerdict(3.02, 3.0259, 3.0142, 1e-4))
    'The claim ε = 3.02 is undecided: the guaranteed ε is 3.026, and the exact ε is at least 3.014.'
    >>> claim_line(ClaimVerdict(4.0, 3.0259, 3.0142, 1e-4))
    'The claim ε = 4 holds: the guaranteed ε is 3.026.'
    """
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
