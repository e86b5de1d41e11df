"""Runs that release statistics before round 0: ε of everything, what is computed from them, resume, files, refusals."""

import json
import math
import sqlite3
from dataclasses import replace

import dp_accounting as dp
import numpy as np
import pytest
import torch
from dp_accounting.pld import PLDAccountant

import tacit
from tacit.audit import audit, audit_one_run, check_escapes
from tacit.networks import run_on_threads
from tacit.privacy import Gaussian, Ledger, Paired, epsilon_to_mu, mu_to_epsilon
from tacit.runs import Config, Run, from_config, verify
from tacit.runs.other_tests import utility_on
from tacit.runs.prediction import ModelFile, export_model
from tacit.threats import analyse_threats
from tests.runs.cases import assert_same, interrupt_after, interrupt_verb
from tests.runs.secret_cases import copy_of_world, in_world

SHARES = {"mean": 0.03, "gram": 0.25, "gradients": 0.72}
PRIVACY = {"epsilon": 2.0, "delta": 1e-3, "shares": SHARES}
CONFIG = {
    "rounds": 3,
    "evaluate_every": 2,
    "graph": {"name": "ring", "nodes": 4},
    "algorithm": {"name": "dp-sgd", "local_steps": 1, "lr": 1.0},
    "batch": {"size": "all"},
    "privacy": PRIVACY,
}
SECRET = {"noise": "secret", "sharding": "digest"}
PURPOSES = ["data mean", "data second moments"]


def built(*, out=None, resume=False, observers=(), **changes):
    config = Config.parse(CONFIG | changes)
    return from_config(config, out=out, resume=resume, observers=observers, secret_noise=True)


def refused(words):
    return pytest.raises(tacit.TacitError, match=words)


def observe(run):
    """Keep the values that the run releases, with the standard deviations of their noise."""
    seen = {}

    def keep(step, purpose, value, scale):
        seen[step, purpose] = value.clone().double().numpy(), scale

    run.task.on_release = keep
    return seen


# ε


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("size", ["all", 16])
def test_the_target_is_for_statistics_and_training_together(size, relation):
    sampling = "without-replacement" if relation == "replace-one" and size != "all" else "poisson"
    batch = {"size": size, "relation": relation, "sampling": sampling}
    run = built(batch=batch)
    seen = observe(run)
    run.go()
    releases = list(run.task.ledger.releases())
    assert [each.purpose for each in releases] == [*PURPOSES, *["gradient"] * 3]
    mu = epsilon_to_mu(2.0, 1e-3)
    for release, (share, sensitivity) in zip(releases, [(0.03, [1.0, 2.0]), (0.25, [1.0, math.sqrt(2)])], strict=False):
        assert release.multipliers.tolist() == pytest.approx([1 / (math.sqrt(share) * mu)] * 4)
        assert (release.sampling.kind, release.sampling.relation, release.step) == ("none", relation, 0)
        stated = sensitivity[relation == "replace-one"]
        assert seen[0, release.purpose][1].tolist() == pytest.approx((stated * release.multipliers).tolist())
    assert 0.98 * 2 < run.privacy.guaranteed <= 2
    assert run.planned().guaranteed == pytest.approx(run.privacy.guaranteed, rel=1e-9)
    if size == "all":  # then everything is Gaussian, and the gradients have their share, too
        total = sum(release.multipliers[0] ** -2 for release in releases)
        assert mu_to_epsilon(math.sqrt(total), 1e-3) == pytest.approx(run.privacy.guaranteed, rel=1e-3)
        assert sum(release.multipliers[0] ** -2 for release in releases[2:]) / mu**2 == pytest.approx(0.72, rel=0.01)
    elif relation == "add-remove":
        accountant = PLDAccountant(value_discretization_interval=1e-3)
        for each in releases:
            event = dp.GaussianDpEvent(each.multipliers[0])
            sampled = dp.PoissonSampledDpEvent(each.rates[0], event)
            accountant.compose(sampled if each.purpose == "gradient" else event)
        assert accountant.get_epsilon(1e-3) == pytest.approx(run.privacy.per_node[0], rel=0.01)


def test_a_larger_share_leaves_less_for_the_gradients():
    noise = []
    for share in (0.1, 0.4, 0.8):
        run = built(privacy=PRIVACY | {"shares": {"mean": share, "gradients": 1 - share}})
        planned = run.algorithm.privacy
        statistic = planned.preparation(run.task.nodes, run.task.sampling)[0].multipliers[0]
        noise.append((statistic, planned.releases(0, run.task.nodes, run.task.sampling)[0].multipliers[0]))
    assert sorted(noise, reverse=True) == noise
    assert [gradient for _, gradient in noise] == sorted(gradient for _, gradient in noise)


