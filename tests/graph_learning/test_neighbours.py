"""Neighbouring data sets differ in their released values only, however extreme the replaced signal is."""

import json
import re
import warnings
from fractions import Fraction

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.graph_learning import IGL, PPGL, FedAvg, GraphLearner, GraphLearningRun, Signals
from tacit.graphs import complete
from tacit.networks import Simulated
from tacit.privacy import Noise
from tests.graph_learning.adversarial import recorded, rows

D, N, CLIENTS, CLIP = 6, 5, 3, 4.0
ROUNDS = {"release": "rounds", "rounds": 4}
METHODS = [
    PPGL(rounds=30),
    PPGL(rounds=10, K=2),
    PPGL(**ROUNDS, K=1),
    PPGL(**ROUNDS, K=3, step=0.05, momentum=0.7),
    PPGL(**ROUNDS, K=None),
    PPGL(**ROUNDS, K=None, zeta=0.0, beta=1e-3),
    IGL(),
    IGL(rounds=10, K=2),
    FedAvg(),
    FedAvg(rounds=10, K=2),
    FedAvg(**ROUNDS, K=2),
    PPGL(rounds=30, statistic="gram"),
    IGL(rounds=10, K=2, statistic="gram"),
    FedAvg(statistic="gram"),
]


def name(method):
    return f"{method.title}-{method.release}-{method.K}-{method.statistic}"


def backgrounds():
    """The signals that both data sets contain: ordinary ones, or only constant ones."""
    rng = np.random.default_rng(0)
    ordinary = [rng.normal(size=(N, D)) for _ in range(CLIENTS)]
    return {"ordinary": ordinary, "constant": [ordinary[0], np.ones((N, D)), ordinary[2]]}


def neighbours(background):
    """Yield data sets in which the first signal of client 1 is each adversarial row."""
    for key, row in rows(D).items():
        tables = [table.copy() for table in backgrounds()[background]]
        tables[1][0] = row
        yield key, tables


def outcome(run):
    """Everything that a run shows: graphs, history, result, warnings, or its error."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = run()
            result = {**found.result(), "seconds": None}
            shown = (found.graphs.tolist(), found.history, found.t, result, found.task.ledger.unreleased)
        except TacitError as error:
            shown = str(error)
    return shown, [str(each.message) for each in warned]


def start(method, tables):
    clip = CLIP if method.statistic == "differences" else None
    task = Signals(tables, clip=clip, noise=Noise.from_seed(1))
    return lambda: GraphLearningRun(task, method.with_noise(2.0), Simulated(complete(CLIENTS))).go()


def squared_distance(a, b):
    """‖a − b‖² without rounding."""
    return sum((Fraction(x) - Fraction(y)) ** 2 for x, y in zip(a.tolist(), b.tolist(), strict=True))


@pytest.mark.parametrize("background", ["ordinary", "constant"])
@pytest.mark.parametrize("method", METHODS, ids=name)
def test_equal_releases_give_equal_runs_and_exact_values_within_the_sensitivity(method, background, monkeypatch):
    """The second run releases the values of the first one. Then nothing else may differ, and every value before noise
    is within the stated sensitivity."""
    first = None
    for key, tables in neighbours(background):
        with recorded(monkeypatch, first and first[1]) as releases:
            shown = outcome(start(method, tables))
        if first is None:
            first = shown, releases
        assert not isinstance(shown[0], str), (key, shown)
        assert shown == first[0], key
        assert len(releases) == len(first[1])
        for (a, bound, _), (b, other_bound, _) in zip(first[1], releases, strict=True):
            assert np.array_equal(bound, other_bound)
            for client in range(CLIENTS):
                limit = Fraction(float(bound[client])) if client == 1 else 0
                assert squared_distance(a[client], b[client]) <= limit**2, key


def test_a_solver_that_fails_for_one_data_set_only_is_not_visible(monkeypatch):
    """Newton's method has too few steps in the second run. Output is equal, exact values within the sensitivity."""
    method, tables = PPGL(**ROUNDS, K=None), dict(neighbours("ordinary"))
    with recorded(monkeypatch) as first:
        shown = outcome(start(method, tables["ordinary"]))
    monkeypatch.setattr("tacit.graph_learning.solver._MAX_NEWTON_STEPS", 1)
    with recorded(monkeypatch, first) as second:
        assert outcome(start(method, tables["largest with both signs"])) == shown
    for (a, bound, _), (b, other_bound, _) in zip(first, second, strict=True):
        assert np.array_equal(bound, other_bound)
        for client in range(CLIENTS):
            assert 0 < squared_distance(a[client], b[client]) <= Fraction(float(bound[client])) ** 2


