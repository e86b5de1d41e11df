"""Networks that learn a graph: which methods there are by name, and where a site has its signals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt

from tacit.errors import TacitError
from tacit.graph_learning import GraphMethod, graph_methods, read_clients
from tacit.registry import Registry
from tacit.runs.config import Choice, PrivacyTarget

CLIP = "clip"  # a key of [algorithm] that is the signals', not the method's
_NEEDED = ("beta", "rho", "lam")  # elsewhere chosen from what was released; sites must agree beforehand

signals: Registry[npt.ArrayLike] = Registry("signals")


def is_graph_learning(algorithm: Choice) -> bool:
    """Whether what is learned is a graph, and not a model."""
    return algorithm.name in graph_methods


def graph_method(choice: Choice, rounds: int, privacy: PrivacyTarget) -> GraphMethod[Any]:
    """The method a network names, with the noise that its ε asks for: the same at every site."""
    own = {key: value for key, value in choice.parameters.items() if key != CLIP}
    graph_methods.check(choice.name, own, also=(CLIP,))
    missing = [key for key in _NEEDED if key in graph_methods.parameters(choice.name) and key not in own]
    if missing:
        raise TacitError(f"algorithm {choice.name} needs a value for: {', '.join(missing)}")
    method = graph_methods.build(choice.name, {**own, "rounds": rounds})
    if privacy.calibration != "guaranteed":
        raise TacitError(f'{method.title} has guaranteed noise only: leave out privacy.calibration = "paper"')
    return method if privacy.epsilon is None else method.with_privacy(privacy.epsilon, privacy.delta)


def signal_clip(choice: Choice) -> float | None:
    """The bound on the norm of a signal's squared differences."""
    clip = choice.parameters.get(CLIP)
    if clip is not None and (isinstance(clip, bool) or not isinstance(clip, int | float)):
        raise TacitError(f"algorithm {choice.name}: clip = {clip!r} should be a number")
    return clip


@signals.register("csv")
@signals.register("npz")
def from_file(path: Path) -> npt.ArrayLike:
    """Signals of one site, a row a signal, a column a vertex: a .csv file, or an .npz file with one array."""
    found = read_clients([path]).signals
    if len(found) > 1:
        raise TacitError(f"{path} holds {len(found)} arrays: a site has one, its own signals")
    return found[0]
