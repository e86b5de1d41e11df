"""Graph learning attacked: all there is is found and no more, and what is broken is found out."""

import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy import optimize

from tacit.audit.graphs import audit_graphs, canaries
from tacit.errors import TacitError
from tacit.graph_learning import IGL, PPGL, FedAvg, Signals, pair_vertices
from tacit.privacy.gdp import epsilon_to_mu

TIGHT = [
    PPGL(),
    PPGL(K=2),
    PPGL(release="rounds", K=1),
    IGL(),
    FedAvg(),
    FedAvg(K=1, release="rounds"),
]


def name(method):
    return f"{method.title}-{method.release}-{method.K}"


@pytest.mark.parametrize("method", TIGHT, ids=name)
def test_the_attack_finds_all_there_is(method):
    found = audit_graphs(method, epsilon=5.0, trials=4000, rounds=3)
    mu = epsilon_to_mu(found.guaranteed, 1e-5)
    assert 0.85 * mu <= found.separation <= 1.1 * mu
    assert found.holds
    assert 1.0 < found.lower <= found.guaranteed <= 5.0


@pytest.mark.parametrize(("K", "least"), [(3, 0.8), (None, 0.6)])
def test_bounds_that_are_proven_and_not_as_tight(K, least):
    found = audit_graphs(PPGL(release="rounds", K=K), epsilon=5.0, trials=4000, rounds=3)
    mu = epsilon_to_mu(found.guaranteed, 1e-5)
    assert least * mu <= found.separation <= 1.1 * mu
    assert found.holds


def test_what_the_paper_claims_for_rounds_is_told():
    found = audit_graphs(PPGL(release="rounds", K=1), epsilon=2.0, trials=400, rounds=2)
    assert found.claimed > found.guaranteed
    assert not found.refuted
    assert "the guarantee holds" in found.sentence()


def moved(pair):
    """‖z − z′‖/(√2 C) of two signals that are clipped to C, as the code clips."""
    task = Signals([[1e3 * one, np.zeros_like(one)] for one in pair], clip=1.0)
    z = 2 * task.mean(0).use_locally()
    return float((z[0] - z[1]).norm()) / math.sqrt(2)


def test_no_two_signals_are_further_apart():
    """By optimisation from many beginnings, among them those that are used."""
    pair = canaries(PPGL())
    d = pair.shape[1]
    first, second = pair_vertices(d)

    def alike(flat):
        x = torch.tensor(flat.reshape(2, d), requires_grad=True)
        z = torch.nn.functional.normalize((x[:, first] - x[:, second]).square(), dim=1)
        cosine = (z[0] * z[1]).sum()
        cosine.backward()
        return cosine.item(), x.grad.numpy().ravel()

    rng = np.random.default_rng(0)
    begins = [pair.ravel() + 0.01 * rng.normal(size=2 * d), *rng.normal(size=(4, 2 * d)) ** 3]
    least = min(optimize.minimize(alike, x, jac=True, options={"maxiter": 100}).fun for x in begins)
    assert moved(pair) == pytest.approx(math.sqrt(1 - 1 / (d - 1)), rel=1e-6)
    assert 0.995 * math.sqrt(1 - least) < moved(pair) <= 1.0


def test_halves_differ_in_no_degree():
    pair = canaries(PPGL(release="rounds", K=None))
    apart = np.stack([one[:, None] != one for one in pair])
    assert len(set(apart.sum(2).ravel())) == 1
    assert moved(pair) == pytest.approx(math.sqrt(1 / 2), rel=1e-6)


@dataclass(frozen=True, kw_only=True)
class Halved(PPGL):
    """PPGL whose noise in every round is scaled to half of what one signal moves."""

    def release_graphs(self, t, w, problem, task):
        half = replace_sensitivity(task, 0.5)
        return super().release_graphs(t, w, problem, half)


def replace_sensitivity(task, share):
    other = task.with_new_ledger()
    other.ledger, other.clip = task.ledger, share * task.clip
    return other


@dataclass(frozen=True, kw_only=True)
class Talkative(PPGL):
    """PPGL that releases z̄ once, and then learns from z̄ itself."""

    def start(self, task, graph, z=None):
        state = super().start(task, graph, z)
        return replace(state, z=task.with_new_ledger().mean(0).use_locally())


@pytest.mark.parametrize("method", [Halved(release="rounds", K=1), Talkative(K=2)], ids=["halved", "talkative"])
def test_broken_ones_are_found_out(method):
    found = audit_graphs(method, epsilon=3.0, trials=4000, rounds=3)
    assert not found.holds
    assert found.separation > 1.6 * epsilon_to_mu(found.guaranteed, 1e-5)
    assert "THE GUARANTEE IS BROKEN" in found.sentence()


def test_what_cannot_be_attacked_is_refused():
    with pytest.raises(TacitError, match="set epsilon"):
        audit_graphs(PPGL())
    with pytest.raises(TacitError, match="leave one of them out"):
        audit_graphs(PPGL(noise=2.0), epsilon=1.0)
    with pytest.raises(TacitError, match="at least 40 trials"):
        audit_graphs(PPGL(), epsilon=1.0, trials=10)


def test_the_command(tacit):
    asked = ("audit", "ppgl", "--trials", "400", "--rounds", "2", "--set", "epsilon=2")
    ended = tacit(*asked, "--set", "release=rounds", "--set", "K=1", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["algorithm"] == "PPGL"
    assert found["rounds"] == 2
    assert found["lower"] <= found["guaranteed"] <= 2.0
    assert "the guarantee holds" in tacit(*asked).out
    for wrong, why in (
        ("speed=1", "has no speed"),
        ("beta=much", "must be a number"),
        ("release=daily", "must be"),
    ):
        ended = tacit(*asked, "--set", wrong)
        assert ended.code == 2
        assert why in " ".join(ended.err.split())
    assert tacit(*asked, "--one-run").code == 2
