"""One clip for several cells, which are sets of parameters on the same batches."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tacit.tasks.clip import Clip


def together(clips: Sequence[Clip | None]) -> bool:
    """Return whether one clip can stand for the clips per record of all cells."""
    return len({None if clip is None or clip.per == "batch" else clip.norm for clip in clips}) == 1


def merged(clips: Sequence[Clip | None], like: Tensor) -> Clip | None:
    """Return one clip per record with the bounds (n · S,) of all cells, for parameters (S, n, d); None: no clip.

    The bounds of a node are adjacent.
    """
    bounds = [clip.bound for clip in clips if clip is not None and clip.per == "record"]
    if not bounds or clips[0] is None:
        return None
    n = like.shape[1]
    exact = [torch.as_tensor(bound, dtype=torch.float64, device="cpu").expand(n) for bound in bounds]
    return Clip(torch.stack(exact, 1).flatten(), clips[0].norm)


def clip_batches(out: Tensor, clips: Sequence[Clip | None], bounded: int) -> None:
    """Apply the clips per batch to the bounded columns of out (S, n, d)."""
    for total, clip in zip(out, clips, strict=True):
        if clip is not None and clip.per == "batch":
            total[:, :bounded] = clip.clip_rows(total[:, :bounded])
