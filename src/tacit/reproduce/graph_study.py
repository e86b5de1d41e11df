"""A measurement of learned graphs as data: what the signals are, who learns, with which noise, and what is searched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from tacit.graph_learning import GraphMethod, classical_noise_multiplier, graph_methods
from tacit.privacy.gdp import epsilon_to_mu
from tacit.registry import invalid
from tacit.runs import ConfigSection

_SAFE = 1 + 1e-8  # what rounding may take from the noise


class SignalSource(ConfigSection):
    """Where signals come from: drawn on random graphs of d vertices (`synthetic.rbf`), or real ones."""

    name: Literal["rbf", "coil20", "abide"] = "rbf"
    vertices: int = Field(default=20, ge=2)
    clients: int = Field(default=5, ge=1)
    signals: int | list[int] = 100
    q: float | list[float] = 0.5


class LearnerSettings(ConfigSection):
    """Who learns, and which of its graphs are judged: those of all clients, that of one, or the consensus."""

    name: Literal["igl", "fedavg", "ppgl"] = "ppgl"
    K: int | None = None
    step: float | None = None
    initial: float | None = None
    rounds: int = Field(default=300, ge=1)
    release: Literal["once", "rounds"] = "once"
    judged: Literal["graphs", "consensus"] = "graphs"
    client: int | None = None


class PaperBudget(ConfigSection):
    """The paper's (ε, δ) a *round*, of so many rounds, and what of it a run may spend in all.

    Corollary 1's noise in all those rounds has a `guaranteed` total; `claimed` is the paper's sum (Σε, Σδ).
    """

    epsilon: float = Field(gt=0)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    rounds: int = Field(default=50, ge=1)
    total: Literal["guaranteed", "claimed"] = "guaranteed"

    @property
    def mu(self) -> float:
        """The budget as μ-GDP: 1 ÷ the noise multiplier of a single release, the sensitivity of z̄ being √2 C/N_i.

        >>> round(PaperBudget(epsilon=1.0).mu, 3), round(PaperBudget(epsilon=1.0, total="claimed").mu, 2)
        (1.032, 7.31)
        """
        if self.total == "claimed":
            return epsilon_to_mu(self.rounds * self.epsilon, self.stated)
        return math.sqrt(self.rounds / 2) * self.epsilon / classical_noise_multiplier(self.delta)

    @property
    def stated(self) -> float:
        """The δ at which the run is stated."""
        return self.delta * (self.rounds if self.total == "claimed" else 1)


class ParameterGrid(ConfigSection):
    """What is searched, for the best mean of `best` over `instances` that are not measured.

    `beta_of = "igl"` is the paper's way: β is the best one of IGL without noise, and only the others are searched.
    """

    beta: list[float] = Field(min_length=1)
    rho: list[float] = Field(default=[1.0], min_length=1)
    lam: list[float] = Field(default=[0.1], min_length=1)
    threshold: list[float] = Field(default=[1e-4], min_length=1)
    beta_of: Literal["igl", "own"] = "igl"
    best: Literal["f1", "nmi", "reconstruction_error"] = "f1"
    instances: int = Field(default=3, ge=1)


class GraphStudy(ConfigSection):
    """One measurement, on the instance and with the noise of a seed."""

    seed: int = 0
    source: SignalSource = SignalSource()
    learner: LearnerSettings = LearnerSettings()
    clip: float | None = None
    budget: PaperBudget | None = None
    search: ParameterGrid

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.budget is not None and self.clip is None:
            raise ValueError("noise protects only what is clipped: set clip")
        if self.learner.judged == "consensus" and self.learner.name == "igl":
            raise ValueError("IGL has no consensus to judge")
        self.method(self.search.beta[0], self.search.rho[0], self.search.lam[0])
        return self

    @classmethod
    def parse(cls, data: Mapping[str, Any], where: str = "the study") -> GraphStudy:
        """
        >>> GraphStudy.parse({"search": {"beta": [0.1]}, "clip": -1.0, "learner": {"name": "iggl"}})
        Traceback (most recent call last):
        tacit.errors.TacitError: the study: learner.name = 'iggl' should be 'igl', 'fedavg' or 'ppgl'
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise invalid(where, error) from None

    def as_dict(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)

    def method(self, beta: float, rho: float, lam: float) -> GraphMethod[Any]:
        """The method at a point of the grid, with its noise."""
        asked: dict[str, Any] = self.learner.model_dump(include={"K", "step", "initial", "rounds", "release"})
        if self.learner.name == "ppgl":
            asked |= {"rho": rho, "lam": lam}
        method = graph_methods[self.learner.name](beta=beta, **asked)
        if self.budget is None:
            return method
        releases = self.learner.rounds if self.learner.release == "rounds" else 1
        return method.with_noise(math.sqrt(releases) / self.budget.mu * _SAFE)
