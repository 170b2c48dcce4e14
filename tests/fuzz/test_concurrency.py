"""The same bits from several threads at once, and from a process that was forked after a fit."""

from __future__ import annotations

import os
import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.cases import fuzz
from tests.fuzz.data import Rows
from tests.fuzz.recipes import Recipe, recipes
from tests.fuzz.strategies import rows
from tests.fuzz.support import dense
from tests.fuzz.watching import attempt

pytestmark = pytest.mark.slow

N_THREADS = 4
CHILD_SECONDS = 120


def fitted_codes(recipe: Recipe, data: Rows) -> tuple[Any, bytes] | None:
    """Return a fitted model and the bytes of its codes; None if it refuses the data."""
    X = data.build()
    model = recipe.build(data.p)
    codes, accepted = attempt(lambda: model.fit(X).transform(X), "fit and transform")
    return (model, dense(codes).tobytes()) if accepted else None


@given(recipes(), rows(largest=15), st.booleans())
@fuzz(15, part=0.2)
def test_threads(recipe: Recipe, data: Rows, fit: bool) -> None:
    """Each thread fits and encodes, or all threads encode with the same model."""
    result = fitted_codes(recipe, data)
    if result is None:
        return
    model, expected = result
    X = data.build()

    def work(_: int) -> Any:
        estimator = recipe.build(data.p).fit(X) if fit else model
        return dense(estimator.transform(X)).tobytes()

    with warnings.catch_warnings():  # the filters are those of the process, not of a thread
        warnings.simplefilter("ignore")
        with ThreadPoolExecutor(N_THREADS) as pool:
            codes = list(pool.map(work, range(N_THREADS)))
    assert all(code == expected for code in codes), "codes of a thread differ"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@given(recipes(), rows(largest=15), st.booleans())
@fuzz(8, part=0.05)
def test_fork(recipe: Recipe, data: Rows, fit: bool) -> None:
    """A forked process fits or encodes, and gives the bits of its parent."""
    if data.container == "polars":
        return  # Polars has threads of its own and may wait for them forever after a fork.
    result = fitted_codes(recipe, data)
    if result is None:
        return
    model, expected = result
    X = data.build()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of Python warn about threads
        child = os.fork()
        if child == 0:
            status = 1
            try:
                estimator = recipe.build(data.p).fit(X) if fit else model
                status = 0 if dense(estimator.transform(X)).tobytes() == expected else 2
            finally:
                os._exit(status)
    assert _exit_status(child) == 0, "the codes of a forked process differ, or it failed"


def _exit_status(child: int) -> int:
    """Return the exit status of a process, which is ended if it takes too long."""
    deadline = time.monotonic() + CHILD_SECONDS
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise TimeoutError(f"a forked process took more than {CHILD_SECONDS} seconds")
