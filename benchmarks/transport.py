"""`python -m benchmarks.transport`: messages between two sites over gRPC and over bare TLS, as a ratio in one run.

Two processes on this machine, mutual TLS on both sides, messages of 4 MB one way and a short answer at the end. The
contenders take turns, so that whatever else the machine does hits all of them alike. On a busy machine a contender with
more threads gets a larger share of it: there the processor time of both ends says more than the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing as mp
import socket
import ssl
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import torch

from tacit.sites.certificates import CertificateFiles, create_authority, create_site_certificate
from tacit.sites.grpc_options import METHOD, SERVICE, channel_options
from tacit.sites.identity import SiteIdentity
from tacit.sites.journal import digest
from tacit.sites.message import Link, Message, MessageKind
from tacit.sites.wire import decode, encode
from tacit.tasks import keep_freed_memory

_BUFFER = 8 << 20  # of the bare sockets: with the usual ones each side waits for the other to be scheduled
LINK = Link("0" * 64, "site-a", "site-b")
Options = tuple[tuple[str, int], ...]
_SIZES: Options = (("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20))


class Speed(NamedTuple):
    """Megabytes a second by the clock, and by the processor time of the end that needed more of it."""

    clock: float
    processor: float


@dataclass(frozen=True)
class Contender:
    """A way to carry messages; with `chunk`, a message goes in pieces of so many bytes; or it is encoded and read."""

    name: str
    grpc: bool = True
    options: Options = ()
    chunk: int | None = None
    wire: bool = False


FRAMES: Options = (("grpc.http2.max_frame_size", 4 << 20),)
WINDOW: Options = (("grpc.http2.lookahead_bytes", 16 << 20), ("grpc.http2.bdp_probe", 0))
BUFFER: Options = (("grpc.http2.write_buffer_size", 16 << 20),)
READS: Options = (
    ("grpc.experimental.tcp_read_chunk_size", 1 << 20),
    ("grpc.experimental.tcp_max_read_chunk_size", 8 << 20),
)
CONTENDERS = [
    Contender("bare TLS", grpc=False),
    Contender("bare TLS, encoded and read", grpc=False, wire=True),
    Contender("gRPC"),
    Contender("gRPC, frames of 4 MB", options=FRAMES),
    Contender("gRPC, window of 16 MB", options=WINDOW),
    Contender("gRPC, frames and window", options=FRAMES + WINDOW),
    Contender("gRPC, frames, window, write buffer", options=FRAMES + WINDOW + BUFFER),
    Contender("gRPC, frames, window, large reads", options=FRAMES + WINDOW + READS),
    Contender("gRPC, pieces of 1 MB", chunk=1 << 20),
    Contender("gRPC, pieces of 256 kB", chunk=256 << 10),
    Contender("sites", options=channel_options()),
    Contender("sites, encoded and read", options=channel_options(), wire=True),
    Contender("gRPC, encoded and read", wire=True),
    Contender("gRPC, pieces of 1 MB, encoded and read", chunk=1 << 20, wire=True),
]


Spent = tuple[float, float]


def _clocks() -> Spent:
    return time.perf_counter(), time.process_time()


def _since(began: Spent) -> Spent:
    now = _clocks()
    return now[0] - began[0], now[1] - began[1]


def _identity(folder: Path, name: str) -> SiteIdentity:
    pair = CertificateFiles.in_folder(folder, name)
    return SiteIdentity.load(pair.certificate, pair.key, folder / "authority.crt")


def _messages(contender: Contender, values: torch.Tensor, count: int) -> Iterator[bytes]:
    """The same bytes again and again, or, encoded anew, those of `count` rounds."""
    once = encode(Message(LINK, MessageKind.MIX, 0, tensors={"0": values}))
    return (
        encode(Message(LINK, MessageKind.MIX, t, tensors={"0": values})) if contender.wire else once
        for t in range(count)
    )


def _take(data: bytes) -> None:
    decode(data, LINK)
    digest(data)


def _fill(connection: ssl.SSLSocket, view: memoryview) -> memoryview:
    had = 0
    while had < len(view):
        got = connection.recv_into(view[had:])
        if not got:
            raise ConnectionError("the other side has gone")
        had += got
    return view


def _serve_tls(contender: Contender, folder: Path, ready: Connection) -> None:
    context = _identity(folder, LINK.receiver).context(ssl.Purpose.CLIENT_AUTH)
    room = memoryview(bytearray(64 << 20))  # taken once: what is fastest is the measure
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        ready.send(listener.getsockname()[1])
        while True:
            with context.wrap_socket(listener.accept()[0], server_side=True) as connection:
                for _ in range(int.from_bytes(_fill(connection, room[:8]))):
                    data = _fill(connection, room[: int.from_bytes(_fill(connection, room[:8]))])
                    if contender.wire:
                        _take(bytes(data))
                connection.sendall(b"1")


def _send_tls(contender: Contender, folder: Path, port: int, messages: Iterator[bytes], count: int) -> Spent:
    context = _identity(folder, LINK.sender).context(ssl.Purpose.SERVER_AUTH)
    plain = socket.create_connection(("127.0.0.1", port))
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    with context.wrap_socket(plain, server_hostname=LINK.receiver) as connection:
        began = _clocks()
        connection.sendall(count.to_bytes(8))
        for data in messages:
            connection.sendall(len(data).to_bytes(8))
            connection.sendall(data)
        connection.recv(1)
        return _since(began)


async def _serve_grpc(contender: Contender, folder: Path, ready: Connection) -> None:
    async def exchange(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        parts: list[bytes] = []
        async for part in requests:
            parts.append(part)
            if contender.chunk is None or len(part) < contender.chunk:
                data, parts = part if len(parts) == 1 else b"".join(parts), []
                if contender.wire:
                    _take(data)
        yield b"1"

    server = grpc.aio.server(options=_SIZES + contender.options)
    handler = grpc.stream_stream_rpc_method_handler(exchange)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])
    port = server.add_secure_port("127.0.0.1:0", _identity(folder, LINK.receiver).server_credentials())
    await server.start()
    ready.send(port)
    await server.wait_for_termination()


async def _send_grpc(contender: Contender, folder: Path, port: int, messages: Iterator[bytes], count: int) -> Spent:
    identity = _identity(folder, LINK.sender)
    chosen = _SIZES + contender.options + tuple(identity.channel_options(LINK.receiver))
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", identity.channel_credentials(), chosen) as channel:
        await channel.channel_ready()
        call = channel.stream_stream(f"/{SERVICE}/{METHOD}")()
        began = _clocks()
        for data in messages:
            size = contender.chunk or len(data)
            for start in range(0, len(data), size):
                await call.write(data if size == len(data) else data[start : start + size])
        await call.done_writing()
        await call.read()
        return _since(began)


def _settle() -> None:
    """As in a site's process: freed memory is kept, without which faulting in pages takes longer than TLS."""
    torch.set_num_threads(1)
    keep_freed_memory()


