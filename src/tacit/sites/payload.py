"""Tensors as bytes in the safetensors format.

The encoding is canonical: equal tensors have equal bytes at every site, and `unpack` refuses any other encoding.
"""

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
_TENSOR_NAME = re.compile(r"[a-z0-9_.-]{1,64}")
_MAX_HEADER_BYTES = 1 << 17  # enough for about a thousand tensors
_MAX_DIMENSIONS = 8
_MAX_LISTED_NAMES = 5

Tensors = Mapping[str, Tensor]
TensorSpecs = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]
"""Dtype and shape by tensor name."""


class WireError(TacitError):
    """Bytes or a message that a site refuses. The text is one printable line."""


def pack(tensors: Tensors) -> bytes:
    """Return the bytes of named tensors.

    Raises:
        WireError: `unpack` would refuse the result, for example because a value is not finite.

    >>> pack({"x": torch.ones(1)})
    b'8\\x00\\x00\\x00\\x00\\x00\\x00\\x00{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  \\x00\\x00\\x80?'
    """
    if not tensors:
        return b""
    values = {name: tensors[name].detach().contiguous() for name in sorted(tensors)}
    for name, value in values.items():
        if value.dtype not in _CODES:
            raise WireError(f"tensor {name} has the dtype {value.dtype}, which cannot be sent; use {', '.join(DTYPES)}")
        _check_form(name, value.shape)
        _check_finite(name, value)
    header = _header([(name, _CODES[v.dtype], v.shape, v.nbytes) for name, v in values.items()])
    return b"".join([header, *(v.reshape(-1).view(torch.uint8).numpy().data for v in values.values())])


def unpack(payload: bytes) -> dict[str, Tensor]:
    """Return the named tensors in untrusted bytes. Memory use is proportional to the length of `payload`.

    Raises:
        WireError: The bytes are not what `pack` returns for any tensors.
    """
    if not payload:
        return {}
    size = int.from_bytes(payload[:8], "little")
    if len(payload) < 8 or size > min(_MAX_HEADER_BYTES, len(payload) - 8):
        raise WireError("the tensor header has an impossible length")
    try:
        found: list[tuple[str, dict[str, Any]]] = deserialize(payload)  # type: ignore[no-untyped-call]
    except SafetensorError:
        raise WireError("the tensors are not in the safetensors format") from None
    if not found:
        raise WireError("the payload contains no tensors")
    found.sort(key=lambda entry: entry[0])
    for name, entry in found:
        if entry["dtype"] not in DTYPES:
            raise WireError(f"a tensor has an unsupported dtype; supported are {', '.join(DTYPES)}")
        _check_form(name, entry["shape"])
    # The header must be canonical: no metadata, no duplicate names, no other order or spacing.
    if payload[: 8 + size] != _header([(name, e["dtype"], e["shape"], len(e["data"])) for name, e in found]):
        raise WireError("the tensor header is not in canonical form")
    tensors = {name: torch.frombuffer(e["data"], dtype=DTYPES[e["dtype"]]).view(e["shape"]) for name, e in found}
    for name, value in tensors.items():
        _check_finite(name, value)
    return tensors


def check_tensors(tensors: Tensors, expected: TensorSpecs) -> None:
    """Raise `WireError` unless the tensors have exactly the expected names, dtypes and shapes.

    >>> check_tensors({"x": torch.ones(3)}, {"x": (torch.float32, (4,))})
    Traceback (most recent call last):
    tacit.sites.payload.WireError: tensor x is float32 (3), expected float32 (4)
    """
    if tensors.keys() != expected.keys():
        raise WireError(f"the tensors are {_name_list(tensors)}, expected {_name_list(expected)}")
    for name, (dtype, shape) in expected.items():
        value = tensors[name]
        if (value.dtype, tuple(value.shape)) != (dtype, shape):
            found = _spec_text(value.dtype, value.shape)
            raise WireError(f"tensor {name} is {found}, expected {_spec_text(dtype, shape)}")


def _header(entries: Sequence[tuple[str, str, Sequence[int], int]]) -> bytes:
    """Return the safetensors header for (name, dtype, shape, bytes) entries, padded so that the data is aligned."""
    table, end = {}, 0
    for name, dtype, shape, size in entries:
        table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MAX_HEADER_BYTES:
        raise WireError(f"{len(entries)} tensors are too many for one message")
    return len(text).to_bytes(8, "little") + text


def _check_form(name: str, shape: Sequence[int]) -> None:
    if not _TENSOR_NAME.fullmatch(name):
        raise WireError(f"{name[:40]!a} is not a valid tensor name")
    if len(shape) > _MAX_DIMENSIONS or 0 in shape:
        raise WireError(f"tensor {name} is empty or has more than {_MAX_DIMENSIONS} dimensions")


def _check_finite(name: str, value: Tensor) -> None:
    # One pass is enough in almost all cases. A sum of finite values may overflow, so check again before refusing.
    if value.is_floating_point() and not bool(value.sum().isfinite()) and not bool(value.isfinite().all()):
        raise WireError(f"tensor {name} contains values that are not finite")


def _spec_text(dtype: torch.dtype, shape: Sequence[int]) -> str:
    return f"{str(dtype).removeprefix('torch.')} ({', '.join(map(str, shape))})"


def _name_list(names: Mapping[str, object]) -> str:
    """Return the first few names, since the list may be long."""
    more = len(names) - _MAX_LISTED_NAMES
    return (", ".join(sorted(names)[:_MAX_LISTED_NAMES]) or "none") + (f" and {more} more" if more > 0 else "")
