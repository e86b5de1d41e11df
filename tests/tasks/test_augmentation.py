"""Augmentation multiplicity: the clipped gradient of a record is that of the mean over its copies."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tacit.errors import TacitError
from tacit.privacy import Noise
from tacit.tasks import Augmentation, Clip, Dataset, Model, Target, Task, augmentations

SIDE = 8


def cnn():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(3 * 36, 3)).double()


class Branching(nn.Module):
    """A module that torch.vmap does not support."""

    def __init__(self):
        super().__init__()
        self.inner = cnn()

    def forward(self, x):
        return self.inner(x) * torch.tensor([[2.0 if float(image.sum()) > 0 else 1.0] for image in x])


def images(count=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 2, SIDE, SIDE, generator=generator)
    return Dataset("images", x, torch.arange(count) % 3, x, torch.arange(count) % 3, Target.of_classes(3))


def task(data=None, augmentation=None, module=None, seed=1, **options):
    data = images() if data is None else data
    parts = np.array_split(np.arange(len(data.y)), 2)
    noise = Noise.from_seed(seed)
    model = Model(cnn() if module is None else module)
    return Task(model, data, parts, noise=noise, dtype=torch.float64, augmentation=augmentation, **options)


def naive_mean_gradient(each, module, made, clip):
    """Return each node's mean gradient from copies `made` (n, B, K, …), by a loop over nodes, records and copies."""
    (nodes, records, copies), out = made.shape[:3], torch.zeros_like(each.initial())
    for i in range(nodes):
        for b in range(records):
            total = torch.zeros(each.d, dtype=torch.float64)
            for k in range(copies):
                vector = each.initial()[i].clone().requires_grad_()
                output = torch.func.functional_call(
                    module, each.model.layout.unflatten(vector), (made[i, b, k][None].double(),)
                )
                loss = torch.nn.functional.cross_entropy(output, each.data.y[each.shards[i][b]][None])
                total += torch.autograd.grad(loss, vector)[0] / copies
            out[i] += total * min(1.0, clip / float(total.norm())) / records
    return out


@pytest.mark.parametrize("module", [cnn, Branching])
def test_gradients_are_those_of_a_loop_over_copies(module):
    augmentation = Augmentation(3, ("flip", "shift"))
    each = task(augmentation=augmentation, module=module(), batch=None)
    keys = augmentation.keys(each.noise, each.nodes, 4, torch.arange(6).repeat(2, 1))
    made = augmentation.expand(each.data.x.view(2, 6, 2, SIDE, SIDE), keys)
    found = each.gradient(each.initial(), 4, Clip(0.5))._value
    expected = naive_mean_gradient(each, module(), made, 0.5)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    assert not torch.allclose(found, task(module=module(), batch=None).gradient(each.initial(), 4, Clip(0.5))._value)


@pytest.mark.parametrize("clip", [Clip(0.5), Clip(0.5, "automatic"), Clip(0.5, "l1"), Clip(0.5, per="batch"), None])
@pytest.mark.parametrize("module", [cnn, Branching])
def test_identical_copies_change_nothing(clip, module):
    plain, copied = task(module=module()), task(module=module(), augmentation=Augmentation(4, ()))
    for step in range(3):
        one, other = (each.gradient(each.initial(), step, clip)._value for each in (plain, copied))
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(
    record=st.integers(0, 11), step=st.integers(0, 5), scale=st.sampled_from([0.0, 1e4, -1e4]), bound=st.floats(0.1, 2)
)
@pytest.mark.parametrize("clipping", ["method", "automatic"])
def test_neighbouring_data_sets_differ_by_at_most_the_sensitivity(clipping, record, step, scale, bound):
    data = images()
    other = data.x.clone()
    other[record] = scale * other[record]
    options = {"augmentation": Augmentation(2, ("flip", "shift")), "clipping": clipping, "relation": "replace-one"}
    one, changed = (
        task(Dataset("a", x, data.y, x, data.y, data.target), batch=None, **options) for x in (data.x, other)
    )
    clip = Clip(bound)
    gradients = [each.gradient(each.initial(), step, clip) for each in (one, changed)]
    assert np.allclose(gradients[0].sensitivity, 2 * bound / 6)
    moved = (gradients[0]._value - gradients[1]._value).norm(dim=1)
    assert (moved.numpy() <= one.sensitivity(clip) * (1 + 1e-9)).all()
    assert float(moved.min()) == 0  # the other node's gradient does not change


