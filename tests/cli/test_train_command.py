"""The command `tacit train`."""

import json
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from safetensors.torch import load_file

import tacit as package
from tacit.algorithms import algorithms
from tests.cli.conftest import NO_TARGET, QUICK, setting
from tests.helpers import accept_ctrl_c

COMMAND = [str(Path(sys.executable).with_name("tacit")), "train"]
FILES = {"config.toml", "history.csv", "ledger.sqlite", "models.safetensors", "checkpoint.safetensors", "result.json"}
FILES |= {"model.safetensors", "nodes.csv", "graph.json", "threats.json", "report.html", "plotly.min.js"}
PRIVACY = {"claimed", "guaranteed", "delta", "unit", "relation", "adversary", "reason", "note"} | {
    "assumes",
    "per_round",
    "claimed_for",
    "simulated",
    "covers_models",
    "runs",
    "total",
    "total_reason",
}
OWN = Path(__file__).parents[1] / "runs/own.py"


def test_command_without_arguments_runs_the_example(tmp_path):
    done = subprocess.run(COMMAND, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Dyn-D²P, 10 nodes, 200 rounds: accuracy 86.1 % (trivial predictor 10.3 %), loss 0.628",
        "Guaranteed (simulated) ε = 2.994, δ = 0.0001 per record (add or remove one), "
        "against an eavesdropper on every link",
        "SIMULATION: the noise is derived from seed 0, so this run protects nobody.",
        "Results: runs/example. Report: runs/example/report.html",
    ]
    assert "round 200 of 200" in done.stderr
    folder = tmp_path / "runs/example"
    assert {path.name for path in folder.iterdir()} == FILES
    table = pd.read_csv(folder / "history.csv")
    assert {"round", "accuracy", "loss", "consensus", "guaranteed", "claimed", "messages", "bytes"} <= set(table)
    assert table["round"].tolist() == list(range(0, 201, 10))
    assert table["accuracy"].iloc[-1] > 0.8
    assert table["guaranteed"].is_monotonic_increasing
    assert 2.9 < table["guaranteed"].iloc[-1] <= 3
    assert load_file(folder / "models.safetensors")["models"].shape == (10, 650)


def test_one_node_and_one_round_are_singular(tacit):
    arguments = setting("algorithm=dp-sgd", "graph=complete", "graph.nodes=1", "rounds=1", "privacy.epsilon=8")
    ended = tacit("train", *arguments, "--out", "run")
    assert ended.code == 0, ended.err
    assert ", 1 node, 1 round: " in ended.out.splitlines()[0]


def test_verbose_prints_the_whole_privacy_statement(tacit):
    lines = tacit("train", "--verbose", *QUICK).out.splitlines()
    for term in ("Claimed ε: ", "Protected unit: ", "Adversary: An eavesdropper on every link.", "Not covered: "):
        assert any(line.startswith(term) for line in lines), term


def test_json_is_one_object_on_standard_output(tacit):
    ended = tacit("train", "--json", *QUICK)
    result = json.loads(ended.out)
    assert {"accuracy", "loss", "rounds", "bytes", "out", "privacy", "stopped"} <= set(result)
    assert set(result["privacy"]) == PRIVACY
    assert (result["rounds"], result["out"], result["stopped"]) == (6, "runs/example", None)
    assert 2.9 < result["privacy"]["guaranteed"] <= 3
    assert result["privacy"]["delta"] == 1e-4
    assert (result["privacy"]["unit"], result["privacy"]["relation"]) == ("record", "add-remove")
    assert json.loads(Path("runs/example/result.json").read_text()) == result
    assert "round 6 of 6" in ended.err


def test_run_folders_are_numbered_unless_out_names_one(tacit):
    quick = [*QUICK, *NO_TARGET, *setting("algorithm=sgp")]
    assert [tacit("train", *quick).code for _ in range(2)] == [0, 0]
    assert tacit("train", *quick, "--out", "deep/down").code == 0
    assert {path.name for path in Path("runs").iterdir()} == {"example", "example-2"}
    assert {path.name for path in Path("deep/down").iterdir()} == FILES
    ended = tacit("train", *quick, "--out", "deep/down")
    assert ended.code == 2
    assert ended.err == ("error: deep/down is not empty: choose another folder, or resume the run in it\n")


def test_the_config_in_the_run_folder_repeats_the_run(tacit):
    Path("mine.toml").write_text(
        'rounds = 3\nevaluate_every = 1\nalgorithm = "sgp"\ndata = "digits"\n[graph]\nname = "ring"\nnodes = 3\n'
    )
    result = json.loads(tacit("train", "mine.toml", "--json", *setting("graph.nodes=4")).out)
    assert (result["out"], result["nodes"], result["algorithm"]) == ("runs/mine", 4, "SGP")
    assert result["privacy"]["guaranteed"] is None
    assert result["privacy"]["reason"] == "values leave the nodes without noise"
    # The config in the run folder gives the same run again.
    again = json.loads(tacit("train", "runs/mine/config.toml", "--json", "--out", "again").out)
    assert again["loss"] == result["loss"]


