"""The table of the aims: what is met, what is not, and what was not measured."""

import pytest
from benchmarks.aims import (
    Aim,
    Missing,
    Value,
    against,
    consensus,
    linear_growth,
    lines,
    memory,
    messages,
    per_cell,
    speed_up,
)
from benchmarks.formats import number


def contenders(**seconds):
    return {name.replace("_", "-"): {"seconds": each, "memory": 1024, "base": 512} for name, each in seconds.items()}


def cell(**seconds):
    return {"measured": contenders(**seconds), "spent": 1.0}


@pytest.mark.parametrize(("measured", "met"), [(3.6, True), (3.5, True), (3.4996, False)])
def test_a_ratio_is_met_from_its_limit_on(measured, met):
    aim = Aim("CNN", "≥ 3.5×", 3.5, "2×", lambda cells: Value(measured, "text"))
    assert aim.row({}) == ["CNN", "≥ 3.5×", "2×", "text", "met" if met else "**not met**"]


@pytest.mark.parametrize(("measured", "met"), [(0.3, True), (0.4, True), (0.41, False)])
def test_a_cost_is_met_up_to_its_limit(measured, met):
    aim = Aim("fixed cost", "≤ 0.4 ms", 0.4, "2 ms", lambda cells: Value(measured, "text"), at_most=True)
    assert aim.is_met(Value(measured, "")) is met


def test_the_faster_opacus_counts():
    cells = {"cnn": cell(tacit=1.0, opacus=5.0, opacus_ghost=3.0)}
    value = against("cnn", ("opacus", "opacus-ghost"))(cells)
    assert value.number == pytest.approx(3.0)
    assert value.text == "3.00×"


def test_memory_is_that_of_the_process():
    cells = {"resnet": cell(tacit=1.0, opacus=2.0)}
    assert against("resnet", ("opacus",), memory=True)(cells).text == "2.00× (1.5 GB, Opacus 1.5 GB)"


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({}, "not part of this run"),
        ({"cnn": {"reason": "no memory"}}, "no memory"),
        ({"cnn": cell(tacit=1.0)}, "opacus did not run"),
    ],
)
def test_what_was_not_measured_has_its_reason(cells, reason):
    value = against("cnn", ("opacus",))
    with pytest.raises(Missing, match=reason):
        value(cells)
    assert Aim("CNN", "≥ 1×", 1, "", value).row(cells)[-1] == f"not measured: {reason}"


def test_published_experiments_are_compared_with_the_earlier_source():
    cells = {"convex/dp-norm": {"measured": {**contenders(dp_norm=0.05), "earlier:dp-norm": {"seconds": 0.2}}}}
    cells["convex/dp-norm cells"] = cell(alone=0.06, together=0.02)
    assert speed_up("dp-norm")(cells).number == pytest.approx(4)
    value = per_cell("dp-norm")(cells)
    assert value.number == pytest.approx(10)
    assert "3.00× the same runs" in value.text


def test_without_the_earlier_source_the_figure_of_the_page_before_is_used():
    cells = {"convex/dp-norm": cell(dp_norm=0.076), "convex/dp-sgd": cell(dp_sgd=0.05)}
    assert speed_up("dp-norm")(cells).number == pytest.approx(2)
    with pytest.raises(Missing, match="the earlier source is not available"):
        speed_up("dp-sgd")(cells)


def test_noise_and_mixing_is_compared_with_the_faster_copy():
    seconds = {"laplace-10000x1000": 0.12, "copy+laplace": 0.2, "copy+own": 0.1, "gaussian": 0.1}
    value = consensus({"consensus/10,000 × 1,000": cell(**seconds)})
    assert value.number == pytest.approx(1.2)


def test_growth_is_linear_if_the_time_per_node_is_the_same():
    cells = {
        "large/laplace-10000x100": cell(**{"laplace-10000x100": 0.01}),
        "large/laplace-1000000x100": cell(**{"laplace-1000000x100": 1.1}),
    }
    assert linear_growth((1_000_000, 100), (10_000, 100))(cells).number == pytest.approx(1.1)
    assert memory((1_000_000, 100))(cells) == (1.5, "1.5 GB, 1.10 s per round")


def test_messages_between_sites_are_compared_in_the_same_turn():
    speeds = {"bare TLS": [[100, 1], [200, 1], [400, 1]], "sites": [[90, 1], [100, 1], [400, 1]]}
    assert messages({"networks/sites": {"speeds": speeds}}) == (0.9, "90% (100 MB/s)")


def test_every_aim_has_a_line_without_results():
    assert len(lines({})) > 25
    assert all("not measured" in line for line in lines({})[2:-1])


@pytest.mark.parametrize(
    ("value", "text"), [(123.4, "123"), (12345.0, "12,345"), (9.96, "9.96"), (0.01234, "0.0123"), (0.0, "0")]
)
def test_numbers_have_three_significant_digits(value, text):
    assert number(value) == text
