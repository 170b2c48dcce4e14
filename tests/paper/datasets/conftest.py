from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_data_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test finds data it did not ask for, nor writes where a user's data are."""
    monkeypatch.delenv("LINCODE_DATA", raising=False)
    monkeypatch.setattr("lincode.datasets.folders.cache_folder", lambda: tmp_path / "cache")
