"""Records for which the loss of a linear model is smooth."""

import math

from torch import nn

from tacit.errors import TacitError


def longest_smooth_input(layer: nn.Linear, smoothness: float) -> float:
    """Return the largest ‖x‖ for which the cross-entropy of one linear layer is surely L-smooth, L = `smoothness`.

    The Hessian is (diag p − ppᵀ) ⊗ xxᵀ, where a bias counts as an additional input of 1, so that L = (‖x‖² + 1)/2 with
    biases and ‖x‖²/2 without (Böhning's bound).
    """
    square = 2 * smoothness - (layer.bias is not None)
    if square < 0:
        raise TacitError(f"smoothness must be at least 0.5 for logistic regression with biases, got {smoothness:g}")
    return math.sqrt(square)
