"""Trials of a module on a record of zeros, which is public."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tacit.errors import TacitError

_SEVERAL = ": a module with several inputs needs a function, Model(module, head, forward=lambda module, x: ...)"


def try_on_zeros(run: Callable[[Tensor], Tensor], inputs: tuple[int, ...], tokens: bool) -> tuple[Tensor, bool]:
    """Return the outputs for a record of zeros, and whether the module needs integers.

    Args:
        run: Calls the module on a batch.
        inputs: The shape of a record.
        tokens: Whether the records are integers. Other records become integers if the module accepts nothing else.

    Raises:
        TacitError: If the module does not accept records of this shape.
    """
    failures: list[Exception] = []
    for dtype in (torch.int64,) if tokens else (torch.float32, torch.int64):
        try:
            return run(torch.zeros(1, *inputs, dtype=dtype)), dtype == torch.int64
        except TacitError:
            raise
        except Exception as error:  # a user's module may raise anything
            failures.append(error)
    kind = "tokens (integers)" if tokens else "records"
    hint = _SEVERAL if isinstance(failures[0], TypeError) else ""
    reason = " ".join(str(failures[0]).split())
    raise TacitError(f"the model does not accept {kind} of shape {inputs}: {reason}{hint}") from failures[0]
