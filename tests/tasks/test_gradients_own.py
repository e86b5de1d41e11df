"""User-defined modules and losses that use layers in unusual ways; the auto engine must be correct."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tacit.errors import TacitError
from tacit.tasks.clip import Clip
from tacit.tasks.model import Model, cross_entropy
from tacit.tasks.models.per_record import _KNOWN
from tests.tasks.oracles import module_loss, naive_gradient_sum


class Wrapped(nn.Module):
    """A module with named layers and a forward function (self, x)."""

    def __init__(self, forward, **layers):
        super().__init__()
        self.way = forward
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.way(self, x)


def tied():
    one, two = nn.Linear(4, 4), nn.Linear(4, 4)
    two.weight = one.weight
    return Wrapped(lambda m, x: m.b(torch.tanh(m.a(x))), a=one, b=two)


def in_place(m, x):
    h = m.a(x)
    h.relu_()
    return m.b(h)


def windows(m, x):
    return m.b(m.a(x.reshape(-1, 2)).reshape(len(x), -1))


def frozen():
    module = Wrapped(lambda m, x: m.b(torch.tanh(m.a(x))), a=nn.Linear(4, 4), b=nn.Linear(4, 4))
    module.a.weight.requires_grad_(False)
    module.register_buffer("scale", torch.ones(()))
    return module


def linears(forward):
    return Wrapped(forward, a=nn.Linear(4, 4), b=nn.Linear(4, 4))


# Whether the ghost engine supports the module, if it is known to treat each record separately, and the module.
OWN = {
    "plain": (True, lambda: linears(lambda m, x: m.b(torch.tanh(m.a(x))))),
    "called twice": (True, lambda: linears(lambda m, x: m.b(torch.tanh(m.a(torch.tanh(m.a(x))))))),
    "never called": (True, lambda: linears(lambda m, x: m.b(x))),
    "frozen": (True, frozen),
    "inplace layer": (True, lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.LayerNorm(4))),
    "positions": (
        True,
        lambda: linears(lambda m, x: m.b(torch.tanh(m.a(x.repeat(1, 3).view(-1, 3, 4)))).mean(1)),
    ),
    "norms twice": (
        True,
        lambda: Wrapped(lambda m, x: m.n(m.g(m.n(m.g(x)) * x)), n=nn.LayerNorm(4), g=nn.GroupNorm(2, 4)),
    ),
    "convolutions": (
        True,
        lambda: Wrapped(
            lambda m, x: m.c(m.c(x.view(-1, 1, 2, 2).repeat(1, 2, 3, 2))).flatten(1)[:, :4],
            c=nn.Conv2d(2, 2, (3, 2), stride=(2, 1), padding=(2, 1), dilation=(1, 2)),
        ),
    ),
    "tied": (False, tied),
    "bypassed": (False, lambda: linears(lambda m, x: m.b(F.linear(x, m.a.weight)))),
    "in place": (False, lambda: linears(in_place)),
    "in place, later": (False, lambda: linears(lambda m, x: m.b(torch.tanh(m.a(x))).relu_())),
    "windows": (False, lambda: Wrapped(windows, a=nn.Linear(2, 3), b=nn.Linear(6, 4))),
    "keyword": (False, lambda: linears(lambda m, x: m.b(input=m.a(x)))),
    "groups": (
        False,
        lambda: Wrapped(lambda m, x: m.c(x[:, :, None, None]).flatten(1), c=nn.Conv2d(4, 4, 1, groups=2)),
    ),
    "bare parameter": (False, lambda: Wrapped(lambda m, x: x * m.w, w=nn.Parameter(torch.ones(4)))),
}


@pytest.fixture
def known(monkeypatch):
    """Wrapped modules count as known to treat each record separately."""
    monkeypatch.setitem(_KNOWN, Wrapped, lambda module: True)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("share", [None, ["*w*"]])
@pytest.mark.parametrize("is_known", [False, True])
def test_auto_engine_is_correct_for_unusual_modules(monkeypatch, request, name, share, is_known):
    monkeypatch.setattr("tacit.tasks.gradients.ghost.LARGE", 0)  # auto prefers ghost also for small models
    if is_known:
        request.getfixturevalue("known")
    torch.manual_seed(0)
    ghost, make = OWN[name]
    module = make().double()
    if share and not any("w" in key for key, p in module.named_parameters() if p.requires_grad):
        share = None
    model = Model(copy.deepcopy(module), share=share)
    params = torch.randn(2, model.d, dtype=torch.float64)
    x, y, weight = torch.randn(2, 5, 4).double(), torch.randint(0, 4, (2, 5)), torch.ones(2, 5).double()
    loss = module_loss(module, model.layout, cross_entropy)
    for clip in (Clip(0.5), Clip(0.5, "smooth"), Clip(2.0, "l1")):
        wanted = naive_gradient_sum(loss, params, x, y, weight, model.shared, clip.bound, clip.norm)
        torch.testing.assert_close(model.gradient_sum(params, x, y, weight, clip), wanted, rtol=1e-9, atol=1e-12)
    if model._gradients.choice.chain is None:
        allowed = ghost and (is_known or isinstance(module, nn.Sequential))
        assert (model._gradients.choice.choose(params, x, y, Clip(0.5)) == "ghost") is allowed
    plain = naive_gradient_sum(loss, params, x, y, weight, model.shared)
    torch.testing.assert_close(model.gradient_sum(params, x, y, weight, None), plain, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("engine", ["ghost", "vectorised"])
@pytest.mark.usefixtures("known")
def test_embeddings(engine):
    torch.manual_seed(0)
    module = Wrapped(lambda m, x: m.out(m.words(x).mean(dim=1)), words=nn.Embedding(6, 3), out=nn.Linear(3, 2)).double()
    model = Model(module, engine=engine)
    params = torch.randn(2, model.d, dtype=torch.float64)
    x, y, weight = torch.randint(0, 6, (2, 4, 5)), torch.randint(0, 2, (2, 4)), torch.ones(2, 4).double()
    wanted = naive_gradient_sum(
        module_loss(module, model.layout, cross_entropy), params, x, y, weight, model.shared, 0.1
    )
    torch.testing.assert_close(model.gradient_sum(params, x, y, weight, Clip(0.1)), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shared", [None, 2])
@pytest.mark.parametrize("clip", [None, Clip(0.5), Clip(0.5, "l1"), Clip(0.5, "smooth")])
def test_model_from_loss_function(shared, clip):
    def loss(w, x, y):
        return F.softplus(-y * (w @ x)) + 0.01 * (w**2 / (1 + w**2)).sum()

    torch.manual_seed(0)
    model = Model.from_loss(loss, torch.zeros(5), shared=shared)
    params = torch.randn(3, 5, dtype=torch.float64)
    x, y, weight = torch.randn(3, 4, 5).double(), torch.randn(3, 4).sign().double(), torch.ones(3, 4).double()
    wanted = naive_gradient_sum(
        loss, params, x, y, weight, model.shared, clip and clip.bound, "l2" if clip is None else clip.norm
    )
    torch.testing.assert_close(model.gradient_sum(params, x, y, weight, clip), wanted, rtol=1e-9, atol=1e-12)
    one = torch.stack([torch.stack([loss(params[i], x[i, b], y[i, b]) for b in range(4)]) for i in range(3)])
    torch.testing.assert_close(model.losses(params, x, y), one)
    assert (model.d, model.shared) == (5, shared or 5)


def test_user_defined_record_loss():
    torch.manual_seed(0)
    model = Model(nn.Linear(3, 1), loss=lambda output, target: (output[:, 0] - target) ** 2)
    params, x, y = torch.randn(2, 4), torch.randn(2, 5, 3), torch.randn(2, 5)
    residual = (x @ params[:, :3, None])[..., 0] + params[:, 3:] - y
    torch.testing.assert_close(model.losses(params, x, y), residual**2)
    found = model.gradient_sum(params, x, y, torch.ones(2, 5), None)
    torch.testing.assert_close(found[:, 3], 2 * residual.sum(dim=1))


def test_module_of_the_user_is_not_changed():
    module = nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(inplace=True), nn.Flatten())
    before = copy.deepcopy(module.state_dict())
    model = Model(module, engine="ghost")
    model.gradient_sum(
        torch.randn(1, model.d), torch.randn(1, 4, 1, 3, 3), torch.zeros(1, 4).long(), torch.ones(1, 4), None
    )
    assert module[1].inplace
    assert all(p.requires_grad and p.grad is None for p in module.parameters())
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    with torch.no_grad():
        module[0].weight.zero_()
    assert model.initial().abs().min() > 0


def test_one_model_computes_in_both_dtypes():
    model = Model(frozen())
    x, y, weight = torch.randn(1, 3, 4), torch.zeros(1, 3).long(), torch.ones(1, 3)
    for dtype in (torch.float64, torch.float32, torch.float64):
        params = model.initial()[None].to(dtype)
        assert model.gradient_sum(params, x, y, weight, Clip(1.0)).dtype == dtype
        assert model.outputs(params[0], x[0]).dtype == dtype


def test_refusals():
    with pytest.raises(TacitError, match=r"call .eval\(\) on it to freeze it, or replace it with Model.fix\(module\)"):
        Model(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    model = Model(linears(lambda m, x: m.b(m.a(x) - x.mean(dim=0))))
    with pytest.raises(TacitError, match="depends on the other records"):
        model.gradient_sum(
            model.initial()[None], torch.randn(1, 3, 4), torch.zeros(1, 3).long(), torch.ones(1, 3), None
        )
    with pytest.raises(TacitError, match="it has losses but no outputs"):
        Model.from_loss(lambda w, x, y: w.sum(), torch.zeros(2)).outputs(torch.zeros(2), torch.zeros(1, 2))
    with pytest.raises(TacitError, match=r"shared must be 1 to d = 2; .* shared = 3"):
        Model.from_loss(lambda w, x, y: w.sum(), torch.zeros(2), shared=3)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (nn.CrossEntropyLoss(), "one number per record"),
        (lambda out, y: cross_entropy(out - out.mean(0), y), "depends on the other records"),
    ],
)
def test_a_loss_that_mixes_records_is_refused(loss, words):
    model = Model(nn.Linear(3, 2), loss)
    x, y = torch.randn(2, 4, 3), torch.randint(0, 2, (2, 4))
    with pytest.raises(TacitError, match=words):
        model.gradient_sum(model.initial().repeat(2, 1), x, y, torch.ones(2, 4), Clip(1.0))


def test_ghost_engine_clips_outliers():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 8, 3), nn.GroupNorm(8, 8), nn.Flatten(), nn.Linear(8 * 36, 3))
    model = Model(module, engine="ghost")
    x = torch.randn(1, 4, 1, 8, 8)
    x[0, 3] += 1e4
    weight = torch.tensor([[0.0, 0.0, 0.0, 1.0]])
    clipped = model.gradient_sum(model.initial()[None], x, torch.zeros(1, 4, dtype=torch.long), weight, Clip(0.1))
    assert float(clipped.norm()) <= 0.1 * (1 + 1e-4)
