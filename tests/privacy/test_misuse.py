"""Ways to misuse values, ledgers and noise that would make ε too small."""

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.privacy import Bounded, Gaussian, Ledger, Noise, Release, ReleaseContext, Sampling, guarantee
from tests.helpers import quadratic_task

POISSON = Sampling("poisson", np.array([0.1]), "add-remove")


def bounded(value, ledger=None, purpose="gradient"):
    context = ReleaseContext(np.arange(len(value)), ledger or Ledger(), Noise.from_seed(0))
    sampling = Sampling("none", np.ones(len(value)), "add-remove")
    return Bounded(value, np.full(len(value), 0.1), "l2", sampling, 0, purpose, context)


def test_a_value_is_not_copied_by_adding_a_larger_one():
    """Each copy would have noise of its own, and their mean would be almost exact."""
    with pytest.raises(TacitError, match="cannot be added"):
        bounded(torch.ones(1, 1)).plus(torch.zeros(1, 10_000))


def test_values_of_different_ledgers_are_not_added():
    with pytest.raises(TacitError, match="belong to different ledgers"):
        bounded(torch.ones(1, 2)).plus(bounded(torch.ones(1, 2), purpose="other"))


def test_a_change_of_a_local_value_does_not_change_the_release():
    one, other = bounded(torch.ones(1, 3)), bounded(torch.ones(1, 3))
    one.use_locally().mul_(1000)
    assert torch.equal(Gaussian(1.0).release(one), Gaussian(1.0).release(other))


@pytest.mark.parametrize(("nodes", "step"), [([1], 2**32), ([2**32], 0), ([0], -1)])
def test_noise_that_would_repeat_is_refused(nodes, step):
    with pytest.raises(TacitError, match="below 2³²"):
        Noise.from_seed(0).words("noise", np.array(nodes), step, 4)


def test_the_order_of_releases_does_not_change_epsilon():
    """Two releases of one draw count as one draw, also if others stand between them."""
    by_step = [Release(t, p, Gaussian(1.0), POISSON) for t in range(20) for p in ("a", "b")]
    by_purpose = [Release(t, p, Gaussian(1.0), POISSON) for p in ("a", "b") for t in range(20)]
    assert guarantee(by_purpose, 1e-5) == guarantee(by_step, 1e-5)


def test_another_run_on_the_same_task_has_its_own_secret_noise():
    task = quadratic_task(2, records=3)
    task.noise = Noise.from_system()
    other, same_run = task.host([0, 1]), task.host([0, 1], Ledger())
    drawn = [each.noise.words("x", each.nodes, 0, 4) for each in (task, other, same_run)]
    assert not torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], drawn[2])
