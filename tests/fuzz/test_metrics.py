"""The metrics of lincode.metrics against direct formulas, for any numbers and containers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lincode import metrics
from tests.fuzz.cases import fuzz
from tests.fuzz.hostile import MAYBE_VALID, Hostile, hostile_inputs
from tests.fuzz.support import fingerprint
from tests.fuzz.watching import attempt

pytestmark = pytest.mark.slow

THRESHOLDS = st.lists(st.sampled_from([0.0, 0.1, 0.5, 1e-300, 1e300, 2.0]), min_size=1, max_size=4)


@given(hostile_inputs(), THRESHOLDS)
@fuzz(60, part=3)
def test_sparsity(data: Hostile, thresholds: list[float]) -> None:
    codes = data.build()
    before = fingerprint(codes)
    curve, accepted = attempt(lambda: metrics.sparsity_curve(codes, thresholds), "sparsity_curve")
    assert fingerprint(codes) == before, "the codes must not be changed"
    if not accepted:
        return
    if data.refused_by_all or data.container in MAYBE_VALID:
        return  # numbers in one dimension, for example, are codes
    U = np.abs(data.reference())
    with np.errstate(over="ignore"):
        limits = np.asarray(thresholds, dtype=_precision(codes))
    expected = [float(np.less_equal(U, float(limit)).mean()) for limit in limits]
    assert np.allclose(curve, expected, rtol=1e-12), f"{curve} instead of {expected}"
    value, accepted = attempt(lambda: metrics.sparsity(codes, thresholds[0]), "sparsity")
    assert accepted, "sparsity must accept what sparsity_curve accepts"
    assert value == curve[0], "sparsity must be a point of the curve"
    area, accepted = attempt(lambda: metrics.sparsity_area(codes, thresholds), "sparsity_area")
    if accepted:
        assert 0 <= area <= 1 + 1e-12, f"the area is a fraction, got {area}"


def _precision(codes: Any) -> Any:
    dtype = codes.dtype if hasattr(codes, "dtype") else np.asarray(codes).dtype
    return np.float32 if dtype == np.float32 else np.float64


@given(hostile_inputs(), hostile_inputs(), st.booleans())
@fuzz(60, part=3)
def test_errors(one: Hostile, two: Hostile, same: bool) -> None:
    A = one.build()
    B = one.reference() if same and not one.refused_by_all else two.build()
    error, accepted = attempt(lambda: metrics.rms_error(A, B), "rms_error")
    if accepted:
        assert np.isfinite(error), f"the error of finite numbers must be finite, got {error}"
        assert error >= 0, "errors are not negative"
        if same and not one.refused_by_all:
            assert error <= 1e-3 * np.abs(one.reference()).max(), "the same numbers"
    rate, accepted = attempt(lambda: metrics.error_rate(A, A), "error_rate")
    assert not accepted or 0 <= rate <= 1, f"a rate is a fraction, got {rate}"
