"""DPPS and what stands on it, attacked: every way to know the sensitivity, and what each is worth."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tacit.algorithms import DPPS, SGPDP, Certified, Estimated, Replacement
from tacit.audit import Copies, Eavesdropper, audit, lower_bound, worlds
from tacit.audit.attack import Evidence, gathered, innovations
from tacit.audit.audit import attacked
from tacit.audit.scores import laplace
from tacit.graphs import ring
from tacit.privacy.bounded import Bounded, ReleaseContext, Sampling
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import Noise
from tacit.runs import Batch, Config, PrivacyTarget
from tacit.tasks import Clip

DELTA = 1e-5


def config(name, mode, **rest):
    algorithm = {"name": name, "sensitivity": mode, **({"share": ["0.weight"]} if name == "partpsp" else {}), **rest}
    biases = {"name": "logistic", "biases": name == "partpsp"}
    privacy = {"delta": DELTA} if "noise_rate" in rest else {"delta": DELTA, "epsilon": 2.0}
    return Config.parse({"model": biases, "algorithm": algorithm, "batch": {"size": None}, "privacy": privacy})


@pytest.mark.parametrize("mode", ["replacement", "certified"])
@pytest.mark.parametrize("name", ["partpsp", "sgpdp", "pedfl"])
def test_what_is_guaranteed_survives_and_is_nearly_found(name, mode):
    found = audit(config(name, mode), trials=4000, rounds=3)
    assert found.holds
    assert 0.15 * found.guaranteed < found.lower <= found.guaranteed <= 2.0
    assert found.claimed_for == "round"
    assert not found.refuted


def test_one_round_is_found_almost_whole():
    """The only round of SGPDP moves by all of its bound, and Laplace noise tells so at once."""
    found = audit(config("sgpdp", "replacement"), trials=8000, rounds=1)
    assert 0.8 * found.guaranteed < found.lower <= found.guaranteed


@pytest.mark.parametrize("mode", ["replacement", "certified"])
def test_the_two_worlds_are_as_far_apart_as_is_allowed(mode):
    method = SGPDP(sensitivity=mode, noise_rate=1.0)
    task, there = worlds(2, 3, 4, Batch(size=None), method, Noise.from_seed(0))
    g = task.gradient(task.initial(), 0, Clip(method.clip, "l1", "batch"))
    assert there.tolist() == [False, True]
    assert (g.value[3] - g.value[0]).abs().sum() == pytest.approx(g.sensitivity[0])
    assert (g.value[[1, 2, 4, 5]] == 0).all()


@pytest.mark.parametrize("mode", ["replacement", "certified", "estimated", "real"])
def test_networks_side_by_side_are_what_each_is_alone(mode):
    """Which is a test of the attack: noise that another trial's messages decide on would hide this one's."""
    trials, nodes = 4, 3
    method = SGPDP(sensitivity=mode, noise_rate=0.5, sync_every=3).with_rounds(5)
    task, _ = worlds(trials, nodes, 2, Batch(size=None), method, Noise.from_seed(3), others=0.1)
    together = heard(method, task, Copies(ring(nodes), trials), trials)
    rows = [range(nodes * k, nodes * (k + 1)) for k in range(trials)]
    alone = [heard(method, task.host(row), ring(nodes), 1) for row in rows]
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=1e-12)


def heard(method, task, graph, trials):
    network = Eavesdropper(graph, trials)
    state = method.start(task, graph)
    for t in range(method.rounds):
        state = method.round(t, state, task, network)
    return network.transcript()


@pytest.mark.parametrize("mode", ["estimated", "real"])
def test_noise_that_follows_the_data_gives_them_away(mode):
    found = audit(config("sgpdp", mode, noise_rate=1.0, b=0.5), trials=1000, rounds=2)
    assert found.guaranteed is None
    assert found.claimed == 0.5
    assert found.refuted
    assert found.lower > 4.0
    said = found.sentence()
    assert "nothing is guaranteed; claimed is 0.5 a round" in said
    assert "the claim is refuted" in said


def one_round(modes, e, bound, s=None, seed=0, noise=1.0):
    """What is heard of a round of DPPS with these perturbations (trials, 3), and whose world it is."""
    trials = len(e)
    graph = Copies(ring(3), trials)
    network = Eavesdropper(graph, trials)
    source = ReleaseContext(np.arange(3 * trials), Ledger(), Noise.from_seed(seed))
    drawn = Sampling("none", np.ones(3 * trials), "replace-one")
    value = torch.from_numpy(np.asarray(e, np.float64)).reshape(-1, 1)
    given = Bounded(value, np.full(3 * trials, bound), "l1", drawn, 0, "value", source)
    dpps = DPPS(noise, modes)
    state = dpps.start(torch.zeros_like(value) if s is None else torch.from_numpy(s).reshape(-1, 1))
    dpps.round(0, state, given, network)
    return network.transcript()


def two(trials, one, other):
    """Node 0 has the one value or the other, its neighbours have 0."""
    there = np.arange(trials) % 2 == 1
    return np.stack([np.where(there, one, other), np.zeros(trials), np.zeros(trials)], 1), there


def test_the_estimate_is_too_small_even_where_it_tells_nothing():
    """e and −e have the same norm, so the estimate is the same; but they are 2‖e‖ apart, not 2C′‖e‖ with C′ = 0.78."""
    e, there = two(40_000, 1.0, -1.0)
    news = one_round((Estimated(),), e, 2.0)
    claimed, true = 1.0, 1 / 0.78
    found = gathered(news, there).lower(DELTA, 0.95)
    assert 1.1 * claimed < found <= true


def test_vectors_to_begin_with_are_covered_where_their_distance_is_known():
    """`replacement` is about perturbations: private vectors to begin with need `certified` and their diameter."""
    s, there = two(4000, 5.0, -5.0)
    e = np.zeros_like(s)
    known = one_round((Certified.for_graph(ring(3), 1, diameter=10.0),), e, 1.0, s)
    assert 0.5 < gathered(known, there).lower(DELTA, 0.95) <= 1.0
    unknown = one_round((Replacement(),), e, 1.0, s)
    assert gathered(unknown, there).lower(DELTA, 0.95) > 4.0


@dataclass(frozen=True)
class Half(Replacement):
    """Noise for half of what the data of a node can change."""

    def bound(self, carry, half, e, network):
        return super().bound(carry, half, e, network) / 2


@dataclass(frozen=True, kw_only=True)
class Careless(SGPDP):
    def protocol(self, t, nodes, graph):
        return DPPS(self.noise(t, nodes), (Half(),), self.sync_every)


@pytest.mark.parametrize(("kind", "sound"), [(SGPDP, True), (Careless, False)])
def test_half_the_noise_is_found_out(kind, sound):
    target = PrivacyTarget(epsilon=2.0, delta=DELTA)
    found = attacked(kind().with_rounds(2), Batch(size=None), 2, trials=4000, privacy=target)
    assert found.holds == sound


def test_laplace_scores_find_more_than_linear_ones_and_never_too_much():
    """Five numbers with Laplace noise, all moved: pure ε = 5 · 0.4, and the bound lies below it."""
    rng = np.random.default_rng(0)
    there = np.arange(40_000) % 2 == 1
    transcript = rng.laplace(0.4 * there[:, None], 1.0, (40_000, 5))
    evidence = gathered(transcript, there)
    learn = evidence.learn
    news = innovations(transcript, there, learn)
    linear, ratio = (
        Evidence((scores,), there, learn).lower(DELTA, 0.95)
        for scores in (evidence.scores[0], laplace(news, there, learn))
    )
    assert linear + 0.1 < ratio <= 2.0
    # The same by hand: one number of Laplace noise, said to be there where it is beyond both centres.
    beyond = transcript[~learn, 0] > 0.4
    yes = there[~learn]
    counts = beyond[yes].sum(), yes.sum(), beyond[~yes].sum(), (~yes).sum()
    assert 0.3 < lower_bound(*map(int, counts), DELTA, 0.95) <= 0.4
