"""Image data sets in the original file formats: MNIST, Fashion-MNIST, CIFAR-10."""

import gzip
import tarfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.tasks.data.dataset import Dataset, datasets
from tacit.tasks.data.files import DataFile
from tacit.tasks.data.normalising import Normalise
from tacit.tasks.data.published import prepared
from tacit.tasks.features import PixelScale
from tacit.tasks.target import Target

Bytes = NDArray[np.uint8]
Edition = Literal["any", "full", "10k"]

IDX_FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
IDX_DIGESTS = {
    "mnist": (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    "fashion-mnist": (
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
}
IDX_ADDRESSES = {
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    "fashion-mnist": (
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
}
CIFAR = DataFile(
    "cifar10/cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
)
CIFAR_10K = DataFile("cifar10/cifar10_10k.npz", "8837acb9a520e08f83ad95007104ec0a2f2f076095a675248749d9c6a5d219bb")
CIFAR_MEAN = (0.49139968, 0.48215841, 0.44653091)
CIFAR_STD = (0.24703223, 0.24348513, 0.26158784)


@datasets.register("mnist")
def mnist(limit: int | None = None, normalise: Normalise = "none") -> Dataset:
    """MNIST: 60,000 + 10,000 handwritten digits of 28 × 28 pixels, in [0, 1]."""
    return prepared(_idx("mnist"), limit, normalise)


@datasets.register("fashion-mnist")
def fashion_mnist(limit: int | None = None, normalise: Normalise = "none") -> Dataset:
    """Fashion-MNIST: 60,000 + 10,000 images of clothes with 28 × 28 pixels, in [0, 1]."""
    return prepared(_idx("fashion-mnist"), limit, normalise)


@datasets.register("cifar10")
def cifar10(edition: Edition = "any", limit: int | None = None, normalise: Normalise = "none") -> Dataset:
    """CIFAR-10: 50,000 + 10,000 colour images of 32 × 32 pixels, or a subset of 10,000 + 2,000.

    Channels come first. They are standardised with the published mean and standard deviation. `edition` "any" uses the
    full set if it is on this machine, else the subset if that is, and otherwise downloads the full set. The subset is
    named cifar10-10k, so that its results are not mistaken for results on the full set.

    Args:
        edition: "full", "10k" (the subset), or "any".
    """
    if edition == "full":
        data = _cifar_full(CIFAR.get())
    elif edition == "10k":
        data = _cifar_subset(CIFAR_10K.get())
    elif (path := CIFAR.local()) is None and (subset := CIFAR_10K.local()) is not None:
        data = _cifar_subset(subset)
    else:
        data = _cifar_full(path or CIFAR.get())
    return prepared(data, limit, normalise)


def idx_files(name: str) -> tuple[DataFile, ...]:
    """Return the files of MNIST or Fashion-MNIST."""
    return tuple(
        DataFile(f"{name}/{file}", digest, tuple(address + file for address in IDX_ADDRESSES[name]))
        for file, digest in zip(IDX_FILES, IDX_DIGESTS[name], strict=True)
    )


def _idx(name: str) -> Dataset:
    arrays = []
    for file in idx_files(name):
        path = file.get()
        header = 16 if "images" in file.path else 8
        arrays.append(np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=header))
    x, y, test_x, test_y = arrays
    return _dataset(name, x.reshape(-1, 1, 28, 28), y, test_x.reshape(-1, 1, 28, 28), test_y, (0.0,), (1.0,))


def _cifar_full(path: Path) -> Dataset:
    """Read the original binary format: per record a label byte, then 3 × 32 × 32 pixels."""
    batches: dict[str, Bytes] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            if member.name.endswith(".bin") and (file := archive.extractfile(member)) is not None:
                batches[Path(member.name).stem] = np.frombuffer(file.read(), np.uint8).reshape(-1, 3073)
    train = np.concatenate([batches[f"data_batch_{i}"] for i in range(1, 6)])
    test = batches["test_batch"]
    x, test_x = (part[:, 1:].reshape(-1, 3, 32, 32) for part in (train, test))
    return _dataset("cifar10", x, train[:, 0], test_x, test[:, 0], CIFAR_MEAN, CIFAR_STD)


def _cifar_subset(path: Path) -> Dataset:
    with np.load(path, allow_pickle=False) as file:
        x, test_x = (file[key].transpose(0, 3, 1, 2) for key in ("x_train", "x_test"))
        y, test_y = file["y_train"], file["y_test"]
    return _dataset("cifar10-10k", x, y, test_x, test_y, CIFAR_MEAN, CIFAR_STD)


def _dataset(
    name: str,
    x: Bytes,
    y: NDArray[Any],
    test_x: Bytes,
    test_y: NDArray[Any],
    mean: tuple[float, ...],
    std: tuple[float, ...],
) -> Dataset:
    shift, scale = (torch.tensor(values).view(-1, 1, 1) for values in (mean, std))

    def to_tensor(pixels: Bytes) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(pixels, np.float32)).div_(255).sub_(shift).div_(scale)

    labels, test_labels = (torch.from_numpy(part.astype(np.int64)) for part in (y, test_y))
    pixels = PixelScale(mean, std)
    parts = to_tensor(x), labels, to_tensor(test_x), test_labels
    return Dataset(name, *parts, target=Target.of_classes(10), pixels=pixels)
