"""Where an audit could be blind: mistakes that leave most of what is sent as it should be."""

from dataclasses import replace

import pytest
import torch

from tacit.algorithms import algorithms, const_d2p
from tacit.audit import audit, audit_graphs
from tacit.audit.audit import attacked
from tacit.audit.gallery import RealisedBatchSize
from tacit.graph_learning import PPGL
from tacit.privacy.noise import Noise
from tacit.runs import Batch, Config, PrivacyTarget
from tacit.tasks import Clip
from tacit.tasks.gradients import ghost, stacked, vectorised
from tests.audit.test_audit import config

REAL = Noise.gaussian_


def on_the_first_column(self, x, *rest, **named):
    exact = x[:, 1:].clone()
    REAL(self, x, *rest, **named)
    x[:, 1:] = exact


def not_on_the_last_column(self, x, *rest, **named):
    exact = x[:, -1:].clone()
    REAL(self, x, *rest, **named)
    x[:, -1:] = exact


def alike_on_all_columns(self, x, *rest, **named):
    one = torch.zeros_like(x[:, :1])
    REAL(self, one, *rest, **named)
    x += one


def not_on_every_third_column(self, x, *rest, **named):
    exact = x[:, ::3].clone()
    REAL(self, x, *rest, **named)
    x[:, ::3] = exact


@pytest.mark.parametrize("noise", [on_the_first_column, alike_on_all_columns])
@pytest.mark.parametrize("name", ["const-d2p", "porter", "dp-sgd", "lt-admm-dp"])
def test_noise_must_be_on_every_column_and_of_its_own(monkeypatch, name, noise):
    monkeypatch.setattr(Noise, "gaussian_", noise)
    assert not audit(config(name), trials=1200, rounds=2).holds


def test_noise_must_be_on_every_pair_of_vertices(monkeypatch):
    assert audit_graphs(PPGL(), epsilon=2.0, trials=1200, rounds=2).holds
    monkeypatch.setattr(Noise, "gaussian_", not_on_every_third_column)
    assert not audit_graphs(PPGL(), epsilon=2.0, trials=1200, rounds=2).holds


@pytest.mark.parametrize("module", [stacked, ghost, vectorised], ids=lambda module: module.__name__.rpartition(".")[2])
@pytest.mark.parametrize("loose", [1.0, 3.0])
def test_the_engines_of_layers_clip(monkeypatch, module, loose):
    """Three times the bound is three times the ε, in whichever engine; the right bound is not accused."""
    real = module.gradient_sum

    def gradient_sum(*given):
        return real(*(replace(each, bound=loose * each.bound) if isinstance(each, Clip) else each for each in given))

    monkeypatch.setattr(module, "gradient_sum", gradient_sum)
    name = module.__name__.rpartition(".")[2]
    target = PrivacyTarget(epsilon=2.0, delta=1e-5)
    found = attacked(const_d2p().with_rounds(2), Batch(), 2, trials=1200, privacy=target, engine=name)
    assert found.holds == (loose == 1.0)


def test_other_records_may_be_in_the_way():
    """Dividing by the realised batch size shows among records that point elsewhere, and `audit` has such."""
    algorithms.register("realised-under-test")(lambda: RealisedBatchSize(multiplier=2.0))
    drawn = {"size": 120, "sampling": "poisson"}
    asked = {"algorithm": "realised-under-test", "graph": {"name": "ring", "nodes": 10}, "batch": drawn}
    try:
        found = audit(Config.parse(asked), trials=12_000, rounds=4)
    finally:
        algorithms._makers.pop("realised-under-test")
    assert not found.holds
    assert any(point.lower <= point.guaranteed for point in found.profile)