def _serve(contender: Contender, folder: Path, ready: Connection) -> None:
    _settle()
    if contender.grpc:
        asyncio.run(_serve_grpc(contender, folder, ready))
    else:
        _serve_tls(contender, folder, ready)


def _sender(contender: Contender, folder: Path, pipe: Connection) -> None:
    """In a process of its own: gRPC leaves threads behind that would run beside the next contender."""
    _settle()
    send: Callable[..., Any] = _send_grpc if contender.grpc else _send_tls
    while True:
        port, megabytes, count = pipe.recv()
        messages = _messages(contender, torch.randn(int(megabytes * 1e6 / 4)), count)
        seconds = send(contender, folder, port, messages, count)
        pipe.send(asyncio.run(seconds) if contender.grpc else seconds)


class _Running:
    def __init__(self, contender: Contender, folder: Path) -> None:
        spawn = mp.get_context("spawn")
        ready, far = spawn.Pipe()
        self._pipe, end = spawn.Pipe()
        self._all = [
            spawn.Process(target=_serve, args=(contender, folder, far), daemon=True),
            spawn.Process(target=_sender, args=(contender, folder, end), daemon=True),
        ]
        for process in self._all:
            process.start()
        self._port = ready.recv()
        self._used = 0.0

    def time(self, megabytes: float, count: int) -> Speed:
        self._pipe.send((self._port, megabytes, count))
        seconds, mine = self._pipe.recv()
        return Speed(megabytes * count / seconds, megabytes * count / max(mine, self._served()))

    def _served(self) -> float:
        """Processor time of the server since the last time."""
        assert self._all[0].pid is not None
        before, self._used = self._used, time.clock_gettime((~self._all[0].pid << 3) | 2)  # its clock, on Linux
        return self._used - before

    def stop(self) -> None:
        for process in self._all:
            process.kill()
            process.join()


def compare(contenders: list[Contender], megabytes: float, count: int, turns: int) -> dict[str, list[Speed]]:
    """What each contender carries, turn by turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        create_authority(folder)
        for site in (LINK.sender, LINK.receiver):
            create_site_certificate(folder, site)
        running = {contender.name: _Running(contender, folder) for contender in contenders}
        try:
            speeds: dict[str, list[Speed]] = {name: [] for name in running}
            for turn in range(turns + 1):
                for name, one in running.items():
                    measured = one.time(megabytes, count if turn else 2)  # the first is to warm up
                    speeds[name] += [measured] if turn else []
            return speeds
        finally:
            for one in running.values():
                one.stop()


def table(speeds: dict[str, list[Speed]]) -> str:
    """Medians, and the median and the best of the shares of bare TLS's speed in the same turn."""
    bare = speeds[CONTENDERS[0].name]
    lines = [
        "| | MB/s | of bare TLS | best | MB per processor second | of bare TLS | best |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, mine in speeds.items():
        cells = [name]
        for clock, ours in zip(zip(*mine, strict=True), zip(*bare, strict=True), strict=True):
            shares = [a / b for a, b in zip(clock, ours, strict=True)]
            cells += [f"{statistics.median(clock):.0f}", f"{statistics.median(shares):.0%}", f"{max(shares):.0%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transport", description=__doc__)
    parser.add_argument("--megabytes", type=float, default=4.0, help="of a message")
    parser.add_argument("--count", type=int, default=50, help="messages a turn")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--only", nargs="*", help="contenders whose names hold one of these words, beside bare TLS")
    parser.add_argument("--json", action="store_true", help="every turn's megabytes a second")
    asked = parser.parse_args()
    chosen = [c for c in CONTENDERS if not asked.only or any(word in c.name for word in asked.only)]
    speeds = compare(list(dict.fromkeys([CONTENDERS[0], *chosen])), asked.megabytes, asked.count, asked.turns)
    print(json.dumps(speeds) if asked.json else table(speeds))


if __name__ == "__main__":
    main()
