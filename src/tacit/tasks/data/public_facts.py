"""Whether what a run knows about its records is public."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.errors import TacitError
from tacit.privacy import Relation
from tacit.tasks.data.split import fitting_split

if TYPE_CHECKING:
    from tacit.tasks.data.dataset import Dataset


def check_public_facts(data: Dataset, relation: Relation, releases_ranges: bool) -> None:
    """Raise if the classes, or the side of a record (training or test), depend on other records."""
    where = f"data set {data.name}"
    if not data.declared:
        raise TacitError(
            f"{where}: the classes were learnt from the records, so no privacy can be guaranteed: declare them with "
            "labels=[...] (in a config: data.labels = [...])"
        )
    if data.schema is not None and data.schema.private_columns and not releases_ranges:
        raise TacitError(
            f'{where}: column {next(iter(data.schema.private_columns))}: range = "private" is released by tacit train '
            "and tacit.train only: declare range = [low, high]"
        )
    if data.split not in (None, fitting := fitting_split(relation)):
        raise TacitError(
            f'{where}: split = "{data.split}" does not fit the relation "{relation}", under which one record would '
            f'move others between training and test set: set split = "{fitting}", or give test records'
        )
