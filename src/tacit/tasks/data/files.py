"""Where data files are: the folder TACIT_DATA names, else the cache, else the web, if the digest fits."""

import os
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pooch
from rich.console import Console
from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

from tacit.errors import TacitError

TIMEOUT = 10.0  # seconds without a byte


def sha256(path: Path) -> str:
    return str(pooch.file_hash(str(path), alg="sha256"))


@dataclass(frozen=True)
class DataFile:
    """A file of a public data set: its place below a data folder, its digest, and its public addresses."""

    path: str
    digest: str
    urls: tuple[str, ...] = ()
    measure: Callable[[Path], str] = sha256

    def local(self) -> Path | None:
        """The file where it is kept on this machine, gzipped or not, or None; a damaged one is refused."""
        for folder in folders():
            for path in (folder / self.path, folder / f"{self.path}.gz"):
                if path.is_file():
                    self._check(path)
                    return path
        return None

    def get(self) -> Path:
        """The file, from this machine or else from the web."""
        return self.local() or self._download()

    def _check(self, path: Path) -> None:
        try:
            found = self.measure(path)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise TacitError(f"{path} cannot be read ({error}); delete it and fetch a whole copy") from None
        if found != self.digest:
            raise TacitError(
                f"{path} is damaged or another version: its digest is {found[:12]}…, not "
                f"{self.digest[:12]}…; delete it and fetch a whole copy"
            )

    def _download(self) -> Path:
        reasons = []
        for url in self.urls:
            try:
                return self._fetch(url)
            except (OSError, TacitError) as error:  # requests' own errors are OSErrors
                what = "other bytes" if isinstance(error, TacitError) else type(error).__name__
                reasons.append(f"{url} ({what})")
        looked = " or ".join(str(folder) for folder in folders())
        tried = f", and cannot be downloaded from {' or '.join(reasons)}" if reasons else ""
        raise TacitError(
            f"data file {self.path} is not in {looked}{tried}; "
            f"put it there, or set TACIT_DATA to the folder that holds {self.path}"
        )

    def _fetch(self, url: str) -> Path:
        """Download beside the target, move into place once the digest fits: a stop leaves nothing behind."""
        target = cache() / self.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            part = Path(folder) / target.name
            with _Bar(url) as bar:
                pooch.HTTPDownloader(timeout=TIMEOUT, progressbar=bar, chunk_size=2**16)(url, str(part), None)
            self._check(part)
            part.replace(target)
        return target


def cache() -> Path:
    return Path(pooch.os_cache("tacit"))


def folders() -> list[Path]:
    """The folders looked in, in order."""
    named = os.environ.get("TACIT_DATA")
    if not named:
        return [cache()]
    if not Path(named).is_dir():
        raise TacitError(f"TACIT_DATA is {named}, which is not a folder; name the folder that holds the data sets")
    return [Path(named), cache()]


class _Bar:
    """Rich's progress bar with the few names pooch calls."""

    def __init__(self, url: str) -> None:
        columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(url.rpartition("/")[2], total=None)

    def __enter__(self) -> "_Bar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    @property
    def total(self) -> float | None:
        return self._bar.tasks[0].total

    @total.setter
    def total(self, size: int) -> None:
        self._bar.update(self._task, total=size or None)

    def update(self, size: int) -> None:
        self._bar.advance(self._task, size)

    def reset(self) -> None:
        self._bar.update(self._task, completed=0)

    def close(self) -> None:
        self._bar.stop()
