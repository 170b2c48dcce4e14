"""sparse_encode and SparseCoder, compared with those of scikit-learn."""

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import sklearn.decomposition
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from lincode import SparseCoder, sparse_encode
from lincode.exceptions import InvalidInputError


@pytest.fixture
def problem() -> tuple[Any, Any]:
    """Return samples and a dictionary with atoms of different lengths."""
    rng = np.random.default_rng(0)
    D = rng.standard_normal((40, 15)) * 10 ** rng.uniform(-0.5, 0.5, (40, 1))
    return rng.standard_normal((60, 15)), D


def objective(X: Any, D: Any, U: Any, alpha: float) -> Any:
    return 0.5 * ((X - U @ D) ** 2).sum(axis=1) + alpha * np.abs(U).sum(axis=1)


def residual(X: Any, D: Any, U: Any, alpha: float, *, positive: bool = False) -> float:
    """Return the largest violation of the optimality conditions relative to max|D x|."""
    X, D, U = (np.asarray(A, np.float64) for A in (X, D, U))
    G = (U @ D - X) @ D.T
    at_zero = np.maximum((-G if positive else np.abs(G)) - alpha, 0)
    violation = np.where(U != 0, np.abs(G + alpha * np.sign(U)), at_zero).max(axis=1)
    scale = np.abs(X @ D.T).max(axis=1)
    return float((violation / np.where(scale > 0, scale, 1)).max())


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.05, None, 1e6])
def test_lasso_codes_are_optimal(problem: Any, positive: bool, alpha: float | None) -> None:
    X, D = problem
    U = sparse_encode(X, D, alpha=alpha, positive=positive)
    penalty = 1.0 if alpha is None else alpha
    assert residual(X, D, U, penalty, positive=positive) <= 1e-8
    debiased = sparse_encode(X, D, alpha=alpha, debias=True)
    for x, u in zip(X, debiased, strict=True):
        assert_allclose(D[u != 0] @ (x - u @ D), 0, atol=1e-9)
    assert not positive or (U >= 0).all()
    for name in ("lasso_cd", "lasso_lars") if alpha != 0 else ():
        options: Any = {"algorithm": name, "alpha": alpha, "positive": positive}
        assert_array_equal(sparse_encode(X, D, **options), U)
        other = sklearn.decomposition.sparse_encode(X, D, **options, max_iter=100_000)
        ours, theirs = (objective(X, D, A, penalty) for A in (U, other))
        assert (ours <= theirs * (1 + 1e-9)).all()
        assert (theirs <= ours * 1.001).all()


@pytest.mark.parametrize("positive", [False, True])
def test_threshold_codes_equal_those_of_scikit_learn(problem: Any, positive: bool) -> None:
    X, D = problem
    options: dict[str, Any] = {"algorithm": "threshold", "alpha": 0.7, "positive": positive}
    expected = sklearn.decomposition.sparse_encode(X, D, **options)
    assert_allclose(sparse_encode(X, D, **options), expected)


@pytest.mark.parametrize("n_nonzero_coefs", [None, 1, 7])
def test_omp_codes_equal_those_of_scikit_learn_for_unit_atoms(
    problem: Any, n_nonzero_coefs: int | None
) -> None:
    X, D = problem
    lengths = np.linalg.norm(D, axis=1)
    unit = D / lengths[:, None]
    options: dict[str, Any] = {"algorithm": "omp", "n_nonzero_coefs": n_nonzero_coefs}
    U = sparse_encode(X, unit, **options)
    assert_allclose(U, sklearn.decomposition.sparse_encode(X, unit, **options), atol=1e-9)
    # The choice does not depend on the lengths of the atoms.
    assert_allclose(sparse_encode(X, D, **options) * lengths, U, atol=1e-9)


