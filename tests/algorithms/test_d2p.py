"""SGP and the Dyn-D²P family against a naive implementation, and their calibration."""

import numpy as np
import pytest
import torch

from tacit.algorithms import algorithms, const_d2p, dyn_c_d2p, dyn_d2p, dyn_mu_d2p, sgp
from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.networks import Simulated
from tacit.privacy import Sampling, calibrate_noise, epsilon_to_mu, guarantee, plan
from tests.algorithms import d2p_oracle as oracle
from tests.helpers import digits_task, noised, run_rounds

K = 30


@pytest.mark.parametrize("graph", ["one-peer-exponential", "star"])
@pytest.mark.parametrize(
    "algorithm",
    [
        sgp(lr=0.3),
        dyn_d2p(lr=0.3, clip=0.7, rho_c=3.0, rho_mu=2.0, noise_multiplier=1.5),
        dyn_c_d2p(lr=0.3, clip=0.7, rho_c=3.0, noise_multiplier=1.5),
        dyn_mu_d2p(lr=0.3, clip=0.7, rho_mu=2.0, noise_multiplier=1.5),
        const_d2p(lr=0.3, clip=0.7, noise_multiplier=1.5),
        dyn_d2p(lr=0.3, clip=0.3, rho_c=3.0, rho_mu=2.0, noise_multiplier=0.2, clip_per="batch"),
    ],
    ids=lambda algorithm: f"{algorithm.title} {algorithm.clip_per}",
)
def test_matches_a_naive_implementation(algorithm, graph):
    task = digits_task(nodes=4, dtype=torch.float64)
    weights = graphs.build(graph, {"nodes": 4} | ({"weights": "uniform-out"} if graph == "star" else {}))
    algorithm = algorithm.with_rounds(K)
    found = algorithm.models(run_rounds(algorithm, task, Simulated(weights), K)).numpy()

    def batch_of(k, i):
        index, weight = task.sampler.draw(k)
        chosen = task.shards[i][index[i][weight[i] > 0].numpy()]
        return [(task.data.x[r].double().numpy().ravel(), int(task.data.y[r])) for r in chosen]

    def release(k, i, g, sigma):
        return noised(task, "gaussian", g, sigma, "gradient", i, k)

    private = algorithm.noise is not None
    sensitivity = 2.0 if algorithm.clip_per == "batch" else 1.0  # in multiples of C_k
    expected = oracle.dyn_d2p(
        task.initial().numpy(),
        lambda k: weights.at(k).toarray(),
        batch_of,
        release,
        K=K,
        lr=0.3,
        C0=algorithm.clip.start if private else 1,
        rho_c=1 / algorithm.clip.ratio if private else 1,
        mu0=[1 / (sensitivity * algorithm.scale)] * 4 if private else None,
        rho_mu=1 / algorithm.noise.ratio if private else 1,
        B=8,
        classes=10,
        per=algorithm.clip_per,
    )
    assert np.abs(found - expected).max() < 1e-9


def poisson(*rates):
    return Sampling("poisson", np.array(rates), "add-remove")


def cost(algorithm, sampling, delta):
    return guarantee(plan(algorithm.privacy, algorithm.rounds, sampling, np.arange(len(sampling.rate))), delta)


def test_paper_calibration_underestimates_epsilon():
    # J = 2500, K = 3500, δ = 1e-4, single records, constant schedule: claimed 1 is really 3.02.
    sampling = poisson(1 / 2500)
    algorithm = const_d2p().with_rounds(3500)
    algorithm = algorithm.with_noise(algorithm.privacy.paper_noise(sampling, 1.0, 1e-4))
    assert algorithm.privacy.claim(sampling, np.arange(1), 1e-4, 3500) == pytest.approx(1.0, rel=1e-6)
    assert cost(algorithm, sampling, 1e-4) == pytest.approx(3.02, rel=0.02)


@pytest.mark.parametrize(("clip_per", "really"), [("record", 81.9), ("batch", 787.2)])
def test_noise_for_single_records_protects_batches_of_64_much_less(clip_per, really):
    """Eq. 9 for p = 1/J and ε = 1, J = 3000, K = 3500, δ = 1e-4, but every round draws 64 records."""
    algorithm = const_d2p(clip_per=clip_per).with_rounds(3500)
    noised = algorithm.with_noise(algorithm.privacy.paper_noise(poisson(1 / 3000), 1.0, 1e-4))
    assert noised.privacy.claim(poisson(1 / 3000), np.arange(1), 1e-4, 3500) == pytest.approx(1.0, rel=1e-6)
    assert cost(noised, poisson(64 / 3000), 1e-4) == pytest.approx(really, rel=0.01)


def test_a_record_moves_the_clipped_mean_of_a_batch_by_twice_the_bound():
    task = digits_task(nodes=2, batch=8)
    for step, (clip_per, sensitivity) in enumerate({"record": 0.7 / 8, "batch": 1.4}.items()):
        algorithm = const_d2p(clip=0.7, noise_multiplier=1.5, clip_per=clip_per).with_rounds(1)
        g = task.gradient(task.initial(), step, algorithm.gradient_clip(0))
        assert g.sensitivity == pytest.approx([sensitivity] * 2)
        assert algorithm.privacy.unit_noise(task)[1] == pytest.approx([sensitivity / 0.7] * 2)
        algorithm.privacy.mechanism(0, task.nodes).release(g)


