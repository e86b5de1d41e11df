"""A sweep, from a config and a grid to its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.errors import TacitError, unknown
from tacit.runs import Config, apply_recipe, apply_settings, ensure_folder, setting_texts, storage
from tacit.runs.metrics import Metric, PredictionMetric, Result, all_metrics, evaluated_metrics, prediction_metrics
from tacit.runs.metrics import metric as metric_of
from tacit.sweeps.cell_runs import run_cells, simulated_run
from tacit.sweeps.cells import SweepCell, expand_points
from tacit.sweeps.charging import check_population_budget, split_target, sweep_privacy
from tacit.sweeps.grid import grid_points, parse_grid
from tacit.sweeps.judging import Judge, JudgeMode, forget_data, load_data
from tacit.sweeps.results import SweepResult, mean_and_deviation, ranked_settings

RESULTS_FILE, TABLE_FILE, BEST_FILE, CELLS_FOLDER = "results.json", "table.md", "best.toml", "cells"


def sweep(
    config: Config | Mapping[str, Any] | str | Path | None = None,
    grid: Mapping[str, Any] | Sequence[str] = (),
    *,
    random: int | None = None,
    seed: int = 0,
    seeds: int = 1,
    settings: Mapping[str, Any] | Sequence[str] = (),
    judge: JudgeMode | None = None,
    public: str | Path | None = None,
    metric: str | None = None,
    charge: bool = False,
    workers: int = 1,
    out: str | Path | None = None,
) -> SweepResult:
    """Run a config with every setting of a grid, and return a table of the settings with the best one.

    With `out`, finished runs are saved there and not repeated: the same call continues a sweep that was stopped.

    Privacy:
        All runs use the same records. Their results are used to choose, so together they cost more than one of them.
        `SweepResult.privacy` has both numbers. With `charge`, the stated ε is that of all runs together, and a target ε
        (`privacy.epsilon`) is split over them. A sweep with secret noise is always charged.

    Args:
        config: A config, a dict, or the path of a config file. None is the embedded example.
        grid: The settings to vary: a dict of lists, or texts as for `--grid`. A key is a hyperparameter of the
            algorithm ("lr") or a config key ("batch.size"). "0.01..1" is a range, and "0.01..1:log" a logarithmic one.
        random: Try so many random points of the grid. Ranges need it.
        seed: The seed of the random points.
        seeds: Runs per setting, with consecutive seeds from that of the config.
        settings: Settings for all runs, such as `{"batch.size": 16}`; or texts "batch.size=16".
        judge: "held-out" (half of the test records), "test" (all of them), or "public".
        public: The public records for judge="public": the name of a data set, or a file like that of the config.
        metric: The metric that decides. The default is the main metric of the task.
        charge: Whether the stated ε includes all runs of the sweep.
        workers: Number of processes. With several, a script needs `if __name__ == "__main__":`.
        out: The folder of results.json, table.md, best.toml and the finished runs. By default nothing is written.

    Raises:
        TacitError: A setting is not accepted, or no run has a result.

    Example:
        >>> found = sweep({"rounds": 5, "privacy": {"epsilon": 3.0, "delta": 1e-3}}, {"lr": [0.1, 0.5]})
        >>> len(found.table), found.best.algorithm.parameters["lr"] in (0.1, 0.5)
        (2, True)
    """
    forget_data()
    base, _ = apply_recipe(_load(config, settings))
    chosen_mode: JudgeMode = judge or ("held-out" if public is None else "public")
    judging = Judge(chosen_mode, None if public is None else str(public))
    if workers < 1:
        raise TacitError(f"workers must be at least 1, got {workers}")
    cells = expand_points(base, grid_points(parse_grid(grid), random, seed), seeds)
    _check_same_split(cells)
    decisive = _decisive_metric(cells[0], judging, metric)
    charged = charge or base.noise == "secret"
    if charged:
        cells = split_target(cells, base)
        check_population_budget(cells, base)
    else:
        _check_settings(cells)
    folder = None if out is None else Path(out)
    results = run_cells(cells, judging, None if folder is None else folder / CELLS_FOLDER, workers)
    result = _summary(base, cells, results, decisive, judging, charged, folder)
    if folder is not None:
        _write(result, folder)
    return result


def _load(
    config: Config | Mapping[str, Any] | str | Path | None, settings: Mapping[str, Any] | Sequence[str]
) -> Config:
    if isinstance(settings, str):
        raise TacitError(f'settings must be a dict or a list of texts "key=value", got one text: "{settings}"')
    texts = list(setting_texts(settings)) if isinstance(settings, Mapping) else settings
    if config is None or isinstance(config, str | Path):
        return Config.load(None if config is None else Path(config), texts)
    table = config.as_dict() if isinstance(config, Config) else config
    return Config.parse(apply_settings(table, texts))


def _check_same_split(cells: Sequence[SweepCell]) -> None:
    """Refuse settings with different test records: a file is split as the neighbouring relation needs it."""
    if len(splits := sorted({load_data(cell.config).split or "" for cell in cells})) > 1:
        raise TacitError(
            f"The settings need different splits of the file ({' and '.join(splits)}), and results on different test "
            "records cannot be compared: set batch.relation, or give test records"
        )


def _check_settings(cells: Sequence[SweepCell]) -> None:
    """Build one run of every setting: a wrong value must not end the sweep after hours."""
    for cell in {cell.setting: cell for cell in reversed(cells)}.values():
        simulated_run(cell)


def _decisive_metric(cell: SweepCell, judge: Judge, name: str | None) -> Metric:
    """The metric that decides: the given one, or the main one of the task. The records are loaded, too."""
    named = [each.name for each in all_metrics() if isinstance(each, PredictionMetric)]
    if name is not None and name not in named:
        raise unknown("metric of predictions", name, named)
    judge.records(cell.config)
    head = simulated_run(cell).task.head
    if name is None:
        return evaluated_metrics(head)[0]
    fitting = [each.name for each in prediction_metrics(head)]
    if name not in fitting:
        raise TacitError(f"metric {name} does not apply to this task. Metrics that do: {', '.join(fitting)}")
    return metric_of(name)


def _summary(
    base: Config,
    cells: Sequence[SweepCell],
    results: Sequence[Result],
    decisive: Metric,
    judge: Judge,
    charged: bool,
    out: Path | None,
) -> SweepResult:
    ranked = ranked_settings(cells, results, decisive)
    runs = ranked[0][1]
    chosen = [results[i] for i in runs]
    trivial = {part: chosen[0]["trivial"][part].get(decisive.name) for part in ("judged", "reported")}
    return SweepResult(
        rows=[row for row, _ in ranked],
        metric=decisive,
        reported=mean_and_deviation(chosen, "reported", decisive),
        trivial=trivial,
        judge=judge.mode,
        judged=judge.sentences(base),
        privacy=sweep_privacy(base, chosen, results, charged=charged),
        best_table=cells[runs[0]].table,
        out=out,
    )


def _write(result: SweepResult, folder: Path) -> None:
    ensure_folder(folder)
    storage.write(folder / TABLE_FILE, (result.markdown + "\n").encode())
    storage.write(folder / BEST_FILE, result.best_toml.encode())
    storage.write_json(folder / RESULTS_FILE, result.as_dict())
