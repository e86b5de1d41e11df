"""Applies mutants to copies of the tree, and runs their tests there."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

from tests.mutants.mutant import Mutant, StaleMutant
from tests.mutants.workspace import PytestResult, Workspace


class Outcome(NamedTuple):
    """What became of a mutant.

    `verdict` is "caught" if a test failed, "SURVIVED" if all passed, "STALE" if the correct text is not in the code
    any more, and "INVALID" if the tests gave no result, or fail without the mistake.
    """

    mutant: Mutant
    verdict: Literal["caught", "SURVIVED", "STALE", "INVALID"]
    detail: str
    seconds: float = 0.0


def run_mutants(mutants: Sequence[Mutant], root: Path, *, jobs: int = 2, timeout: float = 300.0) -> Iterator[Outcome]:
    """Yield what becomes of each mutant, in order.

    First, every set of tests runs on the correct code: if it fails there, a failure with a mistake proves nothing.

    Args:
        mutants: The mutants.
        root: The root of the repository.
        jobs: How many mutants are tried at once.
        timeout: Seconds after which the tests of one mutant are killed.
    """
    with TemporaryDirectory(prefix="tacit-mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        spaces = [Workspace(root, Path(folder, str(job)), timeout) for job in range(jobs)]
        idle: SimpleQueue[Workspace] = SimpleQueue()
        for space in spaces:
            idle.put(space)

        @contextmanager
        def borrowed() -> Iterator[Workspace]:
            space = idle.get()
            try:
                yield space
            finally:
                idle.put(space)

        def run_on_correct_code(tests: tuple[str, ...]) -> PytestResult:
            with borrowed() as space:
                return space.run_tests(tests)

        def try_mutant(mutant: Mutant) -> Outcome:
            without = correct[mutant.tests]
            if without.failed or without.problem:
                detail = without.problem or f"{without.failed} fails without the mistake"
                return Outcome(mutant, "INVALID", detail)
            with borrowed() as space:
                return _outcome(mutant, space)

        try:
            sets = list(dict.fromkeys(mutant.tests for mutant in mutants))
            correct = dict(zip(sets, pool.map(run_on_correct_code, sets), strict=True))
            yield from pool.map(try_mutant, mutants)
        except BaseException:  # such as Ctrl-C
            pool.shutdown(wait=False, cancel_futures=True)
            for space in spaces:
                space.stop()
            raise


def _outcome(mutant: Mutant, space: Workspace) -> Outcome:
    started = time.monotonic()
    try:
        with space.mistake(mutant):
            result = space.run_tests(mutant.tests)
    except StaleMutant as stale:
        return Outcome(mutant, "STALE", str(stale))
    seconds = time.monotonic() - started
    if result.problem is not None:
        return Outcome(mutant, "INVALID", result.problem, seconds)
    if result.failed is None:
        return Outcome(mutant, "SURVIVED", "all of its tests pass", seconds)
    return Outcome(mutant, "caught", result.failed, seconds)
