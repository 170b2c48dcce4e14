"""Fixtures for the tests of the reproduction."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from paper.report import figures, write_report

from tests.paper.reports import write_records


@pytest.fixture
def no_other_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the data of this machine and replace the user's cache folder."""
    monkeypatch.delenv("LINCODE_DATA", raising=False)
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "cache")


@pytest.fixture(scope="module")
def no_fsync() -> Iterator[None]:
    """Save time when hundreds of records are written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda file: None)
        yield


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save time in tests of texts and tables."""
    monkeypatch.setattr("paper.report.chapters.make_figures", lambda experiment, records: {})


@pytest.fixture
def svg_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save time in tests that do not need PNG files."""
    monkeypatch.delitem(figures.METADATA, "png")


@pytest.fixture(scope="session")
def full_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report with all runs of the paper's scale."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda file: None)
        write_records(folder)
        write_report(folder)
    return folder
