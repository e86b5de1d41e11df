"""The processes of a cluster: how they find each other over torch.distributed, communicate, and stop together."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import FileStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from tacit.errors import TacitError
from tacit.networks.network import Nodes, PeerStopped

DEFAULT_TIMEOUT = 300.0  # seconds
RENDEZVOUS_FILE = "TACIT_RENDEZVOUS_FILE"  # names the file by which ranks of one machine meet; torchrun has a server
_STOP_REASON_KEY = "tacit/stopped"


class ProcessGroup:
    """This process among those of its cluster. When one rank stops, all others stop with its reason.

    Tensors in main memory are sent with gloo, those of CUDA devices with nccl. Nccl was not run on hardware.

    Attributes:
        rank: The number of this process, from 0.
        size: The number of processes.
        bytes_sent: Bytes sent to other ranks by `exchange`.
        stop_reason: Why this process can no longer communicate; empty while it can.
        device: Where the values of the nodes are; `use_device` sets it.
    """

    def __init__(self, store: Store, rank: int, size: int, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.rank, self.size, self.bytes_sent = rank, size, 0
        self._store, self._timeout, self.stop_reason = store, timeout, ""
        self.device = torch.device("cpu")
        backend = backend_of(cuda=torch.cuda.is_available())
        with self._communicating():
            dist.init_process_group(
                backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=timeout)
            )

    @property
    def is_leader(self) -> bool:
        """Whether this process prints and writes what exists once per run."""
        return self.rank == 0

    @property
    def local_rank(self) -> int:
        """The number of this process on its machine."""
        return int(os.environ.get("LOCAL_RANK", self.rank))

    def use_device(self, device: torch.device) -> None:
        """Use a device for the values of the nodes. All ranks take part, as nccl requires of its first message.

        Raises:
            TacitError: Two ranks have the same CUDA device, or the ranks have devices of different kinds. These have
                different generators, so that noise which nodes share would not cancel, and cannot exchange values.
        """
        places = self.gather_strings(f"{device.type} {device} {platform.node()}")
        kinds = sorted({place.split()[0] for place in places})
        if len(kinds) > 1:
            raise TacitError(
                f"All ranks must compute on devices of one kind, got {', '.join(kinds)}: set device to one that every "
                "machine has"
            )
        if device.type == "cuda" and len(set(places)) < len(places):
            raise TacitError(f'Each rank needs a CUDA device of its own, got {device} for several: set device = "cuda"')
        self.device = device
        if device.type == "cuda":
            torch.cuda.set_device(device)
            self.sum(torch.zeros(1, device=device))

    def block(self, nodes: int, rank: int | None = None) -> Nodes:
        """The ids of the nodes of a rank, by default this one. Blocks are contiguous and differ by at most one node."""
        if nodes < self.size:
            raise TacitError(
                f"{self.size} processes need at least {self.size} nodes, got {nodes}: use fewer processes or more nodes"
            )
        return np.array_split(np.arange(nodes), self.size)[self.rank if rank is None else rank]

    def folder(self, out: Path) -> Path:
        """The folder of this rank: `out` itself for rank 0, a folder inside it for each other rank."""
        return out if self.is_leader else out / f"rank-{self.rank}"

    def exchange(self, outgoing: Mapping[int, Tensor], incoming: Mapping[int, int]) -> dict[int, Tensor]:
        """Send bytes to other ranks and receive the given number of bytes from others, one message per pair."""
        device = next((message.device for message in outgoing.values()), self.device)
        received = {rank: torch.empty(size, dtype=torch.uint8, device=device) for rank, size in incoming.items()}
        operations = [dist.P2POp(dist.irecv, message, rank) for rank, message in received.items()]
        operations += [dist.P2POp(dist.isend, message, rank) for rank, message in outgoing.items()]
        with self._communicating():
            for operation in dist.batch_isend_irecv(operations) if operations else ():
                operation.wait()
        self.bytes_sent += sum(message.nbytes for message in outgoing.values())
        return received

    def max(self, x: Tensor) -> Tensor:
        """The elementwise maximum over all ranks."""
        return self._reduced(x, dist.ReduceOp.MAX)

    def sum(self, x: Tensor) -> Tensor:
        """The elementwise sum over all ranks."""
        return self._reduced(x, dist.ReduceOp.SUM)

    def all_gather(self, x: Tensor) -> list[Tensor]:
        """The tensor of every rank, by rank. They may differ in their number of rows."""
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        with self._communicating():
            dist.all_gather(sizes, torch.tensor([len(x)]))
            longest = max(int(size) for size in sizes)
            padded = torch.cat([x, x.new_zeros(longest - len(x), *x.shape[1:])])
            gathered = [torch.empty_like(padded) for _ in sizes]
            if padded.numel():
                dist.all_gather(gathered, padded)
        return [rows[: int(size)] for rows, size in zip(gathered, sizes, strict=True)]

    def gather_strings(self, text: str) -> list[str]:
        """The text of every rank, by rank."""
        encoded = torch.tensor(list(text.encode()), dtype=torch.uint8)
        return [bytes(row.tolist()).decode() for row in self.all_gather(encoded)]

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        """Run the block on rank 0 before the other ranks enter it."""
        if not self.is_leader:
            self.sum(torch.zeros(1))
        yield
        if self.is_leader:
            self.sum(torch.zeros(1))

    def stop(self, reason: str = "") -> None:
        """Disconnect, so that the other ranks fail at their next communication; their error contains `reason`."""
        if self.stop_reason:
            return
        self.stop_reason = f"rank {self.rank} of the cluster has stopped{f': {reason}' if reason else ''}"
        with suppress(RuntimeError):  # the store disappears with the process that hosts it
            if reason:
                self._store.compare_set(_STOP_REASON_KEY, "", self.stop_reason)
        with suppress(RuntimeError):
            dist.destroy_process_group()

    def _reduced(self, x: Tensor, operation: dist.ReduceOp.RedOpType) -> Tensor:
        result = x.clone()
        with self._communicating():
            dist.all_reduce(result, operation)
        return result

    @contextmanager
    def _communicating(self) -> Iterator[None]:
        """Turn torch's errors (a lost connection, a timeout) into a `PeerStopped`."""
        if self.stop_reason:
            raise PeerStopped(self.stop_reason)
        try:
            yield
        except RuntimeError:
            reason = f"another process of the cluster has ended, or did not answer within {self._timeout:g} seconds"
            with suppress(RuntimeError):
                if self._store.check([_STOP_REASON_KEY]):
                    reason = self._store.get(_STOP_REASON_KEY).decode()
            self.stop()
            self.stop_reason = reason
            raise PeerStopped(reason) from None


