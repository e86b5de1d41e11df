"""The metrics server publishes the site's status and survives bad requests."""

import http.client
import json
import math
import socket
from dataclasses import replace
from types import MappingProxyType

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tacit.errors import TacitError
from tacit.sites.metrics_server import MetricsServer
from tacit.sites.names import parse_address
from tacit.sites.status import PeerStatus, SiteStatus

STATUS = SiteStatus(
    site="site-1",
    network="hospitals",
    digest="ab" * 32,
    algorithm="Dyn-D²P",
    state="running",
    waiting_for=("site-2",),
    round=12,
    rounds=100,
    epsilon=1.25,
    delta=1e-4,
    planned=3.0,
    accuracy=0.875,
    sent=24,
    received=23,
    bytes_sent=4096,
    bytes_received=2048,
    refused=3,
    missed=1,
    returned=2,
    peers=MappingProxyType({"site-2": PeerStatus(True, 12, False), "site-6": PeerStatus(False, 9, True)}),
)


@pytest.fixture
def site():
    """A list with the current status, which tests change, and the address of the server."""
    box = [STATUS]
    with MetricsServer("127.0.0.1:0", lambda: box[0]) as server:
        yield box, server.address


def ask(address, path, method="GET", **headers):
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def metrics(address):
    code, text, headers = ask(address, "/metrics")
    assert code == 200
    assert headers["Content-Type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(text)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_status_survives_json():
    assert SiteStatus.from_dict(json.loads(json.dumps(STATUS.as_dict()))) == replace(STATUS, peers=dict(STATUS.peers))
    infinite = replace(STATUS, epsilon=math.inf, planned=math.nan, accuracy=None).as_dict()
    assert infinite["epsilon"] is infinite["planned"] is infinite["accuracy"] is None


@pytest.mark.parametrize(
    "table", [None, [], {}, STATUS.as_dict() | {"state": "happy"}, STATUS.as_dict() | {"peers": {"a": {"up": 1}}}]
)
def test_invalid_status_is_refused(table):
    with pytest.raises(TacitError, match=r"^the status: "):
        SiteStatus.from_dict(table)


def test_healthz_returns_the_status(site):
    box, address = site
    for state in ("starting", "waiting", "running", "finished", "failed"):
        box[0] = replace(STATUS, state=state)
        code, text, headers = ask(address, "/healthz?now")
        assert code == (503 if state == "failed" else 200)
        assert headers["Content-Type"] == "application/json"
        assert json.loads(text) == json.loads(json.dumps(box[0].as_dict()))


def test_metrics_contain_the_status(site):
    box, address = site
    now = metrics(address)
    expected = {
        ("tacit_round",): 12,
        ("tacit_rounds",): 100,
        ("tacit_epsilon_guaranteed",): 1.25,
        ("tacit_epsilon_planned",): 3.0,
        ("tacit_delta",): 1e-4,
        ("tacit_accuracy",): 0.875,
        ("tacit_messages_total", "sent"): 24,
        ("tacit_messages_total", "received"): 23,
        ("tacit_bytes_total", "sent"): 4096,
        ("tacit_bytes_total", "received"): 2048,
        ("tacit_refused_total",): 3,
        ("tacit_missed_total",): 1,
        ("tacit_returned_total",): 2,
        ("tacit_peer_up", "site-2"): 1,
        ("tacit_peer_up", "site-6"): 0,
        ("tacit_peer_round", "site-2"): 12,
        ("tacit_peer_round", "site-6"): 9,
        ("tacit_peer_absent", "site-2"): 0,
        ("tacit_peer_absent", "site-6"): 1,
        **{("tacit_state", state): 0 for state in ("starting", "waiting", "finished", "failed")},
        ("tacit_state", "running"): 1,
    }
    (info,) = set(now) - set(expected)
    assert info[0] == "tacit_site_info"
    assert set(info[1:]) == {"site-1", "hospitals", "ab" * 32, "Dyn-D²P"}
    assert {key: now[key] for key in expected} == expected
    box[0] = replace(STATUS, round=13)
    assert metrics(address)[("tacit_round",)] == 13


def test_epsilon_without_guarantee_is_infinite(site):
    box, address = site
    box[0] = replace(STATUS, epsilon=None, planned=None, accuracy=None)
    now = metrics(address)
    assert now[("tacit_epsilon_guaranteed",)] == now[("tacit_epsilon_planned",)] == math.inf
    assert ("tacit_accuracy",) not in now


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "HEAD"])
def test_other_paths_and_methods_are_not_found(site, method):
    _, address = site
    assert ask(address, "/", method)[0] == ask(address, "/healthz/..", method)[0] == 404
    assert method == "GET" or ask(address, "/healthz", method)[0] == 404


def test_bad_requests_do_not_disturb_others(site, capfd):
    _, address = site
    for request in (b"\0\xff" * 100, b"GET", b"GET /healthz HTTP/1.1\r\n" + b"x: y\r\n" * 200 + b"\r\n", b""):
        with socket.create_connection(parse_address(address), timeout=5) as client:
            client.sendall(request)
            assert ask(address, "/healthz")[0] == 200
    assert capfd.readouterr() == ("", "")


def test_failing_status_is_logged(caplog):
    def broken():
        raise RuntimeError("no status")

    with MetricsServer("127.0.0.1:0", broken) as server, pytest.raises(http.client.HTTPException):
        ask(server.address, "/healthz")
    assert [record.message for record in caplog.records] == ["a monitoring request failed"]


def test_addresses():
    with MetricsServer("127.0.0.1:0", lambda: STATUS) as server:
        assert parse_address(server.address)[1] > 0
        with pytest.raises(TacitError, match=rf"Cannot serve metrics at {server.address}: Address already in use"):
            MetricsServer(server.address, lambda: STATUS)
    with MetricsServer(server.address, lambda: STATUS) as again:  # the port is free again
        assert ask(again.address, "/healthz")[0] == 200
    with pytest.raises(TacitError, match=r"Cannot serve metrics at 192\.0\.2\.1:0: "):
        MetricsServer("192.0.2.1:0", lambda: STATUS)


@pytest.mark.parametrize(
    "address", ["", ":80", "127.0.0.1", "127.0.0.1:", "::1:80", "[a]:80", "a:x", "a:65536", "a:-1"]
)
def test_invalid_addresses(address):
    with pytest.raises(TacitError, match=r"Invalid address .*: use HOST:PORT"):
        parse_address(address)
