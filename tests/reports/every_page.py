"""One page of every kind, from short runs."""

import tomllib
from dataclasses import replace
from pathlib import Path

from tacit.audit import OneRunAudit, ProfilePoint, TrialsAudit
from tacit.comparisons import run_comparison
from tacit.graph_learning import GraphLearner, synthetic
from tacit.reports import (
    ReportPage,
    RunRecord,
    SavedAudits,
    comparison_observers,
    render_run_page,
    write_comparison_page,
    write_experiment_page,
    write_graph_page,
    write_sweep_page,
)
from tacit.reports.document_section import document_items
from tacit.reports.template import write_page
from tacit.reproduce import Experiment, ExperimentResults, load_experiment
from tacit.reproduce.cell_runs import run_cell
from tacit.reproduce.cells import expand_cells
from tacit.reproduce.results import result_rows
from tacit.runs import Config, from_config
from tacit.sweeps import sweep
from tests.reproduce.conftest import TINY
from tests.reproduce.test_plain_noise import OVER_DPPS
from tests.sweeps.cases import SMALL

TRIALS = TrialsAudit(
    algorithm="Dyn-D²P",
    lower=2.5196,
    guaranteed=3.0001,
    claimed=2.75,
    delta=1e-4,
    confidence=0.95,
    rounds=4,
    profile=(ProfilePoint(0.1, 0.5, 0.75), ProfilePoint(0.01, 1.25, 1.5)),
    trials=20_000,
    separation=1.0,
)
ONE_RUN = OneRunAudit(
    algorithm="Dyn-D²P",
    lower=0.5,
    guaranteed=2.9,
    claimed=None,
    delta=1e-4,
    confidence=0.9,
    rounds=12,
    node=3,
    canaries=1000,
    guesses=65,
    correct=48,
)
KINDS = (
    "run",
    "directed",
    "no-guarantee",
    "secret",
    "paired",
    "whole-nodes",
    "unproven",
    "audited",
    "document",
    "several",
    "compare",
    "sweep",
    "reproduce-bars",
    "reproduce-curves",
    "reproduce-sensitivity",
    "reproduce-graphs",
    "graphs",
    "graphs-simulated",
    "graphs-without-noise",
)
WITHOUT_BANNER = {"no-guarantee", "secret", "graphs", "graphs-without-noise", "reproduce-graphs"}


def write_every_page(parent, finished, over_dpps, several, base):
    """The pages by kind."""
    audited = replace(RunRecord.read(finished["changing"]), audits=SavedAudits(TRIALS, ONE_RUN))
    document = render_run_page([audited], document=document_items(audited, "A test."))
    pages = {
        "run": finished["changing"] / "report.html",
        "directed": finished["markup <b>&"] / "report.html",
        "no-guarantee": finished["plain"] / "report.html",
        "secret": _secret(parent / "secret", base),
        "paired": _paired(parent / "paired", base),
        "whole-nodes": over_dpps["replacement"] / "report.html",
        "unproven": over_dpps["estimated"] / "report.html",
        "audited": write_page(parent / "audited" / "report.html", render_run_page([audited])),
        "document": write_page(parent / "document" / "report.html", document),
        "several": several,
        "compare": _compare(parent / "compare"),
        "sweep": write_sweep_page(
            sweep(SMALL, {"lr": [0.05, 0.5], "graph": ["ring", "complete"]}, out=parent / "sweep")
        ),
        **_experiments(parent),
        **_graphs(parent / "graphs"),
    }
    assert set(pages) == set(KINDS)
    return pages


def experiment_results(text, out, name="tiny/one", **changes):
    """The results of the quick version of an experiment, given by its name or by the text of its file."""
    found = load_experiment(text) if "\n" not in text else Experiment.model_validate(tomllib.loads(text))
    experiment = found.quick_version().model_copy(update=changes)
    cells = expand_cells(experiment)
    rows = result_rows(experiment, cells, {cell.key: run_cell(cell) for cell in cells})
    return ExperimentResults(name, experiment, True, rows, 0.0, out)


def _secret(folder, base):
    config = {**base, "noise": "secret", "sharding": "digest"}
    return (
        from_config(Config.parse(config), out=folder, observers=[ReportPage()], secret_noise=True).go().out
        / "report.html"
    )


def _paired(folder, base):
    algorithm = {"name": "const-d2p", "lr": 0.5}
    privacy = {"delta": 1e-4, "epsilon": 2.0, "noise": "paired", "colluders": 2}
    config = Config.parse({**base, "algorithm": algorithm, "privacy": privacy})
    return from_config(config, out=folder, observers=[ReportPage()]).go().out / "report.html"


def _compare(folder):
    settings = ["rounds=8", "evaluate_every=2", "graph=ring"]
    methods = ["dyn-d2p", "dp-sgd", "sgp"]
    observers = comparison_observers
    comparison = run_comparison(
        methods, epsilon=3.0, seeds=2, settings=settings, out=folder, observers=observers, progress=False
    )
    return write_comparison_page(comparison)


def _experiments(parent):
    curves = TINY.replace('x = "epsilon"\nseries', 'kind = "curves"\nseries').replace(
        "title", 'metrics = ["accuracy", "dual_norm"]\ntitle', 1
    )
    graphs = load_experiment("ppgl/table1").quick_version()
    axes = {**graphs.axes, "method": {name: graphs.axes["method"][name] for name in ("IGL", "PPGL-C, as published")}}
    made = {
        "reproduce-bars": experiment_results(TINY, parent / "bars"),
        "reproduce-curves": experiment_results(curves, parent / "curves"),
        "reproduce-sensitivity": experiment_results(OVER_DPPS, parent / "sensitivity"),
        "reproduce-graphs": experiment_results("ppgl/table1", parent / "ppgl", "ppgl/table1", axes=axes),
    }
    return {kind: write_experiment_page(results) for kind, results in made.items()}


def _graphs(folder):
    data = synthetic.rbf(vertices=12, clients=4, signals=80, seed=0)
    learners = {
        "graphs": GraphLearner(epsilon=4.0, clip=20.0),
        "graphs-simulated": GraphLearner(epsilon=4.0, clip=20.0, seed=0),
        "graphs-without-noise": GraphLearner("igl"),
    }
    pages = {}
    for kind, learner in learners.items():
        pages[kind] = folder / f"{kind}.html"
        write_graph_page(learner.fit(data.signals), pages[kind], ["one <b>", "two", "three", "four"], None)
    return pages


def page_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
