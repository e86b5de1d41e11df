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
    metric,
    metrics,
    optional_metrics,
)

discover(__name__)

from tacit.runs.metrics.sensitivity import Trace, mean_real_sensitivity, violations  # noqa: E402

__all__ = [
    "Evaluation",
    "Metric",
    "Result",
    "Trace",
    "all_metrics",
    "computed_once",
    "has_failed",
    "headline",
    "mean_real_sensitivity",
    "metric",
    "metrics",
    "optional_metrics",
    "violations",
]
