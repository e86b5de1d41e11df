"""Models: the loss as a function of one flat parameter vector, with per-record gradients."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from tacit.errors import TacitError
from tacit.tasks.clip import Clip
from tacit.tasks.gradients import Engine, FunctionObjective, Gradients, ModuleObjective
from tacit.tasks.gradients.objective import FlatLoss
from tacit.tasks.heads import Head, fitting_head
from tacit.tasks.layout import Layout
from tacit.tasks.models.check import check_independence, check_module
from tacit.tasks.models.per_record import RecordLoss, cross_entropy
from tacit.tasks.models.synthetic import RecordForm
from tacit.tasks.target import Target


class Model:
    """A torch module with a per-record loss, evaluated for n nodes at once with parameters (n, d).

    The dtype of the parameters is the dtype of the computation. The first `shared` columns are the shared parameters,
    the first `bounded` columns those whose gradients are clipped.

    Privacy:
        A clip bounds the influence of a record only if the gradients of the other records do not depend on it. Modules
        that consist of known layers (`models/per_record.py`) and the built-in models have this property. Any other
        module is differentiated one record at a time, with torch.vmap, so it cannot mix records, whatever it does with
        a batch. It must support torch.vmap: no Python branches on values of tensors. A loss other than the default one
        is always computed one record at a time. A module or loss that mixes the records of random batches, or whose
        forward pass changes an attribute, is refused before the first gradient. State outside the module, such as
        a global variable or a closure that stores records, is not detected and voids the guarantee.

    Args:
        module: The module. It must treat each record separately: no batch statistics, no dropout, no state.
        loss: Maps outputs (B, …) and targets (B, …) to losses (B,), each from its own record only. A `Head` also
            defines predictions.
        share: Patterns of the names of the shared parameters, such as `"head.*"`; None: all.
        engine: How gradients are computed; "auto" chooses the fastest. The others are for tests and benchmarks.
        bounds: Whether a clip bounds the gradients of the "shared" parameters only, or of "all".
        weight_decay: Adds weight_decay · ‖params‖²/2 to the objective. It depends on no record, so it is not clipped.

    Raises:
        TacitError: If a layer mixes records, or an argument is not valid.

    Example:
        >>> model = Model(nn.Linear(3, 2))
        >>> params = model.initial().repeat(5, 1)
        >>> x, y, weight = torch.ones(5, 4, 3), torch.zeros(5, 4, dtype=torch.long), torch.ones(5, 4)
        >>> model.gradient_sum(params, x, y, weight, Clip(0.1)).norm(dim=1)
        tensor([0.4000, 0.4000, 0.4000, 0.4000, 0.4000])
    """

    def __init__(
        self,
        module: nn.Module,
        loss: RecordLoss | Head = cross_entropy,
        share: Sequence[str] | None = None,
        engine: Engine = "auto",
        bounds: Literal["all", "shared"] = "shared",
        weight_decay: float = 0.0,
    ) -> None:
        check_module(module)
        layout = Layout.of(module, share, bounds)
        module = copy.deepcopy(module).requires_grad_(False)
        for layer in module.modules():
            if getattr(layer, "inplace", False) is True:
                layer.inplace = False  # type: ignore[assignment]  # the ghost engine needs the values that it would overwrite
        head, loss = (loss, loss.record_loss) if isinstance(loss, Head) else (None, loss)
        self._init(ModuleObjective(module, loss, layout), layout.initial(module), engine, weight_decay, head)

    @classmethod
    def from_loss(
        cls,
        loss: FlatLoss,
        initial: Tensor,
        shared: int | None = None,
        engine: Engine = "auto",
        bounds: Literal["all", "shared"] = "shared",
        weight_decay: float = 0.0,
    ) -> Model:
        """Create a model from a loss function of a flat parameter vector.

        Args:
            loss: `loss(params, x, y)` for params (d,) and one record: a scalar, differentiable by torch.func. It must
                not store anything about a record.
            initial: The initial parameters (d,).
            shared: How many of the first parameters are shared; None: all.
            engine: See `Model`.
            bounds: See `Model`.
            weight_decay: See `Model`.

        Example:
            >>> mean = Model.from_loss(lambda w, x, y: ((w - x) ** 2).sum() / 2, torch.zeros(2))
            >>> x, y, weight = torch.ones(1, 3, 2), torch.zeros(1, 3), torch.ones(1, 3)
            >>> mean.gradient_sum(torch.zeros(1, 2), x, y, weight, None)
            tensor([[-3., -3.]])
        """
        d = initial.numel()
        shared = d if shared is None else shared
        if initial.dim() != 1 or not 1 <= shared <= d:
            raise TacitError(
                f"initial must be a vector (d,) and shared must be 1 to d = {d}; "
                f"got shape {tuple(initial.shape)} and shared = {shared}"
            )
        parts = {"shared": (shared,)} | ({"local": (d - shared,)} if shared < d else {})
        layout = Layout(tuple(parts), tuple(parts.values()), shared, d if bounds == "all" else shared)
        model = cls.__new__(cls)
        model._init(FunctionObjective(loss, layout), initial.detach().clone(), engine, weight_decay)
        return model

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
        self._objective, self._initial, self._dtype = objective, initial, initial.dtype
        self._gradients = Gradients(objective, engine)
        self._head, self._checked = head, set[RecordForm]()

    def head(self, inputs: tuple[int, ...], target: Target) -> Head | None:
        """Return the head that turns outputs into predictions of a target; None if the outputs have no known meaning.

        Raises:
            TacitError: If the model does not have the outputs that its head needs. It is tried on a record of zeros.
        """
        if not isinstance(self._objective, ModuleObjective):
            return None
        return fitting_head(self._head, self._objective.loss, self.trial_outputs(inputs), target)

    def trial_outputs(self, inputs: tuple[int, ...]) -> Tensor:
        """Return the outputs for a record of zeros; raise if the module does not accept records of this shape."""
        try:
            return self.outputs(self._initial, torch.zeros(1, *inputs))
        except (RuntimeError, ValueError, IndexError) as error:
            raise TacitError(f"the model does not accept records of shape {inputs}: {error}") from error

    def longest_input(self, smoothness: float) -> float | None:
        """Return the largest ‖x‖ for which a record's loss is surely L-smooth with L = `smoothness`; None if unknown.

        It is known for one linear layer with the default loss: the Hessian is (diag p − ppᵀ) ⊗ xxᵀ, where a bias counts
        as an additional input of 1, so that L = (‖x‖² + 1)/2 with biases and ‖x‖²/2 without (Böhning's bound).
        """
        objective = self._objective
        if not isinstance(objective, ModuleObjective) or objective.loss is not cross_entropy:
            return None
        layer = self._gradients.only_linear_layer
        if layer is None:
            return None
        square = 2 * smoothness - (layer.bias is not None)
        if square < 0:
            raise TacitError(f"smoothness must be at least 0.5 for logistic regression with biases, got {smoothness:g}")
        return math.sqrt(square)

    def initial(self) -> Tensor:
        """Return a copy of the initial parameters (d,)."""
        return self._initial.clone()

    def trained_module(self, params: Tensor) -> nn.Module | None:
        """Return a plain copy of the module with parameters (d,), in evaluation mode; None without a module."""
        if not isinstance(self._objective, ModuleObjective):
            return None
        module = copy.deepcopy(self._objective.module).to(params.dtype).eval()
        parameters = dict(module.named_parameters())
        for name, value in self.layout.unflatten(params).items():
            parameters[name].copy_(value)
            parameters[name].requires_grad_(True)
        return module

    def outputs(self, params: Tensor, x: Tensor) -> Tensor:
        """Return the module's outputs (B, …) for one parameter vector (d,) and records x (B, …)."""
        if not isinstance(self._objective, ModuleObjective):
            raise TacitError("this model was created from a loss function, so it has losses but no outputs")
        with torch.no_grad():
            return self._objective.outputs(self.layout.unflatten(params), self._match_dtype(params, x))

    def losses_and_outputs(self, params: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return losses (B,) and outputs (B, …), which a loss function does not have, for one parameter vector (d,)."""
        if not isinstance(self._objective, ModuleObjective):
            return self.losses(params[None], x[None], y[None])[0], None
        output = self.outputs(params, x)
        return self._objective.losses_of_outputs(self.layout.unflatten(params), output, y), output

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
    ) -> Tensor:
        """Return Σ_b weight_b · factor(‖∇_bounded ℓ_b‖) · ∇ℓ_b (n, d).

        The factor applies to the bounded columns only; the other columns are a weighted sum without clipping. A clip
        per batch applies to the bounded columns of the weighted sum instead (with weights 1/B, of the mean).

        Args:
            params: The nodes' parameters (n, d).
            x: The records (n, B, …).
            y: The labels (n, B).
            weight: The records' weights (n, B); 0 for padding.
            clip: The bound; None: no clipping.
            out: A tensor (n, d) for the result; None: a new one.
            before: Earlier parameters (n, d). If given, ∇ℓ_b is the gradient at `params` minus that at `before`.
        """
        self._check_shape(params)
        x, weight = self._match_dtype(params, x), weight.to(params.dtype)
        self._check_records_independent(x, y)
        return self._gradients.sum(params, x, y, weight, clip, out, before)

    def _check_shape(self, params: Tensor) -> None:
        if params.dim() != 2 or params.shape[1] != self.d:
            raise TacitError(f"parameters must have shape (nodes, {self.d}), got {tuple(params.shape)}")

    def _match_dtype(self, params: Tensor, x: Tensor) -> Tensor:
        """Return x in the dtype of the parameters; convert the module's frozen parameters and buffers to it."""
        if isinstance(self._objective, ModuleObjective) and params.dtype != self._dtype:
            self._objective.module.to(params.dtype)
            self._dtype = params.dtype
        return x.to(params.dtype) if x.is_floating_point() else x

    def _check_records_independent(self, x: Tensor, y: Tensor) -> None:
        """Check once per form of records, on random ones, that module and loss treat each record separately."""
        form = RecordForm.of(x, y)
        if form not in self._checked and isinstance(self._objective, ModuleObjective):
            check_independence(self._objective.module, form, self._objective.loss)
            self._checked.add(form)
