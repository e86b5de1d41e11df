"""Where experiments are, and how their files are read."""

from __future__ import annotations

import sysconfig
import tomllib
from pathlib import Path

from pydantic import ValidationError

from tacit.errors import TacitError, unknown
from tacit.registry import invalid
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.settings import Settings, merge_settings

_INHERITED = ("base", "axes", "adjust")  # what `like` takes from another experiment, unless `take` lists less


def experiment_folders() -> list[Path]:
    """Where experiments are searched: the working directory, the source checkout, and the installation."""
    installed = Path(sysconfig.get_path("data")) / "share/tacit/experiments"
    return list(dict.fromkeys([Path("experiments").resolve(), Path(__file__).parents[3] / "experiments", installed]))


def available_experiments() -> dict[str, Path]:
    """The file of every experiment, by name. Those in the working directory have precedence."""
    found = [(folder, path) for folder in reversed(experiment_folders()) for path in sorted(folder.glob("*/*.toml"))]
    return dict(sorted((path.relative_to(folder).with_suffix("").as_posix(), path) for folder, path in found))


def load_experiment(name: str) -> Experiment:
    """The experiment called `name`, such as dyn-d2p/table2."""
    available = available_experiments()
    if not available:
        raise TacitError(f"There are no experiments in {', '.join(map(str, experiment_folders()))}")
    if name not in available:
        raise unknown("experiment", name, available)
    return read_experiment(available[name])


def read_experiment(path: Path) -> Experiment:
    """The experiment in a TOML file."""
    try:
        return Experiment.model_validate(_read_settings(path))
    except ValidationError as error:
        raise invalid(str(path), error) from None
    except TacitError as error:
        raise TacitError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def _read_settings(path: Path) -> Settings:
    """The file's content, merged over the parts that it takes from another file by `like` (and `take`)."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TacitError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TacitError(f"{path} is not valid TOML: {error}") from None
    if "like" not in table:
        return table
    other = _read_settings(path.with_name(f"{table.pop('like')}.toml"))
    taken = table.pop("take", _INHERITED)
    return merge_settings({key: other[key] for key in _INHERITED if key in other and key in taken}, table)
