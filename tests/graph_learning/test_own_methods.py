"""Methods of a user's own: they cannot read signals, and values of another origin have no guarantee."""

import pytest

from tacit.errors import TacitError
from tacit.graph_learning import PPGL, GraphLearner, GraphLearningRun, Signals
from tacit.graphs import complete
from tacit.networks import Simulated
from tacit.privacy import Noise
from tests.graph_learning.cases import instance


class ReadsTheSignals(PPGL):
    def round(self, t, state, task, network):
        assert len(task.clients)
        return super().round(t, state, task, network)


class ReadsTheMean(PPGL):
    def start(self, task, graph, z=None):
        return super().start(task, graph, task._z)


@pytest.mark.parametrize("method", [ReadsTheSignals(noise=2.0), ReadsTheMean(noise=2.0)])
def test_a_method_has_no_access_to_the_signals(method):
    x, _ = instance(0, d=5, n=2)
    task = Signals(x, clip=20.0, noise=Noise.from_seed(0))
    with pytest.raises(TacitError, match="A method has no access to the signals"):
        GraphLearningRun(task, method, Simulated(complete(2)), quiet=True).go()
    with pytest.raises(TacitError, match="A method has no access to the signals"):
        GraphLearner(method, clip=20.0, seed=0).fit(x)


def test_exact_values_in_place_of_released_ones_have_no_guarantee():
    x, _ = instance(0, d=5, n=2)
    task, method = Signals(x, clip=20.0, noise=Noise.from_seed(0)), PPGL(noise=2.0)
    exact = task.mean(1, "other").use_locally()
    released = method.prepare_z(task)
    assert task.has_released(released)
    run = GraphLearningRun(task, method, Simulated(complete(2)), z=exact, quiet=True).go()
    assert run.privacy.guaranteed is None
    assert run.privacy.reason
    clean = Signals(x, clip=20.0, noise=Noise.from_seed(0))
    method.prepare_z(clean)
    run = GraphLearningRun(clean, method, Simulated(complete(2)), z=exact, quiet=True)
    assert run.privacy.reason == "the graphs were learned from values that are not in this ledger"
    with pytest.raises(TacitError, match="its z is secret: leave out z"):
        GraphLearningRun(clean, PPGL(noise=2.0, release="rounds", rounds=2), Simulated(complete(2)), z=exact)
