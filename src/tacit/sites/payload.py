"""Tensors as bytes in the safetensors format, in one way only: the same tensors are the same bytes at every site."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from safetensors import SafetensorError, deserialize
from torch import Tensor

from tacit.errors import TacitError

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}
_CODES = {dtype: code for code, dtype in DTYPES.items()}
_NAME = re.compile(r"[a-z0-9_.-]{1,64}")
_MOST_HEADER = 1 << 17  # bytes in which tensors are described: enough for a thousand
_MOST_DIMENSIONS = 8

Expected = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]


class WireError(TacitError):
    """Bytes or a message that a site does not take. Its text is one line, and nothing else is ever raised for them."""


def pack(tensors: Mapping[str, Tensor]) -> bytes:
    """The tensors by name. What is no number is not packed: it would be refused at the other end.

    >>> pack({"x": torch.ones(1)})
    b'8\\x00\\x00\\x00\\x00\\x00\\x00\\x00{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  \\x00\\x00\\x80?'
    """
    if not tensors:
        return b""
    values = {name: tensors[name].detach().contiguous() for name in sorted(tensors)}
    for name, value in values.items():
        if value.dtype not in _CODES:
            raise WireError(f"tensor {name} holds {value.dtype}, which does not travel: there are {', '.join(DTYPES)}")
        _check(name, value.shape)
        _check_numbers(name, value)
    header = _header([(name, _CODES[v.dtype], v.shape, v.nbytes) for name, v in values.items()])
    return b"".join([header, *(v.reshape(-1).view(torch.uint8).numpy().data for v in values.values())])


def unpack(payload: bytes) -> dict[str, Tensor]:
    """The tensors in bytes that may be anything. Memory is taken for no more than the bytes that are there."""
    if not payload:
        return {}
    size = int.from_bytes(payload[:8], "little")
    if len(payload) < 8 or size > min(_MOST_HEADER, len(payload) - 8):
        raise WireError("tensors are described at impossible length")
    try:
        found: list[tuple[str, dict[str, Any]]] = deserialize(payload)  # type: ignore[no-untyped-call]
    except SafetensorError:
        raise WireError("tensors are not in the safetensors format") from None
    if not found:
        raise WireError("there are no tensors where there should be some")
    found.sort(key=lambda entry: entry[0])
    for name, entry in found:
        if entry["dtype"] not in DTYPES:
            raise WireError("a tensor holds numbers of a type that does not travel")
        _check(name, entry["shape"])
    # Nothing but what is read may be said, and in no other order: no remarks, no twins.
    if payload[: 8 + size] != _header([(name, e["dtype"], e["shape"], len(e["data"])) for name, e in found]):
        raise WireError("tensors are not described as they should be")
    tensors = {name: torch.frombuffer(e["data"], dtype=DTYPES[e["dtype"]]).view(e["shape"]) for name, e in found}
    for name, value in tensors.items():
        _check_numbers(name, value)
    return tensors


def fits(tensors: Mapping[str, Tensor], expected: Expected) -> None:
    """Refuse tensors that are not those expected, saying which and why.

    >>> fits({"x": torch.ones(3)}, {"x": (torch.float32, (4,))})
    Traceback (most recent call last):
    tacit.sites.payload.WireError: tensor x is float32 (3), not float32 (4)
    """
    if tensors.keys() != expected.keys():
        raise WireError(f"tensors are {_listed(tensors)}, not {_listed(expected)}")
    for name, (dtype, shape) in expected.items():
        value = tensors[name]
        if (value.dtype, tuple(value.shape)) != (dtype, shape):
            raise WireError(f"tensor {name} is {_shown(value.dtype, value.shape)}, not {_shown(dtype, shape)}")


def _header(entries: Sequence[tuple[str, str, Sequence[int], int]]) -> bytes:
    """Name, dtype, shape and bytes of each tensor as safetensors wants them, padded so that numbers are aligned."""
    table, end = {}, 0
    for name, dtype, shape, size in entries:
        table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MOST_HEADER:
        raise WireError(f"{len(entries)} tensors are too many for one message")
    return len(text).to_bytes(8, "little") + text


def _check(name: str, shape: Sequence[int]) -> None:
    if not _NAME.fullmatch(name):
        raise WireError(f"{name[:40]!a} cannot name a tensor")
    if len(shape) > _MOST_DIMENSIONS or 0 in shape:
        raise WireError(f"tensor {name} has no values, or more than {_MOST_DIMENSIONS} dimensions")


def _check_numbers(name: str, value: Tensor) -> None:
    # One pass; a sum may overflow, so look closer before refusing.
    if value.is_floating_point() and not bool(value.sum().isfinite()) and not bool(value.isfinite().all()):
        raise WireError(f"tensor {name} holds values that are not finite")


def _shown(dtype: torch.dtype, shape: Sequence[int]) -> str:
    return f"{str(dtype).removeprefix('torch.')} ({', '.join(map(str, shape))})"


def _listed(names: Mapping[str, object]) -> str:
    """At most a few names: the rest of a long list tells no more."""
    some = sorted(names)[:5]
    return (", ".join(some) or "none") + (f" and {len(names) - 5} more" if len(names) > 5 else "")