def test_a_budget_refuses_statistics():
    least = mu_to_epsilon(math.sqrt(0.03) * epsilon_to_mu(2.0, 1e-3), 1e-3)
    run = built(privacy=PRIVACY | {"budget": 0.9 * least}).go()
    assert (run.t, len(run.task.ledger)) == (0, 0)
    run = built(privacy=PRIVACY | {"budget": 1.1 * least}).go()
    assert (run.t, [each.purpose for each in run.task.ledger.releases()]) == (0, ["data mean"])
    assert "δ = 0.001 ends before step 0" in run.stopped


# What is computed from the releases


def naive_preparation(x, mean_sums, moment_sums, deviation, records):
    """From the formulas, one record at a time: mean and second moments are sums over all records ÷ their number."""
    mean = mean_sums.sum(0) / records
    d = len(mean)
    moments, place = np.zeros((d, d)), 0
    sums = moment_sums.sum(0) / records
    for i in range(d):
        for j in range(i, d):
            moments[i, j] = moments[j, i] = sums[place] / (1 if i == j else math.sqrt(2))
            place += 1
    values, vectors = np.linalg.eigh(moments)
    level = deviation * math.sqrt(2 * d)
    whitening = vectors @ np.diag((np.maximum(values, 0) + level / 2) ** -0.5) @ vectors.T
    prepared = []
    for row in x:
        z = row / max(1.0, np.linalg.norm(row))
        z = (z - mean) / np.linalg.norm(z - mean)
        z = whitening @ z
        prepared.append(z / np.linalg.norm(z))
    return np.array(prepared)


@pytest.mark.parametrize("sharding", ["iid", {"name": "dirichlet", "alpha": 0.5, "min_records": 40}])
def test_records_are_centred_and_whitened_as_the_formulas_say(sharding):
    run = built(sharding=sharding)
    x, test_x, y = run.task.data.x.clone(), run.task.data.test_x.clone(), run.task.data.y.clone()
    seen = observe(run)
    run.go()
    means, moments = seen[0, "data mean"][0], seen[0, "data second moments"][0]
    records = run.task.sizes.sum()
    deviation = np.linalg.norm(seen[0, "data second moments"][1]) / records
    for raw, found in ((x[:50], run.task.data.x[:50]), (test_x[:20], run.task.data.test_x[:20])):
        expected = naive_preparation(raw.flatten(1).double().numpy(), means, moments, deviation, records)
        np.testing.assert_allclose(found.flatten(1).numpy(), expected, atol=1e-5)
    assert torch.equal(run.task.data.y, y)
    assert run.result()["prepared"] == ["mean", "whitening"]


def test_without_noise_records_become_centred_and_white():
    """At a large ε, the statistics of the prepared records show that centring and whitening worked."""
    run = built(privacy={"epsilon": 4000.0, "delta": 1e-3, "shares": {"mean": 0.4, "gram": 0.4, "gradients": 0.2}}).go()
    x = run.task.data.x.flatten(1).double()
    values = torch.linalg.eigvalsh(x.T @ x / len(x))
    raw = torch.nn.functional.normalize(built().task.data.x.flatten(1).double())
    before = torch.linalg.eigvalsh(raw.T @ raw / len(raw))
    assert x.mean(0).norm() < 0.1 < 0.8 < raw.mean(0).norm()
    assert values[-1] < 0.06 < 0.6 < before[-1]
    np.testing.assert_allclose(x.norm(dim=1), 1, atol=1e-5)


@pytest.mark.parametrize("shares", [{"mean": 0.2, "gradients": 0.8}, {"gram": 0.2, "gradients": 0.8}])
def test_each_statistic_can_be_used_alone(shares):
    run = built(privacy=PRIVACY | {"shares": shares}).go()
    assert len(run.task.ledger) == 4
    assert run.result()["prepared"] == ["mean" if "mean" in shares else "whitening"]


def test_ranges_mean_and_moments_are_released_one_after_the_other(tmp_path):
    from tests.runs.ranges_cases import table

    shares = {"ranges": 0.1, "mean": 0.1, "gram": 0.2, "gradients": 0.6}
    run = built(data=table(tmp_path), privacy=PRIVACY | {"shares": shares}).go()
    assert [each.purpose for each in run.task.ledger.releases()][:3] == ["column histogram", *PURPOSES]
    assert run.result()["ranges"].keys() == {"age", "crp"}
    assert 0.98 * 2 < run.privacy.guaranteed <= 2
    with_epsilon = {**PRIVACY, "ranges_epsilon": 0.2}
    run = built(data=table(tmp_path), privacy=with_epsilon).go()
    assert 0.97 * 2 < run.privacy.guaranteed <= 2
    with refused('column age: range = "private" needs a share: set privacy.shares.ranges or privacy.ranges_epsilon'):
        built(data=table(tmp_path))
    with refused("privacy.shares.ranges and privacy.ranges_epsilon both set the noise"):
        built(data=table(tmp_path), privacy=PRIVACY | {"shares": shares, "ranges_epsilon": 0.2})


