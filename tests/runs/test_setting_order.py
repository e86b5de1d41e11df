"""The order of `--set` options never drops a value."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.runs import Config
from tacit.runs.config_file import apply_settings

VALUES = st.one_of(
    st.integers(-9, 9),
    st.booleans(),
    st.sampled_from(["a", "b c"]),
    st.lists(st.integers(0, 9), max_size=3),
    st.lists(st.lists(st.integers(0, 9), max_size=2), max_size=2),
)
SECTIONS = st.sampled_from(["data", "graph", "algorithm", "batch", "privacy"])
KEYS = st.sampled_from(["name", "lr", "columns", "range", "kind"])
PATHS = st.one_of(
    st.just(("rounds",)),
    st.tuples(SECTIONS, KEYS),
    st.tuples(SECTIONS, st.just("columns"), KEYS),
    st.tuples(SECTIONS, st.just("columns"), KEYS, KEYS),
)


@st.composite
def settings_of_one_tree(draw):
    """Paths of which none is the beginning of another, each with a value."""
    paths = draw(st.lists(PATHS, min_size=2, max_size=5, unique=True))
    leaves = [path for path in paths if not any(other != path and other[: len(path)] == path for other in paths)]
    return {path: draw(st.sampled_from(["ring", "csv"])) if path[1:] == ("name",) else draw(VALUES) for path in leaves}


@given(settings_of_one_tree(), st.randoms(use_true_random=False))
def test_every_value_is_kept_in_every_order(tree, random):
    settings = [f"{'.'.join(path)}={json.dumps(value)}" for path, value in tree.items()]
    before = {"data": {"name": "digits", "limit": 9}, "graph": "star", "batch": {"size": 4}}
    expected = apply_settings(before, settings)
    for path, value in tree.items():
        found = expected
        for key in path:
            found = found[key]
        assert found == value
    for _ in range(6):
        random.shuffle(settings)
        assert apply_settings(before, settings) == expected


@pytest.mark.parametrize(
    "settings",
    [
        ["algorithm=sgp", "algorithm.lr=0.1"],
        ["algorithm.name=sgp", "algorithm.lr=0.1", "algorithm={clip = 0.3}"],
        ["data.columns.age.range=[0, 90]", 'data.columns={age = {kind = "number"}}', "data=csv"],
        ["data.columns.age.range=[0, 90]", 'data.columns.age={kind = "number"}', "data.columns="],
        ["privacy.epsilon=2", "privacy={delta = 1e-3}", "privacy.budget=4"],
    ],
    ids=str,
)
def test_whole_sections_come_before_their_keys(settings):
    expected = apply_settings({}, settings)
    for order in itertools.permutations(settings):
        assert apply_settings({}, order) == expected


def test_a_setting_inside_a_table_is_kept():
    for order in itertools.permutations(["data.columns.age.range=[0, 90]", 'data.columns={age = {kind = "number"}}']):
        assert apply_settings({}, order) == {"data": {"columns": {"age": {"kind": "number", "range": [0, 90]}}}}


@pytest.mark.parametrize("order", list(itertools.permutations(["algorithm.lr=0.7", "algorithm=sgp", "rounds=4"])))
def test_a_hyperparameter_before_its_algorithm_is_kept(order):
    config = Config.load(None, order)
    assert (config.algorithm.name, config.algorithm.model_dump()["lr"], config.rounds) == ("sgp", 0.7, 4)
