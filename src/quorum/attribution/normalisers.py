"""Normalisers: values on a scale for reading. The raw values always stay beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

import numpy as np
import numpy.typing as npt
from annotated_types import Gt

FloatArray = npt.NDArray[np.float64]


class Normaliser(Protocol):
    """A change of scale for presentation."""

    def normalise(self, values: FloatArray) -> tuple[FloatArray | None, str]:
        """The values (n,) on the new scale and ``""``, or None and the reason why not."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The values as they are."""

    def normalise(self, values: FloatArray) -> tuple[FloatArray | None, str]:
        """See `Normaliser.normalise`."""
        return values.astype(np.float64), ""


@dataclass(frozen=True, slots=True)
class AbsSum:
    """x / Σ|x|: signs stay, absolute values sum to 1."""

    def normalise(self, values: FloatArray) -> tuple[FloatArray | None, str]:
        """See `Normaliser.normalise`."""
        if not np.isfinite(values).all():
            return None, "a value is not finite"
        largest = np.abs(values).max(initial=0.0)
        if largest == 0:
            return None, "all values are 0, so the sum of their absolute values is 0"
        scaled = values / largest
        return scaled / np.abs(scaled).sum(), ""


@dataclass(frozen=True, slots=True)
class PowerShift:
    """(x − min)^p / Σ (x − min)^p: the lowest value becomes 0, all sum to 1.

    Args:
        power: p, the exponent; above 1 it stresses the largest values, below 1 it levels.
    """

    power: Annotated[float, Gt(0)] = 1.0

    def normalise(self, values: FloatArray) -> tuple[FloatArray | None, str]:
        """See `Normaliser.normalise`."""
        return _shares(values, self.power)


@dataclass(frozen=True, slots=True)
class MinMax:
    """(x − min) / (max − min), then divided by its sum: the lowest becomes 0, all sum to 1."""

    def normalise(self, values: FloatArray) -> tuple[FloatArray | None, str]:
        """See `Normaliser.normalise`."""
        return _shares(values, 1.0)


def _shares(values: FloatArray, power: float) -> tuple[FloatArray | None, str]:
    """((x − min)/(max − min))^power over its sum; dividing by the range first avoids overflow."""
    if not np.isfinite(values).all():
        return None, "a value is not finite"
    low, high = float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
    if not high > low:
        return None, "all values are equal, so they have no range"
    lifted = ((values - low) / (high - low)) ** power
    return lifted / lifted.sum(), ""
