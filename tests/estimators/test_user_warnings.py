"""Warnings: they point to the line of the user's program, and they say what helps."""

import inspect
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lincode import ASCNN, SAANN, SCNN, SCNNCV, MiniBatchSCNN, Sparsenet, scnn_path
from lincode.core import code_step

RNG = np.random.default_rng(0)
NOISE = RNG.standard_normal((40, 60))
"""Fewer samples than features, which have nothing in common"""


def caught(call: Callable[[], Any], words: str) -> warnings.WarningMessage:
    """Return the only warning of a call that contains some words."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    (warning,) = [warning for warning in found if words in str(warning.message)]
    return warning


def ill_conditioned() -> Any:
    """A fitted network whose lasso codes need too many steps for the tolerance."""
    X = RNG.standard_normal((30, 24)) * 10.0 ** RNG.integers(-3, 4, (30, 1))
    scnn = SCNN(24, alpha=1e-6, tol=1e-2, random_state=0, transform_algorithm="lasso")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scnn.fit(X).set_params(transform_tol=0), X


REFINED = SCNN(80, alpha="2*mean", refine_max_iter=30, tol=1e-2, random_state=0)
OVERFITTED = SCNN(5, encoder_ridge=0, random_state=0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: SCNN(4, max_iter=1).fit(NOISE), "max_iter was reached"),
        (lambda: SCNN(4, 1e3).fit(NOISE), "all codes will be zero"),
        (lambda: MiniBatchSCNN(4, 1e3).fit(NOISE), "all codes will be zero"),
        (lambda: MiniBatchSCNN(4, 1e3).partial_fit(NOISE), "all codes will be zero"),
        (lambda: SCNN(4, 1e3).fit_transform(NOISE), "all codes will be zero"),
        (lambda: SCNN(4, 1e3).set_output(transform="pandas").fit(NOISE), "all codes will be zero"),
        (lambda: make_pipeline(StandardScaler(), SCNN(4, 1e3)).fit(NOISE), "all codes will be"),
        (lambda: scnn_path(NOISE, 4, max_iter=1, alphas=[0.1]), "max_iter was reached"),
        (lambda: SCNNCV(SCNN(4), alphas=[1e-3], cv=2).fit(NOISE), "no alpha gives codes"),
        (lambda: OVERFITTED.fit(NOISE), "encoder's codes"),
        (lambda: REFINED.fit(NOISE), "refinement did not reduce"),
        (lambda: REFINED.calibrate(NOISE), "refinement did not reduce"),
        (lambda: SAANN(4, max_iter=1).fit(0 * NOISE), "all entries of X are zero"),
        (lambda: ASCNN(4, 1.0, max_iter=1, learning_rate=1e9).fit(NOISE), "every pass ended"),
        (lambda: Sparsenet(4, max_iter=1, transform_max_iter=1).fit_transform(NOISE), "not within"),
    ],
)
def test_warnings_point_to_the_line_that_called_the_library(
    call: Callable[[], Any], words: str
) -> None:
    warning = caught(call, words)
    assert warning.filename == __file__
    assert warning.lineno == inspect.getsourcelines(call)[1]


@pytest.mark.parametrize("method", ["transform", "reconstruct", "score"])
@pytest.mark.parametrize("output", ["default", "pandas"])
@pytest.mark.parametrize("sparse", [False, True])
def test_warnings_of_transform(
    method: str, output: str, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scnn, X = ill_conditioned()
    # The active-set method would solve these rows.
    monkeypatch.setattr(code_step._Block, "solve_sparse", lambda self, rows: rows)
    scnn.set_params(sparse_output=sparse and output == "default").set_output(transform=output)
    scnn.set_params(encoder_weight=0.0)  # so that exact codes are as hard as lasso codes
    call = getattr(scnn, method)
    warning = caught(lambda: call(X), "did not reach the tolerance")
    assert warning.filename == __file__


def test_zero_codes_below_alpha_max_are_reported(digits: Any) -> None:
    """Algorithm 1 does not replace atoms that no sample uses."""
    for parameters, advice in (
        ({"solver": "paper"}, "a smaller alpha or solver='auto'."),
        ({"max_iter": 1, "init": np.eye(4, 64)}, "a smaller alpha or more iterations."),
    ):
        scnn = SCNN(4, "0.98*max", random_state=0).set_params(**parameters)
        warning = caught(partial(scnn.fit, digits), "all trained codes are zero")
        assert not scnn.usage_.any()
        assert scnn.alpha_ < scnn.alpha_max(digits)
        assert advice in str(warning.message)
    scnn = SCNN(4, "0.98*max", random_state=0, transform_algorithm="lasso")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert scnn.fit(digits).usage_.any()


def test_zero_codes_of_the_start_of_the_paper_are_reported(digits: Any) -> None:
    """alpha_max does not hold for it, so the warning before training is not given."""
    scnn = SCNN(4, "50*max", init="paper", random_state=0)
    caught(lambda: scnn.fit(digits), "all trained codes are zero")
    assert not scnn.usage_.any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_encoder_that_overfits_is_reported(digits: Any, dtype: Any) -> None:
    """The advice is not a threshold that is already set."""
    X = np.random.default_rng(0).standard_normal((200, 200)).astype(dtype)
    scnn = SCNN(40, encoder_ridge=0, tol=1e-2, random_state=0)
    warning = caught(lambda: scnn.fit(X), "encoder's codes have")
    assert "Use a larger encoder_ridge" in str(warning.message)
    assert "threshold" not in str(warning.message)
    assert (scnn.transform(X) != 0).mean() < 0.01 * scnn.usage_.mean()
    scnn = SCNN(16, threshold=9.0, random_state=0)
    warning = caught(lambda: scnn.fit(digits), "encoder's codes have")
    assert "Set threshold='match'" in str(warning.message)
