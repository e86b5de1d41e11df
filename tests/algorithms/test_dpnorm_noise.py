"""The effect of DP-Norm's noise on models and duals, also with inner noise in the local steps."""

import numpy as np
import pytest

from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.networks import Simulated
from tacit.runs import Config, from_config
from tests.helpers import quadratic_task

RING = graphs.build("ring", {"nodes": 6})


def norms(alpha, asynchronous, rounds, width, inner_noise="none"):
    """Mean norms of models and duals (rounds, 2) if the loss is flat, so that all change is noise."""
    params = {"lr": 0.03, "local_steps": 2, "alpha": alpha, "sigma": 1.0, "smoothness": 0.1, "clip": 1e-9}
    params |= {"asynchronous": asynchronous, "inner_noise": inner_noise}
    algorithm = algorithms.build("dp-norm", params).with_rounds(rounds)
    task, network, found = quadratic_task(d=width, records=1), Simulated(RING), []
    state = algorithm.start(task, RING)
    for r in range(rounds):
        state = algorithm.round(r, state, task, network)
        found.append([float(state.x.norm(dim=1).mean()), float(state.dual.mean())])
    return np.array(found)


def test_normalised_gradients_have_no_known_sensitivity():
    """They are up to C/0.01 times as steep as clipped ones. With the losses of `worst` in test_dpnorm.py, L = 0.01 and
    lr = 0.2, one record moved w by 2.4 in 60 rounds, and the contraction bound would have been 0.51."""
    section = {"name": "dp-norm", "bound": "contraction", "smoothness": 0.5, "lr": 0.01}
    table = {"algorithm": section, "privacy": {"epsilon": 1.0, "delta": 1e-3}, "rounds": 2, "graph": "ring"}
    batch = {"size": "all", "relation": "replace-one"}
    data = {"data": {"name": "digits", "normalise": "unit"}, "model": {"name": "logistic", "biases": False}}
    assert from_config(Config.parse({**table, **data, "batch": batch})).planned().guaranteed <= 1.0
    with pytest.raises(TacitError, match=r"DP-Norm: normalised gradients .* remove batch\.clipping = \"automatic\""):
        from_config(Config.parse({**table, **data, "batch": {**batch, "clipping": "automatic"}}))


@pytest.mark.full
def test_asynchronous_duals_grow_like_the_root_of_the_rounds_unless_normalised():
    """Squared norms grow linearly: from round 50 to 650 three times as much as to 250. One run's ratio deviates by
    about 0.3, so ± 0.85 is nearly three of these; norms that grow like r^¼ would have 2.1, those that settle 1.
    Normalised, they stay within 5 %."""
    found = norms(0.0, True, 670, 400)[:, 1] ** 2
    early, middle, late = (found[r - 20 : r + 20].mean() for r in (50, 250, 650))
    assert (late - early) / (middle - early) == pytest.approx(3.0, abs=0.85)
    assert late > 1.5 * middle  # and they are far from settled
    normalised = norms(0.2, True, 670, 400)[:, 1]
    assert normalised[630:].mean() == pytest.approx(normalised[30:70].mean(), rel=0.05)


@pytest.mark.full
def test_synchronous_models_random_walk_and_duals_converge():
    """From round 50 to round 800: a walk grows by √16 = 4, what settles by 1. Tolerances are about five deviations.

    Each λ compares a node's w + n with its neighbour's, and both walk together: the duals settle with and without
    normalisation, which makes both smaller.
    """
    last = {}
    for alpha in (0.0, 0.2):
        found = norms(alpha, False, 830, 200)
        early, late = found[40:60].mean(0), found[770:].mean(0)
        assert late[0] / early[0] == pytest.approx(4.0, rel=0.3)
        assert late[1] / early[1] == pytest.approx(1.0, rel=0.05)
        last[alpha] = late
    assert (last[0.2] < last[0.0]).all()


@pytest.mark.parametrize("alpha", [0.0, 0.2])
def test_same_inner_noise_cancels_the_random_walk(alpha):
    """From round 50 to round 400 models walk √8 = 2.8 times as far (above). With n in the steps too they stay where
    they are, and a model that noise no longer moves is one that noise no longer hides: nothing is guaranteed."""
    found = norms(alpha, False, 430, 200, "same")[:, 0]
    assert found[370:].mean() / found[40:60].mean() == pytest.approx(1.0, rel=0.1)


def test_same_inner_noise_lets_messages_reveal_the_models():
    """v_r − a v_{r−1} − (1 − a) U_r = a (n_r − n_{r−1}), so that sums leave a n_r: what was heard gives v − n = w."""
    mu, alpha, inner = 0.03, 0.2, 2
    params = {"lr": mu, "local_steps": inner, "alpha": alpha, "sigma": 1.0, "smoothness": 0.1, "clip": 1e-9}
    algorithm = algorithms.build("dp-norm", {**params, "inner_noise": "same"}).with_rounds(30)
    task, network = quadratic_task(d=5, records=1), Simulated(RING)
    place = {edge: k for k, edge in enumerate(zip(*(ends.tolist() for ends in RING.edges(0)), strict=True))}
    eta = 1 / (mu * 2 * inner)
    gamma = 1 + alpha * eta
    a = (gamma / (gamma + eta * mu * 2)) ** inner
    state, total, before = algorithm.start(task, RING), np.zeros((6, 5)), np.zeros((6, 5))
    for r in range(30):
        heard, state = state.z.numpy(), algorithm.round(r, state, task, network)
        sent, drawn_to = np.zeros((6, 5)), np.zeros((6, 5))
        for i, j in place:
            sign = 1 if i < j else -1
            drawn_to[i] += sign * heard[place[i, j]] / 2
            sent[i] = sign / 2 * ((2 - gamma) * heard[place[i, j]] - gamma * state.z.numpy()[place[j, i]])
        total, before = total + sent - a * before - (1 - a) * drawn_to, sent
    assert np.allclose(before - total / a, state.x.numpy(), rtol=0, atol=1e-6)
    assert np.abs(before - state.x.numpy()).mean() > 0.5  # although there is noise on what was sent


def test_same_inner_noise_has_a_claim_but_no_guarantee():
    data = {"data": {"name": "digits", "normalise": "unit"}, "model": {"name": "logistic", "biases": False}}
    config = {**data, "rounds": 6, "graph": {"name": "ring", "nodes": 5}, "batch": {"size": 100}}
    privacy = {}
    for inner in ("none", "fresh", "same"):
        algorithm = {"name": "dp-norm", "sigma": 0.1, "smoothness": 0.5, "inner_noise": inner}
        privacy[inner] = from_config(Config.parse({**config, "algorithm": algorithm})).go().privacy
    assert privacy["same"].guaranteed is None
    assert privacy["fresh"].guaranteed == privacy["none"].guaranteed > 0
    assert privacy["same"].claimed == privacy["none"].claimed
