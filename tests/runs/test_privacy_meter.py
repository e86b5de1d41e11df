"""The privacy of a run over several processes is that of the worst of them."""

import math

import pytest
import torch

from tacit.networks import Coordinator
from tacit.runs import PrivacyMeter

from .cases import small


class TwoProcesses(Coordinator):
    """Gathers the rows of this process and those of another one, which has the given ε."""

    def __init__(self, other):
        self._other = other

    def all_gather(self, rows):
        return torch.cat([rows, torch.full_like(rows, self._other)])

    def gather_strings(self, text):
        return [text, "the other process sent exact values" if math.isnan(self._other) else ""]


@pytest.fixture(scope="module")
def run():
    return small(rounds=3).go()


def spent(run, other):
    return PrivacyMeter(run.task, run.algorithm, run.delta, coordinator=TwoProcesses(other)).spent(run.t)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_the_process_with_the_largest_epsilon_counts(run, factor):
    own = run.privacy.guaranteed
    assert spent(run, factor * own).guaranteed == max(own, factor * own)


def test_a_process_without_a_guarantee_leaves_none_for_the_run(run):
    found = spent(run, math.nan)
    assert found.guaranteed is None
    assert found.reason == "the other process sent exact values"


def test_the_node_with_the_largest_epsilon_counts():
    run = small(rounds=3, sharding={"name": "sizes", "ratio": 4}).go()
    assert run.privacy.guaranteed == run.privacy.per_node.max() > 1.1 * run.privacy.per_node.min()
