"""Algorithms that send values without a release: each way is refused, ends the guarantee or is found."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from tacit.algorithms import Algorithm, PrivacyPlan
from tacit.audit import check_escapes
from tacit.errors import TacitError
from tacit.privacy import Budget, Gaussian, Release
from tacit.runs import Config, UserParts, from_config
from tacit.tasks import Clip
from tests.cli.conftest import setting

CONFIG = {"rounds": 4, "graph": {"name": "ring", "nodes": 4}, "batch": {"size": 16}, "privacy": {"delta": 1e-4}}


@dataclass(frozen=True)
class State:
    x: torch.Tensor


@dataclass(frozen=True)
class GossipPlan(PrivacyPlan):
    def releases(self, t, nodes, sampling):
        return [Release(t, "gradient", Gaussian(4.0), sampling)]


@dataclass(frozen=True)
class Gossip(Algorithm[State]):
    """A correct algorithm. Subclasses send something more."""

    title = "gossip"
    needs: ClassVar = ("doubly-stochastic", "connected")
    models_are_released: ClassVar[bool] = True

    @property
    def privacy(self):
        return GossipPlan(self)

    def start(self, task, graph):
        return State(task.initial())

    def round(self, t, state, task, network):
        x = state.x - 0.1 * self.step(t, state.x, task, network)
        return State(network.mix(t, x)[0])

    def step(self, t, x, task, network):
        return Gaussian(4.0).release(task.gradient(x, t, Clip(1.0)))

    def models(self, state):
        return state.x


class CopiesTheValue(Gossip):
    def step(self, t, x, task, network):
        g = task.gradient(x, t, Clip(1.0))
        network.mix(t, g.value.clone())
        return Gaussian(4.0).release(g)


class ReadsTheValueOfAnotherName(Gossip):
    def step(self, t, x, task, network):
        g = task.gradient(x, t, Clip(1.0))
        released = Gaussian(4.0).release(g.scaled(1.0))
        network.mix(t, g.value)  # the memory that was not noised
        return released


class SendsALocalValue(Gossip):
    def step(self, t, x, task, network):
        network.mix(t, task.gradient(x, t, Clip(1.0), "local").use_locally())
        return super().step(t, x, task, network)


class DeclaresALocalValueThatItSends(SendsALocalValue):
    exact_values_stay_local: ClassVar[bool] = True


class SendsWithoutARelease(Gossip):
    def step(self, t, x, task, network):
        g = task.gradient(x, t, Clip(1.0), "another")
        network.mix(t, g._value)
        return super().step(t, x, task, network)


class ReadsTheData(Gossip):
    def step(self, t, x, task, network):
        network.mix(t, task.data.x[:4])
        return super().step(t, x, task, network)


class ReadsTheShards(Gossip):
    def start(self, task, graph):
        assert len(task.shards)
        return super().start(task, graph)


class BindsWithAGradient(Gossip):
    def bind(self, task, graph):
        task.gradient(task.initial(), 0, Clip(1.0), "bind").use_locally()
        return self


class BindsWithTheData(Gossip):
    def bind(self, task, graph):
        assert task.data is not None
        return self


class Leak(Gossip):
    """Sends the private attribute of a value, which only the comparison of two runs can find."""

    def step(self, t, x, task, network):
        g = task.gradient(x, t, Clip(1.0))
        network.mix(t, g._value.clone())
        return Gaussian(4.0).release(g)


@dataclass(frozen=True)
class TwoModels:
    x: torch.Tensor
    own: torch.Tensor


class ModelsWithoutNoise(Gossip):
    """Sends only what it releases, but declares models that contain exact gradients."""

    models_are_released: ClassVar[bool] = True
    exact_values_stay_local: ClassVar[bool] = True

    def start(self, task, graph):
        return TwoModels(task.initial(), task.initial())

    def round(self, t, state, task, network):
        exact = task.gradient(state.x, t, Clip(1.0), "local").use_locally()
        return TwoModels(super().round(t, state, task, network).x, state.x - exact)

    def models(self, state):
        return state.own


class ReleasesMore(Gossip):
    def step(self, t, x, task, network):
        Gaussian(4.0).release(task.gradient(x, t, Clip(1.0), "another"))
        return super().step(t, x, task, network)


def run(algorithm):
    return from_config(Config.parse(CONFIG), UserParts(algorithm=algorithm.with_rounds(4))).go()


def check(algorithm):
    return check_escapes(Config.parse(CONFIG), UserParts(algorithm=algorithm.with_rounds(4)))


def test_the_correct_algorithm_has_a_guarantee_and_no_escape():
    found = check(Gossip())
    assert found.escapes == ()
    assert found.privacy.guaranteed == run(Gossip()).privacy.guaranteed > 0
    assert found.privacy.covers_models


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (CopiesTheValue, '"gradient" of step 0 was read before its release'),
        (ReadsTheValueOfAnotherName, '"gradient" of step 0 was read before its release'),
        (SendsALocalValue, '"local" of step 0 was used without noise inside the node'),
        (SendsWithoutARelease, '"another" of step 0 was computed from the records and not released'),
    ],
)
def test_a_value_that_may_have_been_sent_ends_the_guarantee(broken, reason):
    privacy = run(broken()).privacy
    assert privacy.guaranteed is None
    assert reason in privacy.reason


@pytest.mark.parametrize("broken", [ReadsTheData, ReadsTheShards, BindsWithAGradient, BindsWithTheData])
def test_the_records_are_out_of_reach(broken):
    with pytest.raises(TacitError, match=r"no access to the records|bind must not depend on the records"):
        run(broken())


@pytest.mark.parametrize("broken", [CopiesTheValue, SendsALocalValue, DeclaresALocalValueThatItSends, Leak])
def test_two_runs_with_the_same_releases_differ(broken):
    (escape, *_) = check(broken()).escapes
    assert escape == "the mix of round 0 sends values that depend on the records (4 messages differ)"


def test_models_and_metrics_that_are_not_released_are_found():
    escapes = check(ModelsWithoutNoise()).escapes
    assert (
        "the models depend on the records other than through releases, although the algorithm declares them" in escapes
    )
    assert "the metric loss depends on the records other than through releases" in escapes
    assert not any("messages" in escape for escape in escapes)


def test_a_release_that_is_not_planned_is_found():
    assert check(ReleasesMore()).escapes == ("the releases are not those that the algorithm's plan states",)


def test_a_derived_class_does_not_inherit_declarations():
    """`Leak` inherits from a class whose models are released, and could have changed them."""
    assert run(Leak()).privacy.covers_models is False
    assert run(Gossip()).privacy.covers_models is True


def test_a_release_that_binding_makes_is_refused():
    class Releases(Gossip):
        def bind(self, task, graph):
            task.ledger.record(Release(0, "bind", Gaussian(9.0), task.sampling))
            return self

    with pytest.raises(TacitError, match="bind must not release values"):
        run(Releases())


def test_a_refused_budget_does_not_forgive_a_value_that_was_read():
    class SendsBeforeTheRefusal(Gossip):
        def step(self, t, x, task, network):
            g = task.gradient(x, t, Clip(1.0))
            if t == 2:
                network.mix(t, g.value.clone())
            return Gaussian(4.0).release(g)

    whole = run(Gossip()).privacy.guaranteed
    for algorithm, guaranteed in ((Gossip(), True), (SendsBeforeTheRefusal(), False)):
        built = from_config(Config.parse(CONFIG), UserParts(algorithm=algorithm.with_rounds(4)))
        built.task.ledger.budget = Budget(0.8 * whole, 1e-4)
        ended = built.go()
        assert ended.stopped.startswith("The privacy budget")
        assert (ended.privacy.guaranteed is not None) == guaranteed


def test_the_command_names_the_escape_and_ends_with_exit_code_1(tacit, tmp_path):
    good = tacit("check", "const-d2p", *setting("rounds=3"))
    assert (good.code, good.err) == (0, "")
    assert "No value depends on the records other than through releases." in good.out
    own = tmp_path / "mine.py"
    own.write_text(
        "from dataclasses import dataclass\n"
        "from tacit.algorithms import D2P\n"
        "from tacit.algorithms.schedules import Geometric\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Mine(D2P):\n"
        "    clip: Geometric = Geometric(1.0, 1.0)\n"
        "    noise: Geometric = Geometric(1.0, 1.0)\n"
        "    def round(self, t, state, task, network):\n"
        "        g = task.gradient(self.models(state), t, self.gradient_clip(t), 'peek')\n"
        "        network.mix(t, g.use_locally())\n"
        "        return super().round(t, state, task, network)\n"
    )
    bad = tacit("check", f"{own}:Mine", *setting("rounds=3"))
    assert bad.code == 1, bad.err
    assert "Escape: the mix of round 0 sends values that depend on the records" in bad.out
    assert "No privacy is guaranteed" in bad.out
