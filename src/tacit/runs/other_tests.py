"""The model of a run, measured on other records than the run's test records."""

from __future__ import annotations

from torch import Tensor

from tacit.errors import TacitError
from tacit.runs.metrics import Evaluation, Utility, prediction_metrics, trivial_scores, utility_of
from tacit.runs.run import Run
from tacit.tasks import Predictions, predict_tests, record_preparation


def utility_on(run: Run, x: Tensor, y: Tensor) -> Utility:
    """Return all metrics of the present model on records x with targets y, beside those of the trivial predictor.

    The records must be as the run's were given, and no training records: metrics contain no noise. They are centred and
    whitened here, as those of the run were.
    """
    preparation = record_preparation(run.task)
    x = x if preparation is None else preparation(x)
    task, model = run.task.without_records(gradients=False), run.task.model

    def predict(params: Tensor) -> Predictions:
        return predict_tests(model, task.head, params, x, y)

    task.predict_tests = predict  # type: ignore[method-assign]
    trivial = trivial_scores(task.head, y)
    measured, state, network = prediction_metrics(task.head), run.checkpoint.state, run.network
    evaluation = Evaluation(
        task, run.algorithm, network, state, run.privacy, network.traffic, lambda: run.seconds, measured
    )
    try:
        with network.unmetered():
            return utility_of(evaluation, trivial)
    except TacitError:  # models that are not finite cannot be measured
        return Utility.unknown(task.head, trivial)
