"""PartPSP: local parameters stay at their node, the shared ones are agreed on over DPPS."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from torch import Tensor

from tacit.algorithms.algorithm import algorithms
from tacit.algorithms.dpps import Consensus
from tacit.algorithms.over_dpps import OverDPPS
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.tasks import Task, join


@dataclass(frozen=True)
class PartState(Consensus):
    """What DPPS agrees on, and each node's `local` parameters (n, d − d_s), the paper's l."""

    local: Tensor


@dataclass(frozen=True, kw_only=True)
class _PartPSP(OverDPPS[PartState]):
    partial: ClassVar[bool] = True

    local_lr: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.positive(local_lr=self.local_lr)

    def start(self, task: Task, graph: Graph) -> PartState:
        if task.model.bounded != task.model.shared:
            raise TacitError(
                f"{self.title} bounds the gradients of shared parameters only, so local ones learn from exact ones: "
                'use local = "exact", or Model(bounds="shared")'
            )
        s, local = task.split(task.initial())
        return PartState(**vars(self.protocol(0, task.nodes, graph).start(s)), local=local)

    def round(self, t: int, state: PartState, task: Task, network: Network) -> PartState:
        y, local = state.y, state.local
        if local.shape[1]:
            exact = task.gradient(join(y, local), t, purpose="local")
            local = local - self.rate(self.local_lr, t) * exact.use_local_part()
        g = self.gradient(t, join(y, local), task)
        lr = self.rate(self.lr, t)
        e = replace(g, value=-lr * g.value, sensitivity=None if g.sensitivity is None else lr * g.sensitivity)
        protocol = self.protocol(t, task.nodes, network.graph)
        return replace(protocol.round(t, state, e, network), local=local)

    def models(self, state: PartState) -> Tensor:
        return join(state.y, state.local)


@algorithms.register("partpsp")
@dataclass(frozen=True, kw_only=True)
class PartPSP(_PartPSP):
    """PartPSP: partial communication push-sum SGD with node-level privacy over DPPS (Zhou, Xue, Chen: Algorithm 2).

        l ← l − γ_l ∇_l F(y, l; ξ),   g = ∇_s F(y, l; ξ) at the new l and the same batch ξ, clipped in L1 to 𝔠
        DPPS on s with the perturbation e = −γ_s g

    `share` says which parameters are s: patterns of names such as "0.*". It is evaluated with the mean s of all nodes
    and each node's own l, which nothing protects: it stays where it is.
    """

    name: ClassVar[str] = "PartPSP"
    share: tuple[str, ...] = field()  # unlike that of all methods, it has no default

    def start(self, task: Task, graph: Graph) -> PartState:
        if task.model.shared == task.d:
            raise TacitError(
                f"{self.title}: share = {list(self.share)} matches every parameter there is "
                f"({', '.join(task.model.layout.names)}): leave some out, or use sgpdp, which shares all of them"
            )
        return super().start(task, graph)


@algorithms.register("sgpdp")
@dataclass(frozen=True, kw_only=True)
class SGPDP(_PartPSP):
    """SGPDP: stochastic gradient push with node-level privacy over DPPS; PartPSP with every parameter shared."""

    name: ClassVar[str] = "SGPDP"

    def start(self, task: Task, graph: Graph) -> PartState:
        self.shares_all(task)
        return super().start(task, graph)
