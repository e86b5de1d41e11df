"""What is measured of a run at an evaluation: how good its models are, how far apart and how long."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from tacit.algorithms import Algorithm
from tacit.errors import TacitError
from tacit.networks import Network
from tacit.runs.privacy_meter import finite
from tacit.tasks import Metrics, Task


class Evaluator:
    """Always accuracy and loss of the mean model, how far the nodes are from it, and the norms that the algorithm has;
    with `also` ‖∇F‖ there ("stationarity"), or the mean accuracy of the nodes' own models ("nodes")."""

    def __init__(self, task: Task, algorithm: Algorithm[Any], network: Network, also: Collection[str] = ()) -> None:
        self.task, self.algorithm, self.network = task, algorithm, network
        self.reads_records, self._each_node = "stationarity" in also, "nodes" in also
        if self.reads_records and task.model.shared < task.d:
            raise TacitError("stationarity is measured where all parameters are shared: leave out measure, or share")
        if self._each_node and not task.model.classifies:
            raise TacitError("only models that classify have an accuracy to measure at the nodes: leave out measure")

    def __call__(self, state: Any) -> dict[str, float | None]:
        models = self.algorithm.models(state)
        with self.network.unmetered():
            shared, local = self.task.split(models)
            mean = self.network.mean(shared)
            spread = self.network.mean((shared - mean).square().sum(1, keepdim=True))
            metrics = self._metrics(mean, local)
            norms = self.algorithm.norms(state)
            lengths = self.network.mean(torch.stack(list(norms.values()), 1)).tolist()
            return {
                "accuracy": finite(metrics.accuracy),
                "loss": finite(metrics.loss),
                "consensus": math.sqrt(float(spread)),
                **dict(zip(norms, map(finite, lengths), strict=True)),
                **({"stationarity": self._stationarity(mean)} if self.reads_records else {}),
                **({"node_accuracy": self._node_accuracy(models)} if self._each_node else {}),
            }

    def _metrics(self, mean: Tensor, local: Tensor) -> Metrics:
        """Of the agreed model, together with each node's own parameters where there are any."""
        if not local.shape[1]:
            return self.task.evaluate(mean)
        each = [self.task.evaluate(torch.cat([mean, own])) for own in local]
        return Metrics(*self.network.mean(torch.tensor(each)).tolist())

    def _stationarity(self, mean: Tensor) -> float | None:
        """‖∇F(x̄)‖ over all records of all nodes."""
        return finite(float(self.network.mean(self.task.slope(mean)).norm()))

    def _node_accuracy(self, models: Tensor) -> float | None:
        """The mean of what every node's own model reaches, which costs an evaluation a node."""
        each = torch.tensor([[self.task.evaluate(model).accuracy] for model in models], dtype=torch.float64)
        return finite(float(self.network.mean(each)))
