"""A search for data and parameters that break an estimator.

The short run always tries the same examples. Add the failing example of a long search with
``@example`` when the bug is fixed, because the short run does not know it otherwise.
"""

from __future__ import annotations

import copy
import pickle
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.base import clone

import lincode
from lincode import SCNN, MiniBatchSCNN, scnn_path
from tests.fuzz import invariants as inv
from tests.fuzz.cases import fuzz
from tests.fuzz.data import Rows
from tests.fuzz.strategies import (
    ALGORITHM,
    ALGORITHMS,
    ALPHA_RATIOS,
    LASSO,
    Network,
    batches,
    difficult_cases,
    fitted_alpha,
    minibatch_networks,
    n_steps,
    paper_networks,
    rows,
    scnn_networks,
)
from tests.fuzz.support import (
    assert_same_bits,
    codes_of,
    dense,
    fingerprint,
    fitted,
    solvable,
)
from tests.fuzz.watching import watched

N_ROWS = 12
"""Rows whose codes are solved to a high accuracy."""

pytestmark = pytest.mark.slow


def check_network(model: Any, data: Rows) -> None:
    """All that holds for the learned arrays of every estimator."""
    inv.check_finite(model)
    inv.check_shapes(model, data.p, data.precision())
    inv.check_atoms(model)


def check_training(model: Any, X: Any, reference: Any, data: Rows, network: Network) -> None:
    """All that holds for a fitted SCNN and the data it was fitted to."""
    dtype = data.precision()
    check_network(model, data)
    inv.check_energy_path(model)
    inv.check_matching_threshold(model, reference, dtype)
    if network.init != "paper":
        inv.check_first_energy(model, reference, dtype)
        inv.check_no_codes_from_alpha_max(model, network.alpha_fraction)
    model = copy.deepcopy(model).set_params(**{ALGORITHM: "exact", "transform_tol": 1e-6})
    solvable(model, network, data)
    exact, solved = codes_of(model, X)
    if solved:
        inv.check_energy(model, reference, exact, dtype)
        with watched():
            inv.check_score(model, X, reference, exact, dtype)


def check_codes(model: Any, X: Any, reference: Any, dtype: Any) -> None:
    """All that holds for the codes of rows by the model's algorithm."""
    algorithm = getattr(model, ALGORITHM)
    U, solved = codes_of(model, X)
    if not solved:
        return
    if algorithm == "encoder":
        inv.check_encoder_codes(model, reference, U, dtype)
    else:
        inv.check_solved_codes(model, reference, U, dtype, lasso=algorithm == LASSO)
    exact = reference.astype(dtype)
    some = np.arange(0, len(exact), 2)[::-1]
    V, _ = codes_of(model, exact[some])
    inv.check_same_codes(model, reference[some], U[some], V, dtype, "codes of a subset of rows")
    V, _ = codes_of(model, scipy.sparse.csr_array(exact))
    inv.check_same_codes(model, reference, U, V, dtype, "codes of sparse rows")
    with watched():
        back = model.inverse_transform(model.transform(X))
        again = model.reconstruct(X)
    assert back.shape == again.shape == reference.shape, "reconstructions have the shape of X"
    assert np.isfinite(back).all(), "reconstructions must be finite"


DEFAULTS = {"max_iter": 20, "random_state": 0, "n_jobs": 1}
FLAT = {"encoder_weight": 0.0, "positive_code": True, "random_state": 48}


@given(difficult_cases())
@example(
    (Rows("row_scales", n=16, p=10, seed=306), Network(None, 1e-7, parameters=DEFAULTS | FLAT))
)
@example((Rows("one_hot", n=3, p=10), Network(parameters=DEFAULTS)))
@example((Rows("outlier_row", n=5, p=20), Network(5, 1e-7, parameters=DEFAULTS)))
@example((Rows("uncentred", n=10, p=40), Network(5, 1e-7, parameters=DEFAULTS)))
@fuzz(15, part=0.1)
def test_training_on_difficult_data(case: tuple[Rows, Network]) -> None:
    """Ten fits with different seeds for each example: some failures are rare and fits are fast."""
    data, network = case
    for k in range(10):
        seed = network.parameters["random_state"] + k
        seeded = replace(network, parameters={**network.parameters, "random_state": seed})
        model, _, _ = fitted(SCNN, data.with_seed(k), seeded)
        check_network(model, data)
        inv.check_energy_path(model)


@given(rows(), scnn_networks())
@fuzz(150, part=0.7)
def test_training(data: Rows, network: Network) -> None:
    model, X, reference = fitted(SCNN, data, network)
    check_training(model, X, reference, data, network)


@given(rows(largest=5), paper_networks())
@fuzz(8, part=0.03)
def test_training_with_the_solver_of_the_paper(data: Rows, network: Network) -> None:
    model, X, reference = fitted(SCNN, data, network)
    check_training(model, X, reference, data, network)


@given(rows(largest=30), scnn_networks(), st.integers(1, N_ROWS), st.booleans())
@fuzz(40, part=0.3)
def test_codes(data: Rows, network: Network, n: int, single: bool) -> None:
    """Codes of the training rows and of new ones, by every algorithm."""
    model, _, _ = fitted(SCNN, data, network)
    new = replace(data.with_seed(1), n=n)
    if single and data.dtype == "float64" and abs(data.exponent) < 7:
        new = replace(new, dtype="float32")
    for unseen in (replace(data, n=min(data.n, n)), new):
        X, reference, dtype = unseen.build(), unseen.reference(), unseen.precision()
        for algorithm in ALGORITHMS:
            chosen = copy.deepcopy(model).set_params(**{ALGORITHM: algorithm})
            solvable(chosen, network, unseen)
            check_codes(chosen, X, reference, dtype)


