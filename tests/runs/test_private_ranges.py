"""Runs that release the ranges of columns: ε of everything, what others see, refusals, resume and verification."""

import json
import sqlite3
import warnings
from dataclasses import replace

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

import tacit
from tacit.algorithms import PrivacyPlan
from tacit.audit import check_escapes
from tacit.networks import Simulated, run_on_threads
from tacit.privacy import Ledger, plan
from tacit.runs import Config, Run, from_config, verify
from tacit.threats import analyse_threats
from tests.runs.cases import assert_same, interrupt_after, interrupt_verb, lines
from tests.runs.ranges_cases import COLUMNS, CONFIG, built, patients, table
from tests.runs.secret_cases import copy_of_world, in_world, observed_releases

SECRET = {"noise": "secret", "sharding": "digest"}
NO_TARGET = {"delta": 1e-3}
NOISY = {"name": "dp-sgd", "local_steps": 1, "sigma": 0.5}


def refused(words):
    return pytest.raises(tacit.TacitError, match=words)


def by_dp_accounting(releases, node=0, delta=1e-3):
    """ε of one node's releases: the ranges from all records, the gradients from Poisson batches."""
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    for each in releases:
        event = dp.GaussianDpEvent(each.multipliers[node])
        sampled = each.purpose == "gradient"
        accountant.compose(dp.PoissonSampledDpEvent(each.rates[node], event) if sampled else event)
    return accountant.get_epsilon(delta)


# ε


def test_the_target_is_for_ranges_and_training_together(tmp_path):
    run = built(tmp_path).go()
    releases = list(run.task.ledger.releases())
    assert [(each.step, each.purpose) for each in releases] == [
        (0, "column histogram"),
        *((t, "gradient") for t in range(6)),
    ]
    assert (releases[0].sampling.kind, releases[0].sampling.relation, releases[0].unit) == (
        "none",
        "add-remove",
        "record",
    )
    assert 0.98 * 4 < run.privacy.guaranteed <= 4
    for node in range(3):
        spent = by_dp_accounting(releases, node)
        assert run.privacy.per_node[node] == pytest.approx(spent, rel=0.01)
        assert spent <= 4 * 1.005
    alone = dp.GaussianDpEvent(releases[0].multipliers[0])
    assert PLDAccountant().compose(alone).get_epsilon(1e-3) == pytest.approx(0.4, rel=0.01)
    assert run.planned().guaranteed == pytest.approx(run.privacy.guaranteed, rel=1e-9)
    planned = plan(run.algorithm.privacy, 6, run.task.sampling, run.task.nodes)
    assert [(each.step, each.purpose, each.multipliers.tolist()) for each in planned] == [
        (each.step, each.purpose, each.multipliers.tolist()) for each in releases
    ]


def test_more_for_the_ranges_leaves_less_for_the_training(tmp_path):
    noise = []
    for share in (0.2, 1.0, 3.0):
        run = built(tmp_path, privacy={"epsilon": 4.0, "delta": 1e-3, "ranges_epsilon": share}).go()
        ranges, gradient, *_ = run.task.ledger.releases()
        noise.append((ranges.multipliers[0], gradient.multipliers[0]))
        assert 0.98 * 4 < run.privacy.guaranteed <= 4
    assert sorted(noise) == noise[::-1]
    assert sorted(each for _, each in noise) == [each for _, each in noise]


