"""The page of learned graphs in a browser."""

import pytest

from tacit.graph_learning import GraphLearner, synthetic
from tacit.reports import write_graph_page
from tests.reports.test_browser import INVALID_PLOTLY

DATA = synthetic.rbf(vertices=12, clients=4, signals=80, seed=0)
NAMES = ["one <b>", "two", "three", "four"]
PRIVATE = {"epsilon": 4.0, "clip": 20.0, "seed": 0}
LEARNERS = {
    "once": GraphLearner(**PRIVATE),
    "rounds": GraphLearner(**PRIVATE, release="rounds", rounds=9, K=1, beta=0.1, rho=0.1, lam=0.01),
    "gram": GraphLearner(epsilon=4.0, seed=0),
    "igl": GraphLearner("igl"),
    "fedavg": GraphLearner("fedavg"),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, learner in LEARNERS.items():
        write_graph_page(learner.fit(DATA.signals), folder / f"{name}.html", NAMES, None)
    return folder


def count_lines(page, id_, colour):
    """The number of lines of a colour in a picture."""
    find = """([id, name]) => {
        const wanted = document.createElement("i");
        wanted.style.color = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
        document.body.append(wanted);
        const is = getComputedStyle(wanted).color;
        return [...document.querySelectorAll(`#${id} .js-line`)].filter(line => line.style.stroke === is).length;
    }"""
    return page.evaluate(find, [id_, colour])


def test_consensus_and_client_edges_have_two_colours(visit, pages):
    page = visit(pages / "once.html")
    learner = LEARNERS["once"]
    consensus, client = set(learner.to_networkx().edges), set(learner.to_networkx(1).edges)
    assert (count_lines(page, "consensus", "--run-6"), count_lines(page, "consensus", "--run-0")) == (len(consensus), 0)
    assert (count_lines(page, "client-1", "--run-6"), count_lines(page, "client-1", "--run-0")) == (
        len(consensus & client),
        len(client - consensus),
    )
    assert page.locator(".graphs figure").count() == 5
    assert page.locator("#objective .js-line").count() == 1
    assert page.locator("#residual .js-line").count() == 1
    assert page.evaluate(INVALID_PLOTLY) == []
    assert "one <b>" in page.locator("#clients").inner_text()


@pytest.mark.parametrize("name", ["once", "igl", "fedavg"])
def test_page_fits_on_a_phone(visit, pages, name):
    page = visit(pages / f"{name}.html", width=390, scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("#statement summary").click()
    text = page.locator("main").inner_text()
    assert "Not covered" in text
    assert ("no guarantee" in text) == (name != "once")


def test_objective_and_residual_are_hidden_with_noise_in_rounds(visit, pages):
    page = visit(pages / "rounds.html")
    assert page.locator("#objective").count() == page.locator("#residual").count() == 0
    assert page.locator("#change .js-line").count() == 1
    assert "by the paper’s formula" in page.locator(".tile.claimed").inner_text()


def test_the_privacy_statement_is_about_signals(pages):
    text = (pages / "once.html").read_text(encoding="utf-8")
    assert "One signal: its content. The number of signals is not hidden." in text
    assert "The clip bound is public." in text
    gram = (pages / "gram.html").read_text(encoding="utf-8")
    assert "the Gram matrix of its signals" in gram
    assert "The clip bound is public." not in gram
    assert "One record" not in text
