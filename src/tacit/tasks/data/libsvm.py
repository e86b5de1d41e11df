"""Three LIBSVM data sets."""

import hashlib
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tacit.tasks.data.dataset import Dataset, datasets
from tacit.tasks.data.files import DataFile
from tacit.tasks.data.normalising import Normalise
from tacit.tasks.data.published import prepared, with_fixed_split

ADDRESS = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
DIGESTS = {
    "a9a": "6e5185cecd7829df8cf37437adece2edbe58a4102dc0e95aeb3b275359df8a6b",
    "a9a.t": "666a35bdca57674e06e552c42dd27e18698b91a7372739c75c08bf6f485160a1",
    "w8a": "498eac95ea22fd0a7372d7903c1609dbb45dbea9a1e53c14a4d17a3d1e596353",
    "mushrooms": "89ca8acd811c3bf412320f4207ee20200bf70a896090b76efe0f66db9487e7c0",
}


@datasets.register("a9a")
def a9a(limit: int | None = None, normalise: Normalise = "none") -> Dataset:
    """LIBSVM a9a (UCI Adult): 32,561 + 16,281 people, 123 binary features, is income over 50,000 dollars?"""
    data = Dataset.from_arrays(*_read("a9a", 123), test=_read("a9a.t", 123), name="a9a", labels=[-1, 1])
    return prepared(data, limit, normalise)


@datasets.register("w8a")
def w8a(limit: int | None = None, normalise: Normalise = "none") -> Dataset:
    """LIBSVM w8a: 49,749 web pages, 300 binary features, 3 % positive; a fixed 20 % is held out."""
    return prepared(with_fixed_split(*_read("w8a", 300), "w8a", [-1, 1]), limit, normalise)


@datasets.register("mushrooms")
def mushrooms(limit: int | None = None, normalise: Normalise = "none") -> Dataset:
    """LIBSVM mushrooms: 8,124 mushrooms, 112 binary features, edible or not; a fixed 20 % is held out."""
    return prepared(with_fixed_split(*_read("mushrooms", 112), "mushrooms", [1, 2]), limit, normalise)


def libsvm_file(name: str) -> DataFile:
    """Return a file of the LIBSVM page."""
    return DataFile(f"libsvm/{name}", DIGESTS[name], (ADDRESS + name,), measure=_digest)


def _read(name: str, features: int) -> tuple[NDArray[Any], NDArray[Any]]:
    x, y = _parsed(libsvm_file(name).get(), features)
    return x.toarray(), y


def _parsed(path: Path, features: int | None = None) -> Any:
    from sklearn.datasets import load_svmlight_file  # slow to import

    return load_svmlight_file(str(path), n_features=features)


def _digest(path: Path) -> str:
    """Return the sha256 of the parsed content. The files exist in several compressions without published checksums."""
    x, y = _parsed(path)
    x.sort_indices()
    total = hashlib.sha256()
    for part, kind in ((y, "<f8"), (x.indptr, "<i8"), (x.indices, "<i8"), (x.data, "<f8")):
        total.update(part.astype(kind).tobytes())
    return total.hexdigest()
