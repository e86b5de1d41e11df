"""Cells and their keys, and every experiment in the repository."""

import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit.algorithms import Algorithm
from tacit.errors import TacitError
from tacit.reproduce import available_experiments, load_experiment, read_experiment
from tacit.reproduce.cell_runs import run_cell
from tacit.reproduce.cells import expand_cells
from tacit.reproduce.graph_study import GraphStudy
from tacit.reproduce.tuning import tuning_cells
from tacit.runs import Config, build_algorithm, build_graph

EXPERIMENTS = sorted(available_experiments())
PAPERS = {name.partition("/")[0] for name in EXPERIMENTS}
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_cells_are_the_product_of_the_axes(tiny):
    cells = expand_cells(read_experiment(tiny))
    assert len(cells) == 2 + 2 * 2 * 2 * 2  # seeds of Free, then methods × ε × calibrations × seeds
    assert len({cell.key for cell in cells}) == len(cells)
    last = cells[-1]
    assert (last.labels, last.calibration, last.seed) == ({"method": "Dyn", "epsilon": "3"}, "guaranteed", 1)
    assert (last.config.privacy.epsilon, last.config.privacy.calibration) == (3.0, "guaranteed")
    assert last.config.algorithm.parameters == {"lr": 0.5, "clip": 0.25}
    assert "clip" not in cells[-5].config.algorithm.parameters  # the conditional settings are for ε = 3 only


def test_key_depends_on_the_whole_config(tiny):
    keys = [cell.key for cell in expand_cells(read_experiment(tiny))]
    assert keys == [cell.key for cell in expand_cells(read_experiment(tiny))]
    tiny.write_text(tiny.read_text().replace("size = 16", "size = 15"))
    assert not set(keys) & {cell.key for cell in expand_cells(read_experiment(tiny))}


def test_tuning_does_not_use_the_test_set(tiny):
    cell = tuning_cells(read_experiment(tiny))[0]
    assert cell.held_out == 200
    assert cell.key != expand_cells(read_experiment(tiny))[0].key
    assert run_cell(cell)["held_out"] == 200


@pytest.mark.parametrize(
    ("options", "batch", "words"),
    [
        ({}, {"size": 8}, 'by their position, which does not fit the relation "add-remove"'),
        ({}, {"size": 8, "relation": "replace-one"}, "the classes were learnt from the records"),
        ({"labels": [0, 1]}, {"size": 8, "relation": "replace-one"}, None),
    ],
)
def test_tuning_on_a_users_file_keeps_neighbours_neighbours(tiny, tmp_path, options, batch, words):
    np.savez(tmp_path / "mine.npz", x=np.random.default_rng(0).normal(size=(500, 3)), y=np.arange(500) % 2)
    cell = tuning_cells(read_experiment(tiny))[0]
    data = {"name": "npz", "path": str(tmp_path / "mine.npz"), **options}
    cell = replace(cell, config=Config.parse({**cell.config.as_dict(), "data": data, "batch": batch}))
    if words is None:
        assert run_cell(cell)["error"] is None
        return
    with pytest.raises(TacitError, match=words):
        run_cell(cell)


@pytest.mark.parametrize(
    ("paper", "names"),
    [
        ("dyn-d2p", ("table1", "table1-middle", "table2", "readings", *(f"figure{k}" for k in range(1, 6)))),
        (
            "partpsp",
            (
                "readings",
                "table2-resnet18",
                "table2-resnet18-middle",
                "table2-vit",
                *(f"figure{k}" for k in range(2, 5)),
                *(f"table{k}" for k in range(2, 5)),
            ),
        ),
        (
            "flagship",
            (
                *("fashion-mnist", "mnist", "dirichlet", "failures", "cifar10", "tables"),
                *("methods", "table-methods", "dirichlet-methods", "low-epsilon-methods", "high-epsilon-methods"),
            ),
        ),
        ("lt-admm-dp", ("data", "figure1", "figure1-data", "table1")),
        (
            "ppgl",
            (
                *(f"table{k}" for k in range(1, 7)),
                "table4-steps",
                "private-statistics",
                "figure3",
                "figure4",
                "figure5",
            ),
        ),
        (
            "dp-norm",
            (
                "noise-in-steps",
                "readings",
                "tuned",
                "figure2-resnet10-middle",
                *(f"figure{k}" for k in range(2, 10)),
                *(f"figure{k}-resnet10" for k in (2, 3, 7, 8, 9)),
            ),
        ),
    ],
)
def test_all_experiments_of_a_paper_exist(paper, names):
    assert {name for name in EXPERIMENTS if name.startswith(f"{paper}/")} == {f"{paper}/{name}" for name in names}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_can_be_built(name):
    experiment = load_experiment(name)
    cells = (
        expand_cells(experiment)
        + expand_cells(experiment.quick_version())
        + (tuning_cells(experiment) if experiment.tune else [])
    )
    if experiment.study == "graphs":
        assert all(isinstance(cell.config, GraphStudy) for cell in cells)
        return
    for config in {cell.key: cell.config for cell in cells}.values():
        assert isinstance(build_algorithm(config.algorithm), Algorithm)
    chosen = {str(cell.config.graph): cell.config.graph for cell in cells}
    for graph in chosen.values():
        assert build_graph(graph).nodes == graph.parameters["nodes"]


