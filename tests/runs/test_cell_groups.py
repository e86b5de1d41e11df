"""Runs in a group equal separate runs: models, histories, ledgers, budgets and statements."""

import os
import random
import signal
import threading

import pytest
import torch

from tacit import Observer
from tacit.errors import TacitError
from tacit.runs import Config, UserParts, from_config, run_grouped, task_key
from tacit.runs.cell_group import Cell, CellGroup, _places
from tacit.tasks import GradientRequest, datasets, sum_together
from tacit.tasks.batch_loader import BatchLoader

TARGET = {"epsilon": 3.0, "delta": 1e-3}
METHODS = [
    ("dyn-d2p", {"lr": 0.1}, 12),
    ("dyn-d2p", {"lr": 0.5}, 12),
    ("const-d2p", {"lr": 0.5}, 7),
    ("dp-sgd", {"lr": 0.1, "local_steps": 3}, 5),
    ("dp-admm", {"lr": 0.1, "local_steps": 2}, 6),
    ("porter", {"clip": 1.0}, 6),
    ("sgp", {"lr": 0.5}, 9),
]


def config(name, parameters, rounds, **sections):
    privacy = {"delta": 1e-3} if name == "sgp" else TARGET
    graph = {"name": "complete", "nodes": 4}
    part = {"name": name, **parameters}
    given = {"rounds": rounds, "evaluate_every": 3, "privacy": privacy, "graph": graph, "algorithm": part}
    return Config.parse({**given, **sections})


def outcome(run):
    rows = [{key: value for key, value in row.items() if key != "wall_seconds"} for row in run.evaluations]
    releases = [(r.step, r.purpose, r.mechanism.name, r.mechanism.multipliers(4).tolist()) for r in run.releases]
    return run.models, rows, releases, run.privacy, run.stopped, run.task.draws


class Finished:
    """What a run leaves, read in the thread of its ledger."""

    def __init__(self, run):
        self.models, self.evaluations, self.task = run.models, run.evaluations, run.task
        self.releases, self.privacy, self.stopped = list(run.task.ledger.releases()), run.privacy, run.stopped


def train(setting, cell):
    run = from_config(setting)
    cell.join(run)
    return Finished(run.go())


def together(configs, work=train, **options):
    return {id(c): found for c, found in run_grouped(work, configs, 1, group=task_key, **options)}


