"""The documentation site: it builds without a warning, and what it shows is what the code says."""

import importlib
import inspect
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
import typer

import tacit
from tacit.cli.app import app
from tacit.reference import REGISTRIES, config_sections, part_keys, section_keys
from tacit.sites import NetworkConfig, SiteConfig

ROOT = Path(__file__).parents[1]
pytest.importorskip("mkdocs", reason="the site needs the extra docs")


class Page(HTMLParser):
    """What a built page loads, where it links to, its anchors and its headings."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.ids, self.headings = [], [], set(), []
        self._tag = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") != "canonical":
            self.loads.append(given.get("href"))
        elif given.get("src"):
            self.loads.append(given["src"])
        self._tag = tag

    def handle_data(self, data):
        if self._tag == "h1" and data.strip():
            self.headings.append(data.strip())


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built in a process of its own, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_page_has_one_heading_and_loads_nothing_from_elsewhere(site, pages):
    assert {site / name for name in ("index.html", "limitations.html", "reference/support.html")} <= set(pages)
    sources = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert {site / path for path in sources} <= set(pages)
    for path, page in pages.items():
        outside = [target for target in page.loads if urlsplit(target).scheme not in ("", "data")]
        assert not outside, (path.name, outside)
        assert all((path.parent / unquote(urlsplit(target).path)).exists() for target in page.loads if target[0] != "/")
        assert path.name == "404.html" or page.headings, path.name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:", style.read_text(encoding="utf-8")), style.name


def test_links_and_anchors_lead_somewhere(site, pages):
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are absolute
        for link in page.links:
            target, anchor = urldefrag(link)
            if urlsplit(link).scheme or link == "#":
                continue
            place = (path.parent / unquote(target)).resolve() if target else path
            assert place.exists(), (path.name, link)
            if anchor and place in pages:
                assert unquote(anchor) in pages[place].ids, (path.name, link)


def test_the_reference_names_every_command_key_and_public_name(pages, site):
    commands = typer.main.get_command(app).commands
    cli, config, python = (site / "reference" / name for name in ("cli.html", "config.html", "python.html"))
    assert {f"tacit-{name}" for name in commands if name != "network"} <= pages[cli].ids
    assert "--secret-noise" in cli.read_text(encoding="utf-8")
    parts = {name for registry in REGISTRIES.values() for name in registry}
    assert parts | {"privacy", "batch"} <= pages[config].ids
    assert "population_budget" in config.read_text(encoding="utf-8").replace("&#95;", "_")
    callables = {
        name
        for name in tacit.__all__
        if inspect.isclass(getattr(tacit, name)) or inspect.isfunction(getattr(tacit, name))
    }
    assert {f"tacit.{name}" for name in callables} <= pages[python].ids


def test_every_key_of_a_config_has_a_type_and_a_description():
    keys = {("config", key.name): key for keys in config_sections().values() for key in keys}
    keys |= {("network.toml", key.name): key for key in section_keys(NetworkConfig)}
    keys |= {("node.toml", key.name): key for key in section_keys(SiteConfig)}
    for registry in REGISTRIES.values():
        keys |= {(name, key.name): key for name in registry for key in part_keys(registry, name)}
    assert len(keys) > 200
    assert not [place for place, key in keys.items() if not key.description or not key.kind]


def proofs():
    rows = [line for line in (ROOT / "docs/proofs.md").read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    return [row.strip("| ").split(" | ") for row in rows if not row.startswith("| statement")]


def test_every_proof_names_its_docstring_module_and_tests():
    assert len(proofs()) > 35
    for statement, proof, module, tests in proofs():
        assert (ROOT / module.strip("`")).is_file(), statement
        named = re.findall(r"docstring of `([\w.]+)`", proof)
        assert named or re.search(r"\]\([\w/-]+\.md#[\w-]+\)", proof), f"no proof is named: {statement}"
        for name in named:
            found = _object(name)
            assert inspect.getdoc(found), name
            file = found.__file__ if inspect.ismodule(found) else inspect.getsourcefile(found)
            assert Path(file).resolve() == (ROOT / module.strip("`")).resolve(), statement
        for file, function in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests):
            assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), function
        assert "`tests/" in tests, statement


def _object(name):
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for part in parts[k:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


def test_every_limitation_says_what_who_how_bad_and_what_to_do():
    text = (ROOT / "docs/limitations.md").read_text(encoding="utf-8")
    risks = re.split(r"^### |^## Platform$", text, flags=re.MULTILINE)[1:]
    assert len(risks) > 20
    for risk in risks:
        found = re.findall(r"^- \*\*([^*]+)\.\*\*", risk, re.MULTILINE)
        assert found == ["What", "Who is affected", "How bad", "What to do"], risk.splitlines()[0]


def test_no_address_of_the_project_is_invented():
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert not re.search(r"^(repo_url|site_url|edit_uri):", settings, re.MULTILINE)
    assert "font: false" in settings


def test_search_works_in_a_page_that_is_opened_as_a_file(site, browser):
    page, problems = browser.new_page(viewport={"width": 390, "height": 844}), []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.extend([request.url] if request.url.startswith("http") else []))
    page.goto((site / "reference/support.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.click("[data-md-component=search-query]")
    page.keyboard.type("permutation")
    page.wait_for_selector(".md-search-result__link[href*='reference/']", state="attached", timeout=60_000)
    page.close()
    assert problems == []
