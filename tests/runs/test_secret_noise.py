"""Training with secret noise: what it needs, what it writes, and the total of all runs on the same records."""

import json

import numpy as np
import pytest

import tacit
from tacit.errors import BudgetExceeded, TacitError
from tacit.networks import Simulated
from tacit.privacy import Ledger, Noise, RecordsLedger, epsilon, joint_epsilon, plan
from tacit.runs import Config, Run, RunFolder, from_config
from tacit.runs.secret_noise import check_secret_noise
from tests.helpers import digits_task, example_algorithm
from tests.runs.cases import SMALL, AfterRound, interrupt_after
from tests.runs.secret_cases import DELTA, SECRET, copy_of_world, in_world, secret


def planned(run):
    privacy = run.algorithm.privacy
    return plan(privacy, run.algorithm.rounds, privacy.sampling(run.task), run.task.nodes)


def test_two_runs_state_their_own_epsilon_and_the_total(tmp_path):
    first = secret(out=tmp_path / "first").go()
    second = secret(out=tmp_path / "second", rounds=20).go()
    assert (first.privacy.runs, second.privacy.runs) == (1, 2)
    alone = [epsilon(planned(run), DELTA) for run in (first, second)]
    assert [first.privacy.guaranteed, second.privacy.guaranteed] == alone
    assert first.privacy.total == alone[0]
    assert second.privacy.total == joint_epsilon([planned(first), planned(second)], DELTA)
    assert max(alone) < second.privacy.total < sum(alone)
    stated = json.loads((tmp_path / "second/result.json").read_text())
    assert stated["simulated"] is False
    assert stated["privacy"]["simulated"] is False
    assert (stated["privacy"]["total"], stated["privacy"]["runs"]) == (second.privacy.total, 2)
    assert "SIMULATION" not in second.privacy.sentence()


def test_the_noise_differs_between_runs_with_the_same_seed():
    assert not np.array_equal(secret().go().models, secret().go().models)


def test_simulations_are_not_added_up():
    from_config(Config.parse(SMALL)).go()
    tacit.train(nodes=3, rounds=2, epsilon=1.0, population="ward-7")
    assert not RecordsLedger().path.exists()


def test_train_takes_secret_noise_and_a_population():
    given = {"nodes": 3, "rounds": 3, "batch": 8, "epsilon": 1.0, "sharding": "digest", "noise": "secret"}
    first = tacit.train(**given, population="ward-7", population_budget=1.1)
    assert first.privacy.total == first.privacy.guaranteed
    with pytest.raises(BudgetExceeded, match=r"ε = 1\.1 at δ = 1e-05: 1 run spent 0\.99.*, this run plans 0\.99"):
        tacit.train(**given, population="ward-7", population_budget=1.1)
    with pytest.raises(BudgetExceeded):
        tacit.train(**given)  # leaving out the population does not leave out its budget


def test_the_budget_of_the_records_refuses_a_run_before_anything_is_written(tmp_path):
    one = epsilon(planned(secret(noise="simulated")), DELTA)
    target = {"delta": DELTA, "population": "ward-7", "population_budget": 1.2 * one}
    secret(privacy=target, out=tmp_path / "runs/first").go()
    with pytest.raises(BudgetExceeded, match="The run is refused"):
        secret(privacy=target, out=tmp_path / "runs/second")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["first"]
    assert len(RecordsLedger().find("ward-7")[1]) == 1


def test_a_run_that_was_built_and_not_started_costs_nothing():
    secret()
    assert secret().go().privacy.runs == 1


def test_a_run_that_is_killed_counts_in_full():
    class Killed(BaseException):
        pass

    def kill(run):
        run.task.ledger.reservation.end = lambda *_: None  # a killed process writes nothing
        raise Killed

    run = secret(observers=[AfterRound(2, kill)])
    with pytest.raises(Killed):
        run.go()
    after = secret().go()
    assert after.privacy.total == joint_epsilon([planned(run), planned(after)], DELTA)


