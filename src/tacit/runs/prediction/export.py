"""Export of a trained model to formats that other programs read."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.jit import TracerWarning  # type: ignore[attr-defined]

from tacit.errors import TacitError
from tacit.runs import storage
from tacit.runs.prediction.description import METADATA_KEY
from tacit.runs.prediction.model_file import ModelFile
from tacit.runs.prediction.prediction_module import PredictionModule
from tacit.runs.prediction.trained_model import TrainedModel

ExportFormat = Literal["onnx", "torchscript", "state-dict"]
SUFFIXES: dict[ExportFormat, str] = {"onnx": ".onnx", "torchscript": ".pt", "state-dict": ".safetensors"}
_INPUT, _OUTPUT, _BATCH = "features", "predictions", "batch"
_TOLERANCE = 1e-5


def export_model(model: TrainedModel, path: Path, form: ExportFormat) -> None:
    """Write a model to `path`, completely or not at all, with its description as metadata.

    ONNX and TorchScript files map features (B, …) as float32, tokens as int64, for any number of records B, to what
    `predict_proba` and `predict` return for numbers: probabilities (B, C), or values (B,) in the unit of the records. A
    state dict contains the parameters, and the statistics that prepare records, in a safetensors file.

    Raises:
        TacitError: The model cannot be exported, or a package is missing.
    """
    writers: dict[ExportFormat, Callable[[TrainedModel], bytes]] = {"onnx": _onnx, "torchscript": _torchscript}
    if form in writers:
        storage.write(path, writers[form](model))
    else:
        ModelFile.of_module(model.module, model.description, model.features, model.preparation).write(path)


def _onnx(model: TrainedModel) -> bytes:
    try:
        import onnx
        import onnxscript  # noqa: F401  (torch's exporter needs it)
        from onnx.reference import ReferenceEvaluator
    except ImportError:
        raise TacitError('ONNX export needs onnx and onnxscript: pip install "tacit[onnx]"') from None
    batch, predictor = {0: torch.export.Dim(_BATCH)}, model.predictor.eval()
    with _quietly("ONNX"):
        program = torch.onnx.export(
            predictor,
            (_example(model),),
            dynamo=True,
            dynamic_shapes=(batch,),
            input_names=[_INPUT],
            output_names=[_OUTPUT],
            external_data=False,
            verbose=False,
        )
        assert program is not None
        proto = program.model_proto
        evaluator: Any = ReferenceEvaluator(proto)
        with np.errstate(divide="ignore"):  # an exported atan2 divides by zero, and handles it
            _check_exported(lambda x: torch.from_numpy(evaluator.run(None, {_INPUT: x.numpy()})[0]), predictor, model)
    onnx.helper.set_model_props(proto, {METADATA_KEY: model.description.model_dump_json()})
    return bytes(proto.SerializeToString())


def _torchscript(model: TrainedModel) -> bytes:
    predictor = model.predictor.eval().requires_grad_(False)
    buffer = io.BytesIO()
    with _quietly("TorchScript"):
        traced = torch.jit.trace(predictor, _example(model), check_trace=False)  # type: ignore[no-untyped-call]
        _check_exported(traced, predictor, model)
        extra = {METADATA_KEY: model.description.model_dump_json()}
        torch.jit.save(traced, buffer, _extra_files=extra)
    return buffer.getvalue()


def _example(model: TrainedModel, records: int = 3, seed: int = 0) -> Tensor:
    """Return random features, by default of several records: a single one would become a constant of the export."""
    generator = torch.Generator().manual_seed(seed)
    if model.takes_tokens:
        return torch.randint(0, 2, (records, *model.inputs), generator=generator)
    return 2 * torch.rand(records, *model.inputs, generator=generator) - 1


def _check_exported(exported: Callable[[Tensor], Tensor], predictor: PredictionModule, model: TrainedModel) -> None:
    """Raise if the exported model gives other predictions for other records, or for another number of them."""
    some = _example(model, 5, seed=1)
    for x in (some, 1 - some if model.takes_tokens else -some, some[:1]):
        with torch.no_grad():
            found, expected = exported(x), predictor(x)
        if found.shape != expected.shape or not torch.allclose(found, expected, rtol=_TOLERANCE, atol=_TOLERANCE):
            raise ValueError("the exported model gives other predictions than the run")


@contextmanager
def _quietly(what: str) -> Iterator[None]:
    """Silence the exporter, and turn its errors into one sentence."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            # A branch on the values of records: the export would contain one side of it only. Torch's own are checks.
            warnings.filterwarnings("error", category=TracerWarning)
            warnings.filterwarnings("ignore", category=TracerWarning, module=r"torch\.")
            # torch.jit is deprecated in favour of torch.export, whose files only torch itself can run.
            warnings.filterwarnings("ignore", message=r"`torch\.jit", category=DeprecationWarning)
            warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"torch\.|onnx")
            warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.|copyreg|onnx")
            yield
    except TacitError:
        raise
    except Exception as error:  # the exporters raise errors of many kinds for modules that they do not support
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise TacitError(f"this model cannot be exported to {what}: {reason}") from None
    finally:
        logger.setLevel(level)
