"""What a long search writes: counts after each test, and a file for each failure."""

from __future__ import annotations

import pytest

from tests.fuzz.cases import save_failure, write_counts


def pytest_runtest_teardown() -> None:
    write_counts()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Save the failure. The report of a worker that crashed names the test as well."""
    if report.failed:
        save_failure(report.nodeid, report.longreprtext)
