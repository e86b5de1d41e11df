"""A whole network on one machine: seen as it is, ended as a whole, and never left behind."""

import io
import json
import os
import signal
import socket
import sys
import threading
import time

import pytest
import tomli_w
from rich.console import Console
from typer.testing import CliRunner

import tacit.cli.listing  # noqa: F401  (a command that is alone has no name)
import tacit.cli.up as command
from tacit.cli.app import app
from tacit.errors import TacitError
from tacit.sites import setup, site_process, supervisor
from tacit.sites.certificates import create_site_certificate
from tacit.sites.status import SiteStatus
from tacit.sites.supervisor import Supervisor

NAMES = ("site-1", "site-2")

# A site that learns nothing, but starts in no time. How it behaves is in a file beside its own.
FAKE = r"""
import http.server, json, os, pathlib, signal, sys, threading, time, tomllib

file = pathlib.Path(sys.argv[1])
site = tomllib.loads(file.read_text())
how = (file.parent / "how").read_text()
starts = file.parent / "starts"
starts.write_text((starts.read_text() if starts.exists() else "") + os.environ["OMP_NUM_THREADS"])
status = json.loads((file.parent / "status.json").read_text())


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"{" if how == "garbled" else json.dumps(status).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def say(level, event):
    print(json.dumps({"level": level, "event": event}), file=sys.stderr, flush=True)


def finish():
    status["state"] = "finished"
    state = file.parent / site["state"]
    state.mkdir()
    privacy = {"guaranteed": status["epsilon"] + 1, "claimed": None, "delta": 1e-4}
    result = {"rounds": 10, "accuracy": 0.75, "messages": 9, "bytes": 99, "privacy": privacy}
    (state / "result.json").write_text(json.dumps(result))


host, port = site["metrics_address"].split(":")
server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
say("info", "not of note")
if how == "fails":
    say("error", "stopped: the records are not there")
    sys.exit("error: cannot read records.npz: No such file or directory")
if how == "crashes":
    sys.exit(3)
if how == "killed" or (how == "killed once" and len(starts.read_text()) == 1):
    say("warning", "about to go")
    os.kill(os.getpid(), signal.SIGKILL)
if how in ("waits", "garbled"):
    time.sleep(60)
if how == "stubborn":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    (file.parent / "ready").touch()
    time.sleep(60)
finish()
if how == "lingers":
    time.sleep(60)
"""


