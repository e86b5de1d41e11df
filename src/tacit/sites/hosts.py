"""Assigns hosts and ports to the sites of a new network."""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from tacit.errors import TacitError

LOCALHOST = "127.0.0.1"
_FIRST_PORT, _FIRST_METRICS_PORT = 7401, 9401
_LOCAL_PORTS = range(10_000, 32_000)  # below the ports that operating systems assign to clients


def assign_hosts(hosts: Sequence[str], sites: int) -> list[str]:
    """Return the host of every site: those given, one for all, or by default this machine."""
    given = list(hosts) or [LOCALHOST]
    if len(given) not in (1, sites):
        raise TacitError(f"Got {len(given)} hosts for {sites} sites: give one host for all sites, or one per site")
    return given * (sites // len(given))


def assign_ports(hosts: Sequence[str], sites: int) -> list[tuple[int, int]]:
    """Return the port and the metrics port of every site: free ports on this machine, the usual ones elsewhere."""
    if hosts and set(hosts) != {LOCALHOST}:
        return [(_FIRST_PORT + i, _FIRST_METRICS_PORT + i) for i in range(sites)]
    free: list[int] = []
    with ExitStack() as stack:
        for port in random.sample(_LOCAL_PORTS, len(_LOCAL_PORTS)):
            with suppress(OSError):
                stack.enter_context(socket.socket()).bind((LOCALHOST, port))
                free.append(port)
            if len(free) == 2 * sites:
                return list(zip(free[:sites], free[sites:], strict=True))
    raise TacitError(f"This machine does not have {2 * sites} free ports: use fewer sites, or give hosts")
