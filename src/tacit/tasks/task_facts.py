"""The public facts of a task: sizes, sampling, weights and sensitivities, without access to records."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.privacy import Sampling
from tacit.tasks.clip import Clip
from tacit.tasks.model import Model
from tacit.tasks.precision import Precision
from tacit.tasks.sampling import Sampler
from tacit.tasks.sensitivity import mean_gradient_sensitivity
from tacit.tasks.weights import Weighting, node_weights


class TaskFacts:
    """What follows from the declared settings of a task and the sizes of its shards.

    Attributes:
        n: The number of hosted nodes.
        d: The number of parameters.
        nodes: (n,) global ids of the hosted nodes.
        sizes: (n,) number of records per hosted node.
        network_sizes: The public number of records of every node of the network.
        weighting: How the nodes' gradients are weighted.
        device: Where parameters, records and gradients are.
        precision: That of forward and backward passes.
    """

    model: Model
    sampler: Sampler
    dtype: torch.dtype
    device: torch.device
    n: int
    d: int
    nodes: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    network_sizes: npt.NDArray[np.int64]
    weighting: Weighting
    precision: Precision

    def initial(self) -> Tensor:
        """Return the initial parameters (n, d), the same for every node."""
        return self.model.initial().to(self.dtype).to(self.device).repeat(self.n, 1)

    def split(self, params: Tensor) -> tuple[Tensor, Tensor]:
        """Split parameters (n, d) into those that are shared and those that stay at their node."""
        return params[:, : self.model.shared], params[:, self.model.shared :]

    @property
    def sampling(self) -> Sampling:
        """The sampling that the accountant may use.

        Local parameters that are trained without noise depend on the records of earlier draws. A record then influences
        later gradients even if it is not drawn, so there is no amplification by sampling.
        """
        drawn = self.sampler.sampling
        return drawn if self.model.bounded == self.d else Sampling("none", np.ones(self.n), drawn.relation)

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """The weight (n,) of each node's gradient in the mean over the network: 1, or by its number of records."""
        return node_weights(self.weighting, self.nodes, self.network_sizes)

    def sensitivity(self, clip: Clip) -> npt.NDArray[np.float64]:
        """Return the sensitivity (n,) of the weighted mean gradient to one record."""
        exact_parameters = self.model.bounded < self.d
        plain = mean_gradient_sensitivity(clip, self.sampler, self.sizes, exact_parameters=exact_parameters)
        return self.weights * plain

    def weighted(self, gradients: Tensor) -> Tensor:
        """Multiply gradients (n, d) by the nodes' weights, in place."""
        if self.weighting == "equal":
            return gradients
        return gradients.mul_(torch.from_numpy(self.weights).to(gradients.dtype).to(gradients.device)[:, None])
