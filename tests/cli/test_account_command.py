"""The command `tacit account`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import QUICK, setting


def options(**values):
    return [part for key, value in values.items() for part in (f"--{key.replace('_', '-')}", str(value))]


def answer(ended):
    assert ended.code == 0, ended.err
    assert ended.err == ""
    return json.loads(ended.out)


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta", "exact"),
    [
        (1, 0.01, 1000, 1e-5, 1.8282),
        (0.8, 0.05, 2000, 1e-6, 29.10),
        (4, 1, 100, 1e-5, 13.207),
        (1, 1e-3, 20000, 1e-6, 0.794),
    ],
)
def test_epsilon_agrees_with_known_values(tacit, noise, rate, steps, delta, exact):
    given = options(noise_multiplier=noise, sample_rate=rate, steps=steps, delta=delta)
    privacy = answer(tacit("account", "gaussian", "--json", *given))["privacy"]
    assert exact * 0.999 <= privacy["guaranteed"] <= exact * 1.01
    assert privacy == {
        "claimed": None,
        "guaranteed": privacy["guaranteed"],
        "delta": delta,
        "unit": "record",
        "relation": "add-remove",
        "adversary": "an observer of every release",
        "reason": None,
        "note": None,
        "assumes": None,
        "simulated": False,
        "covers_models": None,
        "runs": 0,
        "total": None,
        "total_reason": None,
        "per_round": None,
        "claimed_for": "run",
    }


def test_laplace_with_and_without_sampling(tacit):
    pure = answer(tacit("account", "laplace", "--json", *options(noise_multiplier=2, steps=3, delta=0)))
    assert pure["privacy"]["guaranteed"] == pytest.approx(1.5)
    mixed = answer(tacit("account", "laplace", "--json", *options(noise_multiplier=2, steps=3, sample_rate=0.1)))
    assert 0 < mixed["privacy"]["guaranteed"] < 0.3


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_noise_for_an_epsilon_gives_that_epsilon(tacit, kind, relation):
    common = options(sample_rate=0.05, steps=200, delta=1e-6, relation=relation)
    solved = answer(tacit("account", kind, "--json", "--epsilon", "1", *common))
    assert 0.98 < solved["privacy"]["guaranteed"] <= 1
    assert solved["privacy"]["relation"] == relation
    back = answer(tacit("account", kind, "--json", *options(noise_multiplier=solved["noise_multiplier"]), *common))
    assert back["privacy"] == solved["privacy"]
    assert "noise_multiplier" not in back


def test_the_epsilon_of_a_config_equals_that_of_its_run(tacit):
    for more in ([], setting("sharding=sizes", "sharding.ratio=3"), setting("privacy.calibration=paper")):
        planned = answer(tacit("account", "--json", *QUICK, *more))
        run = json.loads(tacit("train", "--json", *QUICK, *more).out)
        assert run["privacy"].pop("note").startswith("SIMULATION")
        assert run["privacy"].pop("simulated") is True
        assert planned["privacy"] == run["privacy"] | {"simulated": False, "note": None}
        assert planned["noise_multiplier"] > 0
    assert list(Path().iterdir()) == [Path("runs")]


def test_options_override_the_config(tacit):
    Path("mine.toml").write_text('[algorithm]\nname = "const-d2p"\nnoise_multiplier = 3.0\n')
    given = answer(tacit("account", "mine.toml", "--json", *QUICK, *options(delta=1e-6, relation="replace-one")))
    assert (given["privacy"]["delta"], given["privacy"]["relation"]) == (1e-6, "replace-one")
    assert "noise_multiplier" not in given
    solved = answer(tacit("account", "--json", *QUICK, *options(epsilon=0.5)))
    assert 0.49 < solved["privacy"]["guaranteed"] <= 0.5
    without = answer(tacit("account", "--json", *QUICK, *setting("algorithm=sgp", "privacy.epsilon=")))
    assert without["privacy"]["guaranteed"] is None
    assert without["privacy"]["reason"] == "values leave the nodes without noise"


def test_output_is_two_lines(tacit):
    lines = tacit("account", "gaussian", *options(epsilon=2, delta=1e-6)).out.splitlines()
    assert lines[0].startswith("Guaranteed ε = ")
    assert lines[0].endswith("against an observer of every release")  # not wrapped
    assert lines[1].startswith("Noise multiplier: ")
    assert "of round 0: " in tacit("account", *QUICK).out


def test_negligible_noise_guarantees_nothing(tacit):
    privacy = answer(tacit("account", "gaussian", "--json", *options(noise_multiplier=1e-310)))["privacy"]
    assert privacy["guaranteed"] is None
    assert privacy["reason"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["gausian"], 'unknown mechanism or config "gausian"; did you mean "gaussian"?'),
        (["none.toml"], "cannot read the config none.toml: No such file"),
        (["gaussian"], "Set either the noise multiplier to compute ε, or epsilon"),
        (["gaussian", "--noise-multiplier", "1", "--epsilon", "1"], "Set either the noise multiplier"),
        (["gaussian", "--noise-multiplier", "-1"], "noise_multiplier must be positive, got -1.0"),
        (["gaussian", "--noise-multiplier", "nan"], "noise_multiplier must be positive, got nan"),
        (["gaussian", "--noise-multiplier", "1", "--sample-rate", "1.5"], "sample_rate must be above 0"),
        (["gaussian", "--noise-multiplier", "1", "--steps", "0"], "steps must be at least 1, got 0"),
        (["gaussian", "--noise-multiplier", "1", "--delta", "1"], "delta must be in [0, 1), got 1.0"),
        (["gaussian", "--noise-multiplier", "1", "--delta", "nan"], "delta must be in [0, 1), got nan"),
        (["gaussian", "--epsilon", "0"], "epsilon must be positive and finite, got 0"),
        (["gaussian", "--epsilon", "nan"], "epsilon must be positive and finite, got nan"),
        (["gaussian", "--epsilon", "1", "--set", "rounds=3"], "--set can be used only with a config, not with"),
        (["--steps", "3"], "can be used only with gaussian or laplace"),
        (["--epsilon", "-1"], "privacy.epsilon = -1.0 should be greater than 0"),
        (["--delta", "2"], "privacy.delta = 2.0 should be less than 1"),
    ],
)
def test_invalid_input_is_refused(tacit, args, words):
    ended = tacit("account", *args)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err
    assert ended.err.count("\n") == 1


def test_mechanisms_are_accounted_without_torch():
    code = (
        "import sys; from tacit.cli import main; "
        "sys.argv = ['tacit', 'account', 'gaussian', '--noise-multiplier', '1', '--json']\n"
        "try: main()\nfinally: assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["privacy"]["guaranteed"] > 4
