"""The examples in the documentation of results run."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def test_the_examples_of_results_run(tmp_path, monkeypatch, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for code in blocks("results.md"):
        code = code.replace("rounds=40", "rounds=4").replace("seeds=3", "seeds=2")  # the same in less time
        exec(compile(code, "results.md", "exec"), names)
    pyplot.close("all")
    printed = capsys.readouterr().out
    assert "Guaranteed (simulated) ε = " in printed
    assert "\\label{tab:methods}" in printed
    written = {"table.tex", "run.pdf", "comparison.pdf", "runs/compare/report.html", "runs/compare/table.md"}
    assert all((tmp_path / name).stat().st_size > 0 for name in written)


def test_the_example_of_trackers_runs(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("trackers.md")
    exec(compile(code, "trackers.md", "exec"), {"__name__": "page"})
    assert list((tmp_path / "runs/tensorboard").glob("events.out.tfevents.*"))


def test_the_example_of_regression_runs(capsys):
    (code,) = [code for code in blocks("data.md") if 'Target("number"' in code]
    names = {"__name__": "page"}
    exec(compile(code, "data.md", "exec"), names)
    assert names["run"].task.data.target.range == (0, 2)
    assert names["run"].privacy.guaranteed <= 2.0
    assert capsys.readouterr().out.strip()
