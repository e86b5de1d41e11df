"""Explanations of terms open on hover, on keyboard focus and on touch."""

SHOWN = "[...document.querySelectorAll('.tip')].filter(tip => tip.matches(':popover-open')).map(tip => tip.id)"
INSIDE = """[...document.querySelectorAll('.tip:popover-open')].every(tip => {
    const box = tip.getBoundingClientRect();
    return box.left >= 0 && box.right <= innerWidth && box.top >= 0 && box.bottom <= innerHeight;
})"""


def test_hover_shows_the_explanation_and_leaving_hides_it(visit, finished):
    page = visit(finished["changing"] / "report.html")
    term = page.locator("#privacy .term").first
    term.hover()
    assert page.evaluate(SHOWN) == ["term-guaranteed"]
    assert page.evaluate(INSIDE)
    page.mouse.move(5, 5)
    assert page.evaluate(SHOWN) == []


def test_keyboard_focus_shows_it_and_escape_hides_it(visit, finished):
    page = visit(finished["changing"] / "report.html")
    page.locator("a.verified").focus()
    page.keyboard.press("Tab")  # the theme
    while not page.evaluate("document.activeElement.matches('.term')"):
        page.keyboard.press("Tab")
    assert page.evaluate(SHOWN) == ["term-guaranteed"]
    page.keyboard.press("Tab")
    assert page.evaluate(SHOWN) == ["term-simulated"]
    page.keyboard.press("Escape")
    assert page.evaluate(SHOWN) == []


def test_touch_shows_it_inside_the_screen(browser, finished):
    phone = browser.new_context(has_touch=True, is_mobile=True, viewport={"width": 390, "height": 800})
    page = phone.new_page()
    page.goto((finished["changing"] / "report.html").as_uri())
    for term in page.locator("#privacy .term").all()[:6]:
        term.tap()
        page.wait_for_function(f"({SHOWN}).length === 1")
        page.wait_for_function(INSIDE)
        assert page.evaluate(SHOWN) == [term.get_attribute("popovertarget")]
    assert page.evaluate("getComputedStyle(document.querySelector('.anchor')).opacity") == "1"
    phone.close()
