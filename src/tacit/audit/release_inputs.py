"""What releases are computed from besides the records: it must be public, because the sensitivity assumes it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from tacit.privacy import Array, Bounded
from tacit.tasks import Clip, Task

_SENTENCES = {
    "parameters": 'the gradient "{}" of step {} is taken at parameters that depend on the records',
    "clip": 'the clip bound of "{}" of step {} depends on the records',
    "factor": 'a factor of "{}" of step {} depends on the records',
    "addend": 'a tensor added to "{}" of step {} depends on the records',
    "noise": 'the noise on "{}" of step {} has a scale that depends on the records',
}


class ReleaseInputs:
    """Notes the public inputs of every released gradient of a task, and replays released values.

    Sensitivity and amplification by sampling hold for parameters, clips and factors that depend on released values
    only. Gradients that an algorithm only uses inside the node are left out: if it releases something else that it
    computes from them, it states the sensitivity itself. Columns of parameters that stay at their node without noise
    are left out, because the sensitivity accounts for them (`Task.sensitivity`).

    Args:
        task: The task to observe, before a run gets it.
        released: The released values by step and purpose. A value that is in it replaces that of the release; others
            are added.
    """

    def __init__(self, task: Task, released: dict[tuple[int, str], Tensor]) -> None:
        self._bounded, self._gradient, self._values = task.model.bounded, task.gradient, released
        self._digests: dict[tuple[str, int, str], list[bytes]] = {}
        self._local: set[tuple[int, str]] = set()
        self._released: set[tuple[int, str]] = set()
        task.gradient = self._observed_gradient  # type: ignore[method-assign]
        task.on_release = self._on_release

    def differences(self, other: ReleaseInputs) -> Iterator[str]:
        """Yield one sentence for each kind of input that differs."""
        reported = set()
        for kind, step, purpose in self._digests | other._digests:
            if kind in reported or (self._stays_local(step, purpose) and other._stays_local(step, purpose)):
                continue
            if self._digests.get((kind, step, purpose)) != other._digests.get((kind, step, purpose)):
                reported.add(kind)
                yield _SENTENCES[kind].format(purpose, step)

    def note(self, kind: str, step: int, purpose: str, value: Tensor | float) -> None:
        """Note one input of the value with this step and purpose."""
        values = torch.as_tensor(value).detach().contiguous().numpy()
        self._digests.setdefault((kind, step, purpose), []).append(hashlib.sha256(values.tobytes()).digest())

    def note_local_use(self, step: int, purpose: str) -> None:
        self._local.add((step, purpose))

    def note_release(self, step: int, purpose: str) -> None:
        self._released.add((step, purpose))

    def _stays_local(self, step: int, purpose: str) -> bool:
        return (step, purpose) in self._local and (step, purpose) not in self._released

    def _observed_gradient(
        self,
        params: Tensor,
        step: int,
        clip: Clip | None = None,
        purpose: str = "gradient",
        before: Tensor | None = None,
    ) -> Bounded:
        for point in (params, before):
            if point is not None:
                self.note("parameters", step, purpose, point[:, : self._bounded])
        if clip is not None:
            self.note("clip", step, purpose, clip.bound)
        return _ObservedValue.of(self._gradient(params, step, clip, purpose, before), self)

    def _on_release(self, step: int, purpose: str, value: Tensor, scale: Array) -> None:
        self.note_release(step, purpose)
        self.note("noise", step, purpose, torch.tensor(scale))
        earlier = self._values.setdefault((step, purpose), value.clone())
        if earlier.shape == value.shape:
            value.copy_(earlier)


@dataclass(frozen=True)
class _ObservedValue(Bounded):
    """A value that notes what it is combined with."""

    _inputs: ReleaseInputs | None = None

    @classmethod
    def of(cls, value: Bounded, inputs: ReleaseInputs) -> _ObservedValue:
        same: dict[str, Any] = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        return cls(**same, _inputs=inputs)

    def use_locally(self) -> Tensor:
        self._noted.note_local_use(self.step, self.purpose)
        return super().use_locally()

    def scaled(self, factor: float) -> Bounded:
        self._noted.note("factor", self.step, self.purpose, factor)
        return super().scaled(factor)

    def plus(self, other: Tensor | Bounded) -> Bounded:
        if isinstance(other, Bounded):
            self._noted.note_release(other.step, other.purpose)
        else:
            self._noted.note("addend", self.step, self.purpose, other)
        return super().plus(other)

    @property
    def _noted(self) -> ReleaseInputs:
        assert self._inputs is not None
        return self._inputs
