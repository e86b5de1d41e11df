"""The long form of the audit (`make audit`): every method, 600,000 trials, and how often the gallery slips through.

Without sampling, with Gaussian noise and a canary that moves what is sent by the whole bound, the bound must reach
60 % of the guarantee. Where a method sends less than it is accounted for, it cannot, and how far it comes is told.
"""

from typing import get_args

import pytest

from tacit.algorithms import algorithms
from tacit.audit import audit
from tacit.audit.gallery import GALLERY
from tacit.audit.graphs import audit_named
from tacit.privacy.bounded import SamplingKind
from tests.audit.test_audit import PRIVATE, config

pytestmark = pytest.mark.full

TRIALS = 600_000
HIDDEN = {
    "pedfl": 0.4,  # Laplace noise, which the 60 % are not asked of
    "dp-admm": 0.35,  # sends the mean of steps that are all accounted for: what is not sent apart tells less
    "prisma": 0.35,  # noises differences of gradients, of which a linear loss has none after the first round
}
LOOSE = "dp-norm"  # by Lemma 1, which counts 55 times what a linear loss can move: by contraction, see below


@pytest.mark.parametrize("name", [name for name in PRIVATE if name not in (LOOSE, "d2p")])
@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_the_attack_reaches_the_guarantee(name, epsilon):
    found = audit(config(name, epsilon=epsilon), trials=TRIALS, rounds=2)
    print(f"{name}: {found.lower:.3f} of {found.guaranteed:.3f}, {found.lower / found.guaranteed:.0%}")
    assert found.holds
    assert found.lower >= HIDDEN.get(name, 0.6) * found.guaranteed


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_dp_norm_by_contraction(epsilon):
    found = audit(config("dp-norm", epsilon, {"bound": "contraction"}), trials=TRIALS, rounds=2)
    print(f"dp-norm, contraction: {found.lower:.3f} of {found.guaranteed:.3f}")
    assert found.holds
    # The bound is on what many rounds leave behind, with losses that push two runs apart: a linear one does not.
    assert found.lower >= 0.2 * found.guaranteed


@pytest.mark.parametrize("sampling", get_args(SamplingKind)[1:])
@pytest.mark.parametrize("name", PRIVATE)
def test_no_sampled_guarantee_is_broken(name, sampling):
    if "noise_rate" in algorithms.parameters(name):
        pytest.skip("protects nodes, whatever is sampled")
    found = audit(config(name, size=60, sampling=sampling), trials=TRIALS // 10, rounds=3)
    print(f"{name}, {sampling}: {found.lower:.3f} of {found.guaranteed:.3f}")
    assert found.holds


@pytest.mark.parametrize("name", ["ppgl", "igl", "fedavg"])
def test_graph_learning(name):
    found = audit_named(name, ["epsilon=2"], trials=20_000, rounds=2, confidence=0.95, seed=0)
    print(f"{name}: {found.lower:.3f} of {found.guaranteed:.3f}")
    assert found.holds
    assert found.lower > 0.3 * found.guaranteed


@pytest.mark.parametrize("name", GALLERY)
def test_how_often_mistakes_slip_through(name):
    """20 audits of each, at 95 % confidence: all broken ones found; of sound ones at most 5 accused (10 % of 20 is 2,
    and more than 5 has a probability of 1 %)."""
    broken = sum(not GALLERY[name].examine(broken=True, seed=seed).holds for seed in range(20))
    accused = sum(not GALLERY[name].examine(broken=False, seed=seed).holds for seed in range(20))
    print(f"{name}: {broken} of 20 found, {accused} of 20 sound twins accused")
    assert broken == 20
    assert accused <= 5
