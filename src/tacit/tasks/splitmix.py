"""SplitMix64: well mixed bits as a function of a 64-bit key, for randomness that belongs to one record."""

from __future__ import annotations

from torch import Tensor

STEP = 0x9E3779B97F4A7C15 - (1 << 64)  # the constants of SplitMix64, as signed 64-bit integers
_FACTORS = (30, 0xBF58476D1CE4E5B9 - (1 << 64)), (27, 0x94D049BB133111EB - (1 << 64))


def mixed(value: Tensor) -> Tensor:
    """Return 64 well mixed bits for each number (the output function of SplitMix64)."""
    for shift, factor in _FACTORS:
        value = (value ^ shifted(value, shift)) * factor
    return value ^ shifted(value, 31)


def shifted(value: Tensor, bits: int) -> Tensor:
    """Return value >> bits, with zeros in the leading bits."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)
