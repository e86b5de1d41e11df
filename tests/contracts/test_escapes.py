"""Every registered algorithm sends values from the records only by releases."""

import pytest

from tacit.algorithms import algorithms
from tacit.audit import check_escapes
from tacit.runs import Config
from tests.helpers import adds_noise, required_parameters

ALGORITHMS = list({algorithms[name]: name for name in algorithms}.values())  # without second names
SETTINGS = {
    "dp-norm": {"smoothness": 0.5},
    "dp-admm": {"rho": 2.5, "lr": 0.1},
    "partpsp": {"share": ["0.*"]},
}
PRIVATE_MODELS = {"dp-norm", "partpsp"}


def settings(name, **algorithm):
    share = "share" in {**SETTINGS.get(name, {}), **algorithm}
    return {
        "rounds": 4,
        "evaluate_every": 2,
        "data": {"name": "digits", "normalise": "unit"},
        "model": {"name": "mlp"} if share else {"name": "logistic", "biases": False},
        "graph": {"name": "ring", "nodes": 4},
        "algorithm": {"name": name, **required_parameters(name), **SETTINGS.get(name, {}), **algorithm},
        "batch": {"size": 16, "sampling": "without-replacement" if name == "dp-norm" else "poisson"},
        "privacy": {"epsilon": 2.0} if adds_noise(name) and name != "d2p" else {},
    }


@pytest.mark.parametrize("name", ALGORITHMS)
def test_nothing_depends_on_the_records_except_through_releases(name):
    found = check_escapes(Config.parse(settings(name)))
    assert found.escapes == ()
    least = 1 if name == "one-shot-ridge" else 4  # one message, or one per round
    assert found.messages >= least
    assert found.releases >= least
    if adds_noise(name):
        assert found.privacy.guaranteed is not None
        assert found.privacy.covers_models == (name not in PRIVATE_MODELS)


@pytest.mark.parametrize("local", ["private", "exact"])
def test_local_parameters_do_not_influence_messages_except_through_releases(local):
    found = check_escapes(Config.parse(settings("dyn-d2p", share=["0.*"], local=local)))
    assert found.escapes == ()
    assert found.privacy.covers_models == (local == "private")


@pytest.mark.parametrize("sampling", ["without-replacement", "permutation"])
def test_batches_of_other_kinds_reveal_nothing_more(sampling):
    config = settings("porter") | {"batch": {"size": 16, "sampling": sampling}}
    assert check_escapes(Config.parse(config)).escapes == ()


def test_a_sensitivity_that_nodes_send_is_found():
    """DPPS with the real or the estimated sensitivity sends a number computed from the data."""
    config = settings("sgpdp", sensitivity="estimated", noise_rate=0.1) | {"privacy": {}}
    found = check_escapes(Config.parse(config))
    assert any("depend" in escape for escape in found.escapes)
    assert found.privacy.guaranteed is None
