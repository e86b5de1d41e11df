"""Connections between sites: gRPC streams with mutual TLS.

A site opens one stream to each peer that it sends values to; replies come back on the same stream. Both ends send HELLO
first. A stream that breaks is opened again, and pending messages are repeated on it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any

import grpc

from tacit.errors import TacitError
from tacit.sites.grpc_connection import Connection
from tacit.sites.grpc_options import METHOD, SERVICE, channel_options
from tacit.sites.identity import SiteIdentity
from tacit.sites.text import printable
from tacit.sites.transport import MessageHandler, Transport
from tacit.sites.wire import MAX_MESSAGE_BYTES
from tacit.tasks import keep_freed_memory

log = logging.getLogger(__name__)
HELLO_TIMEOUT = 10.0
"""Seconds within which a peer must complete the handshake."""
TICK = 0.5
"""Seconds between two calls of `MessageHandler.on_tick`."""
_MIN_RECONNECT_DELAY, _MAX_RECONNECT_DELAY = 0.1, 3.0  # seconds
ReadStream = Callable[[], Awaitable[Any]]
WriteStream = Callable[[bytes], Awaitable[None]]


class GrpcTransport(Transport):
    """All gRPC connections of a site, in a thread of their own.

    Args:
        identity: The site's certificate and key, and the trusted authority.
        listen: The address to listen at, `host:port`. With port 0, `port` has the one that was chosen.
        addresses: The addresses of the sites, by name.
        max_bytes: Size limit of one message.
    """

    def __init__(
        self, identity: SiteIdentity, listen: str, addresses: Mapping[str, str], max_bytes: int = MAX_MESSAGE_BYTES
    ) -> None:
        super().__init__()
        self._identity, self._listen, self._addresses, self._max_bytes = identity, listen, addresses, max_bytes
        self._thread: threading.Thread | None = None
        self._peers: set[str] = set()  # the sites to which a connection is kept open
        self._outgoing: dict[str, Connection] = {}
        self._incoming: dict[str, Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    def open(self, handler: MessageHandler) -> None:
        self._handler = handler
        keep_freed_memory()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="transport", daemon=True)
        self._thread.start()
        self._run(self._serve())
        self._loop.call_soon_threadsafe(self._start_task, self._tick())

    def connect(self, peers: Iterable[str]) -> None:
        for peer in peers:
            self._loop.call_soon_threadsafe(self._keep_connected, peer)

    def send(self, peer: str, data: bytes) -> None:
        self._loop.call_soon_threadsafe(self._send, peer, data)

    def reply(self, peer: str, data: bytes) -> None:
        self._loop.call_soon_threadsafe(self._put, self._incoming, peer, data)

    def close(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            self._run(self._stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    # The event loop and its tasks

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the event loop, and wait for its end."""
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _start_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """Report a task that failed; otherwise the site would wait forever. No task ends by itself."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._handler.on_failure(f"the connections of the site failed: {error}")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self._handler.on_tick()

    async def _stop(self) -> None:
        while tasks := list(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=1.0)  # repeated, since a task that just finished a step may ignore it
        await self._server.stop(0.5)
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:  # gRPC's own tasks, which clean up after calls
            await asyncio.wait(rest, timeout=2.0)

    def _keep_connected(self, peer: str) -> None:
        if peer not in self._peers:
            self._peers.add(peer)
            self._start_task(self._reconnect(peer))

    def _send(self, peer: str, data: bytes) -> None:
        self._keep_connected(peer)
        self._put(self._outgoing, peer, data)

    def _put(self, connections: Mapping[str, Connection], peer: str, data: bytes) -> None:
        if peer in connections:
            connections[peer].put(data)

    async def _use(
        self,
        connections: dict[str, Connection],
        peer: str,
        read: ReadStream,
        write: WriteStream,
        first: Iterable[bytes],
    ) -> None:
        """Carry messages on a stream whose handshake is complete, until it ends."""
        connection = Connection(peer, self._handler, self, read, write, first)
        older = connections.get(peer)
        connections[peer] = connection
        if older is not None:
            older.end()  # a dead connection that has not been detected
        try:
            await connection.run()
        finally:
            if connections.get(peer) is connection:
                del connections[peer]

    # Connections that peers open

    async def _serve(self) -> None:
        self._server = grpc.aio.server(options=channel_options(self._max_bytes))
        handler = grpc.stream_stream_rpc_method_handler(self._accept)
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])
        try:
            self.port = self._server.add_secure_port(self._listen, self._identity.server_credentials())
        except RuntimeError:
            raise TacitError(
                f"cannot listen at {self._listen}: the address is in use or does not belong to this machine"
            ) from None
        await self._server.start()

    async def _accept(self, _: Any, context: Any) -> None:
        """Handle one incoming stream."""
        names = context.auth_context().get("x509_common_name", [])
        peer = names[0].decode(errors="replace") if len(names) == 1 else ""
        if peer not in self._handler.peers:
            log.warning(
                "rejected: its certificate is valid, but it is not a site of this network",
                extra={"peer": printable(peer)},
            )
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not a site of this network")
        try:
            first = await asyncio.wait_for(context.read(), HELLO_TIMEOUT)
        except TimeoutError:
            log.warning("rejected: it connected and sent nothing", extra={"peer": peer})
            return
        if not isinstance(first, bytes):
            return
        accepted, replies = self._handler.on_first_message(peer, first)
        for data in [*([self._handler.hello(peer)] if accepted else []), *replies]:
            await context.write(data)
        if accepted:
            try:
                await self._use(self._incoming, peer, context.read, context.write, [])
            finally:
                log.info("connection ended", extra={"peer": peer})

    # Connections that this site opens

    async def _reconnect(self, peer: str) -> None:
        """Open a stream to a peer, again and again."""
        channel = grpc.aio.secure_channel(
            self._addresses[peer],
            self._identity.channel_credentials(),
            (*channel_options(self._max_bytes), *self._identity.channel_options(peer)),
        )
        stub, delay, logged = channel.stream_stream(f"/{SERVICE}/{METHOD}"), _MIN_RECONNECT_DELAY, ""
        try:
            while True:
                call = stub()
                try:
                    if await self._call(peer, call):
                        delay = _MIN_RECONNECT_DELAY
                    reason = ""
                except (grpc.aio.AioRpcError, TimeoutError, asyncio.InvalidStateError, grpc.aio.UsageError) as error:
                    reason = _reason(error)
                finally:
                    call.cancel()
                if reason != logged:
                    logged = reason
                    log.info("not connected: %s", reason or "it ended the connection", extra={"peer": peer})
                await asyncio.sleep(delay * random.uniform(0.5, 1.0))
                delay = min(2 * delay, _MAX_RECONNECT_DELAY)
        finally:
            await channel.close()

    async def _call(self, peer: str, call: Any) -> bool:
        """Use one outgoing stream until it ends; return whether the peer accepted it."""
        await asyncio.wait_for(call.write(self._handler.hello(peer)), HELLO_TIMEOUT)
        first = await asyncio.wait_for(call.read(), HELLO_TIMEOUT)
        if not isinstance(first, bytes):
            await call.code()  # raises the error of the call, if there is one
            return False
        accepted, replies = self._handler.on_first_message(peer, first)
        if not accepted:
            return False
        second = await asyncio.wait_for(call.read(), HELLO_TIMEOUT)  # HELLO_REPLY comes before any value is sent
        if not isinstance(second, bytes):
            return False
        replies += self._handler.on_message(peer, second).messages
        log.info("connected", extra={"peer": peer})
        await self._use(self._outgoing, peer, call.read, call.write, [*replies, *self._handler.pending(peer)])
        return True


def _reason(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return printable(f"{error.code().name.lower()}: {error.details()}", 200)
    return "no reply" if isinstance(error, TimeoutError) else printable(str(error))