def test_without_a_target_the_ranges_have_their_own(tmp_path):
    run = built(tmp_path, algorithm=NOISY, privacy=NO_TARGET | {"ranges_epsilon": 0.5}).go()
    assert run.privacy.guaranteed == pytest.approx(by_dp_accounting(run.task.ledger.releases()), rel=0.01)
    without = built(tmp_path, algorithm={"name": "sgp"}, privacy=NO_TARGET | {"ranges_epsilon": 0.5}).go()
    assert without.privacy.guaranteed is None
    assert without.result()["ranges"].keys() == {"age", "crp"}


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": {"size": 16, "sampling": "without-replacement"}},
        {"batch": {"size": 16, "sampling": "permutation"}},
        {"batch": {"size": "all"}},
        {"algorithm": {"name": "dyn-d2p", "share": ["0.weight"], "local": "exact"}},
        {"algorithm": {"name": "dp-norm", "smoothness": 0.5}, "model": {"name": "logistic", "biases": False}},
    ],
    ids=["without replacement", "permutation", "all records", "exact local parameters", "dp-norm"],
)
def test_every_sampling_and_relation_is_accounted(changes, tmp_path):
    """The noise is for the relation of the ledger, which replaces a record or adds one."""
    if "dp-norm" in str(changes):
        data = table(tmp_path)
        changes = changes | {"data": {**data, "split": "index"}, "batch": {"size": 16, "sampling": "permutation"}}
    run = built(tmp_path, **changes)
    scales = []
    run.task.on_release = lambda step, purpose, value, scale: scales.append((purpose, scale.max()))
    run.go()
    first = next(run.task.ledger.releases())
    entries = 2 if first.sampling.relation == "add-remove" else 4
    assert scales[0] == ("column histogram", pytest.approx(first.multipliers.max() * entries**0.5))
    assert 0.97 * 4 < run.privacy.guaranteed <= 4
    assert verify_plan(run)


def verify_plan(run):
    sampling = run.algorithm.privacy.sampling(run.task)
    planned = plan(run.algorithm.privacy, run.rounds, sampling, run.task.nodes)
    return [(each.step, each.purpose) for each in planned] == [
        (each.step, each.purpose) for each in run.task.ledger.releases()
    ]


def test_a_budget_refuses_the_ranges(tmp_path):
    spend = NO_TARGET | {"ranges_epsilon": 0.5}
    run = built(tmp_path, algorithm=NOISY, privacy=spend | {"budget": 0.4}).go()
    assert (run.t, len(run.task.ledger)) == (0, 0)
    assert run.stopped.startswith("The privacy budget ε = 0.4, δ = 0.001 ends before step 0")
    run = built(tmp_path, algorithm=NOISY | {"sigma": 0.02}, privacy=spend | {"budget": 0.6}).go()
    assert (run.t, [each.purpose for each in run.task.ledger.releases()]) == (0, ["column histogram"])
    assert run.privacy.guaranteed == pytest.approx(0.5, rel=0.01)


def test_ranges_are_no_plan_of_their_own(tmp_path):
    """An algorithm that plans nothing has no plan, whatever the run releases for it."""
    run = built(tmp_path)
    assert plan(PrivacyPlan(run.algorithm), 6, run.task.sampling, run.task.nodes) == []
    assert len(PrivacyPlan(run.algorithm).preparation(run.task.nodes, run.task.sampling)) == 1


def test_the_records_ledger_counts_the_ranges(tmp_path):
    run = built(tmp_path, **SECRET).go()
    assert run.privacy.total == pytest.approx(run.privacy.guaranteed, rel=0.01)
    with refused("budget"):
        built(tmp_path, **SECRET, privacy=CONFIG["privacy"] | {"population_budget": 4.5})


# What others see


@pytest.mark.parametrize("name", ["dp-sgd", "dyn-d2p", "porter"])
def test_nothing_depends_on_the_records_except_through_releases(name, tmp_path):
    """With other records and the same releases, everything is the same, bit for bit, also the ranges."""
    config = Config.parse({"data": table(tmp_path)} | CONFIG | {"algorithm": {"name": name}, "rounds": 3})
    found = check_escapes(config)
    assert found.escapes == ()
    assert found.privacy.covers_models
    assert found.releases > 3


def test_the_check_finds_records_scaled_by_exact_ranges(tmp_path, monkeypatch):
    from tacit.runs import preparation_stages

    def exact(task, ranges):
        highest = float(np.nanmax(task.data.private.train[:, 0]).clip(1, 999))
        real(task, {**ranges, "age": [0.0, highest]})

    real = preparation_stages.use_ranges
    monkeypatch.setattr(preparation_stages, "use_ranges", exact)
    found = check_escapes(Config.parse({"data": table(tmp_path)} | CONFIG | {"rounds": 2}))
    assert any("depend" in escape for escape in found.escapes)


