"""Routes by which records reach others although every release is replayed: each one is found or refused."""

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from tacit.errors import TacitError
from tacit.privacy import Bounded, Gaussian
from tacit.tasks import Clip
from tests.audit.test_escapes import Gossip, State, check, run

AT_EXACT_POINT = 'the gradient "gradient" of step 0 is taken at parameters that depend on the records'


class KeepsLocal(Gossip):
    """Declares that its exact values stay local. Subclasses use them for something else."""

    exact_values_stay_local: ClassVar[bool] = True
    models_are_released: ClassVar[bool] = True

    def exact(self, t, x, task):
        return task.gradient(x, t, Clip(1.0), "probe").use_locally()


class LooksAhead(KeepsLocal):
    """Releases the gradient at the point after an exact step. A subclass must repeat a declaration."""

    exact_values_stay_local: ClassVar[bool] = True

    def step(self, t, x, task, network):
        ahead = x - self.exact(t, x, task)
        return Gaussian(4.0).release(task.gradient(ahead, t, Clip(1.0)))


class LooksBack(KeepsLocal):
    def step(self, t, x, task, network):
        behind = x - self.exact(t, x, task)
        return Gaussian(4.0).release(task.gradient(x, t, Clip(1.0), before=behind))


class LooksAheadForOnePart(KeepsLocal):
    """Adds a gradient at an exact point to the one that is released."""

    def step(self, t, x, task, network):
        part = task.gradient(x - self.exact(t, x, task), t, Clip(1.0), "part")
        part.use_locally()
        return Gaussian(4.0).release(task.gradient(x, t, Clip(1.0)).plus(part))


class AddsAnExactValue(KeepsLocal):
    def step(self, t, x, task, network):
        exact = self.exact(t, x, task)
        return Gaussian(4.0).release(task.gradient(x, t, Clip(1.0)).plus(exact))


class ScalesByAnExactValue(KeepsLocal):
    def step(self, t, x, task, network):
        factor = float(self.exact(t, x, task).norm())
        return Gaussian(4.0).release(task.gradient(x, t, Clip(1.0)).scaled(factor))


class ClipsByAnExactValue(KeepsLocal):
    def step(self, t, x, task, network):
        bound = float(self.exact(t, x, task).norm())
        return Gaussian(4.0).release(task.gradient(x, t, Clip(bound)))


class StatesASensitivityFromTheRecords(KeepsLocal):
    def step(self, t, x, task, network):
        exact = self.exact(t, x, task)
        bound = exact.norm(dim=1).double().numpy()
        return Gaussian(4.0).release(Bounded(exact, bound, "l2", task.sampling, t, "gradient", task.release_context))


class SendsUnmetered(KeepsLocal):
    def step(self, t, x, task, network):
        with network.unmetered():
            network.mix(t, self.exact(t, x, task))
        return super().step(t, x, task, network)


class MeasuresInARealNetwork(KeepsLocal):
    def step(self, t, x, task, network):
        with network.unmetered():
            network.max(self.exact(t, x, task).norm(dim=1))
        return super().step(t, x, task, network)


class DiffersInASimulation(KeepsLocal):
    def step(self, t, x, task, network):
        released = super().step(t, x, task, network)
        return released + self.exact(t, x, task) if network.omniscient else released


class Warns(KeepsLocal):
    def step(self, t, x, task, network):
        norm = float(self.exact(t, x, task).norm())
        warnings.warn(f"the gradient norm is {norm:.6f}: use a smaller lr", stacklevel=1)
        return super().step(t, x, task, network)


class Stops(KeepsLocal):
    """Stops in round 2 if a norm is, or is not, that of the first run."""

    norms_of_first_run: ClassVar[list[float]] = []
    stops_with_the_first_records: ClassVar[bool] = False

    def step(self, t, x, task, network):
        norm = float(self.exact(t, x, task).norm())
        if t == 2:
            self.norms_of_first_run.append(norm)
            if (norm == self.norms_of_first_run[0]) == self.stops_with_the_first_records:
                raise TacitError("this gradient is not accepted")
        return super().step(t, x, task, network)


@dataclass(frozen=True)
class NormState(State):
    norms: torch.Tensor


