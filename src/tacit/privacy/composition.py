"""ε of a bag of steps: an upper bound on the exact value, within one percent of it."""

import math

from tacit.errors import TacitError
from tacit.privacy.bounded import Relation
from tacit.privacy.convolution import epsilon_of_sum
from tacit.privacy.gdp import mu_to_epsilon
from tacit.privacy.pld import Direction, privacy_loss
from tacit.privacy.steps import Step, Steps
from tacit.privacy.thinning import thin

_TOLERANCE = 0.006  # the grid is refined until ε moves by less; what is left is less still
_ROUNDED_UP = 1 + 1e-9
_LEVELS = 8
_LEAST_DELTA = 1e-250  # below, δ counts as 0
_NO_PRIVACY = 1e5  # an ε beyond which composing privacy losses would refine a number that means nothing


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
