"""The precision of forward and backward passes, and of the products that follow them.

Privacy:
    With "bf16", layers compute in bfloat16 and their gradients are copied to the dtype of the parameters. Norms,
    clipping and sums use these copies only. So a record's contribution to a sum is the copy that was clipped, and its
    norm is bounded as without bf16, however coarse the passes are. Sums need products in full precision: with TF32 or
    bfloat16 in their place, a contribution could exceed its bound by their rounding errors. So a block of the caller's
    own torch.autocast is refused, too. A method whose sensitivity rests on the smoothness of the loss (DP-Norm) refuses
    "bf16": rounded gradients are not smooth.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor

from tacit.errors import TacitError

Precision = Literal["float32", "bf16"]
"""The precision of forward and backward passes: that of the parameters, or bfloat16."""


def check_precision(precision: Precision, dtype: torch.dtype) -> None:
    """Raise unless the precision is known and fits parameters of this dtype."""
    if precision not in ("float32", "bf16"):
        raise TacitError(f'precision must be "float32" or "bf16", got "{precision}"')
    if precision == "bf16" and dtype != torch.float32:
        raise TacitError(f'precision = "bf16" needs parameters in torch.float32, got {dtype}')


def passes(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Return the context in which layers compute in this precision."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)


def copied(x: Tensor, like: Tensor) -> Tensor:
    """Return x in the dtype of `like`; indices stay as they are."""
    return x.to(like.dtype) if x.is_floating_point() else x


def require_full_products(device: torch.device) -> None:
    """Raise if matrix products in single precision on this device are set to compute with fewer digits."""
    if torch.is_autocast_enabled(device.type):
        raise TacitError(
            f'torch.autocast is active for "{device.type}", with which a clipped gradient can exceed its bound: leave '
            'its block, and set precision = "bf16"'
        )
    try:
        setting = torch.get_float32_matmul_precision()
    except RuntimeError:  # torch refuses the question if fp32_precision of one of its backends is not full
        setting = "mixed"
    if setting != "highest":
        raise TacitError(
            f'torch.set_float32_matmul_precision is "{setting}", with which a clipped gradient can exceed its bound: '
            'set it to "highest", and fp32_precision of all torch.backends to "ieee". Forward and backward passes are '
            'faster with precision = "bf16"'
        )
