"""Parallel work in several processes. Results are returned as they are finished; Ctrl-C ends all of it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

import torch

from tacit.errors import TacitError

T = TypeVar("T")
R = TypeVar("R")


def run_in_parallel(work: Callable[[T], R], items: Sequence[T], jobs: int) -> Generator[tuple[T, R], None, None]:
    """Yield each item with the result of `work`, as they finish. One job runs in this process and in order."""
    if jobs == 1 or len(items) <= 1:
        yield from ((item, work(item)) for item in items)
        return
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes already use all cores
    pool = ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    )
    try:
        with _children_without_ctrl_c():
            futures = {pool.submit(work, item): item for item in items}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool:
        raise TacitError("a worker process was killed (possibly out of memory): use fewer parallel processes") from None
    except BaseException:
        for child in multiprocessing.active_children():  # unfinished work is of no use
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        os.environ.pop("OMP_NUM_THREADS")
        if threads is not None:
            os.environ["OMP_NUM_THREADS"] = threads


@contextmanager
def _children_without_ctrl_c() -> Iterator[None]:
    """Processes started in the block never receive Ctrl-C: the parent process handles it, after the block.

    Children inherit the signals that the thread blocks. If another thread receives Ctrl-C, the handler keeps it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    if handler is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, handler)
    if received:
        raise KeyboardInterrupt
