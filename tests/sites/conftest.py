import shutil

import pytest

from .built import BASE, made
from .cases import Desk


@pytest.fixture
def two(tmp_path):
    return Desk(tmp_path, "a"), Desk(tmp_path, "b")


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """Three sites with secret keys, to be copied."""
    folder = tmp_path_factory.mktemp("ready") / "net"
    made(folder, BASE)
    return folder


@pytest.fixture
def node(ready, tmp_path):
    shutil.copytree(ready, tmp_path / "net")
    return tmp_path / "net" / "site-2" / "node.toml"
