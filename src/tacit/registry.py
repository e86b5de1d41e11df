"""Registries: tables from a name in a config or a file to the class or function that it stands for."""

import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

import pydantic

from tacit.errors import TacitError, unknown

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Maker = Callable[..., T]


def discover(package: str) -> None:
    """Import every module of `package`, so that all of its members are registered. No list needs editing."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")


def invalid(where: str, error: pydantic.ValidationError) -> TacitError:
    """Return the error for the first value that pydantic refused."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ").split(", unable to")[0]
    if not key:  # the keys do not fit each other
        return TacitError(f"{where}: {message}")
    if first["type"] == "missing":
        return TacitError(f"{where}: {key} is missing")
    problem = message.removeprefix("Input ") if message.startswith("Input ") else f"is wrong: {message}"
    return TacitError(f"{where}: {key} = {first['input']!r} {problem}")


@lru_cache(maxsize=256)  # pydantic takes longer to read a signature than most makers take to run
def _checked(maker: Maker[T]) -> Maker[T]:
    """Return a function that checks its arguments and calls the maker."""
    return pydantic.validate_call(config={"arbitrary_types_allowed": True})(_as_function(maker))


def _as_function(maker: Maker[T]) -> Maker[T]:
    """Return a class as a function with its signature, because pydantic checks the arguments of functions only."""
    if not inspect.isclass(maker):
        return maker

    def make(**params: Any) -> Any:
        return maker(**params)

    hints = get_type_hints(maker if is_dataclass(maker) else maker.__init__, include_extras=True)
    signature = inspect.signature(maker)
    make.__signature__ = signature  # type: ignore[attr-defined]
    make.__annotations__ = {key: hints[key] for key in signature.parameters if key in hints}
    return make


class Registry(Generic[T]):
    """A table from names to makers: classes or functions that create a member.

    `build` checks the parameters first, and suggests the closest key for an unknown one.

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

    def __init__(self, kind: str, given: Collection[str] = ()) -> None:
        """Create an empty registry; `given` are parameters that the caller supplies, and users cannot set."""
        self.kind, self.given = kind, given
        self._makers: dict[str, Maker[T]] = {}
        self._examples: dict[str, dict[str, Any]] = {}
        self.common_parameters: dict[str, str] = {}

    def register(self, name: str, *, example: Mapping[str, Any] | None = None) -> Callable[[F], F]:
        """Return a decorator that registers a maker, as in `@graphs.register("ring")`.

        Args:
            name: The name in configs.
            example: Parameters for a small example, if the defaults do not make one. Tests that run every member of
                the registry use them.
        """

        def add(maker: F) -> F:
            self._makers[name] = maker
            self._examples[name] = dict(example or {})
            return maker

        return add

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._makers))

    def __getitem__(self, name: str) -> Maker[T]:
        """Return the maker called `name`; for `path/to/file.py:Name`, the one in the user's file."""
        if ".py:" in name:
            return self._from_file(name)
        if name not in self._makers:
            raise unknown(self.kind, name, self)
        return self._makers[name]

    def example(self, name: str) -> dict[str, Any]:
        """Return the parameters of a small example of `name`, as it was registered."""
        return dict(self._examples.get(name, {}))

    def describe_parameters(self, **descriptions: str) -> None:
        """Describe parameters that several members have; the docstring of a member can describe them differently."""
        self.common_parameters |= descriptions

    def registered(self, name: str) -> Maker[T]:
        """Return the maker registered under this name. Unlike `registry[name]`, it never loads a user's file."""
        if name not in self._makers:
            raise unknown(self.kind, name, self)
        return self._makers[name]

    def is_builtin(self, name: str) -> bool:
        """Return whether `name` is a member that Tacit itself registered, and not the user's."""
        maker = self._makers.get(name)
        return maker is not None and maker.__module__.startswith(f"{__package__}.")

    def describe(self) -> dict[str, str]:
        """Return each name with the first line of its maker's docstring."""
        return {name: (inspect.getdoc(self._makers[name]) or "").split("\n")[0] for name in self}

    def parameters(self, name: str) -> dict[str, inspect.Parameter]:
        return dict(inspect.signature(self[name]).parameters)

    def options(self, name: str) -> dict[str, inspect.Parameter]:
        """Return the parameters that users can set."""
        return {key: each for key, each in self.parameters(name).items() if key not in self.given}

    def check(self, name: str, params: Mapping[str, Any], also: Collection[str] = ()) -> None:
        """Raise TacitError if users cannot set one of `params`; `also` lists further accepted parameters."""
        self._refuse(name, params, [*self.options(name), *also])

    def _refuse(self, name: str, params: Mapping[str, Any], known: Collection[str]) -> None:
        for key in params:
            if key not in known:
                raise unknown(f"parameter of {self.kind} {name}", key, known)

    def build(self, name: str, params: Mapping[str, Any] | None = None) -> T:
        params = dict(params or {})
        self._refuse(name, params, self.parameters(name))
        maker = self[name]
        missing = [
            k for k, p in self.parameters(name).items() if p.default is inspect.Parameter.empty and k not in params
        ]
        if missing:
            raise TacitError(f"{self.kind} {name} needs a value for: {', '.join(missing)}")
        try:
            made: T = _checked(maker)(**params)
            return made
        except pydantic.ValidationError as error:
            raise invalid(f"{self.kind} {name}", error) from None

    def _from_file(self, name: str) -> Maker[T]:
        path, _, attribute = name.rpartition(":")
        file = Path(path).resolve()
        if not file.is_file():
            raise TacitError(f"{self.kind} {name}: file {file} does not exist")
        key = f"tacit_user_{file.stem}_{abs(hash(str(file)))}"
        if key not in sys.modules:
            spec = importlib.util.spec_from_file_location(key, file)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[key] = module  # dataclasses look up their module while it is loaded
            try:
                spec.loader.exec_module(module)
            except Exception as error:
                del sys.modules[key]
                raise TacitError(f"{self.kind} {name}: {file} fails with {type(error).__name__}: {error}") from error
        maker: Maker[T] | None = getattr(sys.modules[key], attribute, None)
        if not callable(maker):
            raise TacitError(f"{self.kind} {name}: {file} defines no class or function {attribute}")
        return maker
