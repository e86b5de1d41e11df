"""The hyperparameters of an algorithm as keyword arguments of `tacit.train`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from tacit.algorithms import Algorithm, algorithms
from tacit.api.arguments import OPTIMISER, kind, refuse_optimiser
from tacit.errors import TacitError
from tacit.runs import ALGORITHM_KEYS, AUTO

_OTHER_NAMES = {
    "learning_rate": "lr",
    "step_size": "lr",
    "max_grad_norm": "clip",
    "clip_norm": "clip",
    "batch_size": "batch",
    "n_nodes": "nodes",
    "iterations": "rounds",
    "eps": "epsilon",
    "callbacks": "observers",
    "verbose": "progress",
    "classes": "labels",
}
"""What other libraries call a hyperparameter or an argument."""
_ADVICE = {
    "optimizer": OPTIMISER,
    "optimiser": OPTIMISER,
    "loss": "task= sets the loss",
    "criterion": "task= sets the loss",
    "loss_fn": "task= sets the loss",
    "epochs": "rounds= sets the length of a run; every node draws one batch per step",
    "x": "pass the records as data=(x, y)",
    "y": "pass the records as data=(x, y)",
}


def algorithm_section(name: str, given: Mapping[str, Any], arguments: Collection[str]) -> dict[str, Any]:
    """Return the section [algorithm] of the config with these hyperparameters.

    Args:
        name: The name of the algorithm.
        given: Its hyperparameters.
        arguments: The other arguments of the caller, for suggestions.

    Raises:
        TacitError: A hyperparameter does not exist, or a config cannot contain its value.
    """
    if name == AUTO:  # the method is not known yet; the recipe checks its hyperparameters
        return {"name": name, **{key: _plain(key, value) for key, value in given.items() if value is not None}}
    options = algorithms.options(name) if given else {}
    known = {*options, *ALGORITHM_KEYS}
    section: dict[str, Any] = {"name": name}
    for key, value in given.items():
        refuse_optimiser(key, value)
        if key not in known:
            raise _unknown(key, name, options, arguments)
        if value is not None:
            section[key] = _plain(key, value)
        elif key not in options or options[key].default is not None:
            raise TacitError(f"{key}=None cannot be part of a config: leave {key} out, or pass an Algorithm object")
    return section


def refuse_hyperparameters(algorithm: Algorithm[Any], given: Iterable[str]) -> None:
    """Raise TacitError if there are hyperparameters beside an Algorithm object."""
    keys = ", ".join(f"{key}=" for key in given)
    if keys:
        made = type(algorithm).__name__
        raise TacitError(
            f"{keys} cannot be set beside an Algorithm object: set hyperparameters in {made}(...), or give the "
            "algorithm by name"
        )


def sets_noise(name: str, given: Collection[str]) -> bool:
    """Whether these hyperparameters contain one that sets the noise of the algorithm."""
    return any(key in given for key in algorithms.noise_parameters(name))


def _unknown(key: str, name: str, options: Collection[str], arguments: Collection[str]) -> TacitError:
    problem = f'unknown hyperparameter "{key}" of {name}'
    if key in _ADVICE:
        return TacitError(f"{problem}; {_ADVICE[key]}")
    names = {each: each for each in (*options, *arguments)}
    names |= {other: meant for other, meant in _OTHER_NAMES.items() if meant in names}
    near = get_close_matches(key.lower(), sorted(names), n=1, cutoff=0.6)
    hint = f'did you mean "{names[near[0]]}"?' if near else f"available: {', '.join(sorted(options))}"
    return TacitError(f"{problem}; {hint}")


def _plain(key: str, value: Any) -> Any:
    """Return a value as a TOML file returns it."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(key, part) for part in value]
    if isinstance(value, dict):
        return {str(name): _plain(key, part) for name, part in value.items()}
    if not isinstance(value, bool | int | float | str):
        raise TacitError(
            f"{key} must be a number, a text or a list of them, got {kind(value)}: for other values, pass an "
            "Algorithm object"
        )
    return value
