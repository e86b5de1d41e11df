"""Parallel work and Ctrl-C: no signal is lost, and only the parent process reacts."""

import os
import signal
from concurrent.futures import ProcessPoolExecutor

import pytest

from tacit.runs.parallel import run_in_parallel


def receives_ctrl_c(_):
    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return not blocked and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def test_workers_do_not_receive_ctrl_c():
    before = signal.getsignal(signal.SIGINT)
    assert sorted(run_in_parallel(receives_ctrl_c, [0, 1], 2)) == [(0, False), (1, False)]
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_ctrl_c_while_workers_start_is_not_lost(monkeypatch):
    submit = ProcessPoolExecutor.submit

    def interrupted_submit(self, work, item):
        future = submit(self, work, item)
        os.kill(os.getpid(), signal.SIGINT)
        return future

    monkeypatch.setattr(ProcessPoolExecutor, "submit", interrupted_submit)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            list(run_in_parallel(receives_ctrl_c, [0, 1], 2))
    finally:
        signal.signal(signal.SIGINT, before)
