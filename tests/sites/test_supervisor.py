"""The supervisor shows the status of all sites, stops them together, and leaves no process running."""

import json
import os
import signal
import threading
import time

import pytest

from tacit.errors import TacitError
from tacit.sites import site_process, supervisor
from tacit.sites.supervisor import Supervisor

from .fake_sites import NAMES, create_fake_network, fake_status, set_behaviour, stop_when_running, supervise


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "_POLL_INTERVAL", 0.05)
    create_fake_network(tmp_path)
    return tmp_path


def test_all_sites_finish(folder):
    network = supervise(folder)
    result = network.result()
    assert network.finished
    assert not network.interrupted
    assert result["error"] is None
    assert result["accuracy"] == 0.75
    assert result["privacy"]["guaranteed"] == 3.5  # of the worst site, from result.json and not from the last status
    assert [site["round"] for site in result["sites"].values()] == [10, 10]
    assert [site["state"] for site in result["sites"].values()] == ["finished"] * 2
    json.dumps(result, allow_nan=False)
    threads = os.environ.get("OMP_NUM_THREADS", str(max(1, os.cpu_count() // 2)))
    assert [(folder / name / "starts").read_text() for name in NAMES] == [threads] * 2


def test_status_of_running_sites_and_interrupt(folder):
    seen = []

    def on_update(network):
        seen.append([site.status for site in network.sites])
        stop_when_running(network)

    set_behaviour(folder, site_1="run", site_2="run")
    network = supervise(folder, on_update)
    assert network.interrupted
    assert not network.finished
    assert network.result()["error"] is None
    assert {each.state for each in seen[0]} <= {"starting", "running"}
    assert [(each.site, each.round, each.epsilon) for each in seen[-1]] == [("site-1", 5, 1.5), ("site-2", 6, 2.5)]
    assert seen[-1][0].peers["site-a"].up
    assert [site.process.returncode for site in network.sites] == [-signal.SIGINT] * 2


def test_sites_stop_although_sigint_was_ignored(folder):
    """A shell ignores SIGINT in processes that it starts in the background."""
    set_behaviour(folder, site_1="run", site_2="run")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        network = supervise(folder, lambda network: stop_when_running(network, signal.SIGTERM))
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert [site.process.returncode for site in network.sites] == [-signal.SIGINT] * 2


def test_invalid_status_is_ignored(folder):
    set_behaviour(folder, site_1="invalid status", site_2="run")
    (folder / "site-2/status.json").write_text(json.dumps(fake_status("site-1", 1)))  # of another site
    began = time.monotonic()

    def on_update(network):
        assert [site.status.state for site in network.sites] == ["starting"] * 2
        if time.monotonic() > began + 1 and not network.interrupted:
            os.kill(os.getpid(), signal.SIGTERM)

    assert supervise(folder, on_update).interrupted


def test_failed_site_stops_all_with_its_error(folder):
    set_behaviour(folder, site_1="run", site_2="fail")
    network = supervise(folder)
    assert not network.finished
    assert network.result()["error"] == "site-2: Cannot read records.npz: No such file or directory"
    assert network.result()["privacy"] is None
    assert network.sites[1].status.state == "failed"
    assert list(network.recent_warnings) == [
        "site-2: stopped: no records",
        "site-2: Cannot read records.npz: No such file or directory",
    ]


def test_failure_without_log_reports_the_exit_code(folder):
    set_behaviour(folder, site_2="exit 3")
    assert supervise(folder).result()["error"] == "site-2: exit code 3"


def test_killed_site_is_restarted(folder):
    set_behaviour(folder, site_1="be killed once")
    network = supervise(folder)
    assert network.finished
    assert list(network.recent_warnings) == ["site-1: before the kill", "site-1: killed by SIGKILL; restarted"]


def test_number_of_restarts_is_limited(folder):
    set_behaviour(folder, site_1="be killed")
    network = supervise(folder)
    assert not network.finished
    assert network.result()["error"] == "site-1: killed by SIGKILL"
    assert len((folder / "site-1/starts").read_text()) == site_process._MAX_STARTS


def test_finished_sites_that_do_not_exit_are_interrupted(folder, monkeypatch):
    monkeypatch.setattr(supervisor, "_STOP_TIMEOUT", 0.3)
    set_behaviour(folder, site_1="finish but stay")
    assert supervise(folder).finished


@pytest.mark.parametrize("timeout", [0.3, 60.0])
def test_sites_that_do_not_stop_are_killed(folder, monkeypatch, timeout):
    """They are killed after the timeout, or after a second Ctrl-C."""
    monkeypatch.setattr(supervisor, "_STOP_TIMEOUT", timeout)
    set_behaviour(folder, site_1="ignore SIGINT", site_2="ignore SIGINT")

    def on_update(network):
        if not network.interrupted and all((folder / name / "ready").exists() for name in NAMES):
            os.kill(os.getpid(), signal.SIGINT)
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

    def ignore(*_):
        pass

    before = signal.signal(signal.SIGINT, ignore)  # the second signal may arrive after the end
    try:
        network = supervise(folder, on_update)
        time.sleep(0.3)
    finally:
        signal.signal(signal.SIGINT, before)
    assert [site.process.returncode for site in network.sites] == [-signal.SIGKILL] * 2


def test_metrics_address_is_required(folder):
    text = (folder / "site-1/node.toml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("metrics_address")]
    (folder / "site-1/node.toml").write_text("\n".join(lines))
    with pytest.raises(TacitError, match=r"site-1/node.toml has no metrics_address: add one"):
        Supervisor(folder)
