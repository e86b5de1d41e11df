"""Real signals: views of the objects of COIL-20, and the brains of ABIDE.

COIL-20 (Nene, Nayar, Murase 1996): 32 × 32 grey images of 20 objects, one every 5°. ABIDE I (Preprocessed Connectomes
Project): BOLD series of the 116 regions of the AAL atlas, of 100 subjects. Neither is fetched from the web: the files
are re-packed, and ABIDE asks that it be used for research only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.privacy.ledger import Array
from tacit.tasks.data.files import DataFile

COIL = DataFile("coil20/coil20_32x32.npz", "7f7feebeae425fd25fdc27ef7f8a3ff79581fa79fd62589e0bb9feb904e89c58")
ABIDE = DataFile(
    "abide_aal/abide_aal116_100subj.npz", "278893cd7c3040156085e48dcfba7c19395d1f19eff1b0d6adf60be46e1dbf1e"
)
_OBJECTS, _VIEWS, _ANGLE = 4, 3, 60
_REGIONS, _CEREBRUM = 34, 90  # of the 116 regions the first 90 are the cerebrum's
_SITE, _TRAIN, _TEST = "PITT", 150, 26


@dataclass(frozen=True)
class Views:
    """Signals of each view (1024, 48): a pixel a row, an image a column; and the object that each image shows."""

    signals: list[Array]
    labels: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Brains:
    """BOLD series of each subject to learn from (150, 34) and to test on (26, 34)."""

    signals: list[Array]
    test: list[Array]


def coil20(seed: int = 0) -> Views:
    """Four random objects, each in three views of 60°: [0°, 55°], [60°, 115°] and [120°, 175°]; values in [0, 1]."""
    file = _arrays(COIL)
    x, y, pose = file["X"].astype(np.float64), file["y"], file["pose_deg"]
    objects = np.random.default_rng(seed).choice(np.unique(y), _OBJECTS, replace=False)
    views = []
    for view in range(_VIEWS):
        seen = (pose >= _ANGLE * view) & (pose < _ANGLE * (view + 1))
        views.append(np.concatenate([x[seen & (y == each)] for each in objects]).T)
    return Views(views, np.repeat(np.arange(_OBJECTS), views[0].shape[1] // _OBJECTS))


def abide(seed: int = 0) -> Brains:
    """Three random subjects with autism and three without, of one scanner, on 34 regions that are the same always.

    The paper names neither subjects nor regions. A series is cut to 176 points, as there; values are as published, and
    subjects with a region that was not scanned are left out.
    """
    file = _arrays(ABIDE)
    regions = np.sort(np.random.default_rng(0).choice(_CEREBRUM, _REGIONS, replace=False))
    series = {}
    for i, (begin, end) in enumerate(zip(file["offsets"][:-1], file["offsets"][1:], strict=True)):
        x = file["ts"][begin:end][: _TRAIN + _TEST, regions].astype(np.float64)
        if file["site"][i] == _SITE and (np.ptp(x, axis=0) > 0).all():
            series[i] = x
    rng = np.random.default_rng(seed)
    chosen = [
        series[int(i)] for group in (0, 1) for i in rng.choice([i for i in series if file["dx"][i] == group], 3, False)
    ]
    return Brains([x[:_TRAIN] for x in chosen], [x[_TRAIN:] for x in chosen])


@lru_cache(maxsize=2)
def _arrays(file: DataFile) -> dict[str, npt.NDArray[Any]]:
    with np.load(file.get(), allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}
