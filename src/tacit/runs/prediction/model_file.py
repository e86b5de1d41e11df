"""Files with one model: its parameters under their `state_dict` names, and its description."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from tacit.errors import TacitError
from tacit.runs import storage
from tacit.runs.prediction.description import METADATA_KEY, ModelDescription, describe
from tacit.runs.prediction.feature_facts import FEATURE_STATE, feature_state
from tacit.tasks import FeatureMap, RecordPreparation, record_preparation

if TYPE_CHECKING:
    from tacit.runs.run import Run

_PREPARATION = "preparation"  # before the names of tensors that prepare records


@dataclass(frozen=True)
class ModelFile:
    """The content of a model file.

    Attributes:
        state: Parameters and buffers, as `module.load_state_dict` accepts them.
        description: All that is needed to predict.
        features: The whitening of the features; empty without it.
        preparation: Centres and whitens records before the module; None: they are used as they are.
    """

    state: dict[str, Tensor]
    description: ModelDescription
    features: dict[str, Tensor] = field(default_factory=dict)
    preparation: RecordPreparation | None = None

    @classmethod
    def of_run(cls, run: Run) -> ModelFile | None:
        """Return the model of a run at this moment: the mean, or a site's own. None if parameters are not finite.

        Every process of a run must call it, because the mean is a mean over all nodes.
        """
        params = run.mean_parameters()
        if params is None:
            return None
        model, complete = run.task.model, len(params) == run.task.d
        node = None if run.has_all_nodes else int(run.task.nodes[0])
        description = describe(run, node=node, complete=complete)
        all_params = params if complete else torch.cat([params, run.models[0, len(params) :]])
        module = model.trained_module(all_params)
        columns, applied = model.layout.columns, run.task.data.features
        features = feature_state(None if applied is None else applied.map)
        local = [name for name in model.layout.names if columns[name].stop > len(params)]
        if module is None:
            named = model.layout.unflatten(all_params)
            state = {name: value for name, value in named.items() if name not in local}
        else:
            state = _state(module, local)
        return cls(state, description, features, record_preparation(run.task))

    @classmethod
    def of_module(
        cls,
        module: nn.Module,
        description: ModelDescription,
        features: FeatureMap | None = None,
        preparation: RecordPreparation | None = None,
    ) -> ModelFile:
        """Return the file of a module with all its parameters."""
        return cls(_state(module, []), description, feature_state(features), preparation)

    @classmethod
    def read(cls, path: Path) -> ModelFile:
        """Read a model file. Nothing in it is executed.

        Raises:
            TacitError: The file is missing, damaged or not a model file.
        """
        if not path.is_file():
            raise TacitError(
                f"{path} does not exist: the run has no model, or was written by an older version of Tacit"
            )
        try:
            with safe_open(path, "pt") as file:
                metadata = file.metadata() or {}
                if METADATA_KEY not in metadata:
                    raise TacitError(f"{path} was not written by Tacit: it has no description of a model")
                state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError) as error:
            raise TacitError(f"{path} cannot be read as a model file: {error}") from None
        description = ModelDescription.parse(metadata[METADATA_KEY], str(path))
        try:
            buffers = {name: state.pop(f"{_PREPARATION}.{name}") for name in description.prepared}
            preparation = RecordPreparation(**buffers) if buffers else None
        except (KeyError, TypeError):
            raise TacitError(f"{path} is damaged: the statistics that prepare records are missing") from None
        if description.features is None:
            return cls(state, description, preparation=preparation)
        own = {key: value for key, value in state.items() if not key.startswith(FEATURE_STATE)}
        features = {key.removeprefix(FEATURE_STATE): state[key] for key in state if key not in own}
        return cls(own, description, features, preparation)

    def write(self, path: Path) -> None:
        """Write the file, completely or not at all."""
        # Copies, since safetensors refuses tensors that share memory.
        features = {FEATURE_STATE + key: value for key, value in self.features.items()}
        prepared = {} if self.preparation is None else dict(self.preparation.named_buffers(_PREPARATION))
        tensors = {**self.state, **features, **prepared}
        state = {key: value.detach().contiguous().clone() for key, value in tensors.items()}
        storage.write(path, safetensors.torch.save(state, {METADATA_KEY: self.description.model_dump_json()}))

    def load_into(self, module: nn.Module, params: Tensor | None = None) -> nn.Module:
        """Load the state into a module, with the trained parameters of `params` (d,) if they are given.

        Raises:
            TacitError: The module has other parameters.
        """
        kind = type(module).__name__
        try:
            found = module.load_state_dict(self.state, strict=False)
            missing, unexpected = set(found.missing_keys), list(found.unexpected_keys)
            named = dict(module.named_parameters())
            for name, value in self._trained(params).items():
                with torch.no_grad():
                    named[name].copy_(value)
            if params is not None:
                given = {id(named[name]) for name in self.description.names}
                missing = {key for key in missing if id(module.state_dict(keep_vars=True)[key]) not in given}
        except (RuntimeError, KeyError, ValueError) as error:
            reason = str(error).strip().splitlines()[-1].strip()
            raise TacitError(f"the trained parameters do not fit the module {kind}: {reason}") from None
        if missing or unexpected:
            names = ", ".join(sorted([*missing, *unexpected])[:3])
            raise TacitError(f"the module {kind} has other parameters than the trained model, such as: {names}")
        return module.eval()

    def _trained(self, params: Tensor | None) -> dict[str, Tensor]:
        layout = self.description.layout
        if params is None:
            return {}
        if len(params) != layout.d:
            raise ValueError(f"{len(params)} parameters were expected to be {layout.d}")
        return layout.unflatten(params)


def mean_parameters(run: Run) -> Tensor | None:
    """Return the mean of all nodes' shared parameters (s,), or a site's own model (d,); None if it is not finite.

    Every process of a run must call it. Sites send nothing for it.
    """
    models = run.models if not run.has_all_nodes else run.task.split(run.models)[0]
    is_finite = models.isfinite().all().view(1, 1).long()
    if not bool(run.coordinator.all_gather(is_finite).all()):
        return None
    if not run.has_all_nodes:
        return models[0]
    with run.network.unmetered():
        return run.network.mean(models)


def write_model(path: Path, run: Run) -> None:
    """Bring the model file of a run up to date. The leader writes it; every process must call this.

    There is no mean of parameters that are not finite: then there is no file.
    """
    file = ModelFile.of_run(run)
    if not run.coordinator.is_leader:
        return
    if file is None:
        path.unlink(missing_ok=True)
    else:
        file.write(path)


def _state(module: nn.Module, local: list[str]) -> dict[str, Tensor]:
    """Return the `state_dict` of a module without some of its parameters, whatever other names they have."""
    parameters = dict(module.named_parameters())
    left_out = {id(parameters[name]) for name in local}
    state = module.state_dict(keep_vars=True)
    return {
        key: value.detach() for key, value in state.items() if isinstance(value, Tensor) and id(value) not in left_out
    }
