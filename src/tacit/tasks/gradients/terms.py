"""Forms of one parameter's per-record gradients that are cheap to sum and whose norms are cheap."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from tacit.tasks.clipping import vector_norms


class GradientTerm(Protocol):
    """One parameter's gradients for every record of a batch, in explicit or implicit form."""

    def square(self) -> Tensor:
        """Return the squared L2 norm of each record's gradient, (B,)."""

    def sum(self, c: Tensor) -> Tensor:
        """Return Σ_b c_b ∇_b, flat or in the parameter's shape."""

    def numel(self) -> int:
        """Return how many numbers are stored."""


@dataclass(frozen=True)
class DirectTerm:
    """Per-record gradients as a tensor (B, …)."""

    gradients: Tensor

    def square(self) -> Tensor:
        return _square(self.gradients.flatten(1))

    def sum(self, c: Tensor) -> Tensor:
        return c @ self.gradients.flatten(1)

    def numel(self) -> int:
        return self.gradients.numel()


@dataclass(frozen=True)
class OuterProductTerm:
    """∇_b = Σ_t g_bt a_btᵀ, from inputs a (B, T, I) and output gradients g (B, T, O). Norms use T × T products."""

    a: Tensor
    g: Tensor

    def square(self) -> Tensor:
        if self.a.shape[1] == 1:
            return _square(self.a.squeeze(1)) * _square(self.g.squeeze(1))
        # The products cancel: in float32 the norm of an outlier could be too small, and the record not clipped enough.
        a, g = self.a.double(), self.g.double()
        return ((a @ a.mT) * (g @ g.mT)).sum(dim=(1, 2)).clamp(min=0).to(self.a.dtype)

    def sum(self, c: Tensor) -> Tensor:
        return (self.g * c.view(-1, 1, 1)).flatten(0, 1).T @ self.a.flatten(0, 1)

    def numel(self) -> int:
        return self.a.numel() + self.g.numel()


@dataclass(frozen=True)
class EmbeddingTerm:
    """Gradients g (B, T, D) of the rows of an embedding with indices (B, T)."""

    index: Tensor
    g: Tensor
    rows: int

    def square(self) -> Tensor:
        same = self.index.unsqueeze(1) == self.index.unsqueeze(2)
        g = self.g.double()  # see OuterProductTerm.square
        return ((g @ g.mT) * same).sum(dim=(1, 2)).clamp(min=0).to(self.g.dtype)

    def sum(self, c: Tensor) -> Tensor:
        rows = (self.g * c.view(-1, 1, 1)).flatten(0, 1)
        return rows.new_zeros(self.rows, rows.shape[1]).index_add_(0, self.index.flatten(), rows)

    def numel(self) -> int:
        return self.g.numel()


def _square(v: Tensor) -> Tensor:
    return vector_norms(v, 2).square()


def outer(a: Tensor, g: Tensor) -> GradientTerm:
    """Return the cheaper form of the gradients Σ_t g_t a_tᵀ, for a (B, T, I) and g (B, T, O).

    Both forms need T·I·O multiplications. The explicit form writes I·O numbers to memory and reads them twice, each as
    slow as about 8 multiplications in double precision. For the norm, the implicit form needs T²(I + O) of those
    (measured).
    """
    t, i, o = a.shape[1], a.shape[2], g.shape[2]
    return OuterProductTerm(a, g) if t * t * (i + o) <= 8 * i * o else DirectTerm(g.mT @ a)
