"""The summary of all papers: verdicts from made-up cells, and claims that fit the experiments."""

import pytest

from tacit.errors import TacitError
from tacit.reproduce import load_experiment
from tacit.reproduce.cells import expand_cells
from tacit.reproduce.kept import kept_rows
from tacit.reproduce.results import result_rows
from tacit.reproduce.summary import Claim, claims_in, read_claims, summary_line, summary_table
from tacit.reproduce.verdicts import Outcome, compare, rows_with
from tests.reproduce.test_kept_pages import cells, keep

CLAIMS = read_claims()
BETTER = {"row": {"method": "Dyn"}, "above": {"method": "Const"}}


def claim(*holds, **more):
    about = {"paper": "Tiny", "item": "Table 1", "where": "page 1", "claim": "Dyn is better", "experiment": "tiny/one"}
    return Claim.model_validate({**about, "holds": list(holds), **more})


def keep_all(accuracies, seeds=2, rounds=None, calibrations=("paper", "guaranteed", None)):
    for cell in cells(seeds=seeds, rounds=rounds):
        if cell.calibration in calibrations and cell.labels["method"] in accuracies:
            keep(cell, accuracies[cell.labels["method"]] + 0.01 * cell.seed)


def verdict_of(line):
    return line[6]


def test_a_claim_without_results_is_not_run(tiny):
    assert verdict_of(summary_line(claim(BETTER))) == "not run: `tacit reproduce tiny/one --keep`"
    reason = Claim(paper="Tiny", item="Figure 1", where="page 2", claim="A drawing", not_run="no numbers")
    assert verdict_of(summary_line(reason)) == "not run: no numbers"


def test_a_claim_that_holds_is_reproduced(tiny):
    keep_all({"Free": 0.9, "Const": 0.5, "Dyn": 0.6})
    shown = {"method": "Dyn", "epsilon": "3"}
    line = summary_line(claim(BETTER, show=shown, link="dyn-d2p.md"))
    assert line[:2] == ("Table 1", "Dyn is better (page 1)")
    assert line[2] == line[3] == "60.50 ± 0.71 %; 2 of 2 hold"
    assert line[4:] == ("2", "6", "reproduced", "[tiny/one](dyn-d2p.md)")
    opposite = {"row": {"method": "Const"}, "above": {"method": "Dyn"}}
    assert verdict_of(summary_line(claim(BETTER, opposite))) == "not reproduced"


def test_the_verdict_differs_between_claimed_and_guaranteed(tiny):
    keep_all({"Free": 0.9, "Const": 0.5, "Dyn": 0.6}, calibrations=("paper", None))
    keep_all({"Const": 0.5, "Dyn": 0.4}, calibrations=("guaranteed",))
    assert verdict_of(summary_line(claim(BETTER))) == "reproduced at the claimed ε, not reproduced at the guaranteed ε"


def test_short_runs_and_single_seeds_are_no_plain_verdict(tiny):
    tiny.write_text(tiny.read_text().replace("[base]", "published_rounds = 6\n\n[base]", 1))
    keep_all({"Free": 0.9, "Const": 0.5, "Dyn": 0.6}, rounds=3)
    assert verdict_of(summary_line(claim(BETTER))) == "not run at the published length (3 of 6 rounds)"
    keep_all({"Free": 0.9, "Const": 0.5, "Dyn": 0.6}, seeds=1)
    assert verdict_of(summary_line(claim(BETTER))) == "reproduced (one seed)"


def test_missing_runs_do_not_confirm_a_claim(tiny):
    keep_all({"Const": 0.5})
    for cell in cells(method="Dyn", epsilon="3"):
        keep(cell, 0.6)
    assert verdict_of(summary_line(claim(BETTER))) == "not run: 1 of 2 comparisons have no runs"


def test_a_difference_within_two_standard_errors_does_not_count(tiny):
    keep_all({"Const": 0.5})
    for cell, gain in zip(cells(method="Dyn", epsilon="3", calibration="paper"), (0.05, -0.02), strict=True):
        keep(cell, 0.5 + 0.01 * cell.seed + gain)
    experiment = load_experiment("tiny/one")
    holds = claim({**BETTER, "row": {"method": "Dyn", "epsilon": "3"}}).holds
    rows = kept_rows("tiny/one", experiment)
    assert compare(experiment, rows, holds, {}, "paper") == Outcome(0, 1, 0)  # 1.5 ± 4.9 points


