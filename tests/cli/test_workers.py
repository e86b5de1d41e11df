"""`tacit train --workers`: several processes give the same run as one, also if they are killed and resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from tacit.errors import TacitError
from tacit.privacy import Ledger, read_ledger
from tacit.reports import RunRecord
from tacit.runs import load
from tests.cli.conftest import NO_TARGET, QUICK, setting
from tests.helpers import accept_ctrl_c

COMMAND = [str(Path(sys.executable).with_name("tacit")), "train", "--json"]
LONG = [
    *setting("rounds=120", "evaluate_every=20", "graph.nodes=5", "graph.drop_links=0.2"),
    *setting("sharding={name='sizes',ratio=4.0}", "algorithm.noise_multiplier=2", *NO_TARGET[1:]),
]


def run(*args, folder, meanwhile=lambda process, errors: None):
    """Run the command while `meanwhile` acts on it; return exit code, standard output and standard error."""
    errors = folder / "errors"
    with errors.open("w") as file:
        pipes = {"stdout": subprocess.PIPE, "stderr": file, "text": True}
        process = subprocess.Popen([*COMMAND, *args], cwd=folder, preexec_fn=accept_ctrl_c, **pipes)
        meanwhile(process, errors)
        out, _ = process.communicate(timeout=300)
    assert "Traceback" not in errors.read_text()
    return process.returncode, out, errors.read_text()


def wait_for(line, errors):
    until = time.monotonic() + 120
    while time.monotonic() < until and line not in errors.read_text():
        time.sleep(0.01)


def kill_rank_1(process, errors):
    wait_for("round 20 of 120", errors)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (pid,) = [int(pid) for pid in children if b"\0RANK=1\0" in Path(f"/proc/{pid}/environ").read_bytes()]
    os.kill(pid, signal.SIGKILL)


def ctrl_c(process, errors):
    wait_for("round 60 of 120", errors)
    process.send_signal(signal.SIGINT)


def test_killed_interrupted_and_resumed_workers_equal_one_process(tacit, tmp_path):
    code, out, errors = run("--workers", "2", "--out", "run", *LONG, folder=tmp_path, meanwhile=kill_rank_1)
    assert (code, out) == (2, "")
    why = "another process of the cluster has ended, or did not answer within 300 seconds"
    assert errors.splitlines()[-1] == f"error: {why}"
    assert not (tmp_path / "run/result.json").exists()

    code, out, errors = run("--workers", "2", "--resume", "run", folder=tmp_path, meanwhile=ctrl_c)
    assert code == 130, errors
    stopped = json.loads(out)
    assert 60 <= stopped["rounds"] < 120
    assert stopped["stopped"] == f"stopped by hand after {stopped['rounds']} of 120 rounds"
    refused = tacit("train", "--resume", "run")
    assert (refused.code, refused.err) == (2, "error: run was written by 2 processes: resume it with --workers 2\n")

    code, out, errors = run("--workers", "2", "--resume", "run", folder=tmp_path)
    assert code == 0, errors
    whole = json.loads(tacit("train", "--json", "--out", "whole", *LONG).out)
    result = json.loads(out)
    for name in ("messages", "bytes", "rounds", "nodes", "privacy", "stopped"):
        assert result[name] == whole[name]
    parts, one = [tmp_path / "run", tmp_path / "run/rank-1"], tmp_path / "whole"
    models = torch.cat([load_file(part / "models.safetensors")["models"] for part in parts])
    assert torch.allclose(models, load_file(one / "models.safetensors")["models"], rtol=0, atol=1e-6)
    for name in ("history.csv", "nodes.csv"):
        tables = [
            pd.read_csv(folder / name).drop(columns="wall_seconds", errors="ignore") for folder in (parts[0], one)
        ]
        pd.testing.assert_frame_equal(*tables, rtol=1e-6, atol=1e-6)
    ledgers = [list(Ledger(part / "ledger.sqlite").releases()) for part in (*parts, one)]
    assert [len(lines) for lines in ledgers] == [120] * 3
    for first, second, both in zip(*ledgers, strict=True):
        assert [*first.rates, *second.rates] == both.rates.tolist()
        assert [*first.multipliers, *second.multipliers] == both.multipliers.tolist()
    pages = [RunRecord.read(folder) for folder in (parts[0], one)]
    assert pages[0].releases == pages[1].releases  # from the ledgers of all ranks
    assert (parts[0] / "report.html").is_file()
    check_model(parts[0], one)
    check_verification(tacit, tmp_path)


def check_model(folder, whole):
    """The leader writes the mean of all nodes; the models of the others' nodes are in their folders."""
    assert not (folder / "rank-1/model.safetensors").exists()
    x = torch.rand(3, 1, 8, 8)
    for node in (None, 0, 4):
        found, expected = (load(each).trained(node) for each in (folder, whole))
        assert torch.allclose(found.module(x), expected.module(x), atol=1e-5)
        assert found.description == expected.description
    with pytest.raises(TacitError, match="has no model of node 5; it has the nodes 0 to 2, 3 to 4"):
        load(folder).model(5)


