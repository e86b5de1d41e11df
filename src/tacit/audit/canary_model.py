"""Canaries for the audit of one run: many records at one node, each included with probability ½."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.audit.bounds import Flags
from tacit.audit.canary_task import CANARY_SCALE
from tacit.errors import TacitError
from tacit.privacy import Noise, Relation
from tacit.runs import UserParts
from tacit.tasks import Clip, Layout, Model, Target, Task
from tacit.tasks.gradients import FunctionObjective

Ints = npt.NDArray[np.int64]


class CanaryModel(Model):
    """A model with one additional shared parameter per canary, on which no other record's loss depends.

    Canaries have labels from `classes` on. Canary i has the loss CANARY_SCALE · w_i, w_i its own parameter, and the
    label classes + 2i; its alternative, with the label classes + 2i + 1, has the opposite gradient or none. After
    clipping, a canary's gradient is as long as the bound and lies in a column that contains nothing else but noise.
    All other records are handled by the real model.
    """

    def __init__(self, real: Model, classes: int, canaries: int, relation: Relation) -> None:
        self._real, self._classes = real, classes
        alternative = -CANARY_SCALE if relation == "replace-one" else 0.0
        self._slopes = torch.tensor([CANARY_SCALE, alternative]).repeat(canaries)
        self._canary_model = Model.from_loss(lambda w, x, y: x * w[0], torch.zeros(1))  # one canary per row
        self.canary_columns = slice(real.shared, real.shared + canaries)
        widths = {"shared": real.shared, "canaries": canaries, "local": real.d - real.shared}
        names = tuple(name for name, width in widths.items() if width)
        shapes = tuple((widths[name],) for name in names)
        layout = Layout(names, shapes, self.canary_columns.stop, real.bounded + canaries)
        start = real.initial()
        initial = torch.cat([start[: real.shared], start.new_zeros(canaries), start[real.shared :]])
        self._init(FunctionObjective(self._loss, layout), initial, "auto", real.weight_decay)

    def mask_keys(self, noise: Noise, nodes: Ints, step: int, records: Tensor) -> Tensor | None:
        """Those of the real model."""
        return self._real.mask_keys(noise, nodes, step, records)

    def longest_input(self, smoothness: float) -> float | None:
        """That of the real model: the loss of a canary is linear."""
        return self._real.longest_input(smoothness)

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
        """See `Model.gradient_sum`: the real model's engine, and for canaries their own parameters only."""
        out = torch.empty_like(params) if out is None else out
        per_record = clip if clip is not None and clip.per == "record" else None
        canary, shared = y >= self._classes, self._real.shared
        real_weight, real_y = weight.masked_fill(canary, 0.0), y.clamp(max=self._classes - 1)
        earlier = None if before is None else self._real_columns(before)
        columns_of_real = self._real_columns(params)
        real = self._real.gradient_sum(columns_of_real, x, real_y, real_weight, per_record, None, earlier, keys, copies)
        out[:, :shared], out[:, self.canary_columns] = real[:, :shared], 0.0
        out[:, self.canary_columns.stop :] = real[:, shared:]
        for node in canary.any(1).nonzero()[:, 0].tolist():  # at most one: all canaries are at one node
            code = y[node, canary[node]] - self._classes
            columns = self.canary_columns.start + code // 2
            bound = per_record and replace(per_record, bound=float(per_record.for_nodes(slice(node, node + 1)).bound))
            gradients = self._canary_model.gradient_sum(
                params[node, columns, None],
                self._slopes[code, None],
                code[:, None],
                weight[node, canary[node], None],
                bound,
                None,
                None if before is None else before[node, columns, None],
            )
            out[node, columns] = gradients[:, 0]
        if clip is not None and clip.per == "batch":
            out[:, : self.bounded] = clip.clip_rows(out[:, : self.bounded])
        return out

    def _real_columns(self, params: Tensor) -> Tensor:
        """The columns (n, d) of the real model."""
        shared, local = params[:, : self.canary_columns.start], params[:, self.canary_columns.stop :]
        return torch.cat([shared, local], 1) if local.shape[1] else shared

    def _loss(self, w: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """The loss of one record, whose gradient `gradient_sum` computes."""
        code = (y - self._classes).clamp(min=0)
        canary_parameter = w.gather(0, self.canary_columns.start + code[None] // 2)[0]
        canary = self._slopes.to(w.dtype).gather(0, code[None])[0] * canary_parameter
        parameters = self._real.layout.unflatten(self._real_columns(w[None])[0])
        real = self._real._objective.record(parameters, self._real._match_dtype(w, x), y.clamp(max=self._classes - 1))
        return torch.where(y < self._classes, real, canary)


def plant_canaries(task: Task, included: Flags, node: int, relation: Relation) -> UserParts:
    """Return the parts of a task with one canary per entry of `included` among the records of `node`.

    Canaries replace as many of the node's records, so that its size does not grow unless there are more canaries.
    Two tasks that differ in one entry of `included` are neighbours in the sense of the guarantee. For add-remove, the
    declared number of records is public, and with it the sampling rate and the divisor of a sum; an excluded canary
    is replaced by a record without gradient. For replace-one, its opposite replaces it.
    """
    data, count = task.data, len(included)
    if data.private is not None:
        raise TacitError('an audit in one run needs declared ranges: replace range = "private" by range = [low, high]')
    if data.target.kind != "class":
        raise TacitError(f"canaries need a task with classes, got targets of kind {data.target.kind}")
    model = CanaryModel(task.model, data.classes, count, relation)
    y = torch.from_numpy(data.classes + 2 * np.arange(count) + ~included)
    x = data.x[task.shards[node][:1]].expand(count, *data.inputs)  # any valid input: a canary's loss ignores it
    target = Target.of_classes(data.classes + 2 * count)
    extended = replace(data, x=torch.cat([data.x, x]), y=torch.cat([data.y, y]), target=target, name="canaries")
    shards = list(task.shards)
    shards[node] = np.concatenate([shards[node][count:], len(data.y) + np.arange(count)])
    return UserParts(data=extended, sharding=shards, model=model)
