"""The configuration of a graph learning experiment: signals, method, privacy budget and parameter grid."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from tacit.graph_learning import GraphMethod, StatisticName, classical_noise_multiplier, graph_methods
from tacit.privacy import epsilon_to_mu
from tacit.registry import invalid
from tacit.runs import ConfigSection

_ROUNDING_MARGIN = 1 + 1e-8  # on the noise, so that rounding cannot push ε above the budget


class SignalSource(ConfigSection):
    """The signals: synthetic ones on random graphs (`tacit.graph_learning.synthetic`), or a real data set."""

    name: Literal["rbf", "erdos-renyi", "barabasi-albert", "coil20", "abide"] = "rbf"
    vertices: int = Field(default=20, ge=2)
    clients: int = Field(default=5, ge=1)
    signals: int | list[int] = 100
    q: float | list[float] = 0.5


class LearnerSettings(ConfigSection):
    """The method, and which graphs are scored: those of all clients, that of one `client`, or the consensus."""

    name: Literal["igl", "fedavg", "ppgl"] = "ppgl"
    K: int | None = None
    step: float | None = None
    initial: float | None = None
    rounds: int = Field(default=300, ge=1)
    release: Literal["once", "rounds"] = "once"
    statistic: StatisticName = "differences"
    judged: Literal["graphs", "consensus"] = "graphs"
    client: int | None = None


class PaperBudget(ConfigSection):
    """The paper's (ε, δ) per *round*, the number of rounds, and which total a run may spend.

    The total "guaranteed" is that of Corollary 1's noise in all rounds; "claimed" is the paper's sum (Σε, Σδ).
    """

    epsilon: float = Field(gt=0)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    rounds: int = Field(default=50, ge=1)
    total: Literal["guaranteed", "claimed"] = "guaranteed"

    @property
    def mu(self) -> float:
        """The budget as μ-GDP: 1 ÷ the noise multiplier of a single release, with sensitivity √2 C/N_i.

        >>> round(PaperBudget(epsilon=1.0).mu, 3), round(PaperBudget(epsilon=1.0, total="claimed").mu, 2)
        (1.032, 7.31)
        """
        if self.total == "claimed":
            return epsilon_to_mu(self.rounds * self.epsilon, self.stated)
        return math.sqrt(self.rounds / 2) * self.epsilon / classical_noise_multiplier(self.delta)

    @property
    def stated(self) -> float:
        """The δ of the run's privacy statement."""
        return self.delta * (self.rounds if self.total == "claimed" else 1)


class ParameterGrid(ConfigSection):
    """The parameter grid. The point with the best mean of the metric `best` over separate `instances` is used.

    With `beta_of = "igl"`, as in the paper, β is the best of IGL without noise, and only ρ and λ are searched.
    """

    beta: list[float] = Field(min_length=1)
    rho: list[float] = Field(default=[1.0], min_length=1)
    lam: list[float] = Field(default=[0.1], min_length=1)
    threshold: list[float] = Field(default=[1e-4], min_length=1)
    beta_of: Literal["igl", "own"] = "igl"
    best: Literal["f1", "nmi", "reconstruction_error"] = "f1"
    instances: int = Field(default=3, ge=1)


class GraphStudy(ConfigSection):
    """One measurement. The seed determines the instance and the noise."""

    seed: int = 0
    source: SignalSource = SignalSource()
    learner: LearnerSettings = LearnerSettings()
    clip: float | None = None
    budget: PaperBudget | None = None
    search: ParameterGrid

    @model_validator(mode="after")
    def _fits(self) -> Self:
        gram = self.learner.statistic == "gram"
        if self.budget is not None and self.clip is None and not gram:
            raise ValueError('A budget needs a clip: set clip, or learner.statistic to "gram"')
        if self.clip is not None and gram:
            raise ValueError("The Gram matrix needs no clip: remove clip, or set learner.statistic to differences")
        if self.learner.judged == "consensus" and self.learner.name == "igl":
            raise ValueError("IGL has no consensus: set learner.judged to graphs")
        self.method(self.search.beta[0], self.search.rho[0], self.search.lam[0])
        return self

    @classmethod
    def parse(cls, data: Mapping[str, Any], where: str = "the study") -> GraphStudy:
        """Validate a configuration.

        >>> GraphStudy.parse({"search": {"beta": [0.1]}, "clip": -1.0, "learner": {"name": "iggl"}})
        Traceback (most recent call last):
        tacit.errors.TacitError: the study: learner.name = 'iggl' should be 'igl', 'fedavg' or 'ppgl'
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise invalid(where, error) from None

    def as_dict(self) -> dict[str, Any]:
        """Return the configuration as a dictionary, without keys that are not set."""
        return self.model_dump(exclude_none=True)

    def method(self, beta: float, rho: float, lam: float) -> GraphMethod[Any]:
        """Return the method at a point of the grid, with its noise."""
        asked: dict[str, Any] = self.learner.model_dump(
            include={"K", "step", "initial", "rounds", "release", "statistic"}
        )
        if self.learner.name == "ppgl":
            asked |= {"rho": rho, "lam": lam}
        method = graph_methods[self.learner.name](beta=beta, **asked)
        if self.budget is None:
            return method
        releases = self.learner.rounds if self.learner.release == "rounds" else 1
        return method.with_noise(math.sqrt(releases) / self.budget.mu * _ROUNDING_MARGIN)
