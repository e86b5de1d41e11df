"""Verification: every edit of a finished run is found, and an untouched run has no difference."""

import json
import shutil
import sqlite3
import zlib
from contextlib import closing
from hashlib import blake2b

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import tacit
from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.privacy import Ledger, read_ledger
from tacit.reports import ReportPage
from tacit.runs import Config, from_config, storage, verify
from tests.helpers import adds_noise
from tests.runs import own
from tests.runs.cases import interrupt_after, interrupt_verb, small

TARGET = {"privacy": {"epsilon": 2.0, "delta": 1e-4}, "algorithm": {"name": "dyn-d2p", "lr": 0.5}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a finished run, which tests copy."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    return small(**TARGET, out=folder, observers=[ReportPage()]).go().out


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def differences(folder):
    return verify(folder).differences


def edit_json(path, *keys, value):
    table = json.loads(path.read_text())
    inner = table
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(table))


def edit_csv(path, row, column, value):
    rows = storage.read_history(path)
    rows[row][column] = value
    storage.write_history(path, rows)


def edit_ledger(folder, *statements):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
        for statement in statements:
            database.execute(*statement) if isinstance(statement, tuple) else database.execute(statement)
        database.commit()


def test_untouched_run_is_verified_and_stays_untouched(run):
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    found = verify(run)
    assert found.differences == ()
    assert found.unchecked == ()
    assert found.guaranteed == json.loads(before["result.json"])["privacy"]["guaranteed"]
    assert found.checked[0].startswith("guaranteed ε = ")
    assert "12 releases of 5 nodes" in found.checked[0]
    assert any("are those that the config plans" in line for line in found.checked)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


RESULT_EDITS = {
    ("privacy", "guaranteed"): 0.1,
    ("privacy", "claimed"): 0.1,
    ("privacy", "delta"): 1e-9,
    ("privacy", "unit"): "node",
    ("privacy", "relation"): "replace-one",
    ("privacy", "adversary"): "nobody",
    ("privacy", "note"): None,
    ("privacy", "reason"): "nothing",
    ("rounds",): 11,
    ("simulated",): False,
    ("accuracy",): 0.99,
    ("stopped",): "by hand",
    ("nodes",): 4,
}


@pytest.mark.parametrize("keys", RESULT_EDITS, ids="-".join)
def test_edited_result_is_found(run, keys):
    edit_json(run / "result.json", *keys, value=RESULT_EDITS[keys])
    found = differences(run)
    assert any(line.startswith("result.json: ") and f"{keys[-1]} is " in line for line in found)
    assert "result.json was changed after the run had ended" in found


@pytest.mark.parametrize("row", [1, 3])
@pytest.mark.parametrize(("column", "value"), [("guaranteed", 0.01), ("claimed", 0.01), ("loss", 0.0), ("round", 4)])
def test_edited_history_is_found(run, row, column, value):
    edit_csv(run / "history.csv", row, column, value)
    found = differences(run)
    assert any("history.csv" in line for line in found)
    if column in ("guaranteed", "claimed"):
        t = [0, 5, 10, 12][row]
        assert any(
            line.startswith(f"history.csv: round {t}: {column} is 0.01, but the ledger gives ") for line in found
        )


def test_history_without_a_row_is_found(run):
    rows = storage.read_history(run / "history.csv")
    storage.write_history(run / "history.csv", rows[:1] + rows[2:])
    assert "history.csv: the evaluation after round 5 is missing" in differences(run)
    storage.write_history(run / "history.csv", rows[:-1])
    assert "history.csv ends after round 10, but result.json after round 12" in differences(run)


def test_half_a_ledger_is_found(run):
    edit_ledger(run, "DELETE FROM release WHERE step >= 6")
    found = differences(run)
    assert "ledger.sqlite has 6 releases, but the run has made 12" in found
    assert "ledger.sqlite: the releases before round 10 were changed" in found
    assert 'ledger.sqlite: planned releases are missing (6, the first is "gradient" of step 6)' in found
    assert any(line.startswith("result.json: privacy: guaranteed is ") for line in found)


def rewritten(folder):
    """Compute all digests in a ledger once more, as someone would who forges it."""
    ledger = Ledger(folder / "ledger.sqlite")
    facts, marks = ledger.facts, ledger.facts.marks()
    facts.forget_marks(-1)
    for mark in marks:
        if mark.steps <= ledger.steps:
            facts.mark(mark.round, mark.steps)
    facts.write(releases=len(ledger), releases_digest=facts.releases_digest())
    ledger.flush()
    ledger._db.close()


