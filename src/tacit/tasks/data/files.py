"""Finds data files in the folder TACIT_DATA or the cache, or downloads them. Every file's digest is checked."""

import hashlib
import os
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from tacit.errors import MissingExtra, TacitError, require_extra

TIMEOUT = 10.0  # seconds without receiving data


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class DataFile:
    """A file of a public data set: its path in a data folder, its digest, and its download addresses."""

    path: str
    digest: str
    urls: tuple[str, ...] = ()
    measure: Callable[[Path], str] = sha256

    def local(self) -> Path | None:
        """Return the path of the file on this machine, gzipped or not, or None. Raise if it is damaged."""
        for folder in folders():
            for path in (folder / self.path, folder / f"{self.path}.gz"):
                if path.is_file():
                    self._check(path)
                    return path
        return None

    def is_present(self) -> bool:
        """Return whether the file is on this machine. Its content is not checked."""
        return any((folder / name).is_file() for folder in folders() for name in (self.path, f"{self.path}.gz"))

    def get(self) -> Path:
        """Return the path of the file; download it if necessary."""
        return self.local() or self._download()

    def _check(self, path: Path) -> None:
        try:
            found = self.measure(path)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise TacitError(f"{path} cannot be read ({error}); delete it and download it again") from None
        if found != self.digest:
            raise TacitError(
                f"{path} is damaged or another version: its digest is {found[:12]}…, expected "
                f"{self.digest[:12]}…; delete it and download it again"
            )

    def _download(self) -> Path:
        reasons, advice = [], ""
        for url in self.urls:
            try:
                return self._fetch(url)
            except MissingExtra as error:
                advice = f". {error}"
                break
            except (OSError, TacitError) as error:  # requests' own errors are OSErrors
                what = "wrong digest" if isinstance(error, TacitError) else type(error).__name__
                reasons.append(f"{url} ({what})")
        searched = " or ".join(str(folder) for folder in folders())
        tried = f", and cannot be downloaded from {' or '.join(reasons)}" if reasons else ""
        raise TacitError(
            f"data file {self.path} is not in {searched}{tried}; "
            f"put it there, or set TACIT_DATA to the folder that contains {self.path}{advice}"
        )

    def _fetch(self, url: str) -> Path:
        """Download to a temporary folder and move the file if its digest is right, so that no partial file remains."""
        require_extra("data", "Downloads", "pooch")
        import pooch

        target = cache() / self.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            part = Path(folder) / target.name
            with _DownloadBar(url) as bar:
                pooch.HTTPDownloader(timeout=TIMEOUT, progressbar=bar, chunk_size=2**16)(url, str(part), None)
            self._check(part)
            part.replace(target)
        return target


def existing(path: Path) -> Path:
    """Return the path of a user's file; raise if there is no such file."""
    if not path.is_file():
        raise TacitError(f"there is no file {path.absolute()}")
    return path


def cache() -> Path:
    return Path(platformdirs.user_cache_dir("tacit"))


def folders() -> list[Path]:
    """Return the folders to search, in order."""
    named = os.environ.get("TACIT_DATA")
    if not named:
        return [cache()]
    if not Path(named).is_dir():
        raise TacitError(
            f"TACIT_DATA is {named}, which is not a folder; set it to the folder that contains the data sets"
        )
    return [Path(named), cache()]


class _DownloadBar:
    """A Rich progress bar with the interface that pooch expects."""

    def __init__(self, url: str) -> None:
        from rich.console import Console  # slow to import
        from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

        columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(url.rpartition("/")[2], total=None)

    def __enter__(self) -> "_DownloadBar":
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