@pytest.mark.parametrize("name", ["dyn-d2p/table1", "dyn-d2p/table2"])
def test_published_numbers_are_those_of_the_paper(name):
    published = load_experiment(name).published
    assert all(set(row) == {"0.3", "0.7", "1", "3"} for row in published.values() if isinstance(row, dict))
    assert published["Non-Private"] == {"dyn-d2p/table1": 82.16, "dyn-d2p/table2": 89.98}[name]
    assert published["Dyn-D²P"]["0.3"] == {"dyn-d2p/table1": 71.87, "dyn-d2p/table2": 84.88}[name]
    assert list(published) == list(load_experiment(name).axes["method"])


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if load_experiment(name).published])
def test_every_published_number_has_a_row(name):
    """A misspelt label would silently lose its number."""
    experiment = load_experiment(name)
    seen = {tuple(cell.labels.values()) for cell in expand_cells(experiment)}
    for path in _paths(experiment.published):
        assert any(labels[: len(path)] == path for labels in seen), path


def _paths(numbers, before=()):
    if not isinstance(numbers, dict):
        return [before]
    return [path for label, inner in numbers.items() for path in _paths(inner, (*before, label))]


def test_partpsp_settings_are_those_of_the_paper():
    experiment = load_experiment("partpsp/table2")
    assert experiment.seeds[0] == 2024
    first = [cell for cell in expand_cells(experiment) if cell.seed == 2024]
    cells = {tuple(cell.labels.values()): cell.config for cell in first}
    assert len(cells) == 4 * 4 * 4
    config = cells["PEDFL (adapted)", "NoDP", "8-Out"]
    published = {"noise_rate": 0.0, "sensitivity": "real", "lr": 0.1, "decay": 0.1, "decay_rounds": [240, 540]}
    assert published.items() <= config.algorithm.parameters.items()
    assert (config.rounds, config.seed, config.batch.size, config.batch.sampling) == (720, 2024, 100, "permutation")
    assert config.graph.parameters == {"nodes": 10, "d": 8}
    published = load_experiment("partpsp/table3").published
    assert published["2 layers"] == {
        "2-Out": {"real": 60.53, "estimated": 52.09},
        "EXP": {"real": 61.14, "estimated": 53.99},
    }


@pytest.mark.parametrize("name", ["dyn-d2p/table2", "dp-norm/tuned"])
def test_every_method_has_the_same_number_of_tries_for_every_epsilon(name):
    experiment = load_experiment(name)
    counts = Counter((cell.labels["method"], cell.labels.get("epsilon")) for cell in tuning_cells(experiment))
    assert list(dict.fromkeys(method for method, _ in counts)) == list(experiment.axes["method"])
    assert len(set(counts.values())) == 1


def test_cell_on_digits_learns(tmp_path):
    file = tmp_path / "one.toml"
    file.write_text(
        """title = "Digits"
        chart = { kind = "curves", series = "method" }
        [base]
        rounds = 60
        evaluate_every = 20
        batch = { size = 16 }
        privacy = { epsilon = 3.0, delta = 1e-4 }
        [axes]
        method = { "Dyn" = { algorithm = { name = "dyn-d2p", lr = 1.0 } } }
        """
    )
    claimed, guaranteed = (run_cell(cell) for cell in expand_cells(read_experiment(file)))
    assert guaranteed["accuracy"] > 0.5
    assert 2.9 < guaranteed["privacy"]["guaranteed"] <= 3
    assert claimed["privacy"]["claimed"] == pytest.approx(3, rel=0.01)
    assert [row["round"] for row in claimed["history"]] == list(range(0, 61, 20))


def test_package_includes_every_paper():
    data_files = tomllib.loads(PROJECT.read_text())["tool"]["setuptools"]["data-files"]
    root = PROJECT.parent / "experiments"
    folders = {path.parent.relative_to(PROJECT.parent).as_posix() for path in root.rglob("*.json")}
    assert data_files == {
        "share/tacit/experiments": ["experiments/summary.toml"],
        **{f"share/tacit/experiments/{name}": [f"experiments/{name}/*.toml"] for name in PAPERS},
        **{f"share/tacit/{folder}": [f"{folder}/*.json"] for folder in folders},
    }
