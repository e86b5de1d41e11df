"""The lists of mutants fit the code and the tests, and the runner tells caught mistakes from the others."""

import shutil
import subprocess
import sys

import pytest

from tests.mutants.mutant import ROOT, Mutant, load_mutants
from tests.mutants.runner import run_mutants

MUTANTS = load_mutants()


def test_there_are_at_least_forty_different_mistakes():
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS) >= 40
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.area}: {mutant.name}")
def test_the_mutant_fits_the_code_and_its_tests_exist(mutant):
    source = (ROOT / mutant.file).read_text(encoding="utf-8")
    compile(mutant.apply(source), mutant.file, "exec")  # `apply` raises if the correct text does not occur once
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not name or f"def {name.partition('[')[0]}(" in text, test


def test_the_parameters_of_tests_of_mutants_exist():
    """A test that is not found would not catch its mutant."""
    tests = sorted({test for mutant in MUTANTS for test in mutant.tests if "[" in test})
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-o",
        "addopts=",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]


@pytest.fixture
def tree(tmp_path):
    """A package with one function, and its tests with the settings of Tacit's tests."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/doubling.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests/conftest.py", tmp_path / "tests")
    (tmp_path / "tests/test_doubling.py").write_text(
        "from doubling import double\n"
        "def test_one():\n    assert double(1) == 2\n"
        "def test_zero():\n    assert double(0) == 0\n"
        "def test_wrong():\n    assert double(1) == 3\n"
    )
    return tmp_path


def mutant(old="2 * x", new="3 * x", test="test_one"):
    return Mutant("small", f"{old} {new} {test}", "src/doubling.py", old, new, (f"tests/test_doubling.py::{test}",))


def test_only_a_test_that_fails_because_of_the_mistake_catches_it(tree):
    listed = {
        mutant(): "caught",
        mutant(new="x * 2"): "SURVIVED",  # it is equivalent
        mutant(test="test_zero"): "SURVIVED",
        mutant(old="4 * x"): "STALE",
        mutant(old="x"): "STALE",  # it occurs twice
        mutant(test="test_wrong"): "INVALID",  # it fails without the mistake
        mutant(test="test_missing"): "INVALID",
        mutant(new="2 *"): "INVALID",  # a syntax error
    }
    found = {outcome.mutant: outcome.verdict for outcome in run_mutants(list(listed), tree)}
    assert found == listed
    assert (tree / "src/doubling.py").read_text() == "def double(x):\n    return 2 * x\n"


def test_a_mistake_that_never_ends_is_not_caught(tree):
    (outcome,) = run_mutants([mutant(new="sum(iter(int, 1))")], tree, timeout=4)
    assert outcome.verdict == "INVALID"
    assert outcome.detail == "the tests did not end within 4 seconds"
