"""Patches of images: the input of each output position of a convolution as one row of a matrix, and back.

Images are (N, C, H, W) in the memory format channels last, so that the channels of adjacent pixels are adjacent.
"""

import torch
from torch import Tensor, nn

NARROW = 32  # numbers per row of a kernel below which patches are made in two steps (measured: twice as fast)


def unfold(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """Return the patches (N, T, K) of images x, in the order of `columns`.

    Where the rows of a kernel are short, patches of one column are made first: their copies are longer.
    """
    (high, wide), (down, across), (dy, dx) = layer.kernel_size, layer.stride, layer.dilation
    height, width = positions(layer, x.shape)
    pad = _padding(layer)
    if not _in_two_steps(layer):
        x = _padded(x, pad)
        n, _, _, c = x.shape
        of_record, line, pixel, _ = x.stride()
        each = of_record, down * line, across * pixel, dy * line, dx * pixel, 1
        return x.as_strided((n, height, width, high, wide, c), each).reshape(n, height * width, -1)
    x = _padded(x.mT, (pad[1], pad[0]))
    n, breadth, _, c = x.shape
    of_record, line, pixel, _ = x.stride()
    strides = of_record, down * pixel, line, dy * pixel, 1
    x = x.as_strided((n, height, breadth, high, c), strides).contiguous().flatten(3)
    of_record, line, pixel, _ = x.stride()
    strides = of_record, line, across * pixel, dx * pixel, 1
    return x.as_strided((n, height, width, wide, high * c), strides).reshape(n, height * width, -1)


def columns(layer: nn.Conv2d, weight: Tensor) -> Tensor:
    """Return a view of weights (n, O, C, high, wide) whose last three axes have the order of a patch."""
    return (weight.mT if _in_two_steps(layer) else weight).movedim(2, -1)


def fold(layer: nn.Conv2d, g: Tensor, weight: Tensor, image: torch.Size) -> Tensor:
    """Return the gradients at the input (N, C, H, W) from those at the output, g (n, M, O), and weights (n, O, …).

    Each row of the kernel is added separately, so that its products stay in cache. Windows that do not overlap are
    added at once.
    """
    (high, wide), (down, across), (dy, dx) = layer.kernel_size, layer.stride, layer.dilation
    (records, c, h, w), (top, left), (height, width) = image, _padding(layer), positions(layer, image)
    out = weight.new_zeros(records, h + 2 * top, w + 2 * left, c)
    of_record, line, pixel, _ = out.stride()
    apart = -(-((wide - 1) * dx + 1) // across)
    rows = weight.movedim(2, -1)
    for i in range(high):
        parts = torch.bmm(g, rows[:, :, i].flatten(2)).view(records, height, width, wide, c)
        for first in range(min(apart, width)):
            part = parts[:, :, first::apart]
            strides = of_record, down * line, apart * across * pixel, dx * pixel, 1
            out.as_strided(part.shape, strides, i * dy * line + first * across * pixel).add_(part)
    return out[:, top : top + h, left : left + w].permute(0, 3, 1, 2)


def positions(layer: nn.Conv2d, image: torch.Size) -> tuple[int, int]:
    """Return the height and width of the output for images of shape (N, C, H, W)."""
    high, wide = (
        (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
        for size, pad, dilation, kernel, stride in zip(
            image[2:], _padding(layer), layer.dilation, layer.kernel_size, layer.stride, strict=True
        )
    )
    return high, wide


def _padding(layer: nn.Conv2d) -> tuple[int, int]:
    assert not isinstance(layer.padding, str)
    top, left = layer.padding
    return top, left


def _in_two_steps(layer: nn.Conv2d) -> bool:
    high, wide = layer.kernel_size
    return layer.in_channels * wide < NARROW and high * wide > 1


def _padded(x: Tensor, pad: tuple[int, int]) -> Tensor:
    """Return images (N, C, H, W) as (N, H, W, C), contiguous, with a border of zeros."""
    x = x.permute(0, 2, 3, 1)
    if pad == (0, 0):
        return x.contiguous()
    (n, h, w, c), (top, left) = x.shape, pad
    out = x.new_zeros(n, h + 2 * top, w + 2 * left, c)
    out[:, top : top + h, left : left + w] = x
    return out
