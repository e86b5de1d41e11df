"""What a method declares about itself, so that the privacy statement can rely on it."""

from __future__ import annotations

from typing import Literal

Declaration = Literal["models_are_released", "exact_values_stay_local", "mixes_only", "sums_gradients"]


def declares(method: object, declaration: Declaration) -> bool:
    """Whether the method's own class makes the declaration, as a class attribute that is True.

    A class does not inherit declarations, because it may change the update. `tacit check` tests them.
    """
    return vars(type(method)).get(declaration) is True
