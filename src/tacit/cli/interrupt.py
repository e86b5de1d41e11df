"""Ctrl-C before a command starts its work: one line, exit code 130, no traceback. Imports the standard library only."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130  # exit code after Ctrl-C, as in shells
LINE = "Interrupted."


@contextmanager
def exit_on_ctrl_c() -> Iterator[None]:
    """In the block, Ctrl-C ends the process at once, until `raise_on_ctrl_c` is called.

    It is for imports and the parsing of options, in which nothing has to be cleaned up. If Ctrl-C is ignored, as in a
    process that a shell has started in the background, it stays ignored.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _exit)
    try:
        yield
    finally:
        raise_on_ctrl_c()


def raise_on_ctrl_c() -> None:
    """From here on, Ctrl-C raises KeyboardInterrupt as usual."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, f"{LINE}\n".encode())
    os._exit(INTERRUPTED)
