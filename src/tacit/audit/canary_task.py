"""Two neighbouring data sets in one simulation: many small networks, half of them with a canary."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from tacit.algorithms import Algorithm
from tacit.audit.bounds import Flags
from tacit.privacy import Noise
from tacit.runs import Batch
from tacit.tasks import Dataset, Model, Target, Task
from tacit.tasks.gradients import Engine

ABSENT, _CANARY, _OPPOSITE, _OTHER = range(4)  # records of the canary data set
CANARY_SCALE = 1e6  # far beyond any clip bound: after clipping, the gradient has the length of the bound
_SMALL_SCALE = 1e-3  # far below any clip bound
_DIRECTIONS = {"l1": (1.0, 0.0, 0.0), "l2": (0.8, 0.6, 0.0)}  # worst case of each norm; unequal, and zero in one column


def canary_task(
    algorithm: Algorithm[Any],
    batch: Batch,
    noise: Noise,
    *,
    trials: int,
    nodes: int,
    records: int,
    other_gradient: float = 0.0,
    engine: Engine = "auto",
) -> tuple[Task, Flags]:
    """Return the task of all trials, and for each trial whether the canary is included.

    The loss is ⟨w, x⟩, so the gradient of a record is x at every model. At the first node of every trial one record
    is the canary, with a gradient far beyond the clip bound, or its alternative: a record without gradient
    (add-remove) or with the opposite gradient (replace-one). If the unit is a node, all its records are canaries. If
    the noise depends on the data, the alternative is a tiny gradient, for which there is hardly any noise. An
    algorithm that keeps some parameters local gets one local parameter beside the shared ones.

    Args:
        algorithm: The algorithm under attack.
        batch: How batches are sampled.
        noise: Source of the noise.
        trials: Number of small networks.
        nodes: Nodes per network.
        records: Records per node.
        other_gradient: The gradient of all other records, relative to the canary's direction.
        engine: Engine for per-record gradients.
    """
    included = np.arange(trials) % 2 == 1
    plan = algorithm.privacy
    model, data = _canary_model(algorithm, other_gradient, engine)
    task = partial(
        Task,
        model,
        data,
        batch=batch.size,
        sampling=batch.sampling,
        relation=batch.relation,
        epochs=batch.epochs,
        clipping=batch.clipping,
        noise=noise,
        dtype=torch.float64,
        repeats=True,
    )
    relation = plan.sampling(task([np.zeros(records, np.int64)])).relation
    alternative = _OPPOSITE if relation == "replace-one" and not plan.noise_depends_on_data else ABSENT
    shards = np.full((trials, nodes, records), _OTHER)
    canaries = records if plan.unit == "node" else 1
    shards[:, 0, :canaries] = np.where(included, _CANARY, alternative)[:, None]
    return task(list(shards.reshape(trials * nodes, records))), included


def _canary_model(algorithm: Algorithm[Any], other_gradient: float, engine: Engine) -> tuple[Model, Dataset]:
    """The model with the loss ⟨w, x⟩, and the four records: absent, canary, opposite, other."""
    plan = algorithm.privacy
    direction = torch.tensor(_DIRECTIONS[plan.norm])
    absent = _SMALL_SCALE if plan.noise_depends_on_data else 0.0  # no noise can be scaled to a zero gradient
    x = torch.tensor([absent, CANARY_SCALE, -CANARY_SCALE, other_gradient])[:, None] * direction
    if algorithm.fits_linear_classifiers_only:  # it uses records and labels, and no loss
        x = with_orthogonal(x)  # opposite records have the same second moments
        model = Model(nn.Linear(len(direction), 2, bias=False), engine=engine)
    elif algorithm.share is None:
        model = Model(nn.Linear(len(direction), 1, bias=False), lambda output, y: output[:, 0], engine=engine)
        model._initial.zero_()
    else:
        x = torch.cat([x, torch.zeros(4, 1)], 1)
        zero = torch.zeros(x.shape[1], dtype=torch.float64)
        model = Model.from_loss(lambda w, x, y: (w * x).sum(), zero, shared=len(direction), bounds=algorithm.bounds)
    y = torch.tensor([0, 1, 0, 1])  # the loss ignores labels
    return model, Dataset("canaries", x, y, x, y, Target.of_classes(2))


def with_orthogonal(x: torch.Tensor) -> torch.Tensor:
    """Return the canary records x (4, d) with one that is orthogonal to the canary in place of the opposite."""
    turned = x.clone()
    turned[_OPPOSITE, 0], turned[_OPPOSITE, 1] = -x[_CANARY, 1], x[_CANARY, 0]
    return turned
