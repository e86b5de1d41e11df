"""ECL and DP-Norm against a per-node re-implementation, and the paper's numbers."""

import math

import numpy as np
import pytest
import torch

from tacit.algorithms import algorithms
from tacit.algorithms.dpnorm_privacy import DPNormPrivacy, dp_norm_claim, dp_norm_j
from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.networks import Simulated
from tacit.privacy import Noise, mu_to_epsilon
from tacit.runs import Config, from_config
from tacit.tasks import Dataset, Model, Target, Task
from tests.helpers import noised, quadratic_task, run_rounds

RING = graphs.build("ring", {"nodes": 6})
STAR = graphs.build("star", {"nodes": 6})
pytestmark = pytest.mark.filterwarnings("ignore:.*the numbers of neighbours")


def published(**algorithm):
    """24,000 empty records with the sizes of the paper: 6 nodes with 4,000 each, batches of 2,000."""
    x, y = torch.zeros(24_000, 4), torch.arange(24_000) % 2
    data = Dataset("empty", x, y, x[:10], y[:10], Target.of_classes(2))
    task = Task(Model(torch.nn.Linear(4, 2)), data, np.split(np.arange(24_000), 6), batch=2000, sampling="permutation")
    return algorithms.build("dp-norm", {"smoothness": 0.5, **algorithm}).with_rounds(2000), task


DIGITS = {
    "data": {"name": "digits", "normalise": "unit"},
    "model": {"name": "logistic", "biases": False},
    "batch": {"size": 100, "sampling": "permutation"},
}


def test_the_published_numbers():
    algorithm, task = published()
    sensitivity = algorithm.privacy.sensitivity(task, RING)
    assert sensitivity == pytest.approx([1.02e-3] * 6, rel=1e-9)
    assert dp_norm_j(1.0, 1e-3, 2000) == pytest.approx(167.7, abs=0.05)
    assert dp_norm_j(0.5, 1e-3, 2000) == pytest.approx(312, abs=0.5)
    assert dp_norm_j(1.0, 1e-3, 2000) * sensitivity[0] == pytest.approx(0.171, abs=5e-4)
    assert dp_norm_j(0.5, 1e-3, 2000) * sensitivity[0] == pytest.approx(0.318, abs=5e-4)


@pytest.mark.parametrize(("claimed", "guaranteed"), [(1.0, 0.64), (0.5, 0.31)])
def test_guarantee_of_the_claimed_epsilon(claimed, guaranteed):
    config = Config.parse(
        {
            **DIGITS,
            "rounds": 2000,
            "graph": {"name": "ring", "nodes": 6},
            "algorithm": {"name": "dp-norm", "clip": 1.0, "smoothness": 0.5},
            "privacy": {"epsilon": claimed, "delta": 1e-3, "calibration": "paper"},
        }
    )
    privacy = from_config(config).planned()
    assert privacy.claimed == pytest.approx(claimed, rel=1e-6)
    assert privacy.guaranteed == pytest.approx(guaranteed, abs=0.006)
    assert "L-smooth with L = 0.5" in privacy.assumes
    assert (privacy.relation, privacy.unit) == ("replace-one", "record")


def test_calibration_to_the_guarantee_needs_less_noise():
    algorithm, task = published()
    from tacit.privacy import calibrate_noise

    scale = calibrate_noise(algorithm, algorithm.privacy.sampling(task), 1.0, 1e-3)
    assert scale == pytest.approx([115.0] * 6, abs=1.0)
    assert mu_to_epsilon(math.sqrt(2000) / scale[0], 1e-3) == pytest.approx(1.0, rel=0.01)
    assert dp_norm_claim(scale[0], 1e-3, 2000) > 1.4


def test_ecl_reaches_consensus_and_the_optimum():
    task = quadratic_task()
    algorithm = algorithms.build("ecl", {"lr": 0.2, "local_steps": 4}).with_rounds(400)
    state = run_rounds(algorithm, task, Simulated(RING), 400)
    assert torch.allclose(algorithm.models(state), task.data.x.double().mean(0).expand(6, -1), rtol=0, atol=1e-8)


@pytest.mark.parametrize(("step", "weights"), [("common", [1] * 6), ("paper", [5] + [1] * 5), ("code", [19] + [7] * 5)])
def test_what_ecl_minimises_on_a_star(step, weights):
    """The optimum of Σ f_i/η_i for quadratic f_i: only one η for all nodes weights them equally."""
    task = quadratic_task()
    algorithm = algorithms.build("ecl", {"lr": 0.2, "local_steps": 4, "step": step}).with_rounds(600)
    found = algorithm.models(run_rounds(algorithm, task, Simulated(STAR), 600)).numpy()
    own = task.data.x.double().numpy().reshape(6, -1, 3).mean(1)
    assert np.allclose(found, np.average(own, axis=0, weights=weights), rtol=0, atol=1e-8)
    assert step == "common" or not np.allclose(found, own.mean(0), rtol=0, atol=1e-2)


