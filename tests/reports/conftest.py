"""Short runs that the tests of the pages share."""

from pathlib import Path

import pytest

from tacit.reports import REPORT_FILE, ReportPage, write_run_page
from tacit.runs import Config, from_config
from tests.reports.every_page import write_every_page

BASE = {
    "rounds": 12,
    "evaluate_every": 3,
    "graph": {"name": "one-peer-exponential", "nodes": 6},
    "algorithm": {"name": "dyn-d2p", "lr": 0.5, "noise_multiplier": 2.0},
    "batch": {"size": 16},
    "privacy": {"delta": 1e-4},
}
RUNS = {
    "changing": {},
    "markup <b>&": {"graph": {"name": "ring", "nodes": 5, "directed": True}, "rounds": 6},
    "plain": {"algorithm": {"name": "sgp", "lr": 0.5}},
}
OVER_DPPS = {
    "rounds": 12,
    "evaluate_every": 4,
    "graph": {"name": "d-out", "nodes": 6, "d": 2},
    "batch": {"size": 16},
    "privacy": {"delta": 1e-4},
}
SENSITIVITIES = ("real", "estimated", "certified", "replacement")


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The folders of the runs, by name."""
    parent = tmp_path_factory.mktemp("runs")
    return {
        name: from_config(Config.parse(BASE | own), out=parent / name, observers=[ReportPage()]).go().out
        for name, own in RUNS.items()
    }


@pytest.fixture(scope="session")
def over_dpps(tmp_path_factory):
    """The folders of runs over DPPS, by sensitivity mode. The C′ of the estimate is so small that it is violated."""
    parent = tmp_path_factory.mktemp("dpps")
    method = {"name": "partpsp", "share": ["0.weight"], "noise_rate": 0.01, "b": 5.0, "c_prime": 0.1, "lam": 0.1}
    runs = {mode: Config.parse({**OVER_DPPS, "algorithm": {**method, "sensitivity": mode}}) for mode in SENSITIVITIES}
    return {
        mode: from_config(config, out=parent / mode, observers=[ReportPage()]).go().out for mode, config in runs.items()
    }


@pytest.fixture(scope="session")
def several_runs_page(finished, tmp_path_factory) -> Path:
    return write_run_page(list(finished.values()), tmp_path_factory.mktemp("pages") / REPORT_FILE)


@pytest.fixture(scope="session")
def every_page(finished, over_dpps, several_runs_page, tmp_path_factory):
    """One page of every kind, by the name of the kind."""
    return write_every_page(tmp_path_factory.mktemp("every"), finished, over_dpps, several_runs_page, BASE)
