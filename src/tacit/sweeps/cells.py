"""The cells of a sweep: one run each, with its settings and its complete config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tacit.errors import TacitError
from tacit.runs import Config, apply_settings, code_digests, resolved_config, settings_digest
from tacit.sweeps.grid import Point
from tacit.sweeps.keys import config_key, setting_text

_RESULT_FORMAT = 1  # part of every key: increase it when the saved results change


@dataclass(frozen=True, eq=False)
class SweepCell:
    """One run of a sweep.

    Attributes:
        setting: The index of its setting.
        point: The swept values, by the names in the grid.
        table: The config of the setting as a dict, without defaults and without the seed.
        config: The complete config.
    """

    setting: int
    point: Point
    table: Mapping[str, Any]
    config: Config

    @property
    def title(self) -> str:
        return f"{point_text(self.point)}, seed {self.config.seed}"

    def with_epsilon(self, epsilon: float) -> SweepCell:
        """Return the cell with another target ε."""
        table = apply_settings(self.table, [setting_text("privacy.epsilon", epsilon)])
        privacy = self.config.privacy.model_copy(update={"epsilon": epsilon})
        return replace(self, table=table, config=self.config.model_copy(update={"privacy": privacy}))

    def key(self, judge: Mapping[str, Any]) -> str:
        """Identify the run and the records it is judged on: other settings, records or code give another key."""
        config = resolved_config(self.config).as_dict()
        config.pop("name", None)
        run = {"format": _RESULT_FORMAT, "config": config, "code": code_digests(config), "judge": judge}
        return settings_digest(run)[:20]


def expand_points(config: Config, points: Sequence[Point], seeds: int) -> list[SweepCell]:
    """Return the cells of all points with all seeds. Every config is checked.

    Raises:
        TacitError: A setting is unknown, cannot be swept, or has a wrong value.
    """
    if seeds < 1:
        raise TacitError(f"seeds must be at least 1, got {seeds}")
    keys = {name: config_key(name, config) for name in points[0]}
    base, cells = _without_defaults(config), []
    for number, point in enumerate(points):
        settings = [setting_text(keys[name], value) for name, value in point.items()]
        table = apply_settings(base, settings)
        parsed = Config.parse(table, f"the setting {point_text(point)}")
        for seed in range(config.seed, config.seed + seeds):
            cells.append(SweepCell(number, point, table, parsed.model_copy(update={"seed": seed})))
    return cells


def point_text(point: Point) -> str:
    """
    >>> point_text({"lr": 0.1, "model.hidden": [64]})
    'lr 0.1, model.hidden [64]'
    """
    return ", ".join(f"{name} {value_text(value)}" for name, value in point.items())


def value_text(value: Any) -> str:
    """A swept value in a table."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _without_defaults(config: Config) -> dict[str, Any]:
    default = Config().as_dict()
    return {key: value for key, value in config.as_dict().items() if value != default.get(key)}
