"""`tacit init`, `tacit schema` and shell completion."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from tacit.runs import EXAMPLE_CONFIG, Config, config_schema, config_template, resolved_config
from tests.cli.conftest import QUICK

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/config-guide.md").read_text()
CONFIGS = [
    *[tomllib.loads(path.read_text()) for path in sorted((ROOT / "examples").glob("*.toml"))],
    *map(tomllib.loads, re.findall(r"```toml [^\n]*\n(.*?)```", GUIDE, re.DOTALL)),
    EXAMPLE_CONFIG,
    tomllib.loads(config_template("new.toml")),
    {"graph": "ring", "task": "auto", "algorithm": "mine.py:Mine", "batch": {"size": "all"}},
    {"graph": {"nodes": 5, "drop_links": 0.1}, "measure": ["node_accuracy"], "network": {"bandwidth": float("inf")}},
]
WRONG = [
    {"rouns": 5},
    {"rounds": 0},
    {"rounds": "5"},
    {"privacy": {"epsilon": 0}},
    {"privacy": {"delta": 1.0}},
    {"batch": {"size": "some"}},
    {"batch": {"sampling": "random"}},
    {"graph": "rign"},
    {"graph": {"name": "ring", "drop_links": 1}},
    {"model": {"weight_decay": -1}},
    {"algorithm": {"momentum": 1}},
    {"algorithm": {"averaging": "mean"}},
    {"measure": ["luck"]},
    {"noise": "loud"},
]


def test_init_creates_a_config_that_trains_and_does_not_overwrite_it(tacit, tmp_path):
    made = tacit("init", "mine.toml")
    assert (made.code, made.out) == (0, "Created mine.toml. To train: tacit train mine.toml\n")
    text = (tmp_path / "mine.toml").read_text()
    again = tacit("init", "mine.toml")
    assert again.code == 2
    assert "mine.toml already exists: choose another name, or delete it first" in again.err
    assert (tmp_path / "mine.toml").read_text() == text
    trained = tacit("train", "mine.toml", *QUICK)
    assert (trained.code, "runs/mine/report.html" in trained.out) == (0, True)


def test_the_template_is_the_example_with_every_section():
    table = tomllib.loads(config_template("x.toml"))
    config, example = Config.parse(table), Config.parse(EXAMPLE_CONFIG)
    assert resolved_config(config) == resolved_config(example).model_copy(update={"name": None})
    sections = {name for name, value in config.as_dict().items() if isinstance(value, dict)}
    assert sections <= set(table)


def test_every_key_of_the_template_can_be_set():
    """With all defaults and examples in place of comments, the config is that of the same run."""
    text = re.sub(r"^# (\w+ = )", r"\1", config_template("x.toml"), flags=re.MULTILINE)
    table = tomllib.loads(text.replace('noise = "independent"', 'noise = "paired"'))  # some keys are for paired noise
    for section, field in Config.model_fields.items():
        assert section in table, section
        keys = getattr(field.annotation, "model_fields", {})
        assert set(keys) <= set(table[section]) if isinstance(table[section], dict) else not keys
    own = {"name": None, "recipe": None, "device": "cpu", "privacy": Config.parse(table).privacy}  # examples
    expected = resolved_config(Config.parse(EXAMPLE_CONFIG))
    assert resolved_config(Config.parse(table)).model_copy(update=own) == expected.model_copy(update=own)


def test_template_explains_every_key_of_its_own_sections():
    for section in (Config, *(field.annotation for field in Config.model_fields.values())):
        for name, field in getattr(section, "model_fields", {}).items():
            assert field.description, name


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_schema_accepts_configs_that_are_shipped(config):
    jsonschema = pytest.importorskip("jsonschema")
    Config.parse(config)
    jsonschema.Draft202012Validator(config_schema()).validate(config)


@pytest.mark.parametrize("config", WRONG, ids=str)
def test_schema_refuses_wrong_values(config):
    jsonschema = pytest.importorskip("jsonschema")
    assert not jsonschema.Draft202012Validator(config_schema()).is_valid(config)


def test_schema_is_json_with_every_key_and_name(tacit):
    schema = json.loads(tacit("schema").out)
    assert schema == config_schema()
    assert set(schema["properties"]) == set(Config.model_fields)
    assert schema["additionalProperties"] is False
    assert "dyn-d2p" in str(schema["properties"]["algorithm"])
    assert set(schema["$defs"]["PrivacyTarget"]["properties"]) >= {"epsilon", "delta", "budget"}
    assert "null" not in str(schema)


def test_completion_proposes_commands(tacit, monkeypatch):
    monkeypatch.setenv("_TACIT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "tacit d")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert tacit().out.split() == ["doctor"]


def test_completion_can_be_shown(tacit, monkeypatch):
    """What `--show-completion` prints, without its detection of the shell: there may be none."""
    monkeypatch.setenv("_TACIT_COMPLETE", "source_bash")
    shown = tacit()
    assert shown.code == 0
    assert "_TACIT_COMPLETE=complete_bash" in shown.out