def test_a_run_that_resumes_is_the_same_run(tmp_path):
    """Interrupted, killed, resumed and extended: it is recorded once, with what it released."""
    world = tmp_path / "killed"
    run = secret(out=tmp_path / "run", observers=[AfterRound(8, lambda run: copy_of_world(run.out, world))]).go()
    assert run.privacy.runs == 1
    with in_world(world) as folder:
        (before,) = RecordsLedger().find("#1")[1]
        assert (before.ended, len(before.releases)) == (False, 12), "a killed run counts as planned"
        resumed = secret(out=folder, resume=True, observers=[interrupt_after(9)]).go()
        assert (resumed.privacy.runs, resumed.privacy.total) == (1, epsilon(planned(run)[:9], DELTA))
        assert secret(out=folder, resume=True).go().privacy.total == run.privacy.total
        extended = secret(out=folder, resume=True, extend=5).go()
        (after,) = RecordsLedger().find("#1")[1]
    assert (after.id, after.ended, len(after.releases)) == (before.id, True, 17)
    assert (extended.privacy.runs, extended.privacy.total) == (1, extended.privacy.guaranteed)


def test_a_killed_run_that_is_not_resumed_stays_counted_as_planned(tmp_path):
    world = tmp_path / "killed"
    run = secret(out=tmp_path / "run", observers=[AfterRound(2, lambda run: copy_of_world(run.out, world))]).go()
    with in_world(world):
        after = secret(out=tmp_path / "other").go()
        assert after.privacy.total == joint_epsilon([planned(run), planned(after)], DELTA)


def test_the_budget_of_the_records_refuses_an_extension(tmp_path):
    one = epsilon(planned(secret(noise="simulated")), DELTA)
    target = {"privacy": {"delta": DELTA, "population": "ward-7", "population_budget": 1.01 * one}}
    run = secret(**target, out=tmp_path / "run").go()
    with pytest.raises(BudgetExceeded, match=r"0 runs spent 0, this run plans .* The run is refused"):
        secret(**target, out=run.out, resume=True, extend=10)
    assert not (run.out / "noise.key").exists()
    assert RecordsLedger().find("ward-7")[1][0].ended


@pytest.mark.parametrize("within_a_round", [False, True])
def test_an_interrupted_run_counts_what_it_released(tmp_path, within_a_round, monkeypatch):
    observers = [] if within_a_round else [interrupt_after(4)]
    run = secret(out=tmp_path / "run", observers=observers)
    if within_a_round:
        original = run.task._records.gradient_sums

        def gradient_sums(*args, **kwargs):
            if run.t == 4:
                run.task.ledger.open(4, "gradient of the round that is interrupted")
                raise KeyboardInterrupt
            return original(*args, **kwargs)

        monkeypatch.setattr(run.task._records, "gradient_sums", gradient_sums)
    run.go()
    assert (run.interrupted, run.t) == (True, 4)
    assert run.privacy.guaranteed == epsilon(planned(run)[:4], DELTA)
    assert run.privacy.total == run.privacy.guaranteed


def test_a_run_that_fails_counts_what_it_released():
    def fail(run):
        raise TacitError("the disk is full")

    with pytest.raises(TacitError, match="the disk is full"):
        secret(observers=[AfterRound(3, fail)]).go()
    after = secret().go()
    assert after.privacy.total == joint_epsilon([planned(after)[:3], planned(after)], DELTA)


def test_secret_noise_is_accepted_by_tacit_train_only():
    with pytest.raises(TacitError, match='noise = "secret" is for tacit train'):
        from_config(Config.parse(SECRET))


def test_secret_noise_needs_one_process():
    with pytest.raises(TacitError, match="Secret noise needs a run in one process, got 2"):
        check_secret_noise(Config.parse(SECRET), accepted=True, processes=2)


def test_a_task_with_secret_noise_is_added_without_a_config():
    def run():
        task = digits_task(3)
        task.noise, task.ledger = Noise.from_system(), Ledger()
        algorithm = example_algorithm("const-d2p", 4, noise_multiplier=1.0)
        return Run(task, algorithm, Simulated(tacit.graphs.ring(3))).go()

    assert [run().privacy.runs for _ in range(2)] == [1, 2]


