"""The page of a run on paper, on a phone and without its script, in a real browser."""

import shutil

import pytest

from tacit.reports import write_run_pdf

NOT_SHOWN = "The charts of this page are not shown."
OUTSIDE = """[...document.querySelectorAll('.card')].filter(card => card.offsetParent).flatMap(card =>
    [...card.querySelectorAll('.chart svg.main-svg, table')]
        .filter(part => part.getBoundingClientRect().right > card.getBoundingClientRect().right + 1)
        .map(part => part.closest('.chart, .scroll').id || part.className))"""


@pytest.fixture
def page_without_script(browser, finished, tmp_path):
    path = shutil.copy(finished["changing"] / "report.html", tmp_path / "report.html")
    page = browser.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    yield page
    page.close()
    assert errors == []


def test_page_without_its_script_has_all_texts_and_one_sentence(page_without_script):
    page = page_without_script
    assert NOT_SHOWN in page.locator("body").inner_text()
    assert page.locator("svg.main-svg").count() == 0
    page.locator("#nodes summary").click()
    assert page.locator("#nodes tbody tr").count() == 6
    page.locator("#theme").click()  # works without charts


def test_moved_folder_still_draws_its_charts(visit, finished, tmp_path):
    moved = shutil.copytree(finished["changing"], tmp_path / "moved")
    assert NOT_SHOWN not in visit(moved / "report.html").locator("body").inner_text()


def test_paper_is_white_complete_and_not_cut(visit, finished):
    page = visit(finished["changing"] / "report.html", width=690, scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("details:not([open])").count() == 0
    assert page.locator("#nodes tbody tr").first.is_visible()
    assert not page.locator("#theme").is_visible()
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate("getComputedStyle(document.querySelector('figure.card')).breakInside") == "avoid"
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_phone_has_no_overflow_with_all_sections_open(visit, finished):
    page = visit(finished["changing"] / "report.html", width=390)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    page.wait_for_function("document.querySelector('#network svg.main-svg').getBoundingClientRect().width <= 390")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    table = "document.querySelector('#nodes .scroll')"
    assert page.evaluate(f"{table}.scrollWidth > {table}.clientWidth")
    assert "gradient" in page.evaluate(f"getComputedStyle({table}).backgroundImage")


def test_link_to_a_folded_section_opens_it(visit, finished):
    page = visit(finished["changing"] / "report.html")
    assert page.locator("main a.anchor").count() > 10
    assert not page.locator("#verification dl").first.is_visible()
    page.locator("a.verified").click()
    page.locator("#verification dl").first.wait_for(state="visible")


def test_first_page_of_the_document_fits_on_one_sheet(visit, every_page):
    page = visit(every_page["document"], width=688)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    text = page.locator(".document").inner_text()
    for part in ("SIMULATION", "Purpose", "Data", "Method", "Guarantee", "Assumptions", "Identification", "Signature"):
        assert part in text
    height = page.locator(".document").evaluate("part => part.getBoundingClientRect().height")
    assert height <= 1009  # CSS pixels: A4 less its margins


def test_pdf_of_a_run(browser, finished, tmp_path):
    written = write_run_pdf(finished["changing"], tmp_path / "report.pdf", "A test.")
    data = written.read_bytes()
    assert data.startswith(b"%PDF-")
    assert data.count(b"/Type /Page\n") >= 3
    assert list(tmp_path.iterdir()) == [written]
