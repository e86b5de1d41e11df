"""The ways to send messages between two processes that `benchmarks.transport` compares, with mutual TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc
import torch

from tacit.sites.certificates import CertificateFiles
from tacit.sites.grpc_options import METHOD, SERVICE, channel_options
from tacit.sites.identity import SiteIdentity
from tacit.sites.journal import digest
from tacit.sites.message import Link, Message, MessageKind
from tacit.sites.wire import decode, encode
from tacit.tasks import keep_freed_memory

LINK = Link("0" * 64, "site-a", "site-b")
Options = tuple[tuple[str, int], ...]
Seconds = tuple[float, float]
"""Elapsed time and processor time."""
_SOCKET_BUFFER = 8 << 20  # bytes; with the default size each side waits for the other to be scheduled
_SIZES: Options = (("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20))


@dataclass(frozen=True)
class Contender:
    """A way to send messages.

    Args:
        name: The name in the table.
        grpc: Whether gRPC is used, instead of a TLS socket.
        options: gRPC options of both ends.
        chunk: Bytes of the pieces in which a message is sent; None sends it as a whole.
        wire: Whether each message is encoded before it is sent, and decoded and hashed when it arrives.
    """

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


def _clocks() -> Seconds:
    return time.perf_counter(), time.process_time()


def _since(start: Seconds) -> Seconds:
    now = _clocks()
    return now[0] - start[0], now[1] - start[1]


def _identity(folder: Path, name: str) -> SiteIdentity:
    files = CertificateFiles.in_folder(folder, name)
    return SiteIdentity.load(files.certificate, files.key, folder / "authority.crt")


def _messages(contender: Contender, values: torch.Tensor, count: int) -> Iterator[bytes]:
    """Yield `count` messages: each encoded when it is needed, or the same bytes again."""
    once = encode(Message(LINK, MessageKind.MIX, 0, tensors={"0": values}))
    return (
        encode(Message(LINK, MessageKind.MIX, t, tensors={"0": values})) if contender.wire else once
        for t in range(count)
    )


def _handle(data: bytes) -> None:
    """Do what a site does with the bytes of a message."""
    decode(data, LINK)
    digest(data)


def _fill(connection: ssl.SSLSocket, view: memoryview) -> memoryview:
    """Read until the view is full."""
    filled = 0
    while filled < len(view):
        received = connection.recv_into(view[filled:])
        if not received:
            raise ConnectionError("the connection was closed")
        filled += received
    return view


def _serve_tls(contender: Contender, folder: Path, ready: Connection) -> None:
    context = _identity(folder, LINK.receiver).context(ssl.Purpose.CLIENT_AUTH)
    room = memoryview(bytearray(64 << 20))  # allocated once, since this is the fastest possible server
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER)
        ready.send(listener.getsockname()[1])
        while True:
            with context.wrap_socket(listener.accept()[0], server_side=True) as connection:
                for _ in range(int.from_bytes(_fill(connection, room[:8]))):
                    data = _fill(connection, room[: int.from_bytes(_fill(connection, room[:8]))])
                    if contender.wire:
                        _handle(bytes(data))
                connection.sendall(b"1")


def _send_tls(folder: Path, port: int, messages: Iterator[bytes], count: int) -> Seconds:
    context = _identity(folder, LINK.sender).context(ssl.Purpose.SERVER_AUTH)
    plain = socket.create_connection(("127.0.0.1", port))
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
    with context.wrap_socket(plain, server_hostname=LINK.receiver) as connection:
        start_clocks = _clocks()
        connection.sendall(count.to_bytes(8))
        for data in messages:
            connection.sendall(len(data).to_bytes(8))
            connection.sendall(data)
        connection.recv(1)
        return _since(start_clocks)


async def _serve_grpc(contender: Contender, folder: Path, ready: Connection) -> None:
    async def exchange(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        parts: list[bytes] = []
        async for part in requests:
            parts.append(part)
            if contender.chunk is None or len(part) < contender.chunk:
                data, parts = part if len(parts) == 1 else b"".join(parts), []
                if contender.wire:
                    _handle(data)
        yield b"1"

    server = grpc.aio.server(options=_SIZES + contender.options)
    handler = grpc.stream_stream_rpc_method_handler(exchange)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])
    port = server.add_secure_port("127.0.0.1:0", _identity(folder, LINK.receiver).server_credentials())
    await server.start()
    ready.send(port)
    await server.wait_for_termination()


async def _send_grpc(contender: Contender, folder: Path, port: int, messages: Iterator[bytes]) -> Seconds:
    identity = _identity(folder, LINK.sender)
    options = _SIZES + contender.options + tuple(identity.channel_options(LINK.receiver))
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", identity.channel_credentials(), options) as channel:
        await channel.channel_ready()
        call = channel.stream_stream(f"/{SERVICE}/{METHOD}")()
        start_clocks = _clocks()
        for data in messages:
            size = contender.chunk or len(data)
            for start in range(0, len(data), size):
                await call.write(data if size == len(data) else data[start : start + size])
        await call.done_writing()
        await call.read()
        return _since(start_clocks)


def _configure_process() -> None:
    """Keep freed memory, as a site does. Otherwise page faults take longer than TLS."""
    torch.set_num_threads(1)
    keep_freed_memory()


def run_server(contender: Contender, folder: Path, ready: Connection) -> None:
    """Receive messages in this process until it is killed; the port is sent to `ready`."""
    _configure_process()
    if contender.grpc:
        asyncio.run(_serve_grpc(contender, folder, ready))
    else:
        _serve_tls(contender, folder, ready)


def run_sender(contender: Contender, folder: Path, pipe: Connection) -> None:
    """Send messages in this process until it is killed.

    Requests on `pipe` are (port, megabytes per message, number of messages); replies are `Seconds`. Each contender has
    its own process, since gRPC leaves threads behind that would disturb the next one.
    """
    _configure_process()
    while True:
        port, megabytes, count = pipe.recv()
        messages = _messages(contender, torch.randn(int(megabytes * 1e6 / 4)), count)
        if contender.grpc:
            pipe.send(asyncio.run(_send_grpc(contender, folder, port, messages)))
        else:
            pipe.send(_send_tls(folder, port, messages, count))
