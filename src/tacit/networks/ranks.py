"""The processes of a cluster, one a rank: how they meet over torch.distributed, talk, and end together."""

from __future__ import annotations

import os
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
from tacit.networks.network import Nodes, Stopped

PATIENCE = 300.0  # seconds a rank may be silent before the others give it up
MEETING = "TACIT_MEETING"  # the file by which ranks of one machine find each other; torchrun has a server for that
_WHY = "tacit/stopped"


class Ranks:
    """This process among those of its cluster. A rank that fails says why and hangs up, and so the others end too.

    Tensors in main memory travel by gloo; those of a GPU would by nccl, which nobody has tried yet. `sent` counts
    the bytes of messages from rank to rank; `stopped` says why nothing more can be said, once that is so.
    """

    def __init__(self, store: Store, rank: int, size: int, patience: float = PATIENCE) -> None:
        self.rank, self.size, self.sent = rank, size, 0
        self._store, self._patience, self.stopped = store, patience, ""
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        with self._speaking():
            dist.init_process_group(
                backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=patience)
            )

    @property
    def leads(self) -> bool:
        """Whether this process speaks for all: it prints, and keeps what is told once."""
        return self.rank == 0

    def block(self, nodes: int, rank: int | None = None) -> Nodes:
        """The nodes of a rank, by default of this one: successive ids, as many as at any other or one more."""
        if nodes < self.size:
            those = f"{nodes} node{'s' if nodes > 1 else ''}"
            raise TacitError(f"{self.size} processes are too many for {those}: each hosts at least one")
        return np.array_split(np.arange(nodes), self.size)[self.rank if rank is None else rank]

    def folder(self, out: Path) -> Path:
        """Where this rank keeps what is its own: the first in the run's folder itself, the others each in one below."""
        return out if self.leads else out / f"rank-{self.rank}"

    def exchange(self, outgoing: Mapping[int, Tensor], incoming: Mapping[int, int]) -> dict[int, Tensor]:
        """Bytes to other ranks and, `incoming` says how many, from others: all at once, one message a pair."""
        device = next((message.device for message in outgoing.values()), None)
        received = {rank: torch.empty(size, dtype=torch.uint8, device=device) for rank, size in incoming.items()}
        talks = [dist.P2POp(dist.irecv, message, rank) for rank, message in received.items()]
        talks += [dist.P2POp(dist.isend, message, rank) for rank, message in outgoing.items()]
        with self._speaking():
            for talk in dist.batch_isend_irecv(talks) if talks else ():
                talk.wait()
        self.sent += sum(message.nbytes for message in outgoing.values())
        return received

    def max(self, x: Tensor) -> Tensor:
        """The largest of all ranks' numbers, place by place."""
        return self._reduced(x, dist.ReduceOp.MAX)

    def sum(self, x: Tensor) -> Tensor:
        return self._reduced(x, dist.ReduceOp.SUM)

    def rows(self, x: Tensor) -> list[Tensor]:
        """What each rank has here, rank by rank; it may have more rows at one than at another."""
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        with self._speaking():
            dist.all_gather(sizes, torch.tensor([len(x)]))
            most = max(int(size) for size in sizes)
            padded = torch.cat([x, x.new_zeros(most - len(x), *x.shape[1:])])
            all_ = [torch.empty_like(padded) for _ in sizes]
            if padded.numel():
                dist.all_gather(all_, padded)
        return [rows[: int(size)] for rows, size in zip(all_, sizes, strict=True)]

    def texts(self, text: str) -> list[str]:
        """What each rank says, rank by rank."""
        return [bytes(row.tolist()).decode() for row in self.rows(torch.tensor(list(text.encode()), dtype=torch.uint8))]

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        """What is inside is done by rank 0, and then by the others."""
        if not self.leads:
            self.sum(torch.zeros(1))
        yield
        if self.leads:
            self.sum(torch.zeros(1))

    def stop(self, why: str = "") -> None:
        """Hang up, which ends the others at their next word; what they then say is `why`."""
        if self.stopped:
            return
        self.stopped = f"rank {self.rank} of the cluster has stopped{f': {why}' if why else ''}"
        with suppress(RuntimeError):  # the store may be gone with its host
            if why:
                self._store.compare_set(_WHY, "", self.stopped)
        with suppress(RuntimeError):
            dist.destroy_process_group()

    def _reduced(self, x: Tensor, how: dist.ReduceOp.RedOpType) -> Tensor:
        result = x.clone()
        with self._speaking():
            dist.all_reduce(result, how)
        return result

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        """Torch's errors, a connection that is gone or a silence that is too long, as a sentence."""
        if self.stopped:
            raise Stopped(self.stopped)
        try:
            yield
        except RuntimeError:
            why = f"another process of the cluster has ended, or was silent for {self._patience:g} seconds"
            with suppress(RuntimeError):
                if self._store.check([_WHY]):
                    why = self._store.get(_WHY).decode()
            self.stop()
            self.stopped = why
            raise Stopped(why) from None


def started() -> bool:
    """Whether this process was started as one of several, by `tacit train --workers` or by torchrun."""
    return "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def joined(patience: float = PATIENCE) -> Iterator[Ranks | None]:
    """The cluster this process was started for; None where there is none."""
    if not started():
        yield None
        return
    ranks = Ranks(*_meeting(patience), patience)
    try:
        yield ranks
    except BaseException as error:
        ranks.stop(str(error) or type(error).__name__)
        raise
    ranks.stop()


def _meeting(patience: float) -> tuple[Store, int, int]:
    """The store the ranks share, this one's number, and how many there are."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if MEETING in os.environ:
        return FileStore(os.environ[MEETING], size), rank, size
    try:
        store, _, _ = next(rendezvous("env://", rank, size, timeout=timedelta(seconds=patience)))
    except (RuntimeError, ValueError) as error:
        why = " ".join(str(error).split())
        raise TacitError(f"the processes of the cluster do not find each other: {why}") from None
    return store, rank, size
