"""Execute the blocks of a page from top to bottom, in a process and a folder of their own."""

import contextlib
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

from tests.docs.blocks import (
    CONSOLE,
    EXIT_CODE,
    NOT_RUN,
    OUTPUT,
    PYTHON,
    ROOT,
    RUN_INSTEAD,
    TOML,
    Block,
    Command,
    PageError,
    read_blocks,
)
from tests.docs.commands import SECONDS, Shell
from tests.docs.outputs import missing_line
from tests.fork_server import FORK_SERVER

_PAGE_SECONDS = 1200
_COPIED = ("examples", "benchmarks", "Makefile", "pyproject.toml", "constraints.txt")  # what commands of pages name
_SHOWN_OUTPUT = 3000  # characters


class BlockError(Exception):
    """A block does not do what the page says."""


def run_page(page: Path, folder: Path) -> str | None:
    """Execute a page in a new process. Return what is wrong, or None."""
    folder.mkdir(parents=True, exist_ok=True)
    process = FORK_SERVER.Process(target=_in_process, args=(str(page), str(folder), dict(os.environ)))
    process.start()
    process.join(_PAGE_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
        return f"{page.name} took more than {_PAGE_SECONDS} s"
    outcome = folder / "outcome.txt"
    if not outcome.exists():
        return f"{page.name}: the process ended with exit code {process.exitcode}"
    return outcome.read_text(encoding="utf-8") or None


def _in_process(page: str, folder: str, environment: Mapping[str, str]) -> None:
    run = PageRun(Path(page), Path(folder), environment)
    problem = ""
    try:
        run.go()
    except (BlockError, PageError) as error:
        problem = f"{Path(page).name}, {error}"
    except BaseException:
        problem = f"{Path(page).name}: {traceback.format_exc()}"
    finally:
        run.shell.close()
        Path(folder, "outcome.txt").write_text(problem, encoding="utf-8")


class PageRun:
    """The state of a page that is executed: names of Python, folder, environment, output."""

    def __init__(self, page: Path, folder: Path, environment: Mapping[str, str]) -> None:
        self.page, self.shell = page, Shell(folder)
        self._names = {"__name__": "__page__"}
        self._output = folder / "output.txt"
        self._python_output = ""
        with self._output.open("ab") as file, Path(os.devnull).open("rb") as nothing:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            os.dup2(nothing.fileno(), 0)
        _enter(folder, environment)

    def go(self) -> None:
        """Execute all blocks. Raises `BlockError` at the first one that fails."""
        for block in read_blocks(self.page.read_text(encoding="utf-8")):
            if NOT_RUN not in block.comments:
                self._run(block)

    def _run(self, block: Block) -> None:
        if block.title:
            path = Path(block.title)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        if block.language == TOML:
            self._check_config(block)
        elif block.language == CONSOLE:
            self._run_commands(block)
        elif block.language == PYTHON and not block.title:
            self._run_python(block)
        elif OUTPUT in block.comments:
            self._compare(block.line, "the Python block above", block.lines, self._python_output)

    def _check_config(self, block: Block) -> None:
        from tests.docs.configs import check_config

        try:
            check_config(block.text)
        except Exception as error:
            raise BlockError(f"line {block.line}: the TOML block is not valid: {error}") from None

    def _run_python(self, block: Block) -> None:
        start = self._position()
        source = "\n" * block.line + block.text  # so that tracebacks have the lines of the page
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(SECONDS)
        try:
            exec(compile(source, self.page.name, "exec"), self._names)
        except BaseException as error:
            own = [entry for entry in traceback.extract_tb(error.__traceback__) if entry.filename == self.page.name]
            line = own[-1].lineno if own else getattr(error, "lineno", block.line)
            reason = f"{type(error).__name__}: {error}"
            raise BlockError(f"line {line}: the Python block fails: {reason}{_shown(self._since(start))}") from None
        finally:
            signal.alarm(0)
        self._python_output = self._since(start)

    def _run_commands(self, block: Block) -> None:
        commands, quick = block.commands(), block.comments.get(RUN_INSTEAD)
        if not commands:
            raise BlockError(f"line {block.line}: a console block without a command ($ …)")
        if quick is not None:
            shown = commands[0].shown if len(commands) == 1 else ()
            commands = [Command(commands[0].line, quick, shown)]
        for number, command in enumerate(commands):
            is_last = number == len(commands) - 1
            expected = int(block.comments[EXIT_CODE]) if is_last and EXIT_CODE in block.comments else None
            self._run_command(command, expected, ignore_numbers=quick is not None)

    def _run_command(self, command: Command, expected: int | None, *, ignore_numbers: bool) -> None:
        start = self._position()
        code = self.shell.run(command.text)
        output = self._since(start)
        shows_error = expected is None and any(line.startswith("error:") for line in command.shown)
        if code != (expected or 0) and not shows_error:
            raise BlockError(
                f"line {command.line}: the exit code is {code}, expected {expected or 0}\n"
                f"$ {command.text}{_shown(output)}"
            )
        self._compare(command.line, f"$ {command.text}", command.shown, output, ignore_numbers)

    def _compare(self, line: int, what: str, shown: tuple[str, ...], output: str, ignore_numbers: bool = False) -> None:
        missing = missing_line(shown, output, ignore_numbers=ignore_numbers)
        if missing is not None:
            at = shown.index(missing)
            rest = "" if not at else f"\nafter: {shown[at - 1]}"
            raise BlockError(
                f"line {line}: a line is not in the output\n{what}\nshown: {missing}{rest}{_shown(output)}"
            )

    def _position(self) -> int:
        return self._output.stat().st_size

    def _since(self, start: int) -> str:
        sys.stdout.flush()
        sys.stderr.flush()
        return self._output.read_bytes()[start:].decode("utf-8", "replace")


def _enter(folder: Path, environment: Mapping[str, str]) -> None:
    """Make an own working folder, home and environment. Nothing of the user's is read or written."""
    work = folder / "work"
    work.mkdir()
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, work / name, ignore=shutil.ignore_patterns("__pycache__", ".venv", "*.json"))
        elif source.exists():
            shutil.copy(source, work)
    kept = {key: value for key, value in environment.items() if not key.startswith(("XDG_", "PYTEST_", "COV_"))}
    os.environ.clear()
    os.environ.update(
        kept,
        HOME=str(folder / "home"),
        TACIT_STATE=str(folder / "state"),
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}",
        OMP_NUM_THREADS="1",
        MPLBACKEND="agg",
        TERM="dumb",
    )
    (folder / "home").mkdir()
    os.chdir(work)
    sys.path.insert(0, "")
    import torch

    torch.set_num_threads(1)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(line_buffering=True, encoding="utf-8")


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def _shown(output: str) -> str:
    """The end of an output, for a message."""
    return f"\n--- output ---\n{output[-_SHOWN_OUTPUT:].rstrip()}" if output.strip() else "\n(no output)"
