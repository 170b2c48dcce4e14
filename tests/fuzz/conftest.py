"""Refinement of small data: it starts after few rows and takes few steps."""

from collections.abc import Iterator

import pytest

from lincode.encoder import refinement
from lincode.estimators import minibatch


@pytest.fixture(autouse=True, scope="package")
def _short_refinement() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refinement, "DEFAULT_STEPS", 40)
        patch.setattr(refinement, "CHECK_STEPS", 10)
        patch.setattr(minibatch, "MIN_START_ROWS", 20)
        patch.setattr(minibatch, "START_ROWS_PER_UNIT", 1)
        yield
