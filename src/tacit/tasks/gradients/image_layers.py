"""The layers of the convolutional engine: forward and backward pass for the records of several nodes at once.

In bfloat16, the outputs of products are coarse, and gradients at an output have its dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.utils import _pair

from tacit.tasks.gradients.objective import Parameters
from tacit.tasks.gradients.patches import columns, fold, positions, unfold
from tacit.tasks.models.dropout import KeyedAlphaDropout, KeyedDropout, KeyedDropout2d, KeyedFeatureAlphaDropout
from tacit.tasks.models.per_record import ELEMENTWISE
from tacit.tasks.precision import copied


class Product(NamedTuple):
    """What the gradients of a layer's parameters consist of: those of the weight are Σ_t g_t a_tᵀ, of the bias Σ_t g_t.

    Attributes:
        a: The inputs (N, T, I).
        g: The gradients at the outputs (N, T, O).
        columns: Maps weights (n, O, …) to a view (n, O, *) with the order of the inputs.
    """

    a: Tensor
    g: Tensor
    columns: Callable[[Tensor], Tensor]

    def copied(self, like: Tensor) -> Product:
        """Return the product with inputs and gradients in the dtype of `like`."""
        return self._replace(a=copied(self.a, like), g=copied(self.g, like))


Back = Callable[[Tensor, bool], tuple[Product | None, Tensor]]
"""Maps the gradient at the output to a product and the gradient at the input, which is computed only if needed."""


def forward(layer: nn.Module, p: Parameters, x: Tensor) -> tuple[Tensor, Back]:
    """Return the outputs of records x (N, …), and the backward pass.

    Args:
        layer: The layer.
        p: The parameters "weight" (n, …) and perhaps "bias" (n, O) of n nodes with N/n records each.
        x: The inputs, which stay as they are.
    """
    if isinstance(layer, nn.Conv2d):
        return _conv(layer, p, x)
    if isinstance(layer, nn.Linear):
        return _linear(p, x)
    return _RULES.get(type(layer), _by_autograd)(layer, x)


def is_supported(layer: nn.Module) -> bool:
    """Return whether there is a rule. The exact type decides, since a subclass may compute anything."""
    if type(layer) is nn.Conv2d:
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return flattens(layer) or (type(layer) in _PLAIN and not getattr(layer, "return_indices", False))


def flattens(layer: nn.Module) -> bool:
    return type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1)


def _conv(layer: nn.Conv2d, p: Parameters, x: Tensor) -> tuple[Tensor, Back]:
    weight, image = p["weight"], x.shape
    a = unfold(layer, x)

    def in_order(w: Tensor) -> Tensor:
        return columns(layer, w)

    y = _product(p, a, in_order(weight).flatten(2))
    high, wide = positions(layer, image)

    def back(g: Tensor, needed: bool) -> tuple[Product, Tensor]:
        g = g.permute(0, 2, 3, 1).reshape(*a.shape[:2], -1)
        at_input = fold(layer, g.view(len(weight), -1, g.shape[2]), weight, image) if needed else g
        return Product(a, g, in_order), at_input

    return y.view(len(x), high, wide, -1).permute(0, 3, 1, 2), back


def _linear(p: Parameters, x: Tensor) -> tuple[Tensor, Back]:
    weight = p["weight"]
    a = x.reshape(len(x), -1, x.shape[-1])
    y = _product(p, a, weight)

    def back(g: Tensor, needed: bool) -> tuple[Product, Tensor]:
        g = g.reshape(*a.shape[:2], -1)
        at_input = torch.bmm(g.view(len(weight), -1, g.shape[2]), weight).view(x.shape) if needed else g
        return Product(a, g, lambda w: w), at_input

    return y.view(*x.shape[:-1], -1), back


def _product(p: Parameters, a: Tensor, weight: Tensor) -> Tensor:
    """Return a wᵀ + bias (n, M, O), for inputs a (N, T, I) and weights (n, O, I)."""
    a = a.view(len(weight), -1, a.shape[2])
    return torch.baddbmm(p["bias"].unsqueeze(1), a, weight.mT) if "bias" in p else torch.bmm(a, weight.mT)


def _flatten(_: nn.Module, x: Tensor) -> tuple[Tensor, Back]:
    def back(g: Tensor, needed: bool) -> tuple[None, Tensor]:
        return None, g.view(x.shape).contiguous(memory_format=torch.channels_last)

    return x.flatten(1), back


def _tanh(_: nn.Module, x: Tensor) -> tuple[Tensor, Back]:
    y = torch.tanh(x)
    return y, lambda g, needed: (None, torch.ops.aten.tanh_backward(g, y))


def _relu(_: nn.Module, x: Tensor) -> tuple[Tensor, Back]:
    y = torch.relu(x)
    return y, lambda g, needed: (None, torch.ops.aten.threshold_backward(g, y, 0))


def _max_pool(layer: nn.MaxPool2d, x: Tensor) -> tuple[Tensor, Back]:
    """Return the maxima. Where several inputs are the largest, the gradient goes to the first of them, as in torch."""
    settings = *map(_pair, (layer.kernel_size, layer.stride, layer.padding, layer.dilation)), layer.ceil_mode
    y, index = torch.ops.aten.max_pool2d_with_indices(x, *settings)

    def back(g: Tensor, needed: bool) -> tuple[None, Tensor]:
        return None, torch.ops.aten.max_pool2d_with_indices_backward(g, x, *settings, index)

    return y, back


def _by_autograd(layer: nn.Module, x: Tensor) -> tuple[Tensor, Back]:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = layer(x.clone() if getattr(layer, "inplace", False) else x)

    def back(g: Tensor, needed: bool) -> tuple[None, Tensor]:
        if not y.requires_grad:  # dropout with p = 1
            return None, torch.zeros_like(x)
        return None, torch.autograd.grad(y, x, g)[0]

    return y.detach(), back


_RULES: dict[type[nn.Module], Callable[[Any, Tensor], tuple[Tensor, Back]]] = {
    nn.Flatten: _flatten,
    nn.Tanh: _tanh,
    nn.ReLU: _relu,
    nn.MaxPool2d: _max_pool,
}

_POOLS = {nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveMaxPool2d, nn.AdaptiveAvgPool2d}
_DROPOUT = {KeyedDropout, KeyedDropout2d, KeyedAlphaDropout, KeyedFeatureAlphaDropout}

IMAGE_LAYERS: set[type[nn.Module]] = {nn.Conv2d, *_POOLS}
"""Layers that take images (N, C, H, W). They would take another input as one record."""

_PLAIN = {*ELEMENTWISE, *_POOLS, *_DROPOUT, nn.Linear}
