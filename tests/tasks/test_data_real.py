"""The published data sets, if they are on this machine."""

import io
import tarfile

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.tasks.data import datasets, images
from tacit.tasks.data.files import DataFile, sha256
from tacit.tasks.data.published import limited
from tests.helpers import content_digest


@pytest.fixture(autouse=True)
def folder(data_folder):
    return data_folder


def need(folder, path):
    if not any((folder / f"{path}{end}").is_file() for end in ("", ".gz")):
        pytest.skip(f"{folder} has no {path}")


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_mnist_and_fashion(folder, name):
    need(folder, f"{name}/train-images-idx3-ubyte.gz")
    data = datasets.build(name)
    assert data.name == name
    assert (data.inputs, data.classes) == ((1, 28, 28), 10)
    assert (len(data.x), len(data.test_x)) == (60_000, 10_000)
    assert (data.x.min(), data.x.max(), data.test_x.max()) == (0, 1, 1)
    counts = {
        "mnist": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
        "fashion-mnist": [6000] * 10,
    }
    assert data.y.bincount().tolist() == counts[name]
    mean = {"mnist": 0.1307, "fashion-mnist": 0.2860}  # published values
    assert data.x.mean().item() == pytest.approx(mean[name], abs=1e-4)
    unit = limited(data, 500).normalised("unit")
    assert unit.y.bincount(minlength=10).min() >= 45
    assert torch.allclose(unit.x.flatten(1).norm(dim=1), torch.ones(500))


def test_cifar_subset(folder):
    need(folder, "cifar10/cifar10_10k.npz")
    data = datasets.build("cifar10", {"edition": "10k"})
    assert (data.name, data.inputs) == ("cifar10-10k", (3, 32, 32))
    assert data.y.bincount().tolist() == [1000] * 10
    assert data.test_y.bincount().tolist() == [200] * 10
    # standardised with the values of the full set, so the subset is only approximately standardised
    assert data.x.mean((0, 2, 3)).abs().max() < 0.02
    assert (data.x.std((0, 2, 3)) - 1).abs().max() < 0.02
    if not (folder / images.CIFAR.path).is_file() and images.CIFAR.local() is None:
        assert datasets.build("cifar10").name == "cifar10-10k"


def test_cifar_full_reads_the_original_format(folder, tmp_path, monkeypatch):
    """The subset, written in the format of the full set, is read back unchanged."""
    need(folder, "cifar10/cifar10_10k.npz")
    subset = datasets.build("cifar10", {"edition": "10k"})
    with np.load(folder / "cifar10/cifar10_10k.npz") as file:
        pixels = {part: file[f"x_{part}"].transpose(0, 3, 1, 2).reshape(-1, 3072) for part in ("train", "test")}
        labels = {part: file[f"y_{part}"].astype(np.uint8) for part in pixels}
    rows = {part: np.column_stack([labels[part], pixels[part]]) for part in pixels}
    parts = {f"data_batch_{i + 1}": part for i, part in enumerate(np.split(rows["train"], 5))}
    archive = tmp_path / images.CIFAR.path
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for name, content in [("test_batch", rows["test"]), *reversed(parts.items())]:
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            info.size = content.size
            tar.addfile(info, io.BytesIO(content.tobytes()))
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    with pytest.raises(TacitError, match="is damaged or another version"):
        datasets.build("cifar10")
    monkeypatch.setattr(images, "CIFAR", DataFile(images.CIFAR.path, sha256(archive)))
    full = datasets.build("cifar10")
    assert full.name == "cifar10"
    for part in ("x", "y", "test_x", "test_y"):
        assert torch.equal(getattr(full, part), getattr(subset, part))


@pytest.mark.parametrize(
    ("name", "inputs", "counts", "test_counts"),
    [
        ("a9a", 123, [24720, 7841], [12435, 3846]),
        ("w8a", 300, [38616, 1183], [9654, 296]),
        ("mushrooms", 112, [3133, 3366], [783, 842]),
    ],
)
def test_libsvm(folder, name, inputs, counts, test_counts):
    need(folder, f"libsvm/{name}")
    data = datasets.build(name)
    assert (data.name, data.inputs) == (name, (inputs,))
    assert data.y.bincount().tolist() == counts
    assert data.test_y.bincount().tolist() == test_counts
    assert set(data.x.unique().tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("name", "options", "digest"),
    [
        ("a9a", {}, "464e5f3beba6ca1a"),
        ("w8a", {}, "4f113c7069deeee1"),
        ("mushrooms", {}, "8ec68a4f7080adf4"),
        ("mushrooms", {"limit": 500}, "82a81dd548d0d46e"),
    ],
)
def test_splits_of_libsvm_files_are_constants(folder, name, options, digest):
    need(folder, f"libsvm/{name}")
    data = datasets.build(name, options)
    assert (content_digest(data), data.declared, data.split) == (digest, True, None)


def test_a9a_can_be_learned(folder):
    """Logistic regression reaches 84.95 % on a9a.t, which shows that records and labels match."""
    need(folder, "libsvm/a9a")
    data = datasets.build("a9a")
    weights = torch.linalg.lstsq(torch.cat([data.x, torch.ones(len(data.x), 1)], 1), 2.0 * data.y - 1, driver="gelsd")
    scores = torch.cat([data.test_x, torch.ones(len(data.test_x), 1)], 1) @ weights.solution
    assert ((scores > 0) == data.test_y).float().mean() > 0.84


def test_coil_as_npz(folder):
    need(folder, "coil20/coil20_32x32.npz")
    data = datasets.build("npz", {"path": folder / "coil20/coil20_32x32.npz"})
    assert (data.inputs, data.classes, len(data.x) + len(data.test_x)) == ((1024,), 20, 1440)
