"""ε of several runs together, against brute force over all choices of one node per run."""

from itertools import product

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.privacy import Exact, Gaussian, Laplace, Release, Sampling, calibrate, epsilon, guarantee
from tacit.privacy.accounting import joint
from tacit.privacy.accounting.joint import dominating_losses, joint_epsilon, moment_bound
from tacit.privacy.accounting.losses import count_losses

DELTA = 1e-4
RELATIONS = {"poisson": "add-remove", "without-replacement": "replace-one", "permutation": "replace-one"}


def run_of(noise, rates, kind="poisson", steps=30, mechanism=Gaussian, growth=1.0):
    """A run with one release per step; noise and rates have one entry per node, and the noise grows over the steps."""
    drawn = Sampling(kind, np.array(rates, float), RELATIONS.get(kind, "add-remove"))
    return [Release(t, "gradient", mechanism(np.array(noise, float) * growth**t), drawn) for t in range(steps)]


def calibrated(kind, rates, target=1.0, steps=30):
    """A run in which every node has its own noise for the same ε: small nodes have higher rates and more noise."""

    def alone(rate, scale):
        return run_of([scale], [rate], kind, steps)

    noise = [calibrate(lambda scale, rate=rate: alone(rate, scale), target, DELTA) for rate in rates]
    return run_of(noise, rates, kind, steps)


def brute_force(runs):
    """The largest ε over all choices of one node per run, with the steps of each run after those of the last."""
    worst = 0.0
    for choice in product(*(range(len(run[0].rates)) for run in runs)):
        lines, first = [], 0
        for run, node in zip(runs, choice, strict=True):
            rows = np.array([node])
            for line in run:
                own = line.for_rows(rows)
                lines.append(Release(first + line.step, line.purpose, own.mechanism, own.sampling, line.unit))
            first += 1200  # a multiple of every epoch
        worst = max(worst, epsilon(lines, DELTA))
    return worst


def test_one_run_has_the_epsilon_of_its_worst_node():
    run = run_of([0.8, 1.0, 1.2], [0.1, 0.05, 0.2])
    assert joint_epsilon([run], DELTA) == guarantee(run, DELTA).max()
    assert joint_epsilon([], DELTA) == joint_epsilon([[]], DELTA) == 0


def test_two_runs_cost_more_than_one_and_less_than_their_sum():
    one, other = run_of([1.0], [0.1]), run_of([0.9], [0.05], steps=60)
    alone = [epsilon(run, DELTA) for run in (one, other)]
    assert max(alone) < joint_epsilon([one, other], DELTA) < sum(alone)


def test_the_same_steps_of_two_runs_are_different_draws():
    """Releases of one draw are composed before amplification, which costs more than two draws."""
    run = run_of([1.0], [0.1], steps=1)
    twice = [run[0], Release(0, "second", run[0].mechanism, run[0].sampling)]
    assert joint_epsilon([run, run], DELTA) == pytest.approx(epsilon(run, DELTA, times=2), rel=1e-9)
    assert joint_epsilon([run, run], DELTA) < epsilon(twice, DELTA)


@pytest.mark.parametrize("kind", RELATIONS)
def test_two_runs_of_unequal_nodes_are_bounded_for_every_choice_of_nodes(kind):
    runs = [calibrated(kind, [0.05, 0.1, 0.2, 0.25, 1 / 3]), calibrated(kind, [0.05, 0.08, 0.1, 0.125])]
    exact, found = brute_force(runs), joint_epsilon(runs, DELTA)
    assert exact <= found <= 1.15 * exact
    assert max(epsilon(run, DELTA) for run in runs) < found < sum(epsilon(run, DELTA) for run in runs)


@pytest.mark.parametrize("kind", RELATIONS)
def test_both_bounds_hold_for_every_node(kind, monkeypatch):
    run = run_of([2.0, 1.0, 1.5], [0.2, 0.1, 0.125], kind, growth=0.97)
    nodes = [count_losses(run, np.array([node])) for node in range(3)]
    relation = RELATIONS[kind]
    exact = brute_force([run, run])
    dominated = joint.epsilon_of_losses(dominating_losses(nodes) + dominating_losses(nodes), DELTA, relation)
    assert dominated >= exact
    assert moment_bound([nodes, nodes], DELTA, relation) >= exact
    monkeypatch.setattr(joint, "_MAX_CHOICES", 1)
    assert joint_epsilon([run, run], DELTA) >= exact


def test_moments_are_close_to_the_composition_of_equal_nodes():
    run = run_of([1.0], [0.1])
    counts = count_losses(run, np.array([0]))
    exact = epsilon(run, DELTA, times=3)
    assert exact <= moment_bound([[counts]] * 3, DELTA, "add-remove") <= 1.15 * exact


def test_a_node_with_another_law_or_fewer_steps_is_dominated_too():
    one, other = run_of([3.0], [1.0], "none", 5), run_of([9.0], [1.0], "none", 8, Laplace)
    nodes = [count_losses(run, np.array([0])) for run in (one, other)]
    both = dominating_losses(nodes)
    assert both == nodes[0] + nodes[1]


def test_without_noise_the_total_is_infinite():
    drawn = Sampling("poisson", np.array([0.1, 0.2]), "add-remove")
    assert joint_epsilon([run_of([1.0, 1.0], [0.1, 0.2]), [Release(0, "x", Exact(), drawn)]], DELTA) == np.inf


def test_different_relations_have_no_total():
    with pytest.raises(TacitError, match="same relation"):
        joint_epsilon([run_of([1.0], [0.1]), run_of([1.0], [0.1], "permutation")], DELTA)
