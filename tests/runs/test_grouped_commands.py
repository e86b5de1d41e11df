"""compare, sweep and reproduce run settings of one task as one simulation; each result is that of its own run."""

import json
from pathlib import Path

import pytest

from tacit.comparisons import run_comparison
from tacit.privacy import read_ledger
from tacit.reproduce import read_experiment
from tacit.reproduce.cell_runs import run_cells
from tacit.reproduce.cells import expand_cells
from tacit.runs import cell_group, grouped, storage
from tacit.sweeps import sweep
from tacit.tasks import sum_together
from tests.reproduce.conftest import TINY
from tests.sweeps.cases import GRID, SMALL

OWN = {"seconds", "wall_seconds", "out"}  # of a run, whatever it computes
EXACT = {"privacy", "releases", "title", "config", "error", "held_out", "epsilon", "guaranteed", "claimed", "stopped"}


@pytest.fixture
def stacked(monkeypatch):
    """The numbers of cells that were computed in one call."""
    sizes = []

    def counted(requests):
        sizes.append(len(requests))
        return sum_together(requests)

    monkeypatch.setattr(cell_group, "sum_together", counted)
    return sizes


def assert_close(found, expected, where=""):
    """Compare results: numbers that depend on models up to 1e-6, all others exactly."""
    key = where.rpartition(".")[2]
    if key in OWN:
        return
    if isinstance(expected, dict) and key not in EXACT:
        assert found.keys() == expected.keys(), where
        for name in expected:
            assert_close(found[name], expected[name], f"{where}.{name}")
    elif isinstance(expected, list) and key not in EXACT:
        assert len(found) == len(expected), where
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other, where)
    elif isinstance(expected, float) and key not in EXACT:
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6), where
    else:
        assert found == expected, where


def releases(folder):
    return [
        (r.step, r.purpose, r.mechanism.name, r.multipliers.tolist(), r.sampling.kind, r.rates.tolist())
        for r in read_ledger(folder / "ledger.sqlite").releases()
    ]


def alone(monkeypatch):
    monkeypatch.setattr(grouped, "MOST_CELLS", 1)


def test_compared_methods_equal_separate_runs(tmp_path, monkeypatch, stacked):
    settings = ["rounds=3", "evaluate_every=3", "graph.nodes=3"]
    arguments = {"epsilon": 2.0, "delta": 1e-3, "seeds": 1, "settings": settings}
    methods = ["dyn-d2p", "dp-sgd", "sgp"]
    together = run_comparison(methods, **arguments, out=tmp_path / "together")
    assert stacked.count(3) == 3
    stacked.clear()
    alone(monkeypatch)
    separate = run_comparison(methods, **arguments, out=tmp_path / "alone")
    assert not stacked
    for method in methods:
        for one, other in zip(together.folders[method], separate.folders[method], strict=True):
            assert releases(one) == releases(other)
            assert_close(storage.read_history(one / "history.csv"), storage.read_history(other / "history.csv"))
            assert_close(json.loads((one / "result.json").read_text()), json.loads((other / "result.json").read_text()))


def saved(folder):
    return {path.stem: json.loads(path.read_text()) for path in Path(folder).glob("*.json")}


def test_cells_of_a_sweep_equal_separate_runs(tmp_path, monkeypatch, stacked):
    grid = {"lr": GRID["lr"]}
    sweep(SMALL, grid, seeds=2, out=tmp_path / "together")
    assert stacked == [2] * 6
    alone(monkeypatch)
    sweep(SMALL, grid, seeds=2, out=tmp_path / "alone")
    together, separate = (saved(tmp_path / name / "cells") for name in ("together", "alone"))
    assert len(separate) == 4
    assert_close(together, separate)


def test_cells_of_an_experiment_equal_separate_runs(tmp_path, monkeypatch, stacked):
    (tmp_path / "one.toml").write_text(TINY.replace("rounds = 6", "rounds = 2"))
    cells = [cell for cell in expand_cells(read_experiment(tmp_path / "one.toml")) if cell.seed == 0]
    together = run_cells(cells, tmp_path / "together")
    assert max(stacked) == 8
    alone(monkeypatch)
    assert_close(together, run_cells(cells, tmp_path / "alone"))
    assert saved(tmp_path / "together") == together
    monkeypatch.undo()  # an interrupted experiment continues with the missing cells, in a group
    for path in sorted((tmp_path / "together").glob("*.json"))[::3]:
        path.unlink()
    sizes = []
    monkeypatch.setattr(cell_group, "sum_together", lambda each: [sizes.append(len(each)), sum_together(each)][1])
    assert_close(run_cells(cells, tmp_path / "together"), together)
    assert max(sizes) == 3
