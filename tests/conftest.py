"""Shared by all tests: Hypothesis without deadlines (compiling takes seconds), and the worlds that tests run in."""

import os

from hypothesis import settings
from hypothesis import strategies as st

from cumulant.shapes import SHAPES
from cumulant.spriteworld import Spriteworld

settings.register_profile("cumulant", deadline=None, derandomize=bool(os.environ.get("CI")), max_examples=60)
settings.load_profile("cumulant")

# A few worlds rather than any: each is compiled once.
WORLDS = (Spriteworld(), Spriteworld(SHAPES[::-1]), Spriteworld(("star",), step_size=0.13, half_extent=0.2))
worlds = st.sampled_from(WORLDS)
unit = st.floats(0, 1, width=32)
