"""A copy of the tree in which tests run with a mistake in the code."""

import compileall
import os
import py_compile
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.mutants.mutant import Mutant

_COPIED = ("src", "tests", "experiments", "docs", "README.md", "pyproject.toml")
_PYTEST = ("-m", "pytest", "-x", "-q", "--tb=no", "-rf", "--hypothesis-profile=first-failure")
_NO_PLUGINS = ("cacheprovider", "unraisableexception")  # the second reports objects that a failed test left open


class PytestResult(NamedTuple):
    """How tests ended. `failed` is the first test that failed; `problem` is the reason if there is no result."""

    failed: str | None = None
    problem: str | None = None


class Workspace:
    """A copy of the tree, with at most one mistake at a time. Tests run in a process of their own."""

    def __init__(self, root: Path, folder: Path, timeout: float) -> None:
        self._folder, self._timeout = folder, timeout
        self._process: subprocess.Popen[str] | None = None
        folder.mkdir()
        for source in (root / name for name in _COPIED):
            if source.is_dir():
                shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, folder)
        # Compared by content: a mistake may change neither the size of a file nor the second of its last change.
        compileall.compile_dir(folder / "src", quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)

    @contextmanager
    def mistake(self, mutant: Mutant) -> Iterator[None]:
        """Apply a mutant inside the block. Raises `StaleMutant` if it does not fit the code."""
        path = self._folder / mutant.file
        correct = path.read_text(encoding="utf-8") if path.exists() else ""
        wrong = mutant.apply(correct)
        path.write_text(wrong, encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(correct, encoding="utf-8")

    def run_tests(self, tests: Sequence[str]) -> PytestResult:
        """Run these tests until one fails."""
        settings = {"PYTHONPATH": str(self._folder / "src"), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, *_PYTEST, *(f"-pno:{name}" for name in _NO_PLUGINS), *tests],
            cwd=self._folder,
            env=os.environ | settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = self._process.communicate(timeout=self._timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            self._process.communicate()
            return PytestResult(problem=f"the tests did not end within {self._timeout:g} seconds")
        failed = re.search(r"^FAILED (.+?)(?: - .*)?$", output, re.M)
        if failed:
            return PytestResult(failed=failed[1])
        last = (output.strip().splitlines() or ["no output"])[-1]
        return PytestResult(problem=f"pytest did not run the tests: {last}" if self._process.returncode else None)

    def stop(self) -> None:
        """Kill the running tests, and the processes that they started."""
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
