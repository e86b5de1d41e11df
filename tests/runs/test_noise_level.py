"""A config without a target ε and without noise is refused before its records are read."""

import pytest

import tacit
from tacit.algorithms import algorithms
from tacit.runs import Config, PrivacyTarget
from tacit.runs.privacy_target import check_noise_level
from tests.helpers import example_algorithm

PRIVATE = sorted(name for name in algorithms if algorithms.noise_parameters(name))


def test_records_are_not_read(monkeypatch):
    def read(*_, **__):
        pytest.fail("the records were read")

    monkeypatch.setattr("tacit.runs.build.build_data", read)
    config = Config.parse({"data": {"name": "csv", "path": "records.csv"}, "algorithm": "const-d2p"})
    with pytest.raises(tacit.TacitError, match="no noise level: set privacy"):
        tacit.runs.from_config(config)


@pytest.mark.parametrize("name", PRIVATE)
def test_noise_that_is_set_is_accepted(name):
    noise = dict.fromkeys(algorithms.noise_parameters(name), 2.0)
    check_noise_level(example_algorithm(name, 5, **noise), PrivacyTarget())


def test_an_algorithm_whose_plan_needs_its_task_is_accepted():
    class Late(tacit.Algorithm):
        title = "Late"

        @property
        def privacy(self):
            raise AttributeError("known after bind")

        start = round = models = None

    check_noise_level(Late(), PrivacyTarget())
