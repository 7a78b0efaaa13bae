"""`--hypothesis-profile=long` gives the property tests of the gym many more examples."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("long", max_examples=4_000, deadline=None)
