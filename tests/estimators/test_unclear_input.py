"""Input that was once used in a wrong way, or refused without a clear sentence."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from lincode import (
    ASCNN,
    SAANN,
    SCNN,
    SCNNCV,
    MiniBatchSCNN,
    SparseCoder,
    Sparsenet,
    scnn_path,
    sparse_encode,
)
from lincode.exceptions import InvalidInputError

D = np.eye(3)[:2]
ESTIMATORS = [SCNN(2), MiniBatchSCNN(2), SCNNCV(), SAANN(2), ASCNN(2), Sparsenet(2), SparseCoder(D)]
every_estimator = pytest.mark.parametrize("model", ESTIMATORS, ids=lambda m: type(m).__name__)
X = np.random.default_rng(0).standard_normal((8, 3))

UNCLEAR: dict[str, tuple[Any, str]] = {
    "ragged lists": ([[1.0, 2.0, 3.0], [1.0]], "the same number of entries in every row"),
    "a lazy frame": (pl.LazyFrame({"a": [1.0]}), r"must be in memory.* use X\.collect\(\)"),
    "an empty frame": (pd.DataFrame(), "a data frame with 0 rows and 0 columns"),
    "a frame without rows": (pd.DataFrame({"a": []}), "a data frame with 0 rows and 1 columns"),
    "an empty frame of polars": (pl.DataFrame(), "a data frame with 0 rows and 0 columns"),
    "a generator": ((row for row in X), "must be one array .* got generator"),
    "a path": ("X.npy", "must be a matrix of numbers .* got str; load the file first"),
    "a dict": ({"a": [1.0]}, "must be a matrix of numbers .* got dict"),
    "nothing": (None, "must be a matrix of numbers .* got NoneType"),
    "dates": (np.full((4, 3), np.datetime64("2020-01-01")), "entries are dates"),
    "a frame of dates": (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), "entries are dates"),
    "dates of polars": (pl.DataFrame({"a": [datetime.date(2020, 1, 1)]}), "entries are dates"),
    "a set": ({1.0}, "must be a matrix of numbers .* got set"),
}


@every_estimator
@pytest.mark.parametrize("what", UNCLEAR)
def test_unclear_input_is_refused_with_a_sentence(model: Any, what: str) -> None:
    value, message = UNCLEAR[what]
    with pytest.raises(InvalidInputError, match=message):
        model.fit(value)


@every_estimator
def test_masked_entries_are_missing_or_refused_and_never_used(model: Any) -> None:
    masked = np.ma.masked_array(X.copy(), mask=np.eye(8, 3) > 0)
    masked.data[masked.mask] = 1e6
    if isinstance(model, SCNN | MiniBatchSCNN | SCNNCV):
        return  # tests/estimators/test_missing.py
    with pytest.raises(InvalidInputError, match="contains NaN"):
        model.fit(masked)


def test_masked_entries_of_dictionaries_are_refused() -> None:
    masked = np.ma.masked_array(X, mask=X > 1)
    calls: list[Callable[[], Any]] = [
        lambda: SCNN(8, init=masked).fit(X),
        lambda: sparse_encode(X, masked),
        lambda: SparseCoder(masked).transform(X),
        lambda: sparse_encode(X, D, init=np.ma.masked_array(np.ones((8, 2)), X[:, :2] > 0)),
        lambda: SCNN(2).fit(X, sample_weight=np.ma.masked_array(np.ones(8), X[:, 0] > 0)),
        lambda: SCNN(3, random_state=0, alpha="0.1*max").fit(X).inverse_transform(masked),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match=r"masked|NaN"):
            call()


def test_huge_initial_atoms_keep_their_directions() -> None:
    init = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 1e-3]])
    huge = init * np.array([[1e300], [1.0]])
    models = [SCNN(2, init=atoms, alpha="0.1*max").fit(X) for atoms in (init, huge)]
    assert_allclose(models[0].components_, models[1].components_, rtol=1e-12)


@pytest.mark.parametrize("cls", [SAANN, ASCNN])
@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e120, np.float64), (1e-120, np.float64), (1e13, np.float32), (1e-13, np.float32)],
)
def test_scales_whose_cubes_overflow_are_refused(cls: Any, scale: float, dtype: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot represent the cubes .* Divide X by"):
        cls(2, max_iter=2).fit((scale * X).astype(dtype))


def test_a_steep_penalty_of_sparsenet_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"alpha / sigma must be at most .* sigma=0.1"):
        Sparsenet(3, sigma=0.1).fit(1e100 * X)


@pytest.mark.parametrize("cls", [SAANN, ASCNN])
@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e90, np.float64), (1e-90, np.float64), (1e9, np.float32), (1e-9, np.float32)],
)
def test_scales_whose_cubes_do_not_overflow_are_learned(cls: Any, scale: float, dtype: Any) -> None:
    model = cls(2, max_iter=3, alpha=0.1 * scale**2, random_state=0)
    codes = model.fit_transform((scale * X).astype(dtype))
    assert np.isfinite(codes).all()
    assert np.isfinite(model.energy_path_).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("p", "m"), [(1, 1), (5, 1), (1, 3)])
def test_exact_codes_of_a_dictionary_of_rank_one(dtype: Any, p: int, m: int) -> None:
    """The steps end: a warning about codes that are not solved would be an error."""
    data = np.random.default_rng(0).standard_normal((20, p)).astype(dtype)
    model = SCNN(m, "0.1*max", encoder_weight=0, transform_algorithm="exact", random_state=0)
    U = model.fit(data).transform(data).astype(np.float64)
    atoms, tau = model.components_.astype(np.float64), model.alpha_ * p / m
    G = U @ atoms @ atoms.T - data.astype(np.float64) @ atoms.T
    violation = np.where(U == 0, np.maximum(np.abs(G) - tau, 0), np.abs(G + tau * np.sign(U)))
    assert violation.max() <= 100 * np.finfo(dtype).eps * np.abs(data).sum(axis=1).max()


@pytest.mark.parametrize("mode", ["hard", "soft", "top_k"])
@pytest.mark.parametrize("sparse", [False, True])
def test_samples_whose_codes_overflow_are_refused(mode: str, sparse: bool) -> None:
    model = SCNN(2, "0.1*max", threshold_mode=mode, random_state=0)
    model.fit(X)
    huge: Any = np.full((5, 3), 1e308) * np.sign(model.encoder_[1])
    huge = scipy.sparse.csr_array(huge) if sparse else huge
    model.encoder_[1] *= 100
    with pytest.raises(InvalidInputError, match="too large for float64; divide X by a number"):
        model.transform(huge)
    model.gains_[:] = 1e300
    with pytest.raises(InvalidInputError, match="too large for float64"):
        model.transform(1e20 * X)


def test_folds_and_grids() -> None:
    for arguments, message in [
        ({"cv": []}, "at least one fold"),
        ({"cv": [([0, 1, 2], [8])]}, "indices of the 8 samples"),
        ({"cv": [([], [1])]}, "at least one index"),
        ({"cv": [([0.5], [1])]}, "arrays of indices"),
        ({"alphas": "text"}, "a sequence of finite numbers .* got 'text'"),
        ({"alphas": ["text"]}, "got the entry 'text'"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            SCNNCV(SCNN(2), **arguments).fit(X)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="y must be finite"):
        SCNNCV(SCNN(2), criterion="score").fit(X, np.full(8, np.nan))
    with pytest.raises(InvalidInputError, match="alpha_ratios must be at most"):
        scnn_path(1e100 * X, 2, alpha_ratios=[1e300])
    with pytest.raises(InvalidInputError, match="got the entry 'text'"):
        scnn_path(X, 2, alphas=["text"])


@pytest.mark.parametrize(
    "model",
    [
        MiniBatchSCNN(2, half_life=np.ones(2)),  # type: ignore[arg-type]
        SCNN(2, refine_max_iter=2, threshold=np.ones(2)),  # type: ignore[arg-type]
        SparseCoder(np.nan),
        SparseCoder(10**400),
        SCNN(2, init=10**400),
        MiniBatchSCNN(2, init=10**400),
        SCNNCV(SCNN(2), alpha_ratios=10**400),
        SCNNCV(SCNN(2), alpha_ratios=0),
        SparseCoder("text"),
    ],
)
def test_arrays_and_numbers_in_place_of_each_other(model: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"must|dictionary"):
        model.fit(X)
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("fit_decoder", [False, True])
def test_nothing_is_reconstructed_by_codes_that_cancel_each_other(fit_decoder: bool) -> None:
    for seed in range(4):
        data = 1e-100 * np.random.default_rng(seed).standard_normal((10, 2))
        model = SCNN(33, "0.01*max", init="paper", threshold="alpha", max_iter=1, random_state=0)
        model.set_params(fit_gains=False, fit_decoder=fit_decoder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(data)
        assert model.encoder_r2_ <= 1


def test_the_change_of_the_energy_may_be_infinite() -> None:
    data = 1e100 * np.random.default_rng(0).standard_normal((5, 3))
    changes: list[float] = []
    model = MiniBatchSCNN(
        alpha=1e-300,
        encoder_weight=0,
        batch_size=1,
        max_iter=1,
        max_no_improvement=None,
        random_state=0,
        callback=lambda iteration: changes.append(iteration.change),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(data)
    assert np.inf in changes


def test_reconstructions_that_overflow_are_refused() -> None:
    coder = SparseCoder(np.full((1, 1), 1e140), transform_algorithm="threshold", transform_alpha=1)
    codes = coder.fit_transform([[1e140]])
    assert codes == pytest.approx(1e280)
    for U in (codes, scipy.sparse.csr_array(codes)):
        with pytest.raises(InvalidInputError, match="the reconstruction must be finite"):
            coder.inverse_transform(U)


def test_extreme_parameters_do_not_overflow() -> None:
    data = X.astype(np.float32)
    model = SCNN(
        4, "0.1*max", encoder_ridge=1e150, transform_tol=1e300, transform_algorithm="exact"
    )
    codes = model.fit(data).transform(data)
    assert np.isfinite(codes).all()
    assert np.isfinite(model.score(data))
    assert_allclose(model.encoder_, 0, atol=1e-30)
    with pytest.raises(InvalidInputError, match=r"the energy is .* at the start"):
        ASCNN(2, sigma=1e-300, alpha=1.0, max_iter=2).fit(data)


@pytest.mark.parametrize("cls", [SCNN, MiniBatchSCNN])
def test_duplicate_entries_of_sparse_samples_are_added(cls: Any) -> None:
    """SciPy allows several parts of an entry. Their squares are not those of the sum."""
    data = np.where(np.abs(X) > 0.3, X, 0)
    n, p = data.shape
    parts = np.stack([-data, 2 * data], axis=2).ravel()
    columns = np.tile(np.repeat(np.arange(p), 2), n)
    duplicated = scipy.sparse.csr_matrix((parts, columns, np.arange(n + 1) * 2 * p), (n, p))
    before = duplicated.data.copy()
    model = cls(4, "0.1*max", random_state=0, max_iter=100).fit(scipy.sparse.csr_matrix(data))
    other = cls(4, "0.1*max", random_state=0, max_iter=100).fit(duplicated)
    assert_array_equal(duplicated.data, before)
    assert_allclose(other.components_, model.components_, rtol=1e-12)
    assert_allclose(other.energy_path_, model.energy_path_, rtol=1e-12)
    assert_allclose(other.score(duplicated), other.score(data), rtol=1e-12)
    assert_allclose(other.transform(duplicated), other.transform(data), atol=1e-12)


@pytest.mark.parametrize("seed", [-1, 1.5, "x", 2**32])
@pytest.mark.parametrize("model", [SCNN(2), MiniBatchSCNN(2), SAANN(2)], ids=str)
def test_invalid_seeds(model: Any, seed: Any) -> None:
    with pytest.raises(InvalidInputError, match="random_state must be None, an integer"):
        model.set_params(random_state=seed).fit(X)