@pytest.mark.filterwarnings("error")
def test_different_degrees_are_warned_of():
    task = quadratic_task()
    for step, weight in (("paper", "E_i"), ("code", "K E_i")):
        with pytest.warns(UserWarning, match=rf"differ \(1 to 5\).*weighted loss Σ \({weight}.*step = \"common\""):
            algorithms.build("ecl", {"step": step}).start(task, STAR)
    algorithms.build("ecl", {"step": "common"}).start(task, STAR)
    algorithms.build("ecl", {}).start(task, RING)


@pytest.mark.parametrize(("claimed", "j", "sigma", "needed"), [(1.0, 117.5, 0.0302, 115), (0.5, 218.5, 0.0563, 206)])
def test_lemma_1_without_its_factor_is_private_by_the_contraction_bound(claimed, j, sigma, needed):
    algorithm, task = published(bound="without-c")
    algorithm = algorithm.bind(task, RING)
    privacy, delta = algorithm.privacy, 1e-3
    noise = privacy.paper_noise(privacy.sampling(task), claimed, delta)
    assert noise == pytest.approx([j] * 6, abs=0.2)
    assert noise * privacy.sensitivity(task, RING) == pytest.approx([sigma] * 6, rel=2e-3)
    noised = algorithm.with_noise(noise)
    assert noised.privacy.claim(privacy.sampling(task), task.nodes, delta, 2000) == pytest.approx(claimed, rel=1e-6)
    assert mu_to_epsilon(math.sqrt(2000) / noise[0], delta) < claimed
    assert mu_to_epsilon(math.sqrt(2000) / (needed - 1), delta) > claimed


def test_the_formula_of_the_lemma_beyond_its_condition():
    """α = 1 needs lr ≤ 0.024 in Lemma 1; the formula is proven by the smaller contraction bound."""
    with pytest.raises(TacitError, match=r"at most 1/\(cKL\) = 0.024, got 0.03: set a smaller lr or alpha"):
        published(alpha=1.0)[0].privacy.sensitivity(published()[1], RING)
    (formula, task), (contraction, _) = (published(alpha=1.0, bound=bound) for bound in ("formula", "contraction"))
    found, least = (each.privacy.sensitivity(task, RING) for each in (formula, contraction))
    c = 1 + 2 * (2 + 1 / (0.03 * 2 * 10))
    assert found == pytest.approx([c * 2 * 0.03 * (10 / 4000 + 1 / 2000)] * 6)
    assert (least < found).all()
    with pytest.raises(TacitError, match="not contractions"):
        published(alpha=4.0, bound="formula")[0].privacy.sensitivity(task, RING)


def test_ecl_matches_a_loop_over_nodes():
    """Edge-consensus learning as such, without noise, clipping and normalisation."""
    mu, inner = 0.02, 5
    algorithm, task = algorithms.build("ecl", {"lr": mu, "local_steps": inner}).with_rounds(30), quadratic_task()
    edges = list(zip(*(ends.tolist() for ends in STAR.edges(0)), strict=True))
    records = task.data.x.double().numpy().reshape(6, -1, 3)
    w, z = np.zeros((6, 3)), {edge: np.zeros(3) for edge in edges}
    network, state = Simulated(STAR), algorithm.start(task, STAR)
    for r in range(30):
        state = algorithm.round(r, state, task, network)
        for i in range(6):
            own = [edge for edge in edges if edge[0] == i]
            eta = 1 / (mu * len(own) * inner)
            for _ in range(inner):
                pull = eta * sum((1 if i < j else -1) * z[i, j] for _, j in own)
                w[i] = (w[i] - mu * (w[i] - records[i]).mean(0) + mu * pull) / (1 + eta * mu * len(own))
        z = {(i, j): z[j, i] - 2 * (1 if j < i else -1) * w[j] for i, j in edges}
        assert np.allclose(state.x.numpy(), w, rtol=0, atol=1e-9)
        assert np.allclose(state.z.numpy(), np.stack([z[edge] for edge in edges]), rtol=0, atol=1e-9)
    assert np.abs(w).max() > 0.1


