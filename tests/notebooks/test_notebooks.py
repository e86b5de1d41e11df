"""Every notebook runs in a real kernel, in a quick form: the test overrides the cell that is tagged `parameters`."""

import ast
import re

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.docs.blocks import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))

# For each notebook: its parameters in quick form, the number of figures, and what its output contains.
QUICK = {
    "first_private_run": (
        {"rounds": 4, "epsilons": [1.0, 8.0]},
        1,
        [r"Guaranteed \(simulated\) ε = 2\.99", r"no privacy +0\.\d+", r"'ledger\.sqlite'", r"True"],
    ),
    "comparing_methods": (
        {"rounds": 3, "seeds": 2},
        2,
        [r"dp-sgd +DP-SGD +0\.\d+", r"over 2 seeds", r"small steps", r"\\label\{tab:methods\}"],
    ),
    "table_to_predictions": (
        {"rounds": 8, "patients": 8000},
        1,
        [r"ROC AUC 0\.[6-9]", r"ε = 2\.99", r"P00\d+ .* yes .*0\.\d+", r"'highest 200': '[2-9]\d\.\d%'"],
    ),
    "graph_learning": (
        {"signals": 300, "epsilons": [1.0, 16.0]},
        2,
        [r"EdgeScores\(precision=0\.[89]", r"Guaranteed \(simulated\) ε = 8,", r"\{1\.0: 0\.\d+, 16\.0: 0\.\d+\}"],
    ),
    "privacy_accounting": (
        {"rounds": 4},
        1,
        [r"'adversary': 'an eavesdropper on every link'", r"The claim ε = 1 does not hold", r"16 × ε = 1: .* ε = 4\."],
    ),
}


def parameters(notebook):
    (cell,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    return cell


def execute(path, values, folder):
    """Return the executed notebook. A cell that fails raises `CellExecutionError`, which names it."""
    notebook = jupytext.read(path)
    given = parameters(notebook)
    names = {target.id for node in ast.parse(given.source).body for target in node.targets}
    assert set(values) <= names, "only parameters can be overridden"
    override = nbformat.v4.new_code_cell("\n".join(f"{name} = {value!r}" for name, value in values.items()))
    notebook.cells.insert(notebook.cells.index(given) + 1, override)
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    return client.execute()


def outputs(notebook):
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


@pytest.mark.filterwarnings("default")  # of the client of the kernel; the notebook has its own process
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path, tmp_path):
    values, figures, expected = QUICK[path.stem]
    shown = outputs(execute(path, values, tmp_path))
    text = "\n".join(each.get("text") or each.get("data", {}).get("text/plain", "") for each in shown)
    for pattern in expected:
        assert re.search(pattern, text), f"{pattern} is not in:\n{text}"
    assert sum("image/png" in each.get("data", {}) for each in shown) == figures
    warnings = [each.text for each in shown if each.get("name") == "stderr" and "Warning" in each.text]
    assert warnings == []


@pytest.mark.filterwarnings("default")
def test_a_cell_that_fails_fails_the_test(tmp_path):
    (tmp_path / "wrong.py").write_text('# %% tags=["parameters"]\nn = 1\n\n# %%\nprint(n)\nnumber\n')
    with pytest.raises(CellExecutionError, match="name 'number' is not defined"):
        execute(tmp_path / "wrong.py", {"n": 2}, tmp_path)


def test_every_notebook_has_a_quick_form_and_is_in_the_index():
    index = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")
    names = {path.stem for path in NOTEBOOKS}
    assert set(QUICK) == names
    assert set(re.findall(r"\((\w+)\.py\)", index)) == names


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_starts_with_its_purpose_and_its_time(path):
    first = jupytext.read(path).cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert re.search(r"takes about (a minute|half a minute|\d+ seconds)", first.source.replace("\n", " "))