def test_half_a_ledger_with_new_digests_is_found(run):
    edit_ledger(run, "DELETE FROM release WHERE step % 2 = 1")
    rewritten(run)
    found = differences(run)
    assert 'ledger.sqlite: planned releases are missing (6, the first is "gradient" of step 1)' in found
    assert any(line.startswith("result.json: privacy: guaranteed is ") for line in found)


def replace_vectors(folder, key, factor, new_key=None):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
        ((data,),) = database.execute("SELECT data FROM vector WHERE id = ?", (key,))
        values = (factor * np.frombuffer(zlib.decompress(data))).tobytes()
        name = key if new_key is None else blake2b(values, digest_size=16).hexdigest()
        database.execute("INSERT OR REPLACE INTO vector VALUES (?, ?)", (name, zlib.compress(values)))
        database.execute("UPDATE release SET parameters = replace(parameters, ?, ?)", (key, name))
        database.commit()


def multipliers_of(folder):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
        rows = database.execute("SELECT parameters FROM release").fetchall()
    return {value["vector"] for (text,) in rows for value in json.loads(text).values() if isinstance(value, dict)}


def test_larger_noise_in_the_ledger_is_found(run):
    for key in multipliers_of(run):
        replace_vectors(run, key, 9.0)
    assert "ledger.sqlite: noise multipliers or sampling rates were changed" in differences(run)


def test_larger_noise_with_new_digests_and_a_new_result_is_found(run):
    """The plan of the config has the noise that must be there."""
    for key in multipliers_of(run):
        replace_vectors(run, key, 9.0, new_key=True)
    rewritten(run)
    found = differences(run)
    assert not any("noise multipliers or sampling rates were changed" in line for line in found)
    assert (
        "ledger.sqlite: releases have other noise or other sampling than planned "
        '(12, the first is "gradient" of step 0)' in found
    )


@pytest.mark.parametrize("changes", [{"seed": 1}, {"algorithm": {"name": "const-d2p"}}, {"rounds": 6}], ids=str)
def test_ledger_of_another_run_is_found(run, changes, tmp_path):
    small(**TARGET | changes, out=tmp_path / "other", observers=[ReportPage()]).go()
    shutil.copy(tmp_path / "other/ledger.sqlite", run)
    found = differences(run)
    assert any(line.startswith(f"config.toml: {next(iter(changes))}") for line in found)
    assert "models.safetensors was changed after the run had ended" in found


def test_edited_config_is_found(run):
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(text.replace("lr = 0.5", "lr = 0.05").replace("rho_mu = 2.0\n", ""))
    assert set(differences(run)) == {
        "config.toml: algorithm.lr is 0.5 in the ledger, got 0.05",
        "config.toml: algorithm.rho_mu is 2 in the ledger, but not here",
    }


def test_config_that_is_edited_in_the_ledger_as_well_is_found(run):
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(text.replace("lr = 0.5", "lr = 0.7"))
    edit_ledger(run, "UPDATE fact SET value = replace(value, '\"lr\": 0.5', '\"lr\": 0.7') WHERE key = 'config'")
    assert differences(run) == ("ledger.sqlite: the config was changed: its digest is not the one beside it",)


def test_edited_models_and_checkpoint_are_found(run):
    models = load_file(run / "models.safetensors")
    save_file({"models": models["models"] + 1}, run / "models.safetensors")
    assert differences(run) == ("models.safetensors was changed after the run had ended",)
    tensors, facts = storage.read_checkpoint(run / "checkpoint.safetensors")
    storage.write_checkpoint(run / "checkpoint.safetensors", tensors, facts | {"t": 10, "steps": 10})
    found = differences(run)
    assert "checkpoint.safetensors: t is 10, but the ledger gives 12" in found
    assert "checkpoint.safetensors: steps is 10, but the ledger gives 12" in found


def test_edited_nodes_threats_and_graph_are_found(run):
    edit_csv(run / "nodes.csv", 2, "guaranteed", 0.1)
    edit_json(run / "threats.json", "bounds", 0, "epsilon", value=0.1)
    edit_json(run / "graph.json", "description", value="another graph")
    found = differences(run)
    assert any(line.startswith("nodes.csv: node 2: guaranteed is 0.1, but the ledger gives ") for line in found)
    assert any(line.startswith("threats.json: epsilon is 0.1, but the ledger gives ") for line in found)
    assert "graph.json was changed after the run had ended" in found