def a_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two sites that do as they are told."""
    monkeypatch.setattr(supervisor, "_OFTEN", 0.05)
    create_site_certificate(tmp_path / "authority", "site-1")
    members = [{"name": name, "address": f"127.0.0.1:{a_port()}"} for name in NAMES]
    network = {
        "name": "hospitals",
        "rounds": 10,
        "data": {"inputs": [64], "classes": 10},
        "graph": "ring",
        "algorithm": "sgp",
        "model": "logistic",
        "privacy": {"delta": 1e-4},
        "sites": members,
    }
    (tmp_path / "network.toml").write_text(tomli_w.dumps(network))
    for number, name in enumerate(NAMES):
        pair = create_site_certificate(tmp_path / "authority", name)
        node = {
            "name": name,
            "network": "../network.toml",
            "metrics_address": f"127.0.0.1:{a_port()}",
            "state": "state",
            "certificates": {
                "certificate": str(pair.certificate),
                "key": str(pair.key),
                "authority": str(tmp_path / "authority/authority.crt"),
            },
            "data": {"name": "npz", "path": "records.npz"},
        }
        own = tmp_path / name
        own.mkdir()
        (own / "node.toml").write_text(tomli_w.dumps(node))
        (own / "how").write_text("finishes")
        (own / "status.json").write_text(json.dumps(status(name, number)))
    (tmp_path / "fake.py").write_text(FAKE)
    return tmp_path


def status(name, number):
    counts = dict.fromkeys(("sent", "received", "bytes_sent", "bytes_received", "refused", "missed", "returned"), 0)
    numbers = {"round": 5 + number, "rounds": 10, "epsilon": 1.5 + number, "delta": 1e-4, "planned": 3.0}
    peers = {"site-a": {"up": True, "round": 5, "absent": False}, "site-b": {"up": False, "round": 4, "absent": True}}
    names = {"site": name, "network": "hospitals", "digest": "0" * 64, "algorithm": "SGP", "state": "running"}
    return {**names, **numbers, **counts, "accuracy": 0.5, "waiting_for": [], "peers": peers}


def behave(folder, **how):
    for name, way in how.items():
        (folder / name.replace("_", "-") / "how").write_text(way)


def fake(folder):
    return lambda file: [sys.executable, "-I", "-S", str(folder / "fake.py"), str(file)]


def run(folder, watch=lambda network: None):
    network = Supervisor(folder, fake(folder))
    network.go(watch)
    assert all(site.process.returncode is not None for site in network.sites)
    return network


def test_all_finish(folder):
    network = run(folder)
    result = network.result()
    assert network.finished
    assert not network.interrupted
    assert result["error"] is None
    assert result["accuracy"] == 0.75
    assert result["privacy"]["guaranteed"] == 3.5  # of the worst: what they wrote at the end, not what they said before
    assert [site["round"] for site in result["sites"].values()] == [10, 10]
    assert [site["state"] for site in result["sites"].values()] == ["finished"] * 2
    json.dumps(result, allow_nan=False)
    threads = str(max(1, os.cpu_count() // 2))
    assert [(folder / name / "starts").read_text() for name in NAMES] == [
        os.environ.get("OMP_NUM_THREADS", threads)
    ] * 2


def stop_when_running(network, how):
    """Not before: a Python that is still starting may end otherwise than by the signal."""
    if all(site.status.state == "running" for site in network.sites) and not network.interrupted:
        os.kill(os.getpid(), how)


def test_what_they_say_is_seen(folder):
    seen = []

    def watch(network):
        seen.append([site.status for site in network.sites])
        stop_when_running(network, signal.SIGINT)

    behave(folder, site_1="waits", site_2="waits")
    network = run(folder, watch)
    assert network.interrupted
    assert not network.finished
    assert network.result()["error"] is None
    assert {each.state for each in seen[0]} <= {"starting", "running"}
    assert [(each.site, each.round, each.epsilon) for each in seen[-1]] == [("site-1", 5, 1.5), ("site-2", 6, 2.5)]
    assert seen[-1][0].peers["site-a"].up
    assert [site.process.returncode for site in network.sites] == [-signal.SIGINT] * 2


def test_sites_heed_what_their_starter_was_told_to_ignore(folder):
    """As a shell tells what it starts in the background."""
    behave(folder, site_1="waits", site_2="waits")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        network = run(folder, lambda network: stop_when_running(network, signal.SIGTERM))
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert [site.process.returncode for site in network.sites] == [-signal.SIGINT] * 2


def test_an_answer_that_makes_no_sense_is_none(folder):
    behave(folder, site_1="garbled", site_2="waits")
    (folder / "site-2/status.json").write_text(json.dumps(status("site-1", 1)))  # another site's
    began = time.monotonic()

    def watch(network):
        assert [site.status.state for site in network.sites] == ["starting"] * 2
        if time.monotonic() > began + 1 and not network.interrupted:
            os.kill(os.getpid(), signal.SIGTERM)

    assert run(folder, watch).interrupted


def test_one_that_fails_stops_all_and_says_why(folder):
    behave(folder, site_1="waits", site_2="fails")
    network = run(folder)
    assert not network.finished
    assert network.result()["error"] == "site-2: cannot read records.npz: No such file or directory"
    assert network.result()["privacy"] is None
    assert network.sites[1].status.state == "failed"
    assert list(network.notes) == [
        "site-2: stopped: the records are not there",
        "site-2: cannot read records.npz: No such file or directory",
    ]


def test_one_that_fails_without_a_word(folder):
    behave(folder, site_2="crashes")
    assert run(folder).result()["error"] == "site-2: it ended with exit code 3"


def test_one_that_is_killed_is_started_again(folder):
    behave(folder, site_1="killed once")
    network = run(folder)
    assert network.finished
    assert list(network.notes) == ["site-1: about to go", "site-1: killed by SIGKILL, and started again"]


def test_but_not_for_ever(folder):
    behave(folder, site_1="killed")
    network = run(folder)
    assert not network.finished
    assert network.result()["error"] == "site-1: it was killed by SIGKILL"
    assert len((folder / "site-1/starts").read_text()) == site_process._STARTS


def test_sites_that_stay_when_all_have_finished_are_told_to_stop(folder, monkeypatch):
    monkeypatch.setattr(supervisor, "_GRACE", 0.3)
    behave(folder, site_1="lingers")
    assert run(folder).finished


@pytest.mark.parametrize("patience", [0.3, 60.0])
def test_one_that_does_not_stop_is_killed(folder, monkeypatch, patience):
    """After a while, or when who asked asks again."""
    monkeypatch.setattr(supervisor, "_GRACE", patience)
    behave(folder, site_1="stubborn", site_2="stubborn")

    def watch(network):
        if not network.interrupted and all((folder / name / "ready").exists() for name in NAMES):
            os.kill(os.getpid(), signal.SIGINT)
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

    def heard(*_):
        pass

    before = signal.signal(signal.SIGINT, heard)  # the second may come when all is over
    try:
        network = run(folder, watch)
        time.sleep(0.3)
    finally:
        signal.signal(signal.SIGINT, before)
    assert [site.process.returncode for site in network.sites] == [-signal.SIGKILL] * 2


def test_a_site_must_be_seen(folder):
    text = (folder / "site-1/node.toml").read_text()
    (folder / "site-1/node.toml").write_text(
        "\n".join(line for line in text.splitlines() if "metrics_address" not in line)
    )
    with pytest.raises(TacitError, match=r"site-1/node.toml has no metrics_address: add one"):
        Supervisor(folder)


@pytest.fixture
def tacit_up(folder, monkeypatch):
    monkeypatch.setattr(Supervisor, "__init__", lambda self, at, real=Supervisor.__init__: real(self, at, fake(folder)))
    return lambda *options: CliRunner().invoke(app, ["up", str(folder), *options])


def test_the_command(tacit_up, folder):
    done = tacit_up()
    assert done.exit_code == 0
    first, second, third = done.stdout.splitlines()
    assert first == "All 2 sites of hospitals have finished after 10 rounds, and stopped: mean accuracy 75.0%."
    assert second.startswith("The site that spent most: Guaranteed ε = 3.5 at δ = 0.0001 for each record")
    assert third.startswith(f"Everything is in {folder}; ")
    assert " of 10  2 " in done.stderr.splitlines()[0]


def test_the_command_in_json(tacit_up):
    done = tacit_up("--json", "--sites", "2")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["finished"] is True


def test_the_command_tells_who_failed(tacit_up, folder):
    behave(folder, site_1="waits", site_2="fails")
    done = tacit_up()
    assert done.exit_code == 1
    assert "error: site-2: cannot read records.npz: No such file or directory\n" in done.stderr
    assert done.stdout.startswith("All 2 sites have stopped; ")


def test_the_command_is_stopped(tacit_up, folder, monkeypatch):
    behave(folder, site_1="waits", site_2="waits")
    go = Supervisor.go
    monkeypatch.setattr(
        Supervisor, "go", lambda self, show: go(self, lambda n: (show(n), stop_when_running(n, signal.SIGINT)))
    )
    done = tacit_up()
    assert done.exit_code == 130
    assert done.stdout.endswith(f"Resume with: tacit up {folder}\n")


def test_the_command_makes_what_is_not_there(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(setup, "create_network", lambda folder, sites: made.append((folder, sites)))
    for options, count in (([], 6), (["--sites", "3"], 3)):
        done = CliRunner().invoke(app, ["up", str(tmp_path / "new"), *options])
        assert isinstance(done.exception, TacitError)  # for nothing was made
        assert made.pop() == (tmp_path / "new", count)


def test_the_command_does_not_change_what_is_there(tacit_up):
    done = tacit_up("--sites", "3")
    assert str(done.exception).endswith("has 2 sites, not 3: leave out --sites, or name a new folder")


def test_the_table(folder):
    network = Supervisor(folder, fake(folder))
    for number, site in enumerate(network.sites):
        site.status = SiteStatus.from_dict(status(site.name, number))
    network.sites[1].status = SiteStatus.from_dict(
        status("site-2", 1) | {"state": "waiting", "waiting_for": ["site-1"], "epsilon": None, "accuracy": None}
    )
    network.notes.append("site-2: [bold]no markup[/bold] \\[x")
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(command._table(network))
    head, one, two, note = (line.split() for line in console.export_text().splitlines())
    assert head == ["site", "state", "round", "guaranteed", "ε", "accuracy", "peers", "sent"]
    assert [one[0], one[1], *one[-6:]] == ["site-1", "running", "5/10", "1.5", "50.0%", "●○", "0.0", "MB"]
    assert " ".join(two).startswith("site-2 waiting for site-1 ━")
    assert two[-6:] == ["6/10", "none", "–", "●○", "0.0", "MB"]
    assert " ".join(note) == "site-2: [bold]no markup[/bold] \\[x"
