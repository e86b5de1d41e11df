"""The page of an experiment: the published numbers next to ours, and words for what is missing."""

from dataclasses import replace

import pytest

from tacit.reports.experiment_table import WORDS, difference_sentences, experiment_table, has_noise
from tacit.reproduce import Experiment, ResultRow, SeedSummary
from tests.reports.every_page import page_text

CALIBRATED = Experiment.model_validate(
    {
        "title": "One",
        "axes": {"method": {"A": {}, "B": {}}, "epsilon": {"set": "privacy.epsilon", "values": [1]}},
        "metrics": ["accuracy", "dual_norm"],
        "chart": {"series": "method"},
    }
)
PLAIN = CALIBRATED.model_copy(update={"calibrations": [], "metrics": ["f1", "precision"]})


def summary(guaranteed=1.0, claimed=2.0, reason=None, errors=(), claimed_for="run", **means):
    deviation = dict.fromkeys(means)
    return SeedSummary(means, deviation, 1, guaranteed, claimed, claimed_for, 1e-4, [], list(errors), reason=reason)


def lines(experiment, *rows):
    """The cells of the table by column: `Group: heading` to text."""
    table = experiment_table(experiment, rows)
    groups = [title for title, span in table.groups for _ in range(span)]
    heads = [": ".join(filter(None, each)) for each in zip(groups, table.columns, strict=True)]
    return [dict(zip(heads, [cell.text for cell in line], strict=True)) for line in table.rows], table


def test_published_numbers_stand_next_to_ours_with_differences():
    row = ResultRow(
        {"method": "A", "epsilon": "1"},
        81.5,
        summary(accuracy=80.0, dual_norm=3.0),
        summary(accuracy=82.25, dual_norm=2.0, claimed=0.5),
        None,
    )
    (line,), table = lines(CALIBRATED, row)
    assert line == {
        "method": "A",
        "ε": "1",
        "Published: Accuracy (%)": "81.5",
        "At the claimed ε: Accuracy (%)": "80.00",
        "At the claimed ε: Difference": "−1.50",
        "At the claimed ε: ‖λ‖": "3",
        "At the claimed ε: Guaranteed ε": "1",
        "At the guaranteed ε: Accuracy (%)": "82.25",
        "At the guaranteed ε: Difference": "+0.75",
        "At the guaranteed ε: ‖λ‖": "2",
        "At the guaranteed ε: Claimed ε": "0.5",
    }
    assert table.words == {}
    first, second = difference_sentences(CALIBRATED, [row])
    assert first == (
        "At the claimed ε, ours minus published accuracy (%): −1.50 on average over 1 number, largest −1.50 (A, ε = 1)."
    )
    assert second.startswith("At the guaranteed ε, ours minus published accuracy (%): +0.75 on average")


def test_every_reason_for_a_missing_number_has_its_own_words():
    without_noise = summary(None, None, reason="values leave the nodes without noise", accuracy=90.0, dual_norm=None)
    unproven = summary(None, None, reason="a sensitivity is not proven", accuracy=None, dual_norm=None, errors=["x"])
    published = ResultRow({"method": "A"}, 91.0, None, None, without_noise)
    failed = ResultRow({"method": "B", "epsilon": "1"}, None, unproven, unproven, None)
    (first, second), table = lines(CALIBRATED, published, failed)
    assert first["ε"] == "not applicable"
    assert first["At the claimed ε: ‖λ‖"] == "not measured"
    assert first["At the claimed ε: Guaranteed ε"] == first["At the guaranteed ε: Claimed ε"] == "no noise"
    assert second["Published: Accuracy (%)"] == second["At the claimed ε: Difference"] == "not published"
    assert second["At the claimed ε: Accuracy (%)"] == "failed"
    assert second["At the claimed ε: Guaranteed ε"] == "no guarantee"
    assert second["At the guaranteed ε: Claimed ε"] == "no claim"
    assert set(table.words) == set(WORDS)
    assert has_noise([failed])
    assert not has_noise([published])


def test_metrics_of_plain_experiments_are_grouped():
    measured = summary(f1=0.6, precision=0.5, claimed_for="round", claimed=5000.0)
    row = ResultRow({"method": "A", "epsilon": "1"}, 0.7, None, None, measured, {"precision": 0.5})
    bare = replace(row, published=None, more_published={})
    (line, other), _ = lines(PLAIN, row, bare)
    assert [key for key in line if key.startswith("F1")] == ["F1: Published", "F1: Ours", "F1: Difference"]
    assert (line["F1: Difference"], line["Precision: Difference"]) == ("−0.100", "+0.000")
    assert (line["ε: Claimed"], line["ε: Guaranteed"]) == ("5,000 per round", "1")
    assert other["F1: Published"] == other["Precision: Published"] == "not published"


@pytest.mark.parametrize("kind", ["reproduce-bars", "reproduce-curves", "reproduce-sensitivity", "reproduce-graphs"])
def test_page_has_no_dash_and_no_none_in_place_of_a_number(every_page, kind):
    html = page_text(every_page[kind])
    assert not any(f">{sign}<" in html for sign in ("–", "none", "None", "nan"))
    assert "Tacit 0." in html
    assert " seed" in html
