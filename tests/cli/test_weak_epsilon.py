"""An ε above 10 gives a warning; smaller ones do not."""

import pytest

import tacit as package
from tests.cli.conftest import NO_TARGET, QUICK, setting

WEAK = "ε = 25 is weak protection: one record can make an outcome e^25 times as likely. ε = 1 is strong"


def test_a_weak_target_is_one_line_on_standard_error(tacit):
    ended = tacit("train", *QUICK, "--epsilon", "25", "--json")
    assert ended.code == 0
    assert ended.err.count("weak protection") == 1
    assert f"warning: {WEAK}\n" in ended.err


def test_a_weak_guarantee_without_a_target_is_named(tacit):
    ended = tacit("train", *QUICK, *NO_TARGET, *setting("algorithm=const-d2p", "algorithm.noise_multiplier=0.3"))
    assert ended.code == 0
    assert ended.err.count("is weak protection") == 1


WEAK_COMMANDS = {
    "compare": ["compare", "sgp", "const-d2p", "--epsilon", "25", "--seeds", "1", "--jobs", "1", *QUICK],
    "sweep": ["sweep", "--grid", "lr=0.1,0.2", "--workers", "1", *QUICK, *setting("privacy.epsilon=25")],
    "learn-graph": ["learn-graph", "--epsilon", "25", "--seed", "0"],
    "account": ["account", "--epsilon", "25", "--json", *QUICK],
    "network": ["network", "init", "net", "--sites", "2", *setting("privacy.epsilon=25", "rounds=3")],
}


@pytest.mark.parametrize("command", WEAK_COMMANDS)
def test_other_commands_warn_once(tacit, command):
    ended = tacit(*WEAK_COMMANDS[command])
    assert ended.code == 0
    assert ended.err.count("is weak protection") == 1
    assert "is weak protection" not in ended.out


@pytest.mark.parametrize("epsilon", ["3", "10"])
def test_other_targets_give_no_warning(tacit, epsilon):
    assert "warning" not in tacit("train", *QUICK, "--epsilon", epsilon).err


def test_python_warns_where_train_is_called():
    with pytest.warns(UserWarning, match="ε = 25 is weak protection") as caught:
        package.train(nodes=4, rounds=2, epsilon=25.0)
    assert [warning.filename for warning in caught] == [__file__]
