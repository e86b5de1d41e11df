"""The bounds attacked: real runs, many small networks side by side, seen as one of their nodes sees them."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from tacit.algorithms import const_d2p
from tacit.audit import Copies, attack, worlds
from tacit.graphs import from_matrices, graphs
from tacit.networks import Simulated
from tacit.privacy.gdp import mu_to_epsilon
from tacit.privacy.noise import Noise
from tacit.privacy.planning import plan
from tacit.runs import Run
from tacit.runs.config import Batch
from tacit.tasks import Dataset, Model, Task
from tacit.threats import ModelHolder, Neighbour, assess
from tacit.threats.costs import shown
from tacit.threats.mixing import mixing
from tests.helpers import run_rounds

DELTA, ROUNDS, TRIALS = 1e-5, 6, 6000
NOISE = 1.2
ALONG = torch.tensor([0.8, 0.6, 0.0], dtype=torch.float64)  # where the record of `worlds` points
WHOLE = Batch()  # all records in every draw
ONE_PEER = graphs.build("one-peer-exponential", {"nodes": 8})


class Listener(Simulated):
    """A network of copies, of which rows B_t M are written down: `view` gives B of round t, of one copy."""

    def __init__(self, graph, trials, view):
        super().__init__(graph)
        self.trials, self.view, self.heard = trials, view, []

    def mix(self, t, *values, row_bytes=None):
        m = (values[0].double() @ ALONG[: values[0].shape[1]]).reshape(self.trials, -1)  # across it all is noise
        self.heard.append(m @ torch.from_numpy(spanning(self.view(t))).T)
        return super().mix(t, *values, row_bytes=row_bytes)

    def transcript(self):
        return torch.cat(self.heard, 1).numpy()


def spanning(view):
    """Rows as few as tell the same: more would only be harder to learn from."""
    _, values, right = np.linalg.svd(view)
    return right[: (values > 1e-9).sum()]


def heard(looker):
    """What a node really has: its own message and those of the nodes it hears from, round by round."""
    return lambda t: np.eye(8)[(ONE_PEER.at(t).toarray()[looker] != 0)]


def given(threat):
    """What the proof gives it."""
    return lambda t: threat.view(ONE_PEER.at(t).toarray(), np.ones(8) if t == ROUNDS - 1 else None)


def attacked(network, draws=WHOLE, seed=1):
    """The verdict of one who has the transcript of `network`, on the record of node 0."""
    method = const_d2p(noise_multiplier=NOISE).with_rounds(ROUNDS)
    task, there = worlds(TRIALS, 8, 4, draws, method, Noise.from_seed(seed))
    run_rounds(method.bind(task, network.graph), task, network, ROUNDS)
    return attack(network.transcript(), there, DELTA, 0.95)


def bounds(threat, draws=WHOLE):
    """ε for node 0 against every other node, and μ against `threat`, by the theorem."""
    method = const_d2p(noise_multiplier=NOISE).with_rounds(ROUNDS)
    task, _ = worlds(1, 8, 4, draws, method, Noise.from_seed(0))
    run = Run(task, method, Simulated(ONE_PEER), delta=DELTA)
    rounds = mixing(method, task, ONE_PEER, plan(method.privacy, method.rounds, task.sampling, task.nodes))
    leverages = shown(rounds, threat)[rounds.which, 0]
    return assess(run, planned=True).pairs[0], float(np.sqrt(leverages.sum()) / NOISE)


@pytest.fixture(scope="module")
def copies():
    return Copies(ONE_PEER, TRIALS)


def test_a_listening_node_finds_no_more_than_its_bound(copies):
    """And one who listens on all links finds more than that: the bound is not there for want of trying."""
    epsilons, mu = bounds(Neighbour(1))
    found = attacked(Listener(copies, TRIALS, heard(1)))
    assert found.lower <= epsilons[1]
    assert 0.4 * mu <= found.separation <= mu + 0.1
    everything = attacked(Listener(copies, TRIALS, lambda t: np.eye(8)))
    assert everything.separation == pytest.approx(np.sqrt(ROUNDS) / NOISE, abs=0.12)
    assert everything.separation > mu + 0.12
    assert everything.lower <= mu_to_epsilon(np.sqrt(ROUNDS) / NOISE, DELTA)


@pytest.mark.parametrize("threat", [Neighbour(1), Neighbour(2), ModelHolder(), ModelHolder((0, 3))], ids=str)
def test_one_who_has_all_that_the_proof_gives_finds_just_the_bound(copies, threat):
    """Leverage is what the code that runs shows: no less, no more."""
    _, mu = bounds(threat)
    assert attacked(Listener(copies, TRIALS, given(threat))).separation == pytest.approx(mu, abs=0.12)


def test_with_sampling_the_bound_holds(copies):
    draws = Batch(size=2, sampling="without-replacement")
    epsilons, _ = bounds(Neighbour(1), draws)
    for view in (heard(1), given(Neighbour(1))):
        assert attacked(Listener(copies, TRIALS, view), draws).lower <= epsilons[1]


# Why gradients that follow hidden states are not accounted by how the view depends on noise and gradients.

RELAY = from_matrices(
    [
        [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]],  # the relay, node 1, hears from node 0
        [[1, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]],  # node 2, who looks, hears from the relay
    ]
)
RECORDS = 20


def relayed(trials, noise, seed=0):
    """What node 2 hears, and the world. One record of node 0 pushes one way or the other; every record of node 1 says
    where its model is, its gradient being the sign of that."""
    there = np.arange(trials) % 2 == 1
    x = torch.tensor([[0.0, 0.0], [1e6, 0.0], [-1e6, 0.0], [0.0, 1e6]])  # nothing, a push, its opposite, a sign
    y = torch.tensor([0, 1, 0, 1])
    model = Model.from_loss(lambda w, x, y: (w * x[0]).sum() + x[1] * w.abs().sum(), torch.zeros(1).double())
    held = np.zeros((trials, 3, RECORDS), np.int64)
    held[:, 0, 0], held[:, 1] = np.where(there, 1, 2), 3
    task = Task(
        model,
        Dataset("relay", x, y, x, y, 2),
        list(held.reshape(-1, RECORDS)),
        relation="replace-one",
        noise=Noise.from_seed(seed),
        dtype=torch.float64,
    )
    method = const_d2p(noise_multiplier=noise, lr=1.0).with_rounds(2)
    network = Listener(Copies(RELAY, trials), trials, lambda t: np.eye(3)[[1]] if t else np.eye(3)[[2]])
    run_rounds(method, task, network, 2)
    return network.transcript()[:, 1], there


def advantage(mu):
    """By how much a test with μ between its Gaussian worlds is right more often than wrong: their total variation."""
    return 2 * norm.cdf(mu / 2) - 1


def test_linear_accounting_of_views_is_false_for_gradients_that_follow_hidden_states():
    """Node 2 hears one number, X₁ − γ(g₁ + s Z), with X₁ = (M₀ + M₁)/2. In it a record moves X₁ by Δγ/2, and its noise
    has the variance γ²s²(¼ + ¼ + 1): with g₁ taken as given that is μ = ½ / (m √1.5). But g₁ follows X₁, which nobody
    has given to node 2, and twenty records tell its sign louder than one record's noise."""
    noise = 0.5
    message, there = relayed(4000, noise)
    naive, theorem = 0.5 / (noise * np.sqrt(1.5)), 1 / (noise * np.sqrt(2))
    right = float(((message > np.median(message)) == there).mean())
    found = abs(2 * right - 1)
    assert found > advantage(naive) + 0.1
    assert found == pytest.approx(advantage(theorem), abs=0.05)  # all that the theorem allows in the first round