def check_verification(tacit, folder):
    ended = tacit("verify", "run")
    assert (ended.code, "120 releases of 5 nodes" in ended.out) == (0, True), ended.out
    ledger = folder / "run/rank-1/ledger.sqlite"
    ledger.rename(folder / "aside")
    ended = tacit("verify", "run")
    assert ended.code == 1
    assert "1 of 2 ledgers are here: those of all processes are needed" in ended.out
    (folder / "aside").rename(ledger)
    models = folder / "run/rank-1/models.safetensors"
    models.write_bytes(models.read_bytes()[:-1] + b"x")
    assert "rank-1/models.safetensors was changed after the run had ended" in tacit("verify", "run").out


def test_workers_add_the_same_paired_noise_as_one_process(tacit, tmp_path):
    """The nodes of a pair may be in different processes: both ends draw the same noise, which cancels in the sum."""
    unequal = setting("sharding={name='sizes',ratio=3.0}", "rounds=12", "evaluate_every=6", "graph.nodes=6")
    unequal += setting("batch.size=all")  # so that nodes have different noise
    paired = setting("privacy={noise='paired',epsilon=4.0,colluders=2,ratio=3.0}")
    code, out, errors = run("--workers", "2", "--out", "two", *unequal, *paired, folder=tmp_path)
    assert code == 0, errors
    together = tacit("train", "--json", "--out", "one", *unequal, *paired)
    assert together.code == 0
    one, two = json.loads(together.out), json.loads(out)
    assert two["privacy"] == one["privacy"]
    assert tacit("verify", "two").code == 0  # the worst node of the curve may be in any process
    models = [load_file(tmp_path / part / "models.safetensors")["models"] for part in ("one", "two", "two/rank-1")]
    assert torch.equal(torch.cat(models[1:]), models[0]), "bit for bit"
    alone = [
        next(iter(read_ledger(path).releases())).mechanism
        for path in (tmp_path / f"{folder}/ledger.sqlite" for folder in ("one", "two", "two/rank-1"))
    ]
    assert len({mechanism.plan.digest for mechanism in alone}) == 1
    assert [mechanism.nodes.tolist() for mechanism in alone] == [list(range(6)), [0, 1, 2], [3, 4, 5]]


@pytest.mark.full
def test_extended_workers_stop_together_at_the_budget(tacit, tmp_path):
    """The noise is calibrated for 6 rounds at ε = 2, and the budget of 2.5 admits some more."""
    spend = [*QUICK, *setting("algorithm=const-d2p", "privacy.epsilon=2", "privacy.budget=2.5", "privacy.delta=1e-4")]
    code, _, errors = run("--workers", "2", "--out", "run", *spend, folder=tmp_path)
    assert code == 0, errors
    extended = ("--resume", "run", "--extend", "20")
    code, out, errors = run("--workers", "2", *extended, folder=tmp_path)
    assert code == 0, errors
    result = json.loads(out)
    assert 6 < result["rounds"] < 26
    assert result["stopped"].startswith("The privacy budget ε = 2.5, δ = 0.0001 ends before step ")
    assert tacit("train", "--out", "whole", *spend).code == 0
    whole = json.loads(tacit("train", "--resume", "whole", "--extend", "20", "--json").out)
    assert (result["rounds"], result["privacy"]) == (whole["rounds"], whole["privacy"])
    assert tacit("verify", "run", "whole").code == 0


@pytest.mark.full
def test_values_that_are_not_finite_are_reported_once(tmp_path):
    wild = setting("algorithm=sgp", "algorithm.lr=1e38", *NO_TARGET[1:])
    code, out, errors = run("--workers", "2", *QUICK, *wild, folder=tmp_path)
    assert (code, out) == (2, "")
    assert errors.count("error:") == 1
    assert "has values that are not finite" in errors


def test_a_budget_stops_all_ranks_of_torchrun_together(tacit, tmp_path):
    """Nodes have different sizes; the one that exhausts the budget is hosted by one rank, and all ranks stop."""
    spend = [
        *QUICK,
        *setting("sharding={name='sizes',ratio=4.0}", "algorithm.noise_multiplier=2", "privacy.budget=0.3"),
    ]
    spend += NO_TARGET
    whole = json.loads(tacit("train", "--json", "--out", "whole", *spend).out)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "tacit"]
    done = subprocess.run([*torchrun, *COMMAND[1:], *spend], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["stopped"].startswith("The privacy budget ε = 0.3, δ = 0.0001 ends before step ")
    for name in ("rounds", "stopped", "privacy", "messages"):
        assert result[name] == whole[name]
