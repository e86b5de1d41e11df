"""Where tensors are: the names of devices, and what a device lacks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tacit.errors import TacitError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

DEVICE_PATTERN = r"^(auto|cpu|mps|cuda(:\d+)?)$"
_WITHOUT_DOUBLE = {"mps"}


def choose_device(name: str | torch.device, rank: int | None = None) -> torch.device:
    """Return the device with this name. "auto" is the first CUDA device, else Apple's GPU, else the CPU.

    Args:
        name: "auto", "cpu", "cuda", "cuda:1" or "mps".
        rank: The number of this process on its machine, if a run has several: each of them has a CUDA device of its
            own, unless the name has a number.

    Raises:
        TacitError: The name is unknown, or this machine has no such device.

    >>> choose_device("cpu")
    device(type='cpu')
    >>> choose_device("gpu")
    Traceback (most recent call last):
    tacit.errors.TacitError: device must be "auto", "cpu", "cuda", "cuda:1" (any number) or "mps", got "gpu"
    """
    import torch

    if isinstance(name, torch.device):
        return name
    if not re.match(DEVICE_PATTERN, name):
        raise TacitError(f'device must be "auto", "cpu", "cuda", "cuda:1" (any number) or "mps", got "{name}"')
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        name = "cuda" if devices else "mps" if torch.backends.mps.is_available() else "cpu"
    if name == "mps" and not torch.backends.mps.is_available():
        raise TacitError(
            'device = "mps": this machine or this build of PyTorch has no such device. Use "auto" or "cpu"'
        )
    if not name.startswith("cuda"):
        return torch.device(name)
    number = int(name[5:] or rank or 0)
    if number >= devices:
        found = f"has {devices} CUDA device{'' if devices == 1 else 's'}" if devices else "has no CUDA device"
        needed = "" if rank is None else ", and each process needs one of its own"
        raise TacitError(
            f'device = "{name}": this machine or this build of PyTorch {found}{needed}. Use "auto" or "cpu"'
        )
    torch.backends.cudnn.allow_tf32 = False  # its errors are larger than the margins of clip bounds
    return torch.device("cuda", number)


def has_double(device: torch.device) -> bool:
    """Whether the device computes in double precision. Apple's GPUs do not."""
    return device.type not in _WITHOUT_DOUBLE


def l1_norms(x: Tensor) -> Tensor:
    """Return the L1 norms (n,) of the rows of x (n, d), in double precision and in main memory, for the ledger."""
    return double_l1_norms(x).cpu()


def double_l1_norms(x: Tensor) -> Tensor:
    """Return the L1 norms (n,) of the rows of x (n, d), in double precision, where `as_double` computes."""
    import torch

    return (x if has_double(x.device) else x.cpu()).abs().sum(1, dtype=torch.float64)


def as_double(x: Tensor) -> Tensor:
    """Return x in double precision: on its device, or in main memory if the device has no double precision."""
    return x.double() if has_double(x.device) else x.cpu().double()
