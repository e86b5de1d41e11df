"""Every example runs in a quick form, and its outcome is right."""

import ast
import re
import runpy
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT
from tests.docs.options import wrong_options

EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
SIMULATED = "Guaranteed (simulated) ε = "


@pytest.fixture
def example(tmp_path, monkeypatch):
    """`example("sweep", rounds=3)` calls the `main` of an example in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(name, **arguments):
        return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](**arguments)

    return call


def accuracy(printed):
    return float(re.search(r"accuracy (\d+\.\d) %", printed)[1])


def test_custom_algorithm_learns_with_the_target_epsilon(example, capsys):
    example("custom_algorithm", rounds=30)
    printed = capsys.readouterr().out
    assert accuracy(printed) > 40
    assert f"{SIMULATED}1.99" in printed


def test_custom_algorithm_passes_the_check(tacit):
    ended = tacit("check", f"{EXAMPLES / 'custom_algorithm.py'}:GossipSGD")
    assert ended.code == 0, ended.err
    assert "No value depends on the records other than through releases." in ended.out


def test_custom_algorithm_without_its_release_fails_the_check(tacit, tmp_path):
    text = (EXAMPLES / "custom_algorithm.py").read_text(encoding="utf-8")
    right, wrong = "state.x - self.lr * released)", "state.x - self.lr * exact)"
    first = "        released = self.privacy"
    assert right in text
    assert first in text
    leak = text.replace(first, f"        exact = gradient.value.clone()\n{first}").replace(right, wrong)
    (tmp_path / "leak.py").write_text(leak, encoding="utf-8")
    ended = tacit("check", "leak.py:GossipSGD")
    assert ended.code == 1, ended.out
    assert "No value depends on the records other than through releases." not in ended.out


def test_custom_model_learns(example, capsys):
    example("custom_model", rounds=12)
    printed = capsys.readouterr().out
    assert printed.startswith("2554 parameters")
    assert accuracy(printed) > 15
    assert SIMULATED in printed


def test_custom_model_is_named_in_a_config(tacit):
    ended = tacit(
        *("train", "--set", f"model.name={EXAMPLES / 'custom_model.py'}:residual_network", "--set", "rounds=1"),
        *("--set", "graph.nodes=2", "--set", "model.channels=4", "--out", "run"),
    )
    assert ended.code == 0, ended.err
    assert SIMULATED in ended.out


@pytest.mark.parametrize(("name", "short"), [("frozen_cnn", {"rounds": 2}), ("lora", {"rounds": 1, "public_steps": 1})])
def test_frozen_networks_and_adapters(name, short, example, capsys):
    example(name, **short)
    printed = capsys.readouterr().out
    assert re.search(r"accuracy .*: 0\.\d{3}", printed)
    assert SIMULATED in printed


def test_graphs_are_better_with_a_larger_epsilon(example, capsys):
    f1 = example("graph_learning", signals=400, epsilons=(None, 16.0, 1.0))
    assert f1[None] > f1[16.0] > f1[1.0]
    assert f1[None] > 0.8
    assert f"{SIMULATED}1, " in capsys.readouterr().out


def test_claims_are_judged(example, capsys):
    verdicts = example("claim_check")
    assert [verdict.holds for verdict in verdicts.values()] == [False, True, True, False]
    assert capsys.readouterr().out.count("It would hold with a noise multiplier of ") == 2


def test_the_noise_that_would_justify_a_claim_does(example):
    import tacit

    module = runpy.run_path(str(EXAMPLES / "claim_check.py"))
    claim = dict(module["CLAIMS"]["the same count, released twice"])
    claim["noise_multiplier"] = module["noise_for"](claim)
    assert tacit.claims.check(**claim, delta=module["DELTA"]).holds is True


def test_a_charged_sweep_stays_within_the_target(example, capsys):
    results = example("sweep", rounds=5)
    free, charged = results["not charged"].privacy, results["charged"].privacy
    assert free.guaranteed <= 3.0 < free.total
    assert charged.guaranteed == charged.total <= 3.0
    assert charged.chosen < free.chosen
    assert "covers all 4 runs" in capsys.readouterr().out


def test_a_killed_site_resumes_and_releases_nothing_twice(example, capsys):
    pytest.importorskip("grpc")
    result = example("five_sites", folder=Path("network"), rounds=40, kill_after=1)
    assert result["finished"]
    assert result["killed_in"] is not None
    assert result["releases"] == 40
    assert result["privacy"]["guaranteed"] <= 3.0
    assert "site-3 is verified: True" in capsys.readouterr().out


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_docstring_says_how_to_run_it_and_how_long_it_takes(path):
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    commands = re.findall(r"^    (\S.*?)(?:  +#.*)?$", text, re.M)
    assert any(command.startswith(f"python examples/{path.name}") for command in commands)
    assert re.search(r"#.*\babout \d+ s", text)
    assert len(text.splitlines()[0]) <= 120
    for command in commands:
        assert wrong_options(command) is None, command
        for file in re.findall(r"examples/[\w.-]+", command):
            assert (ROOT / file).exists(), file


def test_the_index_has_every_example():
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    files = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".toml")}
    assert set(re.findall(r"\]\(([\w.-]+)\)", index)) == files
