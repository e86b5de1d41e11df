"""Train a head privately on a frozen convolutional network that was trained on other, public pictures.

    python examples/frozen_cnn.py                                  # about 10 s

The public pictures are the digits 0 to 4, on which the network is trained as usual, with BatchNorm. The private ones
are the digits 5 to 9, at four nodes. Only the head is trained on them: the frozen parameters are not part of the
messages, and get no noise.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn

import tacit
from tacit.algorithms import DPSGD


def pretrained(x: torch.Tensor, y: torch.Tensor) -> nn.Module:
    """Return the body of a small network after training it on public pictures."""
    body = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten()),
    )
    network = nn.Sequential(body, nn.Linear(128, 5))
    optimiser = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimiser.step()
    return body


def main(rounds: int = 60) -> None:
    torch.manual_seed(0)
    pictures, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(pictures / 16, dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(digits)
    public = y < 5
    body = pretrained(x[public], y[public])
    body.requires_grad_(False).eval()  # frozen parameters, and fixed statistics of BatchNorm
    model = nn.Sequential(body, nn.Linear(128, 5))
    data = tacit.Dataset.from_arrays(x[~public], y[~public], labels=[5, 6, 7, 8, 9])
    algorithm = DPSGD(lr=0.5, local_steps=1)
    run = tacit.train(model, data, algorithm=algorithm, nodes=4, rounds=rounds, epsilon=2.0, delta=1e-3)
    trained, frozen = run.task.d, sum(p.numel() for p in body.parameters())
    print(f"{trained} trained parameters, {frozen} frozen ones")
    print(f"accuracy on the digits 5 to 9: {run.history['accuracy'].iloc[-1]:.3f}")
    print(run.privacy.sentence())


if __name__ == "__main__":
    main()
