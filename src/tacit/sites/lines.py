"""Lines between sites: gRPC streams with mutual TLS, one for each direction in which values travel.

Who has something to say dials, says HELLO, and speaks; answers come back over the same line. A line that breaks is
dialled again, and whatever was not answered is said again, byte for byte.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

import grpc

from tacit.errors import TacitError
from tacit.sites.identity import SiteIdentity
from tacit.sites.post import Post
from tacit.sites.text import printable
from tacit.sites.wire import MOST
from tacit.tasks.gradients import memory

log = logging.getLogger(__name__)
SERVICE, METHOD = "tacit.sites.Sites", "Exchange"
_GREETING = 10.0  # seconds for a HELLO
_SOON, _LATER = 0.1, 3.0  # seconds before a line is dialled again: first, and at last
_TICK = 0.5  # seconds between two looks at what has had no answer
_MOST_REFUSED = 32  # messages of one line that are refused before the line is
_MOST_QUEUED = 256  # messages that wait for one who does not listen: what is dropped comes again
_CHANNEL = (
    # Found by measurement (`benchmarks/transport.py`): whole messages in one frame, and windows that hold some.
    ("grpc.http2.max_frame_size", 4 << 20),
    ("grpc.http2.lookahead_bytes", 16 << 20),
    ("grpc.http2.write_buffer_size", 16 << 20),
    ("grpc.http2.bdp_probe", 0),
    # A line that is only half there is noticed within seconds.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.so_reuseport", 0),
    # Strangers may not keep connections open that say nothing.
    ("grpc.server_handshake_timeout_ms", 5_000),
    ("grpc.max_concurrent_streams", 8),
)

Queue = asyncio.Queue[bytes | None]


def options(most: int = MOST) -> tuple[tuple[str, int], ...]:
    """How gRPC is set, at both ends."""
    sizes = (("grpc.max_receive_message_length", most), ("grpc.max_send_message_length", most))
    return (*_CHANNEL, *sizes)


class Lines:
    """All lines of a site, in a thread of their own. `addresses` are those of the other sites by name."""

    def __init__(self, identity: SiteIdentity, listen: str, addresses: Mapping[str, str], most: int = MOST) -> None:
        self._identity, self._listen, self._addresses, self._most = identity, listen, addresses, most
        self._thread: threading.Thread | None = None
        self._to: dict[str, Queue | None] = {}  # by those we dial; None while there is no line
        self._from: dict[str, Queue | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    def open(self, post: Post) -> None:
        """Listen; whoever comes is brought to `post`."""
        self._post = post
        memory.keep()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="lines", daemon=True)
        self._thread.start()
        self._wait_for(self._serve())
        self._loop.call_soon_threadsafe(self._begin, self._often())

    def dial(self, peers: Mapping[str, object] | list[str]) -> None:
        """Keep a line to each of them from now on."""
        for peer in peers:
            self._loop.call_soon_threadsafe(self._dialled, peer)

    def shut(self) -> None:
        """Hang up."""
        if self._thread is not None and self._thread.is_alive():
            self._wait_for(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def send(self, peer: str, data: bytes) -> None:
        self._loop.call_soon_threadsafe(self._send, peer, data)

    def answer(self, peer: str, data: bytes) -> None:
        self._loop.call_soon_threadsafe(self._put, self._from, peer, data)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _wait_for(self, doing: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(doing, self._loop).result()

    def _begin(self, doing: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        """None of them ends by itself: one that failed would leave a site that waits for ever."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._post.broken(f"the site's lines have failed: {error}")

    def _dialled(self, peer: str) -> None:
        if peer not in self._to:
            self._to[peer] = None
            self._begin(self._keep_line(peer))

    def _send(self, peer: str, data: bytes) -> None:
        self._dialled(peer)
        self._put(self._to, peer, data)

    def _put(self, lines: Mapping[str, Queue | None], peer: str, data: bytes) -> None:
        """Into a line, if there is one: else it will be said when there is."""
        queue = lines.get(peer)
        if queue is not None and queue.qsize() < _MOST_QUEUED:
            queue.put_nowait(data)

    async def _often(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._post.again()

    async def _serve(self) -> None:
        self._server = grpc.aio.server(options=options(self._most))
        handler = grpc.stream_stream_rpc_method_handler(self._exchange)
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})])
        try:
            self.port = self._server.add_secure_port(self._listen, self._identity.server_credentials())
        except RuntimeError:
            raise TacitError(f"cannot listen at {self._listen}: the address is taken, or not this machine's") from None
        await self._server.start()

    async def _end(self) -> None:
        while tasks := list(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=1.0)  # one that had just been done with something may not have noticed
        await self._server.stop(0.5)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:  # gRPC's own, which put away what is left of calls
            await asyncio.wait(left, timeout=2.0)

    async def _exchange(self, _: Any, context: Any) -> None:
        """A line that another site has dialled."""
        names = context.auth_context().get("x509_common_name", [])
        peer = names[0].decode(errors="replace") if len(names) == 1 else ""
        if peer not in self._post.peers:
            log.warning(
                "turned away: its certificate is good, but it is no site of this network",
                extra={"peer": printable(peer)},
            )
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "this is no site of the network")
        try:
            first = await asyncio.wait_for(context.read(), _GREETING)
        except TimeoutError:
            log.warning("turned away: it dialled and said nothing", extra={"peer": peer})
            return
        if not isinstance(first, bytes):
            return
        admitted, answers = self._post.admit(peer, first)
        for answer in [*([self._post.hello(peer)] if admitted else []), *answers]:
            await context.write(answer)
        if admitted:
            older, self._from[peer] = self._from.get(peer), asyncio.Queue()
            if older is not None:
                older.put_nowait(None)  # that line is dead, and nobody has noticed
            try:
                await self._talk(peer, self._from, context.read, context.write)
            finally:  # gRPC does not tell why
                log.info("its line has ended (over %d bytes at once would end it)", self._most, extra={"peer": peer})

    async def _keep_line(self, peer: str) -> None:
        """Dial again and again."""
        channel = grpc.aio.secure_channel(
            self._addresses[peer],
            self._identity.channel_credentials(),
            (*options(self._most), *self._identity.channel_options(peer)),
        )
        stub, pause, told = channel.stream_stream(f"/{SERVICE}/{METHOD}"), _SOON, ""
        try:
            while True:
                call = stub()
                try:
                    if await self._call(peer, call):
                        pause = _SOON
                    why = ""
                except (grpc.aio.AioRpcError, TimeoutError, asyncio.InvalidStateError, grpc.aio.UsageError) as error:
                    why = _why(error)
                finally:
                    call.cancel()
                if why != told:
                    told = why
                    log.info("no line: %s", why or "it hung up", extra={"peer": peer})
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(2 * pause, _LATER)
        finally:
            await channel.close()

    async def _call(self, peer: str, call: Any) -> bool:
        """One line, until it breaks; whether we were let in."""
        await asyncio.wait_for(call.write(self._post.hello(peer)), _GREETING)
        first = await asyncio.wait_for(call.read(), _GREETING)
        if not isinstance(first, bytes):
            await call.code()  # raises what went wrong, if something did
            return False
        admitted, answers = self._post.admit(peer, first)
        if not admitted:
            return False
        heard = await asyncio.wait_for(call.read(), _GREETING)  # what it has heard of us, before we say more
        if not isinstance(heard, bytes):
            return False
        answers += self._post.take(peer, heard)
        queue = self._to[peer] = asyncio.Queue()
        for data in [*answers, *self._post.backlog(peer)]:
            queue.put_nowait(data)
        log.info("line is up", extra={"peer": peer})
        await self._talk(peer, self._to, call.read, call.write)
        return True

    async def _talk(
        self,
        peer: str,
        lines: dict[str, Queue | None],
        read: Callable[[], Awaitable[Any]],
        write: Callable[[bytes], Awaitable[None]],
    ) -> None:
        """Both directions of a line, until one of them ends."""
        queue = lines[peer]
        assert queue is not None
        counts = self._post.counts

        async def hear() -> None:
            refused = 0
            while isinstance(data := await read(), bytes):
                counts["bytes_received"] += len(data)
                before = counts["refused"]
                for answer in self._post.take(peer, data):
                    queue.put_nowait(answer)
                refused += counts["refused"] - before
                if refused > _MOST_REFUSED or queue.qsize() > _MOST_QUEUED:
                    log.warning(
                        "hung up: too much of what it says is refused, or it does not listen", extra={"peer": peer}
                    )
                    return

        async def speak() -> None:
            while (data := await queue.get()) is not None:
                counts["bytes_sent"] += len(data)
                await write(data)

        self._post.connected(peer, 1)
        both = [self._loop.create_task(hear()), self._loop.create_task(speak())]
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._post.connected(peer, -1)
            if lines.get(peer) is queue:
                lines[peer] = None
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)


def _why(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return printable(f"{error.code().name.lower()}: {error.details()}", 200)
    return "no answer" if isinstance(error, TimeoutError) else printable(str(error))
