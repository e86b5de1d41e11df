"""Whitening with the mean and the second moment of public pictures."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tacit.errors import TacitError
from tacit.tasks.features.registry import unit

REGULARISATION = 1e-3


class Whitening(nn.Module):
    """Centres values with a public mean, and gives directions that public records share less weight.

    z = (x − m) / ‖x − m‖, then z U (w + 0.001)^(−½) at unit norm, where U and w are the eigenvectors and the largest
    eigenvalues of the public records' second moment E[z zᵀ]. The noise on an output of a linear model grows with the
    norm of its inputs. Whitening spends less of the unit norm on what all classes have in common.
    """

    mean: Tensor
    projection: Tensor

    def __init__(self, mean: Tensor, projection: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("projection", projection)

    @classmethod
    def fit(cls, public: Tensor, rank: int | None) -> Whitening:
        """Return the whitening of public values (M, k); `rank` directions are kept, by default all.

        The sign of each eigenvector is fixed: its largest component is positive. The fit is computed in float64.
        """
        public = public.double()
        mean = public.mean(dim=0)
        z = unit(public - mean)
        values, vectors = torch.linalg.eigh(z.T @ z / len(z))
        values, vectors = values.flip(0)[:rank].clamp(min=0), vectors.flip(1)[:, :rank]
        largest = vectors.gather(0, vectors.abs().argmax(dim=0, keepdim=True))
        projection = vectors * largest.sign() * (values + REGULARISATION).rsqrt()
        return cls(mean.float(), projection.float())

    @classmethod
    def empty(cls, values: int, rank: int) -> Whitening:
        """Return a whitening of this size whose buffers are to be loaded."""
        return cls(torch.zeros(values), torch.zeros(values, rank))

    def forward(self, x: Tensor) -> Tensor:
        return unit(unit(x - self.mean) @ self.projection)


def check_rank(rank: int | None, whiten: str) -> None:
    """Refuse a rank without whitening, which would have no effect."""
    if rank is not None and whiten == "none":
        raise TacitError(f'data.rank = {rank} has an effect only with whitening: set data.whiten = "shapes"')
