from itertools import pairwise

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.privacy import Noise
from tacit.privacy.noise import _NODE_SAMPLES


def draw(kind: str, n: int, d: int, *, seed: int = 0, scale=1.0, nodes=None, step: int = 0, dtype=torch.float32):
    x = torch.zeros(n, d, dtype=dtype)
    nodes = np.arange(n) if nodes is None else np.asarray(nodes)
    getattr(Noise.from_seed(seed), f"{kind}_")(x, np.full(n, scale), "noise", nodes, step)
    return x


@pytest.mark.parametrize(("kind", "law"), [("gaussian", "norm"), ("laplace", "laplace")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_noise_has_the_stated_law_and_scale(kind, law, dtype):
    x = draw(kind, 50, 4001, scale=3.0, dtype=dtype).double().flatten().numpy()
    assert stats.kstest(x / 3.0, law).pvalue > 1e-3
    # Columns, and the two halves Box–Muller makes together, are uncorrelated.
    halves = draw(kind, 50, 4000).view(50, 2, 2000)
    assert abs(np.corrcoef(halves[:, 0].flatten(), halves[:, 1].flatten())[0, 1]) < 0.015
    assert abs(np.corrcoef(halves[:, 0].abs().flatten(), halves[:, 1].abs().flatten())[0, 1]) < 0.015


def test_tails_reach_further_than_32_bits_would():
    # 32 bits stop at 6.7 deviations; feed the smallest words and see that 62 do not.
    from tacit.privacy.noise import _log_uniform

    zero = torch.zeros(1, dtype=torch.int32)
    assert float((-2 * _log_uniform(zero, zero, torch.float32)).sqrt()) > 9
    assert (
        float(_log_uniform(torch.tensor([-1], dtype=torch.int32), torch.tensor([-1], dtype=torch.int32), torch.float32))
        <= 0
    )


def test_words_are_aes_counter_mode():
    noise = Noise.from_seed(4)
    import hashlib

    key = hashlib.blake2b(b"batch", key=noise._key, digest_size=16).digest()
    node, step = 3, 9
    block = (np.uint64(node << 32 | step)).tobytes() + (0).to_bytes(8, "little")
    expected = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)
    assert noise.words("batch", np.array([1, node]), step, 4)[1].numpy().tobytes() == expected


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 6),
    d=st.integers(1, 40),
    step=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["gaussian", "laplace"]),
    data=st.data(),
)
def test_a_node_has_the_same_noise_wherever_it_is_hosted(n, d, step, kind, data):
    together = draw(kind, n, d, step=step)
    row = data.draw(st.integers(0, n - 1))
    alone = draw(kind, 1, d, nodes=[row], step=step)
    assert torch.equal(together[row], alone[0])


def test_streams_differ_by_key_node_step_and_purpose():
    base = Noise.from_seed(0).words("a", np.array([0]), 0, 64)
    others = [
        Noise.from_seed(1).words("a", np.array([0]), 0, 64),
        Noise.from_seed(0).words("a", np.array([1]), 0, 64),
        Noise.from_seed(0).words("a", np.array([0]), 1, 64),
        Noise.from_seed(0).words("b", np.array([0]), 0, 64),
        Noise.from_system().words("a", np.array([0]), 0, 64),
    ]
    for other in others:
        assert int((base == other).sum()) == 0


def test_two_real_runs_have_different_noise():
    one, other = (Noise.from_system().words("a", np.array([0]), 0, 64) for _ in range(2))
    assert int((one == other).sum()) == 0


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_parts_of_a_long_vector_use_different_blocks(kind, monkeypatch):
    """A block that is used for two parts would be noise that cancels in their difference."""
    drawn, words = [], Noise.words

    def observed(self, purpose, nodes, step, count, first=0, *device):
        drawn.append(range(first, first + -(-count // 4)))
        return words(self, purpose, nodes, step, count, first, *device)

    monkeypatch.setattr(Noise, "words", observed)
    draw(kind, 1, 2 * _NODE_SAMPLES + 5)
    assert len(drawn) == 3
    assert all(before.stop <= after.start for before, after in pairwise(drawn))


def test_noise_does_not_depend_on_the_chunk_size(monkeypatch):
    whole = draw("gaussian", 9, 33)
    monkeypatch.setattr("tacit.privacy.noise._CHUNK_SAMPLES", 70)
    assert torch.equal(whole, draw("gaussian", 9, 33))


def test_a_short_key_is_refused():
    with pytest.raises(ValueError, match="32 bytes"):
        Noise(b"short")