@pytest.mark.parametrize("background", ["ordinary", "constant"])
@pytest.mark.parametrize("method", METHODS, ids=name)
def test_the_same_noise_gives_the_same_behaviour(method, background):
    """No error, and the same warnings, shapes and releases; if rounds cost privacy, also the same number of rounds."""
    kinds = set()
    for key, tables in neighbours(background):
        shown, warned = outcome(start(method, tables))
        assert not isinstance(shown, str), (key, shown)
        graphs, history, t, result, unreleased = shown
        texts = tuple(re.sub(r"residual is [\d.e-]+", "", text) for text in warned)  # computed from released values
        rounds = t if method.release == "rounds" else None
        shape = (len(graphs), len(graphs[0]), rounds, tuple(history[0]))
        kinds.add((shape, texts, str(unreleased), result["privacy"]["guaranteed"]))
    assert len(kinds) == 1


@pytest.mark.parametrize("clip", [CLIP, None])
@pytest.mark.parametrize("options", [{}, {"method": "igl"}, {"method": "fedavg"}], ids=str)
def test_default_parameters_depend_on_released_values_only(options, clip, monkeypatch):
    first = None
    for key, tables in neighbours("constant"):
        learner = GraphLearner(**options, epsilon=0.1, clip=clip, seed=1)
        with recorded(monkeypatch, first and first[1]) as releases:
            shown = outcome(lambda learner=learner, tables=tables: learner.fit(tables).run_), learner.parameters_
        first = first or (shown, releases)
        assert shown == first[0], key


IN_ROUNDS = ("--release", "rounds", "--clip", "4", "--rounds", "3", "--beta", "0.1")
PPGL_IN_ROUNDS = (*IN_ROUNDS, "--rho", "0.1", "--lam", "0.01")
MODES = [
    ("--method", "ppgl", "--clip", "4"),
    ("--method", "igl", "--clip", "4"),
    ("--method", "fedavg", "--clip", "4"),
    ("--method", "ppgl"),
    ("--method", "fedavg", "--statistic", "gram"),
    PPGL_IN_ROUNDS,
    (*PPGL_IN_ROUNDS, "--local-steps", "2"),
    ("--method", "fedavg", *IN_ROUNDS, "--local-steps", "2"),
]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: "".join(mode))
def test_the_command_shows_released_values_only(mode, tacit, tmp_path, monkeypatch):
    """Equal releases give the same exit code, output and files. Different ones give the same exit code, errors and
    file names."""
    options = ("--epsilon", "0.1", "--seed", "1", "--out", "out", "--verbose")
    first = None
    chosen = ("zero", "largest float", "largest with both signs", "1e200", "ordinary")
    for key, tables in neighbours("constant"):
        if key not in chosen:
            continue
        np.savez(tmp_path / "all.npz", *tables)
        for replayed in (True, False):
            with recorded(monkeypatch, first[1] if first and replayed else None) as releases:
                ended = tacit("learn-graph", "all.npz", *options, *mode)
            files = read_files(tmp_path / "out")
            first = first or ((ended, files), releases)
            assert (ended.code, ended.err) == (first[0][0].code, first[0][0].err) == (0, ""), key
            assert set(files) == set(first[0][1])
            if replayed:
                assert (ended, files) == first[0], key


def read_files(folder):
    """Return the contents of all files without the duration of the run, and remove the folder."""
    found = {}
    for path in sorted(folder.iterdir()):
        found[path.name] = path.read_bytes()
        path.unlink()
    folder.rmdir()
    found["result.json"] = {**json.loads(found["result.json"]), "seconds": None}
    found["report.html"] = re.sub(rb"[\d.e-]+ s</span>", b"", found["report.html"])
    return found
