"""Refinement in fit: better than its start, for every kind of data, unit and number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from lincode import SCNN, MiniBatchSCNN
from lincode.encoder import refinement
from lincode.encoder.refinement import Schedule
from lincode.estimators import base, minibatch

ESTIMATORS = [
    pytest.param(SCNN(16, random_state=0), id="SCNN"),
    pytest.param(MiniBatchSCNN(16, random_state=0), id="MiniBatchSCNN"),
]


def planted(N: int, p: int, seed: int = 0) -> Any:
    """Sums of few of 16 sparse atoms, and noise."""
    rng = np.random.default_rng(0)
    D = rng.standard_normal((16, p)) * (rng.random((16, p)) < 0.2)
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((N, 16)) * (rng.random((N, 16)) < 0.15)
    return U @ D + 0.1 * rng.standard_normal((N, p)) * (rng.random((N, p)) < 0.1)


class NoSteps(Schedule):
    """A schedule with which the start remains."""

    def __init__(self, *args: Any) -> None:
        super().__init__(0)

    @classmethod
    def of(cls, N: int, m: int) -> Schedule:
        return cls()


def start_of(scnn: Any, X: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the network before the refinement."""
    with monkeypatch.context() as context:
        context.setattr(base, "Schedule", NoSteps)
        context.setattr(minibatch, "Schedule", NoSteps)
        return clone(scnn).fit(X)


@pytest.mark.parametrize("cls", [SCNN, MiniBatchSCNN])
def test_many_units_start_from_samples(cls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The energy is minimised only if a parameter of it is set; both networks are good."""
    X = planted(1200, 24)
    X, new = X[:1000].astype(np.float32), X[1000:]
    monkeypatch.setattr(base, "MAX_START_UNITS", 15)
    for parameters in ({}, {"positive_dict": True}, {"density": 4}):
        scnn = cls(16, random_state=0, **{"density": 0.25} | parameters).fit(X)
        assert scnn.n_iter_ == 0
        assert scnn.energy_path_.size == 0
        assert scnn.usage_.all()
        minimised = clone(scnn).set_params(alpha=scnn.alpha_).fit(X)
        assert minimised.n_iter_ > 0
        assert scnn.score(new) > max(0.5, minimised.score(new) - 0.1)
    stream = MiniBatchSCNN(16, density=0.25, random_state=0)
    for batch in np.split(X, 4):
        stream.partial_fit(batch)
    assert stream.score(new) > 0.5
    warm = clone(scnn).set_params(warm_start=True).fit(X) if cls is SCNN else scnn
    before = warm.score(X)
    assert warm.fit(X).score(X) > before - 0.02


@pytest.mark.filterwarnings("ignore:.*poor features")
@pytest.mark.parametrize("scnn", ESTIMATORS)
@pytest.mark.parametrize("data", ["digits", "few samples", "noise"])
def test_refined_network_is_not_worse_than_its_start(
    scnn: Any, data: str, digits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(0).standard_normal((60, 100))
    X = {"digits": digits[:400], "few samples": digits[:25], "noise": noise}[data]
    scnn = clone(scnn).set_params(density=0.25)
    refined, start = clone(scnn).fit(X), start_of(scnn, X, monkeypatch)
    assert refined.encoder_r2_ >= start.encoder_r2_
    assert_allclose(np.linalg.norm(start.components_, axis=1), 1, atol=1e-5)
    if data == "digits":
        assert refined.score(digits[400:]) > start.score(digits[400:]) + 0.02
        plain = clone(scnn).set_params(refine=False).fit(X)
        assert refined.score(digits[400:]) > plain.score(digits[400:])


@pytest.mark.parametrize("scnn", ESTIMATORS)
def test_held_out_samples_are_not_used_by_the_steps(
    scnn: Any, digits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Any] = []
    original = refinement.refine

    def record(
        start: Any, gradients: Any, batches: Any, held_out: Any, *args: Any, **options: Any
    ) -> Any:
        used.append((gradients.directions.rotated(held_out), next(batches)))
        return original(start, gradients, batches, held_out, *args, **options)

    monkeypatch.setattr(base, "refine", record)
    clone(scnn).fit(digits[:500])
    ((held_out, batch),) = used
    assert len(held_out) == 100
    assert len(batch) == 400
    distances = np.linalg.norm(held_out[:, None] - batch, axis=2)
    assert distances.min() > 1e-3


def check_wide(scnn: Any, p: int, sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    X, new = planted(300, p), planted(200, p, seed=1)
    rows = scipy.sparse.csr_array(X) if sparse else X
    scnn = clone(scnn).set_params(density=0.15, encoder_ridge=0.1)
    refined, start = clone(scnn).fit(rows), start_of(scnn, rows, monkeypatch)
    assert refined.score(new) > start.score(new) + 0.02
    assert_allclose(np.mean(refined.transform(new) != 0), 0.15, rtol=0.15)


@pytest.mark.parametrize("scnn", ESTIMATORS)
@pytest.mark.parametrize("sparse", [False, True])
def test_many_features(scnn: Any, sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refinement, "MAX_ROTATED_FEATURES", 100)
    check_wide(scnn, 120, sparse, monkeypatch)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:SCNN. max_iter")
def test_more_features_than_are_rotated(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refinement.MAX_ROTATED_FEATURES < 2100
    check_wide(SCNN(16, random_state=0, max_iter=2), 2100, False, monkeypatch)


@pytest.mark.parametrize("scnn", ESTIMATORS)
def test_missing_entries(scnn: Any, digits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    holes = np.where(np.random.default_rng(0).random(digits.shape) < 0.2, np.nan, digits)
    refined, start = clone(scnn).fit(holes[:400]), start_of(scnn, holes[:400], monkeypatch)
    for new in (digits[400:], holes[400:]):
        assert refined.score(new) > start.score(new) + 0.005
    assert refined.score(digits[400:]) > clone(scnn).fit(digits[:400]).score(digits[400:]) - 0.05


@pytest.mark.parametrize("scnn", ESTIMATORS)
def test_callback_sees_the_refinement_and_can_stop_it(
    scnn: Any, digits: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callback does not change the training, also if it starts from samples."""
    monkeypatch.setattr(base, "MAX_START_UNITS", 15)
    plain, seen, snapshots = clone(scnn).fit(digits), [], []
    assert capsys.readouterr().out == ""

    def record(now: Any) -> None:
        seen.append(now)
        snapshots.append(now.snapshot())

    observed = clone(scnn).set_params(callback=record, verbose=1).fit(digits)
    assert_array_equal(observed.encoder_, plain.encoder_)
    assert {now.stage for now in seen} == {"refinement"}
    assert seen[0].n_samples == 50_000  # 100 samples are held out
    assert seen[-1].encoder_r2 == plain.encoder_r2_
    assert_array_equal(snapshots[-1].transform(digits), plain.transform(digits))
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith(f"[{type(scnn).__name__}] refinement, 50000 samples: ")
    stopped = clone(scnn).set_params(callback=lambda now: True).fit(digits)
    assert_array_equal(stopped.encoder_, snapshots[0].encoder_)
