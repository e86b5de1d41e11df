"""The public records with which features are whitened."""

from __future__ import annotations

from torch import Tensor

from tacit.errors import TacitError
from tacit.tasks.data.dataset import Dataset, datasets
from tacit.tasks.data.published import limited
from tacit.tasks.features.registry import PixelScale, picture_shape
from tacit.tasks.features.shapes import PICTURES, random_shapes

NO_WHITENING, SHAPES = "none", "shapes"


def public_records(whiten: str, data: Dataset, pixels: PixelScale) -> Tensor:
    """Return public records in the form of the data: synthetic shapes, or the first records of a public data set.

    Raises:
        TacitError: There is no such data set, its records have another form, or it is the data set itself.
    """
    if whiten == SHAPES:
        shape = picture_shape(SHAPES, data.inputs, 1)
        return random_shapes(shape, pixels).reshape(-1, *data.inputs)
    refuse_own_data(whiten, data.name)
    public = datasets.build(whiten)
    if public.inputs != data.inputs or public.tokens != data.tokens:
        raise TacitError(
            f'data.whiten = "{whiten}" has records of shape {public.inputs}, but data set {data.name} has '
            f"{data.inputs}: they must be the same"
        )
    x = (public if len(public.y) <= PICTURES or not public.classes else limited(public, PICTURES)).x
    if public.pixels is None:
        return x
    x = x.double()
    (mean, std), (shift, scale) = public.pixels.tensors(x), pixels.tensors(x)
    return (x * std + mean - shift) / scale


def refuse_own_data(whiten: str, name: str) -> None:
    """Refuse to whiten data with themselves. `name` is that of the data, in the config or in reports.

    Raises:
        TacitError: `whiten` names the same data.
    """
    if whiten not in (NO_WHITENING, SHAPES) and _same_data(whiten, name):
        raise TacitError(
            f'data.whiten = "{whiten}" names the data that are trained on: their mean and covariance are private. Use '
            '"shapes", or a public data set'
        )


def _same_data(public: str, name: str) -> bool:
    """Return whether a name is that of the data, or of another edition of them, such as cifar10 and cifar10-10k.

    Two names of one function are the same data, such as those of a file by its relative and its absolute path.
    """
    if public == name or public.startswith(f"{name}-") or name.startswith(f"{public}-"):
        return True
    known = [each in datasets or ".py:" in each for each in (public, name)]
    return all(known) and datasets[public] is datasets[name]
