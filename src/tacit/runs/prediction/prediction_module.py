"""The module that predicts from raw records: features, normalisation, released statistics, the model and its head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tacit.tasks import FeatureMap, Forward, Head, Normalise, normalised_records, tensor_output


class PredictionModule(nn.Module):
    """Maps features (B, …) to probabilities (B, C) or to values (B,) in the unit of the records, as float32.

    Integer features stay integers. Frozen `preparation` maps features to what the module was trained on.
    """

    def __init__(
        self,
        module: nn.Module,
        head: Head,
        normalise: Normalise,
        adapter: Forward | None = None,
        features: FeatureMap | None = None,
        preparation: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.features, self.preparation = features, preparation
        self.module, self._head, self._normalise, self._adapter = module, head, normalise, adapter
        self._dtype = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        if self.features is not None:
            x = self.features(x)
        if x.is_floating_point():
            x = normalised_records(x, self._normalise)
            x = (x if self.preparation is None else self.preparation(x)).to(self._dtype)
        outputs = self.module(x) if self._adapter is None else self._adapter(self.module, x)
        return self._head.predict(tensor_output(outputs)).float()
