"""The guarantee of a run over DPPS, and when there is none."""

import pytest

from tacit.algorithms import PEDFL, SGPDP
from tacit.graphs import d_out
from tacit.networks import Simulated
from tacit.privacy import Laplace, calibrate_noise, epsilon
from tacit.runs import Run
from tests.algorithms.dpps_cases import ALIKE, DELTA, OPPOSED, pulled, run
from tests.privacy.streams import repeated, sampling


@pytest.mark.parametrize("method", [SGPDP, PEDFL])
@pytest.mark.parametrize("mode", ["replacement", "certified"])
def test_guarantee_is_the_composition_of_all_rounds(method, mode):
    privacy = run(OPPOSED, 60, method, noise_rate=0.5, b=5.0, sensitivity=mode).privacy
    releases = repeated(Laplace(0.1), 60, sampling("none", 1.0, "replace-one"))
    assert privacy.guaranteed == pytest.approx(epsilon(releases, DELTA), rel=1e-9)
    assert privacy.guaranteed <= 60 * 10.0  # the plain sum
    assert privacy.per_round == pytest.approx(10.0)
    assert (privacy.claimed, privacy.claimed_for, privacy.unit) == (10.0, "round", "node")
    assert privacy.assumes is None
    assert "ε = 10 per round" in privacy.sentence()
    assert "all data of one node are replaced by any other data" in privacy.sentence()


def test_composition_of_many_rounds_is_below_their_sum():
    privacy = run(ALIKE, 200, noise_rate=10.0, b=1.0).privacy
    releases = repeated(Laplace(10.0), 200, sampling("none", 1.0, "replace-one"))
    assert privacy.guaranteed == pytest.approx(epsilon(releases, DELTA), rel=1e-9)
    assert privacy.guaranteed < 0.5 * 200 * 0.1
    few = run(ALIKE, 2, noise_rate=10.0, b=1.0).privacy
    assert few.guaranteed == pytest.approx(0.2, rel=0.01)
    published = run(ALIKE, 40, noise_rate=0.001, b=5.0).privacy  # ε = 5,000 per round: the sum is exact
    assert (published.guaranteed, published.claimed) == pytest.approx((200_000, 5000))


def test_decay_applies_to_the_noise_too():
    lines = list(run(ALIKE, 6, noise_rate=1.0, b=2.0, decay=0.5, decay_rounds=(2, 4)).task.ledger.releases())
    assert [float(line.multipliers[0]) for line in lines] == [0.5, 0.5, 0.25, 0.25, 0.125, 0.125]
    privacy = run(ALIKE, 6, noise_rate=1.0, b=2.0, decay=0.5, decay_rounds=(2, 4)).privacy
    assert privacy.claimed == pytest.approx(8.0)
    assert privacy.guaranteed <= 2 * (2 + 4 + 8) * (1 + 1e-6)
    assert privacy.per_round == pytest.approx(8.0)


@pytest.mark.parametrize(("task", "violated"), [(OPPOSED, True), (ALIKE, False)])
def test_estimated_sensitivity_has_no_guarantee(task, violated):
    found = run(task, sensitivity="estimated", c_prime=0.78, lam=0.55, noise_rate=1e-6, b=1.0)
    # Right after a synchronisation, two opposite steps are 2‖e‖ apart; the estimate is 1.56‖e‖.
    assert any(row["real"] > row["estimated"] for row in found.trace) == violated
    # Even if it covers the distance, it can be too small for replacing a node's data.
    assert min(row["estimated"] for row in found.trace) < 2 * 0.1 * 100
    assert {line.mechanism.name for line in found.task.ledger.releases()} == {"unproven"}
    for privacy in (found.privacy, found.planned()):
        assert privacy.guaranteed is None
        assert "sensitivity that is not proven" in privacy.reason
        assert privacy.sentence().startswith("No privacy is guaranteed: the noise is scaled to a sensitivity")
        assert privacy.sentence().endswith("The paper's formula claims ε = 1e+06 per round.")


def test_real_sensitivity_has_no_guarantee_planned_or_spent():
    found = run(ALIKE, sensitivity="real")
    for privacy in (found.privacy, found.planned()):
        assert privacy.guaranteed is None
        assert "sensitivity that is not proven" in privacy.reason
        assert privacy.claimed == pytest.approx(5.0)


def test_no_noise_has_no_guarantee_and_no_claim():
    for clip in (1.0, None):
        found = run(OPPOSED, noise_rate=0.0, clip=clip)
        assert {line.mechanism.name for line in found.task.ledger.releases()} == {"exact"}
        assert (found.privacy.guaranteed, found.privacy.claimed) == (None, None)
        assert found.algorithm.title == "SGPDP without noise"


def test_noise_is_calibrated_to_a_total_epsilon():
    task = pulled(ALIKE)
    algorithm = SGPDP(clip=1.0, decay=0.5, decay_rounds=(5,)).with_rounds(12)
    scale = calibrate_noise(algorithm, algorithm.privacy.sampling(task), 3.0, DELTA)
    found = Run(task, algorithm.with_noise(scale), Simulated(d_out(10, 2)), delta=DELTA).go()
    assert 2.97 <= found.privacy.guaranteed <= 3.0
    least = found.privacy.claimed
    assert found.privacy.guaranteed <= 5 * least / 2 + 7 * least + 1e-9
