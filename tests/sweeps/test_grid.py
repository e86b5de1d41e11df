"""Which settings a sweep tries: lists, ranges, random points, names of keys."""

import math

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.runs import Config
from tacit.sweeps.cells import expand_points
from tacit.sweeps.grid import ListAxis, RangeAxis, grid_points, parse_grid
from tacit.sweeps.keys import config_key
from tests.sweeps.cases import SMALL


def test_values_are_parsed_as_settings_are():
    (axis,) = parse_grid(['a=0.5, 2,true,"x, y",ring,[64, 32],all'])
    assert axis == ListAxis("a", (0.5, 2, True, "x, y", "ring", [64, 32], "all"))
    assert parse_grid({"lr": np.array([0.1, 0.1, 0.2])}) == [ListAxis("lr", (0.1, 0.2))]
    assert parse_grid(["path=../a,../b"]) == [ListAxis("path", ("../a", "../b"))]


def test_a_grid_has_every_combination_once():
    points = grid_points(parse_grid(["lr=0.1,0.3", "clip=0.5,1,2"]))
    assert len(points) == len({tuple(point.values()) for point in points}) == 6
    assert points[0] == {"lr": 0.1, "clip": 0.5}


def test_random_points_of_lists_are_different_and_keep_their_order():
    axes = parse_grid(["lr=1,2,3,4,5", "clip=1,2,3,4"])
    few, many = grid_points(axes, random=7, seed=3), grid_points(axes, random=12, seed=3)
    assert len({tuple(point.values()) for point in many}) == 12
    assert many[:7] == few
    assert grid_points(axes, random=7, seed=4) != few
    assert len(grid_points(axes, random=99)) == 20


def test_draws_of_a_range_are_reproducible_and_do_not_depend_on_other_settings():
    one = grid_points(parse_grid(["lr=0.01..1:log", "clip=0.5..2"]), random=8, seed=1)
    other = grid_points(parse_grid(["batch.size=8..64", "lr=0.01..1:log"]), random=12, seed=1)
    assert [point["lr"] for point in one] == [point["lr"] for point in other][:8]
    assert [point["lr"] for point in one] != [point["clip"] for point in one]
    assert all(isinstance(point["batch.size"], int) and 8 <= point["batch.size"] <= 64 for point in other)


def test_ranges_have_the_stated_distribution():
    rng = np.random.default_rng(0)
    log = RangeAxis("lr", 0.01, 1.0, log=True).draw(rng, 4000)
    flat = RangeAxis("lr", 0.01, 1.0).draw(rng, 4000)
    whole = RangeAxis("n", 1, 4).draw(rng, 4000)
    assert min(log + flat) >= 0.01
    assert max(log + flat) <= 1
    assert np.mean(np.log(log)) == pytest.approx(math.log(0.1), abs=0.06)
    assert np.mean(flat) == pytest.approx(0.505, abs=0.015)
    assert np.bincount(whole)[1:] == pytest.approx([1000] * 4, rel=0.12)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ([], "needs one or more settings"),
        (["lr"], "is key=value"),
        (["lr=0.1,,1"], "lr has an empty value"),
        (["lr=0.1", "lr=1"], "lr twice"),
        (["lr=0.1..1"], "lr has a range: add --random"),
        (["lr=1..0.1"], "LOW < HIGH"),
        (["lr=0..1:log"], "LOW above 0, got 0"),
        (["lr=0.1..x"], "LOW..HIGH"),
        (["lr=0.1..1:exp"], "LOW..HIGH:log"),
        ({"lr": 0.1}, "must be a list"),
        ({"lr": []}, "must be a list"),
    ],
)
def test_a_wrong_grid_is_refused(grid, message):
    with pytest.raises(TacitError, match=message):
        grid_points(parse_grid(grid))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("clp", 'unknown setting to sweep "clp"; did you mean "clip"?'),
        ("batch_size", 'did you mean "batch.size"?'),
        ("seed", "use --seeds"),
        ("noise", "same kind of noise"),
        ("privacy.delta", "different δ"),
        ("data.limit", "other records"),
        ("data", "other records"),
    ],
)
def test_a_setting_that_cannot_be_swept_is_refused(name, message):
    with pytest.raises(TacitError) as refused:
        config_key(name, Config.parse(SMALL))
    assert message in str(refused.value)


def test_cells_have_the_settings_and_consecutive_seeds():
    base = Config.parse({**SMALL, "seed": 5})
    points = grid_points(parse_grid({"lr": [0.1], "batch.size": [8, "all"], "graph": ["ring"]}))
    cells = expand_points(base, points, seeds=2)
    assert [cell.config.seed for cell in cells] == [5, 6, 5, 6]
    assert [cell.config.batch.size for cell in cells] == [8, 8, None, None]
    assert cells[0].config.algorithm.parameters == {"lr": 0.1}
    assert cells[0].config.graph.model_dump() == {"name": "ring", "nodes": 4}
    assert Config.parse(cells[2].table) == cells[2].config
    with pytest.raises(TacitError, match=r'\[batch\] in the setting batch.siz 8 "siz"; did you mean "size"'):
        expand_points(base, [{"batch.siz": 8}], seeds=1)