@pytest.mark.parametrize("asynchronous", [False, True])
def test_ecl_equals_dp_norm_without_noise_and_normalisation(asynchronous):
    results = []
    for name, params in (("ecl", {}), ("dp-norm", {"alpha": 0.0, "sigma": 0.0, "clip": 1e9})):
        params |= {"lr": 0.02, "local_steps": 5, "asynchronous": asynchronous}
        algorithm = algorithms.build(name, params).with_rounds(20)
        results.append(run_rounds(algorithm, quadratic_task(), Simulated(RING), 20))
    assert torch.equal(results[0].x, results[1].x)
    assert torch.equal(results[0].z, results[1].z)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("inner_noise", ["none", "fresh", "same"])
@pytest.mark.parametrize("step", ["paper", "code", "common"])
@pytest.mark.parametrize("graph", [RING, STAR], ids=["ring", "star"])
def test_noised_rounds_match_a_loop_over_nodes(graph, step, inner_noise, asynchronous):
    mu, alpha, inner, bound, sigma = 0.02, 0.3, 5, 0.9, 0.05
    params = {"lr": mu, "alpha": alpha, "local_steps": inner, "clip": bound, "sigma": sigma, "step": step}
    params |= {"inner_noise": inner_noise, "asynchronous": asynchronous, "smoothness": 0.5}
    algorithm, task = algorithms.build("dp-norm", params).with_rounds(30), quadratic_task()
    edges = list(zip(*(ends.tolist() for ends in graph.edges(0)), strict=True))
    neighbours = {i: [j for a, j in edges if a == i] for i in range(6)}
    records = task.data.x.double().numpy().reshape(6, -1, 3)
    sign = {(i, j): 1 if i < j else -1 for i, j in edges}
    w, z = np.zeros((6, 3)), {edge: np.zeros(3) for edge in edges}
    network, state = Simulated(graph), algorithm.start(task, graph)
    for r in range(30):
        state = algorithm.round(r, state, task, network)
        drawn = [noised(task, "gaussian", np.zeros(3), sigma, "model", i, r) for i in range(6)]
        when = {edge: exchange(task, r, edge, inner) if asynchronous else inner - 1 for edge in edges}
        for k in range(inner):
            y, lam = {}, {}
            for i in range(6):
                degree = len(neighbours[i])
                weight = np.mean([len(each) for each in neighbours.values()]) if step == "common" else degree
                eta = 1 / (mu * (inner * degree + inner - degree if step == "code" else inner * weight))
                gamma = 1 + alpha * eta
                each = w[i] - records[i]
                g = (each * np.minimum(1, bound / np.linalg.norm(each, axis=1, keepdims=True))).mean(0)
                pull = mu * eta / gamma * sum(sign[i, j] * z[i, j] for j in neighbours[i])
                if inner_noise == "fresh":
                    noise = noised(task, "gaussian", np.zeros(3), sigma, "inner", i, r * inner + k)
                    pull -= mu * eta / gamma * degree * noise
                if inner_noise == "same":
                    pull -= mu * eta / gamma * degree * drawn[i]
                w[i] = gamma / (gamma + eta * mu * degree) * (w[i] - mu * g + pull)
                alone = not asynchronous and inner_noise != "same"  # then the sum is rounded, else the noise
                sent = noised(task, "gaussian", w[i], sigma, "model", i, r) if alone else w[i] + drawn[i]
                for j in neighbours[i]:
                    lam[i, j] = eta / gamma * (z[i, j] - sign[i, j] * sent)
                    y[i, j] = 2 / eta * lam[i, j] - z[i, j]
            if k == max(when.values()):
                duals = [np.mean([np.linalg.norm(lam[i, j]) for j in neighbours[i]]) for i in range(6)]
            z |= {(i, j): y[j, i] for i, j in edges if when[i, j] == k}
        assert np.allclose(state.x.numpy(), w, rtol=0, atol=1e-9)
        assert np.allclose(state.z.numpy(), np.stack([z[edge] for edge in edges]), rtol=0, atol=1e-9)
        assert np.allclose(state.dual.numpy(), duals, rtol=1e-9, atol=1e-9)


def exchange(task, r, edge, inner):
    """The local step after which an edge exchanges; both ends draw the same."""
    low, high = (np.array([end]) for end in (min(edge), max(edge)))
    return int(task.public.words(f"exchange {r}", low, high, 1)[0, 0] % inner)