def test_greedy_codes_are_limited_by_their_number_and_tolerance(problem: Any) -> None:
    X, D = problem
    U = sparse_encode(X, D, algorithm="omp", tol=2.0)
    assert (((X - U @ D) ** 2).sum(axis=1) <= 2 + 1e-9).all()
    assert np.count_nonzero(U, axis=1).max() > 1, "the default number does not apply with tol"
    codes = {
        name: sparse_encode(X, D, algorithm=name, tol=0.5, n_nonzero_coefs=4)
        for name in ("omp", "ols")
    }
    for U in codes.values():
        assert np.count_nonzero(U, axis=1).max() == 4
        for x, u in zip(X, U, strict=True):
            assert_allclose(D[u != 0] @ (x - u @ D), 0, atol=1e-9)
    omp, ols = (((X - U @ D) ** 2).sum() for U in codes.values())
    assert ols < omp


@pytest.mark.parametrize("algorithm", ["lasso", "omp", "ols", "threshold"])
def test_given_products_are_used(problem: Any, algorithm: str) -> None:
    X, D = problem
    plain = sparse_encode(X, D, algorithm=algorithm, alpha=0.3)
    gram, cov = D @ D.T, D @ X.T
    before = cov.copy()
    given = sparse_encode(X, D, gram=gram, cov=cov, algorithm=algorithm, alpha=0.3)
    assert_allclose(given, plain, atol=1e-9)
    assert_array_equal(cov, before)
    doubled = sparse_encode(X, D, gram=gram, cov=2 * cov, algorithm=algorithm, alpha=0.6)
    assert_allclose(doubled, 2 * plain, atol=1e-8)


