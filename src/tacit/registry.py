"""Names for the things a config can ask for: algorithms, graphs, models, data, shards."""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import pydantic

from tacit.errors import TacitError, unknown

T = TypeVar("T")
Maker = Callable[..., T]


class Registry(Generic[T]):
    """A table from name to maker. Building one checks the parameters first and names the nearest right key.

    >>> shapes = Registry("shape")
    >>> @shapes.register("square")
    ... def square(side: float = 1.0) -> float:
    ...     "Area of a square."
    ...     return side * side
    >>> shapes.build("square", {"side": 3})
    9.0
    >>> shapes.build("square", {"sid": 3})
    Traceback (most recent call last):
    tacit.errors.TacitError: unknown parameter of shape square "sid"; did you mean "side"?
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._makers: dict[str, Maker[T]] = {}

    def register(self, name: str) -> Callable[[Any], Any]:
        """Decorator: `@graphs.register("ring")`."""

        def add(maker: Any) -> Any:
            self._makers[name] = maker
            return maker

        return add

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._makers))

    def __getitem__(self, name: str) -> Maker[T]:
        """The maker called `name`, or, for `path/to/file.py:Name`, the one in the user's own file."""
        if ".py:" in name:
            return self._from_file(name)
        if name not in self._makers:
            raise unknown(self.kind, name, self)
        return self._makers[name]

    def describe(self) -> dict[str, str]:
        """Each name with the first line of its maker's docstring."""
        return {name: (inspect.getdoc(self._makers[name]) or "").split("\n")[0] for name in self}

    def parameters(self, name: str) -> dict[str, inspect.Parameter]:
        return dict(inspect.signature(self[name]).parameters)

    def check(self, name: str, params: Mapping[str, Any]) -> None:
        """Refuse parameters the maker does not take."""
        known = self.parameters(name)
        for key in params:
            if key not in known:
                raise unknown(f"parameter of {self.kind} {name}", key, known)

    def build(self, name: str, params: Mapping[str, Any] | None = None) -> T:
        params = dict(params or {})
        self.check(name, params)
        maker = self[name]
        missing = [
            k for k, p in self.parameters(name).items() if p.default is inspect.Parameter.empty and k not in params
        ]
        if missing:
            raise TacitError(f"{self.kind} {name} needs a value for: {', '.join(missing)}")
        try:
            return pydantic.validate_call(config={"arbitrary_types_allowed": True})(maker)(**params)
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise TacitError(f"{self.kind} {name}: {where} = {first['input']!r}: {first['msg'].lower()}") from None

    def _from_file(self, name: str) -> Maker[T]:
        path, _, attribute = name.rpartition(":")
        file = Path(path).resolve()
        if not file.is_file():
            raise TacitError(f"{self.kind} {name}: there is no file {file}")
        key = f"tacit_user_{file.stem}_{abs(hash(str(file)))}"
        if key not in sys.modules:
            spec = importlib.util.spec_from_file_location(key, file)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[key] = module
            spec.loader.exec_module(module)
        try:
            return getattr(sys.modules[key], attribute)  # type: ignore[no-any-return]
        except AttributeError:
            raise TacitError(f"{self.kind} {name}: {file} defines no {attribute}") from None