def worst(batch, sampling, epochs, smooth, decay=0.0):
    """Two tasks that differ in the first record, whose slope is ±1000; the loss of all others is −L w²/2, which drives
    two runs apart as fast as L-smoothness allows."""

    def loss(w, x, y):
        return torch.where(y == 1, x * w, -smooth * w**2 / 2).sum()

    tasks = []
    for slope in (1000.0, -1000.0):
        x, y = torch.full((48, 1), slope), torch.zeros(48, dtype=torch.long)
        y[0] = 1
        data = Dataset("worst", x, y, x, y, Target.of_classes(2))
        model = Model.from_loss(loss, torch.zeros(1, dtype=torch.float64), weight_decay=decay)
        options = {"batch": batch, "sampling": sampling, "epochs": epochs, "dtype": torch.float64}
        options["noise"] = Noise.from_seed(0)
        tasks.append(Task(model, data, np.split(np.arange(48), 6), **options))
    return tasks


@pytest.mark.parametrize(
    ("batch", "sampling", "epochs", "steps"),
    [
        (None, "poisson", 1, 1),
        (4, "permutation", 1, 1),
        (4, "permutation", 3, 3),
        (3, "permutation", 1, 3),
        (4, "without-replacement", 1, 1),
        (4, "poisson", 1, 3),
    ],
)
def test_one_record_moves_w_by_at_most_the_bound(batch, sampling, epochs, steps):
    """Neighbouring data, the same messages: w differs by at most Δ₂ in every round, and comes close to the smaller
    bound if the worst draws are likely."""
    smooth, lr = 1.0, 0.02
    for alpha, step, decay in ((0.0, "paper", 0.0), (0.2, "code", 1.0)):
        tasks = worst(batch, sampling, epochs, smooth, decay)
        params = {"lr": lr, "local_steps": steps, "alpha": alpha, "step": step, "clip": 1.0, "smoothness": smooth}
        lemma, algorithm = (
            algorithms.build("dp-norm", {**params, "bound": bound, "sigma": 0.1}).with_rounds(150)
            for bound in ("lemma", "contraction")
        )
        most = algorithm.privacy.sensitivity(tasks[0], RING)[0]
        network, states = Simulated(RING), [algorithm.start(task, RING) for task in tasks]
        moved = []
        for r in range(60):
            states = [algorithm.round(r, state, task, network) for state, task in zip(states, tasks, strict=True)]
            moved.append(float((states[0].x[0] - states[1].x[0]).norm()))
            states = [type(state)(state.x, torch.zeros_like(state.z), state.dual) for state in states]
        assert max(moved) <= most * (1 + 1e-9)
        assert max(moved) <= lemma.privacy.sensitivity(tasks[0], RING)[0] * (1 + 1e-9)
        if sampling == "permutation" and not decay:
            assert max(moved) > 0.85 * most


def jumps(precision, lr=0.1, clip=0.02):
    """Two tasks that differ in the first record. The loss of all others is −‖w − c‖²/2, by a product as in layers.

    After one step, the parameters are at c, which is half-way between two neighbouring numbers in bfloat16.
    """
    c = 1 + 2.0**-8
    first = c * 3 / 2 - 0.99 * lr * clip / 8**0.5  # gradients of the others are clipped, and a step takes 2/3 of it

    def loss(w, x, y):
        return torch.where(y == 1, (x * w).sum(), c * w.sum() - (w[None] @ w[:, None]).sum() / 2)

    for slope in (1000.0, -1000.0):
        x, y = torch.full((600, 8), slope), torch.zeros(600, dtype=torch.long)
        y[0] = 1
        data = Dataset("jumps", x, y, x, y, Target.of_classes(2))
        model = Model.from_loss(loss, torch.full((8,), first))
        yield Task(model, data, np.split(np.arange(600), 6), noise=Noise.from_seed(0), precision=precision)


def test_coarse_gradients_are_not_smooth_so_that_no_sensitivity_is_known(monkeypatch):
    """In bfloat16, two models that are almost equal are rounded to different ones, and their gradients differ."""
    params = {"lr": 0.1, "local_steps": 2, "alpha": 0.0, "clip": 0.02, "smoothness": 1.0, "bound": "contraction"}
    algorithm = algorithms.build("dp-norm", {**params, "sigma": 1e-3}).with_rounds(9)
    monkeypatch.setattr(DPNormPrivacy, "_smoothness", lambda self, task: self.algorithm.smoothness)
    moved = {}
    for precision in ("float32", "bf16"):
        tasks = list(jumps(precision))
        most = algorithm.privacy.sensitivity(tasks[0], RING)[0]
        states = [algorithm.start(task, RING) for task in tasks]
        found = [algorithm.round(0, state, task, Simulated(RING)) for state, task in zip(states, tasks, strict=True)]
        moved[precision] = float((found[0].x[0] - found[1].x[0]).norm()) / most
    assert moved["float32"] <= 1
    assert moved["bf16"] > 5
    monkeypatch.undo()
    with pytest.raises(TacitError, match='gradients are not smooth: set precision = "float32"'):
        algorithm.start(next(jumps("bf16")), RING)


