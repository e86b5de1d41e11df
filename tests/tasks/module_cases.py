"""Modules of many kinds, as users write them, with records that they accept."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

VOCABULARY = 7


class Called(nn.Module):
    """A module whose forward pass is a given function of its layers."""

    def __init__(self, call, **layers):
        super().__init__()
        self.call = call
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.call(self, x)


class TwoInputs(nn.Module):
    """Takes numbers and further numbers, returns a dict."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 3), nn.Linear(2, 3)

    def forward(self, a, b):
        return {"logits": self.one(a) + self.two(b).tanh()}


class LowRank(nn.Module):
    """A fixed linear layer plus a trained matrix of low rank."""

    def __init__(self, layer, rank):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = nn.Linear(layer.in_features, rank, bias=False), nn.Linear(rank, layer.out_features)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def last(kind, **options):
    """The last output of a recurrent layer on (B, 5, 4), then a linear layer."""
    layer = kind(4, 6, batch_first=True, **options)
    width = (options.get("proj_size") or 6) * (1 + options.get("bidirectional", False))
    return Called(lambda m, x: m.out(m.layer(x)[0][:, -1]), layer=layer, out=nn.Linear(width, 3))


def frozen_norm():
    body = nn.Sequential(nn.Conv2d(2, 4, 2), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(36, 3))
    body(torch.randn(20, 2, 4, 4))  # statistics that are not 0 and 1
    body[1].eval()
    return body


def frozen_backbone():
    backbone = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh()).requires_grad_(False).eval()
    return nn.Sequential(backbone, nn.Linear(6, 3))


def attention():
    def call(m, x):
        mixed, weights = m.attention(x, x, x)
        return m.out(mixed.mean(1)) + weights.sum((1, 2)).unsqueeze(1)

    return Called(call, attention=nn.MultiheadAttention(4, 2, batch_first=True), out=nn.Linear(4, 3))


def encoder(eval_mode=False, **options):
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True, **options)
    stack = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    module = Called(lambda m, x: m.out(m.stack(x).mean(1)), stack=stack, out=nn.Linear(4, 3))
    return module.eval() if eval_mode else module


@dataclass(frozen=True)
class Case:
    """A module, the shape of its records, and how it is called."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    tokens: bool = False
    forward: Callable[[nn.Module, Tensor], Tensor] | None = None

    def records(self, count, seed=0):
        generator = torch.Generator().manual_seed(seed)
        if self.tokens:
            return torch.randint(0, VOCABULARY, (count, *self.shape), generator=generator)
        return torch.randn(count, *self.shape, generator=generator, dtype=torch.float64)


def two_inputs(module, x):
    return module(x[..., :4], x[..., 4:])["logits"]


def bag(padding=None):
    words = nn.Embedding(VOCABULARY, 4, padding_idx=padding)
    return Called(lambda m, x: m.out(m.words(x).mean(1)), words=words, out=nn.Linear(4, 3))


CASES = {
    "frozen BatchNorm": Case(frozen_norm, (2, 4, 4)),
    "frozen backbone": Case(frozen_backbone, (4,)),
    "embedding and mean": Case(bag, (5,), tokens=True),
    "embedding with padding": Case(lambda: bag(0), (5,), tokens=True),
    "embedding bag": Case(lambda: nn.EmbeddingBag(VOCABULARY, 3), (5,), tokens=True),
    "two inputs, dict output": Case(TwoInputs, (6,), forward=two_inputs),
    "RNN": Case(lambda: last(nn.RNN, nonlinearity="relu"), (5, 4)),
    "GRU": Case(lambda: last(nn.GRU, num_layers=2, bidirectional=True), (5, 4)),
    "LSTM": Case(lambda: last(nn.LSTM, proj_size=2), (5, 4)),
    "GRU cell": Case(
        lambda: Called(lambda m, x: m.out(m.cell(x[:, 0])), cell=nn.GRUCell(4, 6), out=nn.Linear(6, 3)), (5, 4)
    ),
    "multi-head attention": Case(attention, (5, 4)),
    "transformer encoder": Case(encoder, (5, 4)),
    "transformer encoder, evaluation mode": Case(lambda: encoder(True, norm_first=True), (5, 4)),
    "low-rank adapter": Case(lambda: nn.Sequential(LowRank(nn.Linear(4, 5), 2), nn.Tanh(), nn.Linear(5, 3)), (4,)),
    "instance norm with fixed statistics": Case(
        lambda: nn.Sequential(nn.InstanceNorm1d(5, track_running_stats=True).eval(), nn.Flatten(), nn.Linear(20, 3)),
        (5, 4),
    ),
}
