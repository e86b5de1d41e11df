"""Batches on a device without padding, so that no result depends on what padding contains.

Padding has weight 0, but 0 · ∞ is NaN. A test of the result would make the computer wait for the device. A copy of a
drawn record of the same node cannot do harm: it is not finite only if the sum is not finite anyway.
"""

import torch
from torch import Tensor

from tacit.tasks.gradients.input_norms import rearranged


def without_padding(
    x: Tensor, y: Tensor, weight: Tensor, keys: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return x, y and keys (n, B, …) with each node's first drawn record in place of its padding.

    `weight` (n, B) is in main memory. Nodes without drawn records keep their padding; see `clear_empty`.
    """
    drawn = weight != 0
    first = drawn.to(torch.uint8).argmax(1, keepdim=True)
    index = torch.where(drawn, torch.arange(weight.shape[1]), first).to(x.device)
    return rearranged(x, index), rearranged(y, index), None if keys is None else rearranged(keys, index)


def clear_empty(out: Tensor, weight: Tensor) -> None:
    """Set the rows of out (…, n, d) to 0 whose node has no drawn record."""
    empty = (weight == 0).all(1).nonzero()[:, 0]
    if len(empty):
        out.index_fill_(-2, empty.to(out.device), 0.0)
