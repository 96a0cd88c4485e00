"""What holds for all tests: property-based ones draw the same examples in every run."""

from __future__ import annotations

from hypothesis import settings

# No deadline: a busy machine is no failure.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")
