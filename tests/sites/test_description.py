"""Equal settings give equal descriptions and digests; unequal ones are refused with the first difference."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.runs import Config, from_config
from tacit.sites.description import NetworkDescription, first_difference
from tacit.sites.message import Link, Message, MessageKind
from tacit.sites.wire import decode, encode

SITES = ["site-a", "site-b", "site-c", "site-d"]
RING = {"name": "ring", "nodes": 4}
BASE = {
    "rounds": 5,
    "graph": RING,
    "algorithm": {"name": "dyn-d2p", "lr": 0.5, "noise_multiplier": 1},
    "model": "logistic",
}


def described(sites=SITES, **changes):
    config = Config.parse({**BASE, **changes})
    run = from_config(config)
    data = run.task.data
    return NetworkDescription.of(config, sites, run.network.graph, run.task.model, data.inputs, data.classes)


@pytest.fixture(scope="module")
def mine():
    return described()


def test_equal_settings_give_equal_descriptions(mine):
    again = described(
        algorithm={"lr": 0.5, "clip": 1, "noise_multiplier": 1.0, "name": "dyn-d2p"},
        data={"name": "digits"},
        name="another name",
    )
    assert again.text == mine.text
    assert again.digest == mine.digest
    assert first_difference(mine, again) is None


def test_text_can_be_parsed(mine):
    back = NetworkDescription.parse(mine.text)
    assert back == mine
    assert (back.text, back.digest) == (mine.text, mine.digest)
    assert mine.text.isascii()
    assert json.loads(mine.text)["algorithm"] == {
        "name": "dyn-d2p",
        **{"lr": 0.5, "clip": 1, "clip_per": "record", "rho_c": 2, "rho_mu": 2, "noise_multiplier": 1},
    }
    assert NetworkDescription.parse(json.dumps(json.loads(mine.text), indent=2)).text == mine.text


def test_description_fits_a_hello_message(mine):
    link = Link(mine.digest, "site-a", "site-b")
    hello = decode(encode(Message(link, MessageKind.HELLO, 0, text=mine.text)), link)
    assert NetworkDescription.parse(hello.text).digest == hello.link.network


def test_description_contains_nothing_private(mine):
    """The location of the data, the sharding and the name of the run are not in it."""
    keys = set(json.loads(mine.text))
    assert keys == {
        *("format", "sites", "rounds", "seed", "graph", "links", "algorithm", "model", "parameters"),
        *("inputs", "classes", "batch", "privacy", "measure"),
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rounds": 6}, "rounds is 5 here and 6 there"),
        ({"seed": 1}, "seed is 0 here and 1 there"),
        ({"algorithm": {**BASE["algorithm"], "lr": 0.1}}, "algorithm.lr is 0.5 here and 0.1 there"),
        ({"algorithm": {"name": "sgp", "lr": 0.5}}, "algorithm.clip is 1 here and not set there"),
        ({"graph": {"name": "ring", "nodes": 4, "lazy": True}}, "graph.lazy is false here and true there"),
        ({"graph": {"name": "complete", "nodes": 4}}, "graph.directed is false here and not set there"),
        ({"graph": {**RING, "drop_links": 0.1}}, "graph.drop_links is not set here and 0.1 there"),
        ({"model": {"name": "logistic", "biases": False}}, "model.biases is true here and false there"),
        ({"evaluate_every": 2}, "evaluate_every is not set here and 2 there"),
        ({"batch": {"size": 8}}, "batch.size is 32 here and 8 there"),
        ({"privacy": {"delta": 1e-6}}, "privacy.delta is 1e-05 here and 1e-06 there"),
        ({"sites": ["site-a", "site-b", "site-d", "site-c"]}, 'sites.2 is "site-c" here and "site-d" there'),
    ],
)
def test_first_difference(mine, changes, expected):
    theirs = described(**changes)
    assert first_difference(mine, theirs) == expected
    assert mine.digest != theirs.digest


def test_digests_of_parameters_and_links_are_compared(mine):
    text = json.loads(mine.text)
    for key in ("parameters", "links"):
        theirs = NetworkDescription.parse(json.dumps({**text, key: "0" * 64}))
        assert first_difference(mine, theirs) == f'{key} is "{text[key]}" here and "{"0" * 64}" there'


def test_random_graphs_are_compared_by_their_weights():
    def links(seed):
        return described(graph={**RING, "drop_links": 0.2, "drop_seed": seed}).links

    assert links(1) == links(1) != links(2)


def test_edge_list_file_is_compared_by_contents(tmp_path):
    def at(folder, text):
        path = tmp_path / folder / "links.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        graph = {"name": "edges", "nodes": 4, "path": str(path), "directed": False}
        return described(graph=graph)

    ring = "0 1\n1 2\n2 3\n3 0\n"
    assert at("here", ring) == at("there", ring)
    assert first_difference(at("here", ring), at("there", ring + "0 2\n")).startswith('graph.path is "links.csv (')
    assert str(tmp_path) not in at("here", ring).text


def test_user_algorithm_is_compared_by_its_file(tmp_path):
    own = Path(__file__).parents[1] / "runs" / "own.py"
    copy = tmp_path / "own.py"
    copy.write_text(own.read_text())
    texts = []
    for path in (own, copy):
        config = Config.parse({**BASE, "algorithm": {"name": f"{path}:Mine"}})
        run = from_config(Config.parse(BASE))
        texts.append(NetworkDescription.of(config, SITES, run.network.graph, run.task.model, (1, 8, 8), 10).text)
    assert texts[0] == texts[1]
    assert '"own.py (' in texts[0]


@pytest.mark.parametrize(
    ("sites", "reason"),
    [
        (SITES[:3], "The graph has 4 nodes for 3 sites"),
        (["site-a", "site-b", "site-c", "site-a"], "two sites have the name site-a"),
        (["site-a", "site-b", "site-c", "Site D"], "Invalid site name"),
    ],
)
def test_invalid_sites(sites, reason):
    with pytest.raises(TacitError, match=reason):
        described(sites)


def test_values_without_json_form_are_refused():
    run = from_config(Config.parse(BASE))
    for value in (float("inf"), object()):
        config = Config.parse({**BASE, "algorithm": {"name": "dyn-d2p", "lr": value}})
        with pytest.raises(TacitError, match="finite numbers, strings, lists or tables"):
            NetworkDescription.of(config, SITES, run.network.graph, run.task.model, (1, 8, 8), 10)


WRONG = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def parsed(text):
    """Return a description, or None after checking that the error is one short printable line."""
    try:
        return NetworkDescription.parse(text, "site-b")
    except TacitError as error:
        line = str(error)
    assert line.startswith("site-b")
    assert line.isprintable()
    assert len(line) <= 300
    return None


@given(st.data())
@settings(max_examples=300)
def test_changed_descriptions_differ_or_are_refused(mine, data):
    table = json.loads(mine.text)
    for key in data.draw(st.lists(st.sampled_from([*table, "more"]), min_size=1, max_size=3)):
        table[key] = data.draw(WRONG)
    made = parsed(json.dumps(table))
    if made is not None:
        expected = first_difference(mine, made)
        assert (expected is None) == (made.digest == mine.digest)
        assert expected is None or expected.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", "[" * 100_000, '{"a":' * 50_000, '"' + "x" * 200_000 + '"', "1" * 100_000, "\ud800"),
    ],
)
def test_texts_that_are_not_descriptions(text):
    assert parsed(text) is None


def test_deep_or_large_values(mine):
    table = json.loads(mine.text)
    for value in ("[" * 500 + "]" * 500, "1" * 5000, "1e999", "NaN", '"\\ud800"', '{"a":' * 150 + "1" + "}" * 150):
        text = json.dumps(table).replace('"lr": 0.5', f'"lr": {value}')
        assert text != json.dumps(table)
        made = parsed(text)
        assert made is None or first_difference(mine, made).startswith("algorithm.lr")
