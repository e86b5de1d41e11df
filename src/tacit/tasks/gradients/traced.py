"""Calls of functions of tensors without the overhead of torch.func, for batches whose shapes recur.

For tiny models, most of a round is the time in which torch.vmap and autograd arrange the work. After some calls with
the same shapes, the tensor operations of a call are recorded once. Later calls repeat them: the same operations in the
same order give the same bits.

Privacy:
    What is recorded is what torch.vmap and autograd execute, so each record is treated separately as before. Nothing
    that depends on values can be recorded, because torch.vmap refuses a choice that depends on them.

A function that refers to anything that could change unnoticed, such as a list or an object, is never recorded.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

Function = Callable[..., Tensor]

_CALLS = 32  # with the same shapes, before they are recorded (recording takes as long as hundreds of calls)
_MAX_FORMS = 16
_MAX_NUMBERS = 1 << 20  # in all arguments; above, the overhead does not matter
_CONSTANTS = (int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device)
_VIEWS = {
    getattr(torch.ops.aten, name).default for name in ("view", "_unsafe_view", "expand", "alias", "detach", "permute")
} | {torch.ops.aten.slice.Tensor, torch.ops.aten.transpose.int}


class Traced:
    """Records the calls of functions. A copy of it, or of an object that has it, starts without recordings."""

    def __init__(self) -> None:
        self._calls: dict[tuple[Any, ...], int] = {}
        self._recorded: dict[tuple[Any, ...], Function] = {}
        self._kept: list[Tensor] = []  # tensors in the keys of recordings, which must stay unique

    def __deepcopy__(self, memo: object) -> Traced:
        return Traced()

    def __reduce__(self) -> tuple[type[Traced], tuple[()]]:
        return Traced, ()

    def __call__(self, what: str, depends_on: Callable[..., Any], function: Function, *values: Tensor) -> Tensor:
        """Return function(*values), which must be a pure function of them, apart from what `depends_on` refers to.

        Args:
            what: Distinguishes functions of one object.
            depends_on: A function of the user that `function` calls.
            function: The function.
            values: Its arguments.
        """
        constants = _constants(depends_on) if _is_plain(values) else None
        if constants is None:
            return function(*values)
        key = (what, constants.found, *((value.shape, value.stride(), value.dtype, value.device) for value in values))
        recorded = self._recorded.get(key)
        if recorded is not None:
            return recorded(*values)
        if len(self._calls) >= 64 * _MAX_FORMS:  # shapes differ from call to call
            self._calls.clear()
        self._calls[key] = self._calls.get(key, 0) + 1
        if self._calls[key] < _CALLS or len(self._recorded) >= _MAX_FORMS:
            return function(*values)
        self._kept += constants.tensors
        self._recorded[key] = _record(function, values)
        return self._recorded[key](*values)


def _is_plain(values: tuple[Tensor, ...]) -> bool:
    """Return whether the arguments are small and ordinary tensors, in ordinary precision."""
    plain = all(type(value) is Tensor for value in values) and sum(value.numel() for value in values) <= _MAX_NUMBERS
    return plain and not torch.is_grad_enabled() and not torch.is_autocast_enabled(values[0].device.type)


def _record(function: Function, values: tuple[Tensor, ...]) -> Function:
    """Return a function that repeats the operations of a call; the function itself if they cannot be recorded."""
    try:
        module = _without_idle_views(make_fx(function)(*values))
    except Exception:  # anything the user's function may do
        return function
    with suppress(Exception), warnings.catch_warnings():  # an interpreter without Python, as long as torch has it
        warnings.simplefilter("ignore")
        script: Function = torch.jit.freeze(torch.jit.trace(module, values, check_trace=False).eval())  # type: ignore[no-untyped-call]
        return script
    return module


def _without_idle_views(module: fx.GraphModule) -> fx.GraphModule:
    """Remove operations that return their argument as it is."""
    for node in list(module.graph.nodes):
        if node.target in _VIEWS and _form(node) == _form(node.args[0]):
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def _form(node: fx.Node) -> object:
    value = node.meta["val"]
    return value.shape, value.stride(), value.storage_offset(), value.dtype


class _Constants(NamedTuple):
    """What a function depends on besides its arguments: values that can be compared, and tensors."""

    found: tuple[Any, ...]
    tensors: list[Tensor]


class _MayChange(Exception):
    """A function refers to something that could change unnoticed."""


def _constants(function: Callable[..., Any]) -> _Constants | None:
    """Return what a function depends on besides its arguments; None if this could change unnoticed."""
    found: list[Any] = []
    tensors: list[Tensor] = []
    try:
        _collect(function, found, tensors, set())
    except (_MayChange, ValueError):  # an empty cell of a closure
        return None
    return _Constants(tuple(found), tensors)


def _collect(value: Any, found: list[Any], tensors: list[Tensor], seen: set[int]) -> None:
    if isinstance(value, _CONSTANTS):
        found.append((type(value), repr(value)))
    elif isinstance(value, Tensor):
        tensors.append(value)
        found.append((Tensor, id(value), value._version))
    elif isinstance(value, tuple):
        found.append((tuple, len(value)))
        for each in value:
            _collect(each, found, tensors, seen)
    elif isinstance(value, types.FunctionType) and not _is_fixed(value):
        if id(value) not in seen:
            seen.add(id(value))
            found.append(value.__code__)
            for each in _references(value):
                _collect(each, found, tensors, seen)
    elif not _is_fixed(value):
        raise _MayChange


def _is_fixed(value: Any) -> bool:
    """Return whether a value is a module, a class or a function of torch, math or Python itself."""
    if isinstance(value, types.BuiltinFunctionType):
        return isinstance(value.__self__, types.ModuleType | type)  # not a method of an object
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    named = isinstance(value, types.ModuleType | types.FunctionType | type)
    return named and str(name).split(".")[0] in ("torch", "math", "builtins")


def _references(function: types.FunctionType) -> Iterator[Any]:
    """Yield the values of a function's defaults and closure, and of the global names in its code."""
    yield function.__defaults__ or ()
    yield tuple((function.__kwdefaults__ or {}).values())
    for cell in function.__closure__ or ():
        yield cell.cell_contents
    codes = [function.__code__]
    for code in codes:
        codes.extend(each for each in code.co_consts if isinstance(each, types.CodeType))
        for name in code.co_names:
            if name in function.__globals__:
                yield function.__globals__[name]
