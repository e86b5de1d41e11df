"""The tests that every registered sampling kind must pass: what is drawn is what is accounted."""

from typing import get_args

import numpy as np
import pytest
from scipy import stats

from tacit.errors import TacitError
from tacit.privacy import Noise, Population, Relation, Sampling, sampling_kinds
from tacit.runs import Config, from_config

KINDS = list(sampling_kinds)
SIZES = np.array([24, 45, 20])  # the second is no multiple of the batch
BATCH = 4
STEPS = 3000


def scheme(kind, *, sizes=SIZES, nodes=None, seed=0, reshuffle_every=1):
    nodes = np.arange(len(sizes)) if nodes is None else np.array(nodes)
    made = sampling_kinds.registered(kind)
    batch = BATCH if made.is_random else None
    return made(Population(sizes, batch, nodes, Noise.from_seed(seed), reshuffle_every))


def batches(drawing, step):
    """The records of one draw, one sorted list per node."""
    records, weight = drawing.draw(step)
    assert set(weight.unique().tolist()) <= {0.0, 1.0}
    return [sorted(row[w > 0].tolist()) for row, w in zip(records, weight, strict=True)]


def inclusions(drawing, steps=STEPS):
    """For each node, (steps, size): whether a record is in a draw."""
    drawn = [np.zeros((steps, size), bool) for size in drawing.population.sizes]
    for step in range(steps):
        for node, records in enumerate(batches(drawing, step)):
            drawn[node][step, records] = True
    return drawn


@pytest.fixture(scope="module", params=KINDS)
def drawn(request):
    drawing = scheme(request.param)
    return drawing, inclusions(drawing)


def test_the_class_has_its_registered_name():
    assert {kind: sampling_kinds.registered(kind).name for kind in KINDS} == {kind: kind for kind in KINDS}


def test_batches_have_different_records_of_the_node(drawn):
    drawing, _ = drawn
    for step in range(50):
        for records, size, most in zip(batches(drawing, step), SIZES, drawing.max_batch, strict=True):
            assert len(set(records)) == len(records) <= most
            assert all(0 <= record < size for record in records)


def test_no_record_is_drawn_more_often_than_accounted(drawn):
    drawing, included = drawn
    for rate, drawn_of_node in zip(drawing.rate, included, strict=True):
        accounted = drawing.accounted_rate(float(rate))
        assert rate <= accounted <= 1
        most = stats.binom.ppf(1 - 1e-6, STEPS, accounted)
        assert drawn_of_node.sum(axis=0).max() <= most


def test_no_record_is_drawn_less_often_than_a_lower_bound_assumes(drawn):
    """Of a permutation this holds if the batches leave no record out, as in the first node."""
    drawing, included = drawn
    attained = drawing.attained_rate(float(drawing.rate[0]))
    assert 0 <= attained <= drawing.accounted_rate(float(drawing.rate[0]))
    assert included[0].sum(axis=0).min() >= stats.binom.ppf(1e-6, STEPS, attained)


def test_a_record_is_in_at_most_one_draw_per_epoch(drawn):
    drawing, included = drawn
    for rate, drawn_of_node in zip(drawing.rate, included, strict=True):
        epochs = np.array([drawing.epoch(step, float(rate)) for step in range(STEPS)])
        for epoch in set(epochs) - {None}:
            assert drawn_of_node[epochs == epoch].sum(axis=0).max() <= 1


