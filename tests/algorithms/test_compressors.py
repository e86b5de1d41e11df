"""Compressors: what they keep, how many bytes they need, and independence of hosting."""

import numpy as np
import pytest
import torch

from tacit.algorithms import compressors
from tacit.errors import TacitError
from tacit.privacy import Noise

NOISE, NODES = Noise.from_seed(3), np.arange(4)
X = torch.randn(4, 50, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def compress(name, x=X, nodes=NODES, step=0, **params):
    return compressors.build(name, params)(x, NOISE, nodes, step, "x")


@pytest.mark.parametrize("name", list(compressors))
def test_rows_do_not_depend_on_how_nodes_are_hosted(name):
    whole = compress(name)
    for node in range(4):
        assert torch.equal(compress(name, X[[node]], np.array([node])), whole[[node]])


@pytest.mark.parametrize("name", ["top-k", "random-k"])
def test_sparsifiers_keep_entries_unchanged(name):
    kept = compress(name, share=0.2)
    assert ((kept != 0).sum(1) == 10).all()
    assert torch.equal(kept[kept != 0], X[kept != 0])
    assert (kept - X).norm() < X.norm()


def test_top_k_keeps_the_largest_entries():
    kept = compress("top-k", share=0.1)
    smallest_kept = torch.where(kept == 0, torch.inf, kept.abs()).amin(1)
    greatest_left = torch.where(kept == 0, X.abs(), 0).amax(1)
    assert (smallest_kept >= greatest_left).all()


def test_random_k_selects_all_indices_over_the_steps():
    seen = sum((compress("random-k", step=step, share=0.1) != 0).long() for step in range(400))
    assert seen.min() > 15  # of 40 expected, deviation 6
    assert seen.max() < 65


def test_quantisation_is_unbiased_and_has_few_levels():
    draws = torch.stack([compress("quantise", step=step, bits=4) for step in range(2000)])
    unit = X.abs().amax(1, keepdim=True) / 7
    assert torch.allclose(draws.mean(0), X, atol=6 * float(unit.max()) * 0.5 / 2000**0.5)
    levels = draws[0] / unit
    assert torch.allclose(levels, levels.round(), atol=1e-9)
    assert levels.abs().max() <= 7 + 1e-9
    assert torch.equal(compress("quantise", torch.zeros(4, 50)), torch.zeros(4, 50))


@pytest.mark.parametrize(
    ("name", "params", "bytes_"),
    [
        ("identity", {}, 400),
        ("top-k", {"share": 0.1}, 5 * 12),
        ("random-k", {"share": 0.1}, 5 * 8 + 8),
        ("quantise", {"bits": 4}, 25 + 8),
    ],
)
def test_row_bytes(name, params, bytes_):
    assert compressors.build(name, params).row_bytes(X) == bytes_


@pytest.mark.parametrize(
    ("name", "params"), [("top-k", {"share": 0.0}), ("random-k", {"share": 2}), ("quantise", {"bits": 1})]
)
def test_invalid_compression_is_refused(name, params):
    with pytest.raises(TacitError):
        compressors.build(name, params)
