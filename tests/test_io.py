"""Saving and loading: every estimator comes back, and a file is complete or unchanged."""

from __future__ import annotations

import functools
import pickle
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

import lincode
from lincode import SCNN, MiniBatchSCNN, SparseCoder
from lincode.exceptions import InvalidInputError
from lincode.io import atomic_write

X: Any = load_digits().data[:300] / 16
ESTIMATORS: dict[str, Any] = {
    "SCNN": SCNN(10, random_state=0, tol=1e-2),
    "paper": SCNN(10, refine=False, transform_algorithm="paper", random_state=0, tol=1e-2),
    "MiniBatchSCNN": MiniBatchSCNN(10, random_state=0, tol=0.1),
    "SparseCoder": SparseCoder(np.eye(64)),
}


@functools.cache
def trained(name: str) -> Any:
    return ESTIMATORS[name].fit(X)


class Doubled(TransformerMixin, BaseEstimator):
    """A transformer that skops does not know."""

    def fit(self, X: Any, y: object = None) -> Doubled:
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        return 2 * X


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("how", ["skops", "pickle", "joblib"])
def test_the_same_estimator_comes_back(name: str, how: str, tmp_path: Path) -> None:
    model, path = trained(name), tmp_path / "model"
    if how == "skops":
        lincode.save(model, path)
        loaded = lincode.load(path)
    elif how == "joblib":
        joblib.dump(model, path)
        loaded = joblib.load(path)
    else:
        loaded = pickle.loads(pickle.dumps(model))
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(model)
    assert_array_equal(loaded.transform(X), model.transform(X))
    assert_array_equal(
        loaded.inverse_transform(model.transform(X)), model.inverse_transform(model.transform(X))
    )


@pytest.mark.parametrize("encoder_weight", [0.0, 1.0])
@pytest.mark.parametrize("n_start", [100, 20_000])
def test_partial_fit_continues_after_loading(
    encoder_weight: float, n_start: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches refine the network after ``n_start`` rows."""
    monkeypatch.setattr("lincode.estimators.minibatch.MIN_START_ROWS", n_start)
    model = MiniBatchSCNN(10, random_state=0, encoder_weight=encoder_weight)
    model.partial_fit(X[:100]).partial_fit(X[100:200])
    lincode.save(model, tmp_path / "model.skops")
    loaded = lincode.load(tmp_path / "model.skops")
    assert_array_equal(
        loaded.partial_fit(X[200:]).components_, model.partial_fit(X[200:]).components_
    )
    assert loaded.n_samples_seen_ == 300


def test_pipelines_keep_their_steps_and_names(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"pixel{j}" for j in range(64)])
    y = load_digits().target[:300]
    scnn = SCNN(10, random_state=0, tol=1e-2)
    model = make_pipeline(FeatureUnion([("scnn", scnn)]), LogisticRegression(max_iter=500)).fit(
        frame, y
    )
    lincode.save(model, tmp_path / "model.skops")
    loaded = lincode.load(tmp_path / "model.skops")
    assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    assert list(loaded.feature_names_in_) == list(frame.columns)
    assert loaded[0].get_feature_names_out()[0] == "scnn__scnn0"


def test_callbacks_are_not_saved(tmp_path: Path) -> None:
    seen: list[float] = []
    scnn = SCNN(5, random_state=0, tol=1e-2, callback=lambda step: seen.append(step.seconds))
    for model in (scnn, make_pipeline(StandardScaler(), scnn)):
        model.fit(X)
        lincode.save(model, tmp_path / "model.skops")
        loaded = lincode.load(tmp_path / "model.skops")
        assert_array_equal(loaded.transform(X), model.transform(X))
    assert loaded[1].callback is None
    assert scnn.callback is not None
    assert seen


def test_foreign_types_are_refused_unless_they_are_trusted(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    model = make_pipeline(Doubled(), SCNN(5, random_state=0, tol=1e-2)).fit(X)
    lincode.save(model, path)
    with pytest.raises(InvalidInputError, match=r"not trusted: tests.test_io.Doubled. .*trusted="):
        lincode.load(path)
    for trusted in (Doubled, "tests.test_io.Doubled"):
        assert_array_equal(lincode.load(path, trusted=[trusted]).transform(X), model.transform(X))


def test_files_that_are_not_models_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    path.write_text("text")
    with pytest.raises(InvalidInputError, match=r"model\.skops must be a file that lincode\.save"):
        lincode.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.npy", "text")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        lincode.load(path)
    lincode.save(trained("SCNN"), path)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(InvalidInputError, match="cannot be read"):
        lincode.load(path)
    with pytest.raises(FileNotFoundError, match="missing"):
        lincode.load(tmp_path / "missing")


def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "model.skops"):
        with pytest.raises(InvalidInputError, match="must be a file that can be written"):
            lincode.save(trained("SCNN"), path)


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    link = tmp_path / "link"
    link.symlink_to(path)
    path.write_text("old")
    with pytest.raises(TypeError), atomic_write(link) as file:
        file.writelines([b"new", "text"])  # type: ignore[list-item]
    assert path.read_text() == "old"
    assert set(tmp_path.iterdir()) == {path, link}
    with atomic_write(link) as file:
        file.write(b"new")
    assert path.read_text() == "new"
    assert link.is_symlink()


def test_a_kill_while_saving_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    lincode.save(trained("SCNN"), path)
    before = path.read_bytes()
    program = (
        "import os, signal, sys\n"
        "import lincode\n"
        "model = lincode.load(sys.argv[1])\n"
        "os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)\n"
        "lincode.save(model, sys.argv[1])\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_bytes() == before
