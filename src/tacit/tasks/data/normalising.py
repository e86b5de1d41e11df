"""Records that are divided by their own norm."""

from typing import Literal

import torch

Normalise = Literal["none", "unit"]


def normalised_records(x: torch.Tensor, how: Normalise) -> torch.Tensor:
    """Return records x (M, …), each divided by its own L2 norm (`unit`), or unchanged (`none`)."""
    return x if how == "none" else torch.nn.functional.normalize(x.flatten(1)).view_as(x)
