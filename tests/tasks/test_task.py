"""The sensitivity of a task bounds the change of its gradient if a record is removed or replaced."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.privacy import Noise
from tacit.tasks import Clip, Dataset, Model, Target, Task, models
from tests.helpers import digits_task, quadratic_task


def tiny(x, y, *, sampling, batch, relation=None, sizes=(6, 9)):
    data = Dataset("tiny", x, y, x, y, Target.of_classes(3))
    torch.manual_seed(0)
    module = models.build("logistic", {"inputs": (4,), "classes": 3})
    ends = np.cumsum((0, *sizes))
    parts = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
    return Task(
        Model(module),
        data,
        parts,
        batch=batch,
        sampling=sampling,
        relation=relation,
        noise=Noise.from_seed(1),
        dtype=torch.float64,
    )


def records(seed=0, size=15):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(size, 4)) * 5).float(), torch.from_numpy(np.arange(size) % 3)


def norms(change, norm):
    return change.abs().sum(1) if norm == "l1" else change.norm(dim=1)


@settings(max_examples=40, deadline=None)
@given(
    sampling=st.sampled_from(["poisson", "without-replacement", "permutation"]),
    norm=st.sampled_from(["l2", "l1", "smooth"]),
    per=st.sampled_from(["record", "batch"]),
    bound=st.floats(0.05, 3.0),
    step=st.integers(0, 30),
    record=st.integers(0, 14),
    scale=st.sampled_from([1.0, 1e3, -1e3]),
)
def test_replacing_a_record_changes_the_gradient_by_at_most_the_sensitivity(
    sampling, norm, per, bound, step, record, scale
):
    x, y = records()
    other = x.clone()
    other[record] = other[record] * scale + 1
    labels = y.clone()
    labels[record] = (labels[record] + 1) % 3
    clip = Clip(bound, norm, per)
    relation = "replace-one"
    tasks = [tiny(a, b, sampling=sampling, batch=3, relation=relation) for a, b in ((x, y), (other, labels))]
    params = torch.randn(2, tasks[0].d, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
    first, second = (task.gradient(params, step, clip) for task in tasks)
    assert first.norm == ("l1" if norm == "l1" else "l2")
    moved = norms(first.value - second.value, first.norm).numpy()
    assert (moved <= first.sensitivity * (1 + 1e-9)).all()


@settings(max_examples=30, deadline=None)
@given(norm=st.sampled_from(["l2", "l1", "smooth"]), bound=st.floats(0.05, 3.0), record=st.integers(0, 8))
def test_removing_a_record_changes_the_sum_by_at_most_the_sensitivity(norm, bound, record):
    """Without sampling, one record changes the mean by at most C / m with m the public size."""
    x, y = records()
    clip = Clip(bound, norm)
    task = tiny(x, y, sampling="poisson", batch=None)
    params = torch.randn(2, task.d, dtype=torch.float64, generator=torch.Generator().manual_seed(record))
    whole = task.gradient(params, 0, clip)
    without = dataclasses.replace(task.data, y=task.data.y)
    parts = [task.shards[0], np.delete(task.shards[1], record)]
    less = Task(task.model, without, parts, noise=task.noise, dtype=torch.float64).gradient(params, 0, clip)
    # The second task divides by its own public size 8, so compare sums.
    moved = norms(whole.value * 9 - less.value * 8, whole.norm)[1]
    assert float(moved) <= whole.sensitivity[1] * 9 * (1 + 1e-9)


def test_mean_divides_by_the_expected_batch_size():
    task = digits_task(nodes=3, batch=8, dtype=torch.float64)
    params = task.initial()
    step = next(s for s in range(100) if task.sampler.draw(s).weight.sum(1)[0] not in (0, 8))
    index, weight = task.sampler.draw(step)
    chosen = torch.from_numpy(task.shards[0])[index[0][weight[0] > 0]]
    x, y = task.data.x[chosen].double()[None], task.data.y[chosen][None]
    total = task.model.gradient_sum(params[:1], x, y, torch.ones(1, len(chosen)), None)
    assert torch.allclose(task.gradient(params, step).value[0], total[0] / 8, atol=1e-12)


def test_sensitivities():
    clip = Clip(2.0)
    assert digits_task(batch=8).gradient(digits_task().initial(), 0, clip).sensitivity.tolist() == [2 / 8] * 5
    replaced = digits_task(batch=8, sampling="without-replacement")
    assert replaced.gradient(replaced.initial(), 0, clip).sensitivity.tolist() == [4 / 8] * 5
    task = digits_task(batch=8)
    assert task.gradient(task.initial(), 0, Clip(2.0, per="batch")).sensitivity.tolist() == [4.0] * 5
    assert task.gradient(task.initial(), 1).sensitivity is None


def test_node_hosted_separately_has_the_same_gradient():
    task = digits_task(nodes=4, sizes=[100, 200, 300, 400])
    params = torch.randn(4, task.d, generator=torch.Generator().manual_seed(0))
    together = task.gradient(params, 5, Clip(0.5)).value
    for row in range(4):
        alone = task.host([row]).gradient(params[row : row + 1], 5, Clip(0.5)).value
        assert torch.allclose(alone[0], together[row], atol=1e-6)


def test_gradient_is_open_in_the_ledger_until_released():
    task = digits_task()
    bounded = task.gradient(task.initial(), 3, purpose="momentum")
    assert task.ledger.unreleased == [(3, "momentum")]
    bounded.use_locally()
    assert task.ledger.unreleased == []
    assert task.draws == 1


def test_evaluation_of_a_module_and_of_a_loss_function():
    task = digits_task()
    metrics = task.evaluate(torch.zeros(task.d))
    assert metrics.loss == pytest.approx(np.log(10), rel=1e-4)
    assert 0.05 < metrics.accuracy < 0.15
    bare = quadratic_task()
    metrics = bare.evaluate(torch.zeros(3, dtype=torch.float64))
    assert metrics.loss == pytest.approx(float((bare.data.test_x.double() ** 2).sum(1).mean() / 2))
    assert np.isnan(metrics.accuracy)


def test_cached_batches_give_the_same_gradients_as_fresh_copies(monkeypatch):
    params = torch.randn(5, digits_task().d, generator=torch.Generator().manual_seed(0))
    made = {}
    for kept in (0, 1 << 29):
        monkeypatch.setattr("tacit.tasks.batch_loader._CACHE_BYTES", kept)
        task = digits_task(batch=20, sampling="permutation", epochs=2)
        steps = list(range(2 * task.sampler.distinct)) * 2  # two permutations, then the first again
        made[kept] = [task.gradient(params, step, Clip(0.5)).use_locally() for step in steps]
        assert bool(task._records._loader._cache) == bool(kept)
    assert all(torch.equal(one, other) for one, other in zip(*made.values(), strict=True))


def test_weight_decay_is_not_clipped():
    """It is added after clipping and depends neither on the bound nor on the batch."""
    task, decaying = digits_task(batch=8), digits_task(batch=8, weight_decay=0.3)
    params = torch.randn(5, task.d, generator=torch.Generator().manual_seed(0))
    for step, clip in enumerate((None, Clip(0.01), Clip(0.01, per="batch"))):
        plain, more = (each.gradient(params, step, clip) for each in (task, decaying))
        assert torch.allclose(more.value, plain.value + 0.3 * params, atol=1e-6)
        assert plain.sensitivity is None or plain.sensitivity.tolist() == more.sensitivity.tolist()
    difference = [each.gradient(params, 4, None, before=params / 2).value for each in (task, decaying)]
    assert torch.allclose(difference[1], difference[0] + 0.15 * params, atol=1e-6)
    assert torch.allclose(decaying.full_gradient(params[0]), task.full_gradient(params[0]) + 0.3 * params[0], atol=1e-6)
    with pytest.raises(TacitError, match="weight_decay must be finite and at least 0"):
        digits_task(weight_decay=-1.0)


@pytest.mark.parametrize("parts", [[[0, 1, 2], [2, 3]], [[0, 1, 1], [2, 3]]])
def test_overlapping_shards_are_refused(parts):
    """A record that stands twice would count twice."""
    task = quadratic_task(2, records=3)
    shards = [np.array(part) for part in parts]
    with pytest.raises(TacitError, match="every record must belong to at most one node, once"):
        Task(task.model, task.data, shards)
    assert Task(task.model, task.data, shards, repeats=True).n == 2


def test_noise_is_secret_unless_a_seed_is_given():
    task = quadratic_task(2, records=3)
    first, second = (Task(task.model, task.data, task.shards) for _ in range(2))
    assert not first.noise.simulated
    assert not torch.equal(first.noise.words("x", first.nodes, 0, 4), second.noise.words("x", second.nodes, 0, 4))
    assert torch.equal(first.public.words("x", first.nodes, 0, 4), second.public.words("x", second.nodes, 0, 4))


def test_the_public_facts_of_all_nodes_do_not_depend_on_who_hosts_them():
    task = tiny(*records(), sampling="poisson", batch=3)
    alone = task.host([1]).of_network()
    assert alone.nodes.tolist() == task.nodes.tolist()
    assert alone.sizes.tolist() == task.sizes.tolist()
    assert alone.sampling.rate.tolist() == task.sampling.rate.tolist()
    assert alone.sensitivity(Clip(2.0)).tolist() == task.sensitivity(Clip(2.0)).tolist()
    with pytest.raises(TacitError, match="no access to the records"):
        _ = alone.data
    with pytest.raises(TacitError):
        alone.gradient(alone.initial(), 0)


def test_automatic_clipping_replaces_the_clip_of_gradients_but_not_of_differences():
    x, y = records()
    plain, automatic = (tiny(x, y, sampling="poisson", batch=None) for _ in range(2))
    automatic.clipping = "automatic"
    params = plain.initial() + 0.1
    pairs = (Clip(0.5, "smooth"), Clip(0.5, "automatic")), (Clip(2.0, "l1"), Clip(2.0, "automatic-l1"))
    for step, (clip, same) in enumerate(pairs):
        found, wanted = automatic.gradient(params, step, clip), plain.gradient(params, step, same)
        assert torch.equal(found._value, wanted._value)
        assert (found.norm, found.sensitivity.tolist()) == (clip.order, plain.sensitivity(clip).tolist())
    before = plain.initial()
    differences = [each.gradient(params, 2, Clip(0.5), before=before)._value for each in (plain, automatic)]
    assert torch.equal(*differences)
    with pytest.raises(TacitError, match="needs a method that clips"):
        automatic.gradient(params, 3)
