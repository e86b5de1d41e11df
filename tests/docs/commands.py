"""Run the shell commands of a page in the process of that page.

A plain `tacit …` or `python FILE …` runs in a fork of this process, which has imported everything. That saves seconds
per command. All other commands run in bash.
"""

import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

SECONDS = 300  # for one command, also on a busy machine; a long command needs a quick form
_QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*\"""")
_SHELL = re.compile(r"[|&;<>$`*?~(){}\[\]\n=]")  # = after the name of a variable
_TIMEOUT = 124  # as the command `timeout`
_POLL = 0.01


class Shell:
    """Runs commands one after the other. `cd` and `export` hold for later commands, as in a terminal."""

    def __init__(self, folder: Path) -> None:
        self._memory = folder / "shell"
        self._groups: list[int] = []

    def run(self, command: str, seconds: float = SECONDS) -> int:
        """Run a command and return its exit code; 124 if it took too long. Its output goes to this process's own."""
        parts = [plain_words(part) for part in command.split(" && ")]
        if all(parts):
            codes = (self._wait(_fork(words), seconds) for words in parts if words)
            return next((code for code in codes if code), 0)  # the first that fails ends the command
        script = f"trap 'pwd >{self._memory}.pwd; env -0 >{self._memory}.env' EXIT\n{command}\n"
        process = subprocess.Popen(["bash", "-c", script], stdin=subprocess.DEVNULL, process_group=0)
        code = self._wait(process.pid, seconds)
        process.returncode = code
        self._remember()
        return code

    def close(self) -> None:
        """End everything that a command has left running."""
        for group in self._groups:
            _kill(group)

    def _wait(self, process: int, seconds: float) -> int:
        self._groups.append(process)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(_POLL)
        _kill(process)
        os.waitpid(process, 0)
        return _TIMEOUT

    def _remember(self) -> None:
        folder, variables = Path(f"{self._memory}.pwd"), Path(f"{self._memory}.env")
        if not folder.exists():  # killed
            return
        os.chdir(folder.read_text().removesuffix("\n"))
        pairs = [each.split("=", 1) for each in variables.read_text().split("\0") if "=" in each]
        os.environ.clear()
        os.environ.update({key: value for key, value in pairs if key not in ("_", "SHLVL", "PWD", "OLDPWD")})


def plain_words(command: str) -> list[str] | None:
    """Return the words of `tacit …` or `python FILE …` without shell syntax, and None for every other command."""
    joined = command.replace("\\\n", " ")
    words = shlex.split(joined, comments=True)
    bare = _QUOTED.sub("", joined.split(" #")[0])
    if _SHELL.search(bare.replace("=", "")) or not words:
        return None
    script = len(words) > 1 and words[0] == "python" and words[1].endswith(".py")
    return words if words[0] == "tacit" or script else None


def _fork(words: list[str]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        code = _execute(words)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _execute(words: list[str]) -> int:
    try:
        if words[0] == "python":
            sys.argv = words[1:]
            sys.path.insert(0, str(Path(words[1]).resolve().parent))
            runpy.run_path(words[1], run_name="__main__")
        else:
            sys.argv = words
            runpy.run_module("tacit", run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    return 0


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
