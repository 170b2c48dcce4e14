"""Validation of X: it is read once, and each kind of invalid value has its own message."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from lincode.networks.scnn_minibatch import Stream

from lincode import SCNN, MiniBatchSCNN
from lincode.estimators import batch_training as batch_training_module
from lincode.estimators import scnn as scnn_module
from lincode.estimators.validation import check_scaled_rows
from lincode.exceptions import InvalidInputError


class TrainingStartedError(Exception):
    """Raised instead of training."""


def stop(*args: Any, **kwargs: Any) -> None:
    raise TrainingStartedError


class CountingArray(np.ndarray[Any, Any]):
    """An array that counts how many of its entries are sliced or passed to a ufunc."""

    n_read = 0

    def __getitem__(self, key: Any) -> Any:
        result = np.asarray(super().__getitem__(key))
        type(self).n_read += result.size
        return result

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        type(self).n_read += sum(np.size(A) for A in inputs if isinstance(A, CountingArray))
        plain = [np.asarray(A) if isinstance(A, CountingArray) else A for A in inputs]
        return getattr(ufunc, method)(*plain, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        type(self).n_read += self.size
        plain = [np.asarray(A) if isinstance(A, CountingArray) else A for A in args]
        return function(*plain, **kwargs)


def test_rows_are_read_once_by_the_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """check_array itself does not read the entries, because they are not checked for NaN there."""
    X = np.random.default_rng(0).standard_normal((1000, 30)).view(CountingArray)
    monkeypatch.setattr("lincode.estimators.validation.check_array", lambda X, **kwargs: X)
    CountingArray.n_read = 0
    _, lengths = check_scaled_rows(None, X, reset=False)
    assert CountingArray.n_read == X.size
    assert lengths.longest > 0


@pytest.mark.parametrize("kind", [SCNN, MiniBatchSCNN])
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("alpha", ["0.1*mean", "0.1*max", 0.1])
def test_fit_scans_the_rows_once_before_training(
    kind: Any, mapped: bool, alpha: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.random.default_rng(0).standard_normal((400, 30))
    if mapped:
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    calls: list[str] = []
    names = {
        "lincode.estimators.samples.scan_rows": "scan",
        "lincode.rows.memory.scan_rows": "scan",
        "lincode.estimators.validation.assert_all_finite": "assert_all_finite",
    }
    for path, name in names.items():
        module, attribute = path.rsplit(".", 1)
        function = getattr(__import__(module, fromlist=[attribute]), attribute)

        def record(*args: Any, _f: Any = function, _n: str = name, **kwargs: Any) -> Any:
            calls.append(_n)
            return _f(*args, **kwargs)

        monkeypatch.setattr(path, record)
    monkeypatch.setattr(scnn_module, "train_in_stages", stop)
    monkeypatch.setattr(Stream, "learn", stop)
    monkeypatch.setattr(batch_training_module, "learn_online", stop)
    with pytest.raises(TrainingStartedError):
        kind(5, alpha, random_state=0).fit(X)
    assert calls == ["scan"]


@pytest.mark.parametrize("kind", [SCNN, MiniBatchSCNN])
def test_valid_float_data_are_not_copied(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_normal((400, 30))
    checked, _ = check_scaled_rows(None, X, reset=False)
    assert np.shares_memory(checked, X)
    S = scipy.sparse.csr_matrix(X)
    assert np.shares_memory(check_scaled_rows(None, S, reset=False)[0].data, S.data)


INVALID: dict[str, tuple[Any, str]] = {
    "NaN": (np.nan, "all entries of the feature 2 are NaN|a sparse X must not contain NaN"),
    "infinity": (np.inf, "Input X contains infinity"),
    "negative infinity": (-np.inf, "Input X contains infinity"),
    "too large": ("large", r"largest absolute value of X must be between .*; got {}\. Divide X"),
    "too large, negative": (
        "-large",
        r"largest absolute value of X must be between .*; got {}\. Divide X",
    ),
    "too small": ("small", r"largest absolute value of X must be between .*; got {}\. Divide X"),
}
LARGE = {"float64": 1e200, "float32": 1e30}


@pytest.mark.parametrize("name", INVALID)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("call", ["SCNN.fit", "MiniBatchSCNN.fit", "partial_fit", "alpha_max"])
def test_each_invalid_value_has_its_own_message(
    name: str, dtype: str, sparse: bool, call: str
) -> None:
    value, sentence = INVALID[name]
    rng = np.random.default_rng(0)
    X = rng.random((50, 6))
    if value == "small":
        X = X / LARGE[dtype]
    else:
        rows = slice(None) if name == "NaN" else 30
        X[rows, 2] = {"large": LARGE[dtype], "-large": -LARGE[dtype]}.get(str(value), value)
    X = X.astype(dtype)
    if "{}" in sentence:
        sentence = sentence.replace("{}", f"{np.abs(X).max():.3g}".replace("+", "."))
    given = scipy.sparse.csr_matrix(X) if sparse else X
    network: Any = SCNN(4) if call in ("SCNN.fit", "alpha_max") else MiniBatchSCNN(4)
    with pytest.raises(InvalidInputError, match=sentence):
        getattr(network, call.split(".")[-1])(given)
    assert not hasattr(network, "components_")
    assert not hasattr(network, "n_features_in_")


@pytest.mark.parametrize("name", ["infinity", "too large"])
@pytest.mark.parametrize("algorithm", ["encoder", "exact", "lasso"])
def test_messages_of_transform(digits: Any, name: str, algorithm: str) -> None:
    network = SCNN(4, 0.1, random_state=0, tol=1e-1, transform_algorithm=algorithm).fit(digits)
    X = digits[:5].copy()
    value, sentence = INVALID[name]
    X[2, 3] = LARGE["float64"] if value == "large" else value
    if name == "too large" and algorithm == "encoder":
        assert np.isfinite(network.transform(X)).all()  # one product cannot overflow here
        return
    sentence = sentence.replace("{}", "1e.200")
    with pytest.raises(InvalidInputError, match=sentence):
        network.transform(X)
    if algorithm == "exact":
        with pytest.raises(InvalidInputError, match=sentence):
            network.score(X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse", [False, True])
def test_zeros_and_values_at_the_limits_are_accepted(dtype: Any, sparse: bool) -> None:
    limits = np.finfo(dtype)
    low, high = 1.001e5 * float(limits.tiny) ** 0.5, 0.999e-5 * float(limits.max) ** 0.5
    for value in (0.0, low, high):
        X = np.zeros((5, 4), dtype=dtype)
        X[1, 2] = value
        given = scipy.sparse.csr_matrix(X) if sparse else X
        _, lengths = check_scaled_rows(None, given, reset=False)
        assert lengths.longest == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8, np.longdouble])
def test_numpy_scalars_as_parameters(digits: Any, kind: Any) -> None:
    """float32 scalars are compared without a warning about an overflow."""
    scnn = SCNN(3, alpha=kind(1) / kind(16), tol=kind(1), encoder_ridge=kind(1), random_state=0)
    assert scnn.fit(digits[:50]).alpha_ == 1 / 16
    if kind is not np.int8:
        with pytest.raises(InvalidInputError, match="tol must be a finite number"):
            SCNN(3, tol=kind("inf")).fit(digits[:50])