@pytest.mark.parametrize(
    ("comparison", "holds"),
    [
        ({"row": {"method": "Const", "epsilon": "1"}, "near_published": 1}, True),  # 51 measured, 50.5 published
        ({"row": {"method": "Const", "epsilon": "3"}, "near_published": 1}, False),  # 51 measured, 60.5 published
        ({"row": {"method": "Const", "epsilon": "3"}, "at_least": 50.5}, True),
        ({"row": {"method": "Const", "epsilon": "3"}, "at_least": 52}, False),
        ({"row": {"method": "Const", "epsilon": "3"}, "at_most": 51.5}, True),
        ({"row": {"method": "Const", "epsilon": "3"}, "at_most": 0}, False),
        ({"row": {"method": "Const", "epsilon": "3"}, "below": {"method": "Free"}}, True),
    ],
)
def test_each_kind_of_comparison(tiny, comparison, holds):
    keep_all({"Free": 0.9, "Const": 0.51}, seeds=1)
    found = verdict_of(summary_line(claim(comparison)))
    assert found == ("reproduced (one seed)" if holds else "not reproduced (one seed)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("holds = []\nnot_run = 'x'", "A claim needs comparisons"),
        ("", "A claim needs comparisons"),
        ("holds = [{ row = {} }]", "exactly one of above, below"),
        ("holds = [{ above = {}, at_least = 1 }]", "exactly one of above, below"),
        ("holds = [", "is not valid TOML"),
    ],
)
def test_wrong_claims_are_refused(tmp_path, text, message):
    file = tmp_path / "summary.toml"
    file.write_text(f"[[claim]]\npaper = 'A'\nitem = 'B'\nwhere = 'C'\nclaim = 'D'\n{text}\n")
    with pytest.raises(TacitError, match=message):
        claims_in(file)


def test_every_paper_has_its_tables_and_figures():
    items = {paper: " ".join(each.item for each in CLAIMS if each.paper == paper) for paper in PUBLISHED}
    for paper, expected in PUBLISHED.items():
        assert [name for name in expected if name not in items[paper]] == []
    assert {each.paper for each in CLAIMS} == set(PUBLISHED)


PUBLISHED = {
    "Dyn-D²P": ["Table 1", "Table 2", *(f"Figure {k}" for k in range(1, 6))],
    "PartPSP": ["Table 1", "figure 1", *(f"Figure {k}" for k in (2, 3, 4)), *(f"Table {k}" for k in (2, 3, 4))],
    "LT-ADMM-DP": ["Table I", "Figure 1a", "Figure 1b"],
    "DP-Norm": ["Figure 1, table I", "Table II", *(f"Figure {k}" for k in range(2, 10))],
    "PPGL": [
        "Figures 1, 2, 6, 7",
        *(f"Figure {k}" for k in (3, 4, 5)),
        *(f"Table {k}" for k in ["I", "II", "III", "IV", "V", "VI"]),
    ],
}


@pytest.mark.parametrize(
    "checked", [each for each in CLAIMS if each.holds], ids=lambda each: f"{each.paper} {each.item}"
)
def test_every_comparison_fits_its_experiment(checked):
    """A misspelt label or metric would silently compare nothing."""
    experiment = load_experiment(checked.experiment)
    rows = result_rows(experiment, expand_cells(experiment), {})
    metrics = {each.metric for each in checked.holds if each.metric}
    assert metrics <= set(experiment.metrics)
    for only in (checked.claimed, checked.guaranteed or {}):
        assert not checked.show or list(rows_with(rows, {**checked.show, **only}))
        for each in checked.holds:
            assert compare(experiment, rows, [each], only, "paper").missing > 0, each


def test_the_summary_has_one_line_per_claim():
    lines = [
        line for line in summary_table().splitlines() if line.startswith("| ") and "| published claim |" not in line
    ]
    assert len([line for line in lines if not line.startswith("| ---")]) == len(CLAIMS)
