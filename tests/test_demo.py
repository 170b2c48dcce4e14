"""The functions of the demo work on small problems. ``make demo`` runs all of it."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lincode import SCNN


@pytest.fixture(scope="module")
def demo() -> Any:
    path = Path(__file__).parents[1] / "examples" / "demo.py"
    spec = importlib.util.spec_from_file_location("demo", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_table_has_one_row_per_method(
    demo: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "N_COMPONENTS", 6)
    monkeypatch.setattr(demo, "TIMING_SECONDS", 0.01)
    monkeypatch.setattr(demo.console, "width", 120)
    scnn, X_train = demo.compare_on_digits()
    printed = capsys.readouterr().out
    methods = ("SCNN, encoder", "SCNN, exact", "SCNN, lasso", "PCA", "scikit-learn dictionary")
    for method in methods:
        assert method in printed
    assert scnn.components_.shape == (6, 64)
    assert X_train.shape[1] == 64


def test_splits_do_not_overlap(demo: Any) -> None:
    train, val, test, *labels = demo.digits()
    assert [len(part) for part in (train, val, test)] == [len(y) for y in labels]
    assert len(train) + len(val) + len(test) == 1797
    rows = [tuple(row) for part in (train, val, test) for row in part]
    assert len(set(rows)) == 1797
    assert train.min() == -1
    assert train.max() == 1


def test_figures_are_written(demo: Any, tmp_path: Path) -> None:
    X = demo.photo_patches(200)
    np.testing.assert_allclose(X.mean(axis=1), 0, atol=1e-12)
    scnn = SCNN(4, random_state=0).fit(X)
    files = demo.save_figures({"photographs": (scnn, X)}, tmp_path)
    assert all(file.stat().st_size > 5000 for file in files)
