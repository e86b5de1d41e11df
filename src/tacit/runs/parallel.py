"""Work spread over processes; results come as they are finished, and Ctrl-C ends all of it."""

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
    """Each item with what `work` made of it, as they come; with one job, in this process and in order."""
    if jobs == 1 or len(items) <= 1:
        yield from ((item, work(item)) for item in items)
        return
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes already fill the cores
    pool = ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    )
    try:
        with _no_ctrl_c():
            futures = {pool.submit(work, item): item for item in items}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool:
        raise TacitError("a process was ended from outside, for want of memory perhaps: try --jobs 1") from None
    except BaseException:
        for child in multiprocessing.active_children():  # what is half done is of no use to anyone
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        os.environ.pop("OMP_NUM_THREADS")
        if threads is not None:
            os.environ["OMP_NUM_THREADS"] = threads


@contextmanager
def _no_ctrl_c() -> Iterator[None]:
    """Processes started in here never see Ctrl-C, not even while they start: it is the parent's to handle."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
