"""Residual networks for small images, with group normalisation."""

import math

from torch import Tensor, nn
from torch.nn import functional as F

from tacit.tasks.models.per_record import per_record
from tacit.tasks.models.registry import Size, image_shape, models


def _norm(channels: int) -> nn.GroupNorm:
    """Group normalisation with at most 16 groups of at least 4 channels. A group of one value would become zero."""
    return nn.GroupNorm(math.gcd(channels, min(16, max(1, channels // 4))), channels)


@per_record
class ResidualBlock(nn.Module):
    """relu(norm(conv(relu(norm(conv x)))) + shortcut x)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.norm1 = _norm(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = _norm(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride=stride, bias=False), _norm(after))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(h + self.shortcut(x))


@per_record
class ResNet(nn.Module):
    """A 3×3 convolution, stages that halve the image and double the channels, mean over pixels, a linear layer."""

    def __init__(self, channels: int, classes: int, blocks: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(channels, width, 3, padding=1, bias=False), _norm(width), nn.ReLU())
        stages, before = [], width
        for stage, count in enumerate(blocks):
            after = width * 2**stage
            for i in range(count):
                stages.append(ResidualBlock(before, after, stride=2 if stage and i == 0 else 1))
                before = after
        self.blocks = nn.Sequential(*stages)
        self.head = nn.Linear(before, classes)

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.blocks(self.stem(x))
        logits: Tensor = self.head(h.mean(dim=(2, 3)))
        return logits


@models.register("resnet10")
def resnet10(inputs: tuple[int, ...], classes: int, width: Size = 64) -> nn.Module:
    """ResNet-10 with group normalisation, for small images.

    Args:
        width: Channels of the first stage; each further stage doubles them.

    >>> import torch
    >>> resnet10((3, 32, 32), 10, width=4)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    return ResNet(image_shape("resnet10", inputs)[0], classes, (1, 1, 1, 1), width)


@models.register("resnet18")
def resnet18(inputs: tuple[int, ...], classes: int, width: Size = 64) -> nn.Module:
    """ResNet-18 with group normalisation, for small images: 11.2 million parameters.

    Args:
        width: Channels of the first stage; each further stage doubles them.

    >>> import torch
    >>> resnet18((3, 32, 32), 10, width=4)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    return ResNet(image_shape("resnet18", inputs)[0], classes, (2, 2, 2, 2), width)
