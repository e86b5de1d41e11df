"""The experiments of the DP-Norm paper: their quick versions, and the ε of the published settings."""

import json
from pathlib import Path

import pytest

from tacit.reproduce import available_experiments, load_experiment
from tacit.reproduce.cells import expand_cells
from tacit.runs import UserParts, from_config
from tacit.tasks import datasets

pytestmark = pytest.mark.usefixtures("data_folder")


def test_quick_version_has_norms_and_figures_share_their_runs(tacit):
    ended = tacit("reproduce", "dp-norm/figure4", "--quick", "--jobs", "1", "--json")
    assert ended.code == 0, ended.err
    rows = {row["labels"]["method"]: row for row in json.loads(ended.out)["rows"]}
    assert set(rows) == {"DP-Norm", "DP-ADMM", "DP-Norm, α = 0, asynchronous, claimed ε = 1"}
    for row in rows.values():
        curve = (row["paper"] or row["plain"])["curve"]
        assert all(point["primal_norm"] > 0 for point in curve[1:])
        assert all(point["dual_norm"] > 0 for point in curve[1:])
    assert rows["DP-Norm, α = 0, asynchronous, claimed ε = 1"]["plain"]["guaranteed"] is None
    assert rows["DP-Norm"]["paper"]["guaranteed"] < rows["DP-Norm"]["paper"]["claimed"] == pytest.approx(1.0)
    html = Path("runs/reproduce/dp-norm/figure4-quick/report.html").read_text()
    assert "Norm of the dual variables" in html
    again = tacit("reproduce", "dp-norm/figure4", "--quick", "--jobs", "1")
    assert "3 of 3 cells are already finished" in again.err


@pytest.mark.full
def test_resnet_10_runs_in_quick_mode(tacit):
    ended = tacit("reproduce", "dp-norm/figure2-resnet10", "--quick", "--jobs", "1", "--json")
    assert ended.code == 0, ended.err
    rows = json.loads(ended.out)["rows"]
    assert len(rows) == 3
    for row in rows:
        measured = row["guaranteed"]
        assert measured["errors"] == []
        assert 0 < measured["mean"]["accuracy"] <= 100


@pytest.mark.filterwarnings("ignore:privacy.delta = 0.001 is not below")
def test_epsilon_of_the_published_settings():
    expected = {("paper", "1"): (0.64, 1.0), ("paper", "0.5"): (0.305, 0.5), ("guaranteed", "1"): (1.0, 1.52)}
    for cell in expand_cells(load_experiment("dp-norm/figure2")):
        key = cell.calibration, cell.labels.get("epsilon")
        if cell.labels["method"] == "DP-Norm" and key in expected:
            privacy = from_config(cell.config).planned()
            assert (privacy.guaranteed, privacy.claimed) == pytest.approx(expected[key], rel=0.02)


@pytest.mark.filterwarnings("ignore:privacy.delta = 0.001 is not below")
def test_no_published_setting_is_refused():
    """Every cell with the noise of the paper's claim, at full size: μ, L, batches and shards are compatible."""
    names = [name for name in available_experiments() if name.startswith("dp-norm/")]
    all_cells = [cell for name in names for cell in expand_cells(load_experiment(name))]
    cells = {cell.key: cell for cell in all_cells if cell.calibration == "paper" and cell.seed == 0}
    assert len(cells) > 50
    (choice,) = {str(cell.config.data): cell.config.data for cell in cells.values()}.values()
    data = datasets.build(choice.name, choice.parameters)
    for cell in cells.values():
        run = from_config(cell.config, UserParts(data=data))
        privacy = run.algorithm.privacy
        claimed = privacy.claim(privacy.sampling(run.task), run.task.nodes, run.delta, run.rounds)
        assert claimed == pytest.approx(cell.config.privacy.epsilon, rel=1e-3), cell.title


def test_noise_in_the_steps_guarantees_nothing(tacit):
    ended = tacit("reproduce", "dp-norm/noise-in-steps", "--quick", "--jobs", "1", "--json")
    assert ended.code == 0, ended.err
    rows = {row["labels"]["method"]: row["plain"] for row in json.loads(ended.out)["rows"]}
    printed, undone = rows["as printed"], rows["n in the steps, not regularised"]
    assert printed["guaranteed"] < printed["claimed"] == pytest.approx(1.0)
    assert (undone["guaranteed"], undone["claimed"]) == (None, pytest.approx(1.0))
    assert undone["mean"]["primal_norm"] < 0.7 * printed["mean"]["primal_norm"]  # no random walk
    assert 0 < undone["mean"]["node_accuracy"] <= 100
