"""One parameter's gradient for every record of a batch, in a form that is cheap to measure and to sum."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from tacit.tasks.clipping import vector_norms


class GradientTerm(Protocol):
    """One parameter's per-record gradients, written out or not."""

    def square(self) -> Tensor:
        """Squared L2 norm of each record's gradient, (B,)."""

    def sum(self, c: Tensor) -> Tensor:
        """Σ_b c_b ∇_b, flat or in the parameter's shape."""

    def numel(self) -> int:
        """Numbers held."""


@dataclass(frozen=True)
class DirectTerm:
    """Per-record gradients written out, (B, …)."""

    gradients: Tensor

    def square(self) -> Tensor:
        return _square(self.gradients.flatten(1))

    def sum(self, c: Tensor) -> Tensor:
        return c @ self.gradients.flatten(1)

    def numel(self) -> int:
        return self.gradients.numel()


@dataclass(frozen=True)
class OuterProductTerm:
    """∇_b = Σ_t g_bt a_btᵀ, from inputs a (B, T, I) and signals g (B, T, O); norms from T × T products."""

    a: Tensor
    g: Tensor

    def square(self) -> Tensor:
        if self.a.shape[1] == 1:
            return _square(self.a.squeeze(1)) * _square(self.g.squeeze(1))
        # The products cancel: in float32 an outlier's norm could come out short, and the record pass its clip.
        a, g = self.a.double(), self.g.double()
        return ((a @ a.mT) * (g @ g.mT)).sum(dim=(1, 2)).clamp(min=0).to(self.a.dtype)

    def sum(self, c: Tensor) -> Tensor:
        return (self.g * c.view(-1, 1, 1)).flatten(0, 1).T @ self.a.flatten(0, 1)

    def numel(self) -> int:
        return self.a.numel() + self.g.numel()


@dataclass(frozen=True)
class EmbeddingTerm:
    """Rows g (B, T, D) of an embedding's gradient, at the indices (B, T) that were looked up."""

    index: Tensor
    g: Tensor
    rows: int

    def square(self) -> Tensor:
        same = self.index.unsqueeze(1) == self.index.unsqueeze(2)
        g = self.g.double()  # as in OuterProductTerm
        return ((g @ g.mT) * same).sum(dim=(1, 2)).clamp(min=0).to(self.g.dtype)

    def sum(self, c: Tensor) -> Tensor:
        rows = (self.g * c.view(-1, 1, 1)).flatten(0, 1)
        return rows.new_zeros(self.rows, rows.shape[1]).index_add_(0, self.index.flatten(), rows)

    def numel(self) -> int:
        return self.g.numel()


def _square(v: Tensor) -> Tensor:
    return vector_norms(v, 2).square()


def outer(a: Tensor, g: Tensor) -> GradientTerm:
    """The cheaper of the two forms of Σ_t g_t a_tᵀ, for a (B, T, I) and g (B, T, O).

    Both cost T·I·O multiplications once. Written out, I·O numbers go to memory and come back twice, each as slow
    as about 8 multiplications in double precision; not written out, the norm takes T²(I + O) of those (measured).
    """
    t, i, o = a.shape[1], a.shape[2], g.shape[2]
    return OuterProductTerm(a, g) if t * t * (i + o) <= 8 * i * o else DirectTerm(g.mT @ a)
