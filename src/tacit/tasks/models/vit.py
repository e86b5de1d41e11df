"""A small Vision Transformer. Every parameter is in a layer with cheap per-record gradient norms."""

import torch
from torch import Tensor, nn

from tacit.errors import TacitError
from tacit.tasks.models.per_record import per_record
from tacit.tasks.models.registry import Size, image_shape, models


@per_record
class PositionEmbedding(nn.Module):
    """Adds one learned vector per position. It is a module so that the ghost engine can observe its calls."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(length, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight


@per_record
class Attention(nn.Module):
    """softmax(q kᵀ / √width) v over the positions of records (B, positions, width), in several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(2, (self.heads, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
        mixed: Tensor = self.out((weights @ v).transpose(1, 2).flatten(2))
        return mixed


@per_record
class TransformerBlock(nn.Module):
    """x + attention(norm x), then x + mlp(norm x)."""

    def __init__(self, width: int, heads: int, expand: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, expand * width), nn.GELU(), nn.Linear(expand * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


@per_record
class ViT(nn.Module):
    """Embedding of patches, transformer blocks, mean over positions, a linear layer."""

    def __init__(
        self,
        channels: int,
        length: int,
        classes: int,
        patch: int,
        width: int,
        depth: int,
        heads: int,
        expand: int,
    ) -> None:
        super().__init__()
        self.embed = nn.Conv2d(channels, width, patch, stride=patch)
        self.position = PositionEmbedding(length, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads, expand) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        h = self.blocks(self.position(self.embed(x).flatten(-2).mT))
        logits: Tensor = self.head(self.norm(h).mean(dim=-2))
        return logits


@models.register("vit")
def vit(
    inputs: tuple[int, ...],
    classes: int,
    patch: Size = 4,
    width: Size = 64,
    depth: Size = 4,
    heads: Size = 4,
    expand: Size = 2,
) -> nn.Module:
    """Vision Transformer, small: square patches, learned positions, mean pooling.

    Args:
        patch: Side of a square patch in pixels; it must divide the sides of the image.
        width: Length of the vector of each patch.
        depth: Number of transformer blocks.
        heads: Number of attention heads; it must divide the width.
        expand: Hidden units of each block as a multiple of the width.

    >>> vit((3, 32, 32), 10)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    channels, height, breadth = image_shape("vit", inputs)
    if height % patch or breadth % patch:
        raise TacitError(f"model vit: patch must divide the image size {height}×{breadth}, got {patch}")
    if width % heads:
        raise TacitError(f"model vit: heads must divide width = {width}, got {heads}")
    length = (height // patch) * (breadth // patch)
    return ViT(channels, length, classes, patch, width, depth, heads, expand)
