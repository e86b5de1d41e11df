"""The choice of an engine: the fastest one that supports the model, its records and the clip."""

from typing import Literal, get_args

from torch import Tensor

from tacit.errors import TacitError, unknown
from tacit.tasks.clip import Clip
from tacit.tasks.gradients import convolutional, ghost, looped, stacked, vectorised
from tacit.tasks.gradients.objective import FunctionObjective, ModuleObjective, Objective
from tacit.tasks.models.synthetic import RecordForm

Engine = Literal["auto", "stacked", "convolutional", "ghost", "vectorised", "looped", "summed"]


class EngineChoice:
    """The engines that support an objective. An `engine` other than "auto" is used always, or an error."""

    def __init__(self, objective: Objective, engine: Engine) -> None:
        if engine not in get_args(Engine):
            raise unknown("engine", engine, get_args(Engine))
        self.objective, self.engine = objective, engine
        no_penalty = getattr(objective, "penalty", None) is None  # the first three differentiate outputs only
        self.chain = stacked.Chain.of(objective) if no_penalty else None
        self.images = convolutional.chain(objective) if no_penalty else None
        self._layers = ghost.layers(objective) if no_penalty else None
        # None: the ghost engine does not support records of this form
        self._plans: dict[RecordForm, ghost.GhostPlan | None] = {}
        self._vmap_support: dict[RecordForm, bool] = {}

    def choose(self, params: Tensor, x: Tensor, y: Tensor, clip: Clip | None, *, masked: bool = False) -> Engine:
        """Return the engine for these nodes and this clip (per record, or None).

        `masked` is whether there are dropout masks. A batch of records has masks only if the module is known.
        """
        if self.engine != "auto":
            self._check_engine(params, x, y, clip, masked)
            return self.engine
        if self.stackable(x):
            return "stacked"
        if self._convolvable(x):
            return "convolutional"
        if clip is None and (not masked or self.separates(x)):
            return "summed"
        large = self.objective.layout.d * y.shape[1] > ghost.LARGE
        if large and clip is not None and clip.degree == 2 and self._ghostable(params, x, y):
            return "ghost"
        return self.one_at_a_time(params, x, y)

    def separates(self, x: Tensor) -> bool:
        """Return whether a batch of x (n, B, …) gives each record's loss from that record only.

        Layers interpret a batch of plain numbers (B,) as one record.
        """
        objective = self.objective
        return objective.per_record and (x.dim() > 2 or not isinstance(objective, ModuleObjective))

    def stackable(self, x: Tensor) -> bool:
        """Return whether the stacked engine supports records x (n, B, …)."""
        return (
            self.engine in ("auto", "stacked")
            and self.chain is not None
            and self.chain.accepts(x)
            and self.separates(x)
        )

    def _convolvable(self, x: Tensor) -> bool:
        images = self.images is not None and x.dim() == 5  # (n, B, C, H, W)
        return images and self.engine in ("auto", "convolutional") and self.separates(x)

    def plan(self, x: Tensor, y: Tensor) -> ghost.GhostPlan:
        """Return how the ghost engine computes the gradients of these records, for which it was chosen."""
        plan = self._plans[RecordForm.of(x, y)]
        assert plan is not None
        return plan

    def _ghostable(self, params: Tensor, x: Tensor, y: Tensor) -> bool:
        if self._layers is None or not self.separates(x):
            return False
        form = RecordForm.of(x, y)
        if form not in self._plans:
            assert isinstance(self.objective, ModuleObjective)
            self._plans[form] = ghost.probe(self.objective, self._layers, form, params.dtype)
        return self._plans[form] is not None

    def for_differences(self, params: Tensor, x: Tensor, y: Tensor) -> Engine:
        """Return the engine for differences of a record's gradients at two points."""
        if self.chain is not None and self.chain.only_linear_layer is not None and self.stackable(x):
            return "stacked"
        return self.one_at_a_time(params, x, y)

    def one_at_a_time(self, params: Tensor, x: Tensor, y: Tensor) -> Engine:
        """Return the engine that gives the module one record at a time, after a trial on random records.

        Raises:
            TacitError: If the model has no gradients, before the first private record is used.
        """
        if isinstance(self.objective, FunctionObjective):
            return "vectorised"
        form = RecordForm.of(x, y)
        if form not in self._vmap_support:
            try:
                vectorised.check(self.objective, form, params.dtype)
                self._vmap_support[form] = True
            except TacitError:
                looped.check(self.objective, form, params.dtype)
                self._vmap_support[form] = False
        return "vectorised" if self._vmap_support[form] else "looped"

    def _check_engine(self, params: Tensor, x: Tensor, y: Tensor, clip: Clip | None, masked: bool) -> None:
        supported = {
            "stacked": self.stackable(x),
            "convolutional": self._convolvable(x),
            "ghost": self.engine == "ghost" and (clip is None or clip.degree == 2) and self._ghostable(params, x, y),
            "summed": clip is None and (not masked or self.separates(x)),
            "vectorised": self.engine == "vectorised" and self.one_at_a_time(params, x, y) == "vectorised",
        }
        if not supported.get(self.engine, True):
            raise TacitError(f'engine "{self.engine}" does not support this model with this clip; use engine "auto"')
