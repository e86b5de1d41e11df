"""How good the predictions of numbers and counts are, in the unit of the records."""

from __future__ import annotations

import math
from typing import ClassVar

from tacit.runs.metrics.metric import metrics
from tacit.runs.metrics.prediction_metric import PredictionMetric, TestedModel
from tacit.tasks import TargetKind


class ErrorMetric(PredictionMetric):
    """A number that is smaller for better predictions of values."""

    kinds: ClassVar[tuple[TargetKind, ...]] = ("number", "count")
    format, higher_is_better = ".3g", False


@metrics.register("rmse")
class RootMeanSquaredError(ErrorMetric):
    """Root mean squared error on the test records, in their unit."""

    title, short, position, headline = "Root mean squared error", "RMSE", 0, True

    def compute(self, tested: TestedModel) -> float:
        from sklearn.metrics import mean_squared_error

        return math.sqrt(mean_squared_error(tested.y, tested.decided))


@metrics.register("mae")
class MeanAbsoluteError(ErrorMetric):
    """Mean absolute error on the test records, in their unit."""

    title, short, position, headline = "Mean absolute error", "MAE", 1, True

    def compute(self, tested: TestedModel) -> float:
        from sklearn.metrics import mean_absolute_error

        return float(mean_absolute_error(tested.y, tested.decided))


@metrics.register("r2")
class RSquared(PredictionMetric):
    """Coefficient of determination R²: 1 for exact predictions, 0 for the mean of the test records."""

    title, short, limit, position = "R²", "R²", 1.0, 3
    kinds = ("number", "count")

    def compute(self, tested: TestedModel) -> float | None:
        from sklearn.metrics import r2_score

        return float(r2_score(tested.y, tested.decided)) if tested.y.min() < tested.y.max() else None


@metrics.register("poisson_deviance")
class PoissonDeviance(ErrorMetric):
    """Mean Poisson deviance of the expected counts."""

    title, short, position = "Poisson deviance", "Poisson deviance", 4
    kinds = ("count",)

    def compute(self, tested: TestedModel) -> float | None:
        from sklearn.metrics import mean_poisson_deviance

        return float(mean_poisson_deviance(tested.y, tested.decided)) if tested.decided.min() > 0 else None
