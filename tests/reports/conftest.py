"""Quick runs and a browser, shared by all tests of the page."""

import shutil
from pathlib import Path

import pytest

from tacit.reports import PAGE, write_page
from tacit.runs import Config, from_config

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
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The folders of the runs, by name."""
    parent = tmp_path_factory.mktemp("runs")
    return {name: from_config(Config.parse(BASE | own)).keep(parent / name).go().out for name, own in RUNS.items()}


@pytest.fixture(scope="session")
def over_dpps(tmp_path_factory):
    """Runs over DPPS, by the way their sensitivity is known. The estimate's C′ is far too small, so it is violated."""
    parent = tmp_path_factory.mktemp("dpps")
    method = {"name": "partpsp", "share": ["0.weight"], "noise_rate": 0.01, "b": 5.0, "c_prime": 0.1, "lam": 0.1}
    runs = {mode: Config.parse({**OVER_DPPS, "algorithm": {**method, "sensitivity": mode}}) for mode in SENSITIVITIES}
    return {mode: from_config(config).keep(parent / mode).go().out for mode, config in runs.items()}


@pytest.fixture(scope="session")
def comparison(finished, tmp_path_factory) -> Path:
    return write_page(list(finished.values()), tmp_path_factory.mktemp("pages") / PAGE)


@pytest.fixture(scope="session")
def browser():
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium here: the page was not looked at in a browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser):
    """`visit(path, width=…, scheme=…)`; at the end no page may have complained or asked for anything else."""
    pages, trouble = [], []

    def open_(path, *, width=1180, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        pages.append(page)
        page.on("console", lambda message: trouble.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.on("request", lambda request: _note(request.url, path, trouble))
        page.goto(path.as_uri())
        page.wait_for_function(
            "[...document.querySelectorAll('.chart')].every(chart => chart.querySelector('svg.main-svg'))"
        )
        return page

    yield open_
    for page in pages:
        page.close()
    assert trouble == []


def _note(url, path, trouble):
    if url != path.as_uri() and not url.startswith(("data:", "blob:")):
        trouble.append(f"request: {url}")
