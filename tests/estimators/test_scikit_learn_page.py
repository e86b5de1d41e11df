"""The example of docs/scikit-learn.md runs, and prints what the page shows."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "scikit-learn.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"\d+\.\d+|\d+")


def test_the_example_prints_what_the_page_shows(capsys):
    code, shown = re.search(r"```python\n(.*?)```\n\nIt prints:\n\n```\n(.*?)```", PAGE, re.DOTALL).groups()
    exec(compile(code, "scikit-learn.md", "exec"), {"__name__": "page"})
    printed = capsys.readouterr().out
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
    numbers = [[float(each) for each in NUMBER.findall(text)] for text in (printed, shown)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.03)
