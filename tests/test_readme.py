"""What the README shows must work as it is written."""

import re
import tomllib
from pathlib import Path

import pytest

from tacit.algorithms import algorithms
from tacit.graphs import graphs
from tacit.runs import Config
from tacit.tasks import datasets, models, shards

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_examples_run_and_print_a_guarantee(code, capsys):
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert "Guaranteed (simulated) ε = " in capsys.readouterr().out


def test_the_config_is_valid():
    (text,) = blocks("toml")
    config = Config.parse(tomllib.loads(text))
    assert config.privacy.epsilon == 1.0
    parts = [
        (datasets, config.data),
        (shards, config.sharding),
        (models, config.model),
        (graphs, config.graph),
        (algorithms, config.algorithm),
    ]
    for registry, choice in parts:
        own = {key: value for key, value in choice.parameters.items() if not key.startswith("drop_")}
        registry.check(choice.name, own)


def test_the_two_commands_are_shown():
    makefile = (Path(__file__).parent.parent / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"$ make {target} " in README
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
