"""How many cases are tried, calls of the library under watch, and comparisons."""

from __future__ import annotations

import copy
import os
import pickle
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import sklearn
from hypothesis import HealthCheck, Phase, settings
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from lincode.exceptions import InvalidInputError
from tests.fuzz import invariants as inv
from tests.fuzz.data import Rows
from tests.fuzz.strategies import Network

CASES = int(os.environ.get("LINCODE_FUZZ_CASES", "0"))
"""Cases of each test in a long search. 0 means a few, which are always the same."""
PACKAGE = Path(sklearn.__file__).parent
DOCUMENTED_WARNINGS = (
    "(SCNN|MiniBatchSCNN|SparseCoder): ",
    "the codes of .* did not reach the tolerance",
    "X does not have valid feature",
    "X has feature",
)
"""Warnings that a call may give. Every other warning is an error."""


def fuzz(few: int, part: float = 1.0) -> Any:
    """Set how many cases of a test are tried: ``few``, or a part of those of a long search."""
    return settings(
        max_examples=max(1, round(part * CASES)) if CASES else few,
        derandomize=not CASES,
        deadline=None,
        print_blob=bool(CASES),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        # Everything but the explanation of a failure, which takes longer than finding it.
        phases=[phase for phase in Phase if phase is not Phase.explain],
    )


@contextmanager
def watched() -> Iterator[list[warnings.WarningMessage]]:
    """Turn every warning but the documented ones into an error, and record the others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        for words in DOCUMENTED_WARNINGS:
            warnings.filterwarnings("always", message=words, category=UserWarning)
        yield caught


def attempt(call: Callable[[], Any], what: str) -> tuple[Any, bool]:
    """Return the result of the call and True, or None and False if it was refused.

    A refusal is an error of lincode, or of the validation of scikit-learn, that says a sentence.
    """
    try:
        with watched():
            return call(), True
    except (NotFittedError, ValueError, TypeError) as refusal:
        last = Path(traceback.extract_tb(refusal.__traceback__)[-1].filename)
        own = isinstance(refusal, InvalidInputError | NotFittedError)
        if len(str(refusal).split()) < 5 or not (own or PACKAGE in last.parents):
            raise AssertionError(f"{what}: this is not a refusal") from refusal
        return None, False


def fingerprint(X: Any) -> bytes:
    """All bytes of X, in whichever container it is."""
    if scipy.sparse.issparse(X):
        return pickle.dumps([X.data.tolist(), X.indices.tolist(), X.indptr.tolist()])
    return pickle.dumps(X if isinstance(X, list) else np.asarray(X).tolist())


def state(model: Any) -> dict[str, bytes]:
    """Everything the model has learned, as bytes that can be compared."""
    learned = {name: value for name, value in vars(model).items() if name not in model.get_params()}
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
    with watched():
        model = network.build(cls, X, data.p)
        assert model.fit(X) is model, "fit must return the estimator"
    assert fingerprint(X) == before, "fit must not change X"
    return model, X, data.reference()


def codes_of(model: Any, X: Any) -> tuple[Any, bool]:
    """Codes in float64, one column per atom, and whether all are within the tolerance."""
    before = fingerprint(X)
    with watched() as caught:
        codes = model.transform(X)
    assert fingerprint(X) == before, "transform must not change X"
    assert scipy.sparse.issparse(codes) == model.sparse_output, "sparse_output must be respected"
    assert np.isfinite(dense(codes)).all(), "codes must be finite"
    if model.split_sign:
        assert (dense(codes) >= 0).all(), "split_sign must give codes of at least 0"
    solved = not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return inv.joined(model, codes), solved
