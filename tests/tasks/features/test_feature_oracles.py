"""Features against naive code with loops, written from their definitions."""

import cmath
import math

import numpy as np
import torch

from tacit.tasks import Dataset, build_features
from tacit.tasks.features import PixelScale
from tacit.tasks.features.shapes import random_shapes
from tacit.tasks.features.whitening import Whitening


def _pictures(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).random(shape).astype(np.float32)


def _dataset(x: np.ndarray, **more: object) -> Dataset:
    data = Dataset.from_arrays(x, np.arange(len(x)) % 2, test=0.0, labels=[0, 1])
    return Dataset("own", data.x, data.y, data.x, data.y, data.target, **more)


def _unit(values: np.ndarray) -> np.ndarray:
    return values / max(np.linalg.norm(values), 1e-12)


def _naive_gradients(picture: np.ndarray) -> np.ndarray:
    channels, height, width = picture.shape
    shares = np.zeros((8, height + 2, width + 2))
    for i in range(height):
        for j in range(width):
            best, angle = -1.0, 0.0
            for c in range(channels):
                at = lambda a, b: picture[c, min(max(a, 0), height - 1), min(max(b, 0), width - 1)]  # noqa: B023, E731
                across, down = (at(i, j + 1) - at(i, j - 1)) / 2, (at(i + 1, j) - at(i - 1, j)) / 2
                if math.hypot(across, down) > best:
                    best, angle = math.hypot(across, down), math.atan2(down, across)
            turn = (angle % math.pi) / math.pi * 8
            low = math.floor(turn)
            shares[low % 8, i + 1, j + 1] += best * (1 - (turn - low))
            shares[(low + 1) % 8, i + 1, j + 1] += best * (turn - low)
    rows, columns = (height + 2 - 6) // 4 + 1, (width + 2 - 6) // 4 + 1
    fields = [
        shares[o, 4 * i : 4 * i + 6, 4 * j : 4 * j + 6].sum() / 36
        for o in range(8)
        for i in range(rows)
        for j in range(columns)
    ]
    small = [
        picture[c, 4 * i : 4 * i + 4, 4 * j : 4 * j + 4].mean()
        for c in range(channels)
        for i in range(height // 4)
        for j in range(width // 4)
    ]
    joint = np.concatenate([_unit(np.sqrt(fields)), _unit(np.array(small))])
    return _unit(joint)


def test_oriented_gradients_equal_the_naive_ones() -> None:
    for shape in ((3, 1, 28, 28), (2, 3, 12, 16)):
        x = _pictures(*shape)
        made = build_features(["gradients"], _dataset(x))
        found = made(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(found, np.stack([_naive_gradients(each.astype(float)) for each in x]), atol=1e-5)
    assert build_features(["gradients"], _dataset(_pictures(2, 1, 28, 28))).description.values == 441


def _moduli(picture: np.ndarray) -> np.ndarray:
    """Moduli (8, H, W) of the convolutions with Morlet filters, with a reflected border."""
    sigma, frequency = 0.8, 3 * math.pi / 4
    padded = np.pad(picture, 3, mode="reflect")
    found = np.zeros((8, *picture.shape))
    for angle in range(8):
        theta = angle * math.pi / 8
        gaussian, wave = np.zeros((7, 7)), np.zeros((7, 7), complex)
        for i in range(7):
            for j in range(7):
                u, v = i - 3, j - 3
                gaussian[i, j] = math.exp(-(u * u + v * v) / (2 * sigma**2))
                wave[i, j] = cmath.exp(1j * frequency * (v * math.cos(theta) + u * math.sin(theta)))
        gaussian /= gaussian.sum()
        psi = gaussian * (wave - (gaussian * wave).sum())
        for i in range(picture.shape[0]):
            for j in range(picture.shape[1]):
                found[angle, i, j] = abs((padded[i : i + 7, j : j + 7] * psi).sum())
    return found


def _pool(picture: np.ndarray, size: int) -> np.ndarray:
    height, width = picture.shape[-2] // size, picture.shape[-1] // size
    return picture.reshape(*picture.shape[:-2], height, size, width, size).mean(axis=(-3, -1))


def _naive_scattering(picture: np.ndarray) -> np.ndarray:
    zero, first, second = [], [], []
    for channel in picture:
        fine, coarse = _moduli(channel), _moduli(_pool(channel, 2))
        zero.append(_pool(channel, 4))
        first += [np.sqrt(_pool(fine, 4)), np.sqrt(_pool(coarse, 2))]
        for path in fine:
            for low in np.sqrt(_pool(_moduli(_pool(path, 2)), 2)):
                rows, columns = (low.shape[0] - 3) // 2 + 1, (low.shape[1] - 3) // 2 + 1
                second += [
                    low[2 * i : 2 * i + 3, 2 * j : 2 * j + 3].mean() for i in range(rows) for j in range(columns)
                ]
    orders = [np.array(zero), np.array(first), np.array(second)]
    return _unit(np.concatenate([_unit(order.ravel()) for order in orders]))


def test_scattering_equals_the_naive_one() -> None:
    for shape in ((2, 1, 28, 28), (1, 2, 12, 16)):
        x = _pictures(*shape)
        found = build_features(["scattering"], _dataset(x))(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(found, np.stack([_naive_scattering(each.astype(float)) for each in x]), atol=1e-5)
    assert build_features(["scattering"], _dataset(_pictures(2, 1, 28, 28))).description.values == 1409


def test_whitening_equals_the_naive_one() -> None:
    rng = np.random.default_rng(0)
    public, x = rng.random((200, 6)), rng.random((5, 6))
    mean = public.mean(axis=0)
    z = np.stack([_unit(row - mean) for row in public])
    values, vectors = np.linalg.eigh(sum(np.outer(row, row) for row in z) / len(z))
    for rank in (None, 4):
        found = Whitening.fit(torch.from_numpy(public), rank)(torch.from_numpy(x).float()).numpy()
        keep = list(range(6))[::-1][:rank]
        naive = np.stack([_unit((_unit(row - mean) @ vectors[:, keep]) / np.sqrt(values[keep] + 0.001)) for row in x])
        signs = np.sign((found * naive).sum(axis=0))  # an eigenvector has two signs
        np.testing.assert_allclose(found, naive * signs, atol=1e-5)


def test_shapes_are_deterministic_pictures_in_the_scale_of_the_data() -> None:
    one, again = random_shapes((3, 16, 12), count=30), random_shapes((3, 16, 12), count=30)
    assert torch.equal(one, again)
    assert one.shape == (30, 3, 16, 12)
    assert float(one.min()) >= 0
    assert float(one.max()) <= 1
    assert float(one.std()) > 0.1
    scaled = random_shapes((3, 16, 12), PixelScale((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)), count=30)
    torch.testing.assert_close(scaled[:, 1], (one[:, 1] - 0.4) / 0.3)
