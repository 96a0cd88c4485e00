"""Made-up attributions for the report's tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from made_attributions import Document, make_attribution, make_replies


@pytest.fixture
def attribution() -> Callable[..., Document]:
    """Makes an attribution: ``attribution(snapshot, text)``."""
    return make_attribution


@pytest.fixture
def replies() -> Callable[..., Document]:
    """Makes what the pages show of masked generations: ``replies(attribution)``."""
    return make_replies
