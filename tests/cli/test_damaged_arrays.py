"""Array files that numpy cannot read without pickle: one sentence, without numpy's advice to allow pickle."""

import io

import numpy as np
import pytest
import torch

import tacit as package
from tests.cli.conftest import QUICK, setting


class Hostile:
    """Unpickling an object of this class writes a file."""

    def __reduce__(self):
        return (open, ("hostile", "w"))


def object_arrays(path):
    hostile = np.array([Hostile()], dtype=object)
    np.savez(path, allow_pickle=True, x=hostile, y=hostile, X=hostile, signals=hostile)


def object_array(path):
    with path.open("wb") as file:
        np.save(file, np.array([Hostile()], dtype=object), allow_pickle=True)


FILES = {
    "object arrays": object_arrays,
    "one object array": object_array,
    "one numeric array": lambda path: path.write_bytes(_npy(np.arange(4.0))),
    "pickle": lambda path: torch.save({"x": 1}, path, _use_new_zipfile_serialization=False),
    "torch file": lambda path: torch.save({"x": torch.zeros(2)}, path),
    "text": lambda path: path.write_text("hello"),
    "empty": lambda path: path.write_bytes(b""),
    "half an archive": lambda path: (np.savez(path, x=np.zeros((9, 4)), y=np.zeros(9)), _halve(path)),
}


def _npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _halve(path):
    path.write_bytes(path.read_bytes()[:200])


COMMANDS = {
    "train": ["train", *setting("data=npz", "data.path=bad.npz"), *QUICK],
    "inspect": ["inspect", "bad.npz"],
    "predict": ["predict", "run", "bad.npz"],
    "learn-graph": ["learn-graph", "bad.npz", "--epsilon", "4", "--clip", "20", "--seed", "0"],
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    package.train(nodes=4, rounds=1, epsilon=2.0, out=folder / "run")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("file", FILES)
def test_numpy_does_not_advise_pickle(command, file, trained, tacit, tmp_path):
    FILES[file](tmp_path / "bad.npz")
    (tmp_path / "run").symlink_to(trained / "run")
    ended = tacit(*COMMANDS[command])
    assert ended.code == 2
    text = ended.err + ended.out
    assert "pickle" not in text
    assert "Traceback" not in text
    assert ".npz" in text
    assert not (tmp_path / "hostile").exists()


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    pytest.importorskip("grpc")
    from tacit.sites import create_network

    folder = tmp_path_factory.mktemp("sites") / "network"
    create_network(folder, 2)
    return folder


@pytest.mark.parametrize("file", FILES)
def test_a_site_does_not_advise_pickle(file, network):
    from tacit.sites import SiteConfig, build_site

    FILES[file](network / "site-1/records.npz")
    with pytest.raises(package.TacitError, match=r"records\.npz") as caught:
        build_site(SiteConfig.load(network / "site-1/node.toml"))
    assert "pickle" not in str(caught.value)


def test_python_does_not_advise_pickle(tmp_path):
    for write in FILES.values():
        write(tmp_path / "bad.npz")
        with pytest.raises(package.TacitError) as caught:
            package.datasets.build("npz", {"path": tmp_path / "bad.npz"})
        assert "pickle" not in str(caught.value)
