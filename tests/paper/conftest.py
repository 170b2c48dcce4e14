"""Fixtures for the tests of the reproduction."""

from pathlib import Path

import pytest


@pytest.fixture
def no_other_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the data of this machine and replace the user's cache folder."""
    monkeypatch.delenv("LINCODE_DATA", raising=False)
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "cache")
