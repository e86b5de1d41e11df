"""Metrics: each is defined once, found through the registry, and measured where it is requested."""

import pytest
import torch

from tacit.errors import TacitError
from tacit.reports import ReportPage, read_records, render_run_page
from tacit.runs import Config, from_config
from tacit.runs.metrics import Metric, all_metrics, metric, metrics, optional_metrics

SMALL = {
    "rounds": 2,
    "evaluate_every": 1,
    "graph": {"name": "ring", "nodes": 3},
    "batch": {"size": 8},
    "privacy": {"epsilon": 2.0},
}


@pytest.fixture
def largest_parameter():
    """A metric that is registered for one test."""

    @metrics.register("largest_parameter")
    class LargestParameter(Metric):
        """Largest parameter of the nodes' mean model."""

        title, short, optional = "Largest parameter", "largest", True

        def measure(self, evaluation):
            return float(evaluation.mean.abs().max())

    yield "largest_parameter"
    del metrics._makers["largest_parameter"]
    metric.cache_clear()


def test_every_metric_is_described():
    for each in all_metrics():
        assert each.title
        assert each.short
        assert metrics.describe()[each.name]
        assert format(1.5, each.format)
        assert format(1.5, each.number_format)


def test_metrics_are_shown_in_order_of_their_position():
    positions = [each.position for each in all_metrics()]
    assert positions == sorted(positions)
    assert all_metrics()[0].name == "accuracy"


def test_unknown_metric_names_the_closest_one():
    with pytest.raises(TacitError, match='unknown optional metric "stationarty"; did you mean "stationarity"'):
        Config.parse({"measure": ["stationarty"]})
    with pytest.raises(TacitError, match='unknown optional metric "accuracy"'):
        Config.parse({"measure": ["accuracy"]})  # always measured
    with pytest.raises(TacitError, match='unknown metric "acuracy"; did you mean "accuracy"'):
        metric("acuracy")


def test_new_metric_is_measured_on_request_and_charted(largest_parameter, tmp_path):
    assert largest_parameter in optional_metrics()
    config = Config.parse({**SMALL, "measure": [largest_parameter]})
    run = from_config(config, out=tmp_path / "run", observers=[ReportPage()]).go()
    assert run.evaluations[-1][largest_parameter] == float(run.models.mean(0).abs().max())
    assert largest_parameter not in from_config(Config.parse(SMALL)).go().evaluations[-1]
    assert '<div class="chart" id="largest_parameter"' in render_run_page(read_records([tmp_path / "run"]))


def test_measuring_is_not_counted_as_traffic(largest_parameter):
    plain, measured = (
        from_config(Config.parse({**SMALL, "measure": names})).go() for names in ([], optional_metrics())
    )
    assert measured.evaluations[-1]["bytes"] == plain.evaluations[-1]["bytes"]
    assert torch.equal(measured.models, plain.models)


def test_metrics_that_read_records_are_noted_in_the_privacy_statement():
    run = from_config(Config.parse({**SMALL, "measure": ["stationarity"]}))
    assert "own records" in run.privacy.note
    assert "Stationarity" not in (from_config(Config.parse(SMALL)).privacy.note or "")


@pytest.fixture
def forget_metrics():
    """Forget metrics that are registered for one test."""
    yield
    metric.cache_clear()


@pytest.mark.usefixtures("forget_metrics")
def test_a_metric_that_reads_training_records_must_declare_it(monkeypatch):
    """Otherwise its exact values would stand in the history without a note."""

    class Peek(Metric):
        title = short = "peek"

        def measure(self, evaluation):
            return float(evaluation.task.data.y.sum())

    monkeypatch.setitem(metrics._makers, "peek", Peek)
    config = Config.parse({"rounds": 1, "graph": {"name": "ring", "nodes": 4}, "privacy": {"epsilon": 2.0}})
    with pytest.raises(TacitError, match="no access to the records"):
        from_config(config).go()
    Peek.reads_records = True
    run = from_config(config).go()
    assert "measured on the nodes' own records" in run.privacy.note
