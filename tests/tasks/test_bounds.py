"""Which gradients a clip bounds, and the sensitivity that follows."""

import numpy as np
import pytest
import torch

from tacit.algorithms import D2P, Geometric
from tacit.graphs import complete
from tacit.networks import Simulated
from tacit.privacy import Noise
from tacit.tasks import Clip, Dataset, Model, Target, Task, models
from tests.helpers import run_rounds

ENGINES = ["auto", "stacked", "ghost", "vectorised"]


def perceptron():
    torch.manual_seed(0)
    return models.build("mlp", {"inputs": (6,), "classes": 3, "hidden": (5,)})


@pytest.mark.parametrize("share", [["0.*"], ["2.*"], ["0.bias", "2.weight"]], ids=str)
@pytest.mark.parametrize(
    ("engine", "clip"),
    [
        *((engine, clip) for engine in ENGINES for clip in (Clip(0.05), Clip(0.05, "smooth"))),
        *((engine, Clip(0.1, "l1")) for engine in ENGINES if engine != "ghost"),  # ghost does not support L1
        ("auto", Clip(0.05, per="batch")),
        ("auto", Clip(0.1, "l1", per="batch")),
    ],
    ids=str,
)
def test_bounds_all_clips_local_and_shared_parameters_together(engine, clip, share):
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(4, 7, 6))).float()
    y, weight = torch.from_numpy(rng.integers(0, 3, (4, 7))), torch.from_numpy(rng.random((4, 7))).float()
    whole = Model(perceptron(), engine="vectorised")
    part = Model(perceptron(), share=share, engine=engine, bounds="all")
    assert part.shared < part.bounded == part.d

    expected = whole.gradient_sum(whole.initial().repeat(4, 1), x, y, weight, clip)
    found = part.gradient_sum(part.initial().repeat(4, 1), x, y, weight, clip)
    expected, found = (model.layout.unflatten(g) for model, g in ((whole, expected), (part, found)))
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-7, msg=name)


@pytest.mark.parametrize("bounds", ["all", "shared"])
def test_gradient_is_split_into_bounded_and_local_columns(bounds):
    x, y = torch.randn(20, 6, generator=torch.manual_seed(0)), torch.arange(20) % 3
    model = Model(perceptron(), share=["0.*"], bounds=bounds)
    task = Task(
        model,
        Dataset("random", x, y, x, y, Target.of_classes(3)),
        [np.arange(10), np.arange(10, 20)],
        batch=5,
        noise=Noise.from_seed(0),
    )
    g = task.gradient(task.initial(), 0, Clip(1.0))
    columns = task.d if bounds == "all" else model.shared
    assert g.value.shape == (2, columns)
    assert g.local.shape == (2, task.d - columns)
    assert [part.shape[1] for part in task.split(task.initial())] == [35, 18]
    assert g.sampling.kind == ("poisson" if bounds == "all" else "none")
    assert task.ledger.unreleased == [(0, "gradient")]
    g.use_local_part()
    assert task.ledger.unreleased == []


# A local parameter l without noise depends on earlier records: ∇_s of an ordinary record is the sign of l, and one
# marked record changes this sign.

RECORDS, BOUND = 12, 1.0
ORDINARY, MARKED, NEUTRAL = (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)


def remembering(records, bounds="shared", **options):
    def loss(w, x, y):
        s, local = w[0], w[1]
        return x[0] * s * torch.tanh(100 * local) * 5 - x[1] * local * 1000

    x = torch.tensor(records)
    y = torch.arange(len(records)) % 2
    model = Model.from_loss(loss, torch.tensor([0.0, -1.0], dtype=torch.float64), shared=1, bounds=bounds)
    data = Dataset("remembering", x, y, x, y, Target.of_classes(2))
    return Task(model, data, [np.arange(len(x))], noise=Noise.from_seed(0), dtype=torch.float64, **options)


def second_gradient(task):
    """Return the shared gradient of the second round, as a sum over records, and its sensitivity."""
    unit = Geometric(1.0)
    local = "private" if task.model.bounded == task.d else "exact"
    method = D2P(lr=0.1, clip=Geometric(BOUND), noise=unit, scale=1e-12, local=local).with_rounds(2)
    state = run_rounds(method, task, Simulated(complete(1)), 1)
    g = task.gradient(method.models(state), 1, Clip(BOUND))
    g.use_locally()
    return float(g.value[0, 0] * task.sampler.batch[0]), float(g.sensitivity[0] * task.sampler.batch[0])


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_sensitivity_with_a_local_layer_without_noise(relation):
    other = [] if relation == "add-remove" else [NEUTRAL]
    present, said = second_gradient(remembering([ORDINARY] * RECORDS + [MARKED], relation=relation))
    absent, said_without = second_gradient(remembering([ORDINARY] * RECORDS + other, relation=relation))
    usual = BOUND if relation == "add-remove" else 2 * BOUND
    assert (present, absent) == pytest.approx((RECORDS * BOUND, -RECORDS * BOUND))
    assert abs(present - absent) > 10 * usual  # more than the record's own gradient
    assert abs(present - absent) <= min(said, said_without) * (1 + 1e-9)


@pytest.mark.parametrize("sampling", ["poisson", "without-replacement", "permutation"])
def test_sensitivity_covers_every_possible_batch(sampling):
    # A Poisson batch can be larger than expected, up to all records.
    options = {"batch": 3, "sampling": sampling, "relation": "replace-one"}
    tasks = [remembering([ORDINARY] * RECORDS + [last], **options) for last in (MARKED, NEUTRAL)]
    for step in range(40):
        turned, plain = (
            task.gradient(torch.tensor([[0.0, local]], dtype=torch.float64), step, Clip(BOUND))
            for task, local in zip(tasks, (1.0, -1.0), strict=True)
        )
        assert (turned.value - plain.value).abs().max() <= turned.sensitivity[0] * (1 + 1e-9), step


def test_local_layer_with_noise_does_not_raise_the_sensitivity():
    task = remembering([ORDINARY] * RECORDS + [MARKED], "all", batch=3)
    g = task.gradient(task.initial(), 0, Clip(BOUND))
    assert g.sensitivity.tolist() == [BOUND / 3]
    assert (g.sampling.kind, float(g.sampling.rate[0])) == ("poisson", 3 / 13)
    # The marked record changes the local column by at most its clipped gradient, so the sign of l stays the same.
    moved = [
        remembering(records, "all").gradient(task.initial(), 0, Clip(BOUND)).value[0] * len(records)
        for records in ([ORDINARY] * RECORDS + [MARKED], [ORDINARY] * RECORDS)
    ]
    assert float((moved[0] - moved[1]).norm()) <= BOUND * (1 + 1e-9)
