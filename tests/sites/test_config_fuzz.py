"""A config may be any text: it is a run, or refused with a sentence."""

import random
import string

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.runs import Config

KEYS = [
    *Config.model_fields,
    *("size", "epsilon", "delta", "lr", "nodes", "name", "gradient_time", "sampling", "rouns"),
]
SCALARS = ["1", "-1", "0.5", "inf", "nan", "true", '"ring"', "''", "1979-05-27", "07:32:00", "9" * 30, "0x1F", "1e400"]
PIECES = [
    *(
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        "=",
        ",",
        ".",
        "\n",
        '"',
        '"""',
        "'''",
        "#",
        "\\",
        "\\u00e9",
        "\\ud800",
        "\0",
        "é",
    ),
    *(
        "[graph]\n",
        "[algorithm]\n",
        "[batch]\n",
        "[privacy]\n",
        "[a.b.c]\n",
        "[[graph]]\n",
        "measure = ['stationarity']\n",
    ),
]


def attempt(path, text):
    """Whether the text is a config; if not, that it is told in a sentence."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    try:
        config = Config.load(path)
    except TacitError as error:
        said = str(error)
    else:
        assert isinstance(config, Config)
        return True
    assert said
    return False


def random_text(rng):
    """Lines that are nearly right, with pieces thrown in."""
    lines = []
    for _ in range(rng.randrange(1, 6)):
        value = rng.choice([*SCALARS, f"[{rng.choice(SCALARS)}]", f"{{name = {rng.choice(SCALARS)}}}"])
        lines.append(f"{rng.choice(KEYS)} = {value}\n")
        if rng.random() < 0.4:
            lines.append(rng.choice(PIECES))
    text = "".join(lines)
    if rng.random() < 0.3:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(string.printable) * rng.randrange(3) + text[at + rng.randrange(4) :]
    return text


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "config.toml"


VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.datetimes() | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=2),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), VALUES, max_size=3))
def test_any_table(table):
    try:
        Config.parse(table)
    except TacitError as error:
        assert str(error)  # noqa: PT017


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text(path, text):
    attempt(path, text)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3).map(tomli_w.dumps))
def test_any_toml(path, text):
    attempt(path, text)


@given(st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_configs_gone_wrong(path, rng):
    attempt(path, random_text(rng))


_UNTOLD = pytest.mark.xfail(raises=(RecursionError, ValueError), strict=True, reason="runs/config.py lets them through")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x = " + "[" * 5000, marks=_UNTOLD, id="lists"),
        pytest.param("x = " + "{a=" * 3000, marks=_UNTOLD, id="tables"),
        pytest.param("rounds = " + "9" * 5000, marks=_UNTOLD, id="digits"),
        pytest.param("a." * 3000 + "b = 1", id="keys"),
        pytest.param("[" + "a." * 3000 + "b]", id="headers"),
    ],
)
def test_deep_and_long(path, text):
    attempt(path, text)


@pytest.mark.full
def test_fuzz_at_length(path):
    """200,000 configs gone wrong: a run or a sentence, every one."""
    rng = random.Random(9)
    taken = sum(attempt(path, random_text(rng)) for _ in range(200_000))
    assert 0 < taken < 200_000