def assert_same(found, alone):
    """Noise is rounded to a grid, so a difference in the last bit of a gradient may move a value by one step of it."""
    (models, rows, *facts), (other_models, other_rows, *other_facts) = outcome(found), outcome(alone)
    assert facts == other_facts
    torch.testing.assert_close(models, other_models, atol=1e-6, rtol=1e-6)
    for row, other in zip(rows, other_rows, strict=True):
        known = [key for key, value in row.items() if value is not None]
        assert known == [key for key, value in other.items() if value is not None]
        for key in known:
            assert row[key] == pytest.approx(other[key], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("sampling", ["poisson", "permutation", "without-replacement"])
def test_methods_in_a_group_equal_separate_runs(sampling):
    methods = METHODS if sampling == "poisson" else [METHODS[0], METHODS[1], METHODS[3]]
    configs = [config(*method, batch={"size": 16, "sampling": sampling}) for method in methods]
    found = together(configs)
    for each in configs:
        assert_same(found[id(each)], Finished(from_config(each).go()))


@pytest.mark.parametrize(
    "sections",
    [
        {"model": {"name": "mlp", "hidden": [8]}},
        {"model": {"name": "logistic", "weight_decay": 0.01}, "batch": {"size": "all"}},
        {"model": {"name": "cnn", "width": 2, "hidden": 4}},
        {"data": {"name": "digits"}, "batch": {"size": 8, "clipping": "automatic"}},
    ],
)
def test_every_model_gives_the_same_as_alone(sections):
    configs = [config(*method, **sections) for method in (METHODS[0], METHODS[1], METHODS[3])]
    found = together(configs)
    for each in configs:
        assert_same(found[id(each)], Finished(from_config(each).go()))


def test_a_run_that_its_budget_stops_leaves_the_group_with_its_own_ledger():
    stopped = config("const-d2p", {"noise_multiplier": 2.0}, 12, privacy={"delta": 1e-3, "budget": 0.3})
    free = config("const-d2p", {"noise_multiplier": 2.0}, 12, privacy={"delta": 1e-3})
    found = together([stopped, free])
    assert "budget" in found[id(stopped)].stopped
    assert found[id(free)].stopped is None
    assert len(found[id(stopped)].releases) < len(found[id(free)].releases) == 12
    for each in (stopped, free):
        assert_same(found[id(each)], Finished(from_config(each).go()))


def test_a_run_that_diverges_leaves_the_others_as_they_are():
    diverging, healthy = config("sgp", {"lr": 1e38}, 12), config("sgp", {"lr": 0.1}, 12)

    def work(setting, cell):
        try:
            return train(setting, cell)
        except TacitError as error:
            return str(error)

    found = together([diverging, healthy], work)
    assert "finite" in found[id(diverging)]
    assert_same(found[id(healthy)], Finished(from_config(healthy).go()))


def test_an_error_is_raised_after_the_others_have_ended():
    configs, finished = [config("sgp", {"lr": lr}, 6) for lr in (0.1, 0.2, 0.3)], []

    def work(setting, cell):
        if setting is configs[1]:
            raise ZeroDivisionError("of this cell")
        return train(setting, cell)

    def run_all():
        for setting, _ in run_grouped(work, configs, 1, group=task_key):
            finished.append(setting)

    with pytest.raises(ZeroDivisionError, match="of this cell"):
        run_all()
    assert finished == [configs[0], configs[2]]


def test_the_records_of_a_draw_are_copied_once(monkeypatch):
    copied, batches = [], BatchLoader.batches
    monkeypatch.setattr(BatchLoader, "batches", lambda *args: [copied.append(args[1]), batches(*args)][1])
    together([config("dyn-d2p", {"lr": lr}, 10) for lr in (0.1, 0.2, 0.5)])
    assert len(copied) == 10


def test_cells_with_other_local_steps_meet_at_the_same_draw(monkeypatch):
    copied, batches = [], BatchLoader.batches
    monkeypatch.setattr(BatchLoader, "batches", lambda *args: [copied.append(args[1]), batches(*args)][1])
    together([config("dp-sgd", {"local_steps": 1}, 12), config("dp-sgd", {"local_steps": 4}, 3)])
    assert len(copied) == 12


def test_records_that_a_release_has_prepared_are_not_shared():
    """Each run centres the records by its own noised mean, so the batches are not the same."""
    configs = [
        config("dyn-d2p", {}, 4, privacy={**TARGET, "epsilon": e, "shares": {"mean": 0.1, "gradients": 0.9}})
        for e in (1.0, 9.0)
    ]
    found = together(configs)
    for each in configs:
        assert_same(found[id(each)], Finished(from_config(each).go()))


def test_the_data_of_a_group_are_loaded_once(monkeypatch):
    loaded, build = [], type(datasets).build

    def load(registry, name, *rest):
        loaded.append(name)
        return build(registry, name, *rest)

    monkeypatch.setattr(type(datasets), "build", load)
    together([config("sgp", {"lr": lr}, 2) for lr in (0.1, 0.2, 0.5)])
    assert loaded.count("digits") == 1


def test_the_clock_of_a_run_stands_still_while_others_run(monkeypatch):
    """Ticks of a clock that counts gradients: each call for two cells costs each of them one half."""
    ticks = [0.0]
    monkeypatch.setattr("tacit.runs.cell_group.time.monotonic", lambda: ticks[0])

    def counted(requests):
        ticks[0] += 1.0
        return sum_together(requests)

    monkeypatch.setattr("tacit.runs.cell_group.sum_together", counted)
    configs, rows = [config("sgp", {"lr": 0.1}, 4), config("sgp", {"lr": 0.2}, 8)], {}
    for setting, run in run_grouped(train, configs, 1, group=task_key):
        rows[id(setting)] = run.evaluations[-1]["wall_seconds"]
    assert [rows[id(each)] for each in configs] == [2.0, 6.0]


class Interrupting(Observer):
    """Sends Ctrl-C to this process after some round."""

    def __init__(self, after):
        self.after = after

    def on_round(self, run):
        if run.t == self.after:
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_ends_all_runs_after_a_complete_round_and_each_can_be_resumed(tmp_path):
    configs = [config("dyn-d2p", {"lr": lr}, 10) for lr in (0.1, 0.2, 0.5)]
    folder = {id(c): tmp_path / str(k) for k, c in enumerate(configs)}
    stopped = {}

    def work(setting, cell):
        observers = [Interrupting(4)] if setting is configs[1] else []
        run = from_config(setting, out=folder[id(setting)], observers=observers)
        cell.join(run)
        run.go()
        stopped[id(setting)] = run.t, run.interrupted
        if run.interrupted:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            together(configs, work)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert [interrupted for _, interrupted in stopped.values()] == [True] * 3
    assert all(4 <= t <= 5 for t, _ in stopped.values())
    for each in configs:
        resumed = from_config(each, out=folder[id(each)], resume=True).go()
        assert_same(Finished(resumed), Finished(from_config(each).go()))


def test_a_caller_that_fails_leaves_no_run_behind():
    configs = [config("sgp", {"lr": 0.1}, 2), *(config("sgp", {"lr": lr}, 50) for lr in (0.2, 0.5))]
    results = run_grouped(train, configs, 1, group=task_key)
    next(results)
    assert [thread.name for thread in threading.enumerate()].count("tacit-cell") == 2
    running = [thread for thread in threading.enumerate() if thread.name == "tacit-cell"]
    results.close()
    for thread in running:
        thread.join(60)
    assert not any(thread.is_alive() for thread in running)


@pytest.mark.parametrize("seed", range(12))
def test_random_schedules_end_and_each_cell_has_its_own_answers(monkeypatch, seed):
    """Cells ask for arbitrary draws in arbitrary numbers; some fail, some are interrupted, some never ask."""
    chance = random.Random(seed)
    plans = [
        (chance.choice(["ends", "ends", "fails"]), [chance.randrange(8) for _ in range(chance.randrange(12))])
        for _ in range(chance.randrange(2, 7))
    ]
    expected = from_config(config("sgp", {}, 1)).task
    first = expected.initial()

    def work(number, cell):
        run = from_config(config("sgp", {}, 1))
        cell.join(run)
        end, steps = plans[number]
        values = [run.task.gradient(number + run.task.initial(), step).use_locally() for step in steps]
        if end == "fails":
            raise TacitError(f"cell {number}")
        return values

    results, failures = {}, []

    def run_all():
        try:
            results.update(CellGroup(work, range(len(plans))).run())
        except TacitError as error:
            failures.append(str(error))

    thread = threading.Thread(target=run_all, daemon=True)
    thread.start()
    thread.join(120)
    assert not thread.is_alive(), "the cells wait for each other"
    assert sorted(results) == [k for k, (end, _) in enumerate(plans) if end == "ends"]
    failing = [f"cell {k}" for k, (end, _) in enumerate(plans) if end == "fails"]
    assert (failures[0] in failing) if failing else not failures
    for number, values in results.items():
        for step, value in zip(plans[number][1], values, strict=True):
            torch.testing.assert_close(
                value, expected.gradient(number + first, step).use_locally(), atol=1e-6, rtol=1e-5
            )


def test_only_runs_with_the_same_task_have_the_same_key():
    base = config("dyn-d2p", {"lr": 0.1}, 10)
    same = [
        config("dp-sgd", {}, 20),
        config("dyn-d2p", {"lr": 0.1}, 10, privacy={"epsilon": 1.0}),
        config("dyn-d2p", {"lr": 0.1}, 10, graph={"name": "ring", "nodes": 4}),
        config("dyn-d2p", {"lr": 0.1}, 10, evaluate_every=5, measure=["node_accuracy"]),
    ]
    others = [
        config("dyn-d2p", {"lr": 0.1}, 10, seed=1),
        config("dyn-d2p", {"lr": 0.1}, 10, batch={"size": 8}),
        config("dyn-d2p", {"lr": 0.1}, 10, model={"name": "mlp"}),
        config("dyn-d2p", {"lr": 0.1}, 10, graph={"name": "ring", "nodes": 5}),
        config("dyn-d2p", {"lr": 0.1}, 10, device="cuda"),
        config("dyn-d2p", {"lr": 0.1}, 10, precision="bf16"),
    ]
    assert {task_key(each) for each in same} == {task_key(base)}
    assert task_key(base) not in {task_key(each) for each in others}
    data = datasets.build("digits", {})
    assert task_key(base, UserParts(data=data)) == task_key(same[0], UserParts(data=data)) != task_key(base)


def test_secret_noise_shares_nothing():
    assert task_key(config("dyn-d2p", {}, 3, noise="secret")) is None
    ran = []

    def work(item, cell):
        ran.append((item, type(cell), threading.current_thread() is threading.main_thread()))

    list(run_grouped(work, [1, 2], 1, group=lambda item: None))
    assert ran == [(1, Cell, True), (2, Cell, True)]


def test_groups_are_bounded_and_every_process_has_one(monkeypatch):
    seen = []
    monkeypatch.setattr("tacit.runs.grouped.run_in_parallel", lambda work, groups, jobs: [seen.append(groups)] * 0)
    list(run_grouped(train, list("aabab"), 2, group=lambda item: item))
    assert [len(members) for members in seen[0]] == [3, 2]
    list(run_grouped(train, ["a"] * 40, 2, group=lambda item: item))
    assert max(len(members) for members in seen[1]) == 8


def test_large_models_run_one_after_another():
    run = from_config(config("sgp", {}, 1))
    asked = []
    run.task.sum_gradients = lambda request: [asked.append(request), torch.zeros(4, run.task.d)][1]
    run.task.gradient(run.task.initial(), 0)
    small = asked[0]
    assert _places(small) > 8
    huge = GradientRequest(small.records, small.sampler, small.noise, small.nodes, 0, small.point)
    object.__setattr__(huge, "point", type(small.point)(torch.empty(0).expand(0)))
    object.__setattr__(huge.point, "params", torch.empty(1).expand(4, 10**8))
    assert _places(huge) == 1
