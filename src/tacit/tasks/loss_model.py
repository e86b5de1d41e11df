"""Losses and clipped gradient sums of a model as functions of the nodes' parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.privacy import Noise
from tacit.tasks.clip import Clip
from tacit.tasks.gradients import Engine, FunctionObjective, Gradients, ModuleObjective
from tacit.tasks.heads import Head
from tacit.tasks.models.check import check_independence
from tacit.tasks.models.dropout import mask_keys
from tacit.tasks.models.synthetic import RecordForm
from tacit.tasks.precision import Precision, check_precision, require_full_products


class LossModel:
    """A loss with parameters (n, d) of n nodes, its initial parameters and its gradients. `Model` derives from it."""

    def _init(
        self,
        objective: ModuleObjective | FunctionObjective,
        initial: Tensor,
        engine: Engine,
        weight_decay: float,
        head: Head | None = None,
    ) -> None:
        if not 0 <= weight_decay < math.inf:
            raise TacitError(f"weight_decay must be finite and at least 0, got {weight_decay}")
        self.weight_decay = weight_decay
        self.layout = layout = objective.layout
        self.d, self.shared, self.bounded = layout.d, layout.shared, layout.bounded
        self._objective, self._initial, self._placed = objective, initial, (initial.dtype, initial.device)
        self._gradients = Gradients(objective, engine)
        self._head, self._checked, self.takes_tokens = head, set[RecordForm](), False

    def initial(self) -> Tensor:
        """Return a copy of the initial parameters (d,)."""
        return self._initial.clone()

    def use_precision(self, precision: Precision, dtype: torch.dtype = torch.float32) -> None:
        """Compute forward and backward passes of gradients in this precision, for parameters of this dtype."""
        check_precision(precision, dtype)
        self._objective.precision = precision

    def mask_keys(self, noise: Noise, nodes: npt.NDArray[np.int64], step: int, records: Tensor) -> Tensor | None:
        """Return the keys (n, B) of the dropout masks of a step, for positions in the shards; None without dropout."""
        has_masks = isinstance(self._objective, ModuleObjective) and self._objective.stream is not None
        return mask_keys(noise, nodes, step, records) if has_masks else None

    def losses(self, params: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return each record's loss (n, B), for params (n, d), x (n, B, …), y (n, B)."""
        self._check_shape(params)
        x = self._match_dtype(params, x)
        self._check_records_independent(x, y)
        return self._gradients.losses(params, x, y)

    def gradient_sum(
        self,
        params: Tensor,
        x: Tensor,
        y: Tensor,
        weight: Tensor,
        clip: Clip | None,
        out: Tensor | None = None,
        before: Tensor | None = None,
        keys: Tensor | None = None,
        copies: int = 1,
    ) -> Tensor:
        """Return Σ_b weight_b · factor(‖∇_bounded ℓ_b‖) · ∇ℓ_b (n, d).

        The factor applies to the bounded columns only; the other columns are a weighted sum without clipping. A clip
        per batch applies to the bounded columns of the weighted sum instead (with weights 1/B, of the mean).

        Args:
            params: The nodes' parameters (n, d).
            x: The records (n, B, …).
            y: The labels (n, B).
            weight: The records' weights (n, B), best in main memory; 0 for padding.
            clip: The bound; None: no clipping.
            out: A tensor (n, d) for the result; None: a new one.
            before: Earlier parameters (n, d). If given, ∇ℓ_b is the gradient at `params` minus that at `before`.
            keys: The keys (n, B) of the records' dropout masks; None: no dropout.
            copies: K. With K > 1, x (n, B, K, …) has K copies of each record, and ∇ℓ_b is the mean over them.
        """
        self._check_shape(params)
        require_full_products(params.device)
        x, weight = self._match_dtype(params, x), weight.to(params.dtype)
        self._check_records_independent(x if copies == 1 else x[:, :, 0], y)
        return self._gradients.sum(params, x, y, weight, clip, out, before, keys, copies)

    def stacks_cells(self, x: Tensor) -> bool:
        """Whether `gradient_sums` takes less time than one `gradient_sum` per cell, for records x (n, B, …)."""
        return self._gradients.stacks_cells(x)

    def gradient_sums(
        self, params: Tensor, x: Tensor, y: Tensor, weight: Tensor, clips: Sequence[Clip | None]
    ) -> Tensor:
        """Return the sums (S, n, d) of S cells, with parameters (S, n, d) and one clip each, on the same records.

        Without dropout and copies, cell s has the sum of `gradient_sum` with params[s] and clips[s], up to rounding.
        """
        self._check_shape(params[0])
        require_full_products(params.device)
        x, weight = self._match_dtype(params, x), weight.to(params.dtype)
        self._check_records_independent(x, y)
        return self._gradients.sum_cells(params, x, y, weight, clips)

    def _check_shape(self, params: Tensor) -> None:
        if params.dim() != 2 or params.shape[1] != self.d:
            raise TacitError(f"parameters must have shape (nodes, {self.d}), got {tuple(params.shape)}")

    def _match_dtype(self, params: Tensor, x: Tensor) -> Tensor:
        """Return x in the dtype that the module takes; convert its frozen parameters to that of `params`."""
        if isinstance(self._objective, ModuleObjective) and (params.dtype, params.device) != self._placed:
            self._objective.module.to(params.device, params.dtype)
            self._placed = params.dtype, params.device
        return x.to(torch.int64 if self.takes_tokens else params.dtype) if x.is_floating_point() else x

    def _check_records_independent(self, x: Tensor, y: Tensor) -> None:
        """Check once per form of records, on random ones, that module and loss treat each record separately."""
        form = RecordForm.of(x, y)
        if form not in self._checked and isinstance(self._objective, ModuleObjective):
            check_independence(self._objective.called, form, self._objective.loss)
            self._checked.add(form)
