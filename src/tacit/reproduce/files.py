"""Where experiments are, and how they are read."""

from __future__ import annotations

import sysconfig
import tomllib
from pathlib import Path

from pydantic import ValidationError

from tacit.errors import TacitError, unknown
from tacit.registry import invalid
from tacit.reproduce.experiment import Experiment, Table, merged

_TAKEN = ("base", "axes", "adjust")  # what `like` takes from another experiment, unless `take` names less


def places() -> list[Path]:
    """Where experiments are looked for: here, in the source checkout, and where an installation puts them."""
    installed = Path(sysconfig.get_path("data")) / "share/tacit/experiments"
    return list(dict.fromkeys([Path("experiments").resolve(), Path(__file__).parents[3] / "experiments", installed]))


def available() -> dict[str, Path]:
    """Every experiment by name; one of the working directory hides others of its name."""
    found = [(folder, path) for folder in reversed(places()) for path in sorted(folder.glob("*/*.toml"))]
    return dict(sorted((path.relative_to(folder).with_suffix("").as_posix(), path) for folder, path in found))


def load(name: str) -> Experiment:
    """The experiment called PAPER/TABLE."""
    known = available()
    if not known:
        raise TacitError(f"there are no experiments; looked in {', '.join(map(str, places()))}")
    if name not in known:
        raise unknown("experiment", name, known)
    return read(known[name])


def read(path: Path) -> Experiment:
    """The experiment in a file, checked whole."""
    try:
        return Experiment.model_validate(_whole(path))
    except ValidationError as error:
        raise invalid(str(path), error) from None
    except TacitError as error:
        raise TacitError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def _whole(path: Path) -> Table:
    """The file's tables, over those that it takes from another file by `like` (and `take`, such as ["base"])."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TacitError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TacitError(f"{path} is not valid TOML: {error}") from None
    if "like" not in table:
        return table
    other = _whole(path.with_name(f"{table.pop('like')}.toml"))
    taken = table.pop("take", _TAKEN)
    return merged({key: other[key] for key in _TAKEN if key in other and key in taken}, table)
