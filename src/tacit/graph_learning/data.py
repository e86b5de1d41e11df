"""Real signals of the paper's experiments: COIL-20 (views of objects) and ABIDE (brain activity).

COIL-20 (Nene, Nayar, Murase 1996) has 32 × 32 grey images of 20 objects, one every 5°. ABIDE I (Preprocessed
Connectomes Project) has BOLD time series of the 116 regions of the AAL atlas for 100 subjects. Neither is
downloaded: the files are repackaged, and ABIDE may only be used for research.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.privacy import Array
from tacit.tasks.data import DataFile

COIL = DataFile("coil20/coil20_32x32.npz", "7f7feebeae425fd25fdc27ef7f8a3ff79581fa79fd62589e0bb9feb904e89c58")
ABIDE = DataFile(
    "abide_aal/abide_aal116_100subj.npz", "278893cd7c3040156085e48dcfba7c19395d1f19eff1b0d6adf60be46e1dbf1e"
)
_OBJECTS, _VIEWS, _VIEW_DEGREES = 4, 3, 60
_REGIONS, _CEREBRUM_REGIONS = 34, 90  # the first 90 of the 116 regions are in the cerebrum
_SCANNER, _TRAIN_POINTS, _TEST_POINTS = "PITT", 150, 26
_SUBJECTS_PER_GROUP = 3


@dataclass(frozen=True)
class ObjectViews:
    """Images of objects, seen from several angles.

    Attributes:
        signals: One table per view, (1024, 48): one row per pixel, one column per image.
        labels: The object in each image, (48,).
    """

    signals: list[Array]
    labels: npt.NDArray[np.int64]


@dataclass(frozen=True)
class BrainSignals:
    """BOLD time series, one table per subject.

    Attributes:
        signals: The series to learn from, (150, 34).
        test: The series to reconstruct, (26, 34).
    """

    signals: list[Array]
    test: list[Array]


def coil20(seed: int = 0) -> ObjectViews:
    """Return four random objects in three views each: [0°, 55°], [60°, 115°] and [120°, 175°]. Values are in [0, 1]."""
    file = _arrays(COIL)
    x, y, pose = file["X"].astype(np.float64), file["y"], file["pose_deg"]
    objects = np.random.default_rng(seed).choice(np.unique(y), _OBJECTS, replace=False)
    views = []
    for view in range(_VIEWS):
        in_view = (pose >= _VIEW_DEGREES * view) & (pose < _VIEW_DEGREES * (view + 1))
        views.append(np.concatenate([x[in_view & (y == each)] for each in objects]).T)
    return ObjectViews(views, np.repeat(np.arange(_OBJECTS), views[0].shape[1] // _OBJECTS))


def abide(seed: int = 0) -> BrainSignals:
    """Return the series of three random subjects with autism and three without, from one scanner.

    The paper names neither the subjects nor the 34 regions. The regions here are random but the same for every seed.
    Series are cut to 176 points, as in the paper; values are as published. Subjects with an unscanned region are left
    out.
    """
    file = _arrays(ABIDE)
    regions = np.sort(np.random.default_rng(0).choice(_CEREBRUM_REGIONS, _REGIONS, replace=False))
    series = {}
    for i, (begin, end) in enumerate(zip(file["offsets"][:-1], file["offsets"][1:], strict=True)):
        x = file["ts"][begin:end][: _TRAIN_POINTS + _TEST_POINTS, regions].astype(np.float64)
        if file["site"][i] == _SCANNER and (np.ptp(x, axis=0) > 0).all():
            series[i] = x
    rng = np.random.default_rng(seed)
    chosen = [
        series[int(i)]
        for group in (0, 1)
        for i in rng.choice([i for i in series if file["dx"][i] == group], _SUBJECTS_PER_GROUP, False)
    ]
    return BrainSignals([x[:_TRAIN_POINTS] for x in chosen], [x[_TRAIN_POINTS:] for x in chosen])


@lru_cache(maxsize=2)
def _arrays(file: DataFile) -> dict[str, npt.NDArray[Any]]:
    with np.load(file.get(), allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}
