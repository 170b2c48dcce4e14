"""Rules that hold for any data: hypothesis looks for the exception."""

from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from lincode import SCNN
from lincode.core.energy import energy
from lincode.rows import memory

pytestmark = [
    pytest.mark.filterwarnings("ignore:SCNN. max_iter"),
    pytest.mark.filterwarnings("ignore:SCNN. every code is zero"),
    pytest.mark.filterwarnings("ignore:SCNN. the encoder's codes"),
]


@st.composite
def data(draw: st.DrawFn) -> Any:
    """Small matrices with what real ones have: zeros, repeated rows, odd scales, any rank."""
    N, p = draw(st.integers(1, 40)), draw(st.integers(1, 10))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    rank = draw(st.integers(1, p))
    X = rng.standard_normal((N, rank)) @ rng.standard_normal((rank, p))
    if draw(st.booleans()):
        X *= rng.random((N, p)) < 0.4
    if draw(st.booleans()):
        X[rng.integers(0, N, N // 2)] = X[0]
    if draw(st.booleans()):
        X[:, rng.integers(0, p)] = draw(st.sampled_from([0.0, 1.0, -30.0]))
    X *= 10.0 ** draw(st.integers(-3, 3))
    return X.astype(draw(st.sampled_from([np.float64, np.float32])))


networks = st.fixed_dictionaries(
    {
        "n_components": st.integers(1, 12),
        "share": st.sampled_from([0.0, 0.01, 0.1, 0.5, 0.99]),
        "encoder_weight": st.sampled_from([0.0, 0.3, 1.0, 10.0]),
        "positive_code": st.booleans(),
        "init": st.sampled_from(["data", "paper"]),
        "solver": st.sampled_from(["auto", "auto", "paper"]),
        "random_state": st.integers(0, 5),
        "max_iter": st.integers(1, 30),
    }
)


def build(X: Any, parameters: dict[str, Any]) -> SCNN:
    share = parameters["share"]
    scnn = SCNN(**{name: value for name, value in parameters.items() if name != "share"})
    alpha = share * scnn.alpha_max(X)
    return SCNN(**{**scnn.get_params(), "alpha": alpha})


@given(data(), networks)
def test_the_energy_never_rises_and_atoms_stay_in_the_balls(X: Any, parameters: Any) -> None:
    scnn = build(X, parameters).fit(X)  # which raises by itself if a step raises the energy
    assert (np.diff(scnn.energy_path_) <= 0).all()
    assert (np.linalg.norm(scnn.components_, axis=1) <= 1 + 1e-6).all()
    for value in (scnn.components_, scnn.encoder_, scnn.energy_path_, scnn.usage_):
        assert np.isfinite(value).all()


@given(data(), networks)
def test_steps_are_optimal_after_convergence(X: Any, parameters: Any) -> None:
    parameters = {**parameters, "solver": "auto", "max_iter": 500}
    scnn = build(X, parameters).fit(X)
    if scnn.stop_reason_.startswith("converged"):
        rounding = 0 if X.dtype == np.float64 else 1e-3
        assert scnn.optimality_["codes"] <= 1e-4 + rounding
        assert scnn.optimality_["dictionary"] <= 1e-4
        assert scnn.optimality_["encoder"] <= 1e-6


@given(data(), networks)
def test_exact_codes_have_the_least_energy_of_all_transforms(X: Any, parameters: Any) -> None:
    scnn = build(X, parameters).fit(X)

    def value(method: str) -> float:
        U = scnn.set_params(transform_method=method).transform(X)
        return energy(
            X, U, scnn.components_, scnn.encoder_, scnn.alpha, parameters["encoder_weight"]
        )

    exact = value("exact")
    assert_allclose(-scnn.score(X) * len(X), exact, rtol=1e-5)
    scale = float((X.astype(np.float64) ** 2).sum()) / X.shape[1]
    slack = 1e-5 * scale if X.dtype == np.float32 else 1e-9 * scale
    assert exact <= value("encoder") + slack
    assert exact <= value("relearn") + slack


@given(data(), networks)
def test_the_same_seed_gives_the_same_bits(X: Any, parameters: Any) -> None:
    one, two = (build(X, parameters).fit(X) for _ in range(2))
    assert_array_equal(one.components_, two.components_)
    assert_array_equal(one.encoder_, two.encoder_)


def assert_same_way_down(one: SCNN, two: SCNN, dtype: Any) -> None:
    """Of two fits of one iteration: further on, rounding may decide between two good ways."""
    close = (1e-9 if dtype == np.float64 else 1e-4) * one.energy_path_[0]
    assert_allclose(two.energy_path_, one.energy_path_, rtol=0, atol=close)


@given(data(), networks)
def test_sparse_is_dense(X: Any, parameters: Any) -> None:
    parameters = {**parameters, "max_iter": 1}
    dense, sparse = build(X, parameters).fit(X), build(X, parameters).fit(scipy.sparse.csr_array(X))
    assert_same_way_down(dense, sparse, X.dtype)


@given(data(), networks)
def test_float32_is_float64_but_for_rounding(X: Any, parameters: Any) -> None:
    scnn = build(X, {**parameters, "max_iter": 1})
    single, double = X.astype(np.float32), X.astype(np.float32).astype(np.float64)
    assert_same_way_down(clone(scnn).fit(double), clone(scnn).fit(single), np.float32)


@given(data(), networks, st.integers(1, 60), st.integers(1, 20))
def test_blocks_and_threads_change_nothing(
    X: Any, parameters: Any, entries: int, chunk: int
) -> None:
    scnn = build(X, {**parameters, "max_iter": 1})
    whole = clone(scnn).set_params(n_jobs=1).fit(X)
    with (
        mock.patch.object(memory, "BLOCK_ENTRIES", entries),
        mock.patch.object(memory, "CHUNK_ROWS", chunk),
    ):
        parts = clone(scnn).set_params(n_jobs=2).fit(X)
    assert_same_way_down(whole, parts, X.dtype)


@given(data(), networks)
def test_the_order_of_the_rows_does_not_matter(X: Any, parameters: Any) -> None:
    D = np.random.default_rng(0).standard_normal((parameters["n_components"], X.shape[1]))
    scnn = build(X, {**parameters, "max_iter": 1, "init": D})
    order = np.random.default_rng(1).permutation(len(X))
    assert_same_way_down(clone(scnn).fit(X), clone(scnn).fit(X[order]), X.dtype)


@given(data(), networks)
def test_permuted_rows_have_permuted_codes(X: Any, parameters: Any) -> None:
    scnn = build(X, parameters).fit(X)
    order = np.random.default_rng(0).permutation(len(X))
    scale = float(np.abs(X).max())
    for method in ("encoder", "exact"):
        scnn.set_params(transform_method=method)
        atol = scale * (1e-9 if X.dtype == np.float64 else 1e-3)
        assert_allclose(scnn.transform(X[order]), scnn.transform(X)[order], atol=atol)
