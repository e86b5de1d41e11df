"""What a stream of releases costs: a guaranteed ε, never below the exact one and within one percent of it."""

import math

import dp_accounting
import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.privacy.bounded import Relation
from tacit.privacy.convolution import epsilon_of_sum
from tacit.privacy.gdp import mu_to_epsilon
from tacit.privacy.pld import Direction, privacy_loss
from tacit.privacy.steps import Step, Steps, read_steps
from tacit.privacy.thinning import ladder_up, thin

_TOLERANCE = 0.006  # the grid is refined until ε moves by less; what is left is less still
_ROUNDED_UP = 1 + 1e-9
_LEVELS = 8
_LEAST_DELTA = 1e-250  # below, δ counts as 0
_NO_PRIVACY = 1e5  # an ε beyond which composing privacy losses would refine a number that means nothing


def epsilon(event: dp_accounting.DpEvent, delta: float, relation: Relation = "add-remove") -> float:
    """An ε for which `event` is (ε, δ)-differentially private under `relation`.

    Noise multipliers are relative to the sensitivity *under that relation*. Known are compositions of
    Gaussian and Laplace noise, alone, on a Poisson sample, or (replace-one only) on a sample drawn without
    replacement; everything else is refused. Poisson sampling under replace-one takes for granted that a
    record that is added or removed moves the value no further than one that is replaced.

    >>> step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    >>> round(epsilon(dp_accounting.SelfComposedDpEvent(step, 1000), 1e-5), 2)
    1.83
    >>> epsilon(dp_accounting.NonPrivateDpEvent(), 1e-5)
    inf
    """
    return steps_epsilon(read_steps(event, relation), delta, relation)


def dominating_rates(rates: npt.ArrayLike, most: int = 16) -> npt.NDArray[np.float64]:
    """Each rate raised to one of at most `most` values; ε grows with the rate, so that of a higher one holds.

    >>> dominating_rates([0.010, 0.0101, 0.02, 0.021], most=2).tolist()
    [0.014491..., 0.014491..., 0.021, 0.021]
    """
    given = np.asarray(rates, np.float64)
    if len(np.unique(given)) <= most:
        return given.copy()
    if most < 2 or not (given >= 0).all() or np.isinf(given).any():
        raise TacitError(f"{most} values cannot stand for all of these rates")
    raised = given.copy()
    positive = given > 0
    top, least = given.max(), given[positive].min()
    rungs = most - (0 if positive.all() else 1)
    raised[positive] = ladder_up(given[positive], math.log(top / least) / rungs * (1 + 1e-9))
    return raised


def steps_epsilon(steps: Steps, delta: float, relation: Relation, tolerance: float = _TOLERANCE) -> float:
    """ε of a bag of steps: a closed form where there is one, otherwise the composed privacy losses."""
    if not 0 <= delta < 1:
        raise TacitError(f"δ lies between 0 and 1, and {delta} does not")
    if any(math.isinf(step.mu) for step in steps):
        return math.inf
    plain = math.inf if any(step.law == "gaussian" for step in steps) else _sum_of_worst(steps)
    if delta < _LEAST_DELTA or not steps or _NO_PRIVACY < plain < math.inf:
        return plain
    mus = [math.sqrt(n) * step.mu for step, n in steps.items() if step.law == "gaussian" and step.rate == 1]
    rest = Steps({step: n for step, n in steps.items() if step.law != "gaussian" or step.rate < 1})
    if not rest:
        return mu_to_epsilon(math.hypot(*mus), delta) * _ROUNDED_UP
    if mus:
        rest[Step("gaussian", 1.0, math.hypot(*mus))] = 1
    return min(plain, _composed(rest, delta, relation, tolerance))


def _sum_of_worst(steps: Steps) -> float:
    """Pure differential privacy: the greatest loss log(1 + q (e^μ − 1)) of each Laplace step, added up."""
    worst = (n * (step.mu + math.log1p((1 - step.rate) * math.expm1(-step.mu))) for step, n in steps.items())
    return math.fsum(worst)


def _composed(steps: Steps, delta: float, relation: Relation, tolerance: float) -> float:
    """By privacy losses on a grid of width h, refined until ε hardly moves. Every level is an upper bound."""
    if math.fsum(n * step.rate * _total_variation(step) for step, n in steps.items()) <= delta:
        return 0.0
    count = sum(steps.values())
    scale = _typical_mu(steps)
    guess = max(mu_to_epsilon(scale, delta), 0.1 * scale)
    tail = max(1e-5 * delta / count, 1e-300)

    def at_level(way: Direction, level: int) -> float:
        h = 0.4 * min(guess, math.sqrt(guess)) / math.sqrt(count) / 2**level
        nodes, factors = thin(steps, max(0.04 / 2**level, 0.01))
        return epsilon_of_sum([privacy_loss(node, way, h, tail) for node in nodes], factors, h, delta, guess)

    def refined(way: Direction, enough: float) -> float:
        """ε in one direction, or any value below `enough` that is not below ε."""
        found = at_level(way, 0)
        for level in range(1, _LEVELS):
            if found <= enough:
                break
            before, found = found, min(found, at_level(way, level))
            if before - found <= tolerance * max(found, 0.1 * scale):
                break
        return found

    if relation == "replace-one":
        return refined("replace", 0.0) * _ROUNDED_UP
    found = refined("remove", 0.0)
    if any(step.rate < 1 for step in steps):
        found = max(found, refined("add", found))
    return found * _ROUNDED_UP


def _total_variation(step: Step) -> float:
    return math.erf(step.mu / math.sqrt(8)) if step.law == "gaussian" else -math.expm1(-step.mu / 2)


def _typical_mu(steps: Steps) -> float:
    """μ of the whole by the central limit, q² (e^{μ²} − 1) a step, at most what it is without sampling."""
    return math.hypot(
        *(
            math.sqrt(n) * min(mu, rate * max(mu, math.sqrt(math.expm1(min(mu, 10.0) ** 2))))
            for (_, rate, mu), n in steps.items()
        )
    )
