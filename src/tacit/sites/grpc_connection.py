"""One open gRPC stream between two sites."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from tacit.sites.transport import MessageHandler, Transport

log = logging.getLogger(__name__)
MAX_REFUSED = 32
"""Refused messages after which a connection is closed."""
MAX_QUEUED = 256
"""Messages that wait for a peer that does not read. Others are dropped, and the protocol retransmits them."""


class Connection:
    """Both directions of a stream, with a queue of outgoing messages. For use in one event loop.

    Args:
        peer: The site at the other end.
        handler: Receives the messages.
        transport: Counts the bytes.
        read: Reads the next message; returns something else than bytes at the end of the stream.
        write: Writes a message.
        first: Messages to send first.
    """

    def __init__(
        self,
        peer: str,
        handler: MessageHandler,
        transport: Transport,
        read: Callable[[], Awaitable[Any]],
        write: Callable[[bytes], Awaitable[None]],
        first: Iterable[bytes] = (),
    ) -> None:
        self.peer, self._handler, self._transport = peer, handler, transport
        self._read, self._write = read, write
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()  # None ends the connection
        for data in first:
            self._queue.put_nowait(data)

    @property
    def queued(self) -> int:
        """Number of messages that have not been written yet."""
        return self._queue.qsize()

    def put(self, data: bytes) -> None:
        """Queue a message, or drop it if the peer does not read."""
        if self._queue.qsize() < MAX_QUEUED:
            self._queue.put_nowait(data)

    def end(self) -> None:
        """End the connection after the queued messages."""
        self._queue.put_nowait(None)

    async def run(self) -> None:
        """Read and write until one of the two ends."""
        self._handler.on_connected(self.peer)
        both = [asyncio.create_task(self._read_all()), asyncio.create_task(self._write_all())]
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._handler.on_disconnected(self.peer)
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _read_all(self) -> None:
        refused = 0
        while isinstance(data := await self._read(), bytes):
            self._transport.bytes_received += len(data)
            accepted, replies = self._handler.on_message(self.peer, data)
            for reply in replies:
                self._queue.put_nowait(reply)
            refused += not accepted
            if refused > MAX_REFUSED or self._queue.qsize() > MAX_QUEUED:
                log.warning(
                    "disconnected: it sent too many refused messages or does not read", extra={"peer": self.peer}
                )
                return

    async def _write_all(self) -> None:
        while (data := await self._queue.get()) is not None:
            self._transport.bytes_sent += len(data)
            await self._write(data)
