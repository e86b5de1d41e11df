"""Invalid input: one sentence, exit code 2, no traceback, no files left behind."""

import errno
import os
import resource
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import NO_TARGET, QUICK, setting

SGP = [*NO_TARGET, *setting("algorithm=sgp")]


def refused(ended, *words, left=()):
    """Check that the command printed one sentence on standard error, and wrote no files except `left`."""
    assert (ended.code, ended.out) == (2, "")
    assert "Traceback" not in ended.err
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    for word in words:
        assert word in ended.err
    assert sorted(path.name for path in Path().iterdir()) == sorted(left)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("algorithm=dyn-d2q", 'unknown algorithm "dyn-d2q"; did you mean "dyn-d2p"?'),
        ("graph=rin", 'unknown graph "rin"; did you mean "ring"?'),
        ("model=logstic", 'unknown model "logstic"; did you mean "logistic"?'),
        ("data=digit", 'unknown data set "digit"; did you mean "digits"?'),
        ("sharding=idd", 'unknown sharding "idd"; did you mean "iid"?'),
        ("data=zzzzzz", "available: a9a, "),
        ("algorithm=none.py:Mine", "none.py does not exist"),
    ],
)
def test_unknown_names_are_refused_with_a_suggestion(tacit, change, words):
    refused(tacit("train", *setting(change)), words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("round=3", 'unknown key of the config "round"; did you mean "rounds"?'),
        ("algoritm.lr=3", 'unknown key of the config "algoritm"; did you mean "algorithm"?'),
        ("batch.sise=3", 'unknown key of [batch] in the config "sise"; did you mean "size"?'),
        ("privacy.epsilom=3", 'unknown key of [privacy] in the config "epsilom"; did you mean "epsilon"?'),
        ("network.bandwith=3", 'unknown key of [network] in the config "bandwith"; did you mean "bandwidth"?'),
        ("graph.nods=3", 'unknown parameter of graph one-peer-exponential "nods"; did you mean "nodes"?'),
        ("graph.drop_link=0.3", 'did you mean "drop_links"?'),
        ("algorithm.rho_m=3", 'unknown parameter of algorithm dyn-d2p "rho_m"; did you mean "rho_mu"?'),
        ("model.bias=true", 'unknown parameter of model logistic "bias"; did you mean "biases"?'),
        ("data.limits=3", 'unknown parameter of data set digits "limits"; did you mean "limit"?'),
        ("sharding.sed=3", 'unknown parameter of sharding iid "sed"; did you mean "seed"?'),
        ("sharding.nodes=3", 'unknown parameter of sharding iid "nodes"'),
        ("model.inputs=3", 'unknown parameter of model logistic "inputs"'),
    ],
)
def test_unknown_keys_are_refused_with_a_suggestion(tacit, change, words):
    refused(tacit("train", *setting(change)), words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("rounds=ten", "rounds = 'ten' should be a valid integer"),
        ("rounds=1.5", "rounds = 1.5 should be a valid integer"),
        ("rounds=0", "rounds = 0 should be greater than or equal to 1"),
        ("rounds=-5", "rounds = -5 should be greater than or equal to 1"),
        ("seed=-1", "seed = -1 should be greater than or equal to 0"),
        ("seed=99999999999999999999999", "seed = 99999999999999999999999 should be less than"),
        ("evaluate_every=0", "evaluate_every = 0 should be"),
        ("name=[1]", "name = [1] should be a valid string"),
        ("batch.size=0", "batch.size = 0 should be greater than or equal to 1"),
        ("batch.size=big", 'should be a whole number, or "all" for all records'),
        (
            "batch.sampling=fair",
            "batch.sampling = 'fair' should be one of cyclic, permutation, poisson, without-replacement",
        ),
        ("batch.relation=add-remove-one", "should be 'add-remove' or 'replace-one'"),
        ("privacy=3", "privacy = 3 should be a section"),
        ("graph=3", "graph = 3 should be a section"),
        ("graph.name=3", "graph.name = 3 should be a valid string"),
        ("graph.nodes=many", "graph one-peer-exponential: nodes = 'many' should be a valid integer"),
        ("graph.drop_links=often", "drop_links = 'often' should be a valid number"),
        ("graph.drop_links=1", "drop_links = 1 should be less than 1"),
        ("algorithm.lr=fast", "algorithm dyn-d2p: lr = 'fast' should be a valid number"),
        ("algorithm=gone.py:A", "algorithm gone.py:A: file "),
        ("name=../../evil", "name"),
        ("algorithm.lr=0", "lr must be positive and finite, got 0"),
        ("algorithm.clip=nan", "clip must be positive and finite, got nan"),
        ("network.link_time=-1", "network.link_time = -1 should be greater than or equal to 0"),
        ("privacy.epsilon=0", "privacy.epsilon = 0 should be greater than 0"),
        ("privacy.epsilon=-3", "privacy.epsilon = -3 should be greater than 0"),
        ("privacy.epsilon=nan", "privacy.epsilon = nan should be a finite number"),
        ("privacy.epsilon=inf", "privacy.epsilon = inf should be a finite number"),
        ("privacy.budget=0", "privacy.budget = 0 should be greater than 0"),
        ("privacy.delta=0", "privacy.delta = 0 should be greater than 0"),
        ("privacy.delta=1", "privacy.delta = 1 should be less than 1"),
        ("privacy.delta=nan", "privacy.delta = nan should be"),
        ("privacy.calibration=papers", "privacy.calibration = 'papers' should be 'guaranteed' or 'paper'"),
        ("algorithm.noise_multiplier=2", "privacy.epsilon and algorithm.noise_multiplier both set the noise"),
        ("algorithm=sgp", "SGP adds no noise: leave out privacy.epsilon"),
        ("privacy.epsilon=", "Dyn-D²P: no noise level: set privacy.epsilon"),
        ("batch.size=500", "batch.size is 500, but node 7 has only 143 records: use a smaller batch or fewer nodes"),
        ("graph.nodes=5000", "nodes must be at most 1437 (the number of records), got 5000"),
        ("sharding=sizes", "sharding sizes: set either sizes or ratio"),
        ("rounds", 'a setting must be key=value, such as rounds=100 or algorithm.lr=0.1, got "rounds"'),
        ("=3", "a setting must be key=value"),
        ("rounds.x=3", "rounds = {'x': 3} should be a valid integer"),
    ],
)
def test_invalid_values_are_refused(tacit, change, words):
    refused(tacit("train", *setting(change)), words)


