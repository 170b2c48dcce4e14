"""The input that the estimators accept, and the messages for input that they refuse."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from lincode import SCNN, MiniBatchSCNN, SparseCoder, sparse_encode
from lincode.core import arrays
from lincode.exceptions import InvalidInputError


def fit(X: Any, **parameters: Any) -> SCNN:
    """Fit a network that minimises the energy, unless the parameters say something else."""
    default = {"n_components": 6, "alpha": 0.1, "random_state": 0, "refine": False}
    scnn = SCNN(**default | parameters)
    scnn.fit(X)
    return scnn


@pytest.fixture(scope="module")
def X(digits: Any) -> Any:
    return digits[:200]


# Kinds of data


@pytest.mark.parametrize("algorithm", ["encoder", "exact", "lasso"])
def test_float32_is_preserved_and_agrees_with_float64(X: Any, algorithm: str) -> None:
    double = fit(X, transform_algorithm=algorithm, tol=1e-2)
    single = fit(X.astype(np.float32), transform_algorithm=algorithm, tol=1e-2)
    codes = single.transform(X.astype(np.float32))
    arrays = [single.components_, single.encoder_, codes, single.inverse_transform(codes)]
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
    assert_allclose(single.components_, double.components_, atol=1e-3)
    expected = double.transform(X)
    # Without the encoder term the codes are as ill-conditioned as D Dᵀ.
    condition = np.linalg.cond(double.components_) ** 2 if algorithm == "lasso" else 1
    eps = np.finfo(np.float32).eps
    assert_allclose(codes, expected, atol=max(1e-3, condition * eps * np.abs(expected).max()))
    assert_allclose(single.energy_, double.energy_, rtol=1e-4)
    assert single.transform(X).dtype == np.float64


CONTAINERS: dict[str, Any] = {
    "list": lambda X: X.tolist(),
    "uint8": lambda X: X.astype(np.uint8),
    "float16": lambda X: X.astype(np.float16),
    "big-endian": lambda X: X.astype(">f8"),
    "Fortran": np.asfortranarray,
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "backwards": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "pandas": lambda X: pd.DataFrame(X, columns=[f"x{i}" for i in range(64)]),
    "polars": lambda X: pl.DataFrame(X, schema=[f"x{i}" for i in range(64)]),
    "csr_matrix": scipy.sparse.csr_matrix,
    "coo_array": scipy.sparse.coo_array,
}


def test_sparse_input_is_never_converted_to_one_dense_array(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = scipy.sparse.csr_array(rng.random((1000, 30)) * (rng.random((1000, 30)) < 0.1))
    sizes = []
    original = scipy.sparse.csr_array.toarray

    def record(self: Any, *args: Any, **kwargs: Any) -> Any:
        sizes.append(self.shape)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(scipy.sparse.csr_array, "toarray", record)
    monkeypatch.setattr(arrays, "DENSE_ENTRIES", 100 * 30)
    start = np.eye(4, 30) * [[1], [0], [0], [0]]
    scnn = fit(X, n_components=4, alpha=0.005, tol=1e-2, dict_init=start)
    assert scnn.n_replaced_atoms_ >= 3  # this needs the residuals of the rows
    scnn.transform(X), scnn.score(X), scnn.alpha_max(X), scnn.reconstruct(X)
    fit(X, n_components=4, alpha=0.005, tol=1e-2, refine=True)
    assert sizes
    assert max(n for n, _ in sizes) < 1000


@pytest.mark.parametrize("cls", [SCNN, MiniBatchSCNN])
def test_duplicate_entries_of_sparse_samples_are_added(cls: Any, rng: np.random.Generator) -> None:
    """SciPy allows several parts of an entry. Their squares are not those of the sum."""
    X = rng.standard_normal((20, 5))
    parts = np.stack([-X, 2 * X], axis=2).ravel()
    columns = np.tile(np.repeat(np.arange(5), 2), 20)
    duplicated = scipy.sparse.csr_matrix((parts, columns, np.arange(21) * 10), X.shape)
    network = cls(4, refine=False, random_state=0, max_iter=100)
    model = clone(network).fit(scipy.sparse.csr_matrix(X))
    other = clone(network).fit(duplicated)
    assert_array_equal(duplicated.data, parts)
    assert_allclose(other.components_, model.components_, rtol=1e-12)
    assert_allclose(other.transform(duplicated), other.transform(X), atol=1e-12)


SHAPES: dict[str, Any] = {
    "one sample": lambda X: X[:1],
    "one feature": lambda X: X[:, 20:21],
    "fewer samples than units": lambda X: X[:3],
    "constant and zero columns": lambda X: np.hstack([X, np.ones((200, 2)), np.zeros((200, 2))]),
    "zeros and one row": lambda X: np.vstack([np.zeros((20, 64)), X[:1]]),
    "large": lambda X: 1e140 * X,
    "small": lambda X: 1e-140 * X,
    "float32 large": lambda X: (1e12 * X).astype(np.float32),
    "float32 small": lambda X: (1e-12 * X).astype(np.float32),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.filterwarnings("ignore:SCNN. (max_iter|the encoder's codes|all codes are zero)")
def test_unusual_data_give_finite_results(X: Any, name: str) -> None:
    X = SHAPES[name](X)
    alpha = 0.05 * SCNN(6).alpha_max(X)
    for encoder_weight, refine in ((1.0, False), (0.0, False), (1.0, True)):
        scnn = fit(X, alpha=alpha, max_iter=20, encoder_weight=encoder_weight, refine=refine)
        for algorithm in ("encoder", "projection", "lasso", "omp") + ("exact",) * (not refine):
            U = scnn.set_params(transform_algorithm=algorithm).transform(X)
            assert np.isfinite(U).all()
        assert U.any()
        for value in (scnn.components_, scnn.encoder_, scnn.energy_path_, scnn.score(X)):
            assert np.isfinite(value).all()
        assert (np.diff(scnn.energy_path_) <= 0).all()
        assert scnn.energy_ < scnn.energy_path_[0]


def test_parameters_may_be_scalars_of_numpy(X: Any) -> None:
    for kind in (np.float16, np.float32, np.int8):
        scnn = fit(X, alpha=kind(1) / kind(16), tol=kind(1), encoder_ridge=kind(1))
        assert scnn.alpha_ == 1 / 16


# Invalid input

FRAME = pd.DataFrame(np.random.default_rng(1).standard_normal((30, 3)), columns=list("abc"))


@pytest.fixture(scope="module")
def fitted() -> SCNN:
    return fit(FRAME, tol=1e-2)


def check_refused(model: SCNN, sentence: str, X: Any = FRAME, **bad: Any) -> None:
    """Check that ``fit`` fails with a message, and that the fitted model is not changed."""
    model = copy.copy(model).set_params(**bad)
    before = dict(vars(model))
    with pytest.raises(InvalidInputError, match=sentence):
        model.fit(X)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())


PARAMETERS: list[tuple[str, Any, str]] = [
    ("n_components", 0, "None or an integer of at least 1"),
    ("n_components", 2.0, "None or an integer of at least 1"),
    ("alpha", -1, "'auto' or a finite number of at least 0"),
    ("alpha", np.nan, "'auto' or a finite number of at least 0"),
    ("alpha", "0.1*max", "'auto' or a finite number of at least 0"),
    ("density", 0.0, "a float above 0 and at most 1.0 or an integer of at least 1"),
    ("density", 1.5, "a float above 0 and at most 1.0 or an integer of at least 1"),
    ("density", True, "a float above 0 and at most 1.0 or an integer of at least 1"),
    ("encoder_weight", 1e300, r"a finite number of at least 0 and at most 1e\+200"),
    ("encoder_ridge", "no", "'auto' or a finite number of at least 0"),
    ("refine", 1, "True or False"),
    ("transform_algorithm", "ols", "one of 'encoder', 'projection', 'lasso', 'omp', 'exact', 'pa"),
    ("transform_alpha", "mean", "None or a finite number of at least 0"),
    ("tol", -1e-3, "a finite number of at least 0"),
    ("tol", np.float32("inf"), "a finite number of at least 0"),
    ("n_jobs", 0, "None or an integer other than 0"),
    ("verbose", None, "True or False or an integer of at least 0"),
    ("callback", 3, "None or callable"),
    ("split_sign", "yes", "True or False"),
    ("sparse_output", 0, "True or False"),
    ("positive_code", np.ones(2), "True or False"),
    ("positive_dict", "no", "True or False"),
    ("max_iter", True, "None or an integer of at least 1"),
    ("warm_start", 1, "True or False"),
    ("random_state", "x", "None, an integer between 0 and 4294967295"),
    ("random_state", -1, "None, an integer between 0 and 4294967295"),
]


@pytest.mark.parametrize(("name", "value", "must"), PARAMETERS)
def test_bad_parameters(fitted: SCNN, name: str, value: Any, must: str) -> None:
    check_refused(fitted, f"^{name} must be {must}.*, got ", **{name: value})


def test_every_parameter_is_checked() -> None:
    assert {name for name, _, _ in PARAMETERS} | {"dict_init"} == set(SCNN().get_params())


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"split_sign": True, "positive_code": True}, "exclude each other"),
        ({"transform_algorithm": "omp", "positive_code": True}, "codes of both signs"),
        ({"transform_algorithm": "exact", "refine": True}, "set refine=False"),
        ({"transform_algorithm": "paper", "refine": True}, "set refine=False"),
        ({"transform_algorithm": "paper", "density": 0.2}, "density=0.2 has no effect .* leave"),
        ({"transform_alpha": 0.1}, "transform_alpha has no effect with .*='encoder'"),
        ({"transform_alpha": 0.1, "transform_algorithm": "omp"}, "transform_alpha has no effect"),
        ({"density": 7}, "density=7 non-zeros .* but there are 6; use a smaller density"),
        ({"dict_init": np.ones((2, 3))}, r"dict_init must have shape \(6, 3\), got \(2, 3\)\."),
        ({"dict_init": np.ones((3, 6))}, r"got \(3, 6\); rows are atoms: pass dict_init.T"),
        ({"dict_init": np.full((6, 3), np.nan)}, "dict_init: .* contains NaN"),
        ({"dict_init": [["a"]]}, "dict_init: could not convert"),
        (
            {"dict_init": np.ma.masked_array(np.ones((6, 3)), np.eye(6, 3, dtype=bool))},
            "dict_init must not have masked",
        ),
    ],
)
def test_parameters_that_do_not_belong_together(fitted: SCNN, bad: Any, sentence: str) -> None:
    check_refused(fitted, sentence, **bad)


DATA: dict[str, tuple[Any, str]] = {
    "a column of NaN": (np.array([[1, np.nan]]), r"features \[1\] are NaN; remove such features"),
    "only NaN": (np.full((2, 2), np.nan), "all entries of X are NaN"),
    "infinity": (np.array([[1, -np.inf]]), "X contains infinity in row 0, column 1; correct it"),
    "infinity in a frame": (pd.DataFrame({"a": [1, np.inf]}), r"in row 1, column 0 \(a\);"),
    "NaN in CSR": (
        scipy.sparse.csr_array([[0, 1], [1, np.nan]]),
        "NaN in row 1, column 1; use X.to",
    ),
    "too large": (np.array([[1, -1e150]]), r"largest absolute value .*; got 1e\+150\. Divide X"),
    "too small": (np.array([[0, 1e-150]]), r"largest absolute value .*; got 1e-150\. Divide X"),
    "too large for float32": (np.full((2, 2), 1e30, np.float32), "float32 cannot represent"),
    "no samples": (np.empty((0, 3)), "0 sample"),
    "no features": (np.empty((3, 0)), "0 feature"),
    "one dimension": (np.ones(3), "Expected 2D array"),
    "three dimensions": (np.ones((2, 3, 4)), "dim 3"),
    "text": ([["a", "b"], ["c", "d"]], "could not convert.*X must contain numbers"),
    "complex": (np.ones((3, 2)) * 1j, "Complex data not supported"),
    "ragged lists": ([[1.0, 2.0], [1.0]], "inhomogeneous"),
    "a generator": ((row for row in np.eye(3)), "one sample per row.*got generator"),
    "a path": ("X.npy", "one sample per row.*got str"),
    "nothing": (None, "one sample per row.*got NoneType"),
}


@pytest.mark.parametrize("name", DATA)
def test_bad_data(fitted: SCNN, name: str) -> None:
    X, sentence = DATA[name]
    check_refused(fitted, sentence, X)
    if name != "a generator":  # an iterator of batches
        with pytest.raises(InvalidInputError, match=sentence):
            MiniBatchSCNN(2).fit(X)


def test_errors_if_not_fitted_or_wrong_number_of_columns(X: Any) -> None:
    for call in ("transform", "inverse_transform", "reconstruct", "score", "calibrate"):
        with pytest.raises(NotFittedError):
            getattr(SCNN(), call)(X)
    scnn = fit(X)
    for call in ("transform", "reconstruct", "score", "calibrate"):
        with pytest.raises(InvalidInputError, match="X has 5 features, but SCNN is expecting 64"):
            getattr(scnn, call)(X[:, :5])
    with pytest.raises(InvalidInputError, match=r"codes must have 6 columns.*got 3"):
        scnn.inverse_transform(np.ones((2, 3)))
    with pytest.raises(InvalidInputError, match="codes must not have masked entries"):
        scnn.inverse_transform(np.ma.masked_array(np.ones((2, 6)), np.eye(2, 6, dtype=bool)))


def test_parameters_and_data_are_checked_in_transform_and_score(X: Any) -> None:
    scnn = fit(X).set_params(transform_alpha=0.1)
    for method in (scnn.transform, scnn.score):
        with pytest.raises(InvalidInputError, match="transform_alpha has no effect"):
            method(X)
    scnn.set_params(transform_algorithm="exact")
    for value, sentence in ((np.inf, "infinity"), (1e200, r"got 1e\+200\. Divide X")):
        bad = X.copy()
        bad[2, 3] = value
        for method in (scnn.transform, scnn.score):
            with pytest.raises(InvalidInputError, match=sentence):
                method(bad)


@pytest.mark.parametrize(
    "parameters", [{}, {"density": 2}, {"transform_algorithm": "paper"}], ids=str
)
def test_samples_whose_codes_overflow_are_refused(X: Any, parameters: Any) -> None:
    model = fit(X, tol=1e-1, **parameters)
    model.encoder_[1] = 1
    huge = np.full((5, 64), 1e308)
    for samples in (huge, scipy.sparse.csr_array(huge)):
        with pytest.raises(InvalidInputError, match="too large for float64; divide X by a number"):
            model.transform(samples)


def test_reconstructions_that_overflow_are_refused() -> None:
    coder = SparseCoder(np.full((1, 1), 1e140), transform_algorithm="threshold", transform_alpha=1)
    codes = coder.fit_transform([[1e140]])
    assert codes == pytest.approx(1e280)
    for U in (codes, scipy.sparse.csr_array(codes)):
        with pytest.raises(InvalidInputError, match="the reconstruction must be finite"):
            coder.inverse_transform(U)


def test_weight_that_float32_cannot_represent(X: Any) -> None:
    with pytest.raises(
        InvalidInputError, match=r"encoder_weight=1e.40 leads to numbers that float"
    ):
        fit(X.astype(np.float32), encoder_weight=1e40)
    with pytest.warns(UserWarning, match=r"all codes will be zero: alpha is 1e.40"):
        fit(X.astype(np.float32), alpha=1e40)


def test_masked_entries_of_dictionaries_and_codes_are_refused() -> None:
    masked = np.ma.masked_array(np.ones((2, 3)), np.eye(2, 3, dtype=bool))
    calls: list[Callable[[], Any]] = [
        lambda: sparse_encode(FRAME, masked),
        lambda: SparseCoder(masked).fit(FRAME),
        lambda: sparse_encode(FRAME[:2], np.eye(3), init=masked),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match="must not have masked entries"):
            call()


def test_networks_that_do_not_fit_into_memory_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"GB of memory, but .* are available; use Mini"):
        SCNN(10**9).fit(np.ones((2, 3)))
