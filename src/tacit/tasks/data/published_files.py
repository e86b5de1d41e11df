"""Which files the published data sets consist of."""

from tacit.tasks.data.files import DataFile
from tacit.tasks.data.images import CIFAR, CIFAR_10K, IDX_DIGESTS, idx_files
from tacit.tasks.data.libsvm import libsvm_file

_LIBSVM = {"a9a": ("a9a", "a9a.t"), "w8a": ("w8a",), "mushrooms": ("mushrooms",)}


def published_files() -> dict[str, tuple[DataFile, ...]]:
    """Return the files of each data set that is not part of the package. The two editions of CIFAR-10 are apart."""
    return {
        **{name: idx_files(name) for name in IDX_DIGESTS},
        "cifar10": (CIFAR,),
        "cifar10 (10k edition)": (CIFAR_10K,),
        **{name: tuple(map(libsvm_file, files)) for name, files in _LIBSVM.items()},
    }