# Paired noise


def test_paired_noise_of_statistics_cancels_in_their_mean():
    """Noise that the pairs share is far larger than what is left of it in the sum over all nodes."""
    privacy = PRIVACY | {"noise": "paired", "colluders": 1, "ratio": 10.0}
    for purpose in PURPOSES:
        exact, noised = built(privacy=privacy), built(privacy=privacy)
        seen = observe(noised)
        noised.go()
        stage = noised.algorithm.preparation[PURPOSES.index(purpose)]
        if purpose == "data second moments":  # that of the centred records
            exact.task._records.prepare(
                tacit.tasks.RecordPreparation(noised.task._records.preparation.mean)  # computed from a release
            )
        statistic = tacit.tasks.Mean() if purpose == "data mean" else tacit.tasks.Gram()
        noise = seen[0, purpose][0] - exact.task.statistic(statistic)._value.numpy()
        covariance = noise @ noise.T / noise.shape[1]
        expected = stage.multiplier**2 * stage.sensitivity**2 * stage.pairs.covariance()
        np.testing.assert_allclose(covariance, expected, atol=8 * expected.max() / math.sqrt(noise.shape[1]))
        deviation = noise.mean(0).std()
        assert deviation == pytest.approx(stage.mean_deviation(4), rel=0.25 if purpose == "data mean" else 0.05)
        independent = replace(stage, pairs=None)
        assert stage.mean_deviation(4) < 0.75 * independent.mean_deviation(4)
        assert isinstance(stage.release(np.arange(4), "add-remove").mechanism, Paired)
        assert isinstance(independent.release(np.arange(4), "add-remove").mechanism, Gaussian)


@pytest.mark.parametrize("sharding", ["iid", {"name": "dirichlet", "alpha": 0.5, "min_records": 40}])
def test_statistics_count_against_every_number_of_colluders(sharding):
    """ε is that of one Gaussian whose μ² is the sum over all releases, each with the covariance of honest nodes."""
    privacy = PRIVACY | {"noise": "paired", "colluders": 1}
    run = built(privacy=privacy, sharding=sharding, algorithm=CONFIG["algorithm"] | {"weights": "records"}).go()
    curve = run.privacy.against_colluders
    assert run.privacy.guaranteed == pytest.approx(curve[1])
    assert 0.98 * 2 < curve[1] <= 2
    for colluders in range(3):
        worst = 0.0
        for node in range(4):
            others = [each for each in range(4) if each != node]
            for coalition in [others[k : k + colluders] for k in range(3 - colluders + 1)]:
                total = 0.0
                for release in run.task.ledger.releases():
                    mechanism = release.mechanism
                    honest = [each for each in range(4) if each not in coalition]
                    covariance = mechanism.noise**2 * mechanism.plan.covariance(coalition)
                    covariance = covariance[np.ix_(honest, honest)]
                    place = honest.index(node)
                    sensitivity = mechanism.sensitivity * mechanism.plan.sensitivity[node]
                    total += sensitivity**2 * np.linalg.inv(covariance)[place, place]
                worst = max(worst, total)
        assert mu_to_epsilon(math.sqrt(worst), 1e-3) == pytest.approx(curve[colluders], rel=1e-3)


def test_paired_statistics_are_nearer_to_the_truth():
    errors = {}
    exact = built().task
    mean = tacit.tasks.statistics.build("mean")
    true = exact.statistic(mean)._value.sum(0) / exact.sizes.sum()
    for noise in ("independent", "paired"):
        found = built(graph={"name": "ring", "nodes": 8}, privacy=PRIVACY | {"noise": noise}).go()
        errors[noise] = float((found.task._records.preparation.mean.double() - true).norm())
    assert errors["paired"] < 0.7 * errors["independent"]


# What others see


@pytest.mark.parametrize("noise", ["independent", "paired"])
def test_nothing_depends_on_the_records_except_through_releases(noise):
    found = check_escapes(Config.parse(CONFIG | {"rounds": 2, "privacy": PRIVACY | {"noise": noise}}))
    assert found.escapes == ()
    assert found.privacy.covers_models
    assert found.releases == 4


