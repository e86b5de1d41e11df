"""Features of the user's own: a frozen module, or a function of one record."""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tacit.errors import TacitError
from tacit.tasks.features.registry import Feature, features, unit
from tacit.tasks.models.adapter import tensor_output
from tacit.tasks.models.per_record import is_per_record
from tacit.tasks.models.synthetic import RecordForm

UserFeature = Callable[[Tensor], Any] | nn.Module
_TRIALS = 4  # random records
_TOLERANCE = 1e-5


class OwnFeature(Feature):
    """A module or function of the user as a feature of unit norm.

    Privacy:
        One record must not influence the features of another. A function is called with one record at a time. A module
        gets several records only if each of its parts is known to treat records separately; otherwise it gets one
        record at a time, through torch.vmap or alone. A record for which it fails, or returns another number of values,
        has the features 0: no record stops a run. Trials use random records only. They refuse a function that keeps a
        state or is random, as far as these records show it.
    """

    exact = False

    def __init__(
        self, name: str, own: UserFeature, inputs: tuple[int, ...], tokens: bool, file: Path | None = None
    ) -> None:
        super().__init__()
        self.name, self._file = name, file
        self.module: nn.Module | None = None
        self._function: Callable[[Tensor], Any] | None = None
        if isinstance(own, nn.Module):
            self.module = copy.deepcopy(own).eval().requires_grad_(False)
        else:
            self._function = own
        self.values = self._try(inputs, torch.int64 if tokens else torch.float32)

    @property
    def source(self) -> str:
        """Digests of what the feature is: its code with the state of a module, and the file by which it was named."""
        digest = hashlib.sha256(_code(self.module if self.module is not None else self._function).encode())
        for name, value in sorted(self.state_dict().items()):
            digest.update(f" {name} {tuple(value.shape)} {value.dtype} ".encode())
            digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        file = "" if self._file is None else f" {hashlib.sha256(self._file.read_bytes()).hexdigest()}"
        return f"{self.name} {digest.hexdigest()}{file}"

    def forward(self, x: Tensor) -> Tensor:
        # A copy: layers such as ReLU(inplace=True) change what they are given, which would be the records themselves.
        if self.module is not None and (together := self._together(x.clone())) is not None:
            return unit(together)
        rows = [self._alone(record) for record in x]
        return unit(torch.stack(rows)) if rows else torch.zeros(0, self.values)

    def _together(self, x: Tensor) -> Tensor | None:
        """Return the values of several records, each from its own record only; None if that fails for any reason."""
        module = self.module
        assert module is not None
        try:
            if is_per_record(module):
                found = tensor_output(module(x)).flatten(1)
            else:
                found = torch.vmap(lambda record: tensor_output(module(record.unsqueeze(0))).flatten())(x)
        except Exception:  # a record that fails must not be seen: the others are then mapped alone
            return None
        if _is_exported():
            return found.float()
        return found.float() if found.shape == (len(x), self.values) else None

    def _alone(self, record: Tensor) -> Tensor:
        try:
            values = self._call(record)
        except Exception:
            return torch.zeros(self.values)
        return values if values.shape == (self.values,) else torch.zeros(self.values)

    def _call(self, record: Tensor) -> Tensor:
        """Return the values of one record. The copy shares no memory with other records."""
        if self.module is not None:
            return tensor_output(self.module(record.clone().unsqueeze(0))).flatten().float()
        assert self._function is not None
        return torch.as_tensor(self._function(record.clone())).detach().flatten().float()

    def _try(self, inputs: tuple[int, ...], dtype: torch.dtype) -> int:
        """Return the number of values, from calls on random records, in two orders."""
        errors: list[Exception] = []
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            for x, _ in RecordForm(inputs, dtype, (), torch.int64).batches(_TRIALS):
                try:
                    first = [self._call(record) for record in x]
                    again = [self._call(record) for record in x.flip(0)][::-1]
                except Exception as error:  # a user's function may raise anything
                    errors.append(error)
                    continue
                return self._checked_width(first, again)
        reason = " ".join(str(errors[0]).split()) or type(errors[0]).__name__
        raise TacitError(f"feature {self.name} fails on random records of shape {inputs}: {reason}") from errors[0]

    def _checked_width(self, first: list[Tensor], again: list[Tensor]) -> int:
        widths = {len(values) for values in (*first, *again)}
        if len(widths) > 1 or 0 in widths:
            raise TacitError(f"feature {self.name} must return the same number of values for every record")
        for one, other in zip(first, again, strict=True):
            if not torch.allclose(one, other, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True):
                raise TacitError(
                    f"feature {self.name} returns other values for the same record when it is called again: it must "
                    "depend on the record only, without random numbers and without a state"
                )
        return widths.pop()


def _is_exported() -> bool:
    """Whether a model is being exported. The number of records is then no constant, so shapes cannot be compared."""
    return torch.compiler.is_exporting() or torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]


def load_own(name: str) -> UserFeature:
    """Return the function or module that `path/to/file.py:name` names. A class of modules is created without arguments.

    Raises:
        TacitError: There is no such file, or it fails.
    """
    found: Any = features[name]
    if not inspect.isclass(found):
        return found  # type: ignore[no-any-return]  # the registry has checked that it is callable
    try:
        made = found()
    except Exception as error:
        raise TacitError(f"feature {name} cannot be created: {error}") from error
    if not callable(made):
        raise TacitError(f"feature {name} must be a function or a module")
    return made


def _code(own: object) -> str:
    """Return the structure of a module with the source of its classes, or the source of a function.

    The classes of torch are those of its version: their names are sufficient.
    """
    if not isinstance(own, nn.Module):
        return f"{getattr(own, '__qualname__', repr(type(own)))} {_text(own)}"
    classes = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in map(type, own.modules())}
    texts = [_text(kind) for name, kind in sorted(classes.items()) if not name.startswith("torch.")]
    return " ".join([type(own).__qualname__, repr(own), *texts])


def _text(kind: object) -> str:
    """Return the source of a class or function, if there is one."""
    try:
        return inspect.getsource(kind)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""
