"""Every kind of page in a real browser: wide and narrow, light and dark, and on paper."""

import itertools

import pytest

from tests.reports.every_page import KINDS, WITHOUT_BANNER, page_text

DESKTOP, PHONE, PORTRAIT, LANDSCAPE = 1280, 390, 688, 1016  # CSS pixels; the last two are A4 less its margins
OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true; })"
NOT_DRAWN = """[...document.querySelectorAll('.chart')].filter(chart => ![...chart.querySelectorAll(
    '.js-line, .points path, .bars path, .hm image, .heatmaplayer image')].some(mark => {
        const box = mark.getBoundingClientRect(); return box.width + box.height > 0; })).map(chart => chart.id)"""
TOO_WIDE = """[...document.querySelectorAll('.chart svg.main-svg, .card, h1, h2, p, dd, pre')]
    .filter(part => part.offsetParent !== null || part.tagName === 'svg')
    .filter(part => !part.closest('.scroll') && part.getBoundingClientRect().right > innerWidth + 1)
    .map(part => part.tagName + ' ' + part.textContent.slice(0, 30))"""
SCROLLS_SILENTLY = """[...document.querySelectorAll('.scroll')].filter(each => each.offsetParent &&
    each.scrollWidth > each.clientWidth + 1 && !getComputedStyle(each, '::before').content.includes('scroll'))
    .map(each => each.ariaLabel)"""
LOW_CONTRAST = """(() => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    canvas.canvas.width = canvas.canvas.height = 1;
    const painted = new Map();  // reading a pixel is slow, and pages have few colours
    const paint = colours => {
        const key = colours.join();
        if (!painted.has(key)) painted.set(key, paintAnew(colours));
        return painted.get(key);
    };
    const paintAnew = colours => {
        canvas.clearRect(0, 0, 1, 1);
        for (const each of colours) { canvas.fillStyle = each; canvas.fillRect(0, 0, 1, 1); }
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(c => c / 255);
    };
    const light = rgb => {
        const [r, g, b] = rgb.map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const backgrounds = part => {
        const found = [];
        for (let each = part; each; each = each.parentElement) found.unshift(getComputedStyle(each).backgroundColor);
        return found;
    };
    const low = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const part = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !part.checkVisibility() || part.closest('script, style')) continue;
        const own = getComputedStyle(part);
        const svg = part.closest('svg');
        const back = backgrounds(svg ? svg.closest('.chart') : part);
        const colour = svg ? own.fill : own.color;
        if (part.closest('.textpoint, .heatmap-label')) continue;  // on a mark, not on the page
        const [a, b] = [light(paint([...back, colour])), light(paint(back))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        const text = walker.currentNode.data.trim().slice(0, 30);
        if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${part.className} ${text}`);
    }
    return [...new Set(low)];
})()"""
CUT_ON_PAPER = """[...document.querySelectorAll('.chart svg.main-svg, table, pre, dd, p')]
    .filter(part => part.checkVisibility())
    .filter(part => part.getBoundingClientRect().right > innerWidth + 1 ||
        (part.tagName === 'PRE' && part.scrollWidth > part.clientWidth + 1))
    .map(part => part.tagName + ' ' + part.textContent.slice(0, 30))"""
MAY_BE_SPLIT = """[...document.querySelectorAll('.chart')]
    .filter(chart => getComputedStyle(chart).breakInside !== 'avoid').map(chart => chart.id)"""
HEADINGS = (
    "[...document.querySelectorAll('h1, h2, h3, h4')].filter(h => h.checkVisibility()).map(h => Number(h.tagName[1]))"
)
UNNAMED = """[...document.querySelectorAll('button, a, input, [role=img], [role=region], [role=group], summary')]
    .filter(each => each.checkVisibility())
    .filter(each => !(each.ariaLabel || each.labels?.length || each.innerText || '').toString().trim())
    .map(each => each.outerHTML.slice(0, 80))"""
DUPLICATE_IDS = """[...document.querySelectorAll('[id]')].map(each => each.id)
    .filter((id, i, all) => id && !document.querySelector(`svg [id="${id}"]`) && all.indexOf(id) !== i)"""


def check(page, width):
    """What every page must satisfy at every width and in every scheme."""
    page.evaluate(OPEN_ALL)
    page.wait_for_function(f"({NOT_DRAWN}).length === 0", timeout=5000)
    page.wait_for_function(f"({TOO_WIDE}).length === 0", timeout=5000)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(SCROLLS_SILENTLY) == []
    assert page.evaluate(LOW_CONTRAST) == []


def in_both_schemes(page, width):
    page.emulate_media(color_scheme="light")
    page.wait_for_function("document.documentElement.dataset.theme === 'light'")
    check(page, width)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    check(page, width)


@pytest.mark.parametrize("kind", KINDS)
def test_page_on_a_desktop(visit, every_page, kind):
    page = visit(every_page[kind], width=DESKTOP, scheme="dark")
    in_both_schemes(page, DESKTOP)
    levels = page.evaluate(HEADINGS)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate(DUPLICATE_IDS) == []
    labels = page.evaluate("[...document.querySelectorAll('.chart')].map(chart => chart.ariaLabel)")
    assert len(labels) == len(set(labels))
    links = page.evaluate("[...document.querySelectorAll('main h2')].map(h => h.querySelector('a.anchor')?.hash)")
    assert [page.evaluate("hash => document.querySelectorAll(hash).length", link) for link in links] == [1] * len(links)


@pytest.mark.parametrize("kind", KINDS)
def test_page_on_a_phone_and_on_paper(visit, every_page, kind):
    page = visit(every_page[kind], width=PHONE, scheme="light")
    in_both_schemes(page, PHONE)
    width = LANDSCAPE if "A4 landscape" in page_text(every_page[kind]) else PORTRAIT
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = false; })")
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.wait_for_function(f"({CUT_ON_PAPER}).length === 0", timeout=5000)
    assert page.evaluate(NOT_DRAWN) == []
    assert page.evaluate(MAY_BE_SPLIT) == []
    assert page.evaluate(LOW_CONTRAST) == []
    assert page.locator("details:not([open])").count() == 0
    assert page.locator("button:visible:not(.term, .legend button)").count() == 0
    assert all(legend.is_visible() for legend in page.locator(".legend button").all())  # it names the curves
    assert page.locator(".simulation").first.is_visible() == (kind not in WITHOUT_BANNER)


@pytest.mark.parametrize("kind", ["run", "compare", "reproduce-bars", "graphs"])
def test_keyboard_focus_is_visible(visit, every_page, kind):
    page = visit(every_page[kind])
    for _ in range(12):
        page.keyboard.press("Tab")
        style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style != "none", page.evaluate("document.activeElement.outerHTML.slice(0, 100)")