def test_a_record_is_in_at_most_one_draw_per_period(drawn):
    drawing, included = drawn
    for period, drawn_of_node in zip(drawing.period, included, strict=True):
        whole = drawn_of_node[: STEPS // period * period].reshape(-1, period, drawn_of_node.shape[1])
        assert whole.sum(axis=1).max() <= 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reshuffle_every", [1, 3])
def test_draws_with_a_common_record_are_as_far_apart_as_stated(kind, reshuffle_every):
    drawing = scheme(kind, reshuffle_every=reshuffle_every)
    for rate, drawn_of_node in zip(drawing.rate, inclusions(drawing, 300), strict=True):
        for lag in range(1, drawing.spacing(float(rate))):
            assert not (drawn_of_node[lag:] & drawn_of_node[:-lag]).any()


def test_draws_without_an_epoch_are_independent(drawn):
    """How often a record is in two consecutive draws, for all records of a node together."""
    drawing, included = drawn
    if drawing.epoch(0, float(drawing.rate[0])) is not None or not drawing.is_random:
        return
    for lag in (1, 2, 7):
        for rate, drawn_of_node in zip(drawing.rate, included, strict=True):
            again = (drawn_of_node[lag:] & drawn_of_node[:-lag]).sum()
            trials = drawn_of_node[lag:].size
            assert abs(again - trials * rate**2) < 6 * np.sqrt(trials * rate**2)


def test_records_are_drawn_in_any_order(drawn):
    """The first and the last record of a node are drawn equally often, and not always together."""
    drawing, included = drawn
    if not drawing.is_random:
        return
    if drawing.spacing(float(drawing.rate[0])) == 1:
        first, last = included[0][:, 0], included[0][:, -1]
    else:  # the draws of one run depend on each other
        runs = [batches(scheme(drawing.name, seed=seed), 0)[0] for seed in range(1000)]
        first, last = (np.array([record in run for run in runs]) for record in (0, int(SIZES[0]) - 1))
    assert abs(int(first.sum()) - int(last.sum())) < 6 * np.sqrt(2 * first.sum())
    assert 0.2 * drawing.rate[0] < (first & last).sum() / first.sum() < 1.8 * drawing.rate[0]


def test_the_rate_is_the_share_of_records_in_a_draw(drawn):
    """Exactly, or on average. A permutation that leaves records out has the rate of those it takes."""
    drawing, included = drawn
    for rate, expected, drawn_of_node in zip(drawing.rate, drawing.batch, included, strict=True):
        size = drawn_of_node.shape[1]
        assert drawn_of_node.sum() / STEPS == pytest.approx(expected, rel=0.05)
        assert expected / size <= rate * (1 + 1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_step_gives_the_same_batch(kind):
    once, again = scheme(kind), scheme(kind)
    expected = [batches(once, step) for step in range(40)]
    for step in (39, 0, 17, 17, 3, 38, 5):
        assert batches(again, step) == expected[step]
        assert batches(once, step) == expected[step]


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_draws_the_same_wherever_it_is_hosted(kind):
    together, alone = scheme(kind), scheme(kind, sizes=SIZES[1:2], nodes=[1])
    for step in range(30):
        assert batches(together, step)[1] == batches(alone, step)[0]
    assert together.rate[1] == alone.rate[0]


@pytest.mark.parametrize("kind", KINDS)
def test_other_seeds_steps_and_nodes_draw_other_batches(kind):
    if not sampling_kinds.registered(kind).is_random:
        pytest.skip("draws all records")
    sizes = np.array([40, 40])
    one, other = scheme(kind, sizes=sizes), scheme(kind, sizes=sizes, seed=1)
    of_one = [batches(one, step) for step in range(20)]
    assert of_one != [batches(other, step) for step in range(20)]
    assert [b[0] for b in of_one] != [b[1] for b in of_one]
    once_per_epoch = one.spacing(float(one.rate[0])) > 1
    assert len({tuple(b[0]) for b in of_one}) >= (10 if once_per_epoch else 11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reshuffle_every", [1, 3])
def test_batches_repeat_only_where_that_is_stated(kind, reshuffle_every):
    drawing = scheme(kind, sizes=np.array([12, 12]), reshuffle_every=reshuffle_every)
    found = [batches(drawing, step) for step in range(9)]
    if drawing.distinct is None:
        assert any(found[step] != found[step % 3] for step in range(3, 9))
    else:
        assert all(found[step] == found[step % drawing.distinct] for step in range(9))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("relation", get_args(Relation))
def test_a_relation_that_cannot_be_accounted_is_refused(kind, relation):
    supported = sampling_kinds.registered(kind).relations
    if relation in supported:
        assert Sampling(kind, np.array([0.5]), relation).scheme is sampling_kinds.registered(kind)
        return
    with pytest.raises(TacitError, match=f'can be accounted for relation "{supported[0]}" only, got "{relation}"'):
        Sampling(kind, np.array([0.5]), relation)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_draws_what_its_ledger_states(monkeypatch, kind):
    batch = {"size": 8, "sampling": kind} if sampling_kinds.registered(kind).is_random else {"size": None}
    run = from_config(
        Config.parse(
            {
                "rounds": 6,
                "graph": {"name": "ring", "nodes": 4},
                "algorithm": {"name": "const-d2p", "noise_multiplier": 2.0},
                "sharding": {"name": "sizes", "ratio": 2},
                "batch": batch,
            }
        )
    )
    used = {}
    draw = run.task.sampler.draw
    monkeypatch.setattr(run.task.sampler, "draw", lambda step: used.setdefault(step, draw(step)))
    run.go()
    releases = list(run.task.ledger.releases())
    assert [release.step for release in releases] == sorted(used) == list(range(6))
    for release in releases:
        population = Population(run.task.sizes, batch["size"], run.task.nodes, run.task.noise)
        stated = release.sampling.scheme(population)
        assert release.sampling.kind == kind
        assert release.sampling.relation == stated.relations[0]
        assert release.rates.tolist() == stated.rate.tolist()
        for one, other in zip(used[release.step], stated.draw(release.step), strict=True):
            assert one.tolist() == other.tolist()
