"""Methods side by side: one target, one task, seeds, going on, and what is refused."""

import json
from pathlib import Path

import pytest

from tacit.compare import compare
from tacit.compare.compare import markdown
from tacit.compare.entries import entries
from tacit.errors import TacitError
from tacit.reports import Record

SMALL = ["rounds=6", "graph.nodes=4"]


def test_every_private_method_gets_the_same_guarantee(tmp_path):
    result = compare(
        ["dyn-d2p", "const-d2p", "sgp"], epsilon=2.0, delta=1e-3, seeds=2, settings=SMALL, out=tmp_path / "out"
    )
    dyn, const, sgp = result["methods"]
    assert 1.9 < dyn["guaranteed"] <= 2.0
    assert 1.9 < const["guaranteed"] <= 2.0
    assert sgp["guaranteed"] is None
    assert result["delta"] == 1e-3
    for row in result["methods"]:
        finals = [Record.read(tmp_path / "out" / row["method"] / f"seed-{seed}").result["accuracy"] for seed in (0, 1)]
        mean, deviation = row["accuracy"]
        assert mean == pytest.approx(sum(finals) / 2)
        assert deviation == pytest.approx(abs(finals[0] - finals[1]) / 2**0.5)
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == result
    page = (tmp_path / "out" / "report.html").read_text()
    assert all(row["method"] in page for row in result["methods"])


def test_what_is_there_is_not_run_again_and_what_was_stopped_goes_on(tmp_path, capsys):
    asked = {"epsilon": 2.0, "seeds": 2, "settings": SMALL, "out": tmp_path / "out"}
    first = compare(["dyn-d2p", "const-d2p"], **asked)
    assert len(capsys.readouterr().err.splitlines()) == 4
    stopped = tmp_path / "out" / "const-d2p" / "seed-1"
    (stopped / "result.json").unlink()  # as a run leaves its folder that was killed after its last checkpoint
    assert compare(["dyn-d2p", "const-d2p"], **asked) == first
    there, made = capsys.readouterr().err.splitlines()
    assert there == "3 of 4 runs are already finished"
    assert made.startswith("4/4  const-d2p/seed-1: accuracy")
    with pytest.raises(TacitError, match="other settings"):
        compare(["dyn-d2p", "const-d2p"], **{**asked, "epsilon": 3.0})


def test_processes_give_the_same_numbers(tmp_path):
    asked = {"epsilon": 2.0, "seeds": 1, "settings": SMALL}
    alone = compare(["dyn-d2p", "sgp"], **asked, out=tmp_path / "a", jobs=1)
    together = compare(["dyn-d2p", "sgp"], **asked, out=tmp_path / "b", jobs=2)
    assert alone["methods"] == together["methods"]


def test_a_cost_buys_each_method_its_own_number_of_rounds():
    cheap = ["data=synthetic-logistic", "model=nonconvex-logistic", "graph=ring", "graph.nodes=4"]
    clock = ["network.gradient_time=0.1", "network.link_time=1", "data.records=200", "batch.size=8"]
    made = entries(["lt-admm-dp", "porter", "prisma"], settings=cheap + clock, epsilon=2.0, cost=28.0)
    # Table I: τ t_g + t_c, t_g + 2 t_c and, but for the first round, 2 t_g + t_c.
    assert [entry.config.rounds for entry in made] == [20, 13, 23]


def test_what_epsilons_are_about_is_said(tmp_path):
    asked = {"epsilon": 50.0, "seeds": 1, "settings": SMALL, "out": tmp_path / "out"}
    result = compare(["dyn-d2p", "pedfl"], **asked)
    assert result["note"] == "neighbouring data sets differ (node, replace-one and record, add-remove)"
    text = (tmp_path / "out" / "table.md").read_text()
    assert "| pedfl | PEDFL (adapted) |" in text
    assert "| node, replace-one |" in text
    assert "PEDFL (adapted)" in (tmp_path / "out" / "report.html").read_text()


def test_noise_that_a_config_sets_gives_way_to_the_target(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('rounds = 5\n[algorithm]\nname = "const-d2p"\nnoise_multiplier = 9.0\n[privacy]\ndelta = 1e-3\n')
    mine, other = entries([str(file), "dyn-d2p"], settings=["privacy.epsilon=", "rounds=5"], epsilon=1.5)
    assert mine.label == "mine"
    assert "noise_multiplier" not in mine.config.algorithm.parameters
    assert mine.config.privacy.epsilon == other.config.privacy.epsilon == 1.5
    assert mine.config.privacy.delta == other.config.privacy.delta == 1e-3


def test_other_tasks_are_refused(tmp_path):
    file = tmp_path / "other.toml"
    file.write_text('[model]\nname = "mlp"\n')
    with pytest.raises(TacitError, match="not the same task: their model differ"):
        entries(["dyn-d2p", str(file)], epsilon=2.0)
    with pytest.raises(TacitError, match="two methods or more"):
        entries(["dyn-d2p"], epsilon=2.0)
    with pytest.raises(TacitError, match="rounds cost nothing"):
        entries(["dyn-d2p", "sgp"], settings=SMALL, epsilon=2.0, cost=5.0)


def test_the_table():
    row = {"method": "a", "algorithm": "A", "unit": "record", "relation": "add-remove", "claimed": None}
    row |= {"guaranteed": 1.99999, "accuracy": [0.5, 0.01], "loss": [1.0, 0.1], "stationarity": None}
    row |= {"rounds": 1000, "bytes": 2e6, "cost_seconds": 3.0}
    expected = "| a | A | 2 | – | 50.00 ± 1.00 | 1.000 ± 0.100 | 1,000 | 2 | 3 | record, add-remove |"
    assert markdown([row]).splitlines()[2] == expected


@pytest.mark.parametrize("names", [["nonsense", "sgp"], ["missing.toml", "sgp"]])
def test_unknown_methods(names):
    with pytest.raises(TacitError):
        entries(names, epsilon=1.0)


def test_the_folder_is_made_where_it_is_wanted(tmp_path):
    compare(["sgp", "dyn-d2p"], epsilon=2.0, seeds=1, settings=SMALL, out=tmp_path / "deep" / "er")
    assert Path(tmp_path / "deep/er/table.md").is_file()
