"""The sum of one linear layer's clipped gradients, tile by tile."""

import torch
from torch import Tensor

from tacit.tasks.gradients.chain import ChainLayer
from tacit.tasks.layout import Layout


class LayerSum:
    """Σ_b c_b g_b a_bᵀ of a layer for all nodes and cells. Without cells, it is added up in the result itself.

    Args:
        step: The layer.
        layout: The positions of its parameters.
        out: The result (S, n, d), in which the columns of this layer are replaced.
    """

    def __init__(self, step: ChainLayer, layout: Layout, out: Tensor) -> None:
        self._step, self._layout = step, layout
        self._targets = layout.unflatten(out)
        self._cells, self._is_empty = len(out), True
        self._weight = self._total(step.weight)
        self._bias = None if step.bias is None else self._total(step.bias)

    def _total(self, name: str) -> Tensor:
        """Return a tensor (n · S, …) for the sum of a parameter's gradients."""
        target = self._targets[name]
        return target[0] if self._cells == 1 else target.new_empty(target.shape[:2].numel(), *target.shape[2:])

    def add(self, a: Tensor, g: Tensor, scaled: Tensor, weight: Tensor) -> None:
        """Add a tile with inputs a (n, B, I) or (n · S, B, I), and gradients g (n · S, B, O) at the outputs.

        The bounded parameters get the factors `scaled` (n · S, B), the others `weight`.
        """
        bounded = self._layout.is_bounded
        c = scaled if bounded(self._step.weight) else weight
        factored = g * c.unsqueeze(2)
        by_record = factored.mT.reshape(len(a), -1, g.shape[1])  # the cells of a node together, if they share inputs
        total = self._weight.view(len(a), -1, a.shape[2]) if len(a) != len(g) else self._weight
        if self._is_empty:
            torch.bmm(by_record, a, out=total)
        else:
            total.baddbmm_(by_record, a)
        if self._bias is not None and self._step.bias is not None:
            other = scaled if bounded(self._step.bias) else weight
            part = (factored if other is c else g * other.unsqueeze(2)).sum(1)
            self._bias = self._bias.copy_(part) if self._is_empty else self._bias.add_(part)
        self._is_empty = False

    def write(self) -> None:
        """Write the sums of several cells to the result."""
        if self._cells == 1:
            return
        for name, total in ((self._step.weight, self._weight), (self._step.bias, self._bias)):
            if name is not None and total is not None:
                target = self._targets[name]
                target.copy_(total.view(target.shape[1], self._cells, *target.shape[2:]).transpose(0, 1))
