"""Records made to be found: hundreds of them at one node of a real run, each there by the toss of a coin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.audit.bounds import Flags
from tacit.audit.worlds import FAR
from tacit.graphs import Graph
from tacit.networks import Simulated
from tacit.privacy.bounded import Relation
from tacit.runs import UserParts
from tacit.tasks import Clip, Model, Task
from tacit.tasks.gradients import FunctionObjective
from tacit.tasks.layout import Layout


class Planted(Model):
    """A model with one more shared parameter for each canary, which no other record's loss depends on.

    Labels from `classes` on are canaries': 2i more is the one whose loss is FAR · w_i, w_i being its own parameter,
    2i + 1 more the one in its place that is its opposite, or has no gradient. Clipped, a canary's gradient is as long
    as the clip allows, and lies where nothing but noise hides it. All others are worked on by the real model.
    """

    def __init__(self, real: Model, classes: int, canaries: int, relation: Relation) -> None:
        self._real, self._classes = real, classes
        self._slopes = torch.tensor([FAR, -FAR if relation == "replace-one" else 0.0]).repeat(canaries)
        self._mark = Model.from_loss(lambda w, x, y: x * w[0], torch.zeros(1))  # each canary as a node of its own
        self.own = slice(real.shared, real.shared + canaries)
        parts = {"shared": real.shared, "canaries": canaries, "local": real.d - real.shared}
        names = tuple(name for name, width in parts.items() if width)
        shapes = tuple((parts[name],) for name in names)
        layout = Layout(names, shapes, self.own.stop, real.bounded + canaries)
        start = real.initial()
        initial = torch.cat([start[: real.shared], start.new_zeros(canaries), start[real.shared :]])
        self._start(FunctionObjective(self._loss, layout), initial, "auto", real.weight_decay)

    def smoothness(self, square: float) -> float | None:
        """That of the real model: a canary's loss is linear."""
        return self._real.smoothness(square)

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
        """As every model's, by the real one's engine and, for canaries, on their own parameters alone."""
        out = torch.empty_like(params) if out is None else out
        each = clip if clip is not None and clip.per == "record" else None
        canary, shared = y >= self._classes, self._real.shared
        others, known = weight.masked_fill(canary, 0.0), y.clamp(max=self._classes - 1)
        earlier = None if before is None else self._of_real(before)
        real = self._real.gradient_sum(self._of_real(params), x, known, others, each, None, earlier)
        out[:, :shared], out[:, self.own], out[:, self.own.stop :] = real[:, :shared], 0.0, real[:, shared:]
        for node in canary.any(1).nonzero()[:, 0].tolist():  # one at most: canaries are at one node
            code = y[node, canary[node]] - self._classes
            places = self.own.start + code // 2
            bound = each and replace(each, bound=float(each.at(slice(node, node + 1)).bound))
            earlier = None if before is None else before[node, places, None]
            marks = self._mark.gradient_sum(
                params[node, places, None],
                self._slopes[code, None],
                code[:, None],
                weight[node, canary[node], None],
                bound,
                None,
                earlier,
            )
            out[node, places] = marks[:, 0]
        if clip is not None and clip.per == "batch":
            out[:, : self.bounded] = clip.rows(out[:, : self.bounded])
        return out

    def _of_real(self, params: Tensor) -> Tensor:
        """The columns (n, d) that the real model has."""
        local = params[:, self.own.stop :]
        return torch.cat([params[:, : self.own.start], local], 1) if local.shape[1] else params[:, : self.own.start]

    def _loss(self, w: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """One record's loss: what `gradient_sum` is the gradient of."""
        code = (y - self._classes).clamp(min=0)
        mark = self._slopes.to(w.dtype).gather(0, code[None])[0] * w.gather(0, self.own.start + code[None] // 2)[0]
        parameters = self._real.layout.unflatten(self._of_real(w[None])[0])
        real = self._real._objective.record(parameters, x, y.clamp(max=self._classes - 1))
        return torch.where(y < self._classes, real, mark)


def planted(task: Task, coins: Flags, node: int, relation: Relation) -> UserParts:
    """The parts of a task with canaries among the records of one node, as `coins` fell.

    They take the place of as many records, so that the node holds no more than it did, if they are no more than those.
    The worlds in which one coin falls otherwise are neighbours as the guarantee has it. `add-remove`: how many
    records a node is said to hold is public, and with it the sampling rate and what a sum is divided by; a record that
    is not there is one without gradient in its place. `replace-one`: in its place is its opposite.
    """
    data, count = task.data, len(coins)
    model = Planted(task.model, data.classes, count, relation)
    y = torch.from_numpy(data.classes + 2 * np.arange(count) + ~coins)
    x = data.x[task.shards[node][:1]].expand(count, *data.inputs)  # of no account, but as sound as any
    more = replace(
        data, x=torch.cat([data.x, x]), y=torch.cat([data.y, y]), classes=data.classes + 2 * count, name="canaries"
    )
    shards = list(task.shards)
    shards[node] = np.concatenate([shards[node][count:], len(data.y) + np.arange(count)])
    return UserParts(data=more, sharding=shards, model=model)


class Wiretap(Simulated):
    """A network with a listener at the links of one node, who writes down some columns of what goes out and comes in.

    What comes in is heard as the node uses it, weighted and summed; on links with variables of their own, those to
    nodes of lower and of higher number apart, as methods give them opposite signs.
    """

    def __init__(self, graph: Graph, node: int, columns: slice) -> None:
        super().__init__(graph)
        self._node, self._columns = node, columns
        self._round: dict[str, Tensor] = {}
        self._rounds: list[Tensor] = []

    def mix(self, t: int, *values: Tensor, row_bytes: int | None = None) -> tuple[Tensor, ...]:
        mixed = super().mix(t, *values, row_bytes=row_bytes)
        for sent, taken in zip(values, mixed, strict=True):
            if sent.dim() == 2:  # push-sum weights have no columns, and tell nothing of records
                self._hear(f"message {len(self._round)}", sent[self._node], taken[self._node])
        return mixed

    def swap(self, t: int, z: Tensor, only: Tensor | None = None) -> Tensor:
        received, edges = super().swap(t, z, only), self.edges(t)
        spoken = np.ones(len(z), bool) if only is None else only.numpy()
        for side, there in {"lower": edges.target < self._node, "higher": edges.target > self._node}.items():
            links = torch.from_numpy((edges.source == self._node) & there & spoken)
            self._hear(side, z[links].sum(0), received[links].sum(0))
        return received

    def mean(self, x: Tensor) -> Tensor:
        mean = super().mean(x)
        self._hear(f"message {len(self._round)}", x[self._node], mean)
        return mean

    def end_round(self) -> None:
        self._rounds.append(torch.stack(list(self._round.values())))
        self._round = {}

    def heard(self) -> npt.NDArray[np.float64]:
        """(rounds, messages sent or taken in, columns)."""
        return torch.nn.utils.rnn.pad_sequence(self._rounds, batch_first=True).numpy()

    def _hear(self, what: str, sent: Tensor, taken: Tensor) -> None:
        """Links of which each speaks at its own time are heard as one message a round."""
        for verb, value in (("out", sent), ("in", taken)):
            heard = value[self._columns].detach().double()
            self._round[f"{what} {verb}"] = self._round.get(f"{what} {verb}", torch.zeros_like(heard)) + heard