def test_a_budget_needs_noise(tacit):
    refused(
        tacit("train", *SGP, *setting("privacy.budget=1")),
        "SGP cannot run with a privacy budget, because values leave the nodes without noise",
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"rounds = \n", "bad.toml is not valid TOML"),
        (b"\xff\xfe", "bad.toml is not valid TOML"),
        (b"rounds = 0\n", "bad.toml: rounds = 0 should be"),
        (b"[algorithm]\nlearning = 0.1\n", 'unknown parameter of algorithm dyn-d2p "learning"'),
        (b"[batch]\nsizes = 1\n", 'unknown key of [batch] in bad.toml "sizes"'),
    ],
)
def test_an_invalid_config_is_refused(tacit, content, words):
    Path("bad.toml").write_bytes(content)
    refused(tacit("train", "bad.toml"), words, left=["bad.toml"])


def test_a_missing_config_or_a_folder_is_refused(tacit):
    refused(tacit("train", "none.toml"), "cannot read the config none.toml: No such file or directory")
    Path("folder").mkdir()
    refused(tacit("train", "folder"), "folder is a folder, not a config", left=["folder"])
    Path("folder/config.toml").touch()
    refused(
        tacit("threats", "folder"),
        "folder is a folder, not a config file; its config is folder/config.toml",
        left=["folder"],
    )


def test_a_disconnected_graph_is_refused(tacit):
    Path("links").write_text("0 1\n1 0\n2 3\n3 2\n")
    ended = tacit("train", *QUICK, *setting("graph=edges", "graph.path=links"))
    refused(ended, "has 2 components", "node 2 cannot be reached from node 0", left=["links"])


def test_missing_data_are_reported_with_the_folders_searched(tacit, monkeypatch, tmp_path):
    def offline(*_):
        raise ConnectionError

    monkeypatch.setattr("tacit.tasks.data.files.DataFile._fetch", offline)
    monkeypatch.setattr("tacit.tasks.data.files.cache", lambda: tmp_path / "cache")
    Path("data").mkdir()
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "data"))
    ended = tacit("train", *QUICK, *setting("data=mnist"))
    refused(ended, f"is not in {tmp_path / 'data'} or {tmp_path / 'cache'}", "set TACIT_DATA to", left=["data"])
    refused(tacit("train", *setting("data=npz", "data.path=x.npz")), "there is no file ", left=["data"])


