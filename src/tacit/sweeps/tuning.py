"""Tuning: a sweep on records of which it is known whether they are to be protected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tomli_w

from tacit.errors import TacitError
from tacit.runs import (
    Config,
    FeatureKeys,
    apply_recipe,
    apply_settings,
    batch_relation,
    build_data,
    canonical_settings,
    storage,
)
from tacit.sweeps.judging import public_part
from tacit.sweeps.keys import config_key, setting_text
from tacit.sweeps.results import SweepResult
from tacit.sweeps.search import BEST_FILE, sweep
from tacit.sweeps.synthetic import synthetic_records

TunedOn = Literal["public", "synthetic", "records"]
DEFAULT_GRID = ("lr=0.25..16:log", "clip=0.5,1,2")
SYNTHETIC_FILE, TUNING_FILE = "synthetic.npz", "tuning.json"


@dataclass(frozen=True)
class TuningResult:
    """The result of `tune`.

    Attributes:
        tuned_on: "public", "synthetic" or "records".
        sentence: What the settings were chosen on, and what this cost.
        best: The config with the best settings, for the records of the config.
        found: The sweep.
    """

    tuned_on: TunedOn
    sentence: str
    best: dict[str, Any]
    found: SweepResult

    def as_dict(self) -> dict[str, Any]:
        return {
            "tuned_on": self.tuned_on,
            "records_used": self.tuned_on == "records",
            "tuning": self.sentence,
            "best_config": canonical_settings(self.best),
            "sweep": self.found.as_dict(),
        }


def tune(
    config: Config,
    grid: Sequence[str] = (),
    *,
    out: Path,
    public: str | None = None,
    synthetic: bool = False,
    charge: bool = False,
    trials: int | None = None,
    seed: int = 0,
    seeds: int = 1,
    metric: str | None = None,
    workers: int = 1,
) -> TuningResult:
    """Search good settings of a config, and write `best.toml` for its own records.

    Privacy:
        With `synthetic`, no run trains on the records of the config, so the tuning costs them no ε. With `public`,
        this holds if none of them is among the public records. With `charge`, the runs train on the records, and the
        target ε is split over all of them.

    Args:
        config: The config to tune.
        grid: The settings to vary, as for a sweep; by default the step size and the clipping bound.
        out: The folder of the results.
        public: Public records to train and judge on: a data set, or a file like that of the config.
        synthetic: Train and judge on synthetic records with the same shape, classes and number.
        charge: Train on the records of the config, with every trial charged.
        trials: The number of random points; by default 8 for the default grid, and the whole grid otherwise.
        seed: The seed of the points and of synthetic records.
        seeds: Runs per setting.
        metric: The metric that decides.
        workers: Number of processes.

    Raises:
        TacitError: None or several of public, synthetic and charge are given, or a setting is not accepted.
    """
    if (public is not None) + synthetic + charge != 1:
        raise TacitError(
            "set what to tune on: a public data set or file, synthetic records, or the records of the config with "
            "every trial charged: --public NAME, --synthetic or --charge (Python: public=, synthetic= or charge=)"
        )
    config, _ = apply_recipe(config)
    trials = trials if trials is not None or grid else 8
    base = config
    if public is not None:
        part = public_part(public, config).model_dump()
        part.pop("test", None)  # a sweep judges on public test records here, so a file is split
        base = _with_data(config, {**part, **_features(config)})
    elif synthetic:
        base = _with_data(config, {**_write_synthetic(config, out, seed), **_features(config)})
    options: dict[str, Any] = {"random": trials, "seed": seed, "seeds": seeds, "metric": metric, "workers": workers}
    found = sweep(base, list(grid or DEFAULT_GRID), charge=charge, out=out, **options)
    tuned_on: TunedOn = "public" if public is not None else "synthetic" if synthetic else "records"
    best = dict(found.best_table) if charge else _with_point(config, found.rows[0].point)
    result = TuningResult(tuned_on, _sentence(tuned_on, public, found), best, found)
    storage.write(out / BEST_FILE, tomli_w.dumps(best).encode())
    storage.write_json(out / TUNING_FILE, result.as_dict())
    return result


def _with_data(config: Config, data: Mapping[str, Any]) -> Config:
    """The config with other records, as a simulation: nobody is to be protected."""
    return Config.parse({**config.as_dict(), "data": dict(data), "noise": "simulated", "sharding": {"name": "iid"}})


def _features(config: Config) -> dict[str, Any]:
    return {key: value for key, value in config.data.parameters.items() if key in FeatureKeys.model_fields}


def _write_synthetic(config: Config, out: Path, seed: int) -> dict[str, Any]:
    """Write synthetic records like those of the config, and return the section [data] that reads them."""
    plain = config.data.model_copy()
    given = {key: value for key, value in plain.model_dump().items() if key not in FeatureKeys.model_fields}
    data = build_data(type(plain).model_validate(given), batch_relation(config.batch))
    if not data.declared:
        raise TacitError(
            f"data set {data.name}: the classes were learnt from the records, so synthetic records would depend on "
            "them: set data.labels"
        )
    target = data.target
    if target.kind not in ("class", "number"):
        raise TacitError(
            f"a search on synthetic records is for classes and numbers, got a target of kind {target.kind}: use public "
            "records (--public), or the records themselves (--charge)"
        )
    made = synthetic_records(data, seed)
    out.mkdir(parents=True, exist_ok=True)
    path = out / SYNTHETIC_FILE
    y, test_y = (each if target.kind == "class" else target.decode(each) for each in (made.y, made.test_y))
    np.savez(path, x=made.x.numpy(), y=y.numpy(), x_test=made.test_x.numpy(), y_test=test_y.numpy())
    known = {"labels": list(range(made.classes))} if target.kind == "class" else {"target": list(target.range or ())}
    return {"name": "npz", "path": str(path), **known}


def _with_point(config: Config, point: Mapping[str, Any]) -> dict[str, Any]:
    settings = [setting_text(config_key(name, config), value) for name, value in point.items()]
    return apply_settings(config.as_dict(), settings)


def _sentence(tuned_on: TunedOn, public: str | None, found: SweepResult) -> str:
    runs = found.privacy.runs
    if tuned_on == "records":
        return f"Tuned on the records of the config, in {runs} runs. {found.privacy.sentence()}"
    if tuned_on == "public":
        return (
            f"Tuned on {public}, which was declared public, in {runs} runs. If it has no record of the config's data, "
            "the tuning costs no ε. Tacit cannot check this."
        )
    return (
        f"Tuned on synthetic records of the same shape and number, in {runs} runs. No record of the config was used, "
        "so the tuning costs no ε."
    )
