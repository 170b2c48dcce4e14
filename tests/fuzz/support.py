"""Settings, watching and comparing for the fuzz tests."""

from __future__ import annotations

import copy
import pickle
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from os import environ
from typing import Any

import numpy as np
import scipy.sparse
from hypothesis import HealthCheck, Phase, event, settings
from sklearn.exceptions import ConvergenceWarning

from tests.fuzz import invariants as inv
from tests.fuzz.data import Rows
from tests.fuzz.strategies import Network

EXAMPLES = int(environ.get("LINCODE_FUZZ_EXAMPLES", "0"))
"""Examples of each test in a long search; 0 means the short run."""
TIME_LIMIT = 60
"""Seconds of processor time after which a call counts as a hang; most take milliseconds."""
FLOAT32_TOL = 1e-4
"""Codes of float32 rows are not asked to be more accurate than this."""


def fuzz(few: int, *, part: float = 1.0) -> settings:
    """``few`` examples in the short run, ``part`` of LINCODE_FUZZ_EXAMPLES in a long one."""
    return settings(
        max_examples=max(1, int(part * EXAMPLES)) if EXAMPLES else few,
        derandomize=not EXAMPLES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        # Everything but the explanation of a failure, which takes longer than finding it.
        phases=[phase for phase in Phase if phase is not Phase.explain],
    )


@contextmanager
def watched() -> Iterator[list[warnings.WarningMessage]]:
    """Stop hangs, turn every warning but the documented ones into an error, record the others."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"the call took more than {TIME_LIMIT} seconds of processor time")

    timer = hasattr(signal, "SIGPROF") and threading.current_thread() is threading.main_thread()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        for words in (
            "SCNN: ",
            "MiniBatchSCNN: ",
            "X does not have valid feature",
            "X has feature",
        ):
            warnings.filterwarnings("always", message=words, category=UserWarning)
        before = signal.signal(signal.SIGPROF, stop) if timer else None
        if timer:
            signal.setitimer(signal.ITIMER_PROF, TIME_LIMIT)
        try:
            yield caught
        finally:
            if timer:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.signal(signal.SIGPROF, before)


def fingerprint(X: Any) -> bytes:
    """All bytes of X in whichever container it is."""
    if scipy.sparse.issparse(X):
        return pickle.dumps([X.data.tobytes(), X.indices.tobytes(), X.indptr.tobytes(), X.dtype])
    if isinstance(X, list):
        return pickle.dumps(X)
    return pickle.dumps([np.asarray(X).tobytes(), np.asarray(X).dtype, np.asarray(X).shape])


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
