import shutil

import pytest

from .cases import Desk
from .small_network import BASE, create_small_network


@pytest.fixture
def two(tmp_path):
    return Desk(tmp_path, "a"), Desk(tmp_path, "b")


@pytest.fixture(scope="module")
def three_sites(tmp_path_factory):
    """The folder of a network of three sites, which tests copy."""
    folder = tmp_path_factory.mktemp("three_sites") / "net"
    create_small_network(folder, BASE)
    return folder


@pytest.fixture
def node(three_sites, tmp_path):
    """node.toml of the second of three sites."""
    shutil.copytree(three_sites, tmp_path / "net")
    return tmp_path / "net" / "site-2" / "node.toml"
