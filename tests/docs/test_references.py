"""What the documentation names exists."""

import re

import pytest

from tests.docs.blocks import PAGES, ROOT


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_tests_and_pages_that_are_named_are_there(page):
    text = page.read_text(encoding="utf-8")
    for file, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text):
        assert (ROOT / file).is_file(), file
        assert not name or f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{name}"
    for file in re.findall(r"\b((?:examples|notebooks)/[\w/-]+\.\w+)", text):
        assert (ROOT / file).is_file(), file
    assert not re.search(r"^[A-Z]+$", text, re.M), "a place that was left to be filled in"
    assert not re.search(r"^(<<<<<<<|=======|>>>>>>>)", text, re.M), "unresolved merge conflict"
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target


def test_every_pitfall_names_its_test():
    rows = [line for line in (ROOT / "docs/pitfalls.md").read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    mistakes = [row for row in rows if "| Tests |" not in row]
    assert len(mistakes) > 25
    assert all("`tests/" in row.split(" | ")[-1] for row in mistakes)