@pytest.mark.parametrize("noise", [{"privacy": {"epsilon": 1.0, "delta": 1e-3}}, {"algorithm": {"sigma": 0.1}}])
def test_a_run_with_coarse_gradients_is_refused_and_one_without_noise_is_not(noise):
    config = {**DIGITS, "rounds": 2, "precision": "bf16", "graph": {"name": "ring", "nodes": 5}, **noise}
    algorithm = {"name": "dp-norm", "smoothness": 0.5, **noise.get("algorithm", {})}
    with pytest.raises(TacitError, match='gradients are not smooth: set precision = "float32"'):
        from_config(Config.parse({**config, "algorithm": algorithm}))
    without = {"name": "dp-norm", "sigma": 0.0}
    assert from_config(Config.parse({**config, "privacy": {"delta": 1e-3}, "algorithm": without})).go().t == 2


def test_steps_that_are_no_contractions_are_refused():
    for decay, sampling, match in ((110.0, "permutation", "not contractions"), (0.0, "poisson", "fixed size")):
        task = worst(1, sampling, 1, 4.0, decay)[0]
        algorithm = algorithms.build("dp-norm", {"lr": 0.05, "smoothness": 4.0, "sigma": 0.1, "local_steps": 2})
        with pytest.raises(TacitError, match=match):
            algorithm.start(task, RING)


def test_smoothness_is_required_and_enforced():
    task = published()[1]
    with pytest.raises(TacitError, match="set smoothness to L"):
        algorithms.build("dp-norm", {"sigma": 0.1}).start(task, RING)
    with pytest.raises(TacitError, match=r"smoothness must be at least 0\.5 for logistic regression with biases"):
        algorithms.build("dp-norm", {"sigma": 0.1, "smoothness": 0.4}).start(task, RING)


@pytest.mark.parametrize(
    "wrong", [{"lr": 0.0}, {"alpha": -0.1}, {"local_steps": 0}, {"clip": 0.0}, {"smoothness": -1.0}, {"sigma": -1.0}]
)
def test_invalid_parameters_are_refused(wrong):
    with pytest.raises(TacitError, match=f"{next(iter(wrong))} must be"):
        algorithms.build("dp-norm", wrong)


def test_contraction_bound_is_a_quarter_of_the_lemma_at_published_settings():
    algorithm, task = published(bound="contraction")
    assert algorithm.privacy.sensitivity(task, RING) == pytest.approx([2.56e-4] * 6, rel=0.01)


def test_asynchronous_exchange_is_reproducible_and_has_no_guarantee():
    config = {
        **DIGITS,
        "rounds": 6,
        "graph": {"name": "ring", "nodes": 5},
        "algorithm": {"name": "dp-norm", "sigma": 0.1, "smoothness": 0.5, "asynchronous": True},
    }
    runs = [from_config(Config.parse(config)).go() for _ in range(2)]
    assert torch.equal(runs[0].models, runs[1].models)
    assert runs[0].privacy.guaranteed is None
    assert runs[0].network.traffic.messages == 6 * 10
    synchronous = {"name": "dp-norm", "sigma": 0.1, "smoothness": 0.5}
    together = from_config(Config.parse({**config, "algorithm": synchronous})).go()
    assert together.privacy.guaranteed is not None
    assert not torch.equal(together.models, runs[0].models)


def test_step_size_above_the_limit_of_the_lemma_is_refused():
    algorithm, task = published(lr=0.05)
    with pytest.raises(TacitError, match=r"at most 1/\(cKL\) = 0.03704, got 0.05"):
        algorithm.privacy.sensitivity(task, RING)


def test_records_that_are_too_long_are_scaled_down_and_nothing_is_refused():
    """A refusal, or its message, would reveal the longest record."""
    steps = {}
    for length in (1.0, 1.01, 3.0, 1e4):
        x = torch.eye(8)
        x[0] *= length
        y = torch.zeros(8, dtype=torch.long)
        model = Model(torch.nn.Linear(8, 2, bias=False))
        model._initial.zero_()
        parts = [np.array([node]) for node in range(6)]
        task = Task(
            model,
            Dataset("long", x, y, x, y, Target.of_classes(2)),
            parts,
            noise=Noise.from_seed(0),
            dtype=torch.float64,
        )
        algorithms.build("dp-norm", {"sigma": 0.1, "smoothness": 0.5}).start(task, RING)
        steps[length] = task.gradient(task.initial(), 0).use_locally()
        assert torch.equal(task.data.x, x)
    assert all(torch.allclose(step, steps[1.0]) for step in steps.values())
