"""Tacit, a plain PyTorch loop and Opacus, each as a function that runs one complete round."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from benchmarks.case import BOUND, LR, MULTIPLIER, Case
from benchmarks.handwritten import handwritten
from tacit.algorithms import D2P, PushSumState, algorithms
from tacit.networks import Network, Simulated
from tacit.tasks import Clip, Model, Task

Step = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class BatchClipped(D2P):
    """Dyn-D²P with the batch's mean gradient clipped, as in some of the papers."""

    def round(self, t: int, state: PushSumState, task: Task, network: Network) -> PushSumState:
        gradient = self.privacy.mechanism(t, task.nodes).release(task.gradient(state.z, t, Clip(BOUND, per="batch")))
        x, w = network.mix(t, state.x.sub(gradient, alpha=self.lr), state.w)
        return PushSumState(x, w, state.local)


def tacit(case: Case) -> Step:
    task = Task(Model(case.module()), case.data, case.shards, batch=case.batch, repeats=True)
    network = Simulated(case.graph)
    algorithm: D2P = algorithms.build("const-d2p", {"lr": LR, "clip": BOUND, "noise_multiplier": MULTIPLIER})
    if case.clip == "batch":
        algorithm = BatchClipped(lr=LR, noise=algorithm.noise, scale=MULTIPLIER)
    algorithm = algorithm.with_rounds(1_000_000)
    state, t = algorithm.start(task, case.graph), 0

    def step() -> None:
        nonlocal state, t
        state, t = algorithm.round(t, state, task, network), t + 1

    return step


def loop(case: Case) -> Step:
    """The straightforward version: one module per node, autograd per batch or record, `torch.randn` noise."""
    nodes = [case.module() for _ in range(case.n)]
    generator = torch.Generator().manual_seed(0)

    deviation = MULTIPLIER * BOUND * (2 if case.clip == "batch" else 1 / case.batch)

    def clipped(module: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
        parameters = list(module.parameters())
        gradient = torch.autograd.grad(F.cross_entropy(module(x), y), parameters)
        norm = torch.sqrt(sum(g.square().sum() for g in gradient))
        return [g * (BOUND / torch.clamp(norm, min=BOUND)) for g in gradient]

    def step() -> None:
        for i, module in enumerate(nodes):
            x, y = case.draw(i, generator)
            if case.clip == "batch":
                total = clipped(module, x, y)
            else:
                total = [torch.zeros_like(p) for p in module.parameters()]
                for b in range(len(y)):
                    for s, g in zip(total, clipped(module, x[b : b + 1], y[b : b + 1]), strict=True):
                        s += g / case.batch
            with torch.no_grad():
                for p, g in zip(module.parameters(), total, strict=True):
                    p -= LR * (g + deviation * torch.randn_like(g))
        mix(nodes, weights)

    weights = sparse(case)
    return step


def opacus(case: Case, ghost: bool = False) -> Step:
    """Opacus on every node, with per-record gradients from hooks or with ghost clipping (`ghost`).

    Which of them is faster depends on the model. Both clip and add noise in the optimiser.
    """
    warnings.filterwarnings("ignore")
    from opacus import GradSampleModule
    from opacus.grad_sample import GradSampleModuleFastGradientClipping as GhostModule
    from opacus.optimizers import DPOptimizer
    from opacus.optimizers import DPOptimizerFastGradientClipping as GhostOptimizer
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping as GhostLoss

    settings = {"noise_multiplier": MULTIPLIER, "max_grad_norm": BOUND, "expected_batch_size": case.batch}

    def node() -> tuple[nn.Module, DPOptimizer, Callable[[Tensor, Tensor], Tensor]]:
        module = case.module()
        sgd = torch.optim.SGD(module.parameters(), lr=LR)
        if not ghost:
            return GradSampleModule(module), DPOptimizer(sgd, **settings), F.cross_entropy
        wrapped, optimiser = GhostModule(module, max_grad_norm=BOUND), GhostOptimizer(sgd, **settings)
        return wrapped, optimiser, GhostLoss(wrapped, optimiser, nn.CrossEntropyLoss())

    nodes = [node() for _ in range(case.n)]
    modules = [module for module, _, _ in nodes]
    generator = torch.Generator().manual_seed(0)
    weights = sparse(case)

    def step() -> None:
        for i, (module, optimiser, loss) in enumerate(nodes):
            x, y = case.draw(i, generator)
            loss(module(x), y).backward()
            optimiser.step()
            optimiser.zero_grad()  # otherwise every node keeps its per-record gradients in memory
        mix(modules, weights)

    return step


def sparse(case: Case) -> Tensor:
    m = case.mixing
    parts = (torch.from_numpy(part) for part in (m.indptr, m.indices, m.data))
    warnings.filterwarnings("ignore", message="Sparse CSR")
    return torch.sparse_csr_tensor(*parts, size=m.shape, check_invariants=False)


@torch.no_grad()
def mix(nodes: Iterable[nn.Module], weights: Tensor) -> None:
    mixed = weights @ torch.stack([parameters_to_vector(module.parameters()) for module in nodes])
    for module, vector in zip(nodes, mixed, strict=True):
        vector_to_parameters(vector, module.parameters())


CONTENDERS: dict[str, Callable[[Case], Step]] = {
    "tacit": tacit,
    "handwritten": handwritten,
    "opacus": opacus,
    "opacus-ghost": partial(opacus, ghost=True),
    "loop": loop,
}
