"""Graph learning by sites: the method that network.toml names, and the signals of one site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt

from tacit.errors import TacitError
from tacit.graph_learning import CLIP_KEY, GraphMethod, default_statistic, graph_methods, read_clients
from tacit.registry import Registry
from tacit.runs import NamedPart, PrivacyTarget

_REQUIRED = ("beta", "rho", "lam")  # `GraphLearner` chooses them from released values; sites must agree beforehand

signal_sources: Registry[npt.ArrayLike] = Registry("signals")


def is_graph_learning(algorithm: NamedPart) -> bool:
    """Return whether the algorithm learns a graph instead of a model."""
    return algorithm.name in graph_methods


def build_graph_method(choice: NamedPart, rounds: int, privacy: PrivacyTarget) -> GraphMethod[Any]:
    """Build the method that network.toml names, with noise for its ε. The result is the same at every site."""
    choice = with_statistic(choice, privacy)
    own = {key: value for key, value in choice.parameters.items() if key != CLIP_KEY}
    graph_methods.check(choice.name, own, also=(CLIP_KEY,))
    missing = [key for key in _REQUIRED if key in graph_methods.parameters(choice.name) and key not in own]
    if missing:
        raise TacitError(f"algorithm {choice.name} requires values for: {', '.join(missing)}")
    method = graph_methods.build(choice.name, {**own, "rounds": rounds})
    if privacy.noise == "paired":
        raise TacitError(f"{method.title} cannot use paired noise: its messages are not added up over the sites")
    if privacy.calibration != "guaranteed":
        raise TacitError(f'{method.title} supports guaranteed noise only: remove privacy.calibration = "paper"')
    return method if privacy.epsilon is None else method.with_privacy(privacy.epsilon, privacy.delta)


def with_statistic(choice: NamedPart, privacy: PrivacyTarget) -> NamedPart:
    """Return the method with its statistic, chosen as `GraphLearner` chooses it. It is the same at every site."""
    given = choice.parameters
    release, private = given.get("release", "once"), privacy.epsilon is not None
    statistic = default_statistic(private=private, release=release, clip=signal_clip(choice))
    return NamedPart.model_validate({"name": choice.name, "statistic": statistic, **given})


def signal_clip(choice: NamedPart) -> float | None:
    """Return the clip bound of [algorithm]: the largest norm of a signal's squared differences."""
    clip = choice.parameters.get(CLIP_KEY)
    if clip is not None and (isinstance(clip, bool) or not isinstance(clip, int | float)):
        raise TacitError(f"algorithm {choice.name}: clip = {clip!r} must be a number")
    return clip


@signal_sources.register("csv")
@signal_sources.register("npz")
def from_file(path: Path) -> npt.ArrayLike:
    """Read the signals of one site, one row per signal and one column per vertex, from a .csv or .npz file."""
    arrays = read_clients([path]).signals
    if len(arrays) > 1:
        raise TacitError(f"{path} contains {len(arrays)} arrays: a site needs one array with its own signals")
    return arrays[0]
