"""Completion in a real shell, and what `--install-completion` writes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BASH = shutil.which("bash")
SOURCE = str(Path(__file__).parents[2] / "src")
pytestmark = pytest.mark.skipif(BASH is None, reason="bash is not installed")


def bash(script, home):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": SOURCE, "HOME": str(home)}
    return subprocess.run([BASH, "-c", script], env=env, cwd=home, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("words", "proposed"),
    [("tacit tra", ["train"]), ("tacit train --sec", ["--secret-noise"]), ("tacit network in", ["init"])],
)
def test_bash_completes_commands_and_options(words, proposed, tmp_path):
    count = len(words.split()) - 1
    script = f"""
eval "$(_TACIT_COMPLETE=source_bash tacit)"
COMP_WORDS=({words}); COMP_CWORD={count}
_tacit_completion tacit
echo "${{COMPREPLY[@]}}"
"""
    ended = bash(script, tmp_path)
    assert (ended.stdout.split(), ended.stderr) == (proposed, "")


def test_completion_is_installed_for_the_shell(tmp_path):
    script = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1 tacit --install-completion bash"
    ended = bash(script, tmp_path)
    assert ended.returncode == 0, ended.stderr
    installed = [path for path in tmp_path.rglob("*") if path.is_file() and "_TACIT_COMPLETE" in path.read_text()]
    assert installed, ended.stdout
    started = (tmp_path / ".bashrc").read_text()
    assert any(path.name in started for path in installed)
