"""Forms of one parameter's per-record gradients that are cheap to sum and whose norms are cheap."""

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from tacit.device import as_double
from tacit.tasks.clipping import vector_norms

_LARGEST_INPUT = 2.0**64
Degree = Literal[1, 2]


class GradientTerm(Protocol):
    """One parameter's gradients for every record, in explicit or implicit form.

    The first axis contains the B records of one node, or the n·B records of n nodes.
    """

    def norms(self, degree: Degree = 2) -> Tensor:
        """Return the L1 or L2 norm of each record's gradient in double precision."""

    def sum(self, c: Tensor) -> Tensor:
        """Return Σ_b c_b ∇_b, flat or in the parameter's shape, for c (B,) or (n, B)."""

    def numel(self) -> int:
        """Return how many numbers are stored."""


@dataclass(frozen=True)
class DirectTerm:
    """Per-record gradients as a tensor (B, …)."""

    gradients: Tensor

    def norms(self, degree: Degree = 2) -> Tensor:
        return vector_norms(self.gradients.flatten(1), degree)

    def sum(self, c: Tensor) -> Tensor:
        return (c.unsqueeze(-2) @ self.gradients.reshape(*c.shape, -1)).squeeze(-2)

    def numel(self) -> int:
        return self.gradients.numel()


@dataclass(frozen=True)
class OuterProductTerm:
    """∇_b = Σ_t g_bt a_btᵀ, from inputs a (B, T, I) and output gradients g (B, T, O). Norms use T × T products.

    If positions cancel, the rounding errors of the sum can be much larger than the exact gradient. So the norm is an
    upper bound that contains them. With P = Σ_t ‖g_t‖‖a_t‖ and u the machine epsilon, the sum is wrong by at most
    (T + 2) u P, in any order of its additions, and the squared norm by (I + O + T²) P² machine epsilons of a double.
    """

    a: Tensor
    g: Tensor

    def norms(self, degree: Degree = 2) -> Tensor:
        (_, t, i), o = self.a.shape, self.g.shape[2]
        if t == 1:
            return outer_norms(vector_norms(self.a.squeeze(1), degree), vector_norms(self.g.squeeze(1), degree))
        if degree == 1:
            raise ValueError("the L1 norm of a sum over positions needs the explicit form")
        a, g = as_double(self.a), as_double(self.g)
        a, g = a @ a.mT, g @ g.mT
        inputs, signals = (m.diagonal(dim1=1, dim2=2).sqrt() for m in (a, g))
        without_cancelling = outer_norms(inputs, signals).sum(dim=1)
        error = (i + o + t * t) * torch.finfo(torch.float64).eps * without_cancelling.square()
        exact = ((a * g).sum(dim=(1, 2)).clamp(min=0) + error).sqrt()
        return exact + (t + 2) * torch.finfo(self.a.dtype).eps * without_cancelling

    def sum(self, c: Tensor) -> Tensor:
        scaled = self.g * c.reshape(-1, 1, 1)
        return _positions(scaled, c).mT @ _positions(self.a, c)

    def numel(self) -> int:
        return self.a.numel() + self.g.numel()


@dataclass(frozen=True)
class EmbeddingTerm:
    """Gradients g (B, T, D) of the rows of an embedding with indices (B, T). Where an index repeats, g is 0."""

    index: Tensor
    g: Tensor
    rows: int

    def norms(self, degree: Degree = 2) -> Tensor:
        return vector_norms(self.g.flatten(1), degree)

    def sum(self, c: Tensor) -> Tensor:
        rows = (self.g * c.view(-1, 1, 1)).flatten(0, 1)
        return rows.new_zeros(self.rows, rows.shape[1]).index_add_(0, self.index.flatten(), rows)

    def numel(self) -> int:
        return self.g.numel()


def _positions(values: Tensor, c: Tensor) -> Tensor:
    """Return values (…, T, I) as one matrix of all positions, (B·T, I) or (n, B·T, I) as c is (B,) or (n, B)."""
    return values.reshape(*c.shape[:-1], -1, values.shape[2])


def outer_norms(inputs: Tensor, signals: Tensor) -> Tensor:
    """Return the norms of outer products g aᵀ from the norms of a (`inputs`) and g (`signals`).

    The norm is ∞ (and the factor 0) if ‖a‖ is above 2⁶⁴: the scaled g could be so small that its rounding errors,
    multiplied by a, exceed the bound.
    """
    return torch.where(inputs > _LARGEST_INPUT, torch.inf, inputs * signals)


def outer(a: Tensor, g: Tensor, degree: Degree = 2) -> GradientTerm:
    """Return the cheaper form of the gradients Σ_t g_t a_tᵀ, for a (B, T, I) and g (B, T, O).

    Both forms need T·I·O multiplications. The explicit form writes I·O numbers to memory and reads them twice, each as
    slow as about 8 multiplications in double precision. For the norm, the implicit form needs T²(I + O) of those
    (measured).
    """
    t, i, o = a.shape[1], a.shape[2], g.shape[2]
    implicit = t == 1 if degree == 1 else t * t * (i + o) <= 8 * i * o
    return OuterProductTerm(a, g) if implicit else DirectTerm(g.mT @ a)


def embedding(index: Tensor, g: Tensor, rows: int) -> GradientTerm:
    """Return the gradients of an embedding with indices (B, T) that may repeat, for g (B, T, D).

    The gradients of equal indices of a record are added at the first of them, and the others become 0, so that the
    norm and the sum contain the same rounding errors.
    """
    same = index.unsqueeze(1) == index.unsqueeze(2)
    is_first = ~same.tril(-1).any(dim=2, keepdim=True)
    return EmbeddingTerm(index, (same & is_first).to(g.dtype) @ g, rows)