def test_neighbouring_tables_look_the_same(tmp_path):
    """Shapes, warnings and the releases in the ledger do not depend on a record."""
    seen = []
    for row, last in enumerate([["1e300", "inf"], ["", ""], ["-5", "garbage"], ["60", "20"]]):
        frame, folder = patients(400), tmp_path / str(row)
        frame.loc[399, ["age", "crp"]] = last
        folder.mkdir()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = built(folder, data=table(folder, frame), rounds=2).go()
        assert all(low < high for low, high in run.result()["ranges"].values())
        seen.append(([str(each.message) for each in caught], run.models.shape, lines(run)[0]))
    assert seen[1:] == seen[:-1]


def test_mixing_hides_no_ranges(tmp_path):
    analysis = analyse_threats(built(tmp_path), planned=True)
    assert {bound.epsilon for bound in analysis.bounds} == {analysis.bounds[0].epsilon}
    assert "ranges of columns are released as well" in analysis.bounds[1].reason


# Refusals


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"algorithm": {"name": "sgpdp"}}, "column age: .* protects records, but SGPDP protects whole nodes: declare"),
        (
            {"algorithm": {"name": "sgp"}, "privacy": NO_TARGET},
            "no target ε: set privacy.epsilon or privacy.ranges_eps",
        ),
        ({"algorithm": NOISY, "privacy": NO_TARGET}, "no target ε: set privacy.epsilon or privacy.ranges_epsilon"),
        (
            {"privacy": {"epsilon": 1.0, "ranges_epsilon": 1.0}},
            "ranges_epsilon must be below privacy.epsilon = 1, got 1",
        ),
        ({"data": "digits", "privacy": {"epsilon": 1.0, "ranges_epsilon": 0.5}}, "ranges_epsilon has an effect only"),
    ],
)
def test_runs_that_cannot_release_ranges_are_refused(changes, words, tmp_path):
    with refused(words):
        built(tmp_path, out=tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_normalised_records_are_refused():
    data = tacit.Dataset.from_frame(patients(200), COLUMNS).normalised("unit")
    with refused('cannot be used with records of normalise = "unit"'):
        tacit.train("logistic", data, nodes=3, rounds=2, epsilon=2.0, delta=1e-3, batch=8)


def test_a_run_that_was_not_planned_with_ranges_is_refused(tmp_path):
    run = built(tmp_path)
    with refused('range = "private" is released by tacit train and tacit.train only: declare range'):
        Run(run.task, replace(run.algorithm, preparation=()), Simulated(run.network.graph))


# The same run


def test_ranges_are_public_and_the_same_in_python(tmp_path):
    run = built(tmp_path).go()
    again = built(tmp_path).go()
    assert_same(run, again)
    assert run.result()["ranges"] == again.result()["ranges"]
    assert run.task.data.schema.columns["age"].released is not None
    low, high = run.result()["ranges"]["age"]
    assert 20 < low < 60 < high < 200
    data = tacit.Dataset.from_frame(patients(), COLUMNS)
    trained = tacit.train("logistic", data, algorithm="dp-sgd", nodes=3, rounds=2, epsilon=4.0, ranges_epsilon=2.0)
    assert trained.result()["ranges"].keys() == {"age", "crp"}
    assert data.schema.private_columns, "the user's records stay as they are"


def test_nodes_apart_find_the_same_ranges(tmp_path):
    together = built(tmp_path).go()
    task, graph = built(tmp_path).task, together.network.graph

    def host(network):
        own = task.host(network.nodes.tolist(), Ledger())
        return Run(own, together.algorithm, network, delta=1e-3).go().result()["ranges"]

    assert run_on_threads(graph, host) == [together.result()["ranges"]] * 3


def interrupted(run, verb, call):
    interrupt_verb(run, verb, call)
    return run.go()


@pytest.mark.parametrize(("verb", "call", "rounds"), [("mean", 1, 0), ("mix", 1, 0), ("mix", 2, 1), ("mix", 5, 4)])
@pytest.mark.parametrize("changes", [{}, SECRET], ids=["simulated", "secret"])
def test_interrupted_runs_resume_with_the_same_ranges(changes, verb, call, rounds, tmp_path, monkeypatch):
    quick = changes | {"algorithm": NOISY, "privacy": NO_TARGET | {"ranges_epsilon": 0.5}}
    first = built(tmp_path, out=tmp_path / "run", observers=[], **quick)
    world = copy_of_world(first.out, tmp_path / "whole") if changes else None
    if changes:
        first.task.ledger.journal.close()
        with in_world(world) as folder:
            whole = built(tmp_path, out=folder, resume=True, **quick).go()
        first = built(tmp_path, out=tmp_path / "run", resume=True, **quick)
    else:
        whole = built(tmp_path, out=tmp_path / "whole", **quick).go()
    # The evaluation at round 0 makes means, too: the first one inside a round is that of the ranges.
    calls = call + count_means(tmp_path, quick) if verb == "mean" else call
    assert interrupted(first, verb, calls).t == rounds
    with observed_releases(monkeypatch) as seen:
        resumed = built(tmp_path, out=first.out, resume=True, **quick).go()
    assert ("column histogram" in [purpose for _, _, purpose, _ in seen]) == (rounds == 0)
    assert resumed.result()["ranges"] == whole.result()["ranges"]
    assert_same(resumed, whole)
    assert verify(first.out).differences == ()


def count_means(folder, quick):
    """How many means a run has made before its first round."""
    run, calls = built(folder, **{key: value for key, value in quick.items() if key not in SECRET}), []
    real = run.network.mean
    run.network.mean = lambda x: calls.append(run.task.draws or x.dtype.itemsize == 8) or real(x)
    run.go()
    return calls.index(True)


def test_runs_continue_in_the_same_process(tmp_path):
    whole = built(tmp_path).go()
    run = interrupted(built(tmp_path), "mix", 1)
    assert (run.t, len(run.task.ledger)) == (0, 0)
    assert run.result().get("ranges") is None
    assert_same(run.go(), whole)


# Files


def test_folders_are_verified_and_keep_the_ranges(tmp_path):
    run = built(tmp_path, out=tmp_path / "run").go()
    checked = verify(run.out)
    assert checked.differences == ()
    assert any("the releases are those that the config plans" in line for line in checked.checked)
    result = json.loads((run.out / "result.json").read_text())
    loaded = tacit.load(run.out).trained()
    assert {name: list(loaded.schema.columns[name].bounds) for name in result["ranges"]} == result["ranges"]
    change_ranges(run.out, {"age": [0.0, 1000.0], "crp": result["ranges"]["crp"]})
    differences = verify(run.out).differences
    assert any(line.startswith("model.safetensors: column age: released is") for line in differences)
    assert any(line.startswith("result.json: ranges is") for line in differences)


def test_a_run_interrupted_before_its_first_round_is_verified(tmp_path):
    run = interrupted(built(tmp_path, out=tmp_path / "run", **SECRET), "mix", 1)
    assert [each.purpose for each in run.task.ledger.releases()] == ["column histogram", "gradient"]
    assert verify(run.out).differences == ()


def test_a_ledger_without_the_ranges_is_refused(tmp_path):
    run = built(tmp_path, out=tmp_path / "run", observers=[interrupt_after(4)]).go()
    for wrong in (None, {"age": [0, 1]}, {"age": ["a", "b"], "crp": [0, 1]}, {"age": [5, 5], "crp": [0, 1]}):
        change_ranges(run.out, wrong)
        with refused("The ledger does not have the ranges that the run has released. Restore it to resume"):
            built(tmp_path, out=run.out, resume=True)


def change_ranges(folder, ranges):
    with sqlite3.connect(folder / "ledger.sqlite") as ledger:
        if ranges is None:
            ledger.execute("DELETE FROM fact WHERE key = 'ranges'")
        else:
            ledger.execute("INSERT OR REPLACE INTO fact VALUES ('ranges', ?)", [json.dumps(ranges)])


def test_released_ranges_can_be_declared_again(tmp_path):
    """Ranges in a model file are public: another run uses them without a release."""
    run = built(tmp_path).go()
    released = run.task.data.schema.to_dict()["columns"]
    again = from_config(Config.parse({"data": table(tmp_path, **released)} | CONFIG)).go()
    assert [each.purpose for each in again.task.ledger.releases()] == ["gradient"] * 6
    assert again.task.data.schema == run.task.data.schema
    assert again.result().get("ranges") is None
