"""The device on which device tests run: the shadow device, or real hardware if TACIT_TEST_DEVICE names it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import torch

from tacit.device import choose_device, has_double
from tacit.privacy import Noise
from tacit.privacy.device_noise import device_words
from tacit.tasks.models import per_record
from tests.devices.shadow import ShadowTensor, Transfers, shadow, shadow_device

NAME = os.environ.get("TACIT_TEST_DEVICE", "shadow")
CPU = torch.device("cpu")
IS_SHADOW = NAME == "shadow"
DEVICE = shadow() if IS_SHADOW else choose_device(NAME)
DTYPE = torch.float64 if has_double(DEVICE) else torch.float32


@contextmanager
def on_device() -> Iterator[Transfers | None]:
    """The device works inside the block; the shadow device counts transfers.

    Tensors of the shadow device are a subclass, with which the engines for whole batches would not be used: those of
    real devices are plain tensors.
    """
    with shadow_device() if IS_SHADOW else nullcontext() as transfers, pytest.MonkeyPatch.context() as patch:
        patch.setattr(per_record, "_PLAIN_TENSORS", {*per_record._PLAIN_TENSORS, ShadowTensor})
        yield transfers


class SameNoise(Noise):
    """The noise of a device on the CPU too, so that runs on both can be compared."""

    def words(self, purpose, nodes, step, count, first=0, device=CPU):
        if purpose in ("batch", "dropout", "augmentation"):
            return super().words(purpose, nodes, step, count, first)
        return device_words(self._key, purpose, nodes, np.asarray(step), count, first, device)


def same_noise(task):
    """The task with the noise of devices, wherever it is."""
    task.noise = SameNoise(bytes(32), reproducible=True, seed=0)
    return task
