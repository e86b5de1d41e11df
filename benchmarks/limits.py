"""Limits of the machine, and a consensus round compared with a copy plus noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from tacit.graphs import graphs
from tacit.networks import Simulated
from tacit.privacy import Bounded, Gaussian, Ledger, Noise, ReleaseContext, Sampling
from tacit.tasks import keep_freed_memory

Step = Callable[[], None]
SIDE, COPIED = 2048, 1 << 26  # side of the multiplied matrices; numbers copied
NODES, PARAMETERS = 10_000, 1_000


def void(_: object) -> None:
    return


def sgemm() -> Step:
    a, b = torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE)
    out = torch.empty(SIDE, SIDE)
    return lambda: void(torch.mm(a, b, out=out))


def copy() -> Step:
    a, out = torch.rand(COPIED), torch.zeros(COPIED)
    return lambda: void(out.copy_(a))


def consensus() -> Step:
    """A round without a gradient: every node adds noise to its vector and mixes it with its neighbours' vectors."""
    keep_freed_memory()
    network = Simulated(graphs.build("ring", {"nodes": NODES}))
    source = ReleaseContext(np.arange(NODES), Ledger(), Noise.from_seed(0))
    sampling = Sampling("none", np.ones(NODES), "add-remove")
    x, t, bound = torch.zeros(NODES, PARAMETERS), 0, np.full(NODES, 1e-3)

    def step() -> None:
        nonlocal x, t
        released = Gaussian(1.0).release(Bounded(x.clone(), bound, "l2", sampling, t, "value", source))
        (x,) = network.mix(t, released)
        t += 1

    return step


def copy_noise() -> Step:
    """The minimum work of any implementation: draw noise (torch's generator), read x and write the sum."""
    x, out = torch.zeros(NODES, PARAMETERS), torch.empty(NODES, PARAMETERS)

    def step() -> None:
        out.normal_(std=1e-3)
        out.add_(x)

    return step


LIMITS: dict[str, Callable[[], Step]] = {
    "sgemm": sgemm,
    "copy": copy,
    "consensus": consensus,
    "copy+noise": copy_noise,
}
