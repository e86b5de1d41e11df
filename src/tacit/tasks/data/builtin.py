"""Data sets without files: scikit-learn's digits, and records drawn from a logistic model."""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tacit.errors import TacitError
from tacit.tasks.data.dataset import Dataset, datasets
from tacit.tasks.data.normalising import Normalise
from tacit.tasks.data.published import prepared, with_fixed_split
from tacit.tasks.target import Target

Array = npt.NDArray[Any]


@datasets.register("digits")
def digits(limit: int | None = None, normalise: Normalise = "none") -> Dataset:
    """1,797 handwritten digits of 8 × 8 pixels, included in scikit-learn: no download.

    >>> digits()
    Dataset digits: 1437 records of (1, 8, 8) in 10 classes, 360 for testing
    """
    x, y = _read_digits()
    data = with_fixed_split(x.reshape(-1, 1, 8, 8) / 16, y.copy(), "digits", range(10))
    return prepared(data, limit, normalise)


@lru_cache(maxsize=1)
def _read_digits() -> tuple[Array, Array]:
    from sklearn.datasets import load_digits  # slow to import

    x, y = load_digits(return_X_y=True)
    return x, y


@datasets.register("synthetic-logistic")
def synthetic_logistic(
    records: int = 10_000,
    dimension: int = 5,
    noise: float = 1.0,
    test_records: int = 1_000,
    seed: int = 0,
    normalise: Normalise = "none",
    weight_norm: float | None = None,
) -> Dataset:
    """Records drawn from a logistic model with random weights, with the size of LT-ADMM-DP's example.

    a, w ~ N(0, I). The label is 1 if aᵀw + noise·e > 0 with e standard logistic, so that
    P(1 | a) = 1/(1 + exp(−aᵀw/noise)). With noise = 0 the classes are separable. The paper does not define a generator;
    this one is our own.

    Args:
        records: Number of training records.
        dimension: Number of features.
        noise: Scale of the noise on the labels.
        test_records: Number of test records.
        seed: Seed of the generator.
        weight_norm: The norm to which w is scaled; None keeps w as it is drawn.

    >>> synthetic_logistic(records=100, dimension=3)
    Dataset synthetic-logistic: 100 records of (3,) in 2 classes, 1000 for testing
    """
    for name, value in (("records", records), ("dimension", dimension), ("test_records", test_records)):
        if value < 1:
            raise TacitError(f"data set synthetic-logistic: {name} must be at least 1, got {value}")
    if not 0 <= noise < np.inf:
        raise TacitError(f"data set synthetic-logistic: noise must be finite and at least 0, got {noise}")
    if weight_norm is not None and not 0 < weight_norm < np.inf:
        raise TacitError(f"data set synthetic-logistic: weight_norm must be positive and finite, got {weight_norm}")
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(dimension)
    if weight_norm is not None:
        w *= weight_norm / np.linalg.norm(w)
    a = rng.standard_normal((records + test_records, dimension))
    labels = (a @ w + noise * rng.logistic(size=len(a)) > 0).astype(np.int64)
    x, y = torch.from_numpy(a.astype(np.float32)), torch.from_numpy(labels)
    parts = (x[:records], y[:records], x[records:], y[records:])
    return Dataset("synthetic-logistic", *parts, target=Target.of_classes(2)).normalised(normalise)
