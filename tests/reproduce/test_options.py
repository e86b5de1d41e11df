"""`tacit reproduce` with --seeds, --rounds and --estimate."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tacit.reproduce import estimate, load_experiment
from tacit.reproduce.cells import expand_cells
from tacit.reproduce.estimate import _Trial, cell_kind

RUN = ("reproduce", "tiny/one", "--jobs", "1")
KEPT = Path("experiments/results/tiny")


@pytest.fixture
def small(tiny):
    """The experiment with one private method at one ε, six rounds of sixty published, and one calibration."""
    text = tiny.read_text().replace("values = [1, 3]", "values = [3]").replace("seeds = [0, 1]", "seeds = [0]", 1)
    text = text.replace("[base]", 'calibrations = ["guaranteed"]\npublished_rounds = 60\n\n[base]', 1)
    tiny.write_text(text)
    return tiny


def test_more_seeds_and_fewer_rounds_are_run_and_kept(tacit, small):
    ended = tacit(*RUN, "--seeds", "2", "--rounds", "2", "--keep")
    assert ended.code == 0, ended.err
    assert "Seeds: 2. Rounds: 2 of 60. **Shorter than the published runs.**" in ended.out
    assert "**Shorter" in Path("runs/reproduce/tiny/one-2-rounds/table.md").read_text()
    kept = [json.loads(file.read_text()) for file in KEPT.glob("*.json")]
    assert sorted(result["seed"] for result in kept) == [0, 0, 0, 1, 1, 1]
    assert {(result["rounds"], result["planned_rounds"], result["published_rounds"]) for result in kept} == {(2, 2, 60)}
    assert {result["history"][-1]["round"] for result in kept} == {2}


def test_an_interrupted_experiment_runs_only_what_is_missing(tacit, small, monkeypatch):
    tacit(*RUN, "--rounds", "1", "--keep")
    assert "3 of 6 cells are already finished" in tacit(*RUN, "--rounds", "1", "--seeds", "2", "--keep").err
    monkeypatch.setattr("tacit.reproduce.cell_runs.from_config", None)  # any run would fail
    assert tacit(*RUN, "--rounds", "1", "--seeds", "2", "--keep").code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rounds", "0"), "rounds must be at least 1, got 0"),
        (("--seeds", "0"), "the number of seeds must be at least 1, got 0"),
        (("--quick", "--keep"), "Results of the quick version are not kept"),
        (("--tune", "--rounds", "3"), "--tune does not accept --seeds, --rounds or --estimate"),
    ],
)
def test_wrong_options_are_refused(tacit, small, options, message):
    ended = tacit(*RUN, *options)
    assert ended.code == 2
    assert message in ended.err


def test_an_estimate_measures_and_runs_nothing_to_the_end(tacit, small):
    ended = tacit(*RUN, "--estimate", "--json", "--keep")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert (found["cells"], found["finished"], len(found["kinds"])) == (3, 0, 3)
    assert found["seconds"] == pytest.approx(sum(kind["seconds"] for kind in found["kinds"]), abs=0.1)
    assert all(kind["start"] > 0 and kind["round"] > 0 and kind["evaluation"] >= 0 for kind in found["kinds"])
    assert found["bytes"] > 1e7
    assert not list(KEPT.glob("*.json"))
    assert json.loads((KEPT / "estimates/one.json").read_text()) == found
    text = tacit(*RUN, "--estimate").out
    assert "Estimate: 3 cells, " in text
    assert "0 further cells are finished" in text


def test_an_estimate_grows_with_the_rounds_and_counts_only_what_is_missing(tacit, small):
    small.write_text(small.read_text().replace("\nrounds = 6\n", "\nrounds = 6\nevaluate_every = 6\n"))
    tacit(*RUN, "--keep")
    assert estimate("tiny/one", keep=True)["cells"] == 0
    found = estimate("tiny/one", rounds=6000)
    for kind in found["kinds"]:
        # 6,000 rounds with as many evaluations as 6 rounds: the start, the rounds after the first, one evaluation.
        assert kind["seconds"] == pytest.approx(kind["start"] + 5999 * kind["round"] + kind["evaluation"])


def test_cells_of_one_kind_take_the_same_time(tiny):
    cells = expand_cells(load_experiment("tiny/one"))
    kinds = {cell_kind(cell) for cell in cells}
    assert len(kinds) == 1 + 2 * 2  # Free, then methods × calibrations; not seeds, ε or clipping bounds
    tiny.write_text(tiny.read_text().replace("seeds = [0, 1]", 'seeds = [0, 1]\nseeded = ["sharding.seed"]'))
    assert len({cell_kind(cell) for cell in expand_cells(load_experiment("tiny/one"))}) == 5


def test_cells_of_the_same_config_are_estimated_once(tacit, small):
    copy = '"Copy" = { algorithm = { name = "const-d2p", lr = 0.5 } }'
    small.write_text(small.read_text().replace('"Dyn" =', f'{copy}\n"Dyn" =', 1))
    found = json.loads(tacit(*RUN, "--estimate", "--json").out)
    assert (found["cells"], found["finished"]) == (3, 0)


def test_rounds_and_evaluations_are_told_apart():
    """A start of 5 s, rounds of 1 s, and evaluations of 3 s after rounds 2 and 4."""
    times = iter([0.0, 5.0, 9.0, 10.0, 14.0, 15.0])
    trial = _Trial(lambda: next(times))
    for t in range(1, 5):
        trial.on_round(SimpleNamespace(t=t))
    with pytest.raises(KeyboardInterrupt):
        trial.on_round(SimpleNamespace(t=5))
    assert trial.times == (5.0, 1.0, 3.0)


def test_a_run_of_one_round_has_an_estimate():
    times = iter([0.0, 2.0])
    trial = _Trial(lambda: next(times))
    trial.on_round(SimpleNamespace(t=1))
    assert trial.times == (2.0, 2.0, 0.0)
