"""Two sites whose processes train nothing and start at once, for tests of the supervisor and of `tacit up`."""

import json
import os
import signal
import socket
import sys

import tomli_w

from tacit.sites.certificates import create_site_certificate
from tacit.sites.supervisor import Supervisor

NAMES = ("site-1", "site-2")

# The process of a fake site. The file "behaviour" beside its node.toml contains what it does.
_PROGRAM = r"""
import http.server, json, os, pathlib, signal, sys, threading, time, tomllib

file = pathlib.Path(sys.argv[1])
site = tomllib.loads(file.read_text())
behaviour = (file.parent / "behaviour").read_text()
starts = file.parent / "starts"
starts.write_text((starts.read_text() if starts.exists() else "") + os.environ["OMP_NUM_THREADS"])
status = json.loads((file.parent / "status.json").read_text())


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"{" if behaviour == "invalid status" else json.dumps(status).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def log(level, event):
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
log("info", "below the level of a warning")
if behaviour == "fail":
    log("error", "stopped: no records")
    sys.exit("error: Cannot read records.npz: No such file or directory")
if behaviour == "exit 3":
    sys.exit(3)
if behaviour == "be killed" or (behaviour == "be killed once" and len(starts.read_text()) == 1):
    log("warning", "before the kill")
    os.kill(os.getpid(), signal.SIGKILL)
if behaviour in ("run", "invalid status"):
    time.sleep(60)
if behaviour == "ignore SIGINT":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    (file.parent / "ready").touch()
    time.sleep(60)
finish()
if behaviour == "finish but stay":
    time.sleep(60)
"""


def create_fake_network(folder):
    """Write network.toml and two sites with status and behaviour "finish" to `folder`."""
    members = [{"name": name, "address": f"127.0.0.1:{_free_port()}"} for name in NAMES]
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
    (folder / "network.toml").write_text(tomli_w.dumps(network))
    for number, name in enumerate(NAMES):
        site = folder / name
        site.mkdir()
        (site / "node.toml").write_text(tomli_w.dumps(_node_table(folder, name)))
        (site / "status.json").write_text(json.dumps(fake_status(name, number)))
        (site / "behaviour").write_text("finish")
    (folder / "fake_site.py").write_text(_PROGRAM)


def _node_table(folder, name):
    files = create_site_certificate(folder / "authority", name)
    return {
        "name": name,
        "network": "../network.toml",
        "metrics_address": f"127.0.0.1:{_free_port()}",
        "state": "state",
        "certificates": {
            "certificate": str(files.certificate),
            "key": str(files.key),
            "authority": str(folder / "authority/authority.crt"),
        },
        "data": {"name": "npz", "path": "records.npz"},
    }


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def fake_status(name, number):
    counts = dict.fromkeys(("sent", "received", "bytes_sent", "bytes_received", "refused", "missed", "returned"), 0)
    numbers = {"round": 5 + number, "rounds": 10, "epsilon": 1.5 + number, "delta": 1e-4, "planned": 3.0}
    peers = {"site-a": {"up": True, "round": 5, "absent": False}, "site-b": {"up": False, "round": 4, "absent": True}}
    names = {"site": name, "network": "hospitals", "digest": "0" * 64, "algorithm": "SGP", "state": "running"}
    return {**names, **numbers, **counts, "accuracy": 0.5, "waiting_for": [], "peers": peers}


def set_behaviour(folder, **behaviours):
    for name, behaviour in behaviours.items():
        (folder / name.replace("_", "-") / "behaviour").write_text(behaviour)


def fake_command(folder):
    return lambda file: [sys.executable, "-I", "-S", str(folder / "fake_site.py"), str(file)]


def supervise(folder, on_update=lambda supervisor: None):
    """Run both sites to their end, and check that no process is left."""
    supervisor = Supervisor(folder, fake_command(folder))
    supervisor.go(on_update)
    assert all(site.process.returncode is not None for site in supervisor.sites)
    return supervisor


def stop_when_running(supervisor, number=signal.SIGINT):
    """Send a signal once both sites run: a Python process that is still starting may end in another way."""
    if all(site.status.state == "running" for site in supervisor.sites) and not supervisor.interrupted:
        os.kill(os.getpid(), number)
