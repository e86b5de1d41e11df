"""Adapt a small transformer to private sequences of tokens with low-rank adapters (LoRA).

    python examples/lora.py                                        # about 20 s

Every token has a score, and the label of a sequence is the sign of its sum. The transformer is trained as usual on
public sequences. In the private ones, at four nodes, the most extreme tokens have the opposite score. Only the adapters
and the last layer are trained on them. Nothing is downloaded.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

import tacit
from tacit.algorithms import DPSGD

VOCABULARY, LENGTH, WIDTH = 12, 16, 32


class LoRA(nn.Module):
    """A frozen linear layer plus a trained product of two thin matrices, which is 0 at first."""

    def __init__(self, layer: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.up(self.down(x))


def add_adapters(module: nn.Module) -> None:
    """Freeze a module, and put an adapter on the two linear layers of every transformer layer."""
    module.requires_grad_(False)
    for layer in list(module.modules()):
        if isinstance(layer, nn.TransformerEncoderLayer):
            layer.linear1, layer.linear2 = LoRA(layer.linear1), LoRA(layer.linear2)


class Transformer(nn.Module):
    """Embedding, two transformer layers, mean over the positions, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layers(self.words(tokens)).mean(1))


def sequences(count: int, scores: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random sequences of tokens, and whether the sum of their scores is positive."""
    x = np.random.default_rng(seed).integers(0, VOCABULARY, (count, LENGTH))
    return x, (scores[x].sum(1) > 0).astype(int)


def main(rounds: int = 100, public_steps: int = 80) -> None:
    torch.manual_seed(0)
    model, public = Transformer(), np.arange(VOCABULARY) - 5.5
    x, y = map(torch.tensor, sequences(2000, public, seed=0))
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(public_steps):  # on public sequences, without privacy
        half = slice(step % 2, None, 2)
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x[half]), y[half]).backward()
        optimiser.step()
    add_adapters(model)
    model.head.requires_grad_(True)
    private = np.where(np.abs(public) > 5, -public, public)
    data = tacit.Dataset.from_arrays(*sequences(6000, private, seed=1), labels=[0, 1], tokens=True)
    algorithm = DPSGD(lr=4.0, local_steps=1)
    run = tacit.train(model, data, algorithm=algorithm, nodes=4, rounds=rounds, batch=128, epsilon=4.0, delta=1e-4)
    print(f"{run.task.d} trained parameters of {sum(p.numel() for p in model.parameters())}")
    print(f"accuracy before: {run.history['accuracy'].iloc[0]:.3f}, after: {run.history['accuracy'].iloc[-1]:.3f}")
    print(run.privacy.sentence())


if __name__ == "__main__":
    main()