@pytest.mark.parametrize("algorithm", ["lasso", "omp", "ols", "threshold"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dtype_sparse_input_and_sparse_output(problem: Any, algorithm: str, dtype: Any) -> None:
    X, D = problem
    U = sparse_encode(X.astype(dtype), D, algorithm=algorithm)
    assert U.dtype == dtype
    assert_allclose(U, sparse_encode(X, D, algorithm=algorithm), atol=1e-4)
    rows = scipy.sparse.csr_matrix(X.astype(dtype))
    assert_allclose(sparse_encode(rows, D, algorithm=algorithm), U, atol=1e-5)
    output = sparse_encode(X.astype(dtype), D, algorithm=algorithm, sparse_output=True)
    assert scipy.sparse.issparse(output)
    assert output.format == "csr"
    assert output.dtype == dtype
    assert_array_equal(output.toarray(), U)


def test_result_does_not_depend_on_threads_or_the_start(problem: Any) -> None:
    rng = np.random.default_rng(0)
    X, D = rng.standard_normal((3000, 20)), rng.standard_normal((64, 20))
    one = sparse_encode(X, D, n_jobs=1)
    assert_array_equal(one, sparse_encode(X, D, n_jobs=2))
    assert_allclose(sparse_encode(X, D, init=one + 1), one, atol=1e-6)


def test_difficult_dictionaries_and_samples() -> None:
    """Repeated atoms, an atom of zeros, a sample of zeros, one atom, one feature."""
    rng = np.random.default_rng(0)
    D = rng.standard_normal((20, 6))
    D[10:] = D[:10]
    D[3] = 0
    X = rng.standard_normal((9, 6))
    X[4] = 0
    U = sparse_encode(X, D, alpha=0.1)
    assert residual(X, D, U, 0.1) <= 1e-8
    assert not U[4].any()
    assert not U[:, 3].any()
    for algorithm in ("omp", "ols"):
        U = sparse_encode(X, D, algorithm=algorithm, n_nonzero_coefs=20)
        assert_allclose(U @ D, X, atol=1e-9)
    assert_allclose(sparse_encode(X, D[:1], alpha=0.0), X @ D[:1].T / (D[0] @ D[0]))
    assert_allclose(sparse_encode(X[:, :1], [[2.0]], alpha=0.0), X[:, :1] / 2)


BAD = [
    ({"algorithm": "lars"}, "algorithm must be one of"),
    ({"n_nonzero_coefs": 0}, "n_nonzero_coefs must be None or an integer"),
    ({"alpha": -1}, "alpha must be None or a finite number"),
    ({"positive": 1}, "positive must be True or False"),
    ({"algorithm": "omp", "positive": True}, "positive codes are not supported"),
    ({"algorithm": "omp", "debias": True}, "debias=True needs"),
    ({"n_jobs": 0}, "n_jobs must be None or"),
    ({"gram": np.eye(3)}, r"gram must have shape \(40, 40\), got \(3, 3\)"),
    ({"cov": np.ones((60, 40))}, r"cov must have shape \(40, 60\).*pass cov.T"),
    ({"init": np.full((60, 40), np.nan)}, "init: .*NaN"),
    ({"dictionary": np.ones((4, 3))}, "X must have as many columns as the dictionary, 3, got 15"),
    ({"dictionary": np.full((4, 15), np.inf)}, "infinity"),
    ({"dictionary": np.full((4, 15), 1e300)}, "largest absolute value of the dictionary"),
    ({"X": np.full((4, 15), 1e300)}, "largest absolute value of X"),
    ({"X": scipy.sparse.csr_matrix(np.full((4, 15), np.nan))}, "NaN"),
    ({"X": np.full((4, 15), -np.inf, np.float32)}, "infinity"),
    ({"X": np.ones(15)}, "1D array"),
    ({"X": np.ones((0, 15))}, "0 sample"),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_refused(problem: Any, options: Any, message: str) -> None:
    X, D = problem
    with pytest.raises(InvalidInputError, match=message):
        sparse_encode(**{"X": X, "dictionary": D, **options})


# SparseCoder


@pytest.mark.parametrize("algorithm", ["omp", "ols", "lasso", "threshold"])
def test_coder_gives_the_codes_of_the_function(problem: Any, algorithm: str) -> None:
    X, D = problem
    lasso = algorithm == "lasso"
    coder = SparseCoder(
        D,
        transform_algorithm=algorithm,
        transform_n_nonzero_coefs=3,
        transform_alpha=0.4,
        transform_tol=1e-4,
        transform_debias=lasso,
        positive_code=lasso,
    )
    options: Any = {"n_nonzero_coefs": 3, "alpha": 0.4, "tol": 1e-4}
    U = sparse_encode(X, D, algorithm=algorithm, debias=lasso, positive=lasso, **options)
    for other in (coder, clone(coder).fit(X), pickle.loads(pickle.dumps(coder))):
        assert_array_equal(other.transform(X), U)
    assert_allclose(coder.inverse_transform(U), U @ D)
    assert_allclose(coder.reconstruct(X), U @ D)


def test_coder_attributes_and_refusals(problem: Any) -> None:
    X, D = problem
    coder = SparseCoder(D.tolist()).fit(X)
    assert (coder.n_components_, coder.n_features_in_) == (40, 15)
    assert_array_equal(coder.components_, D)
    for call in (coder.transform, SparseCoder(D).transform, SparseCoder(D).fit):
        with pytest.raises(InvalidInputError, match=r"features|columns"):
            call(X[:, :3])
    with pytest.raises(InvalidInputError, match="algorithm must be one of"):
        SparseCoder(D, transform_algorithm="lars").transform(X)
    with pytest.raises(InvalidInputError, match="split_sign must be"):
        SparseCoder(D, split_sign=2).fit(X)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore")
def test_coder_passes_the_checks_of_scikit_learn() -> None:
    """Each check has data with one number of features, and the dictionary must fit to it."""
    passed: dict[str, bool] = {}
    for p in (1, 2, 3, 4, 5, 10):
        coder = SparseCoder(np.random.default_rng(0).standard_normal((3, p)))
        for result in check_estimator(coder, on_skip=None, on_fail=None):
            name = result["check_name"]
            done = result["status"] in ("passed", "skipped")
            passed[name] = passed.get(name, False) or done
            if not done:
                # The check may replace the error by its own.
                error = result["exception"]
                assert "as many columns" in f"{error} {error.__cause__} {error.__context__}", name
    assert len(passed) > 30
    assert all(passed.values()), [name for name, done in passed.items() if not done]