def test_the_check_finds_records_centred_by_their_exact_mean(monkeypatch):
    from tacit.runs import preparation_stages

    def exact(task, preparation):
        real(task, tacit.tasks.RecordPreparation(task.data.x.flatten(1).mean(0)))

    real = preparation_stages.prepare_records
    monkeypatch.setattr(preparation_stages, "prepare_records", exact)
    found = check_escapes(Config.parse(CONFIG | {"rounds": 2}))
    assert any("depend" in escape for escape in found.escapes)


def test_mixing_hides_no_statistics():
    analysis = analyse_threats(built(), planned=True)
    assert {bound.epsilon for bound in analysis.bounds} == {analysis.bounds[0].epsilon}
    assert "means of records are released as well" in analysis.bounds[1].reason


def test_audits_accept_such_runs():
    config = Config.parse(CONFIG)
    result = audit(config, trials=400, rounds=2)
    assert result.holds
    one = audit_one_run(config, canaries=100)
    assert one.holds
    assert one.guaranteed == pytest.approx(built().planned().guaranteed, rel=0.02)


# The same run


def test_nodes_apart_prepare_their_records_alike():
    together = built().go()
    task = built().task

    def host(network):
        own = task.host(network.nodes.tolist(), Ledger())
        run = Run(own, together.algorithm, network, delta=1e-3).go()
        return run.task._records.preparation.state_dict()

    for found in run_on_threads(together.network.graph, host):
        for key, value in together.task._records.preparation.state_dict().items():
            torch.testing.assert_close(found[key], value, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("verb", "call", "rounds"), [("mix", 1, 0), ("mix", 2, 1), ("mix", 3, 2)])
@pytest.mark.parametrize("changes", [{}, SECRET], ids=["simulated", "secret"])
def test_interrupted_runs_resume_with_the_same_records(changes, verb, call, rounds, tmp_path):
    first = built(out=tmp_path / "run", **changes)
    if changes:
        world = copy_of_world(first.out, tmp_path / "whole")
        first.task.ledger.journal.close()
        with in_world(world) as folder:
            whole = built(out=folder, resume=True, **changes).go()
        first = built(out=tmp_path / "run", resume=True, **changes)
    else:
        whole = built(out=tmp_path / "whole", **changes).go()
    interrupt_verb(first, verb, call)
    assert first.go().t == rounds
    resumed = built(out=first.out, resume=True, **changes).go()
    assert torch.equal(resumed.task.data.x, whole.task.data.x)
    assert_same(resumed, whole)
    assert verify(first.out).differences == ()


def test_runs_continue_in_the_same_process():
    whole, run = built().go(), built()
    given = run.task.data.x
    interrupt_verb(run, "mix", 1)
    run.go()
    assert (run.t, len(run.task.ledger)) == (0, 0)
    assert torch.equal(run.task.data.x, given)
    assert_same(run.go(), whole)


def test_a_ledger_without_the_statistics_is_refused(tmp_path):
    run = built(out=tmp_path / "run", observers=[interrupt_after(2)]).go()
    ids = run.task.ledger.facts.read()["prepared"]
    swapped = dict(zip(ids, reversed(ids.values()), strict=True))
    for wrong in (None, {"mean": ids["mean"]}, swapped, {"mean": "x", "whitening": "y"}, {"mean": 3}):
        with sqlite3.connect(run.out / "ledger.sqlite") as ledger:
            ledger.execute("DELETE FROM fact WHERE key = 'prepared'")
            if wrong is not None:
                ledger.execute("INSERT INTO fact VALUES ('prepared', ?)", [json.dumps(wrong)])
        with refused("The ledger does not have the statistics that the run has released. Restore it to resume"):
            built(out=run.out, resume=True)


# Files and predictions


def test_predictions_need_raw_records_only(tmp_path):
    raw = built().task.data
    run = built(out=tmp_path / "run").go()
    expected = run.task.predict_tests(run.models.mean(0))
    loaded = tacit.load(run.out)
    found = run.predict_proba(raw.test_x)
    np.testing.assert_allclose(loaded.predict_proba(raw.test_x.numpy()), found, atol=1e-6)
    accuracy = (loaded.predict(raw.test_x) == np.array(raw.target.labels)[raw.test_y]).mean()
    assert accuracy == pytest.approx(expected.metrics.accuracy, abs=1e-6)
    assert utility_on(run, raw.test_x, raw.test_y).as_dict()["metrics"]["accuracy"] == pytest.approx(accuracy)
    for form, suffix in (("torchscript", "pt"), ("state-dict", "safetensors")):
        export_model(loaded.trained(), tmp_path / f"model.{suffix}", form)
    traced = torch.jit.load(tmp_path / "model.pt")
    np.testing.assert_allclose(traced(raw.test_x).detach().numpy(), found, atol=1e-5)
    state = ModelFile.read(tmp_path / "model.safetensors")
    assert torch.equal(state.preparation.mean, run.task._records.preparation.mean)
    assert "flatten" not in state.state
    assert not any(key.startswith("preparation") for key in state.state)


