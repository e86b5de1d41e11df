"""Models: the loss as a function of one flat parameter vector, with per-record gradients."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from tacit.errors import TacitError
from tacit.tasks.gradients import Engine, FunctionObjective, ModuleObjective
from tacit.tasks.gradients.objective import FlatLoss
from tacit.tasks.heads import Head, fitting_head
from tacit.tasks.layout import Layout
from tacit.tasks.loss_model import LossModel
from tacit.tasks.models.adapter import Forward
from tacit.tasks.models.check import check_module
from tacit.tasks.models.fix import fixed_module
from tacit.tasks.models.per_record import RecordLoss, cross_entropy
from tacit.tasks.models.replacement import replace_layers, restore_layers
from tacit.tasks.models.trial import try_on_zeros
from tacit.tasks.smoothness import longest_smooth_input
from tacit.tasks.target import Target


class Model(LossModel):
    """A torch module with a per-record loss, evaluated for n nodes at once with parameters (n, d).

    The dtype of the parameters is the dtype of the computation. The first `shared` columns are the shared parameters,
    the first `bounded` columns those whose gradients are clipped.

    Privacy:
        A clip bounds the influence of a record only if the gradients of the other records do not depend on it. Modules
        that consist of known layers (`models/per_record.py`) and the built-in models have this property. Any other
        module is differentiated one record at a time, so it cannot mix records, whatever it does with a batch. A module
        that torch.vmap does not support, for example one with Python branches on values of tensors, is slower. A loss
        other than the default one is always computed one record at a time. A module or loss that mixes the records of
        random batches, or whose forward pass changes an attribute, is refused before the first gradient. State outside
        the module, such as a global variable or a closure that stores records, is not detected and voids the guarantee.
        Dropout masks depend on no record (`models/dropout.py`).

    Args:
        module: The module. It must treat each record separately: no batch statistics, no state. BatchNorm must be in
            evaluation mode, where it is an affine map; `Model.fix` replaces it. Layers in training mode drop out in
            gradients, and never in predictions. Parameters with requires_grad=False stay as they are.
        loss: Maps outputs (B, …) and targets (B, …) to losses (B,), each from its own record only. A `Head` also
            defines predictions.
        share: Patterns of the names of the shared parameters, such as `"head.*"`; None: all.
        engine: How gradients are computed; "auto" chooses the fastest. The others are for tests and benchmarks.
        bounds: Whether a clip bounds the gradients of the "shared" parameters only, or of "all".
        weight_decay: Adds weight_decay · ‖params‖²/2 to the objective. It depends on no record, so it is not clipped.
        forward: Maps (module, x) to outputs (B, …), for modules with several inputs or with outputs that are no tensor.

    Attributes:
        takes_tokens: Whether the module accepts integers only. It then gets the records as int64.

    Raises:
        TacitError: If a layer mixes records, or an argument is not valid.

    Example:
        >>> from tacit.tasks import Clip
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
        forward: Forward | None = None,
    ) -> None:
        check_module(module)
        layout = Layout.of(module, share, bounds)
        module = copy.deepcopy(module).requires_grad_(False)
        stream = replace_layers(module)
        head, loss = (loss, loss.record_loss) if isinstance(loss, Head) else (None, loss)
        objective = ModuleObjective(module, loss, layout, forward, stream)
        self._init(objective, layout.initial(module), engine, weight_decay, head)

    @staticmethod
    def fix(module: nn.Module) -> nn.Module:
        """Return a copy of a module in which no layer uses statistics of several records.

        GroupNorm replaces BatchNorm, with the same affine parameters, in at most 32 groups. InstanceNorm does not track
        running statistics. All other layers are copied. GroupNorm has no running statistics, so a pre-trained module
        needs training afterwards; `.eval()` on its BatchNorm layers keeps them as they are instead.

        Example:
            >>> norm = Model.fix(nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64)))[1]
            >>> type(norm).__name__, norm.num_groups, norm.num_channels
            ('GroupNorm', 4, 64)
        """
        return fixed_module(module)

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

    @property
    def forward(self) -> Forward | None:
        """The function that calls the module; None if the module is called with the records alone."""
        return self._objective.forward if isinstance(self._objective, ModuleObjective) else None

    def head(self, inputs: tuple[int, ...], target: Target, *, tokens: bool = False) -> Head | None:
        """Return the head that turns outputs into predictions of a target; None if the outputs have no known meaning.

        Raises:
            TacitError: If the model does not have the outputs that its head needs. It is tried on a record of zeros.
        """
        if not isinstance(self._objective, ModuleObjective):
            return None
        return fitting_head(self._head, self._objective.loss, self.trial_outputs(inputs, tokens=tokens), target)

    def trial_outputs(self, inputs: tuple[int, ...], *, tokens: bool = False) -> Tensor:
        """Return the outputs for a record of zeros; raise if the module does not accept records of this shape.

        A module that accepts integers only gets all records as int64 from then on.
        """
        self.takes_tokens = False
        outputs, self.takes_tokens = try_on_zeros(lambda x: self.outputs(self._initial, x), inputs, tokens)
        return outputs

    def longest_input(self, smoothness: float) -> float | None:
        """Return the largest ‖x‖ for which a record's loss is surely L-smooth with L = `smoothness`; None if unknown.

        It is known for one linear layer with the default loss.
        """
        objective = self._objective
        if not isinstance(objective, ModuleObjective) or objective.loss is not cross_entropy:
            return None
        layer = self._gradients.only_linear_layer
        return None if layer is None else longest_smooth_input(layer, smoothness)

    def trained_module(self, params: Tensor) -> nn.Module | None:
        """Return a plain copy of the module with parameters (d,), in evaluation mode; None without a module."""
        if not isinstance(self._objective, ModuleObjective):
            return None
        module = restore_layers(copy.deepcopy(self._objective.module)).to("cpu", params.dtype).eval()
        parameters = dict(module.named_parameters())
        for name, value in self.layout.unflatten(params.cpu()).items():
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
