"""Fixtures for the tests of the reproduction."""

from pathlib import Path

import pytest
from paper.cli import main


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of all experiments at the smoke scale on data from scikit-learn."""
    out = tmp_path_factory.mktemp("smoke")
    assert main(["reproduce", "all", "--embedded", "--jobs", "2", "--out", str(out)]) == 0
    return out
