"""Shares of the privacy of a run for its statistics and its gradients."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

GRADIENTS_SHARE = "gradients"  # of the releases of the rounds
STATISTIC_SHARES = ("ranges", "mean", "gram")  # of statistics before round 0


def _checked(shares: dict[str, float]) -> dict[str, float]:
    known = (*STATISTIC_SHARES, GRADIENTS_SHARE)
    if unknown := [name for name in shares if name not in known]:
        raise ValueError(f'unknown share "{unknown[0]}"; use {", ".join(known)}')
    if wrong := [name for name, share in shares.items() if not 0 < share < 1]:
        raise ValueError(f"the share of {wrong[0]} must be above 0 and below 1, got {shares[wrong[0]]:g}")
    if GRADIENTS_SHARE not in shares:
        raise ValueError(f"the share of {GRADIENTS_SHARE} is missing")
    if abs(sum(shares.values()) - 1) > 1e-9:
        raise ValueError(f"the sum of all shares must be 1, got {sum(shares.values()):.9g}")
    return shares


Shares = Annotated[dict[str, float], AfterValidator(_checked)]
"""Shares of μ², by the names of statistics, and of the gradients. Their sum is 1."""
