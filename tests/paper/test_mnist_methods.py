"""The methods that the paper cites: their codes, and that they recognise digits."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from paper.experiments.features import decode_wrong
from paper.experiments.mnist_methods import METHODS, llc_codes
from paper.samples import Samples, Split


@pytest.fixture(scope="module")
def data() -> Split:
    return Samples(embedded=True).digits((400, 150, 150), 0, 28)


def test_local_codes_are_affine_and_sparse(rng: np.random.Generator) -> None:
    centres = rng.standard_normal((30, 8))
    X = rng.standard_normal((50, 8))
    codes = llc_codes(X, centres, 4)
    assert codes.shape == (50, 30)
    assert_array_equal(np.diff(codes.indptr), 4)
    assert_allclose(codes.sum(axis=1), 1, atol=1e-5)
    distances = np.linalg.norm(X[:, None] - centres, axis=2)
    for x, u, nearest in zip(X, codes.toarray(), distances.argsort(axis=1)[:, :4], strict=True):
        assert set(np.flatnonzero(u)) <= set(nearest)
        # The oracle is least squares with the last weight eliminated by the constraint.
        base = centres[nearest[-1]]
        A = (centres[nearest[:-1]] - base).T
        error = x - base - A @ np.linalg.lstsq(A, x - base, rcond=None)[0]
        assert np.linalg.norm(x - u @ centres) == pytest.approx(np.linalg.norm(error), rel=0.01)


def test_local_code_of_a_centre_is_that_centre(rng: np.random.Generator) -> None:
    centres = rng.standard_normal((20, 5))
    assert_allclose(llc_codes(centres, centres, 3).toarray(), np.eye(20), atol=1e-2)


SETTINGS: dict[str, dict[str, Any]] = {
    "sparse coding (lincode)": {"m": 60, "lam": 0.5},
    "deep belief network": {"layers": [60, 60], "passes": 100},
    "local coordinate coding (LLC)": {"m": 80, "neighbours": 5},
    "Laplacian eigenmap (landmarks)": {"m": 20, "neighbours": 8, "landmarks": 300},
    "local kernel smoothing": {"neighbours": [1, 3, 5]},
    "VQ coding (k-means)": {"m": 80},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", SETTINGS)
def test_digits_are_recognised(method: str, data: Split) -> None:
    settings = SETTINGS[method] | {"Cs": [1.0, 10.0]}
    found = METHODS[method](data, settings, 0)
    assert found["test_error"] < (0.35 if "belief" in method else 0.15)
    assert found["val_error"] < 0.35
    assert found["parameters"]
    predicted = np.array([int(c) for c in found["test_predictions"]])
    assert_array_equal(predicted != data.y_test, decode_wrong(found["test_wrong"], 150))
    assert np.mean(predicted != data.y_test) == pytest.approx(found["test_error"])
