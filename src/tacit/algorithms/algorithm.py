"""The contract of every algorithm: start, one round at a time, models; and the registry of all algorithms.

A new algorithm is one file in this package (or in a user's own folder): a frozen dataclass that derives from
`Algorithm`, registered with `@algorithms.register("name")`. The contract tests, the audit, `tacit compare` and
`tacit list` find it through the registry.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, get_type_hints

import numpy as np
from torch import Tensor

from tacit.algorithms.mixing_options import NOT_DECLARED, MixingOptions
from tacit.algorithms.preparation_plan import PlannedStatistic
from tacit.algorithms.privacy_plan import Nodes, PrivacyPlan
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy import Array, PairPlan
from tacit.registry import Registry
from tacit.tasks import Task

S = TypeVar("S")
Mix = Callable[..., tuple[Tensor, ...]]
"""A function (values) → the values after one mixing, each with one row per hosted node."""


@dataclass(frozen=True)
class Algorithm(ABC, Generic[S]):
    """A decentralised learning algorithm: a frozen dataclass of the paper's parameters.

    An algorithm computes with all hosted nodes at once: every tensor of its state `S` (a dataclass) has one row per
    hosted node, or one row per directed edge. It never loops over nodes and does not depend on the runtime.

    In a state, `x` or `s` are the parameters that nodes mix and `z` are the variables of edges; the contract tests
    use these names.

    Attributes:
        needs: Properties that the graph must have; see `tacit.graphs.require`.
        partial: Whether the algorithm can leave some parameters at their node (`share`).
        noise_parameters: Names of the parameters that set the noise level. A target ε replaces them.
        models_are_released: Whether `models` returns functions of released values and public numbers only, as far as
            all parameters are bounded. Without this declaration the guarantee does not cover the models.
        exact_values_stay_local: Whether values from `Bounded.use_locally` never influence a message. Without this
            declaration a run that uses such values has no guarantee. Subclasses do not inherit declarations.
        mixes_only: Whether a node stores nothing but the result of mixing, in rounds for which the privacy plan has a
            `mixing_only_clip`.
        mixed: Names of the state's tensors that nodes mix, the parameters first: functions of released values and
            public numbers only. Closing mixings send them.
        refused_options: The options of `MixingOptions` that the algorithm does not accept, each with the reason.
        sums_gradients: Whether each released gradient is subtracted from the model once, so that noise which is
            correlated in time cancels, and the privacy plan uses `PrivacyPlan.gaussian` for these gradients.
        fits_linear_classifiers_only: Whether the algorithm computes a linear classifier from statistics, and uses no
            gradient of the model's loss.
        rounds: Number of rounds, the paper's K, T or R; set by the run.
        share: Patterns of the names of the parameters that nodes share; None shares all.
        local: Whether parameters that are not shared learn from gradients with the same noise ("private") or from
            exact ones ("exact").
        preparation: The statistics that the run releases before round 0. Set by the run.
        pairs: The plan of paired noise; None: every node's noise is independent. Set by the run.
        mixing: How often nodes mix, momentum, weights and averages; `Stepper` applies it to the rounds.
        bandwidth: Over how many steps the noise is correlated in time, at most; None for independent noise. Set by the
            run.
    """

    needs: ClassVar[tuple[str, ...]] = ("column-stochastic", "connected")
    partial: ClassVar[bool] = False
    noise_parameters: ClassVar[tuple[str, ...]] = ()
    models_are_released: ClassVar[bool] = False
    exact_values_stay_local: ClassVar[bool] = False
    mixes_only: ClassVar[bool] = False
    mixed: ClassVar[tuple[str, ...]] = ()
    refused_options: ClassVar[Mapping[str, str]] = NOT_DECLARED
    sums_gradients: ClassVar[bool] = False
    fits_linear_classifiers_only: ClassVar[bool] = False

    rounds: int = field(default=1, kw_only=True)
    share: tuple[str, ...] | None = field(default=None, kw_only=True)
    local: Literal["private", "exact"] = field(default="private", kw_only=True)
    preparation: tuple[PlannedStatistic, ...] = field(default=(), kw_only=True, compare=False)
    pairs: PairPlan | None = field(default=None, kw_only=True, compare=False)
    mixing: MixingOptions = field(default=MixingOptions(), kw_only=True)
    bandwidth: float | None = field(default=None, kw_only=True, compare=False)

    @property
    @abstractmethod
    def title(self) -> str:
        """The name in the paper, as reports show it."""

    @abstractmethod
    def start(self, task: Task, graph: Graph) -> S:
        """Return the state before round 0."""

    @abstractmethod
    def round(self, t: int, state: S, task: Task, network: Network) -> S:
        """Return the state after round t.

        The given state must not be modified: an interrupted run returns to it.
        """

    @abstractmethod
    def models(self, state: S) -> Tensor:
        """Return the model of each hosted node, (n, d)."""

    @property
    def privacy(self) -> PrivacyPlan:
        """What the algorithm releases, what its paper claims and what the guarantee assumes."""
        return PrivacyPlan(self)

    @property
    def bounds(self) -> Literal["all", "shared"]:
        """Which gradients are clipped: those of all parameters, or of the shared ones only."""
        return "all" if self.local == "private" else "shared"

    @property
    def tolerates_dropout(self) -> bool:
        """Whether a round can finish without a node that does not answer.

        This holds if nodes only mix, and push-sum weights travel with the values: then a missing message is missing
        in numerator and weight alike.
        """
        return False

    def option_refusal(self, option: str) -> str | None:
        """Return why the algorithm does not accept an option of `MixingOptions`; None if it does."""
        return self.refused_options.get(option)

    def check_options(self) -> None:
        """Raise TacitError if `mixing` has an option that the algorithm does not accept."""
        for option in self.mixing.used:
            if reason := self.option_refusal(option):
                raise TacitError(f"{self.title} does not accept algorithm.{option}: {reason}")

    def mix_models(self, state: S, mix: Mix) -> S:
        """Return the state after one mixing of the models, without gradients and releases."""
        values: list[Tensor] = [getattr(state, name) for name in self.mixed]
        return replace(state, **dict(zip(self.mixed, mix(*values), strict=True)))  # type: ignore[type-var]

    def traces(self, state: S) -> dict[str, Tensor]:
        """Return quantities to plot over the rounds, each with one number per hosted node (n,)."""
        return {}

    def norms(self, state: S) -> dict[str, Tensor]:
        """Return norms of parts of the state, each (n,); the history shows their means."""
        return {"primal_norm": self.models(state).norm(dim=1)}

    def with_rounds(self, rounds: int) -> Self:
        """Return the same algorithm for a run of `rounds` rounds."""
        return replace(self, rounds=rounds)

    def check_extension(self, rounds: int) -> None:
        """Raise TacitError if the algorithm cannot continue to `rounds` rounds, more than it was made for.

        Schedules continue as they are defined: the algorithm's own `rounds` stay the same.
        """

    def bind(self, task: Task, graph: Graph) -> Self:
        """Return the same algorithm with the noise level that its parameters mean for this task and graph."""
        return self

    def with_noise(self, scale: Array) -> Self:
        """Return the same algorithm with its noise multipliers times `scale`, which has one entry per node."""
        raise AddsNoNoise(f"{self.title} adds no noise: leave out privacy.epsilon, or choose a private algorithm")


class AddsNoNoise(TacitError):
    """A target ε is set for an algorithm without noise."""


class NoNoiseLevel(TacitError):
    """A private algorithm has neither a target ε nor a noise level."""


def no_noise_level(title: str, *parameters: str) -> NoNoiseLevel:
    """The error for an algorithm that is to add noise but has no noise level."""
    keys = " and ".join(f"algorithm.{key}" for key in parameters)
    return NoNoiseLevel(f"{title}: no noise level: set privacy.epsilon (Python: epsilon=) or {keys}")


def check_positive(title: str, **values: float | None) -> None:
    """Raise an error unless every value is None or positive and finite."""
    for key, value in values.items():
        if value is not None and not 0 < value < np.inf:
            raise TacitError(f"{title}: {key} must be positive and finite, got {value}")


def check_non_negative(title: str, **values: float | None) -> None:
    """Raise an error unless every value is None or non-negative and finite."""
    for key, value in values.items():
        if value is not None and not 0 <= value < np.inf:
            raise TacitError(f"{title}: {key} must be 0 or more and finite, got {value}")


def select_nodes(values: float | Array, nodes: Nodes) -> Array:
    """Return the values of the given nodes from one value for all nodes, or from one value per node of the network."""
    array = np.asarray(values, np.float64)
    return array[nodes] if array.ndim else np.full(len(nodes), array)


def scatter_nodes(values: Array, nodes: Nodes) -> Array:
    """Return an array indexed by node id that holds the values of the given nodes; NaN for nodes hosted elsewhere."""
    scattered = np.full(nodes.max() + 1, np.nan)
    scattered[nodes] = values
    return scattered


class AlgorithmRegistry(Registry[Algorithm[Any]]):
    """All algorithms by the names that configs use."""

    def noise_parameters(self, name: str) -> tuple[str, ...]:
        """Return the parameters of `name` that set its noise level; empty for an algorithm without privacy."""
        maker = self[name]
        made = maker if inspect.isclass(maker) else get_type_hints(maker).get("return")
        known = self.parameters(name)
        return tuple(key for key in getattr(made, "noise_parameters", ()) if key in known)


algorithms = AlgorithmRegistry(
    "algorithm", given=("rounds", "scale", "name", "preparation", "pairs", "mixing", "bandwidth")
)