@pytest.mark.parametrize("clip_per", ["record", "batch"])
def test_proposition_4_calibrates_the_general_form(clip_per):
    """Eq. 10: σ̃ = √(2 Σ C_k²/σ̃_k²) / (J μ_tot), here with σ̃_k = C_k m_k (2 C_k m_k if batches are clipped)."""
    shape = np.linspace(3.0, 1.0, 40)
    given = {"clip": [1.0, 4.0] * 20, "noise_multiplier": shape.tolist(), "clip_per": clip_per}
    algorithm = algorithms.build("d2p", given).with_rounds(40)
    sampling = poisson(0.1, 0.01)
    scale = algorithm.privacy.paper_noise(sampling, 1.0, 1e-4)
    relative = shape * (2 if clip_per == "batch" else 1)
    for rate, found in zip(sampling.rate, scale, strict=True):
        assert found == pytest.approx(rate * np.sqrt(2 * np.sum(relative**-2.0)) / epsilon_to_mu(1.0, 1e-4))
    noised = algorithm.with_noise(scale)
    assert noised.privacy.claim(sampling, np.arange(2), 1e-4, 40) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(("claimed", "really"), [(0.3, 11.79), (1.0, 287.5)])
def test_proposition_4_is_invalid_at_the_settings_of_the_paper(claimed, really):
    algorithm = algorithms.build("d2p", {"clip": [1.0] * 3500, "noise_multiplier": [1.0] * 3500}).with_rounds(3500)
    sampling = poisson(1 / 2500)
    noised = algorithm.with_noise(algorithm.privacy.paper_noise(sampling, claimed, 1e-4))
    assert cost(noised, sampling, 1e-4) == pytest.approx(really, rel=0.01)


@pytest.mark.parametrize("name", ["dyn-d2p", "dyn-mu-d2p", "dyn-c-d2p", "const-d2p"])
def test_calibration_reaches_the_target_at_every_node(name):
    # Shards of different sizes: each node gets the noise its own rate needs.
    sampling = poisson(0.2, 0.1, 0.02)
    algorithm = algorithms.build(name, {}).with_rounds(100)
    scale = calibrate_noise(algorithm, sampling, 2.0, 1e-5)
    assert scale[0] > scale[1] > scale[2] > 0
    spent = cost(algorithm.with_noise(scale), sampling, 1e-5)
    assert (spent <= 2.0).all()
    assert (spent >= 1.97).all()


def test_schedule_with_3500_different_multipliers_is_calibrated():
    sampling = poisson(64 / 3000)
    algorithm = dyn_d2p(rho_mu=3.0).with_rounds(3500)
    scale = calibrate_noise(algorithm, sampling, 1.0, 1e-4)
    assert 0.98 <= cost(algorithm.with_noise(scale), sampling, 1e-4)[0] <= 1.0


def test_many_shard_sizes_need_few_computations(monkeypatch):
    calls = []
    import tacit.privacy.planning as module

    real = module.calibrate_losses
    monkeypatch.setattr(module, "calibrate_losses", lambda *a, **k: (calls.append(1), real(*a, **k))[1])
    rates = np.random.default_rng(0).uniform(0.01, 0.1, 1000)
    scale = calibrate_noise(const_d2p().with_rounds(50), poisson(*rates), 1.0, 1e-5)
    assert len(calls) <= 16
    assert (np.diff(scale[np.argsort(rates)]) >= 0).all()


def test_titles_and_schedules():
    algorithm = dyn_d2p(clip=4.0, rho_c=16.0, rho_mu=4.0, noise_multiplier=2.0).with_rounds(100)
    assert algorithm.title == "Dyn-D²P"
    assert algorithm.clip(0, 100) == 4.0
    assert algorithm.clip(50, 100) == pytest.approx(1.0)
    (planned,) = algorithm.privacy.releases(50, np.arange(3), poisson(0.1, 0.1, 0.1))
    assert planned.multipliers == pytest.approx(2.0 / 2.0)
    assert [a.title for a in (dyn_c_d2p(), dyn_mu_d2p(), const_d2p(), sgp())] == [
        "Dyn[C]-D²P",
        "Dyn[μ]-D²P",
        "Const-D²P",
        "SGP",
    ]


def test_refusals():
    with pytest.raises(TacitError, match="SGP adds no noise"):
        sgp().with_noise(np.ones(1))
    with pytest.raises(TacitError, match=r"no noise level: set privacy\.epsilon"):
        dyn_d2p().privacy.mechanism(0, np.arange(2))
    with pytest.raises(TacitError, match="clip must be positive and finite, got -1"):
        dyn_d2p(clip=-1.0)
    general = algorithms.build("d2p", {"clip": [1.0] * 3, "noise_multiplier": [1.0] * 5})
    with pytest.raises(TacitError, match="has 3 values for 5 rounds"):
        general.with_rounds(5)
    with pytest.raises(TacitError, match="must be positive and finite, got -1"):
        algorithms.build("d2p", {"clip": [1.0, -1.0], "noise_multiplier": [1.0, 1.0]})
    with pytest.raises(TacitError, match="noise_multiplier must be positive"):
        dyn_d2p(noise_multiplier=0.0)