@pytest.mark.parametrize("name", sorted({*storage.VERIFIED_FILES, "config.toml", "ledger.sqlite"} - {"trace.csv"}))
@pytest.mark.parametrize("how", ["missing", "empty", "nonsense", "truncated"])
def test_damaged_file_is_a_difference_and_not_a_traceback(run, name, how):
    path = run / name
    if how == "missing":
        path.unlink()
    else:
        data = {
            "empty": b"",
            "nonsense": b"\xff\x00[]{}\n1,2,\n",
            "truncated": path.read_bytes()[: -(path.stat().st_size // 2)],
        }
        path.write_bytes(data[how])
    found = differences(run)
    assert found
    assert any(name in line for line in found)


JSON_VALUES = [None, 3, "text", [], {}, [None], {"a": 1}]


@pytest.mark.parametrize("value", JSON_VALUES, ids=str)
def test_facts_and_results_of_the_wrong_type_are_differences(run, value):
    for key in ("privacy", "rounds"):
        edit_json(run / "result.json", key, value=value)
        assert differences(run)
    edit_json(run / "threats.json", "bounds", value=value)
    assert differences(run)
    for key in ("config", "nodes", "files", "starts", "extensions", "releases", "ended", "rounds"):
        edit_ledger(run, ("UPDATE fact SET value = ? WHERE key = ?", (json.dumps(value), key)))
        assert differences(run), key


def test_file_that_the_run_did_not_write_is_found(finished, tmp_path):
    plain = small(**TARGET, out=tmp_path / "plain").go().out
    assert differences(plain) == ()
    shutil.copy(finished / "threats.json", plain)
    assert differences(plain) == ("threats.json was not written by the run",)


def test_deleted_note_of_an_open_value_is_found(tmp_path):
    """A value that was computed and never released voids the guarantee; without the note, the ε would be 0."""
    changes = {"algorithm": {"name": f"{own.__file__}:Leaky"}}
    folder = small(**changes, out=tmp_path / "run", observers=[ReportPage()]).go().out
    assert differences(folder) == ()
    edit_ledger(folder, "DELETE FROM exact_value")
    assert any(
        line.startswith("result.json: privacy: guaranteed is none, but the ledger gives 0")
        for line in differences(folder)
    )


# Runs without differences


def verified(run):
    found = verify(run.out)
    assert found.differences == ()
    return found


@pytest.mark.parametrize("name", list(algorithms))
def test_runs_of_every_algorithm_are_verified(name, tmp_path):
    example = {key: list(v) if isinstance(v, tuple) else v for key, v in algorithms.example(name).items()}
    listed = isinstance(example.get("noise_multiplier"), list)
    target = {"epsilon": 4.0} if adds_noise(name) and not listed else {}
    changes = {"rounds": 4, "evaluate_every": 2, "graph": {"name": "ring", "nodes": 4}}
    changes |= {"algorithm": {"name": name, **example}, "privacy": {"delta": 1e-4, **target}}
    changes |= {"data": {"name": "digits", "normalise": "unit"}}
    found = verified(small(**changes, out=tmp_path / "run", observers=[ReportPage()]).go())
    assert found.unchecked == ()


STOPS = {
    "interrupted": lambda run: interrupt_verb(run, "mix", 8),
    "interrupted in an evaluation": lambda run: interrupt_verb(run, "mean", 3),
}


@pytest.mark.parametrize("stop", STOPS)
def test_stopped_resumed_and_extended_runs_are_verified(stop, tmp_path):
    run = small(out=tmp_path / "run", observers=[ReportPage()])
    STOPS[stop](run)
    verified(run.go())
    verified(small(out=tmp_path / "run", resume=True, observers=[ReportPage(), interrupt_after(11)]).go())
    verified(small(out=tmp_path / "run", resume=True, observers=[ReportPage()]).go())
    found = verified(small(out=tmp_path / "run", resume=True, extend=4, observers=[ReportPage()]).go())
    assert [each.rounds for each in found.facts.extensions] == [4]
    assert len(found.facts.starts) == 4


def test_run_that_its_budget_stops_is_verified_also_if_it_is_resumed_and_interrupted(tmp_path):
    several_steps = {"name": "dp-sgd", "sigma": 0.1, "local_steps": 3}
    changes = {"algorithm": several_steps, "graph": {"name": "ring", "nodes": 5}}
    changes |= {"privacy": {"budget": 0.7, "delta": 1e-4}}
    run = small(**changes, out=tmp_path / "run", observers=[ReportPage()]).go()
    assert "The privacy budget" in run.stopped
    assert 3 * run.t < len(run.task.ledger) < 3 * run.t + 3, "the last round has released something"
    verified(run)
    resumed = small(**changes, out=tmp_path / "run", resume=True, observers=[ReportPage()])
    interrupt_verb(resumed, "begin", 1)
    verified(resumed.go())
    verified(small(**changes, out=tmp_path / "run", resume=True, extend=3, observers=[ReportPage()]).go())


def test_failed_run_is_verified(tmp_path):
    run = small(algorithm={"name": "sgp", "lr": 3e38}, out=tmp_path / "run", observers=[ReportPage()])
    with pytest.raises(TacitError, match="not finite"):
        run.go()
    verified(run)


def test_run_that_was_killed_has_not_ended(tmp_path):
    from tests.runs.cases import AfterRound

    copy = AfterRound(8, lambda run: shutil.copytree(tmp_path / "run", tmp_path / "killed"))
    small(out=tmp_path / "run", observers=[copy]).go()
    assert "result.json is missing: the run has not ended" in differences(tmp_path / "killed")
    assert "ledger.sqlite has no record of the end of the run" in differences(tmp_path / "killed")


def test_python_objects_and_own_files_are_verified_without_being_executed(tmp_path):
    given = {"algorithm": own.Planning(), "nodes": 4, "rounds": 4, "batch": 8, "delta": 1e-3}
    found = verified(tacit.train(**given, out=tmp_path / "objects"))
    assert found.unchecked == (
        "the plan of the releases, because the run cannot be rebuilt here: the algorithm was given as a Python object",
    )
    (tmp_path / "mine.py").write_text(
        f"from tests.runs.own import Planning\nwith open({str(tmp_path / 'seen')!r}, 'a'): pass\n"
    )
    run = small(algorithm={"name": f"{tmp_path}/mine.py:Planning"}, out=tmp_path / "file").go()
    (tmp_path / "seen").unlink()
    found = verified(run)
    assert "in a file of its own" in found.unchecked[0]
    assert not (tmp_path / "seen").exists()
    edit_ledger(tmp_path / "file", "DELETE FROM release WHERE step > 8")
    assert "ledger.sqlite has 9 releases, but the run has made 12" in differences(tmp_path / "file")


def test_records_that_have_changed_since_are_noted(tmp_path):
    rows = "".join(f"{i},{i % 7},{'yes' if i % 3 else 'no'}\n" for i in range(200))
    (tmp_path / "records.csv").write_text("a,b,y\n" + rows)
    changes = {"data": {"name": "csv", "path": str(tmp_path / "records.csv"), "label": "y", "labels": ["no", "yes"]}}
    run = small(**changes, out=tmp_path / "run").go()
    assert verified(run).unchecked == ()
    (tmp_path / "records.csv").write_text("a,b,y\n" + rows.replace(",2,", ",3,"))
    verify.__globals__["_remembered"].clear()
    found = verified(run).unchecked[0]
    words = "shards, test records and training records differ from those of the run; to check it, restore the original"
    assert words in found
    (tmp_path / "records.csv").unlink()
    verify.__globals__["_remembered"].clear()
    assert "records.csv" in verified(run).unchecked[0]


def test_digest_of_the_records_needs_the_key_of_the_noise(tmp_path):
    """A plain digest of the records would let anyone test a guess of the records against it."""
    facts = [
        read_ledger(small(seed=seed, rounds=1, out=tmp_path / str(seed)).go().out / "ledger.sqlite").facts.read()
        for seed in (0, 1)
    ]
    assert facts[0]["inputs"]["test records"] != facts[1]["inputs"]["test records"]
    assert facts[0]["inputs"]["links of the graph"] == facts[1]["inputs"]["links of the graph"]


def test_ledger_records_how_the_run_was_made(run):
    facts = verify(run).facts
    assert facts.config == json.loads(json.dumps(facts.config))
    assert facts.config["algorithm"]["clip"] == 1
    assert (facts.simulated, facts.seed, facts.processes, facts.nodes) == (True, 0, 1, [0, 5])
    assert facts.starts[0].tacit
    assert facts.starts[0].time.endswith("+00:00")
    assert facts.starts[0].time <= facts.ended
    assert (facts.rounds, facts.releases, facts.stopped) == (12, 12, None)


def test_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(TacitError, match="is not a run folder"):
        verify(tmp_path)


def test_runs_without_a_config_are_verified(tmp_path):
    from tacit.networks import Simulated
    from tacit.runs import Run, RunFolder
    from tests.helpers import digits_task

    folder = RunFolder.create(tmp_path / "run")
    task = digits_task(4)
    task.ledger = folder.ledger
    algorithm = tacit.algorithms.const_d2p(noise_multiplier=2.0).with_rounds(4)
    run = Run(task, algorithm, Simulated(tacit.graphs.ring(4)), observers=[folder], delta=1e-3).go()
    assert "the run was not built from a config" in verified(run).unchecked[0]


def test_control_characters_of_a_folder_are_not_printed(run):
    edit_json(run / "result.json", "stopped", value="\x1b[2J\x9bboom")
    text = "".join(differences(run))
    assert text.isprintable()


def test_config_of_the_example_is_verified(tmp_path):
    config = Config.load(None, ["rounds=4", "graph.nodes=4", "network.bandwidth=inf"])
    verified(from_config(config, out=tmp_path / "run").go())
