"""Arrays of other libraries are returned as they came, if scikit-learn's dispatch is on."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from lincode import SAANN, SCNN, SCNNCV, MiniBatchSCNN, SparseCoder, Sparsenet, sparse_encode
from lincode.estimators import array_api
from lincode.exceptions import InvalidInputError

pytest.importorskip("array_api_compat")
strict = pytest.importorskip("array_api_strict")
pytestmark = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="array_api_strict needs NumPy 2"
)

M = 12
DTYPES = (np.float32, np.float64)
DEVICES = {"CPU": strict.Device("CPU_DEVICE"), "other": strict.Device("device1")}


@pytest.fixture
def _dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn dispatch on for lincode. scikit-learn itself needs a setting of the process."""
    monkeypatch.setattr(array_api, "get_config", lambda: {"array_api_dispatch": True})


@pytest.fixture(scope="module")
def networks(digits: Any) -> dict[Any, Any]:
    """Estimators whose codes are a product and a simple function."""
    found: dict[Any, Any] = {
        (mode, positive): SCNN(
            M, 0.1, threshold_mode=mode, positive_code=positive, random_state=0, tol=1e-1
        ).fit(digits)
        for mode in ("soft", "hard", "top_k")
        for positive in (False, True)
    }
    found["split"] = copy.deepcopy(found["hard", False]).set_params(split_sign=True)
    found["tanh"] = SAANN(M, activation="tanh", max_iter=2, random_state=0).fit(digits)
    found["sigmoid"] = SAANN(M, max_iter=2, random_state=0).fit(digits)
    found["linear"] = SAANN(M, activation="linear", max_iter=2, random_state=0).fit(digits)
    found["coder"] = SparseCoder(digits[:M], transform_algorithm="threshold", transform_alpha=2.0)
    return found


def of_strict(X: Any, device: str = "CPU") -> Any:
    return strict.asarray(X, device=DEVICES[device])


def to_numpy(X: Any) -> Any:
    return np.asarray(X.to_device(DEVICES["CPU"]))


@pytest.mark.usefixtures("_dispatch")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", list(DEVICES))
def test_library_dtype_and_device_are_kept(
    networks: Any, digits: Any, dtype: Any, device: str
) -> None:
    X = digits[:40].astype(dtype)
    given = of_strict(X, device)
    for network in networks.values():
        codes = network.transform(given)
        samples = network.inverse_transform(codes)
        results = (codes, samples, network.reconstruct(given))
        for result in results:
            assert isinstance(result, type(given))
            assert result.dtype == given.dtype
            assert result.device == given.device
        expected = network.transform(X)
        tol = 1e-5 if dtype == np.float32 else 1e-12
        assert_allclose(to_numpy(codes), expected, atol=tol)
        assert_allclose(to_numpy(samples), network.inverse_transform(expected), atol=tol)
        assert_allclose(to_numpy(results[2]), network.reconstruct(X), atol=tol)


@pytest.mark.usefixtures("_dispatch")
def test_equal_entries_on_a_device(networks: Any, digits: Any) -> None:
    network = copy.deepcopy(networks["top_k", False]).set_params(fit_gains=False)
    network.encoder_[1::2] = network.encoder_[::2]  # pairs of equal units
    for k in (1, 2, 3, M):
        network.set_params(transform_n_nonzero_coefs=k)
        codes = to_numpy(network.transform(of_strict(digits[:30], "other")))
        assert_allclose(codes, network.transform(digits[:30]), atol=1e-12)
        assert_array_equal(codes != 0, network.transform(digits[:30]) != 0)


@pytest.mark.usefixtures("_dispatch")
@pytest.mark.parametrize("device", list(DEVICES))
def test_other_algorithms_and_training(networks: Any, digits: Any, device: str) -> None:
    given = of_strict(digits[:100], device)
    tol = 0 if device == "CPU" else 1e-12  # products on the device are rounded differently
    lasso = copy.deepcopy(networks["hard", False]).set_params(transform_algorithm="lasso")
    search = SCNNCV(SCNN(M, random_state=0, tol=1e-1), alphas=[0.1, 0.2], cv=2, criterion="energy")
    for network in (
        SCNN(M, random_state=0, tol=1e-1),
        MiniBatchSCNN(M, random_state=0),
        Sparsenet(4, max_iter=2, random_state=0),
        search,
        lasso,
    ):
        codes = network.fit_transform(given)
        assert isinstance(codes, type(given))
        assert codes.device == given.device
        assert isinstance(network.components_, np.ndarray)
        reconstructed = network.reconstruct(given)
        assert_allclose(to_numpy(codes), network.transform(digits[:100]), rtol=0, atol=tol)
        expected = network.reconstruct(digits[:100])
        assert_allclose(to_numpy(reconstructed), expected, rtol=0, atol=tol)
        assert network.score(given) == network.score(digits[:100])
    assert networks["hard", False].score(given) == networks["hard", False].score(digits[:100])
    D = digits[:5]
    codes = sparse_encode(given, of_strict(D, device), alpha=0.5)
    assert isinstance(codes, type(given))
    assert codes.device == given.device
    assert_array_equal(to_numpy(codes), sparse_encode(digits[:100], D, alpha=0.5))


