"""Options of the rounds that every mixing method has: how often nodes mix, momentum, weights and averages."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from tacit.errors import TacitError
from tacit.tasks import Weighting

Averaging = Literal["none", "ema", "polyak"]
_OPTIONS = ("closing_rounds", "mixings", "momentum", "weights", "averaging")
_MIXINGS = ("closing_rounds", "mixings", "momentum")

NOT_DECLARED = dict.fromkeys((*_MIXINGS, "weights"), "its class does not declare that it supports it")
"""Refusals of a class that declares nothing: weights could falsify its sensitivity, and mixing could send anything."""
NO_MIXING = dict.fromkeys(_MIXINGS, "its nodes exchange variables of edges and do not mix models")
"""Refusals of methods with variables on edges."""
ONE_MODEL = dict.fromkeys(_MIXINGS, "a server gives every node the mean in every round")
"""Refusals of methods in which all nodes have the same model."""


@dataclass(frozen=True, kw_only=True)
class MixingOptions:
    """What a run does with released values beside the update of the paper. The defaults change nothing.

    All options except `weights` are post-processing of the same releases, so they cost no ε. `weights` scales a
    gradient and its sensitivity by the same public number, so the noise multipliers stay the same.

    Args:
        closing_rounds: Mixings without gradients after the last round. They turn the nodes' own models into the mean.
        mixings: Mixings per round. The graph advances with each of them.
        momentum: β of heavy-ball momentum on the steps: v ← W(βv + g), x ← W(x − lr (1 − β)(βv + g)), in one message.
        weights: "equal", or "records": node i's gradient is multiplied by n m_i / Σ_j m_j, with m_j records at node j.
        averaging: Which average of its own models a node evaluates and saves: "none" (the last model), "ema" or
            "polyak".
        averaging_decay: Factor by which the weight of a model in "ema" falls per round.
        averaging_start: Share of the rounds after which "polyak" begins.

    Raises:
        TacitError: A value is out of range.
    """

    closing_rounds: int = 0
    mixings: int = 1
    momentum: float = 0.0
    weights: Weighting = "equal"
    averaging: Averaging = "none"
    averaging_decay: float = 0.9
    averaging_start: float = 0.5

    def __post_init__(self) -> None:
        accepted = {
            "closing_rounds": (self.closing_rounds >= 0, "0 or more"),
            "mixings": (self.mixings >= 1, "at least 1"),
            "momentum": (0 <= self.momentum < 1, "in [0, 1)"),
            "weights": (self.weights in ("equal", "records"), "equal or records"),
            "averaging": (self.averaging in ("none", "ema", "polyak"), "none, ema or polyak"),
            "averaging_decay": (0 < self.averaging_decay < 1, "in (0, 1)"),
            "averaging_start": (0 <= self.averaging_start < 1, "in [0, 1)"),
        }
        for key, (holds, values) in accepted.items():
            if not holds:
                raise TacitError(f"{key} must be {values}, got {getattr(self, key)}")

    @property
    def used(self) -> tuple[str, ...]:
        """The names of the options that differ from their defaults."""
        defaults = {field.name: field.default for field in fields(self)}
        return tuple(name for name in _OPTIONS if getattr(self, name) != defaults[name])

    @property
    def keeps_rounds(self) -> bool:
        """Whether messages and models are those of the method itself, apart from the weights of the gradients."""
        return set(self.used) <= {"weights"}

    def graph_time(self, t: int, sequence: int) -> int:
        """Return the time of the graph at mixing number `sequence` of round t.

        Each mixing advances the graph. The closing mixings follow those of the last round, so they continue it.
        """
        return t * self.mixings + sequence if self.mixings > 1 or self.closing_rounds else t
