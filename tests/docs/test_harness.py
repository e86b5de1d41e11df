"""The test of the documentation finds what is wrong: each page here has one mistake."""

import tomllib

import pytest

from tacit.errors import TacitError
from tests.docs.blocks import PageError, read_blocks
from tests.docs.commands import Shell, plain_words
from tests.docs.configs import check_config
from tests.docs.options import wrong_options
from tests.docs.outputs import missing_line
from tests.docs.page_run import run_page

GOOD = """# A page

```python
number = 1
```

```python
print(number + 1)
```

<!-- output of the block above -->
```text
2
```

```toml title="mine.toml"
rounds = 3
```

```python title="mine.py"
import sys; print("file", sys.argv[1:], __name__)
```

```console
$ python mine.py one 'two three'
file ['one', 'two three'] __main__
$ cat mine.toml; echo "to stderr" >&2
rounds = 3
to …
$ mkdir inner && cd inner && export COLOUR=blue
$ echo "$(basename "$PWD") $COLOUR" \\
    continued
inner blue continued
$ tacit account gaussian --noise-multiplier 0
error: …
```

<!-- not run: it would take a week -->
```console
$ false
```

<!-- run instead: echo "ε = 0.5 after 2 rounds" -->
```console
$ sleep 1000
ε = 1.5 after 200 rounds
```

<!-- exit code: 3 -->
```console
$ true
$ exit 3
```

1. In a list:

   ```console
   $ echo "done"
   done
   ```
"""


def problem_of(text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    return run_page(page, tmp_path / "run")


def test_a_correct_page_has_no_problem(tmp_path):
    assert problem_of(GOOD, tmp_path) is None


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("print(number + 1)", "print(numbr + 1)", "line 8: the Python block fails: NameError: name 'numbr'"),
        ("print(number + 1)", "print(number + ", "line 8: the Python block fails: SyntaxError"),
        ("```text\n2", "```text\n3", "line 12: a line is not in the output\nthe Python block above\nshown: 3"),
        ('toml"\nrounds = 3', 'toml"\nrouns = 3', "line 16: the TOML block is not valid: unknown key"),
        ("rounds = 3\nto …", "rounds = 4\nto …", "line 27: a line is not in the output"),
        ("rounds = 3\nto …", "to …\nrounds = 3", "shown: rounds = 3\nafter: to …"),
        ("inner blue", "inner red", "shown: inner red continued"),
        ("error: …", "Guaranteed …", "line 34: the exit code is 2, expected 0"),
        ("multiplier 0", "multiplier 1 --delta 1e-5", "line 34: a line is not in the output"),
        ("ε = 1.5 after 200 rounds", "ε = 1.5 after 200 steps", "shown: ε = 1.5 after 200 steps"),
        ("exit code: 3", "exit code: 4", "the exit code is 3, expected 4"),
        ("$ true\n", "true\n", "output before the first command"),
        ('$ echo "done"', '$ echo "over"', "shown: done"),
    ],
)
def test_a_mistake_is_found_and_named(right, wrong, problem, tmp_path):
    assert GOOD.count(right) == 1
    assert problem in (problem_of(GOOD.replace(right, wrong), tmp_path) or "no problem")


def test_a_page_has_a_home_and_a_state_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "mine"))
    page = '```console\n$ echo "$HOME $TACIT_STATE $PWD"\nnowhere\n```\n'
    problem = problem_of(page, tmp_path)
    here = tmp_path / "run"
    assert f"{here / 'home'} {here / 'state'} {here / 'work'}" in problem


def test_names_of_python_do_not_reach_another_page(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert problem_of("```python\nimport tacit\ntacit.leak = 1\n```\n", tmp_path / "one") is None
    problem = problem_of("```python\nimport tacit\nprint(tacit.leak)\n```\n", tmp_path / "two")
    assert "AttributeError" in problem


def test_a_command_that_takes_too_long_is_ended(tmp_path):
    assert Shell(tmp_path).run("sleep 100; true", seconds=0.3) == 124


@pytest.mark.parametrize(
    ("shown", "real", "same"),
    [
        ("accuracy 86.1 %, loss 0.628", "accuracy 86.4 %, loss 0.630", True),
        ("accuracy 86.1 %, loss 0.628", "accuracy 80.1 %, loss 0.628", False),
        ("ε = 2.994, δ = 0.0001", "ε = 2.994, δ = 0.0001", True),
        ("ε = 2.994, δ = 0.0001", "ε = 2.995, δ = 0.0001", False),
        ("ε = 2, δ = 1e-05, seed 0.", "ε = 2, δ = 1e-05, seed 0.", True),
        ("ε = 2, δ = 1e-05, seed 0.", "ε = 2, δ = 1e-04, seed 0.", False),
        ("10 nodes", "11 nodes", False),
        ("a   b", "a b", True),
        ("a b", "a b c", False),
        ("a … c", "a b c", True),
        ("accuracy 71.… %, loss 0.5…", "accuracy 71.3 %, loss 0.566", True),
        ("accuracy 71.… %, loss 0.5…", "accuracy 72.3 %, loss 0.566", False),
        ("accuracy 71.… %, loss 0.5…", "accuracy 71.3 %, loss 0.466", False),
        ("1,000 records", "1,000 records", True),
        ("runs/example-2", "runs/example-3", False),
    ],
)
def test_lines_agree(shown, real, same):
    assert (missing_line([shown], f"first\n{real}\nlast") is None) == same


@pytest.mark.parametrize(
    ("command", "plain"),
    [
        ("tacit list", True),
        ("tacit train --set 'algorithm.share=[\"0.*\"]' # a comment; with | signs", True),
        ("tacit train --set rounds=2 \\\n  --out x", True),
        ("tacit list > file", False),
        ("tacit learn-graph site*.csv", False),
        ("A=1 tacit list", False),
        ("python mine.py", True),
        ("python -c 'print(1)'", False),
        ("tacit list; tacit list", False),
        ("make test", False),
    ],
)
def test_commands_without_shell_syntax_are_recognised(command, plain):
    assert (plain_words(command) is not None) == plain


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("rounds = 3", "config"),
        ("[data.columns]\nage = { range = [0, 110] }", "config"),
        ("[data]\ninputs = [12]\nlabels = ['no', 'yes']", "network.toml"),
        ("[certificates]\ncertificate = 'a.crt'\nkey = 'a.key'\nauthority = 'b.crt'", "node.toml"),
    ],
)
def test_the_kind_of_a_config_is_recognised(text, kind):
    assert check_config(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "rounds = 0",
        "[graph]\nname = 'rign'",
        "[algorithm]\nname = 'dyn-d2p'\nlearning_rate = 1",
        "[data.columns]\nage = { rage = [0, 110] }",
        "[data]\ninputs = [12]\nlabels = ['no']",
        "[certificates]\ncertificate = 'a.crt'",
        "rounds = ",
    ],
)
def test_a_wrong_config_is_refused(text):
    with pytest.raises((TacitError, tomllib.TOMLDecodeError)):
        check_config(text)


def test_options_are_checked_without_running():
    assert wrong_options("tacit train --set rounds=3 --out x") is None
    assert "--sett" in wrong_options("tacit train --sett rounds=3")
    assert "trane" in wrong_options("tacit trane")
    assert wrong_options("make test") is None


@pytest.mark.parametrize(
    "text", ["```python\n1\n", "<!-- not run: because -->\n\n```console\n$ true\n```\n", "```console\n$ true \\\n```\n"]
)
def test_a_page_that_does_not_follow_the_convention_is_refused(text):
    with pytest.raises(PageError):
        [block.commands() for block in read_blocks(text)]
