"""Reference implementation of clipped gradient sums: one node and one record at a time."""

import torch
from torch import Tensor, nn

from tacit.tasks.layout import Layout


def naive_gradients(record_loss, params, x, y):
    """∇ℓ_b (n, B, d) by autograd, record by record, for `record_loss(vector, x, y)`."""
    out = params.new_zeros(*x.shape[:2], params.shape[1])
    for i in range(params.shape[0]):
        for b in range(x.shape[1]):
            vector = params[i].clone().requires_grad_()
            (out[i, b],) = torch.autograd.grad(record_loss(vector, x[i, b], y[i, b]), vector)
    return out


def naive_gradient_sum(record_loss, params, x, y, weight, shared, bound=None, norm="l2"):
    """Σ_b weight_b · factor_b · ∇ℓ_b, one record after another."""
    return naive_clipped_sum(naive_gradients(record_loss, params, x, y), weight, shared, bound, norm)


def naive_clipped_sum(gradients, weight, shared, bound=None, norm="l2"):
    """Σ_b weight_b · factor_b · g_b of gradients (n, B, d), of which the first `shared` columns are clipped."""
    out = torch.zeros_like(gradients[:, 0]) if gradients.shape[1] else gradients.sum(1)
    for i, rows in enumerate(gradients):
        for b, g in enumerate(rows):
            if bound is not None:
                c = float(bound[i]) if isinstance(bound, Tensor) else bound
                size = float(g[:shared].abs().sum() if norm.endswith("l1") else (g[:shared] ** 2).sum().sqrt())
                factor = c / (c + size) if norm == "smooth" else min(1.0, c / size) if size else 1.0
                factor = c / (size + 0.01) if norm.startswith("automatic") else factor
                g = torch.cat([factor * g[:shared], g[shared:]])
            out[i] += weight[i, b] * g
    return out


def module_loss(module: nn.Module, layout: Layout, loss):
    """Return a module's loss on one record as a function of the parameter vector."""

    def record(vector, x, y):
        parts, start = {}, 0
        for name, shape in zip(layout.names, layout.shapes, strict=True):
            size = int(torch.tensor(shape).prod()) if shape else 1
            parts[name] = vector[start : start + size].reshape(shape)
            start += size
        output = torch.func.functional_call(module, parts, (x[None],))
        return loss(output, y[None])[0]

    return record
