"""Fixtures for all tests. Property tests draw the same examples every time.

`--hypothesis-profile=explore` draws new examples. `first-failure` stops at the first one that fails (`make mutants`).
"""

import itertools
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import Phase, settings

from tacit.cli import main

settings.register_profile("explore", deadline=None, print_blob=True)
settings.register_profile("steady", settings.get_profile("explore"), derandomize=True)
settings.register_profile("first-failure", settings.get_profile("steady"), phases=(Phase.explicit, Phase.generate))
settings.load_profile("steady")


_STATE_FOLDERS = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory):
    """No test writes to the records ledger in the home folder. Fixtures of a session or module share one folder."""
    folder = tmp_path_factory.mktemp("state")
    before = os.environ.get("TACIT_STATE")
    os.environ["TACIT_STATE"] = str(folder)
    yield folder
    os.environ.pop("TACIT_STATE")
    if before is not None:
        os.environ["TACIT_STATE"] = before


@pytest.fixture(autouse=True)
def own_state_folder(state_folder, monkeypatch):
    """Every test has a records ledger of its own. The folder is created on first use."""
    monkeypatch.setenv("TACIT_STATE", str(state_folder / str(next(_STATE_FOLDERS))))


BESIDE = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def data_folder(monkeypatch):
    """The folder of the published data sets; without it, the test is skipped."""
    found = Path(os.environ.get("TACIT_DATA") or BESIDE)
    if not found.is_dir():
        pytest.skip(f"no data sets: TACIT_DATA is not set and there is no {BESIDE}")
    monkeypatch.setenv("TACIT_DATA", str(found.resolve()))
    return found


class Ended(NamedTuple):
    """Exit code, standard output and standard error of a command that ran in this process."""

    code: int
    out: str
    err: str


@pytest.fixture
def tacit(monkeypatch, capsys, tmp_path):
    """Runs a command in an empty folder: `tacit("train", "--json")`."""
    monkeypatch.chdir(tmp_path)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["tacit", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            main()
        return Ended(end.value.code or 0, *capsys.readouterr())

    return run


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
    """`visit(path, width=…, scheme=…)`; fails at the end if a page logged an error or requested other files."""
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
    own = {path.as_uri(), path.with_name("plotly.min.js").as_uri()}
    if url.split("#")[0] not in own and not url.startswith(("data:", "blob:")):
        trouble.append(f"request: {url}")