def test_data_with_nan_are_refused(tacit):
    x = np.ones((50, 3))
    x[7, 2] = np.nan
    np.savez("mine.npz", x=x, y=np.arange(50) % 2)
    ended = tacit("train", *QUICK, *setting("data=npz", "data.path=mine.npz"))
    refused(ended, "NaN or infinite value, first at row 7, column 2", left=["mine.npz"])


def test_own_records_need_declared_labels(tacit):
    """The command of the README, with and without labels."""
    rows = [f"{i % 7},{i % 11},{'ill' if i % 3 else 'healthy'}" for i in range(300)]
    Path("records.csv").write_text("\n".join(["age,weight,diagnosis", *rows]))
    own = setting("data=csv", "data.path=records.csv", "data.label=diagnosis", "batch.size=8")
    refused(tacit("train", *QUICK, *own), "the classes were learnt", "data.labels = [...]", left=["records.csv"])
    labels = setting('data.labels=["healthy", "ill"]')
    ended = tacit("train", *QUICK, *own, *labels, *setting("data.split=index"))
    refused(ended, 'set split = "content"', left=["records.csv"])
    assert tacit("train", *QUICK, *own, *labels).code == 0


def test_values_that_are_not_finite_stop_the_run_and_keep_its_results(tacit):
    ended = tacit("train", *QUICK, *SGP, *setting("algorithm.lr=1e38", "evaluate_every=1"))
    assert (ended.code, ended.out) == (2, "")
    assert "Traceback" not in ended.err
    last = ended.err.splitlines()[-1]
    assert last.startswith("error: node ")
    assert "values that are not finite" in last
    # The evaluations and releases up to that round are stored and can be read.
    table = pd.read_csv("runs/example/history.csv")
    rounds = int(table["round"].iloc[-1])
    with sqlite3.connect("runs/example/ledger.sqlite") as ledger:
        steps = [row[0] for row in ledger.execute("SELECT step FROM release ORDER BY step")]
    ledger.close()
    assert steps[: rounds + 1] == list(range(len(steps)))
    assert len(steps) >= rounds
    again = tacit("train", "--resume", "runs/example")
    assert again.err.splitlines()[-1] == last


def test_an_output_folder_that_cannot_be_created_is_refused(tacit):
    Path("file").write_text("in the way")
    ended = tacit("train", *QUICK, "--out", "file")
    refused(ended, "file is not empty", left=["file"])
    refused(tacit("train", *QUICK, "--out", "file/run"), "cannot", "file/run", left=["file"])


def test_only_a_run_folder_can_be_resumed(tacit):
    refused(tacit("train", "--resume", "none"), "none is not a run folder")
    Path("folder").mkdir()
    refused(tacit("train", "--resume", "folder"), "folder is not a run folder", left=["folder"])
    refused(
        tacit("train", "--resume", "folder", "--set", "rounds=3"),
        "--resume uses the config of the run: remove CONFIG, --set, --epsilon, --delta and --out",
        left=["folder"],
    )
    assert not list(Path("folder").iterdir())


def test_a_damaged_checkpoint_is_refused(tacit):
    tacit("train", *QUICK, *SGP, "--out", "run")
    Path("run/checkpoint.safetensors").write_bytes(os.urandom(500))
    refused(tacit("train", "--resume", "run"), "cannot be read as a checkpoint", left=["run"])


def test_a_run_with_a_python_object_cannot_be_resumed_by_the_command(tacit, tmp_path):
    import tacit as package

    package.train(algorithm=package.algorithms.sgp(), nodes=4, rounds=2, out=tmp_path / "run")
    ended = tacit("train", "--resume", "run")
    refused(ended, "the algorithm of this run was given as a Python object", left=["run"])


def test_a_full_disk_before_the_first_round_is_reported(tacit, monkeypatch):
    def full(path, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    ended = tacit("train", *QUICK, *SGP, "--out", "run")
    refused(ended, "cannot write run/config.toml: No space left on device")


@pytest.mark.parametrize("kilobytes", [1, 24])
def test_a_file_size_limit_is_reported_and_leaves_nothing(tmp_path, kilobytes):
    """The operating system limits the size of files, so the ledger or a later file cannot be written."""
    command = [str(Path(sys.executable).with_name("tacit")), "train", *SGP, "--out", "run"]
    limit = (kilobytes * 1024, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert not list(tmp_path.iterdir())


def test_unknown_options_are_refused(tacit):
    ended = tacit("train", "--outt", "x")
    assert (ended.code, ended.out) == (2, "")
    assert "No such option: --outt" in ended.err
