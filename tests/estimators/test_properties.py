"""Properties that hold for any data. Hypothesis searches for counterexamples."""

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
    pytest.mark.filterwarnings("ignore:SCNN. all (trained )?codes"),
    pytest.mark.filterwarnings("ignore:SCNN. the encoder's codes"),
]


@st.composite
def data(draw: st.DrawFn) -> Any:
    """Small matrices of any rank and scale, with zeros, repeated rows and constant columns."""
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
        "alpha_ratio": st.sampled_from([0.0, 0.01, 0.1, 0.5, 0.99]),
        "encoder_weight": st.sampled_from([0.0, 0.3, 1.0, 10.0]),
        "positive_code": st.booleans(),
        "init": st.sampled_from(["data", "paper"]),
        "solver": st.sampled_from(["auto", "auto", "paper"]),
        "random_state": st.integers(0, 5),
        "max_iter": st.integers(1, 30),
    }
)


def build(X: Any, parameters: dict[str, Any]) -> SCNN:
    others = {name: value for name, value in parameters.items() if name != "alpha_ratio"}
    return SCNN(alpha=f"{parameters['alpha_ratio']}*max", **others)


@pytest.mark.slow
@given(data(), networks)
def test_energy_never_increases_and_atoms_are_in_the_unit_balls(X: Any, parameters: Any) -> None:
    scnn = build(X, parameters).fit(X)  # fit itself fails if a step increases the energy
    assert (np.diff(scnn.energy_path_) <= 0).all()
    assert (np.linalg.norm(scnn.components_, axis=1) <= 1 + 1e-6).all()
    for value in (scnn.components_, scnn.encoder_, scnn.energy_path_, scnn.usage_):
        assert np.isfinite(value).all()


@pytest.mark.slow
@given(data(), networks)
def test_steps_are_optimal_after_convergence(X: Any, parameters: Any) -> None:
    parameters = {**parameters, "solver": "auto", "max_iter": 500}
    scnn = build(X, parameters).fit(X)
    if scnn.stop_reason_.startswith("converged"):
        rounding = 0 if X.dtype == np.float64 else 1e-3
        assert scnn.optimality_["codes"] <= 1e-4 + rounding
        assert scnn.optimality_["dictionary"] <= 1e-4
        assert scnn.optimality_["encoder"] <= 1e-6


@pytest.mark.slow
# Without the encoder term, nearly parallel atoms make the problem ill-conditioned.
@pytest.mark.filterwarnings("ignore:SCNN. the codes of .* did not reach transform_tol")
@given(data(), networks)
def test_exact_codes_have_the_lowest_energy_of_all_transforms(X: Any, parameters: Any) -> None:
    scnn = build(X, parameters).fit(X)

    def value(algorithm: str) -> float:
        U = scnn.set_params(transform_algorithm=algorithm).transform(X)
        D, C, eta = scnn.components_, scnn.encoder_, parameters["encoder_weight"]
        ridge = len(X) * scnn.noise_variance_
        return energy(X, U, D, C, scnn.alpha_, eta, ridge)

    exact = value("exact")
    assert_allclose(-scnn.score(X) * len(X), exact, rtol=1e-5)
    scale = float((X.astype(np.float64) ** 2).sum()) / X.shape[1]
    slack = 1e-5 * scale if X.dtype == np.float32 else 1e-9 * scale
    assert exact <= value("encoder") + slack
    assert exact <= value("lasso") + slack


@given(data(), networks)
def test_same_seed_gives_identical_results(X: Any, parameters: Any) -> None:
    one, two = (build(X, parameters).fit(X) for _ in range(2))
    assert_array_equal(one.components_, two.components_)
    assert_array_equal(one.encoder_, two.encoder_)


def assert_same_energies(one: SCNN, two: SCNN, dtype: Any) -> None:
    """Compare fits of one iteration. Later, rounding may lead to another local minimum."""
    close = (1e-9 if dtype == np.float64 else 1e-4) * one.energy_path_[0]
    assert_allclose(two.energy_path_, one.energy_path_, rtol=0, atol=close)


@given(data(), networks)
def test_csr_input_gives_the_same_energies(X: Any, parameters: Any) -> None:
    parameters = {**parameters, "max_iter": 1}
    dense, sparse = build(X, parameters).fit(X), build(X, parameters).fit(scipy.sparse.csr_array(X))
    assert_same_energies(dense, sparse, X.dtype)


@given(data(), networks)
def test_float32_agrees_with_float64_except_for_rounding(X: Any, parameters: Any) -> None:
    scnn = build(X, {**parameters, "max_iter": 1})
    single, double = X.astype(np.float32), X.astype(np.float32).astype(np.float64)
    assert_same_energies(clone(scnn).fit(double), clone(scnn).fit(single), np.float32)


@given(data(), networks, st.integers(1, 60), st.integers(1, 20))
def test_energies_do_not_depend_on_blocks_and_threads(
    X: Any, parameters: Any, entries: int, chunk: int
) -> None:
    scnn = build(X, {**parameters, "max_iter": 1})
    whole = clone(scnn).set_params(n_jobs=1).fit(X)
    with (
        mock.patch.object(memory, "MIN_THREAD_ENTRIES", entries),
        mock.patch.object(memory, "BLOCK_ENTRIES", entries),
        mock.patch.object(memory, "CHUNK_ROWS", chunk),
    ):
        parts = clone(scnn).set_params(n_jobs=2).fit(X)
    assert_same_energies(whole, parts, X.dtype)


@given(data(), networks)
def test_energies_do_not_depend_on_the_order_of_the_rows(X: Any, parameters: Any) -> None:
    D = np.random.default_rng(0).standard_normal((parameters["n_components"], X.shape[1]))
    scnn = build(X, {**parameters, "max_iter": 1, "init": D})
    order = np.random.default_rng(1).permutation(len(X))
    assert_same_energies(clone(scnn).fit(X), clone(scnn).fit(X[order]), X.dtype)


@given(data(), networks)
def test_codes_of_permuted_rows_are_the_permuted_codes(X: Any, parameters: Any) -> None:
    scnn = build(X, parameters).fit(X)
    order = np.random.default_rng(0).permutation(len(X))
    scale = float(np.abs(X).max())
    for algorithm in ("encoder", "exact"):
        scnn.set_params(transform_algorithm=algorithm)
        atol = scale * (1e-9 if X.dtype == np.float64 else 1e-3)
        assert_allclose(scnn.transform(X[order]), scnn.transform(X)[order], atol=atol)
