import shutil

import pytest
import torch

from .grpc_sites import Certificates, GrpcPair
from .manual_sites import ManualSite
from .small_network import BASE, create_small_network


@pytest.fixture
def site_pair(tmp_path):
    return ManualSite(tmp_path, "a"), ManualSite(tmp_path, "b")


@pytest.fixture(scope="session")
def certs(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def grpc_pair(tmp_path, certs):
    """Two connected sites after their first round."""
    pair = GrpcPair(tmp_path, certs)
    pair.check_round()
    yield pair
    pair.close()


@pytest.fixture
def one_torch_thread():
    """Limit torch to one thread: each site has its own threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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
