"""Limits of the machine: products of matrices, and copies."""

from __future__ import annotations

from collections.abc import Callable

import torch

Step = Callable[[], None]
SIDE, COPIED = 2048, 1 << 26  # side of the multiplied matrices; numbers copied


def void(_: object) -> None:
    return


def sgemm() -> Step:
    a, b = torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE)
    out = torch.empty(SIDE, SIDE)
    return lambda: void(torch.mm(a, b, out=out))


def copy() -> Step:
    a, out = torch.rand(COPIED), torch.zeros(COPIED)
    return lambda: void(out.copy_(a))


LIMITS: dict[str, Callable[[], Step]] = {"sgemm": sgemm, "copy": copy}
