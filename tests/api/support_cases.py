"""Which modules are supported on which data: one list for the tests and for the table in docs/models.md.

python -m tests.api.support_cases     # print the table
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from tacit import Dataset, Model
from tests.tasks.module_cases import VOCABULARY, Called, LowRank, TwoInputs, last, two_inputs

SHAPES = {"numbers": (6,), "images": (2, 6, 6), "sequences": (5, 4), "tokens": (5,)}
TYPES = {"numbers": "float", "images": "float", "sequences": "float", "tokens": "int64"}


@dataclass(frozen=True)
class SupportCase:
    """A module on records of one kind, and what happens.

    Attributes:
        module: The module in words.
        data: The kind of the records.
        build: Creates the module, or a `Model` of it.
        refusal: The beginning of the error; empty if the module is supported.
    """

    module: str
    data: str
    build: Callable[[], nn.Module | Model]
    refusal: str = ""

    @property
    def name(self) -> str:
        return f"{self.module} on {self.data}"


def make_data(kind: str, records: int = 80, tokens: bool = False) -> Dataset:
    """Random records with three classes, the same in every call."""
    rng = np.random.default_rng(0)
    shape = (records, *SHAPES[kind])
    x = rng.integers(0, VOCABULARY, shape) if kind == "tokens" else rng.normal(size=shape)
    return Dataset.from_arrays(x, rng.integers(0, 3, records), labels=[0, 1, 2], tokens=tokens)


def conv(*norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3), *norm, nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))


def words(**options: object) -> nn.Module:
    layers = {"words": nn.Embedding(VOCABULARY, 4, **options), "out": nn.Linear(4, 3)}
    return Called(lambda m, x: m.out(m.words(x).mean(1)), **layers)


def words_then(layer: nn.Module, read: Callable[..., torch.Tensor]) -> nn.Module:
    call = lambda m, x: m.out(read(m.layer, m.words(x)).mean(1))  # noqa: E731
    return Called(call, words=nn.Embedding(VOCABULARY, 4), layer=layer, out=nn.Linear(4, 3))


def backbone() -> nn.Module:
    body = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()).requires_grad_(False).eval()
    return nn.Sequential(body, nn.Linear(64, 3))


def branch(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    h = m.out(x)
    return h if float(h.abs().max()) < 1e6 else 2 * h


def linear(call: Callable[..., object]) -> nn.Module:
    return Called(call, out=nn.Linear(6, 3))


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True)


_MIXES = "layer {} mixes the records of a batch: call .eval() on it to freeze it, or replace it with Model.fix(module)"
_MIXED = "the model's output for a record depends on the other records of the batch or is random"
_SEVERAL = (
    "the model does not accept records of shape (6,): TwoInputs.forward() missing 1 required positional argument: 'b': "
    "a module with several inputs needs a function"
)

CASES = [
    SupportCase(
        "`Linear`, elementwise layers", "numbers", lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    ),
    SupportCase(
        "`Dropout` in training mode",
        "numbers",
        lambda: nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.3), nn.Linear(5, 3)),
    ),
    SupportCase(
        "`AlphaDropout` in training mode", "numbers", lambda: nn.Sequential(nn.AlphaDropout(0.1), nn.Linear(6, 3))
    ),
    SupportCase("`F.dropout`", "numbers", lambda: linear(lambda m, x: m.out(F.dropout(x, 0.5))), _MIXED),
    SupportCase(
        "`BatchNorm1d` in training mode",
        "numbers",
        lambda: nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)),
        _MIXES.format('"1" (BatchNorm1d)'),
    ),
    SupportCase(
        "`BatchNorm1d` after `.eval()`", "numbers", lambda: nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3).eval())
    ),
    SupportCase(
        "`Model.fix` of `BatchNorm1d`", "numbers", lambda: Model.fix(nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)))
    ),
    SupportCase(
        "low-rank adapter on frozen layers",
        "numbers",
        lambda: nn.Sequential(LowRank(nn.Linear(6, 5), 2), nn.Linear(5, 3)),
    ),
    SupportCase("two inputs and a dict, with `forward=`", "numbers", lambda: Model(TwoInputs(), forward=two_inputs)),
    SupportCase("two inputs, without `forward=`", "numbers", TwoInputs, _SEVERAL),
    SupportCase(
        "a dict as output, without `forward=`",
        "numbers",
        lambda: linear(lambda m, x: {"logits": m.out(x)}),
        "a model must return one tensor, got dict",
    ),
    SupportCase("a Python branch on values", "numbers", lambda: linear(branch)),
    SupportCase("a statistic of the batch", "numbers", lambda: linear(lambda m, x: m.out(x - x.mean(0))), _MIXED),
    SupportCase(
        "a forward pass that stores records",
        "numbers",
        lambda: linear(lambda m, x: m.out(setattr(m, "last", x) or x)),
        'the model\'s forward pass changes its attribute "last"',
    ),
    SupportCase(
        "lazy layers without a shape",
        "numbers",
        lambda: nn.Sequential(nn.LazyLinear(3)),
        'layer "0" (LazyLinear) is lazy and has no shape yet',
    ),
    SupportCase("convolutions", "images", conv),
    SupportCase("`Dropout2d` in training mode", "images", lambda: conv(nn.Dropout2d(0.2))),
    SupportCase(
        "`GroupNorm`, `LayerNorm`, `InstanceNorm`", "images", lambda: conv(nn.GroupNorm(2, 4), nn.InstanceNorm2d(4))
    ),
    SupportCase(
        "`BatchNorm2d` in training mode", "images", lambda: conv(nn.BatchNorm2d(4)), _MIXES.format('"1" (BatchNorm2d)')
    ),
    SupportCase("`BatchNorm2d` after `.eval()`", "images", lambda: conv(nn.BatchNorm2d(4).eval())),
    SupportCase("`Model.fix` of `BatchNorm2d`", "images", lambda: Model.fix(conv(nn.BatchNorm2d(4)))),
    SupportCase("frozen backbone, trained head", "images", backbone),
    SupportCase("`RNN`", "sequences", lambda: last(nn.RNN)),
    SupportCase("`GRU`, several layers with dropout", "sequences", lambda: last(nn.GRU, num_layers=2, dropout=0.2)),
    SupportCase("`LSTM`, bidirectional", "sequences", lambda: last(nn.LSTM, bidirectional=True)),
    SupportCase(
        "`TransformerEncoderLayer` with dropout",
        "sequences",
        lambda: nn.Sequential(encoder(), nn.Flatten(), nn.Linear(20, 3)),
    ),
    SupportCase("`Embedding`", "tokens", words),
    SupportCase("`Embedding` with `padding_idx`", "tokens", lambda: words(padding_idx=0)),
    SupportCase("`EmbeddingBag`", "tokens", lambda: nn.EmbeddingBag(VOCABULARY, 3)),
    SupportCase(
        "`Embedding` and `GRU`", "tokens", lambda: words_then(nn.GRU(4, 4, batch_first=True), lambda m, h: m(h)[0])
    ),
    SupportCase(
        "`Embedding` and `MultiheadAttention`",
        "tokens",
        lambda: words_then(nn.MultiheadAttention(4, 2, 0.1, batch_first=True), lambda m, h: m(h, h, h)[0]),
    ),
    SupportCase(
        "`Embedding` and `TransformerEncoderLayer`", "tokens", lambda: words_then(encoder(), lambda m, h: m(h))
    ),
    SupportCase(
        "`Embedding` with `max_norm`",
        "tokens",
        lambda: words(max_norm=0.5),
        'the model\'s forward pass changes its attribute "words.weight"',
    ),
]


def table() -> str:
    """The list as a table in Markdown."""
    lines = ["| module | records | result |", "|---|---|---|"]
    for case in CASES:
        result = f"refused: “{case.refusal} …”" if case.refusal else "supported"
        lines.append(f"| {case.module} | {case.data}, {TYPES[case.data]} | {result} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