@pytest.mark.usefixtures("_dispatch")
def test_a_device_is_not_needed_for_what_happens_on_the_cpu(networks: Any, digits: Any) -> None:
    network = copy.deepcopy(networks["hard", False])
    network.calibrate(of_strict(digits, "other"), density=0.2)
    expected = copy.deepcopy(networks["hard", False]).calibrate(digits, density=0.2)
    assert network.threshold_ == expected.threshold_
    X = np.rint(16 * digits[:20]).astype(np.int64)
    codes = network.transform(of_strict(X, "other"))
    assert codes.device == DEVICES["other"]
    assert_array_equal(to_numpy(codes), network.transform(X))


@pytest.mark.usefixtures("_dispatch")
def test_weights_of_samples_on_a_device(digits: Any) -> None:
    X, weights = digits[:100], np.arange(100.0)
    scnn = SCNN(M, random_state=0, tol=1e-1)
    scnn.fit(of_strict(X, "other"), sample_weight=of_strict(weights, "other"))
    expected = SCNN(M, random_state=0, tol=1e-1).fit(X, sample_weight=weights)
    assert_array_equal(scnn.components_, expected.components_)


@pytest.mark.usefixtures("_dispatch")
@pytest.mark.parametrize("device", list(DEVICES))
def test_sparse_codes_are_scipy_arrays(networks: Any, digits: Any, device: str) -> None:
    network = copy.deepcopy(networks["hard", False]).set_params(sparse_output=True)
    codes = network.transform(of_strict(digits[:20], device))
    assert scipy.sparse.issparse(codes)
    assert_array_equal(codes.toarray(), network.transform(digits[:20]).toarray())


@pytest.mark.usefixtures("_dispatch")
@pytest.mark.parametrize("device", list(DEVICES))
def test_invalid_arrays(networks: Any, digits: Any, device: str) -> None:
    network, X = networks["hard", False], digits[:20].copy()
    with pytest.raises(InvalidInputError, match="codes must have"):
        network.inverse_transform(of_strict(X, device))
    with pytest.raises(InvalidInputError, match="features"):
        network.transform(of_strict(X[:, :3], device))


@pytest.mark.usefixtures("_dispatch")
def test_missing_entries_and_infinity(networks: Any, digits: Any) -> None:
    network, X = networks["hard", False], digits[:20].copy()
    X[3, 4] = np.nan
    assert_array_equal(to_numpy(network.transform(of_strict(X))), network.transform(X))
    X[3, 4] = np.inf
    with pytest.raises(InvalidInputError, match="infinity"):
        network.transform(of_strict(X))


@pytest.mark.usefixtures("_dispatch")
def test_missing_entries_on_a_device_are_not_zeros(networks: Any, digits: Any) -> None:
    X = digits[:20].copy()
    X[3, 4] = np.nan
    for name, network in networks.items():
        if not isinstance(network, SCNN):
            continue
        given = of_strict(X, "other")
        for method in (network.transform, network.reconstruct):
            result = method(given)
            assert result.device == given.device
            assert_array_equal(to_numpy(result), method(X), err_msg=str(name))
    X[3, 4] = np.inf
    with pytest.raises(InvalidInputError, match="infinity"):
        networks["hard", False].transform(of_strict(X, "other"))


def test_without_dispatch_the_result_is_an_array_of_numpy(networks: Any, digits: Any) -> None:
    network = networks["hard", False]
    codes = network.transform(of_strict(digits[:20]))
    assert isinstance(codes, np.ndarray)
    assert_array_equal(codes, network.transform(digits[:20]))


SCRIPT = """
import sys
import array_api_strict, numpy as np, sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from lincode import SCNN

try:
    sklearn.set_config(array_api_dispatch=True)
except ImportError:
    sys.exit("old")
X = np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32)
scnn = SCNN(8, 0.1, random_state=0, tol=1e-1)
model = make_pipeline(StandardScaler(), scnn).fit(X)
given = array_api_strict.asarray(X)
assert np.array_equal(scnn.transform(model[0].transform(X)), model.transform(X))
for network in (scnn, model.fit(X)[-1], scnn.fit(given)):
    codes = network.transform(given)
    assert type(codes) is type(given) and codes.dtype == given.dtype
    assert np.array_equal(np.asarray(codes), network.transform(X))
"""


def test_dispatch_of_scikit_learn() -> None:
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    out = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment
    )
    if out.stderr.strip() == "old":
        pytest.skip("the versions of scikit-learn and SciPy have no dispatch")
    assert out.returncode == 0, out.stderr