def test_onnx_files_prepare_records_too(tmp_path):
    onnx = pytest.importorskip("onnx.reference")
    run = built().go()
    raw = built().task.data
    export_model(run.trained(), tmp_path / "model.onnx", "onnx")
    (found,) = onnx.ReferenceEvaluator(str(tmp_path / "model.onnx")).run(None, {"features": raw.test_x[:9].numpy()})
    np.testing.assert_allclose(found, run.predict_proba(raw.test_x[:9]), atol=1e-5)


@pytest.mark.parametrize("noise", ["independent", "paired"])
def test_folders_are_verified(noise, tmp_path):
    from safetensors import safe_open
    from safetensors.torch import save_file

    run = built(out=tmp_path / "run", privacy=PRIVACY | {"noise": noise}).go()
    checked = verify(run.out)
    assert checked.differences == ()
    assert any("the releases are those that the config plans" in line for line in checked.checked)
    path = run.out / "model.safetensors"
    with safe_open(path, "pt") as file:
        tensors, metadata = {key: file.get_tensor(key) for key in file.keys()}, file.metadata()  # noqa: SIM118
    tensors["preparation.mean"] += 0.1
    save_file(tensors, path, metadata)
    differences = verify(run.out).differences
    assert "model.safetensors: records are prepared with other statistics than the run released" in differences
    del tensors["preparation.mean"]
    save_file(tensors, path, metadata)
    with refused("the statistics that prepare records are missing"):
        ModelFile.read(path)


# Refusals


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"privacy": {"shares": SHARES}, "algorithm": {"name": "dp-sgd", "sigma": 1.0}},
            "privacy.shares are shares of a target ε: set privacy.epsilon",
        ),
        ({"privacy": PRIVACY | {"calibration": "paper"}}, 'needs privacy.calibration = "guaranteed"'),
        (
            {"privacy": PRIVACY | {"shares": {"ranges": 0.1, "gradients": 0.9}}},
            'privacy.shares.ranges has an effect only with columns of range = "private"',
        ),
        ({"algorithm": "sgpdp"}, "methods that protect records, but SGPDP protects whole nodes"),
        ({"algorithm": "sgp"}, "SGP adds no noise"),
        (
            {"privacy": PRIVACY | {"shares": {"mean": 0.5, "gradients": 0.4}}},
            "the sum of all shares must be 1, got 0.9",
        ),
        ({"privacy": PRIVACY | {"shares": {"mean": 1.0}}}, "the share of mean must be above 0 and below 1, got 1"),
        ({"privacy": PRIVACY | {"shares": {"mean": 0.5, "gram": 0.5}}}, "the share of gradients is missing"),
        ({"privacy": PRIVACY | {"shares": {"gradients": 1.0}}}, "the share of gradients must be above 0 and below 1"),
        (
            {"privacy": PRIVACY | {"shares": {"means": 0.5, "gradients": 0.5}}},
            'unknown share "means"; use ranges, mean',
        ),
        ({"privacy": PRIVACY | {"shares": {"mean": -0.5, "gradients": 1.5}}}, "must be above 0 and below 1, got -0.5"),
        ({"privacy": PRIVACY | {"shares": {"mean": math.nan, "gradients": 0.5}}}, "must be above 0 and below 1"),
        (
            {"algorithm": {"name": "dp-norm", "smoothness": 1.0, "lr": 0.01}, "batch": {"size": "all"}},
            'statistics for "add-remove": set batch.relation = "replace-one"',
        ),
    ],
)
def test_runs_that_cannot_release_statistics_are_refused(changes, words, tmp_path):
    with refused(words):
        built(out=tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_tokens_are_refused():
    data = tacit.Dataset.from_arrays(
        np.ones((40, 3), np.int64), np.arange(40) % 2, test=0.0, labels=[0, 1], tokens=True
    )
    model = torch.nn.Sequential(torch.nn.Embedding(4, 2), torch.nn.Flatten(), torch.nn.Linear(6, 2))
    with refused("statistics are for records of numbers, but the records are tokens"):
        tacit.train(model, data, nodes=4, rounds=2, epsilon=2.0, delta=1e-3, shares=SHARES, algorithm="dp-sgd", batch=4)
