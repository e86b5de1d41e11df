"""The pages in a real browser, wide and narrow, light and dark."""

LINKS = "Array.from(document.querySelectorAll('#network .js-line'), path => path.getAttribute('d')).join()"
TEXT_COLOUR = "getComputedStyle(document.body).color"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
CURVE_COLOUR = "document.querySelector('#accuracy .js-line').style.stroke"
INVALID_PLOTLY = """Object.keys(figures).flatMap(id => {
    const { data, layout } = document.getElementById(id);
    return (Plotly.validate(data, layout) ?? []).filter(e => !["unused", "invisible"].includes(e.code)).map(e => e.msg);
})"""


def test_every_chart_is_drawn(visit, finished):
    page = visit(finished["changing"] / "report.html")
    drawn = {id_: page.locator(f"#{id_} .js-line").count() for id_ in ("accuracy", "loss", "consensus", "bytes")}
    assert drawn == {"accuracy": 1, "loss": 1, "consensus": 1, "bytes": 1}
    assert page.locator("#epsilon .js-line").count() == 2  # guaranteed and claimed
    assert page.locator("#network .point").count() >= 6
    assert page.evaluate(INVALID_PLOTLY) == []


def test_slider_changes_the_links(visit, finished):
    page = visit(finished["changing"] / "report.html")
    page.locator("#graph summary").click()
    pictures = []
    for t in range(3):
        page.locator("#round").fill(str(t))
        page.wait_for_function("t => document.getElementById('round-shown').value == t", arg=str(t))
        pictures.append(page.evaluate(LINKS))
    assert len(set(pictures)) == 3
    page.locator("#round").press("Home")
    assert page.evaluate(LINKS) == pictures[0]


def test_theme_follows_the_system_and_the_button(visit, finished):
    path = finished["changing"] / "report.html"
    dark, light = visit(path, scheme="dark"), visit(path, scheme="light")
    colours = [[page.evaluate(each) for each in (TEXT_COLOUR, BACKGROUND, CURVE_COLOUR)] for page in (dark, light)]
    assert all(a != b for a, b in zip(*colours, strict=True))
    dark.locator("#theme").click()
    assert [dark.evaluate(each) for each in (TEXT_COLOUR, BACKGROUND, CURVE_COLOUR)] == colours[1]


def test_phone_needs_no_horizontal_scrolling(visit, finished, several_runs_page):
    for path in (finished["changing"] / "report.html", several_runs_page):
        page = visit(path, width=390)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        widest = page.evaluate("Math.max(...Array.from(document.querySelectorAll('.chart'), c => c.scrollWidth))")
        assert widest <= 390


def test_page_of_several_runs_has_one_curve_per_run(visit, several_runs_page):
    page = visit(several_runs_page)
    assert page.locator("#comparison tbody tr").count() == 4  # the last is the trivial predictor
    assert page.locator("#accuracy .js-line").count() == 3
    assert page.locator("#epsilon .js-line").count() == 4  # the plain run has no ε
    assert "plain: No guarantee" in page.locator("figure:has(#epsilon)").inner_text()
    assert "markup <b>&" in page.locator("#comparison").inner_text()
    page.locator(".legend button").nth(1).click()
    assert page.locator("#accuracy .js-line").count() == 2
    assert page.evaluate(INVALID_PLOTLY) == []
