"""Any text is either a valid config or refused with a `TacitError`."""

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
VALID = {
    **{"name": '"run"', "seed": "3", "rounds": "5", "evaluate_every": "2", "measure": "[]", "data": '"digits"'},
    **{"graph": '{name = "ring", nodes = 4}', "algorithm": '"sgp"', "batch": "{size = 8}", "privacy": "{epsilon = 1}"},
    **{"network": "{link_time = 0.5}", "model": '"mlp"', "sharding": '"iid"'},
}
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


class MemoryFile:
    """Stands for a file, without disk access."""

    name = "memory.toml"

    def __init__(self, text):
        self._data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")

    def read_text(self, encoding):
        return self._data.decode(encoding)

    def __str__(self):
        return "memory.toml"


def attempt(text):
    """Return whether the text is a valid config; if not, check that the error has a message."""
    try:
        config = Config.load(MemoryFile(text))
    except TacitError as error:
        message = str(error)
    else:
        assert isinstance(config, Config)
        return True
    assert message
    return False


def random_text(rng):
    """Valid and nearly valid lines, with random pieces between them."""
    lines = []
    for key in rng.sample(KEYS, rng.randrange(1, 5)):
        odd = rng.choice([*SCALARS, f"[{rng.choice(SCALARS)}]", f"{{name = {rng.choice(SCALARS)}}}"])
        lines.append(f"{key} = {odd if rng.random() < 0.5 else VALID.get(key, odd)}\n")
        if rng.random() < 0.2:
            lines.append(rng.choice(PIECES))
    text = "".join(lines)
    if rng.random() < 0.3:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(string.printable) * rng.randrange(3) + text[at + rng.randrange(4) :]
    return text


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
def test_any_text(text):
    attempt(text)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3).map(tomli_w.dumps))
def test_any_toml(text):
    attempt(text)


@given(st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_nearly_valid_configs(rng):
    attempt(random_text(rng))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x = " + "[" * 5000, id="lists"),
        pytest.param("x = " + "{a=" * 3000, id="tables"),
        pytest.param("rounds = " + "9" * 5000, id="digits"),
        pytest.param("a." * 3000 + "b = 1", id="keys"),
        pytest.param("[" + "a." * 3000 + "b]", id="headers"),
    ],
)
def test_deep_and_long_texts(text):
    attempt(text)


def test_file_that_is_not_text(tmp_path):
    path = tmp_path / "config.toml"
    path.write_bytes(b"rounds = 5 # \xff")
    with pytest.raises(TacitError, match=r"config.toml is not valid TOML"):
        Config.load(path)


@pytest.mark.full
def test_nearly_valid_configs_at_length():
    """200,000 nearly valid configs are accepted or refused with a `TacitError`."""
    rng = random.Random(9)
    accepted = sum(attempt(random_text(rng)) for _ in range(200_000))
    assert 0 < accepted < 200_000
