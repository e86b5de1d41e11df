"""Metrics: every number that is measured, charted or put into a table, each defined once.

A metric is a class in a module of this package. Importing the package registers all of them, so adding a metric takes
one file:

    @metrics.register("largest_parameter")
    class LargestParameter(Metric):
        \"\"\"Largest parameter of the nodes' mean model.\"\"\"

        title = "Largest parameter"
        short = "largest"
        optional = True  # measured in runs with `measure = ["largest_parameter"]`

        def measure(self, evaluation: Evaluation) -> float:
            return float(evaluation.mean.abs().max())
"""

from tacit.registry import discover
from tacit.runs.metrics.evaluation import Evaluation, computed_once
from tacit.runs.metrics.metric import (
    Metric,
    Result,
    all_metrics,
    has_failed,
    headline,
    headline_metrics,
    metric,
    metrics,
    optional_metrics,
)
from tacit.runs.metrics.prediction_metric import PredictionMetric, evaluated_metrics, prediction_metrics, scores_of
from tacit.runs.metrics.utility import Scores, Utility, trivial_scores, utility_of

discover(__name__)

from tacit.runs.metrics.sensitivity import Trace, mean_real_sensitivity, violations  # noqa: E402

__all__ = [
    "Evaluation",
    "Metric",
    "PredictionMetric",
    "Result",
    "Scores",
    "Trace",
    "Utility",
    "all_metrics",
    "computed_once",
    "evaluated_metrics",
    "has_failed",
    "headline",
    "headline_metrics",
    "mean_real_sensitivity",
    "metric",
    "metrics",
    "optional_metrics",
    "prediction_metrics",
    "scores_of",
    "trivial_scores",
    "utility_of",
    "violations",
]
