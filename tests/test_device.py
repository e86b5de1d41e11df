"""The names of devices: what each of them is, here and on a machine that has such devices."""

import pytest
import torch

from tacit.device import DEVICE_PATTERN, choose_device
from tacit.errors import TacitError
from tacit.runs import Config
from tacit.sites.site_config import SiteConfig


@pytest.fixture
def machine(monkeypatch):
    """Pretends that there are so many CUDA devices, and a GPU of Apple."""

    def pretend(cuda, *, mps=False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return pretend


@pytest.mark.parametrize(
    ("cuda", "mps", "name", "rank", "expected"),
    [
        (0, False, "auto", None, "cpu"),
        (0, True, "auto", None, "mps"),
        (2, True, "auto", None, "cuda:0"),
        (2, False, "cuda", None, "cuda:0"),
        (2, False, "cuda:1", None, "cuda:1"),
        (2, False, "cpu", 1, "cpu"),
        (2, False, "cuda", 1, "cuda:1"),
        (2, False, "auto", 1, "cuda:1"),
        (2, True, "mps", None, "mps"),
    ],
)
def test_the_device_of_a_name(machine, cuda, mps, name, rank, expected):
    machine(cuda, mps=mps)
    assert str(choose_device(name, rank)) == expected


@pytest.mark.parametrize(
    ("cuda", "name", "rank", "words"),
    [
        (0, "cuda", None, 'device = "cuda": this machine or this build of PyTorch has no CUDA device. Use "auto"'),
        (1, "cuda:1", None, "has 1 CUDA device. Use"),
        (2, "cuda", 2, "has 2 CUDA devices, and each process needs one of its own"),
        (2, "mps", None, "has no such device"),
        (2, "cuda:x", None, 'device must be "auto", "cpu", "cuda", "cuda:1"'),
    ],
)
def test_devices_that_do_not_exist_are_refused(machine, cuda, name, rank, words):
    machine(cuda)
    with pytest.raises(TacitError, match=words):
        choose_device(name, rank)


def test_products_on_cuda_have_full_precision(machine, monkeypatch):
    machine(1)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    choose_device("cuda")
    assert torch.backends.cudnn.allow_tf32 is False


@pytest.mark.parametrize("name", ["gpu", "cuda:", "CUDA", "cpu:0", "mps:1", ""])
def test_other_names_are_refused_in_every_config(name):
    with pytest.raises(TacitError, match="device"):
        Config.parse({"device": name})
    patterns = [each.model_fields["device"].metadata[0].pattern for each in (Config, SiteConfig)]
    assert patterns == [DEVICE_PATTERN] * 2


@pytest.mark.parametrize("arguments", [["--device", "cuda"], ["--set", "device=cuda"]])
def test_the_command_refuses_a_device_that_does_not_exist_before_it_writes_anything(tacit, tmp_path, arguments):
    ended = tacit("train", *arguments, "--out", tmp_path / "run")
    assert ended.code == 2
    assert 'device = "cuda": this machine or this build of PyTorch has no CUDA device' in ended.err
    assert not (tmp_path / "run").exists()
