"""The kinds of input that SCNN accepts, and the messages for input that it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from lincode import SCNN
from lincode.exceptions import InvalidInputError
from lincode.rows import memory


def fit(X: Any, **parameters: Any) -> SCNN:
    return SCNN(**{"n_components": 6, "alpha": 0.1, "random_state": 0, **parameters}).fit(X)


@pytest.fixture(scope="module")
def X(digits: Any) -> Any:
    return digits[:200]


@pytest.mark.parametrize("algorithm", ["encoder", "exact", "lasso"])
@pytest.mark.parametrize("solver", ["auto", "paper"])
@pytest.mark.filterwarnings("ignore:SCNN. max_iter")
def test_float32_is_preserved_and_agrees_with_float64(X: Any, algorithm: str, solver: str) -> None:
    double = fit(X, transform_algorithm=algorithm, solver=solver, max_iter=10)
    single = fit(X.astype(np.float32), transform_algorithm=algorithm, solver=solver, max_iter=10)
    assert single.components_.dtype == single.encoder_.dtype == np.float32
    codes = single.transform(X.astype(np.float32))
    assert codes.dtype == np.float32
    assert single.inverse_transform(codes).dtype == np.float32
    assert single.reconstruct(X.astype(np.float32)).dtype == np.float32
    assert_allclose(single.components_, double.components_, atol=1e-3)
    expected = double.transform(X)
    # Without the encoder term the codes are as ill-conditioned as D Dᵀ.
    condition = np.linalg.cond(double.components_) ** 2 if algorithm == "lasso" else 1
    eps = np.finfo(np.float32).eps
    assert_allclose(codes, expected, atol=max(1e-3, condition * eps * np.abs(expected).max()))
    assert_allclose(single.energy_, double.energy_, rtol=1e-4)
    assert single.transform(X).dtype == np.float64


VARIANTS: dict[str, Any] = {
    "list": lambda X: X.tolist(),
    "int": lambda X: (16 * X).astype(np.int64),
    "uint8": lambda X: (16 * X).astype(np.uint8),
    "float16": lambda X: X.astype(np.float16),
    "Fortran": np.asfortranarray,
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "backwards": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "pandas": lambda X: pd.DataFrame(X, columns=[f"x{i}" for i in range(64)]),
    "polars": lambda X: pl.DataFrame(X, schema=[f"x{i}" for i in range(64)]),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_other_containers_give_the_same_result(X: Any, name: str) -> None:
    other = VARIANTS[name](X)
    scale = 16 if "int" in name else 1
    reference = fit(X * scale, alpha=0.1 * scale)
    scnn = fit(other, alpha=0.1 * scale)
    assert_allclose(scnn.components_, reference.components_, atol=1e-9)
    assert_allclose(scnn.transform(other), reference.transform(X * scale), atol=1e-8)


def test_read_only_and_memory_mapped_data_are_accepted(X: Any, tmp_path: Path) -> None:
    assert not X.flags.writeable
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    scnn = fit(mapped)
    assert_array_equal(scnn.components_, fit(X).components_)
    assert_array_equal(scnn.transform(mapped), scnn.transform(X))
    assert_array_equal(mapped, X)


@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array", "coo_array", "csc_matrix"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_input_gives_the_same_result(X: Any, kind: str, dtype: Any) -> None:
    X = X.astype(dtype)
    sparse = getattr(scipy.sparse, kind)(X)
    one, two = fit(X), fit(sparse)
    atol = 1e-8 if dtype == np.float64 else 1e-4
    assert_allclose(two.components_, one.components_, atol=atol)
    for algorithm in ("encoder", "exact", "lasso"):
        codes = one.set_params(transform_algorithm=algorithm).transform(X)
        other = two.set_params(transform_algorithm=algorithm).transform(sparse)
        assert type(other) is np.ndarray
        assert other.dtype == dtype
        assert_allclose(other, codes, atol=20 * atol)
    assert_allclose(two.score(sparse), one.score(X), rtol=1e-5)
    assert_allclose(two.alpha_max(sparse), one.alpha_max(X))


def test_sparse_input_is_never_converted_to_one_dense_array(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    X = scipy.sparse.csr_array(rng.random((1000, 30)) * (rng.random((1000, 30)) < 0.1))
    sizes = []
    original = scipy.sparse.csr_array.toarray

    def record(self: Any, *args: Any, **kwargs: Any) -> Any:
        sizes.append(self.shape[0] * self.shape[1])
        return original(self, *args, **kwargs)

    monkeypatch.setattr(memory, "DENSE_ENTRIES", 3000)
    monkeypatch.setattr(scipy.sparse.csr_array, "toarray", record)
    init = np.zeros((4, 30))
    init[0, 0] = 1
    scnn = fit(X, n_components=4, alpha=0.005, tol=1e-2, init=init)
    assert scnn.n_replaced_atoms_ >= 3  # this needs the residuals of the rows
    scnn.transform(X), scnn.score(X), scnn.alpha_max(X), scnn.reconstruct(X)
    fit(X, n_components=4, alpha=0.005, tol=1e-2)
    assert sizes
    assert max(sizes) <= 3000


SHAPES: dict[str, Any] = {
    "one sample": lambda X: X[:1],
    "one feature": lambda X: X[:, 20:21],
    "fewer samples than units": lambda X: X[:3],
    "fewer features than units": lambda X: X[:, 20:23],
    "constant and zero columns": lambda X: np.hstack([X, np.ones((200, 2)), np.zeros((200, 2))]),
    "one row repeated": lambda X: np.repeat(X[:1], 50, axis=0),
    "zeros and one row": lambda X: np.vstack([np.zeros((20, 64)), X[:1]]),
    "large": lambda X: 1e140 * X,
    "small": lambda X: 1e-140 * X,
    "float32 large": lambda X: (1e12 * X).astype(np.float32),
    "float32 small": lambda X: (1e-12 * X).astype(np.float32),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("solver", ["auto", "paper"])
@pytest.mark.parametrize("encoder_weight", [1.0, 0.0])
@pytest.mark.filterwarnings("ignore:SCNN. max_iter", "ignore:SCNN. the encoder's codes")
def test_unusual_data_give_finite_results(
    X: Any, name: str, solver: str, encoder_weight: float
) -> None:
    X = SHAPES[name](X)
    scnn = fit(X, alpha="0.05*max", solver=solver, max_iter=20, encoder_weight=encoder_weight)
    for algorithm in ("encoder", "exact", "lasso"):
        U = scnn.set_params(transform_algorithm=algorithm).transform(X)
        assert np.isfinite(U).all()
    assert U.any()
    for value in (scnn.components_, scnn.encoder_, scnn.energy_path_, scnn.score(X)):
        assert np.isfinite(value).all()
    assert (np.diff(scnn.energy_path_) <= 0).all()
    assert scnn.energy_ < scnn.energy_path_[0]


def test_scaling_data_and_alpha_scales_only_the_codes(X: Any) -> None:
    one, two = fit(X), fit(1e100 * X, alpha=1e99)
    assert_allclose(two.components_, one.components_, atol=1e-9)
    assert_allclose(two.transform(1e100 * X), 1e100 * one.transform(X), rtol=1e-6, atol=1e92)


def test_all_zero_data_give_zero_codes_and_a_warning() -> None:
    with pytest.warns(UserWarning, match="all codes will be zero: X is all zero"):
        scnn = fit(np.zeros((10, 5)))
    assert scnn.energy_ == 0
    assert not scnn.transform(np.zeros((3, 5))).any()


NAN = np.array([[1.0, np.nan], [0.0, np.nan]])
BAD = [
    (dict(X=NAN), InvalidInputError, "all entries of the feature 1 are NaN"),
    (dict(X=np.where(np.isnan(NAN), np.inf, NAN)), InvalidInputError, "Input X contains infinity"),
    (dict(X=np.empty((0, 3))), InvalidInputError, "0 sample"),
    (dict(X=np.empty((3, 0))), InvalidInputError, "0 feature"),
    (dict(X=np.ones(3)), InvalidInputError, "Expected 2D array"),
    (dict(X=[["a", "b"], ["c", "d"]]), InvalidInputError, "X must contain numbers, but .* text"),
    (dict(X=np.ones((3, 2)) * 1j), InvalidInputError, "Complex data not supported"),
    (
        dict(X=1e150 * np.ones((3, 2))),
        InvalidInputError,
        "largest absolute value .*; got 1e.150. Divide",
    ),
    (
        dict(X=1e-150 * np.ones((3, 2))),
        InvalidInputError,
        "largest absolute value .*; got 1e-150. Divide",
    ),
    (dict(alpha=-1), InvalidInputError, "alpha must be a finite number of at least 0, got -1"),
    (dict(alpha=np.nan), InvalidInputError, "alpha must be a finite number .* got nan"),
    (dict(alpha="1"), InvalidInputError, "alpha must be .* a string such as .* got '1'"),
    (dict(alpha=True), InvalidInputError, "alpha must be .* got True of type bool"),
    (dict(encoder_weight=-0.5), InvalidInputError, "encoder_weight must be .* got -0.5"),
    (
        dict(threshold="auto"),
        InvalidInputError,
        "threshold must be 'match', 'alpha' or a number .* got 'auto",
    ),
    (dict(alpha=10**400), InvalidInputError, "alpha must be a finite number"),
    (dict(threshold=-1.0), InvalidInputError, "threshold must be .* got -1.0"),
    (
        dict(n_components=0),
        InvalidInputError,
        "n_components must be None or an integer of at least 1, got 0",
    ),
    (
        dict(n_components=2.0),
        InvalidInputError,
        "n_components must be None or an integer .* got 2.0 of type float",
    ),
    (
        dict(max_iter=0),
        InvalidInputError,
        "max_iter must be None or an integer of at least 1, got 0",
    ),
    (dict(tol=-1e-3), InvalidInputError, "tol must be .* got -0.001"),
    (dict(transform_tol=np.inf), InvalidInputError, "transform_tol must be a finite .* got inf"),
    (
        dict(transform_algorithm="lars"),
        InvalidInputError,
        "transform_algorithm must be one of 'encoder', .*'lars'",
    ),
    (dict(solver="lars"), InvalidInputError, "solver must be one of 'auto', 'paper', got 'lars'"),
    (dict(init="random"), InvalidInputError, "init must be 'data', 'paper' or an array of atoms"),
    (
        dict(init=np.ones((2, 3))),
        InvalidInputError,
        r"init must have shape .* = \(6, 4\), got \(2, 3\)",
    ),
    (dict(init=np.ones((4, 6))), InvalidInputError, r"got \(4, 6\). Rows are atoms; pass init.T"),
    (dict(init=np.full((6, 4), np.nan)), InvalidInputError, "init must be finite"),
    (dict(init=[["a"]]), InvalidInputError, "init must be 'data', 'paper' or an array of numbers"),
    (dict(split_sign="yes"), InvalidInputError, "split_sign must be True or False, got 'yes'"),
    (dict(split_sign=True, positive_code=True), InvalidInputError, "exclude each other"),
    (dict(n_jobs=0), InvalidInputError, "n_jobs must be None or an integer other than 0, got 0"),
    (
        dict(n_jobs=1.5),
        InvalidInputError,
        "n_jobs must be None or an integer other than 0, got 1.5",
    ),
    (dict(verbose=-1), InvalidInputError, "verbose must be .* got -1"),
    (dict(verbose=None), InvalidInputError, "verbose must be an integer .* got None"),
    (
        dict(n_jobs=True),
        InvalidInputError,
        "n_jobs must be None or an integer other than 0, got True",
    ),
    (dict(encoder_weight=1e300), InvalidInputError, r"encoder_weight must be at most 1e\+200"),
    (dict(callback=3), InvalidInputError, "callback must be None or callable, got 3"),
    (dict(random_state="x"), ValueError, "random_state must be None, an integer"),
]


@pytest.mark.parametrize(("bad", "error", "sentence"), BAD, ids=lambda v: str(v)[:40])
def test_invalid_input_is_explained_and_changes_nothing(
    bad: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    X = bad.pop("X", np.random.default_rng(0).standard_normal((20, 4)))
    good = pd.DataFrame(np.random.default_rng(1).standard_normal((30, 3)), columns=list("abc"))
    scnn = fit(good)
    before = {name: value for name, value in vars(scnn).items() if name.endswith("_")}
    parameters = scnn.get_params()
    scnn.set_params(**bad)
    with pytest.raises(error, match=sentence):
        scnn.fit(X)
    after = {name: value for name, value in vars(scnn).items() if name.endswith("_")}
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)
    scnn.set_params(**parameters).transform(good)


def test_interrupted_fit_keeps_the_network(X: Any) -> None:
    scnn = fit(X)
    components = scnn.components_

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scnn.set_params(callback=interrupt).fit(X[:, :10])
    assert scnn.components_ is components
    assert scnn.n_features_in_ == 64


def test_errors_if_not_fitted_or_wrong_number_of_features(X: Any) -> None:
    for call in ("transform", "inverse_transform", "reconstruct", "score", "get_feature_names_out"):
        with pytest.raises(NotFittedError):
            getattr(SCNN(), call)(*([] if "names" in call else [X]))
    scnn = fit(X)
    for call in ("transform", "reconstruct", "score"):
        with pytest.raises(ValueError, match="X has 5 features, but SCNN is expecting 64"):
            getattr(scnn, call)(X[:, :5])


def test_parameters_are_checked_in_transform(X: Any) -> None:
    scnn = fit(X).set_params(threshold=-1)
    with pytest.raises(ValueError, match="threshold must be"):
        scnn.transform(X)


def test_parameters_that_float32_cannot_represent(X: Any) -> None:
    with pytest.raises(
        ValueError, match=r"encoder_weight=1e.40 leads to numbers that float32 cannot"
    ):
        fit(X.astype(np.float32), encoder_weight=1e40)
    with pytest.warns(
        UserWarning, match=r"all codes will be zero: alpha is 1e.40, but it must be below"
    ):
        fit(X.astype(np.float32), alpha=1e40)


def test_features_too_small_for_the_encoder_are_reported(X: Any) -> None:
    with pytest.warns(UserWarning, match=r"some features of X are so small .*; scale the features"):
        scnn = fit(X * np.where(np.arange(64) == 20, 1e-9, 1))
    assert scnn.optimality_["encoder"] > 1e-3


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_names_the_codes(X: Any, library: str) -> None:
    scnn = fit(X).set_output(transform=library)
    frame = scnn.transform(X)
    assert type(frame).__module__.startswith(library)
    assert list(frame.columns) == [f"scnn{j}" for j in range(6)]
    assert_allclose(scnn.inverse_transform(frame), scnn.reconstruct(X))
