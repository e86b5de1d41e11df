"""HTTP server for monitoring a site: /healthz as JSON, /metrics for Prometheus."""

from __future__ import annotations

import json
import logging
import math
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, get_args

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from tacit.errors import TacitError
from tacit.sites.names import parse_address
from tacit.sites.status import SiteState, SiteStatus
from tacit.sites.text import printable

log = logging.getLogger(__name__)
_REQUEST_TIMEOUT = 5.0  # seconds


class MetricsServer:
    """Serves GET /healthz (status 200, or 503 once the site has failed) and GET /metrics inside a `with` block.

    There is no access control, and the accuracy is measured on the site's own test records without noise: choose an
    address that only the organisation's own monitoring can reach. Port 0 selects a free port, which `address` contains.

    Example:
        with MetricsServer("127.0.0.1:9401", lambda: status) as server:
            print(f"http://{server.address}/healthz")
    """

    def __init__(self, address: str, status: Callable[[], SiteStatus]) -> None:
        host, port = parse_address(address)
        registry = CollectorRegistry()
        registry.register(_Metrics(status))
        try:
            self._server = _Server(host, port, status, registry)
        except OSError as error:
            raise TacitError(f"Cannot serve metrics at {printable(address)}: {error.strerror or error}") from None
        bound_host, bound_port = self._server.socket.getsockname()[:2]
        self.address = f"[{bound_host}]:{bound_port}" if ":" in bound_host else f"{bound_host}:{bound_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True)

    def __enter__(self) -> MetricsServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingTCPServer):
    """Unlike http.server's class, this one does not look up its own host name first."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, port: int, status: Callable[[], SiteStatus], registry: CollectorRegistry) -> None:
        self.status, self.registry = status, registry
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.warning("a monitoring request failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _REQUEST_TIMEOUT
    server_version, sys_version = "tacit", ""

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/healthz":
                status = self.server.status()
                text = json.dumps(status.as_dict(), ensure_ascii=False, allow_nan=False) + "\n"
                self._answer(503 if status.state == "failed" else 200, "application/json", text.encode())
            case "/metrics":
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest(self.server.registry))
            case _:
                self._not_found()

    def _not_found(self) -> None:
        self._answer(404, "text/plain; charset=utf-8", b"not found; available: /healthz, /metrics\n")

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _not_found

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        try:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if self.command != "HEAD" else b"")
        except OSError:  # the client has disconnected
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests are frequent."""


class _Metrics(Collector):
    """The status as Prometheus metrics. If nothing is guaranteed ε is +Inf, so that every alert on ε fires."""

    def __init__(self, status: Callable[[], SiteStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        now = self._status()
        names = {"site": now.site, "network": now.network, "digest": now.digest, "algorithm": now.algorithm}
        yield InfoMetricFamily("tacit_site", "Site, network, digest of its description, and algorithm", value=names)
        states = {state: state == now.state for state in get_args(SiteState)}
        yield _labelled("state", "1 for the current state of the site, 0 for the others", states)
        yield GaugeMetricFamily("tacit_round", "Complete rounds", now.round)
        yield GaugeMetricFamily("tacit_rounds", "Total number of rounds", now.rounds)
        yield GaugeMetricFamily(
            "tacit_epsilon_guaranteed", "Guaranteed epsilon so far, an upper bound", _epsilon(now.epsilon)
        )
        yield GaugeMetricFamily("tacit_epsilon_planned", "Guaranteed epsilon of the whole run", _epsilon(now.planned))
        yield GaugeMetricFamily("tacit_delta", "Delta of both epsilons", now.delta)
        if now.accuracy is not None:
            yield GaugeMetricFamily("tacit_accuracy", "Accuracy at the last evaluation", now.accuracy)
        yield _by_direction("messages", "Messages with values", now.sent, now.received)
        yield _by_direction("bytes", "Bytes of all messages", now.bytes_sent, now.bytes_received)
        yield CounterMetricFamily("tacit_refused", "Messages that were rejected", now.refused)
        yield CounterMetricFamily("tacit_missed", "Messages that arrived too late to be used", now.missed)
        yield CounterMetricFamily(
            "tacit_returned", "Messages of this site that were not used and whose values it took back", now.returned
        )
        peers = now.peers.items()
        for name, text, values in (
            ("peer_up", "Whether the neighbour is connected", {name: peer.up for name, peer in peers}),
            ("peer_round", "Rounds up to the last message from the neighbour", {n: peer.round for n, peer in peers}),
            ("peer_absent", "Whether the site continues without the neighbour", {n: peer.absent for n, peer in peers}),
        ):
            yield _labelled(name, text, values, "peer")


def _epsilon(value: float | None) -> float:
    return math.inf if value is None or math.isnan(value) else value


def _labelled(name: str, text: str, values: Mapping[str, int], label: str = "state") -> Metric:
    family = GaugeMetricFamily(f"tacit_{name}", text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], float(value))
    return family


def _by_direction(name: str, text: str, sent: int, received: int) -> Metric:
    family = CounterMetricFamily(f"tacit_{name}", text, labels=["direction"])
    family.add_metric(["sent"], sent)
    family.add_metric(["received"], received)
    return family
