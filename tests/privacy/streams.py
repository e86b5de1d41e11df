"""Short ways to write streams of releases of one node."""

from collections.abc import Iterable

import numpy as np

from tacit.privacy import Gaussian, Laplace, Mechanism, Release, Sampling

MECHANISMS = {"gaussian": Gaussian, "laplace": Laplace}


def sampling(kind: str = "none", rate: float = 1.0, relation: str = "add-remove") -> Sampling:
    return Sampling(kind, np.array([rate]), relation)


def stream(mechanisms: Iterable[Mechanism], drawn: Sampling | None = None) -> list[Release]:
    """One release per mechanism, each from a draw of its own."""
    drawn = sampling() if drawn is None else drawn
    return [Release(step, "gradient", mechanism, drawn) for step, mechanism in enumerate(mechanisms)]


def repeated(mechanism: Mechanism, count: int, drawn: Sampling | None = None) -> list[Release]:
    return stream([mechanism] * count, drawn)


def poisson(
    multiplier: float, rate: float, count: int = 1, law: str = "gaussian", relation: str = "add-remove"
) -> list[Release]:
    return repeated(MECHANISMS[law](multiplier), count, sampling("poisson", rate, relation))


def without_replacement(multiplier: float, rate: float, count: int = 1, law: str = "gaussian") -> list[Release]:
    return repeated(MECHANISMS[law](multiplier), count, sampling("without-replacement", rate, "replace-one"))
