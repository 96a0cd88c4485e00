"""Exact match: whether a reply is the reference text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from quorum.attribution.values.base import FloatArray, Reply


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """1 where the reply is the reference text, otherwise 0.

    Args:
        strip: White space at both ends does not count.
        ignore_case: Upper and lower case are the same (Unicode case folding).
    """

    needs: ClassVar[Literal["text", "continuation"]] = "text"
    strip: bool = True
    ignore_case: bool = False

    def payoffs(self, replies: Sequence[Reply], reference: str) -> FloatArray:
        """See `ValueFunction.payoffs`."""
        wanted = self._compared(reference)
        return np.array([self._compared(r.text) == wanted for r in replies], dtype=np.float64)

    def _compared(self, text: str) -> str:
        stripped = text.strip() if self.strip else text
        return stripped.casefold() if self.ignore_case else stripped
