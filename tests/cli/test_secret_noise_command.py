"""`tacit train --secret-noise` and `tacit budget`."""

import json
import re
from pathlib import Path

import pytest

from tacit.networks import Simulated
from tests.cli.conftest import NO_TARGET, QUICK, setting

SECRET = ["train", "--secret-noise", *QUICK, *setting("sharding=digest")]
WARD = setting("privacy.population=ward-7")


def test_final_lines_state_the_run_and_the_total(tacit):
    first, second = tacit(*SECRET), tacit(*SECRET)
    assert first.code == second.code == 0, second.err
    lines = second.out.splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("Guaranteed ε = 2.99")
    assert re.fullmatch(r"This run: ε = 2\.99\d*\. All 2 runs on these records: ε = [34]\.\d+\.", lines[2])
    assert first.out.splitlines()[2] == "No other run on these records is recorded."
    assert "SIMULATION" not in second.out
    assert "Secret noise: keep runs/example-2 private until the run has ended." in second.err


def test_json_and_page_state_the_total(tacit):
    tacit(*SECRET)
    privacy = json.loads(tacit(*SECRET, "--json").out)["privacy"]
    assert privacy["runs"] == 2
    assert privacy["guaranteed"] < privacy["total"] < 2 * privacy["guaranteed"]
    assert (privacy["total_reason"], privacy["simulated"]) == (None, False)
    page = Path("runs/example-2/report.html").read_text()
    assert "All runs on these records" in page
    assert "for all 2 runs together, at the same δ" in page
    assert "for all 2 runs on these records" in page
    assert "This run is a simulation" not in page


def test_a_simulation_states_no_total(tacit):
    ended = tacit("train", *QUICK)
    assert "runs on these records" not in ended.out
    assert "SIMULATION" in ended.out
    assert (
        "If several runs use the same records, also for tuning, their ε values"
        in Path("runs/example/report.html").read_text()
    )


def test_the_budget_refuses_the_third_run_before_anything_is_written(tacit):
    budget = [*WARD, *setting("privacy.population_budget=4.0")]
    assert [tacit(*SECRET, *budget).code for _ in range(2)] == [0, 0]
    ended = tacit(*SECRET, *budget)
    assert ended.code == 2
    assert re.search(
        r"error: These records have a budget of ε = 4 at δ = 0\.0001: 2 runs spent 3\.\d+, this run plans 2\.99\d*, "
        r"and together they would reach 4\.\d+\. The run is refused\n",
        ended.err,
    )
    assert {path.name for path in Path("runs").iterdir()} == {"example", "example-2"}
    assert "Secret noise: keep" not in ended.err


def test_the_budget_is_raised_by_its_own_command_only(tacit):
    tacit(*SECRET, *WARD, *setting("privacy.population_budget=3"))
    raised = [*WARD, *setting("privacy.population_budget=9")]
    ended = tacit(*SECRET, *raised)
    assert ended.code == 2
    assert 'A run cannot raise it; to change it, use tacit budget "ward-7" --epsilon 9 --delta 0.0001' in ended.err
    shown = tacit("budget", "ward-7", "--epsilon", "9", "--delta", "0.0001").out.splitlines()
    assert shown[0].endswith(": Dyn-D²P, 6 rounds (ended)")
    assert shown[1].startswith("Total of 1 run: ε = 2.99")
    assert shown[2] == "Budget: ε = 9, δ = 0.0001"
    assert tacit(*SECRET, *raised).code == 0


def test_the_budget_command_shows_a_population_without_a_name(tacit):
    assert "has no runs yet" in tacit("budget", "ward-7").err
    tacit(*SECRET)
    shown = json.loads(tacit("budget", "#1", "--json").out)
    assert (len(shown["runs"]), shown["budget"], shown["delta"]) == (1, None, 1e-5)
    assert shown["total"] > 2.99
    ended = tacit("budget", "ward-7")
    assert (ended.code, ended.err) == (2, 'error: unknown population "ward-7"; available: #1\n')
    assert tacit("budget", "#1", "--epsilon", "-1").code == 2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (setting("sharding=iid"), 'Use sharding "digest"'),
        (setting("sharding=dirichlet"), "one record would decide at which node others are"),
        (setting("noise=real"), "noise = 'real' should be 'simulated' or 'secret'"),
    ],
)
def test_what_secret_noise_does_not_accept(tacit, more, words):
    command = [part for part in SECRET if part != "--secret-noise"] if "noise=real" in more else SECRET
    ended = tacit(*command, *more)
    assert ended.code == 2
    assert words in ended.err
    assert not Path("runs").exists()


def test_an_interrupted_run_is_resumed(tacit, monkeypatch):
    mix = Simulated.mix

    def interrupted(self, t, *values):
        if t == 3:
            raise KeyboardInterrupt
        return mix(self, t, *values)

    with monkeypatch.context() as patch:
        patch.setattr(Simulated, "mix", interrupted)
        ended = tacit(*SECRET)
    assert ended.code == 130
    assert ended.out.splitlines()[-1] == "To resume: tacit train --resume runs/example"
    assert "Guaranteed ε = " in ended.out
    assert Path("runs/example/noise.key").is_file()
    ended = tacit("train", "--resume", "runs/example")
    assert ended.code == 0, ended.err
    assert "No other run on these records is recorded." in ended.out
    assert not Path("runs/example/noise.key").exists()
    assert tacit("verify", "runs/example").code == 0


def test_a_run_without_its_key_is_refused_with_one_sentence(tacit, monkeypatch):
    monkeypatch.setattr(Simulated, "mix", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    tacit(*SECRET)
    Path("runs/example/noise.key").unlink()
    ended = tacit("train", "--resume", "runs/example")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines()[-1].startswith("error: runs/example/noise.key is missing, but the ledger beside it")


def test_several_processes_are_refused(tacit):
    assert tacit(*SECRET, "--workers", "2").code == 2
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    "command",
    [
        (
            "compare",
            "const-d2p",
            "dyn-d2p",
            "--epsilon",
            "1",
            "--jobs",
            "1",
            *setting("noise=secret", "sharding=digest"),
        ),
        ("check", "const-d2p", *setting("noise=secret", "sharding=digest")),
        ("audit", "secret.toml"),
    ],
)
def test_simulations_refuse_a_config_with_secret_noise(tacit, command):
    Path("secret.toml").write_text('noise = "secret"\nsharding = "digest"\nrounds = 3\nalgorithm = "const-d2p"\n')
    ended = tacit(*command)
    assert ended.code == 2
    assert 'noise = "secret" is for tacit train' in ended.err


def test_planning_a_secret_run_adds_nothing(tacit):
    chosen = [*QUICK, *setting("noise=secret", "sharding=digest", "privacy.population=ward-7")]
    assert tacit("account", *chosen).out.startswith("Guaranteed ε = 2.99")
    assert tacit("threats", *chosen).code == 0
    assert "has no runs yet" in tacit("budget", "ward-7").err


def test_an_algorithm_without_noise_leaves_no_total(tacit):
    tacit(*SECRET, *NO_TARGET, *setting("algorithm=sgp"))
    assert "All 2 runs on these records: no total is guaranteed, because values leave the nodes without noise." in (
        tacit(*SECRET).out
    )


def test_the_audit_of_a_secret_run_is_a_simulation_that_adds_nothing(tacit):
    tacit(*SECRET, *WARD, *setting("algorithm=const-d2p"))
    assert tacit("audit", "runs/example", "--trials", "40", "--rounds", "1").code == 0
    assert tacit("budget", "ward-7").out.splitlines()[1].startswith("Total of 1 run: ")
