"""The settings of a sweep: lists of values, ranges, and the points that are tried."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import TacitError
from tacit.runs import setting_value

Point = dict[str, Any]
"""One value per axis, by the name of the axis."""

_RANGE = re.compile(r"\s*(?P<low>[^,\s]+?)\s*\.\.\s*(?P<high>[^,\s:]+)\s*(?P<scale>:\s*\w*)?\s*")
_DIGITS = 4  # of a drawn number, so that configs and tables stay readable
_MAX_POINTS = 100_000


@dataclass(frozen=True)
class ListAxis:
    """A setting with a list of values."""

    name: str
    values: tuple[Any, ...]

    def draw(self, rng: np.random.Generator, count: int) -> list[Any]:
        """Return `count` of the values, drawn with replacement."""
        return [self.values[int(i)] for i in rng.integers(len(self.values), size=count)]


@dataclass(frozen=True)
class RangeAxis:
    """A number between `low` and `high`, drawn uniformly, or log-uniformly if `log`. Two integers give integers."""

    name: str
    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def draw(self, rng: np.random.Generator, count: int) -> list[Any]:
        """Return `count` numbers.

        >>> RangeAxis("lr", 0.01, 1.0, log=True).draw(np.random.default_rng(0), 2)
        [0.1879, 0.03464]
        """
        if self.whole and not self.log:
            return [int(each) for each in rng.integers(int(self.low), int(self.high), size=count, endpoint=True)]
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        drawn = rng.uniform(low, high, size=count).tolist()
        return [self._shown(math.exp(each) if self.log else each) for each in drawn]

    def _shown(self, value: float) -> float:
        rounded = round(value) if self.whole else float(f"{value:.{_DIGITS}g}")
        return min(max(rounded, self.low), self.high)


Axis = ListAxis | RangeAxis


def parse_grid(grid: Mapping[str, Any] | Sequence[str]) -> list[Axis]:
    """Return the axes of a grid: texts such as "lr=0.1,0.3" and "lr=0.01..1:log", or a dict of lists and such texts.

    >>> parse_grid(["lr=0.1,0.3", "model.hidden=[64],[64, 32]"])
    [ListAxis(name='lr', values=(0.1, 0.3)), ListAxis(name='model.hidden', values=([64], [64, 32]))]
    >>> parse_grid({"clip": [0.5, 1.0], "lr": "0.01..1:log"})
    [ListAxis(name='clip', values=(0.5, 1.0)), RangeAxis(name='lr', low=0.01, high=1, log=True)]
    """
    items = list(grid.items()) if isinstance(grid, Mapping) else [_item(text) for text in grid]
    if not items:
        raise TacitError("A sweep needs one or more settings to vary: --grid lr=0.1,0.3 (Python: grid={...})")
    names = [name for name, _ in items]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise TacitError(f"the grid sets {repeated[0]} twice: put all its values into one list")
    return [_axis(name, values) for name, values in items]


def grid_points(axes: Sequence[Axis], random: int | None = None, seed: int = 0) -> list[Point]:
    """Return the points of a grid: all of them, or `random` of them.

    Points are drawn before anything runs, so they do not depend on the order of execution. Lists are sampled without
    replacement. With a range, every setting is drawn separately. A larger `random` keeps the points of a smaller one.

    >>> grid_points(parse_grid(["lr=0.1,0.3", "clip=1,2"]), random=2)
    [{'lr': 0.3, 'clip': 1}, {'lr': 0.1, 'clip': 1}]
    """
    ranges = [axis for axis in axes if isinstance(axis, RangeAxis)]
    if random is not None and random < 1:
        raise TacitError(f"random must be at least 1, got {random}")
    if ranges and random is None:
        raise TacitError(f"{ranges[0].name} has a range: add --random N (Python: random=N), or list its values")
    if seed < 0:
        raise TacitError(f"seed must be at least 0, got {seed}")
    if ranges:
        assert random is not None
        drawn = [axis.draw(np.random.default_rng([seed, *axis.name.encode()]), random) for axis in axes]
        points = [dict(zip((axis.name for axis in axes), values, strict=True)) for values in zip(*drawn, strict=True)]
        return list({repr(point): point for point in points}.values())
    lists = [axis.values for axis in axes if isinstance(axis, ListAxis)]
    if (size := math.prod(map(len, lists))) > _MAX_POINTS:
        raise TacitError(f"The grid has {size:,} settings, more than {_MAX_POINTS:,}: list fewer values, or use ranges")
    points = [dict(zip((axis.name for axis in axes), values, strict=True)) for values in itertools.product(*lists)]
    if random is None:
        return points
    return [points[i] for i in np.random.default_rng(seed).permutation(len(points))[:random]]


def _item(text: str) -> tuple[str, str]:
    name, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise TacitError(f'a setting of the grid is key=value,value or key=LOW..HIGH, such as lr=0.1,0.3, got "{text}"')
    return name, values


def _axis(name: str, values: Any) -> Axis:
    if isinstance(values, str):
        if (found := _RANGE.fullmatch(values)) and _is_range(found):
            return _range(name, values, found)
        values = [setting_value(part) if part else _refuse_empty(name) for part in _split(values)]
    if isinstance(values, Mapping) or not isinstance(values, Sequence | np.ndarray) or not len(values):
        raise TacitError(f"The values of {name} must be a list, or a text such as 0.01..1:log, got {values!r}")
    plain = [each.item() if isinstance(each, np.generic) else each for each in values]
    return ListAxis(name, tuple({repr(each): each for each in plain}.values()))


def _is_range(found: re.Match[str]) -> bool:
    """Whether one of the ends is a number. Otherwise the text may be a path."""
    return any(isinstance(setting_value(found[end]), int | float) for end in ("low", "high"))


def _range(name: str, text: str, found: re.Match[str]) -> RangeAxis:
    low, high, scale = setting_value(found["low"]), setting_value(found["high"]), (found["scale"] or "").strip(": ")
    numbers = all(isinstance(end, int | float) and math.isfinite(end) for end in (low, high))
    if not numbers or scale not in ("", "log") or not low < high:
        raise TacitError(f"{name}={text}: a range is LOW..HIGH or LOW..HIGH:log, with finite numbers LOW < HIGH")
    if scale and low <= 0:
        raise TacitError(f"{name}={text}: a logarithmic range needs LOW above 0, got {low}")
    return RangeAxis(name, low, high, scale == "log")


def _split(text: str) -> Iterator[str]:
    """Split at commas outside brackets and quotes."""
    start, depth, quote = 0, 0, ""
    for i, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:i].strip()
            start = i + 1
    yield text[start:].strip()


def _refuse_empty(name: str) -> Any:
    raise TacitError(f"the grid of {name} has an empty value: list values as in {name}=0.1,0.3")
