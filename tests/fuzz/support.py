"""Fitting, encoding and comparing for the fuzz tests of estimators."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import scipy.sparse
from hypothesis import event
from sklearn.exceptions import ConvergenceWarning

from tests.fuzz import invariants as inv
from tests.fuzz.data import Rows
from tests.fuzz.strategies import Network
from tests.fuzz.watching import watched

FLOAT32_TOL = 1e-4
"""Codes of float32 rows are not asked to be more accurate than this."""


def fingerprint(X: Any) -> bytes:
    """All bytes of X in whichever container it is; nothing for what is not a container."""
    if scipy.sparse.issparse(X):
        names = ("data", "indices", "indptr", "row", "col", "coords", "rows")
        arrays = [np.asarray(getattr(X, name)) for name in names if hasattr(X, name)]
        return pickle.dumps([array.tolist() for array in arrays])
    if isinstance(X, list | tuple):
        return pickle.dumps(X)
    if isinstance(X, np.ma.MaskedArray):
        return pickle.dumps([X.data.tobytes(), np.ma.getmaskarray(X).tobytes()])
    is_frame = not hasattr(X, "collect") and hasattr(X, "columns")  # a lazy frame has no values
    if not isinstance(X, np.ndarray) and not is_frame:
        return b""
    A = np.asarray(X)
    return pickle.dumps([repr(A.tolist()) if A.dtype.kind == "O" else A.tobytes(), A.dtype])


def state(model: Any) -> dict[str, Any]:
    """Everything the model has learned, as bytes that can be compared."""
    learned = {name: value for name, value in vars(model).items() if name.endswith("_")}
    if hasattr(model, "_stream"):
        learned["_stream"] = model._stream
    return {name: pickle.dumps(copy.deepcopy(value)) for name, value in learned.items()}


def assert_same_bits(one: Any, two: Any, what: str) -> None:
    for name in ("components_", "encoder_", "energy_path_", "usage_"):
        same = np.array_equal(getattr(one, name), getattr(two, name))
        assert same, f"{what}: {name} must be the same to the last bit"


def dense(codes: Any) -> Any:
    return codes.toarray() if scipy.sparse.issparse(codes) else np.asarray(codes)


def fitted(cls: type[Any], data: Rows, network: Network) -> tuple[Any, Any, Any]:
    """A fitted model, X as it was given, and X in float64; X must not have changed."""
    X = data.build()
    before = fingerprint(X)
    model = network.build(cls, X, data.p)
    with watched():
        assert model.fit(X) is model, "fit must return the estimator"
    assert fingerprint(X) == before, "fit must not change X"
    return model, X, data.reference()


def solvable(model: Any, network: Network, data: Rows) -> None:
    """Raise ``transform_tol`` where codes of a higher accuracy can take the solver 20,000 steps.

    These are problems that are nearly unregularised, and codes in float32.
    """
    floor = FLOAT32_TOL if np.float32 in (data.precision(), model.components_.dtype) else 0.0
    if network.alpha_fraction < 1e-2:
        floor = 1e-3
    model.set_params(transform_tol=max(model.transform_tol, floor))


def codes_of(model: Any, X: Any) -> tuple[Any, bool]:
    """Codes in float64, one column per atom, and whether all are within ``transform_tol``."""
    before = fingerprint(X)
    with watched() as caught:
        codes = model.transform(X)
    assert fingerprint(X) == before, "transform must not change X"
    assert scipy.sparse.issparse(codes) == model.sparse_output, "sparse_output must be respected"
    assert np.isfinite(dense(codes)).all(), "codes must be finite"
    m = len(model.components_) * (2 if model.split_sign else 1)
    assert codes.shape == (len(dense(codes)), m), f"codes have shape {codes.shape}"
    if model.split_sign:
        assert (dense(codes) >= 0).all(), "split_sign must give codes of at least 0"
    solved = not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    if not solved:
        event("codes not solved within the iteration limit")
    return inv.joined(model, codes), solved
