"""The stacked engine agrees with a loop over the records for random chains, batches and clips."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tacit.tasks.clip import Clip
from tacit.tasks.gradients.chain import ELEMENTWISE, chain
from tacit.tasks.model import Model, cross_entropy
from tests.tasks.oracles import module_loss, naive_gradient_sum


@st.composite
def chains(draw):
    widths = draw(st.lists(st.integers(1, 6), min_size=2, max_size=5))
    layers = [nn.Flatten()] if draw(st.booleans()) else []
    for i in range(len(widths) - 1):
        layers.append(nn.Linear(widths[i], widths[i + 1], bias=draw(st.booleans())))
        layers += [kind() for kind in draw(st.lists(st.sampled_from(ELEMENTWISE), max_size=2))]
    if draw(st.booleans()):  # a chain within a chain is one chain
        layers = [nn.Sequential(*layers[:2]), *layers[2:]]
    return nn.Sequential(*layers).double(), widths


@settings(max_examples=60, deadline=None)
@given(
    made=chains(),
    n=st.integers(1, 4),
    size=st.integers(1, 5),
    norm=st.sampled_from([None, "l2", "l1", "smooth"]),
    bound=st.floats(0.01, 10),
    part=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_stacked_agrees_with_a_loop_over_records(made, n, size, norm, bound, part, seed):
    module, widths = made
    torch.manual_seed(seed)
    first = next(name for name, _ in module.named_parameters())
    model = Model(module, share=[first] if part else None, engine="stacked")
    params = torch.randn(n, model.d, dtype=torch.float64)
    x, y = torch.randn(n, size, widths[0], dtype=torch.float64), torch.randint(0, widths[-1], (n, size))
    weight = torch.randint(0, 2, (n, size)).double()
    loss = module_loss(module, model.layout, cross_entropy)
    wanted = naive_gradient_sum(loss, params, x, y, weight, model.shared, norm and bound, norm)
    found = model.gradient_sum(params, x, y, weight, norm and Clip(bound, norm))
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)


def is_chain(module):
    return chain(Model(module)._objective) is not None


def test_chain_detection():
    tanh, linear = nn.Tanh(), nn.Linear(3, 3)
    assert is_chain(nn.Linear(3, 2))
    assert is_chain(nn.Sequential(nn.Linear(3, 3), tanh, nn.Linear(3, 3), tanh))  # one activation, twice
    assert not is_chain(nn.Sequential(linear, tanh, linear))  # one layer, twice
    assert not is_chain(nn.Sequential(nn.Linear(3, 2), nn.Softmax(dim=1)))
    assert not is_chain(nn.Sequential(nn.Flatten(0), nn.Linear(3, 2)))
    assert not is_chain(nn.Sequential(nn.Linear(3, 2), nn.PReLU()))
    assert not is_chain(nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 2)))

    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    assert not is_chain(nn.Sequential(Doubled(3, 2)))


def test_input_norms_are_recomputed_after_a_batch_changes():
    """Norms are cached per batch; a modified batch needs new ones."""
    model = Model(nn.Linear(3, 2))
    # From zeros the probabilities are ½, so every gradient is longer than the bound.
    params, y, weight = torch.zeros(2, model.d), torch.zeros(2, 4, dtype=torch.long), torch.ones(2, 4)
    x = torch.ones(2, 4, 3)
    for _ in range(2):
        clipped = model.gradient_sum(params, x, y, weight, Clip(0.1))
        assert clipped.norm(dim=1).tolist() == pytest.approx([0.4, 0.4], rel=1e-5)
        assert clipped.equal(model.gradient_sum(params, x.clone(), y, weight, Clip(0.1)))
        x *= 7
