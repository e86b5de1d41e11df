"""The learning task: a model, a loss and the shard of every hosted node."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.privacy import Bounded, Ledger, Noise, PairNoise, Relation, ReleaseContext
from tacit.tasks.augmentation import Augmentation
from tacit.tasks.batch_sums import GradientPoint
from tacit.tasks.clip import Clip, Clipping, used_clip
from tacit.tasks.data import Dataset
from tacit.tasks.evaluation import Metrics, Predictions, predict_tests
from tacit.tasks.gradient_request import GradientRequest, sum_alone
from tacit.tasks.gradients.memory import keep_freed_memory
from tacit.tasks.heads import refuse_mismatch
from tacit.tasks.model import Model
from tacit.tasks.precision import Precision
from tacit.tasks.records import CPU, Records, checked_dtype, refuse_gradient
from tacit.tasks.sampling import Sampler
from tacit.tasks.shards import check_records
from tacit.tasks.statistics import Statistic, bounded_total
from tacit.tasks.task_facts import TaskFacts
from tacit.tasks.weights import Weighting, node_weights


class Task(TaskFacts):
    """The records of the hosted nodes and the model they train.

    Privacy:
        Algorithms get the task `without_records`. Gradients and statistics leave a node only by `Mechanism.release`.

    Args:
        model: The model that every node trains.
        data: The training and test records.
        shards: The indices of each hosted node's records in the training set, one array per node.
        batch: The expected batch size per node; None: all records.
        sampling: How the records of a batch are drawn.
        relation: Which data sets are neighbours; None: the default of the sampling.
        epochs: After how many epochs the records are shuffled again, for sampling by permutation.
        noise: The source of the nodes' noise; None: secret. `Noise.from_seed` makes the run a simulation.
        ledger: Records every release; None: a new ledger in memory.
        nodes: The global ids of the hosted nodes, one per shard; None: 0, 1, …
        dtype: The precision of parameters and gradients.
        device: Where parameters, records and gradients are.
        precision: That of forward and backward passes, "float32" (the dtype) or "bf16".
        public: Public randomness, the same at every node of the network; None: that of seed 0.
        repeats: Whether a record may stand in several places. Only for audits: a guarantee is for records in one place.
        network_sizes: The public number of records of every node of the network; None: that of the hosted nodes.
        weighting: With "records", the gradient and its sensitivity are multiplied by the node's `weights`.
        clipping: "method": gradients are clipped as the algorithm asks. "automatic": gradients (not differences of
            gradients) are normalised to its bound instead, which has the same sensitivity.
        augmentation: Random copies of every image, whose mean gradient is clipped; None: no copies.

    Raises:
        TacitError: If a shard is empty, a record stands in two places, or an argument is not valid.

    Example:
        >>> from tacit.tasks import datasets, models, shards
        >>> data = datasets.build("digits")
        >>> module = models.build("logistic", {"inputs": data.inputs, "classes": data.classes})
        >>> task = Task(Model(module), data, shards["iid"](data.y.numpy(), 4, 0), batch=16)
        >>> g = task.gradient(task.initial(), step=0, clip=Clip(1.0))
        >>> g.sensitivity.tolist()  # one record moves the sum by at most C, the mean by C / B
        [0.0625, 0.0625, 0.0625, 0.0625]
    """

    def __init__(
        self,
        model: Model,
        data: Dataset,
        shards: Sequence[npt.NDArray[np.int64]],
        *,
        batch: int | None = None,
        sampling: str = "poisson",
        relation: Relation | None = None,
        epochs: int = 1,
        noise: Noise | None = None,
        ledger: Ledger | None = None,
        nodes: npt.NDArray[np.int64] | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device = CPU,
        precision: Precision = "float32",
        public: Noise | None = None,
        repeats: bool = False,
        network_sizes: npt.NDArray[np.int64] | None = None,
        weighting: Weighting = "equal",
        clipping: Clipping = "method",
        augmentation: Augmentation | None = None,
    ) -> None:
        self.model, self.dtype, self.device = model, checked_dtype(dtype, device), device
        model.use_precision(precision, dtype)
        self.nodes = np.arange(len(shards)) if nodes is None else nodes
        self.noise, self.public = noise or Noise.from_system(), public or Noise.from_seed(0)
        self.ledger = Ledger() if ledger is None else ledger
        self.sizes = np.array([len(shard) for shard in shards], np.int64)
        check_records(shards, self.nodes, repeats=repeats)
        with refuse_mismatch(declared=data.declared):
            self.head = model.head(data.inputs, data.target, tokens=data.tokens)
        same = partial(Task, batch=batch, sampling=sampling, relation=relation, epochs=epochs, dtype=dtype)
        also: dict[str, Any] = {"weighting": weighting, "clipping": clipping, "augmentation": augmentation}
        self._with_same_settings = partial(same, repeats=repeats, device=device, precision=precision, **also)
        self.n, self.d, self.weighting = len(shards), model.d, weighting  # the numbers of nodes and of parameters
        self.network_sizes = self.sizes if network_sizes is None else network_sizes
        node_weights(weighting, self.nodes, self.network_sizes)  # raises now if they are not known
        self._new_sampler = partial(Sampler, batch=batch, kind=sampling, relation=relation, epochs=epochs)
        self.sampler = self._new_sampler(self.sizes, nodes=self.nodes, noise=self.noise)
        self._records = Records(model, data, shards, augmentation, device)
        self.draws, self.clipping, self.precision = 0, clipping, precision
        self.sum_gradients: Callable[[GradientRequest], Tensor] = sum_alone
        self.on_release: Callable[[int, str, Tensor, npt.NDArray[np.float64]], None] | None = None
        self.pair_noise: PairNoise | None = None  # of nodes elsewhere; None: derived from the noise
        keep_freed_memory()

    @property
    def data(self) -> Dataset:
        """The training and test records; not for algorithms."""
        return self._records.data

    @property
    def shards(self) -> Sequence[npt.NDArray[np.int64]]:
        """The indices of each hosted node's training records; not for algorithms."""
        return self._records.shards

    def host(self, rows: Sequence[int], ledger: Ledger | None = None) -> Task:
        """Return a task that hosts only the nodes in `rows`, as a separate process would, without shared mutable state.

        `ledger` is its ledger in the same run; None: another run, with new secret noise.
        """
        same_noise = ledger is not None or self.noise.simulated
        return self._with_same_settings(
            copy.deepcopy(self.model),
            *self._records.of_nodes(rows),
            noise=self.noise if same_noise else None,
            public=self.public,
            ledger=ledger,
            nodes=self.nodes[list(rows)],
            network_sizes=self.network_sizes,
        )

    def without_records(self, *, gradients: bool = True) -> Task:
        """Return the task as an algorithm sees it: it has no data, shards or draws.

        It has `gradient` and `statistic` unless `gradients` is False, as it is before a run begins (`Algorithm.bind`).
        """
        seen = copy.copy(self)
        del seen.__dict__["_records"]
        seen.gradient = self.gradient if gradients else refuse_gradient  # type: ignore[method-assign]
        seen.statistic = self.statistic if gradients else refuse_gradient  # type: ignore[method-assign]
        seen.limit_smoothness = self.limit_smoothness  # type: ignore[method-assign]
        seen.sampler = self.sampler.without_draws()
        return seen

    if not TYPE_CHECKING:  # a type checker then still finds misspelt attributes

        def __getattr__(self, name: str) -> NoReturn:
            if name == "_records":
                raise TacitError("An algorithm has no access to the records: use task.gradient or task.statistic")
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def of_network(self) -> Task:
        """Return the public facts of all nodes of the network as a task without records, whoever hosts the nodes."""
        seen = self.without_records(gradients=False)
        seen.nodes, seen.sizes, seen.n = np.arange(len(self.network_sizes)), self.network_sizes, len(self.network_sizes)
        seen.sampler = self._new_sampler(seen.sizes, nodes=seen.nodes, noise=self.public).without_draws()
        return seen

    def gradient(
        self,
        params: Tensor,
        step: int,
        clip: Clip | None = None,
        purpose: str = "gradient",
        before: Tensor | None = None,
    ) -> Bounded:
        """Return each node's mean gradient over the records of one draw, times its weight.

        The bounded columns are its `value`, the other columns `local`. The sum is divided by the *expected* batch size,
        which is public. The actual size depends on the records.

        Args:
            params: The nodes' parameters (n, d).
            step: The number of the draw.
            clip: The bound on the gradients; None: no bound, and the result has no sensitivity.
            purpose: What the gradient is for, as the ledger records it.
            before: Earlier parameters (n, d). If given, the difference of each record's gradients at `params` and at
                `before` is clipped and averaged.
        """
        clip = used_clip(self.clipping, clip, differences=before is not None)
        point = GradientPoint(params, clip, before)
        value = self.sum_gradients(GradientRequest(self._records, self.sampler, self.noise, self.nodes, step, point))
        self.draws += 1
        self.ledger.open(step, purpose)
        bounded, local = self.weighted(value).tensor_split([self.model.bounded], 1)
        return Bounded(
            bounded.contiguous(),
            sensitivity=None if clip is None else self.sensitivity(clip),
            norm="l2" if clip is None else clip.order,
            sampling=self.sampling,
            step=step,
            purpose=purpose,
            context=self.release_context,
            unit="record",
            _local=local,
        )

    def statistic(self, statistic: Statistic, step: int = 0, purpose: str | None = None) -> Bounded:
        """Return a sum over all records of each node (n, length), such as `Mean()`: sampling amplifies nothing.

        `purpose` is what it is for, as the ledger records it; None: the name of the statistic.
        """
        how = step, purpose, self.sampling.relation, self.release_context
        return bounded_total(statistic, self.data, self.shards, *how, self.device)

    def limit_smoothness(self, smoothness: float) -> bool:
        """Scale down longer records, each by itself, so that losses are `smoothness`-smooth, up to rounding.

        Return whether this is enforced. If the model's smoothness is unknown, it is an assumption.
        """
        if (longest := self.model.longest_input(smoothness)) is None:
            return False
        self._records.limit_lengths(longest)
        return True

    @property
    def release_context(self) -> ReleaseContext:
        """What a mechanism needs to release values of these nodes."""
        return ReleaseContext(self.nodes, self.ledger, self.noise, self.on_release, self.pair_noise)

    def full_gradient(self, params: Tensor) -> Tensor:
        """Return ∇f_i (n, d) over all records at one parameter vector (d,): a measurement, without protection."""
        every, drawn = params.to(self.device).repeat(self.n, 1), self._records.all_of_each_node(self.dtype)
        return self.weighted(self._records.gradient_sum(every, drawn, None))

    def evaluate(self, params: Tensor) -> Metrics:
        """Return loss and accuracy of one model (d,) on the test set. Only classifiers have an accuracy; else NaN."""
        return self.predict_tests(params).metrics

    def predict_tests(self, params: Tensor) -> Predictions:
        """Return the predictions of one model (d,) for the test set."""
        return predict_tests(self.model, self.head, params.to(self.device), self.data.test_x, self.data.test_y)
