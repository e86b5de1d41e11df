"""PartPSP and SGPDP: push-sum SGD over DPPS, with some or none of the parameters kept at their node."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from torch import Tensor

from tacit.algorithms.algorithm import algorithms, check_positive
from tacit.algorithms.dpps import DPPSState
from tacit.algorithms.dpps_algorithm import DPPSAlgorithm
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.tasks import Task, join


@dataclass(frozen=True)
class PartPSPState(DPPSState):
    """State of DPPS, and each node's `local` parameters l (n, d − d_s)."""

    local: Tensor


@dataclass(frozen=True, kw_only=True)
class _PartPSP(DPPSAlgorithm[PartPSPState]):
    partial: ClassVar[bool] = True

    local_lr: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, local_lr=self.local_lr)

    def start(self, task: Task, graph: Graph) -> PartPSPState:
        if task.model.bounded != task.model.shared:
            raise TacitError(
                f"{self.title} clips the gradients of shared parameters only, so local parameters learn from exact "
                'gradients: use local = "exact", or Model(bounds="shared")'
            )
        s, local = task.split(task.initial())
        return PartPSPState(**vars(self.protocol(0, task.nodes, graph).start(s)), local=local)

    def round(self, t: int, state: PartPSPState, task: Task, network: Network) -> PartPSPState:
        y, local = state.y, state.local
        if local.shape[1]:
            exact = task.gradient(join(y, local), t, purpose="local")
            local = local - self.decayed(self.local_lr, t) * exact.use_local_part()
        g = self.gradient(t, join(y, local), task)
        lr = self.decayed(self.lr, t)
        protocol = self.protocol(t, task.nodes, network.graph)
        return replace(protocol.round(t, state, g.scaled(-lr), network), local=local)

    def models(self, state: PartPSPState) -> Tensor:
        return join(state.y, state.local)


@algorithms.register("partpsp", example={"share": ("0.weight",), "clip": 0.1})
@dataclass(frozen=True, kw_only=True)
class PartPSP(_PartPSP):
    """PartPSP: push-sum SGD with partial communication and node-level privacy over DPPS.

        l ← l − γ_l ∇_l F(y, l; ξ),   g = ∇_s F(y, l; ξ) at the new l and the same batch ξ, clipped in L1 to 𝔠
        DPPS on s with the perturbation e = −γ_s g

    Evaluation uses the mean s of all nodes and each node's own l. The guarantee does not cover l, which never leaves
    its node.

    Args:
        share: Patterns of the names of the shared parameters s, such as "0.*".
        local_lr: Step size γ_l of the local parameters.

    The other parameters are those of `DPPSAlgorithm`: lr (γ_s), clip (𝔠), noise_rate (γ_n), b, sync_every, sensitivity,
    c_prime (C′), lam (λ), start_norm, decay and decay_rounds.

    References:
        Zhou, Xue, Chen: PartPSP, Algorithm 2.
    """

    models_are_released: ClassVar[bool] = True
    exact_values_stay_local: ClassVar[bool] = True
    name: ClassVar[str] = "PartPSP"
    share: tuple[str, ...] = field()  # required, unlike in other algorithms

    def start(self, task: Task, graph: Graph) -> PartPSPState:
        if task.model.shared == task.d:
            raise TacitError(
                f"{self.title}: share = {list(self.share)} matches every parameter "
                f"({', '.join(task.model.layout.names)}): match fewer, or use sgpdp, which shares all of them"
            )
        return super().start(task, graph)


@algorithms.register("sgpdp", example={"clip": 0.1})
@dataclass(frozen=True, kw_only=True)
class SGPDP(_PartPSP):
    """SGPDP: stochastic gradient push with node-level privacy over DPPS; PartPSP with every parameter shared.

    Parameters as in partpsp.
    """

    models_are_released: ClassVar[bool] = True
    exact_values_stay_local: ClassVar[bool] = True
    name: ClassVar[str] = "SGPDP"

    def start(self, task: Task, graph: Graph) -> PartPSPState:
        self.check_shares_all(task)
        return super().start(task, graph)
