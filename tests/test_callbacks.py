"""Checkpoints: a training that was interrupted continues from the last complete file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits

import lincode
from lincode import SCNN, MiniBatchSCNN
from lincode.callbacks import Checkpoint
from lincode.exceptions import InvalidInputError

X: Any = load_digits().data[:400] / 16


class InterruptedFitError(Exception):
    pass


@pytest.fixture(scope="module")
def fitted() -> SCNN:
    return SCNN(5, random_state=0, tol=1e-2).fit(X)


def iteration(model: Any, seconds: float = 0.0) -> Any:
    return SimpleNamespace(seconds=seconds, snapshot=lambda: model)


def test_the_estimator_is_saved_after_each_iteration(fitted: SCNN, tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    checkpoint = Checkpoint(path, every=0)
    for _ in range(2):
        checkpoint(iteration(fitted))
        assert_array_equal(lincode.load(path).transform(X), fitted.transform(X))
        path.unlink()


def test_saves_are_separated_by_the_given_time(fitted: SCNN, tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    checkpoint = Checkpoint(path, every=3600)
    checkpoint(iteration(fitted, seconds=3599))
    assert not path.exists()
    checkpoint = Checkpoint(path, every=3600)
    checkpoint(iteration(fitted, seconds=3601))
    assert path.exists()
    path.unlink()
    checkpoint(iteration(fitted, seconds=3602))
    assert not path.exists()


def test_a_file_that_cannot_be_written_warns_once(fitted: SCNN, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "folder", every=0)
    (tmp_path / "folder").mkdir()
    with pytest.warns(UserWarning, match="checkpoint .*folder cannot be written"):
        checkpoint(iteration(fitted))
    checkpoint(iteration(fitted))  # a second warning would be an error


def test_invalid_parameters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="every must be a number of at least 0, got -1"):
        Checkpoint(tmp_path / "model.skops", every=-1)
    with pytest.raises(InvalidInputError, match="its folder does not exist"):
        Checkpoint(tmp_path / "missing" / "model.skops")


def test_an_interrupted_fit_continues(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    checkpoint = Checkpoint(path, every=0)

    def interrupt(iteration: Any) -> None:
        checkpoint(iteration)
        if iteration.n_iter == 3:
            raise InterruptedFitError

    # The network is not calibrated, so that it is the one that training has reached.
    options: dict[str, Any] = dict(refine=False, transform_algorithm="exact")
    options |= dict(random_state=0, tol=1e-3)
    with pytest.raises(InterruptedFitError):
        SCNN(10, callback=interrupt, **options).fit(X)
    whole = SCNN(10, **options).fit(X)
    loaded = lincode.load(path)
    assert loaded.callback is None
    assert loaded.transform(X).shape == (400, 10)
    continued = loaded.set_params(warm_start=True).fit(X)
    assert continued.energy_path_[1] <= whole.energy_path_[3]
    # The codes are solved again, which can lead to another local minimum.
    assert continued.energy_ == pytest.approx(whole.energy_, rel=2e-2)


def test_an_interrupted_stream_continues(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    batches = np.array_split(X, 4)
    stream = MiniBatchSCNN(10, random_state=0, callback=Checkpoint(path, every=0))
    for batch in batches[:2]:
        stream.partial_fit(batch)
    loaded = lincode.load(path)
    assert loaded.n_samples_seen_ == 200
    for batch in batches[2:]:
        stream.partial_fit(batch)
        loaded.partial_fit(batch)
    assert_array_equal(loaded.components_, stream.components_)
