"""Mistakes that affect only a part of what is sent: the audit must not miss them."""

from dataclasses import replace

import pytest
import torch

from tacit.algorithms import algorithms, const_d2p
from tacit.audit import audit, audit_algorithm, audit_graph_learner
from tacit.audit.broken_mechanisms import RealisedBatchSize
from tacit.graph_learning import PPGL
from tacit.privacy import Noise
from tacit.runs import Batch, Config, PrivacyTarget
from tacit.tasks import Clip
from tacit.tasks.gradients import ghost, vectorised
from tacit.tasks.gradients.stacked import Chain
from tests.audit.test_audit import config

REAL = Noise.gaussian_


def on_the_first_column_only(self, x, *rest, **named):
    exact = x[:, 1:].clone()
    REAL(self, x, *rest, **named)
    x[:, 1:] = exact


def the_same_on_all_columns(self, x, *rest, **named):
    one = torch.zeros_like(x[:, :1])
    REAL(self, one, *rest, **named)
    x += one


def missing_on_every_third_column(self, x, *rest, **named):
    exact = x[:, ::3].clone()
    REAL(self, x, *rest, **named)
    x[:, ::3] = exact


@pytest.mark.parametrize("noise", [on_the_first_column_only, the_same_on_all_columns])
@pytest.mark.parametrize("name", ["const-d2p", "porter", "dp-sgd", "lt-admm-dp"])
def test_missing_or_shared_noise_on_columns_is_found(monkeypatch, name, noise):
    monkeypatch.setattr(Noise, "gaussian_", noise)
    assert not audit(config(name), trials=1200, rounds=2).holds


def test_missing_noise_on_pairs_of_vertices_is_found(monkeypatch):
    assert audit_graph_learner(PPGL(), epsilon=2.0, trials=1200, rounds=2).holds
    monkeypatch.setattr(Noise, "gaussian_", missing_on_every_third_column)
    assert not audit_graph_learner(PPGL(), epsilon=2.0, trials=1200, rounds=2).holds


@pytest.mark.parametrize(
    ("name", "owner", "function"),
    [
        ("stacked", Chain, "gradient_sums"),
        ("ghost", ghost, "gradient_sum"),
        ("vectorised", vectorised, "gradient_sum"),
    ],
    ids=["stacked", "ghost", "vectorised"],
)
@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_a_wrong_clip_bound_is_found_in_every_engine(monkeypatch, name, owner, function, factor):
    """Three times the bound is reported as broken in each engine; the right bound is not."""
    real = getattr(owner, function)

    def wrong(each):
        # The ghost engine is tried first with a smooth clip. The trial would find the mistake and refuse the engine.
        return isinstance(each, Clip) and each.norm == "l2"

    def gradient_sum(*args):
        return real(*(replace(each, bound=factor * each.bound) if wrong(each) else each for each in args))

    monkeypatch.setattr(owner, function, gradient_sum)
    target = PrivacyTarget(epsilon=2.0, delta=1e-5)
    found = audit_algorithm(const_d2p().with_rounds(2), Batch(size=None), 2, trials=1200, privacy=target, engine=name)
    assert found.holds == (factor == 1.0)


def test_division_by_the_realised_batch_size_is_found():
    """The mistake is visible only among records with other gradients, and `audit` has such trials."""
    algorithms.register("realised-under-test")(lambda: RealisedBatchSize(multiplier=2.0))
    batch = {"size": 120, "sampling": "poisson"}
    settings = {"algorithm": "realised-under-test", "graph": {"name": "ring", "nodes": 10}, "batch": batch}
    try:
        found = audit(Config.parse(settings), trials=12_000, rounds=4)
    finally:
        algorithms._makers.pop("realised-under-test")
    assert not found.holds
    assert any(point.lower <= point.guaranteed for point in found.profile)
