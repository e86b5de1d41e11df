"""Holding out test records: the side of a record depends on that record alone.

Privacy:
    A guarantee bounds the effect of one record on what is released. A split that balances classes, or that shuffles
    a number of records, moves many records when one changes, and no ledger contains that. Here a keyed digest decides
    about each record separately:

    - `index` takes the digest of the record's position. If a record is *replaced*, all sides stay the same: training
      and test records together differ in one record, at the same position.
    - `content` takes the digest of the record's own features and label. If a record is *added or removed*, all other
      records stay on their side. Identical records are on the same side.

    Neither fits the other relation. By position, a removed record moves all that follow. By content, a replaced record
    can change its side, which is one record less and one more.

    The share of test records is therefore approximate, and a class can be missing on one side. Nothing is refused for
    that reason. The test records themselves are not protected: accuracy and loss on them contain no noise.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.privacy import Relation
from tacit.tasks.data.checks import Array

Split = Literal["content", "index"]

_ROWS = 100_000  # moved together

_FITTING: dict[Relation, Split] = {"add-remove": "content", "replace-one": "index"}


def fitting_split(relation: Relation) -> Split:
    """Return the split under which neighbouring data sets stay neighbours.

    >>> fitting_split("replace-one")
    'index'
    """
    return _FITTING[relation]


def is_held_out(x: Array, y: Array, share: float, split: Split, seed: int, name: str) -> NDArray[np.bool_]:
    """Return for each record whether it is held out for testing.

    Args:
        x: The records, in float32 or int64.
        y: Their labels, as given: class numbers could depend on the labels of other records.
        share: The probability of being held out, over the seeds.
        split: What of a record decides.
        seed: The key of the digest.
        name: The name of the data set, for errors.
    """
    if not 0 <= share < 1:
        raise TacitError(f"data set {name}: test must be a share in [0, 1), got {share}")
    if not 0 <= seed < 2**63:
        raise TacitError(f"data set {name}: seed must be at least 0 and below 2^63, got {seed}")
    key = int(seed).to_bytes(8, "little")
    parts = _positions(len(y)) if split == "index" else _contents(x, y)
    digests = b"".join(blake2b(part, digest_size=8, key=key).digest() for part in parts)
    return np.frombuffer(digests, "<u8") < np.uint64(share * 2.0**64)


def separate(x: Array, y: Array, is_test: NDArray[np.bool_]) -> tuple[Array, Array, Array, Array]:
    """Return training records, their labels, test records and theirs. `x` becomes the training records, in place."""
    test_x, test_y, train_y = x[is_test], y[is_test], y[~is_test]
    end = 0
    for start in range(0, len(x), _ROWS):
        part = slice(start, start + _ROWS)
        kept = x[part][~is_test[part]]
        x[end : end + len(kept)] = kept  # end ≤ start: no record is overwritten before it is read
        end += len(kept)
    x.resize((end, *x.shape[1:]), refcheck=False)  # frees the memory behind the last record
    return x, train_y, test_x, test_y


def _positions(records: int) -> Iterator[bytes]:
    return (i.to_bytes(8, "little") for i in range(records))


def _contents(x: Array, y: Array) -> Iterator[bytes]:
    """Return each record in a form that does not depend on how its array is stored: −0 is 0, a number a float64."""
    for features, label in zip(x + x.dtype.type(0), y.tolist(), strict=True):
        yield features.tobytes() + (_text(label) if isinstance(label, str | bytes) else np.float64(label).tobytes())


def _text(label: str | bytes) -> bytes:
    return label if isinstance(label, bytes) else label.encode("utf-8", "surrogatepass")
