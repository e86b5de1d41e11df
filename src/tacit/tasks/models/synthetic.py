"""Random records for trials of a model. A trial on private records could make a refusal depend on their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from tacit.errors import TacitError


class RecordForm(NamedTuple):
    """The shapes and types of a record and its label, which are public."""

    x_shape: tuple[int, ...]
    x_dtype: torch.dtype
    y_shape: tuple[int, ...]
    y_dtype: torch.dtype
    device: torch.device = torch.device("cpu")

    @classmethod
    def of(cls, x: Tensor, y: Tensor) -> RecordForm:
        """Return the form of records x (n, B, …) and labels y (n, B, …)."""
        return cls(tuple(x.shape[2:]), x.dtype, tuple(y.shape[2:]), y.dtype, x.device)

    def batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield two random batches x (size, …), y (size, …), always the same.

        The valid values of a model are not known. The first batch has normal values and labels 0 or 1 (between 0 and 1
        if they are not integers), since every data set has two classes. The second one is for models that take indices
        or have one output: its values are 0 or 1, and its labels 0. An integer is 0 or 1 in both.

        >>> form = RecordForm((2,), torch.int64, (), torch.int64)
        >>> [(sorted(set(x.flatten().tolist())), sorted(set(y.tolist()))) for x, y in form.batches(8)]
        [([0, 1], [0, 1]), ([0, 1], [0])]
        """
        generator = torch.Generator().manual_seed(0)

        def bits(*shape: int) -> Tensor:
            return torch.randint(0, 2, shape, generator=generator)

        real = self.x_dtype.is_floating_point or self.x_dtype.is_complex
        normal = torch.randn(size, *self.x_shape, generator=generator, dtype=torch.float64)
        labels = bits(size, *self.y_shape)
        if self.y_dtype.is_floating_point:
            labels = torch.rand(labels.shape, generator=generator)
        none = torch.zeros(labels.shape)
        for x, y in (normal if real else bits(*normal.shape), labels), (bits(*normal.shape), none):
            yield x.to(self.x_dtype).to(self.device), y.to(self.y_dtype).to(self.device)


def try_on_random_batches(run: Callable[[Tensor, Tensor], None], form: RecordForm, size: int, failure: str) -> None:
    """Run a trial on every random batch of this form; raise if none is valid for it.

    The error contains the reason, which reveals nothing: the records are random.
    """
    errors = []
    for x, y in form.batches(size):
        try:
            run(x, y)
        except TacitError:
            raise
        except Exception as error:  # a user's module may raise anything
            errors.append(error)
    if len(errors) == 2:
        raise TacitError(
            f"{failure} on random records of shape {form.x_shape} and type {form.x_dtype}: {errors[0]}"
        ) from errors[0]