class ReportsANorm(KeepsLocal):
    def start(self, task, graph):
        return NormState(task.initial(), torch.zeros(task.n))

    def round(self, t, state, task, network):
        norms = self.exact(t, state.x, task).norm(dim=1)
        return NormState(super().round(t, state, task, network).x, norms)

    def norms(self, state):
        return {**super().norms(state), "gradient_norm": state.norms}


class ReportsAPublicNorm(Gossip):
    models_are_released: ClassVar[bool] = True

    def norms(self, state):
        return {**super().norms(state), "largest": state.x.abs().amax(1)}


@pytest.mark.parametrize(
    ("broken", "escape"),
    [
        (LooksAhead, AT_EXACT_POINT),
        (LooksBack, AT_EXACT_POINT),
        (LooksAheadForOnePart, AT_EXACT_POINT.replace('"gradient"', '"part"')),
        (AddsAnExactValue, 'a tensor added to "gradient" of step 0 depends on the records'),
        (ScalesByAnExactValue, 'a factor of "gradient" of step 0 depends on the records'),
        (ClipsByAnExactValue, 'the clip bound of "gradient" of step 0 depends on the records'),
        (StatesASensitivityFromTheRecords, 'the noise on "gradient" of step 0 has a scale that depends on the records'),
        (SendsUnmetered, "the mix of round 0 sends values that depend on the records (4 messages differ)"),
        (MeasuresInARealNetwork, "the max sends values that depend on the records (4 messages differ)"),
        (DiffersInASimulation, "the mix of round 0 sends other values in a simulation than in a real network"),
        (Warns, "the warnings depend on the records"),
        (ReportsANorm, "the metric gradient_norm depends on the records other than through releases"),
    ],
)
def test_the_route_is_found(broken, escape):
    assert escape in check(broken()).escapes


@pytest.mark.parametrize("with_the_first_records", [False, True])
def test_an_end_that_depends_on_the_records_is_found(with_the_first_records):
    class StopsForSomeRecords(Stops):
        exact_values_stay_local: ClassVar[bool] = True
        norms_of_first_run: ClassVar[list[float]] = []
        stops_with_the_first_records: ClassVar[bool] = with_the_first_records

    assert "whether and where the run ends early depends on the records" in check(StopsForSomeRecords()).escapes


def test_an_error_of_both_runs_is_raised():
    class Fails(Gossip):
        def step(self, t, x, task, network):
            raise TacitError("not for this graph")

    with pytest.raises(TacitError, match="not for this graph"):
        check(Fails())


def test_a_public_column_that_is_no_registered_metric_passes():
    assert check(ReportsAPublicNorm()).escapes == ()


class SendsTheDraw(Gossip):
    def step(self, t, x, task, network):
        drawn = task.sampler.draw(t)
        network.mix(t, drawn.weight)
        return super().step(t, x, task, network)


class DrawsBeforeTheRun(Gossip):
    def bind(self, task, graph):
        task.sampler.draw(0)
        return self


@pytest.mark.parametrize("broken", [SendsTheDraw, DrawsBeforeTheRun])
def test_an_algorithm_cannot_see_which_records_are_drawn(broken):
    with pytest.raises(TacitError, match="An algorithm has no access to the drawn records"):
        run(broken())


def test_the_example_of_the_page_passes_the_command_of_the_page(tacit, tmp_path):
    page = Path(__file__, "../../../docs/own-algorithm.md").resolve().read_text()
    (example,) = [code for code in re.findall(r"```python\n(.*?)```", page, re.S) if "class Gossip(" in code]
    own = tmp_path / "mine.py"
    own.write_text(example.replace("print(tacit.train", "if False:\n    print(tacit.train"))
    good = tacit("check", f"{own}:Gossip")
    assert good.code == 0, good.err
    assert "12 releases" in good.out
    assert tacit("check", f"{own}:Gossip", "--set", "privacy.delta=1e-3").code == 0
    assert tacit("check", f"{own}:Gossip", "--set", "privacy.epsilon=3").code == 2


def test_the_command_does_not_state_an_epsilon_that_an_escape_refutes(tacit):
    bad = tacit("check", f"{__file__}:LooksAhead")
    assert bad.code == 1, bad.err
    assert f"Escape: {AT_EXACT_POINT}." in bad.out
    assert "Guaranteed" not in bad.out
    assert "No privacy is guaranteed: values depend on the records other than through releases" in bad.out
