"""A search for data and parameters that break an estimator.

The short run always tries the same examples. Add the failing example of a long search with
``@example`` when the bug is fixed, because the short run does not know it otherwise.
"""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.base import clone

from lincode import SCNN, MiniBatchSCNN
from tests.fuzz import invariants as inv
from tests.fuzz.data import Rows, rows
from tests.fuzz.strategies import ENERGY, Network, networks
from tests.fuzz.support import (
    assert_same_bits,
    codes_of,
    dense,
    fingerprint,
    fitted,
    fuzz,
    watched,
)

N_ROWS = 12
"""Rows whose codes are solved to a high accuracy."""

pytestmark = pytest.mark.slow


def check_network(model: Any, data: Rows) -> None:
    """All that holds for the learned arrays of every estimator."""
    inv.check_arrays(model)
    inv.check_shapes(model, data.p, data.precision())


def check_training(model: Any, X: Any, data: Rows) -> None:
    """All that holds for an SCNN that minimises the energy of the data."""
    check_network(model, data)
    inv.check_energy_path(model)
    U, solved = codes_of(model, X)
    if solved:
        inv.check_energy(model, data.reference(), U, data.precision())


def check_codes(model: Any, data: Rows) -> None:
    """All that holds for the codes of rows by the model's algorithm."""
    X, reference, dtype = data.build(), data.reference(), data.precision()
    U, solved = codes_of(model, X)
    if not solved:
        return
    inv.check_codes(model, reference, U, dtype)
    exact, some = reference.astype(dtype), np.arange(0, data.n, 2)[::-1]
    V, solved = codes_of(model, exact[some])
    if solved:
        inv.check_same_codes(model, reference[some], U[some], V, dtype, "a subset of rows")
    V, solved = codes_of(model, scipy.sparse.csr_array(exact))
    if solved:
        inv.check_same_codes(model, reference, U, V, dtype, "sparse rows")
    with watched():
        inv.check_score(model, reference, U, model.score(X), dtype)
        back = model.inverse_transform(model.transform(X))
    assert back.shape == reference.shape, "reconstructions have the shape of X"
    assert np.isfinite(back).all(), "reconstructions must be finite"


DEFAULTS = {"max_iter": 20, "random_state": 0, "n_jobs": 1}
FLAT = {"encoder_weight": 0.0, "positive_code": True, "random_state": 48}


@given(rows(), networks())
@example(Rows("row_scales", n=16, p=10, seed=306), Network(None, 1e-7, parameters=DEFAULTS | FLAT))
@example(Rows("one_hot", n=3, p=10), Network(parameters=DEFAULTS))
@example(Rows("outlier_row", n=5, p=20), Network(5, 1e-7, parameters=DEFAULTS))
@example(Rows("uncentred", n=10, p=40), Network(5, 1e-7, parameters=DEFAULTS))
@fuzz(60)
def test_training(data: Rows, network: Network) -> None:
    model, X, reference = fitted(SCNN, data, network.trained_only())
    check_training(model, X, data)
    inv.check_start(model, reference, network.alpha_fraction, data.precision())


@given(rows(largest=30), networks(), st.integers(1, N_ROWS), st.booleans())
@fuzz(15, part=0.4)
def test_codes(data: Rows, network: Network, n: int, single: bool) -> None:
    """Codes of the training rows and of new ones, by every algorithm."""
    model, _, _ = fitted(SCNN, data, network)
    new = replace(data.with_seed(1), n=n)
    if single and data.dtype == "float64" and abs(data.exponent) < 7:
        new = replace(new, dtype="float32")
    algorithms = ["lasso", *(ENERGY if model.density_ is None else ("encoder", "projection"))]
    algorithms += [] if model.density_ is None or model.positive_code else ["omp"]
    for unseen in (replace(data, n=min(data.n, n)), new):
        for algorithm in algorithms:
            check_codes(copy.deepcopy(model).set_params(transform_algorithm=algorithm), unseen)


@given(rows(largest=20), networks(minibatch=True), st.booleans())
@fuzz(25, part=0.6)
def test_the_same_model_comes_back(data: Rows, network: Network, minibatch: bool) -> None:
    """The same seed, ``fit_transform`` and pickle give the same bits."""
    model, X, _ = fitted(MiniBatchSCNN if minibatch else SCNN, data, network)
    check_network(model, data)
    check_codes(model, replace(data.with_seed(1), n=N_ROWS))
    with watched():
        codes = dense(model.transform(X))
        assert_same_bits(model, clone(model).fit(X), "a second fit")
        assert np.array_equal(dense(clone(model).fit_transform(X)), codes), "fit_transform"
        copied = pickle.loads(pickle.dumps(model))
        assert_same_bits(model, copied, "pickle")
        assert np.array_equal(dense(copied.transform(X)), codes), "codes of a pickled model"
        if minibatch:
            X = data.with_seed(1).build()
            assert_same_bits(model.partial_fit(X), copied.partial_fit(X), "a pickled stream")


GAUSSIAN = Rows("gaussian", n=2, p=24, seed=625)


@given(rows(30), st.lists(rows(30), max_size=3), networks(minibatch=True))
# Codes of two rows do not reach the tolerance within the largest number of steps.
@example(
    GAUSSIAN,
    [GAUSSIAN.with_seed(241), GAUSSIAN, Rows("row_scales", n=27, p=24, seed=115)],
    Network(parameters=DEFAULTS | {"transform_algorithm": "lasso", "max_iter": 1}),
)
@example(
    Rows(n=5, p=1, exponent=100),
    [Rows(n=15, p=1), Rows("zeros", n=1, p=1), Rows(n=1, p=1)],
    Network(parameters={"max_iter": 1, "batch_size": 7, "random_state": 0}),
)
@example(
    Rows(n=20, p=1, dtype="float16", container="csr_matrix"),
    [Rows("zeros", n=1, p=1)],
    Network(parameters={"max_iter": 1, "batch_size": 7, "random_state": 0}),
)
@fuzz(20, part=0.5)
def test_partial_fit(first: Rows, later: list[Rows], network: Network) -> None:
    """Batches of different sizes and kinds. One alpha must suit all, so they have one scale."""
    same: Any = {"p": first.p, "exponent": first.exponent, "dtype": first.dtype}
    stream = [first, *(replace(batch, **same) for batch in later)]
    model = network.build(MiniBatchSCNN, first.build(), first.p)
    seen = 0
    for data in stream:
        X = data.build()
        before = fingerprint(X)
        with watched():
            model.partial_fit(X)
        assert fingerprint(X) == before, "partial_fit must not change X"
        seen += data.n
        check_network(model, data)
        assert model.n_samples_seen_ == seen, "n_samples_seen_ must count the rows"
    assert len(model.energy_path_) <= model.n_steps_ == len(stream), "one step per batch"
    check_codes(model, replace(stream[-1], n=min(stream[-1].n, N_ROWS)))


@given(rows(missing=True), networks(minibatch=True), st.booleans())
@fuzz(20, part=0.5)
def test_missing_entries(data: Rows, network: Network, minibatch: bool) -> None:
    """Training and codes of data with holes: everything is finite, and the energy decreases."""
    model, X, _ = fitted(MiniBatchSCNN if minibatch else SCNN, data, network)
    check_network(model, data)
    if not minibatch:
        inv.check_energy_path(model)
    codes_of(model, X)
    with watched():
        assert np.isfinite(model.reconstruct(X)).all()
        assert np.isfinite(model.score(X))
        if model.density_ is not None:
            model.calibrate(X)