@given(rows(largest=20), scnn_networks(), st.booleans())
@fuzz(40, part=0.4)
def test_the_same_model_comes_back(data: Rows, network: Network, minibatch: bool) -> None:
    """The same seed, ``fit_transform``, pickle, save and load give the same bits."""
    if minibatch:
        network = replace(network, init="data")
    cls = MiniBatchSCNN if minibatch else SCNN
    model, X, _ = fitted(cls, data, network)
    solvable(model, network, data)
    with watched():
        codes = dense(model.transform(X))
        twin = clone(model)
        assert_same_bits(model, twin.fit(X), "a second fit")
        assert np.array_equal(dense(clone(model).fit_transform(X)), codes), "fit_transform"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.skops")
            lincode.save(model, path)
            loaded = lincode.load(path)
        for what, other in (("pickle", pickle.loads(pickle.dumps(model))), ("load", loaded)):
            assert_same_bits(model, other, what)
            assert np.array_equal(dense(other.transform(X)), codes), f"{what}: codes changed"
        if minibatch and not (model.fit_decoder or model.refine_max_iter):  # refused otherwise
            X = data.with_seed(1).build()
            assert_same_bits(model.partial_fit(X), loaded.partial_fit(X), "partial_fit after load")


@given(rows(largest=20), minibatch_networks())
@fuzz(40, part=0.5)
def test_minibatch_fit(data: Rows, network: Network) -> None:
    model, _, _ = fitted(MiniBatchSCNN, data, network)
    check_network(model, data)
    assert len(model.energy_path_) == n_steps(model), "energy_path_ has one entry per batch"
    new = replace(data.with_seed(1), n=N_ROWS)
    solvable(model, network, new)
    check_codes(model, new.build(), new.reference(), new.precision())


GAUSSIAN = Rows("gaussian", n=2, p=24, seed=625)
LASSO_CODES = {ALGORITHM: LASSO, "max_iter": 1, "n_jobs": 1, "random_state": 0}


@given(batches(), minibatch_networks())
# Codes of two rows do not reach the tolerance within the largest number of steps.
@example(
    [GAUSSIAN, GAUSSIAN.with_seed(241), GAUSSIAN, Rows("row_scales", n=27, p=24, seed=115)],
    Network(parameters=LASSO_CODES),
)
@fuzz(40, part=0.4)
def test_partial_fit(stream: list[Rows], network: Network) -> None:
    first = stream[0].build()
    model = network.build(MiniBatchSCNN, first, stream[0].p)
    model.set_params(fit_decoder=False, refine_max_iter=0)  # partial_fit refuses them
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
    assert n_steps(model) == len(model.energy_path_) == len(stream), "one step per batch"
    most = float((stream[0].reference() ** 2).sum()) / stream[0].p / stream[0].n
    assert model.energy_path_[0] <= most * (1 + 1e-4), "the first energy is at most that of U = 0"
    last = replace(stream[-1], n=min(stream[-1].n, N_ROWS))
    solvable(model, network, last)
    check_codes(model, last.build(), last.reference(), last.precision())


@given(rows(largest=15), scnn_networks(), st.lists(st.sampled_from([0.9, 0.1, 0.01]), min_size=1))
@fuzz(8, part=0.1)
def test_path(data: Rows, network: Network, ratios: list[float]) -> None:
    X = data.build()
    parameters: dict[str, Any] = network.build(SCNN, X, data.p).get_params()
    del parameters["alpha"]
    parameters[ALPHA_RATIOS] = ratios
    before = fingerprint(X)
    with watched():
        models = scnn_path(X, **parameters)
    assert fingerprint(X) == before, "scnn_path must not change X"
    alphas = [fitted_alpha(model) for model in models]
    assert len(models) == len(ratios), "one model per ratio"
    assert alphas == sorted(alphas, reverse=True), f"alpha must fall, got {alphas}"
    for model in models:
        # Only the first starts from C = 0.
        check_training(model, X, data.reference(), data, replace(network, init="paper"))


@given(rows(), scnn_networks(), st.sampled_from([0.1, 0.4, 0.8]), st.booleans())
@fuzz(60, part=0.5)
def test_missing_entries(data: Rows, network: Network, fraction: float, minibatch: bool) -> None:
    """Training and codes of data with holes: everything is finite, and the energy decreases."""
    X = data.reference().astype(data.precision())
    rng = np.random.default_rng(data.seed)
    missing = rng.random(X.shape) < fraction
    missing[0] = False  # every feature has an observed entry
    holes = np.where(missing, np.asarray(np.nan, X.dtype), X)
    cls: Any = MiniBatchSCNN if minibatch else SCNN
    if minibatch and network.init == "paper":
        network = replace(network, init="data")
    model = network.build(cls, holes, data.p)
    before = fingerprint(holes)
    with watched():
        model.fit(holes)
    assert fingerprint(holes) == before, "fit must not change X"
    check_network(model, data)
    if not minibatch:
        inv.check_energy_path(model)
    solvable(model, network, data)
    codes_of(model, holes)
    with watched():
        assert np.isfinite(model.reconstruct(holes)).all()
        assert np.isfinite(model.score(holes))
        model.calibrate(holes)
