"""The functions of the demo work on small problems. ``make demo`` runs all of it."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def demo() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        yield importlib.import_module("demo")
    sys.modules.pop("demo", None)


def test_table_has_one_row_per_method(
    demo: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "N_COMPONENTS", 6)
    monkeypatch.setattr(demo, "N_NONZERO", 2)
    monkeypatch.setattr(demo, "TIMING_SECONDS", 0.01)
    monkeypatch.setattr(demo.console, "width", 120)
    demo.compare_on_digits()
    printed = capsys.readouterr().out
    methods = (
        "SCNN, encoder",
        "SCNN, projection",
        "SCNN, omp",
        "PCA, 2 components",
        "scikit-learn, lasso_cd",
        "scikit-learn, omp",
    )
    for method in methods:
        (row,) = [line for line in printed.splitlines() if method in line and "│" in line]
        error, n_nonzero, accuracy, microseconds = (
            float(cell.strip().rstrip("%")) for cell in row.split("│")[2:6]
        )
        assert 0 < error < 0.5
        assert 0 < n_nonzero <= 6
        assert 10 < accuracy <= 100
        assert microseconds > 0
    assert "The smallest error is that of" in printed


def test_splits_do_not_overlap(demo: Any) -> None:
    train, val, test, *labels = demo.digits()
    assert [len(part) for part in (train, val, test)] == [len(y) for y in labels]
    assert len(train) + len(val) + len(test) == 1797
    rows = [tuple(row) for part in (train, val, test) for row in part]
    assert len(set(rows)) == 1797
    assert train.min() == 0
    assert train.max() == 1


@pytest.mark.slow
def test_photograph_is_denoised_and_plotted(
    demo: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new" / "demo.png"
    demo.denoise_photograph(file)
    assert "The best result is that of denoise" in capsys.readouterr().out
    assert file.stat().st_size > 50_000