def test_copies_are_those_of_the_record_whatever_is_drawn_with_it():
    augmentation, noise = Augmentation(3, ("flip", "shift")), Noise.from_seed(0)
    x = images().x[None]
    whole = augmentation.expand(x, augmentation.keys(noise, np.array([1]), 2, torch.arange(12)[None]))
    some = torch.tensor([[7, 2]])
    part = augmentation.expand(x[:, some[0]], augmentation.keys(noise, np.array([1]), 2, some))
    assert torch.equal(part, whole[:, some[0]])
    later = augmentation.expand(x, augmentation.keys(noise, np.array([1]), 3, torch.arange(12)[None]))
    assert not torch.equal(later, whole)
    elsewhere = augmentation.expand(x, augmentation.keys(noise, np.array([2]), 2, torch.arange(12)[None]))
    assert not torch.equal(elsewhere, whole)


def test_a_node_hosted_separately_has_the_same_copies():
    together = task(augmentation=Augmentation(2, ("shift",)), clipping="automatic")
    both = together.gradient(together.initial(), 0, Clip(1.0))._value
    alone = together.host([1])
    torch.testing.assert_close(alone.gradient(alone.initial(), 0, Clip(1.0))._value, both[1:])


@pytest.mark.parametrize("name", list(augmentations))
def test_a_change_of_an_image_uses_its_own_bits_only_and_does_not_lengthen_it(name):
    change = augmentations.build(name)
    x = images(40).x
    bits = torch.randint(0, 2**53, (40,), generator=torch.Generator().manual_seed(0))
    whole = change.apply(x, bits)
    assert whole.shape == x.shape
    assert torch.equal(torch.cat([change.apply(x[i : i + 1], bits[i : i + 1]) for i in range(40)]), whole)
    assert (whole.double().flatten(1).norm(dim=1) <= x.double().flatten(1).norm(dim=1) + 1e-12).all()
    assert len({tuple(row.tolist()) for row in (whole - x).flatten(1)}) > 10  # many images change, differently


def test_flip_and_shift_move_pixels_as_they_say():
    x = torch.zeros(1, 1, SIDE, SIDE)
    x[0, 0, 3, 1] = 1.0
    flip, shift = augmentations.build("flip"), augmentations.build("shift")
    assert flip.apply(x, torch.tensor([3]))[0, 0, 3, SIDE - 2] == 1
    assert torch.equal(flip.apply(x, torch.tensor([2])), x)
    places = [shift.apply(x, torch.tensor([bits]))[0, 0].nonzero()[0].tolist() for bits in range(9)]
    assert sorted(places) == [[row, column] for row in (2, 3, 4) for column in (0, 1, 2)]
    edge = torch.zeros(1, 1, SIDE, SIDE)
    edge[0, 0, 0] = 1.0
    assert shift.apply(edge, torch.tensor([0])).sum() == 0  # moved out of the image, not around it


def test_records_that_are_no_images_are_refused():
    x, y = torch.randn(6, 4), torch.arange(6) % 3
    table = Dataset("table", x, y, x, y, Target.of_classes(3))
    with pytest.raises(TacitError, match=r"needs images of shape .* but the records have shape \(4,\)"):
        Task(Model(nn.Linear(4, 3)), table, [np.arange(6)], augmentation=Augmentation(2, ("flip",)))
    with pytest.raises(TacitError, match="augmentations must be at least 1, got 0"):
        Augmentation(0, ())
    with pytest.raises(TacitError, match='unknown augmentation "flp"; did you mean "flip"'):
        Augmentation(2, ("flp",))


def test_an_extreme_copy_does_not_stop_the_run():
    data = images()
    data.x[3] = 1e38
    each = task(data, augmentation=Augmentation(2, ("shift",)), batch=None)
    value = each.gradient(each.initial(), 0, Clip(1.0))._value
    assert value.isfinite().all()