LABELS = "one record would decide at which node others are"


@pytest.mark.parametrize(
    ("sharding", "relation", "accepted"),
    [
        ("iid", "replace-one", True),
        ({"name": "sizes", "ratio": 2.0}, "replace-one", True),
        ("digest", "replace-one", False),
        ("classes", "replace-one", False),
        ("dirichlet", "replace-one", False),
        ("iid", "add-remove", False),
        ({"name": "sizes", "ratio": 2.0}, "add-remove", False),
        ("digest", "add-remove", True),
        ("classes", "add-remove", False),
        ("dirichlet", "add-remove", False),
    ],
)
def test_shards_in_which_a_record_moves_others_are_refused(sharding, relation, accepted):
    changes = {"sharding": sharding, "batch": {"size": 8, "relation": relation}}
    if accepted:
        assert secret(**changes).task.n == 5
    else:
        with pytest.raises(TacitError, match=LABELS):
            secret(**changes)
    assert secret(**changes, noise="simulated").task.n == 5


@pytest.mark.parametrize(("options", "accepted"), [({}, True), ({"records": 100}, False)])
def test_one_node_with_all_records_needs_no_sharding(options, accepted):
    changes = {"graph": {"name": "complete", "nodes": 1}, "sharding": {"name": "iid", **options}}
    if accepted:
        assert secret(**changes).task.sizes.tolist() == [1437]
    else:
        with pytest.raises(TacitError, match=LABELS):
            secret(**changes)


def test_a_sharding_of_the_users_own_is_refused_and_indices_are_accepted(tmp_path):
    file = tmp_path / "own.py"
    file.write_text("import numpy as np\ndef mine(labels, nodes):\n    return np.array_split(np.arange(99), nodes)\n")
    with pytest.raises(TacitError, match=LABELS):
        secret(sharding=f"{file}:mine")
    parts = np.array_split(np.arange(99), 3)
    run = tacit.train(sharding=parts, nodes=3, rounds=2, batch=8, epsilon=1.0, noise="secret")
    assert run.privacy.runs == 1


def test_an_algorithm_without_noise_leaves_no_total():
    secret(algorithm="sgp").go()
    after = secret().go().privacy
    assert after.guaranteed is not None
    assert (after.total, after.total_reason) == (None, "values leave the nodes without noise")


def test_a_folder_of_a_run_built_by_hand_states_the_total(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    task = digits_task(3)
    task.noise, task.ledger = Noise.from_system(), folder.ledger
    Run(
        task,
        example_algorithm("const-d2p", 4, noise_multiplier=1.0),
        Simulated(tacit.graphs.ring(3)),
        observers=[folder],
    ).go()
    assert json.loads((tmp_path / "run/result.json").read_text())["privacy"]["runs"] == 1


@pytest.mark.parametrize(
    "data",
    [{"missing": "refuse"}, {"columns": {"age": {"range": [0, 110], "missing": "refuse"}}}],
    ids=["table", "column"],
)
def test_a_table_in_which_one_cell_stops_the_run_is_refused_before_it_is_read(data):
    config = Config.parse(SECRET | {"data": {"name": "csv", "path": "nowhere.csv", **data}})
    with pytest.raises(TacitError, match='missing = "refuse" is not accepted'):
        from_config(config, secret_noise=True)


@pytest.mark.parametrize("share", [0.2, 0.0])
def test_metrics_of_held_out_records_are_stated_as_not_protected(share):
    x = np.random.default_rng(0).normal(size=(60, 3))
    given = {"labels": [0, 1], "nodes": 1, "rounds": 2, "epsilon": 2.0, "batch": 8, "test": share}
    run = tacit.train("logistic", (x, (x[:, 0] > 0).astype(int)), noise="secret", progress=False, **given)
    assert ("This guarantee does not protect these records." in (run.privacy.note or "")) == (share > 0)