def backend_of(*, cuda: bool) -> str:
    """Return the backends of torch.distributed: gloo for main memory, and nccl for CUDA devices if there are any.

    >>> backend_of(cuda=True)
    'cpu:gloo,cuda:nccl'
    """
    return "cpu:gloo,cuda:nccl" if cuda else "gloo"


def in_process_group() -> bool:
    """Whether this process was started as one of several, by `tacit train --workers` or by torchrun."""
    return "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def join_process_group(timeout: float = DEFAULT_TIMEOUT) -> Iterator[ProcessGroup | None]:
    """Join the cluster for which this process was started; None if it was started alone.

    Leaving the block stops the process group; an exception is passed to the other ranks as the reason.
    """
    if not in_process_group():
        yield None
        return
    group = ProcessGroup(*_rendezvous(timeout), timeout)
    try:
        yield group
    except BaseException as error:
        group.stop(str(error) or type(error).__name__)
        raise
    group.stop()


def _rendezvous(timeout: float) -> tuple[Store, int, int]:
    """The store that the ranks share, the rank of this process, and the number of ranks."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if RENDEZVOUS_FILE in os.environ:
        return FileStore(os.environ[RENDEZVOUS_FILE], size), rank, size
    try:
        store, _, _ = next(rendezvous("env://", rank, size, timeout=timedelta(seconds=timeout)))
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise TacitError(f"the processes of the cluster cannot connect to each other: {reason}") from None
    return store, rank, size
