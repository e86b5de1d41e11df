"""Logistic regression, multilayer perceptron, small convolutional network."""

import math
from collections import OrderedDict

import torch
from torch import nn

from tacit.tasks.models.registry import ACTIVATIONS, Activation, Size, image_shape, models


@models.register("logistic")
def logistic(inputs: tuple[int, ...], classes: int, biases: bool = True) -> nn.Module:
    """Logistic (softmax) regression.

    >>> logistic((1, 28, 28), 10)(torch.zeros(5, 1, 28, 28)).shape
    torch.Size([5, 10])
    """
    return _sequential_on_flat(nn.Linear(math.prod(inputs), classes, bias=biases))


@models.register("mlp")
def mlp(
    inputs: tuple[int, ...],
    classes: int,
    hidden: tuple[Size, ...] = (64,),
    activation: Activation = "tanh",
    biases: bool = True,
) -> nn.Module:
    """Multilayer perceptron; hidden = (10, 784) without biases on 28×28 images is the network of PartPSP.

    Args:
        hidden: Number of units of each hidden layer.

    >>> mlp((4,), 2, hidden=(3,))
    Sequential(
      (flatten): Flatten(start_dim=1, end_dim=-1)
      (0): Linear(in_features=4, out_features=3, bias=True)
      (1): Tanh()
      (2): Linear(in_features=3, out_features=2, bias=True)
    )
    """
    widths = [math.prod(inputs), *hidden, classes]
    layers: list[nn.Module] = []
    for i in range(len(widths) - 1):
        layers.append(nn.Linear(widths[i], widths[i + 1], bias=biases))
        layers.append(ACTIVATIONS[activation]())
    return _sequential_on_flat(*layers[:-1])


def _sequential_on_flat(*layers: nn.Module) -> nn.Module:
    """Return the layers after a Flatten, named from "0": "0.*" are the parameters of the first layer."""
    named = {str(k): layer for k, layer in enumerate(layers)}
    return nn.Sequential(OrderedDict({"flatten": nn.Flatten(), **named}))


@models.register("cnn")
def cnn(
    inputs: tuple[int, ...], classes: int, width: Size = 16, hidden: Size = 32, activation: Activation = "tanh"
) -> nn.Module:
    """Convolutional network, 2 convolutions and 2 linear layers: 26,010 parameters on 28×28 grey images.

    The usual network in papers on private image classification. Images smaller than 16×16 use stride 1.

    Args:
        width: Channels of the first convolution; the second has twice as many.
        hidden: Units of the first linear layer.

    >>> sum(p.numel() for p in cnn((1, 28, 28), 10).parameters())
    26010
    """
    channels, height, breadth = image_shape("cnn", inputs, min_size=7)
    stride = 2 if min(height, breadth) >= 16 else 1
    act = ACTIVATIONS[activation]
    features = nn.Sequential(
        nn.Conv2d(channels, width, 8, stride=stride, padding=3),
        act(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(width, 2 * width, 4, stride=stride),
        act(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
    )
    with torch.no_grad():
        size = features(torch.zeros(1, *inputs)).shape[1]
    head = nn.Sequential(nn.Linear(size, hidden), act(), nn.Linear(hidden, classes))
    return nn.Sequential(*features, *head)
