"""`tacit up`: its output, exit codes and live table."""

import io
import json
import re

import pytest
from rich.console import Console
from typer.testing import CliRunner

import tacit.cli.listing  # noqa: F401  (an app with one command has no subcommands)
import tacit.cli.up as command
from tacit import sites
from tacit.cli.app import app
from tacit.errors import TacitError
from tacit.sites import supervisor
from tacit.sites.status import SiteStatus
from tacit.sites.supervisor import Supervisor

from .fake_sites import create_fake_network, fake_command, fake_status, set_behaviour, stop_when_running


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "_POLL_INTERVAL", 0.05)
    create_fake_network(tmp_path)
    return tmp_path


@pytest.fixture
def tacit_up(folder, monkeypatch):
    init = Supervisor.__init__
    monkeypatch.setattr(Supervisor, "__init__", lambda self, at: init(self, at, fake_command(folder)))
    return lambda *options: CliRunner().invoke(app, ["up", str(folder), *options])


def test_output_of_a_finished_run(tacit_up, folder):
    done = tacit_up()
    assert done.exit_code == 0
    result, privacy, paths = done.stdout.splitlines()
    assert result == "hospitals: all 2 sites finished 10 rounds, mean accuracy 75.0 %"
    assert privacy.startswith("Site with the largest ε: Guaranteed ε = 3.5, δ = 0.0001 per record (add or remove one)")
    assert paths == f"Results: {folder}."
    assert re.match(r"round \d+ of 10  [12] ", done.stderr.splitlines()[0])


def test_json_output(tacit_up):
    done = tacit_up("--json", "--sites", "2")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["finished"] is True


def test_output_of_a_failed_run(tacit_up, folder):
    set_behaviour(folder, site_1="run", site_2="fail")
    done = tacit_up()
    assert done.exit_code == 1
    assert "error: site-2: Cannot read records.npz: No such file or directory\n" in done.stderr
    assert done.stdout.startswith("All 2 sites stopped. Logs: ")


def test_output_of_an_interrupted_run(tacit_up, folder, monkeypatch):
    set_behaviour(folder, site_1="run", site_2="run")
    go = Supervisor.go
    monkeypatch.setattr(Supervisor, "go", lambda self, show: go(self, lambda s: (show(s), stop_when_running(s))))
    done = tacit_up()
    assert done.exit_code == 130
    assert done.stdout.splitlines()[1] == f"Resume with: tacit up {folder}"


def test_missing_folder_is_created(tmp_path, monkeypatch):
    created = []
    monkeypatch.setattr(sites, "create_network", lambda folder, sites: created.append((folder, sites)))
    for options, count in (([], 6), (["--sites", "3"], 3)):
        done = CliRunner().invoke(app, ["up", str(tmp_path / "new"), *options])
        assert isinstance(done.exception, TacitError)  # the replaced function has created nothing
        assert created.pop() == (tmp_path / "new", count)


def test_existing_folder_keeps_its_number_of_sites(tacit_up):
    done = tacit_up("--sites", "3")
    assert str(done.exception).endswith("has 2 sites, not 3: omit --sites or use a new folder")


def test_table(folder):
    network = Supervisor(folder, fake_command(folder))
    for number, site in enumerate(network.sites):
        site.status = SiteStatus.from_dict(fake_status(site.name, number))
    waiting = {"state": "waiting", "waiting_for": ["site-1"], "epsilon": None, "accuracy": None}
    network.sites[1].status = SiteStatus.from_dict(fake_status("site-2", 1) | waiting)
    network.recent_warnings.append("site-2: [bold]no markup[/bold] \\[x")
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(command._table(network))
    head, one, two, warning = (line.split() for line in console.export_text().splitlines())
    assert head == ["site", "state", "round", "guaranteed", "ε", "accuracy", "peers", "sent"]
    assert [one[0], one[1], *one[-7:]] == ["site-1", "running", "5/10", "1.5", "50.0", "%", "●○", "0.0", "MB"]
    assert " ".join(two).startswith("site-2 waiting for site-1 ━")
    assert two[-6:] == ["6/10", "none", "–", "●○", "0.0", "MB"]
    assert " ".join(warning) == "site-2: [bold]no markup[/bold] \\[x"