@pytest.mark.parametrize("name", list(algorithms))
def test_every_algorithm_runs(tacit, name):
    target = [] if algorithms.noise_parameters(name) else NO_TARGET
    example = [f"algorithm.{key}={json.dumps(value)}" for key, value in algorithms.example(name).items()]
    if any("noise_multiplier=" in each for each in example):
        target = NO_TARGET  # the example sets the noise itself
    chosen = setting(f"algorithm={name}", *example, "graph=ring", "data.normalise=unit")
    ended = tacit("train", "--json", *QUICK, *chosen, *target)
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    assert (result["privacy"]["guaranteed"] is None) == (not algorithms.noise_parameters(name))
    assert tomllib.loads(Path("runs/example/config.toml").read_text())["algorithm"]["name"] == name


def test_dropout_reduces_messages_but_not_epsilon(tacit):
    drops = setting("graph.drop_links=0.5", "graph.drop_nodes=0.2", "graph.drop_seed=3")
    with_, without = (json.loads(tacit("train", "--json", *QUICK, *more).out) for more in (drops, []))
    assert 0 < with_["messages"] < without["messages"]
    assert with_["privacy"] == without["privacy"]


def test_calibration_to_the_claim_guarantees_less(tacit):
    ended = tacit("train", "--json", *QUICK, *setting("privacy.calibration=paper", "privacy.epsilon=1"))
    privacy = json.loads(ended.out)["privacy"]
    assert privacy["claimed"] == pytest.approx(1, rel=1e-6)
    assert privacy["guaranteed"] > 1


def test_a_budget_stops_the_run_with_exit_code_0(tacit):
    spend = [*QUICK, *NO_TARGET, *setting("algorithm.noise_multiplier=2", "privacy.budget=0.3")]
    ended = tacit("train", "--json", *spend)
    result = json.loads(ended.out)
    assert ended.code == 0
    assert 0 < result["rounds"] < 6
    assert result["privacy"]["guaranteed"] <= 0.3
    assert result["stopped"].startswith("The privacy budget ε = 0.3, δ = 0.0001 ends before step ")
    assert tacit("train", *spend).out.startswith("Stopped: The privacy budget ε = 0.3")


def test_an_algorithm_can_be_in_a_user_file(tacit):
    own = [*QUICK, *NO_TARGET, *setting(f"algorithm={OWN}:Leaky", "algorithm.lr=0.5")]
    privacy = json.loads(tacit("train", "--json", *own).out)["privacy"]
    assert privacy["guaranteed"] is None
    assert "not released by a mechanism" in privacy["reason"]
    assert "No privacy is guaranteed" in tacit("train", *own).out


@pytest.mark.filterwarnings("default")
def test_large_delta_is_only_a_warning(tacit):
    ended = tacit("train", "--json", *QUICK, *setting("privacy.delta=0.01"))
    assert ended.code == 0
    assert json.loads(ended.out)["privacy"]["delta"] == 0.01
    assert ended.err.startswith("warning: privacy.delta = 0.01 is not below 1/359")


def test_resuming_a_finished_run_changes_nothing(tacit):
    first = json.loads(tacit("train", "--json", *QUICK).out)
    again = json.loads(tacit("train", "--json", "--resume", "runs/example").out)
    assert again == first


def test_a_run_resumed_after_ctrl_c_equals_an_uninterrupted_run(tacit, tmp_path):
    """Send a real SIGINT at an arbitrary moment. The resumed run must equal an uninterrupted one."""
    long = [*setting("rounds=300", "evaluate_every=20", "graph.nodes=3", "algorithm.noise_multiplier=2"), *NO_TARGET]
    errors = tmp_path / "errors"
    with errors.open("w") as file:
        command = [*COMMAND, "--json", "--out", "run", *long]
        pipes = {"stdout": subprocess.PIPE, "stderr": file, "text": True}
        child = subprocess.Popen(command, cwd=tmp_path, preexec_fn=accept_ctrl_c, **pipes)
        until = time.monotonic() + 60
        while time.monotonic() < until and "round 40 of 300" not in errors.read_text():
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert child.returncode == 130, errors.read_text()
    assert "Traceback" not in errors.read_text()
    stopped = json.loads(out)
    assert 40 <= stopped["rounds"] < 300
    assert stopped["stopped"] == f"stopped by hand after {stopped['rounds']} of 300 rounds"
    resumed = json.loads(tacit("train", "--json", "--resume", "run").out)
    whole = json.loads(tacit("train", "--json", "--out", "whole", *long).out)
    differing = {"out", "seconds"}
    assert {k: v for k, v in resumed.items() if k not in differing} == {
        k: v for k, v in whole.items() if k not in differing
    }
    tables = [pd.read_csv(tmp_path / name / "history.csv").drop(columns="wall_seconds") for name in ("run", "whole")]
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    assert (tmp_path / "run/models.safetensors").read_bytes() == (tmp_path / "whole/models.safetensors").read_bytes()


def test_the_docstring_of_train_states_how_to_run_the_example(tacit):
    example = json.loads(tacit("train", "--json", *setting("rounds=5")).out)
    same = package.train(lr=0.5, delta=1e-4, rounds=5)
    assert "`train(lr=0.5, delta=1e-4)`" in package.train.__doc__
    assert same.result()["accuracy"] == example["accuracy"]
    assert same.privacy.guaranteed == example["privacy"]["guaranteed"]


def test_epsilon_and_delta_are_options(tacit):
    asked = json.loads(tacit("train", *QUICK, "--epsilon", "2", "--delta", "1e-3", "--json").out)
    assert 1.9 < asked["privacy"]["guaranteed"] <= 2.0
    assert asked["privacy"]["delta"] == 1e-3
