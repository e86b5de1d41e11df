"""Heads: learning tasks by kind of target. Importing the package registers all of them."""

from torch import Tensor

from tacit.errors import TacitError
from tacit.registry import discover
from tacit.tasks.heads.base import Head, heads
from tacit.tasks.heads.classification import Binary, Classification, MultiLabel, ScoreClassification
from tacit.tasks.heads.mismatch import TargetMismatch, refuse_mismatch
from tacit.tasks.heads.regression import Counts, Regression
from tacit.tasks.models.per_record import RecordLoss, cross_entropy
from tacit.tasks.target import Target

discover(__name__)

_DEFAULT = {"class": "classification", "labels": "multi-label", "number": "regression", "count": "counts"}


def default_head(target: Target) -> str:
    """Return the name of the head for a target, unless a config names another."""
    return _DEFAULT[target.kind]


def fitting_head(given: Head | None, loss: RecordLoss, outputs: Tensor, target: Target) -> Head | None:
    """Return the head of a model with these outputs for one record.

    Without a given head, the outputs of a model with the default loss are those of a classification. The outputs of a
    model with a loss of the user's own are scores, if there is one per class. Other outputs have no known meaning.

    Raises:
        TacitError: If the outputs or the head do not fit the target.
    """
    if given is not None:
        if given.target != target:
            raise TacitError(
                f"the head {type(given).__name__} was made for another target than that of the data (kinds "
                f"{given.target.kind} and {target.kind}): make it with target=data.target"
            )
        given.check_outputs(outputs)
        return given
    if loss is not cross_entropy:
        has_scores = target.kind == "class" and tuple(outputs.shape) == (1, target.classes)
        return ScoreClassification(target) if has_scores else None
    if target.kind != "class":
        raise TacitError(
            f"this Model has the loss of a classification, but the targets are of kind {target.kind}: "
            "pass the module itself, or Model(module, head) with a head of tacit.tasks"
        )
    head = Classification(target)
    head.check_outputs(outputs)
    return head


__all__ = [
    "Binary",
    "Classification",
    "Counts",
    "Head",
    "MultiLabel",
    "Regression",
    "TargetMismatch",
    "default_head",
    "fitting_head",
    "heads",
    "refuse_mismatch",
]
