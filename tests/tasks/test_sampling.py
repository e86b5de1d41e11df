import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.errors import TacitError
from tacit.privacy import Noise
from tacit.tasks.sampling import Sampler


def sampler(sizes, batch, kind="poisson", seed=0, nodes=None, relation=None):
    sizes = np.array(sizes)
    nodes = np.arange(len(sizes)) if nodes is None else np.array(nodes)
    return Sampler(sizes, batch, kind, nodes, Noise.from_seed(seed), relation)


def drawn(s, step):
    """The sets of records drawn, one per node; checks that none is drawn twice."""
    index, weight = s.draw(step)
    rows = [row[w > 0].tolist() for row, w in zip(index, weight, strict=True)]
    assert all(len(set(row)) == len(row) for row in rows)
    return [set(row) for row in rows]


def test_poisson_draws_each_record_independently_at_its_rate():
    s = sampler([40, 200], 10)
    counts = [np.zeros(40), np.zeros(200)]
    sizes = []
    for step in range(2000):
        for node, records in enumerate(drawn(s, step)):
            counts[node][list(records)] += 1
        sizes.append(len(drawn(s, step)[0]))
    assert s.sampling.kind == "poisson"
    assert s.sampling.rate.tolist() == [0.25, 0.05]
    for count, rate in zip(counts, s.sampling.rate, strict=True):
        z = (count - 2000 * rate) / np.sqrt(2000 * rate * (1 - rate))
        assert stats.kstest(z, "norm").pvalue > 1e-3
    # Sizes are binomial: a sampler of fixed size would have variance 0.
    assert np.var(sizes) == pytest.approx(40 * 0.25 * 0.75, rel=0.15)


class GivenWords:
    """A source of the given 32-bit words, for one node."""

    def __init__(self, words):
        self._words = torch.tensor([[word - 2**31 for word in words]], dtype=torch.int64).int()

    def words(self, purpose, nodes, step, count, first=0, device=None):
        return self._words


@pytest.mark.parametrize(("batch", "size"), [(3, 7), (1, 6), (2, 8)])
def test_a_poisson_record_is_drawn_by_no_more_than_its_share_of_all_words(batch, size):
    share = batch * 2**32 // size  # of the words 0, …, 2³² − 1; one more would exceed the accounted rate
    words = [0, share - 1, share, share + 1, 2**32 - 1] + [2**32 - 1] * (size - 5)
    s = Sampler(np.array([size]), batch, "poisson", np.array([0]), GivenWords(words))
    assert drawn(s, 0) == [{0, 1}]


def test_without_replacement_draws_exactly_a_batch_uniformly():
    s = sampler([30, 17], 5, "without-replacement")
    counts = np.zeros(30)
    for step in range(3000):
        records = drawn(s, step)
        assert [len(r) for r in records] == [5, 5]
        assert max(records[1]) < 17
        counts[list(records[0])] += 1
    assert stats.chisquare(counts).pvalue > 1e-3
    assert s.sampling.relation == "replace-one"


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(4, 20), min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 3))
def test_a_permutation_takes_each_record_at_most_once_per_epoch(sizes, batch, seed):
    s = sampler(sizes, batch, "permutation", seed)
    for node, size in enumerate(sizes):
        batches = size // batch
        assert s.sampling.rate[node] == 1 / batches
        for epoch in range(2):
            seen = [r for step in range(epoch * batches, (epoch + 1) * batches) for r in drawn(s, step)[node]]
            assert len(seen) == len(set(seen)) == batches * batch
            assert max(seen) < size


def test_every_epoch_has_a_new_shuffle():
    s = sampler([64], 64, "permutation")
    assert s.draw(0).records.tolist() != s.draw(1).records.tolist()


def test_without_a_batch_size_all_records_are_drawn():
    s = sampler([3, 5], None)
    assert drawn(s, 0) == [{0, 1, 2}, {0, 1, 2, 3, 4}]
    assert s.sampling.kind == "none"
    assert s.batch.tolist() == [3.0, 5.0]


@pytest.mark.parametrize("kind", ["poisson", "without-replacement", "permutation"])
def test_a_node_draws_the_same_wherever_it_is_hosted(kind):
    together = sampler([20, 20, 20], 6, kind, seed=3)
    alone = sampler([20], 6, kind, seed=3, nodes=[2])
    for step in range(8):
        assert drawn(together, step)[2] == drawn(alone, step)[0]


def test_an_empty_poisson_batch_is_valid():
    s = sampler([50], 1)
    empty = [step for step in range(50) if not drawn(s, step)[0]]
    assert empty
    assert s.draw(empty[0]).weight.sum() == 0
    assert s.draw(empty[0]).records.dtype == torch.long


def test_invalid_samplers_are_refused():
    with pytest.raises(TacitError, match=r"batch.size is 5, but node 1 has only 4 records"):
        sampler([9, 4], 5)
    with pytest.raises(TacitError, match="at least 1"):
        sampler([9], 0)
    with pytest.raises(TacitError, match="replace-one"):
        sampler([9], 2, "permutation", relation="add-remove")


@pytest.mark.parametrize("kind", ["poisson", "without-replacement", "permutation"])
def test_draws_do_not_depend_on_the_sizes_of_other_nodes(kind):
    together, alone = sampler([20, 37], 6, kind, seed=3), sampler([20], 6, kind, seed=3)
    for step in range(4):
        assert drawn(together, step)[0] == drawn(alone, step)[0]


def test_a_shuffle_lasts_for_its_epochs_and_its_draws_repeat():
    s = Sampler(np.array([12, 12]), 4, "permutation", np.arange(2), Noise.from_seed(0), epochs=3)
    assert s.distinct == 3
    first = [s.draw(step) for step in range(9)]
    assert all(first[step] is first[step % 3] for step in range(9))
    assert s.draw(9).records.tolist() != first[0].records.tolist()
    assert sampler([12, 12], 4, "permutation").distinct is None
    assert Sampler(np.array([12, 8]), 4, "permutation", np.arange(2), Noise.from_seed(0), epochs=3).distinct is None
