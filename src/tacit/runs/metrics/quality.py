"""How good the models are: loss, consensus, norms."""

from __future__ import annotations

import math
import statistics

import torch

from tacit.errors import TacitError
from tacit.runs.metrics.evaluation import Evaluation
from tacit.runs.metrics.metric import Metric, Result, metrics
from tacit.runs.metrics.prediction_metric import PredictionMetric, TestedModel
from tacit.tasks import Head, Task

_LAST_EVALUATIONS = 5  # over which the noise in stationarity is averaged


@metrics.register("loss")
class Loss(PredictionMetric):
    """Loss of the nodes' mean model on the test records."""

    title, short = "Test loss", "loss"
    position, headline, higher_is_better = 2, True, False

    def applies(self, head: Head | None) -> bool:
        return True

    def value(self, tested: TestedModel) -> float:
        return tested.loss


@metrics.register("consensus")
class ConsensusDistance(Metric):
    """Root mean square distance of the nodes' models from their mean."""

    title, short = "Consensus distance", "consensus"
    about = "root mean square distance of the nodes’ models from their mean"
    position, needs_all_nodes, reads_models = 10, True, True

    def measure(self, evaluation: Evaluation) -> float:
        apart = (evaluation.parts[0] - evaluation.mean).square().sum(1, keepdim=True)
        return math.sqrt(float(evaluation.network.mean(apart)))


@metrics.register("stationarity")
class Stationarity(Metric):
    """Norm ‖∇F(x̄)‖ of the mean model's gradient over all training records of all nodes."""

    title, short, format = "Gradient norm ‖∇F(x̄)‖", "‖∇F(x̄)‖", ".4f"
    about = "of the nodes’ mean model, over all training records"
    summary = f"mean of the last {_LAST_EVALUATIONS} evaluations"
    position, optional, needs_all_nodes = 20, True, True
    reads_models, reads_records = True, True

    def check(self, task: Task) -> None:
        if task.model.shared < task.d:
            raise TacitError(
                "stationarity can be measured only where all parameters are shared: "
                "remove it from measure, or remove algorithm.share"
            )

    def measure(self, evaluation: Evaluation) -> float:
        return float(evaluation.network.mean(evaluation.task.full_gradient(evaluation.mean)).norm())

    def summarise(self, result: Result) -> float | None:
        values = [row.get(self.name) for row in result["history"][-_LAST_EVALUATIONS:]]
        return None if None in values or not values else float(statistics.fmean(values))


@metrics.register("node_accuracy")
class NodeAccuracy(Metric):
    """Accuracy of each node's own model on the test records, averaged over the nodes."""

    title, short = "Test accuracy of the nodes’ own models", "own models"
    unit, scale, limit = "%", 100.0, 100.0
    format, table_format = ".1f", ".2f"
    about = "mean over the nodes"
    position, optional, needs_all_nodes, reads_models = 21, True, True, True

    def check(self, task: Task) -> None:
        if task.head is None or not task.head.classifies:
            raise TacitError("node_accuracy can be measured only for classifiers: remove it from measure")

    def measure(self, evaluation: Evaluation) -> float | None:
        each = [[evaluation.task.evaluate(model).accuracy] for model in evaluation.models]
        return evaluation.mean_over_nodes(torch.tensor(each, dtype=torch.float64))[0]


class Norm(Metric):
    """A norm that algorithms report (`Algorithm.norms`); histories contain it for those that do."""

    about, about_site = "mean over the nodes", "of the site"
    summary, position, reads_models = "last evaluation", 30, True


@metrics.register("primal_norm")
class PrimalNorm(Norm):
    """Norm of the models, averaged over the nodes."""

    title, short = "Norm of the models", "‖w‖"


@metrics.register("dual_norm")
class DualNorm(Norm):
    """Norm of the dual variables, averaged over the nodes."""

    title, short = "Norm of the dual variables", "‖λ‖"
    position = 31
