"""A device that does not exist: its tensors hold their values in main memory, but report the device "shadow".

Operations compute with the real values, so whole rounds run, with every check and every branch. An operation on tensors
of both the device and main memory raises, as it does on hardware. Copies to main memory and numbers that are read are
counted, because each of them makes the computer wait for a real device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "shadow"
_aten = torch.ops.aten
_COPIES = {_aten._to_copy.default, _aten.copy_.default}
_WAITS = {"_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "_unique2", "bincount"}


def shadow() -> torch.device:
    """Return the device; register it first."""
    if not hasattr(torch, NAME):
        _setup_privateuseone_for_python_backend(NAME)
    return torch.device(NAME, 0)


class MixedDevicesError(RuntimeError):
    """An operation got tensors of both devices."""


class ShadowTensor(Tensor):
    """A tensor on the device; `held` are its values."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> ShadowTensor:
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        made: ShadowTensor = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, held.size(), **layout, device=shadow()
        )
        made.held = held
        return made

    def __repr__(self, **_: Any) -> str:
        return f"ShadowTensor({self.held})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copied = self.detach().clone().requires_grad_(self.requires_grad)
        if hasattr(self, "_is_param"):
            copied._is_param = True  # type: ignore[attr-defined]
        return memo.setdefault(id(self), copied)

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def __tensor_flatten__(self) -> tuple[list[str], None]:  # lets Module.to swap parameters
        return ["held"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], *_: Any) -> ShadowTensor:
        return ShadowTensor(inner["held"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {}, Transfers())


class Transfers:
    """What was copied or read.

    Attributes:
        to_host: The sizes of the tensors that were copied to main memory.
        reads: Operations after which the computer waits for a number, by name.
        strict: Whether the device refuses double precision, as Apple's does.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.to_host, self.reads, self.strict = list[int](), Counter[str](), strict


class _OnDevice(TorchDispatchMode):
    def __init__(self, transfers: Transfers) -> None:
        super().__init__()
        self.transfers = transfers

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {}, self.transfers)


@contextmanager
def shadow_device(*, double: bool = True) -> Iterator[Transfers]:
    """Operations on the device work inside the block; without `double`, it has no double precision."""
    shadow()
    transfers = Transfers(strict=not double)
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with _OnDevice(transfers):
            yield transfers
    finally:
        torch._C._set_only_lift_cpu_tensors(before)


def _run(func: Any, args: Any, kwargs: dict[str, Any], transfers: Transfers) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    on_device = [each for each in tensors if isinstance(each, ShadowTensor)]
    target = kwargs.get("device")
    if on_device and func not in _COPIES:
        apart = [each for each in tensors if not isinstance(each, ShadowTensor) and each.dim()]
        if apart:
            raise MixedDevicesError(f"{func} got a tensor of shape {tuple(apart[0].shape)} in main memory")
    to_device = torch.device(target).type == NAME if target is not None else bool(on_device)
    if func is _aten.copy_.default:
        to_device = isinstance(args[0], ShadowTensor)
    if on_device:
        _count(func, on_device, tensors, to_device, transfers)
    held = {id(each.held): each for each in on_device}
    inner, options = tree_map(lambda leaf: leaf.held if isinstance(leaf, ShadowTensor) else leaf, (args, kwargs))
    result = func(*inner, **({**options, "device": torch.device("cpu")} if target is not None else options))
    if not to_device:
        copied = func is _aten._to_copy.default and any(result is each.held for each in on_device)
        return result.clone() if copied else result

    def wrapped(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if transfers.strict and leaf.dtype == torch.float64:
            raise TypeError(f"{func}: the device has no double precision")
        return held.get(id(leaf)) if id(leaf) in held else ShadowTensor(leaf)

    return tree_map(wrapped, result)


def _count(func: Any, on_device: list[Any], tensors: list[Tensor], to_device: bool, transfers: Transfers) -> None:
    name = func.overloadpacket.__name__
    masked = name in {"index", "index_put", "index_put_", "_index_put_impl_"} and any(
        each.dtype == torch.bool for each in tensors[1:]
    )
    if name in _WAITS or masked:
        transfers.reads[name] += 1
    if func in _COPIES and not to_device:
        transfers.to_host.append(on_device[0].numel())
