"""A site seen from outside: /healthz for whoever starts it again, /metrics for Prometheus."""

from __future__ import annotations

import json
import logging
import math
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, get_args

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from tacit.errors import TacitError
from tacit.sites.status import SiteState, SiteStatus
from tacit.sites.text import printable

log = logging.getLogger(__name__)
_PATIENCE = 5.0  # seconds that whoever asks has to finish the question


class MetricsServer:
    """Answers GET /healthz (200, or 503 once the site has failed) and GET /metrics while the context lasts.

    It tells numbers and names, no values, and asks nobody who they are: the address should be one that only watchers
    reach. Port 0 is any that is free; `address` is the one it has.

        with MetricsServer("127.0.0.1:9401", lambda: status) as watch:
            print(f"http://{watch.address}/healthz")
    """

    def __init__(self, address: str, status: Callable[[], SiteStatus]) -> None:
        host, port = parse_address(address)
        registry = CollectorRegistry()
        registry.register(_Metrics(status))
        try:
            self._server = _Server(host, port, status, registry)
        except OSError as error:
            raise TacitError(f"cannot answer watchers at {printable(address)}: {error.strerror or error}") from None
        own, real = self._server.socket.getsockname()[:2]
        self.address = f"[{own}]:{real}" if ":" in own else f"{own}:{real}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="watch", daemon=True)

    def __enter__(self) -> MetricsServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def parse_address(address: str) -> tuple[str, int]:
    """HOST:PORT in its two parts.

    >>> parse_address("[::1]:9401")
    ('::1', 9401)
    """
    host, _, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not bare or ((":" in bare) != (host == f"[{bare}]")) or not port.isdecimal() or int(port) > 65535:
        raise TacitError(f'"{printable(address)}" is no address: it takes a host and a port, such as 127.0.0.1:9401')
    return bare, int(port)


class _Server(socketserver.ThreadingTCPServer):
    """Not the one of http.server, which asks the name service for its own name first."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, port: int, status: Callable[[], SiteStatus], registry: CollectorRegistry) -> None:
        self.status, self.registry = status, registry
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.warning("a watcher got no answer", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _PATIENCE
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
                self._absent()

    def _absent(self) -> None:
        self._answer(404, "text/plain; charset=utf-8", b"there are /healthz and /metrics\n")

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _absent

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        try:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if self.command != "HEAD" else b"")
        except OSError:  # who asked has gone
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: being watched is no event."""


class _Metrics(Collector):
    """A status as Prometheus sees it. Where nothing is guaranteed ε is infinite, which any alert on it notices."""

    def __init__(self, status: Callable[[], SiteStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        now = self._status()
        names = {"site": now.site, "network": now.network, "digest": now.digest, "algorithm": now.algorithm}
        yield InfoMetricFamily("tacit_site", "Which site this is, of which network", value=names)
        yield _by(
            "state", "Whether the site is in this state", {state: state == now.state for state in get_args(SiteState)}
        )
        yield GaugeMetricFamily("tacit_round", "Rounds done", now.round)
        yield GaugeMetricFamily("tacit_rounds", "Rounds of the whole run", now.rounds)
        yield GaugeMetricFamily("tacit_epsilon_guaranteed", "ε spent so far, an upper bound", _epsilon(now.epsilon))
        yield GaugeMetricFamily("tacit_epsilon_planned", "Guaranteed ε of the whole run", _epsilon(now.planned))
        yield GaugeMetricFamily("tacit_delta", "δ that both are for", now.delta)
        if now.accuracy is not None:
            yield GaugeMetricFamily("tacit_accuracy", "Accuracy at the last evaluation", now.accuracy)
        yield _both("messages", "Messages with values", now.sent, now.received)
        yield _both("bytes", "Bytes of messages", now.bytes_sent, now.bytes_received)
        yield CounterMetricFamily("tacit_refused", "Messages that were not let in", now.refused)
        yield CounterMetricFamily("tacit_missed", "Messages that the site went on without", now.missed)
        yield CounterMetricFamily("tacit_returned", "Own messages whose values were taken back", now.returned)
        peers = now.peers.items()
        yield _by("peer_up", "Whether the neighbour is connected", {name: peer.up for name, peer in peers}, "peer")
        yield _by("peer_round", "Round it was last heard of", {name: peer.round for name, peer in peers}, "peer")
        yield _by("peer_absent", "Whether we go on without it", {name: peer.absent for name, peer in peers}, "peer")


def _epsilon(value: float | None) -> float:
    return math.inf if value is None or math.isnan(value) else value


def _by(name: str, what: str, values: dict[str, int] | dict[str, bool], label: str = "state") -> Metric:
    family = GaugeMetricFamily(f"tacit_{name}", what, labels=[label])
    for key, value in values.items():
        family.add_metric([key], float(value))
    return family


def _both(name: str, what: str, sent: int, received: int) -> Metric:
    family = CounterMetricFamily(f"tacit_{name}", what, labels=["direction"])
    family.add_metric(["sent"], sent)
    family.add_metric(["received"], received)
    return family
