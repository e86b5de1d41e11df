"""Compares the attributes of a module before and after a forward pass."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_VALUES = bool | int | float | complex | str | bytes | torch.dtype | torch.Size
_REGISTERED = "_parameters", "_buffers", "_modules"


def differences(before: nn.Module, after: nn.Module) -> Iterator[str]:
    """Yield the names of the parameters, buffers and attributes that differ between a module and its deep copy.

    Containers and objects are compared by their contents. A function is not: a deep copy refers to the same function,
    and its closure may contain a state.

    >>> import copy
    >>> module = nn.Sequential(nn.Linear(1, 1), nn.Tanh())
    >>> before = copy.deepcopy(module)
    >>> module[1].last = torch.ones(2)
    >>> list(differences(before, module))
    ['1.last']
    """
    yield from _differences(before, after, "", set())


def _differences(a: Any, b: Any, name: str, seen: set[int]) -> Iterator[str]:
    if a is b or id(b) in seen:
        return
    if type(a) is not type(b):
        yield name
        return
    if isinstance(a, _VALUES):  # equal values may be the same object, so they are not added to `seen`
        if a != b and not (a != a and b != b):
            yield name
        return
    seen.add(id(b))
    if isinstance(a, Tensor):
        if not _equal(a, b):
            yield name
    elif isinstance(a, np.ndarray):
        if a.tobytes() != b.tobytes():
            yield name
    elif isinstance(a, list | tuple | deque):
        yield from _parts(dict(enumerate(a)), dict(enumerate(b)), name, seen)
    elif isinstance(a, dict):
        yield from _parts(a, b, name, seen)
    elif isinstance(a, nn.Module):
        yield from _parts(_attributes(a), _attributes(b), name, seen)
    elif hasattr(a, "__dict__"):
        yield from _parts(vars(a), vars(b), name, seen)
    elif hasattr(a, "__len__") and len(a) != len(b):
        yield name


def _parts(a: dict[Any, Any], b: dict[Any, Any], name: str, seen: set[int]) -> Iterator[str]:
    for key in dict.fromkeys([*a, *b]):
        part = f"{name}.{key}" if name else str(key)
        if key in a and key in b:
            yield from _differences(a[key], b[key], part, seen)
        else:
            yield part


def _attributes(module: nn.Module) -> dict[str, Any]:
    """Return the attributes by name, with registered parameters, buffers and modules among them."""
    own = {name: value for name, value in vars(module).items() if name not in _REGISTERED}
    return own | module._parameters | module._buffers | module._modules


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(((a == b) | ((a != a) & (b != b))).all())
