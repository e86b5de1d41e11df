"""What is learned, from which records: a model, a loss and every hosted node's shard."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.privacy.bounded import Bounded, Relation, ReleaseContext, Sampling, SamplingKind
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import Noise
from tacit.tasks.batch_loader import BatchLoader
from tacit.tasks.clip import Clip
from tacit.tasks.data import Dataset
from tacit.tasks.gradients.memory import keep_freed_memory
from tacit.tasks.model import Model
from tacit.tasks.sampling import Draw, Sampler

_TEST_BATCH = 2048  # records tested at once


class Metrics(NamedTuple):
    """On the test set, which belongs to no node: reporting it tells nothing about the records."""

    loss: float
    accuracy: float


class Task:
    """The records of the hosted nodes and the model they train.

    `nodes` are the global ids of the rows; by default all shards are hosted here. `gradient` is the only way
    from the records to an algorithm, and what it returns can leave the node only by a mechanism's `release`. `noise` is
    the nodes' secret; `public` randomness is drawn alike by all nodes of a network.

    >>> from tacit.tasks import datasets, models, shards
    >>> data = datasets.build("digits")
    >>> module = models.build("logistic", {"inputs": data.inputs, "classes": data.classes})
    >>> parts = shards["iid"](data.y.numpy(), 4, 0)
    >>> task = Task(Model(module), data, parts, batch=16)
    >>> g = task.gradient(task.initial(), step=0, clip=Clip(1.0))
    >>> tuple(g.value.shape), g.sensitivity.tolist()  # C / B: the sum moves by at most C, the mean by C / B
    ((4, 650), [0.0625, 0.0625, 0.0625, 0.0625])
    """

    def __init__(
        self,
        model: Model,
        data: Dataset,
        shards: Sequence[npt.NDArray[np.int64]],
        *,
        batch: int | None = None,
        sampling: SamplingKind = "poisson",
        relation: Relation | None = None,
        epochs: int = 1,
        noise: Noise | None = None,
        ledger: Ledger | None = None,
        nodes: npt.NDArray[np.int64] | None = None,
        dtype: torch.dtype = torch.float32,
        public: Noise | None = None,
    ) -> None:
        self.model, self.data, self.shards, self.dtype = model, data, shards, dtype
        self.nodes = np.arange(len(shards)) if nodes is None else nodes
        self.noise = noise or Noise.from_seed(0)
        self.public = public or self.noise
        self.ledger = Ledger() if ledger is None else ledger
        self.sizes = np.array([len(shard) for shard in shards], np.int64)
        if self.sizes.min() < 1:
            raise TacitError(
                f"node {self.nodes[self.sizes.argmin()]} has no records: use fewer nodes or another sharding"
            )
        self._like = partial(Task, batch=batch, sampling=sampling, relation=relation, epochs=epochs, dtype=dtype)
        self.sampler = Sampler(self.sizes, batch, sampling, self.nodes, self.noise, relation, epochs)
        self._loader = BatchLoader(data, shards)
        self.draws = 0
        keep_freed_memory()

    @property
    def n(self) -> int:
        """Nodes hosted here."""
        return len(self.shards)

    @property
    def d(self) -> int:
        """Parameters of the model."""
        return self.model.d

    def host(self, rows: Sequence[int], ledger: Ledger | None = None) -> Task:
        """The same task with only these rows' nodes and their records, as another process would host it: nothing
        changeable is shared."""
        parts = [self.shards[row] for row in rows]
        held, places = np.unique(np.concatenate(parts), return_inverse=True)
        return self._like(
            copy.deepcopy(self.model),
            self.data.only(held),
            np.split(places, np.cumsum([len(part) for part in parts])[:-1]),
            noise=self.noise,
            public=self.public,
            ledger=ledger,
            nodes=self.nodes[list(rows)],
        )

    def initial(self) -> Tensor:
        """(n, d): every node starts from the same parameters."""
        return self.model.initial().to(self.dtype).repeat(self.n, 1)

    def split(self, params: Tensor) -> tuple[Tensor, Tensor]:
        """Parameters (n, d) as those that are shared and those that stay at their node."""
        return params[:, : self.model.shared], params[:, self.model.shared :]

    @property
    def sampling(self) -> Sampling:
        """How records are drawn, as far as it may be accounted.

        Local parameters that learn without noise remember records of earlier draws, so no record can count on
        not having been drawn.
        """
        drawn = self.sampler.sampling
        return drawn if self._forgets else Sampling("none", np.ones(self.n), drawn.relation)

    @property
    def _forgets(self) -> bool:
        """Whether all that a node remembers of its records has noise on it."""
        return self.model.bounded == self.d

    def gradient(
        self,
        params: Tensor,
        step: int,
        clip: Clip | None = None,
        purpose: str = "gradient",
        before: Tensor | None = None,
    ) -> Bounded:
        """The mean gradient of draw `step` at each node's row of `params`: its bounded columns, and beside them in
        `local` the others.

        It divides by the *expected* batch size, which is public; the realised one depends on the records. With `before`
        it is each record's gradient at `params` less that at `before` which is clipped and averaged.
        """
        drawn = self.sampler.draw(step)
        weight = drawn.weight.to(self.dtype) / torch.from_numpy(self.sampler.batch[:, None]).to(self.dtype)
        value = self._sum(params, Draw(drawn.records, weight), clip, before, self.sampler.distinct)
        self.draws += 1
        self.ledger.open(step, purpose)
        bounded, local = value.tensor_split([self.model.bounded], 1)
        return Bounded(
            value=bounded.contiguous(),
            sensitivity=None if clip is None else self.sensitivity(clip),
            norm="l2" if clip is None else clip.order,
            sampling=self.sampling,
            step=step,
            purpose=purpose,
            context=self.release_context,
            local=local,
        )

    @cached_property
    def smoothness(self) -> float | None:
        """The L of every hosted record's loss, where it is known: for logistic regression (Böhning's bound)."""
        held = torch.from_numpy(np.unique(np.concatenate(self.shards)))
        squares = torch.linalg.vector_norm(self.data.x[held].flatten(1), dim=1).square()
        return self.model.smoothness(float(squares.max()))

    @property
    def release_context(self) -> ReleaseContext:
        """Whose values these are: what a mechanism needs to release them."""
        return ReleaseContext(self.nodes, self.ledger, self.noise)

    def _sum(
        self,
        params: Tensor,
        drawn: Draw,
        clip: Clip | None,
        before: Tensor | None = None,
        distinct: int | None = None,
    ) -> Tensor:
        """Σ_b weight_b ∇ℓ_b over each node's drawn records, clipped, and the gradient of the model's weight decay."""
        value = torch.empty_like(params)
        for rows, x, y in self._loader.batches(drawn, distinct):
            weight, earlier = drawn.weight[rows, : y.shape[1]], None if before is None else before[rows]
            self.model.gradient_sum(params[rows], x, y, weight, clip and clip.at(rows), value[rows], earlier)
        if self.model.weight_decay:  # of no record: nothing to clip
            value.add_(params if before is None else params - before, alpha=self.model.weight_decay)
        return value

    def sensitivity(self, clip: Clip) -> npt.NDArray[np.float64]:
        """How far one record moves the mean: by C / B where it is added to or removed from the sum, by 2C / B where it
        is replaced; a clipped *batch* can swing from one side of its ball to the other. So can the sum of a whole batch
        at local parameters that have learnt from the record without noise: it moves the gradients of all others."""
        bound = np.broadcast_to(np.asarray(clip.bound, np.float64), (self.n,))
        if clip.per == "batch":
            return 2.0 * bound
        added = self.sampler.sampling.relation == "add-remove"
        if self._forgets:
            return (1.0 if added else 2.0) * bound / self.sampler.batch
        most = self.sizes if self.sampler.kind == "poisson" else self.sampler.batch
        return (2.0 * most + (1.0 if added else 0.0)) * bound / self.sampler.batch

    def full_gradient(self, params: Tensor) -> Tensor:
        """∇f_i (n, d) over all records of each node at one vector (d,): a measurement, which nothing protects."""
        sizes, places = torch.from_numpy(self.sizes)[:, None], torch.arange(self._loader.records.shape[1])
        weight = (places < sizes).to(self.dtype) / sizes
        return self._sum(params.repeat(self.n, 1), Draw(places.repeat(self.n, 1), weight), None)

    @torch.no_grad()
    def evaluate(self, params: Tensor) -> Metrics:
        """Loss and accuracy of one model (d,) on the test set; a bare loss function has no accuracy (NaN)."""
        loss = right = 0.0
        for start in range(0, len(self.data.test_y), _TEST_BATCH):
            part = slice(start, start + _TEST_BATCH)
            losses, rightly = self.model.scores(params, self.data.test_x[part].to(self.dtype), self.data.test_y[part])
            loss, right = loss + float(losses.sum()), right + float(rightly.sum())
        return Metrics(loss / len(self.data.test_y), right / len(self.data.test_y))


def join(shared: Tensor, local: Tensor | None) -> Tensor:
    """Rows of whole models (n, d) from shared and local parameters; where there are no local ones nothing is copied."""
    return shared if local is None or not local.shape[1] else torch.cat([shared, local], 1)
