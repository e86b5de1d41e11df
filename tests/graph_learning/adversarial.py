"""Neighbouring data sets chosen to provoke different behaviour, and a replay that makes their releases equal."""

import sys
from contextlib import contextmanager

import numpy as np

from tacit.privacy import Gaussian

MAX, TINY = sys.float_info.max, 5e-324


def rows(d):
    """Signals on d vertices: constant, zero, huge, subnormal, far from 0, and of mixed magnitudes."""
    vertex = np.arange(d)
    peak, steps, signs = np.eye(d)[0], vertex.astype(np.float64), (-1.0) ** vertex
    return {
        "zero": np.zeros(d),
        "minus zero": np.full(d, -0.0),
        "one": np.ones(d),
        "largest float": np.full(d, MAX),
        "largest peak": MAX * peak,
        "largest with both signs": MAX * signs,
        "largest and smallest": np.where(vertex % 2, TINY, -MAX),
        "1e30": 1e30 * steps,
        "1e77": 1e77 * signs,
        "1e154": 1e154 * steps,
        "1e200": 1e200 * peak,
        "subnormal": TINY * steps,
        "1e-170": 1e-170 * signs,
        "far from zero": 1e16 + 2 * steps,
        "last bit of the largest float": np.where(vertex == 1, np.nextafter(MAX, 0), MAX),
        "one huge value among ordinary ones": np.where(vertex == 2, 1e308, np.sin(steps)),
        "ordinary": np.cos(steps),
    }


@contextmanager
def recorded(monkeypatch, replay=None):
    """Record the exact value and the scale of the noise of each Gaussian release, and the released value.

    With `replay`, the records of another run, each release returns the value of that run.
    """
    releases = []
    add_noise = Gaussian.add_noise

    def record(self, value, scale, bounded, *, strict=True):
        exact = value.clone()
        if replay is None:
            add_noise(self, value, scale, bounded, strict=strict)
        else:
            value.copy_(replay[len(releases)][2])
        releases.append((exact, bounded.sensitivity.copy(), value.clone()))

    with monkeypatch.context() as patch:
        patch.setattr(Gaussian, "add_noise", record)
        yield releases
