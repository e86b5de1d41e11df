"""The generator of devices: ChaCha20 against RFC 8439 and OpenSSL, and noise that does not depend on the placement."""

import numpy as np
import pytest
import scipy
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.privacy import Noise
from tacit.privacy.chacha import WORDS, chacha_words
from tacit.privacy.device_noise import device_words

CPU = torch.device("cpu")
KEY = bytes(range(32))


def openssl(key, node, step, first, count):
    """The words of the keystream with nonce (node, step, 0), from word number `first` on."""
    counter = (first // WORDS).to_bytes(4, "little")
    nonce = b"".join(number.to_bytes(4, "little") for number in (node, step, 0))
    skipped = first % WORDS
    stream = Cipher(algorithms.ChaCha20(key, counter + nonce), None).encryptor().update(bytes(4 * (skipped + count)))
    return np.frombuffer(stream, "<i4")[skipped:]


def test_the_block_of_rfc_8439():
    """Section 2.3.2, whose nonce has the form (node, step, 0)."""
    node, step = (np.array([int.from_bytes(bytes.fromhex(part), "little")]) for part in ("00000009", "0000004a"))
    found = chacha_words(KEY, node, step, WORDS, WORDS, CPU).numpy().astype("<i4").tobytes()
    assert found.hex() == (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )


@settings(max_examples=100, deadline=None)
@given(
    key=st.binary(min_size=32, max_size=32),
    numbers=st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * 2), min_size=1, max_size=4),
    first=st.integers(0, 2**35),
    count=st.integers(1, 70),
)
def test_words_are_those_of_openssl(key, numbers, first, count):
    nodes, steps = np.array(numbers, np.int64).T
    found = chacha_words(key, nodes, steps, first, count, CPU)
    for row, (node, step) in zip(found.numpy(), numbers, strict=True):
        assert (row == openssl(key, node, step, first, count)).all()


def test_a_stream_that_would_repeat_is_refused():
    last = WORDS * 2**32
    one = np.zeros(1, np.int64)
    assert chacha_words(KEY, one, one, last - 1, 1, CPU).shape == (1, 1)
    with pytest.raises(TacitError, match="at most"):
        chacha_words(KEY, one, one, last - 1, 2, CPU)


class OnDevice(Noise):
    """The noise of devices, in main memory."""

    def words(self, purpose, nodes, step, count, first=0, device=CPU):
        return device_words(self._key, purpose, nodes, np.asarray(step), count, first, CPU)


def test_streams_differ_by_key_node_step_and_purpose_and_from_those_of_the_cpu():
    def words(seed=0, purpose="noise/gradient", node=3, step=5, kind=OnDevice):
        return kind.from_seed(seed).words(purpose, np.array([node]), step, 64)

    changes = [{"seed": 1}, {"purpose": "noise/model"}, {"node": 5}, {"step": 3}, {"node": 5, "step": 3}]
    streams = [words(), *(words(**change) for change in changes), words(kind=Noise)]
    numbers = torch.cat(streams).flatten().tolist()
    assert len(set(numbers)) == len(numbers)
    assert torch.equal(words(), words())


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_a_node_has_the_same_noise_wherever_it_is_hosted(law, monkeypatch):
    """On a device several nodes and columns are drawn at once."""
    from tacit.privacy import device_noise, noise

    nodes, scale = np.array([2, 9, 40]), np.array([1.0, 0.5, 3.0])
    monkeypatch.setattr(noise, "_NODE_SAMPLES", 64)
    monkeypatch.setattr(noise, "_rounded", _on_device(noise))
    whole = torch.zeros(3, 200)
    getattr(OnDevice.from_seed(0), f"{law}_")(whole, scale, "noise/g", nodes, 7)
    monkeypatch.setattr(device_noise, "_SAMPLES", 1)
    for row in range(3):
        alone = torch.zeros(1, 200)
        getattr(OnDevice.from_seed(0), f"{law}_")(alone, scale[[row]], "noise/g", nodes[[row]], 7)
        assert torch.equal(alone[0], whole[row])
    parts = [part for row in whole for part in row.split(64)]
    assert all(not torch.equal(a[:8], b[:8]) for i, a in enumerate(parts) for b in parts[:i])


def _on_device(noise):
    """`_rounded` as it is for values on a device."""
    from tacit.privacy.device_noise import rounded_on_device
    from tacit.privacy.noise_grid import check_scale, grid

    def rounded(x, scale, nodes, strict=True, grid_scale=None):
        check_scale(scale, x.dtype, nodes)
        finest = scale if grid_scale is None else np.full_like(scale, grid_scale)
        return rounded_on_device(x, grid(finest)[:, None], noise._NODE_SAMPLES, strict=strict)

    return rounded


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_the_noise_of_devices_has_the_stated_law(law, dtype):
    x = torch.zeros(2, 200_000, dtype=dtype)
    getattr(OnDevice.from_seed(1), f"{law}_")(x, np.array([1.0, 3.0]), "noise/g", np.array([0, 1]), 0)
    exact = scipy.stats.norm if law == "gaussian" else scipy.stats.laplace
    for row, scale in zip(x.double().numpy(), (1.0, 3.0), strict=True):
        assert scipy.stats.kstest(row / scale, exact.cdf).statistic < 0.0055  # the grid alone moves it by up to 0.0032
        assert row.std() / scale == pytest.approx(exact.std(), rel=0.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_values_of_any_size_are_rounded_as_in_main_memory(law, strict, dtype, monkeypatch):
    from tacit.privacy import noise

    g, most = 2.0**-6, 2 / torch.finfo(dtype).eps
    sizes = [0.0, 0.3, 1e3, g * most / 4, g * most / 2, g * most, 1.5 * g * most, 1e30, torch.inf, torch.nan]
    values = torch.tensor([[*sizes, *(-size for size in sizes)]] * 3, dtype=dtype).repeat(1, 20)
    scale, nodes = np.array([1.0, 1.0, 0.0]), np.arange(3)
    found = []
    for rounded in (noise._rounded, _on_device(noise)):
        monkeypatch.setattr(noise, "_rounded", rounded)
        x = values.clone()
        getattr(OnDevice.from_seed(0), f"{law}_")(x, scale, "noise/g", nodes, 1, strict=strict)
        found.append(x)
    assert torch.equal(found[0][:2].nan_to_num(1.5), found[1][:2].nan_to_num(1.5))
    assert torch.equal(found[0].isnan(), found[1].isnan())
    if strict:
        assert found[1][:2].isfinite().all()
        assert not (found[1] == 0).logical_and(found[1].signbit()).any()
