"""Interpretation of codes, compared with plain loops over dense arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, csr_matrix
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lincode import ASCNN, SAANN, SCNN, SCNNCV, MiniBatchSCNN, SparseCoder, Sparsenet
from lincode.exceptions import InvalidInputError
from lincode.inspection import (
    correlated_atoms,
    decompose,
    label_correlations,
    top_features,
    top_samples,
)

FORMS: list[Callable[[Any], Any]] = [np.asarray, csr_matrix, csr_array, pd.DataFrame]


@pytest.fixture(scope="module")
def codes() -> Any:
    """200 sparse codes of 7 atoms with many equal values; the last atom is not used."""
    rng = np.random.default_rng(0)
    U = rng.integers(-4, 5, (200, 7)) * (rng.random((200, 7)) < 0.3) / 2.0
    U[:, 6] = 0
    return U


@pytest.fixture(scope="module")
def scnn(digits: Any) -> SCNN:
    return SCNN(12, random_state=0).fit(digits)


def ranked(column: Any, sign: str) -> list[int]:
    """All rows of a column that count, by brute force: largest first, equal ones by row."""
    size = {"both": np.abs(column), "positive": column, "negative": -column}[sign]
    return sorted(np.flatnonzero(size > 0).tolist(), key=lambda i: (-size[i], i))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sign", ["both", "positive", "negative"])
@pytest.mark.parametrize("n", [1, 5, 500])
def test_top_samples_are_those_of_a_full_sort(codes: Any, form: Any, sign: str, n: int) -> None:
    table = top_samples(form(codes), n, sign=sign)
    for j in range(codes.shape[1]):
        here = table.atom == j
        expected = ranked(codes[:, j], sign)[:n]
        assert_array_equal(table.sample[here], expected)
        assert_array_equal(table.value[here], codes[expected, j])
        assert_array_equal(table["rank"][here], np.arange(len(expected)))
    assert 6 not in table.atom


def test_tables_have_names_and_become_data_frames(codes: Any) -> None:
    frame = pd.DataFrame(codes, columns=[f"unit{j}" for j in range(7)])
    table = pd.DataFrame(top_samples(frame, 2, atoms=[3, 1]))
    assert table["name"].tolist() == ["unit3", "unit3", "unit1", "unit1"]
    assert "name" not in top_samples(codes, 2)


def test_explicit_zeros_of_a_sparse_matrix_are_not_uses() -> None:
    U = csr_matrix(([0.0, 2.0], ([0, 1], [0, 0])), shape=(3, 1))
    assert_array_equal(top_samples(U).sample, [1])
    twice = csr_array(([0.5, 1.0, -0.5], [0, 1, 0], [0, 3]), (1, 2))  # the first entry is 0
    assert_array_equal(top_samples(twice).atom, [1])


def test_columns_of_split_signs_are_atoms_of_their_own(scnn: SCNN, digits: Any) -> None:
    from sklearn.base import clone

    split = clone(scnn).set_params(split_sign=True).fit(digits)
    U, V = scnn.transform(digits), split.transform(digits)
    table, split_table = top_samples(U, 4, sign="negative"), top_samples(V, 4)
    negative = split_table.atom >= 12
    assert_array_equal(split_table.atom[negative] - 12, table.atom)
    assert_array_equal(split_table.sample[negative], table.sample)
    assert_allclose(split_table.value[negative], -table.value)


def test_top_features_are_the_largest_entries_of_atoms(scnn: SCNN) -> None:
    table = top_features(scnn, 3, atoms=5)
    order = np.argsort(-np.abs(scnn.components_[5]))[:3]
    assert_array_equal(table.feature, order)
    assert_allclose(table.value, scnn.components_[5][order])
    names = [f"pixel{i}" for i in range(64)]
    named = top_features(scnn.components_, 3, atoms=[5], feature_names=names)
    assert named.name.tolist() == [f"pixel{i}" for i in order]


def test_names_of_features_come_from_the_estimator(digits: Any) -> None:
    frame = pd.DataFrame(digits[:200], columns=[f"pixel{i}" for i in range(64)])
    network = SCNN(4, random_state=0, tol=1e-2).fit(frame)
    table = top_features(network, 2)
    assert table.name.tolist() == [f"pixel{i}" for i in table.feature]
    parts = decompose(network, frame.iloc[7])
    assert_allclose(parts.reconstruction, network.reconstruct(frame.iloc[[7]])[0])
    assert_allclose(parts.reconstruction, decompose(network, frame.iloc[[7]]).reconstruction)


def test_samples_of_polars(scnn: SCNN, digits: Any) -> None:
    pl = pytest.importorskip("polars")
    row = decompose(scnn, pl.Series(digits[7]))
    assert_allclose(row.reconstruction, scnn.reconstruct(digits[7:8])[0])
    frame = pl.DataFrame(digits[:200], schema=[f"pixel{i}" for i in range(64)])
    network = SCNN(4, random_state=0, tol=1e-2).fit(frame)
    parts = decompose(network, frame[7:8])  # without a warning about names
    assert_allclose(parts.reconstruction, network.reconstruct(frame[7:8])[0])


NETWORKS = [
    SCNN(12, random_state=0),
    SCNN(12, random_state=0, split_sign=True, sparse_output=True),
    SCNN(12, random_state=0, fit_decoder=True),
    SCNN(12, random_state=0, refine_max_iter=2, split_sign=True),
    SCNN(12, random_state=0, transform_algorithm="lasso"),
    MiniBatchSCNN(12, random_state=0),
    SCNNCV(SCNN(12, split_sign=True, random_state=0), alphas=["mean"], cv=2, criterion="energy"),
    SAANN(12, random_state=0, max_iter=2),
    ASCNN(12, random_state=0, max_iter=2),
    Sparsenet(12, random_state=0, max_iter=2),
]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.filterwarnings("ignore")
def test_contributions_add_up_to_the_reconstruction(network: Any, digits: Any) -> None:
    network.fit(digits)
    x = digits[3]
    parts = decompose(network, x)
    assert_allclose(parts.contribution.sum(axis=0), network.reconstruct(x[None])[0], atol=1e-10)
    assert_allclose(parts.reconstruction + parts.residual, x)
    assert_allclose(parts.fraction.sum(), 1)
    lengths = np.linalg.norm(parts.contribution, axis=1)
    assert (np.diff(lengths) <= 1e-12).all()
    U = network.transform(x[None])
    u = (U.toarray() if hasattr(U, "toarray") else U)[0]
    u = u[:12] - u[12:] if len(u) == 24 else u
    assert sorted(parts.atom) == np.flatnonzero(u).tolist()
    assert_allclose(parts.coefficient, u[parts.atom])
    given = decompose(network, csr_matrix(x[None]), code=U)
    assert_allclose(given.contribution, parts.contribution)


def test_a_zero_code_has_no_parts(scnn: SCNN) -> None:
    parts = decompose(scnn, np.zeros(64))
    assert parts.contribution.shape == (0, 64)
    assert not parts.reconstruction.any()
    assert not parts.residual.any()


def test_sparse_coder_needs_no_fit(digits: Any) -> None:
    D = np.linalg.qr(np.random.default_rng(0).standard_normal((64, 64)))[0]
    parts = decompose(SparseCoder(D, transform_n_nonzero_coefs=64), digits[0])
    # The atoms are orthonormal, so the fractions are those of the squared coefficients.
    assert_allclose(parts.residual, 0, atol=1e-10)
    assert_allclose(parts.fraction, parts.coefficient**2 / (digits[0] @ digits[0]), atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("absolute", [False, True])
def test_correlations_are_those_of_numpy(codes: Any, form: Any, absolute: bool) -> None:
    rng = np.random.default_rng(1)
    y = np.array(["b", "a", "c"])[rng.integers(0, 3, 200)]
    U = np.abs(codes) if absolute else codes
    result = label_correlations(form(codes), y, absolute=absolute)
    assert result.label.tolist() == ["a", "b", "c"]
    for label, row in zip(result.label, result.correlation, strict=True):
        expected = [np.corrcoef(U[:, j], y == label)[0, 1] for j in range(6)]
        assert_allclose(row, [*expected, 0.0], atol=1e-12)
    target = rng.standard_normal(200)
    numeric = label_correlations(form(codes), target, absolute=absolute)
    assert numeric.label.tolist() == ["y"]
    expected = [np.corrcoef(U[:, j], target)[0, 1] for j in range(6)]
    assert_allclose(numeric.correlation[0, :6], expected, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("factor", [1e200, 1e-170, -1e308 / 3, 1e-300])
def test_correlations_do_not_depend_on_the_scale(codes: Any, form: Any, factor: float) -> None:
    y = np.random.default_rng(1).standard_normal(200)
    expected = label_correlations(codes, y).correlation
    result = label_correlations(form(codes * factor), y).correlation
    assert_allclose(result, np.sign(factor) * expected, atol=1e-12)
    result = label_correlations(form(codes), y * factor, numeric=True).correlation
    assert_allclose(result, np.sign(factor) * expected, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_correlations_do_not_depend_on_the_mean(codes: Any, form: Any) -> None:
    shifted = codes + 2.0**30  # exact
    shifted[:100, 5] = 0  # a column of large values and zeros
    for y in (np.arange(200) % 3, np.linspace(0, 1, 200)):
        centred = shifted - shifted.mean(axis=0)
        expected = label_correlations(centred, y).correlation
        assert_allclose(label_correlations(form(shifted), y).correlation, expected, atol=1e-12)
        expected = label_correlations(codes, y).correlation
        result = label_correlations(form(codes + 2.0**30), y).correlation
        assert_allclose(result, expected, atol=1e-12)
    target = np.linspace(0, 1, 200)
    expected = [np.corrcoef(codes[:, j], target)[0, 1] for j in range(6)]
    result = label_correlations(form(codes + 1e8), target + 2.0**20).correlation
    assert_allclose(result[0], [*expected, 0], atol=1e-9)


def test_whole_numbers_are_classes_unless_they_are_numeric(codes: Any) -> None:
    y = np.arange(200.0) % 4
    assert label_correlations(codes, y).correlation.shape == (4, 7)
    result = label_correlations(codes, y, numeric=True).correlation
    assert_allclose(result[0, 0], np.corrcoef(codes[:, 0], y)[0, 1])


def test_constant_columns_have_no_correlation() -> None:
    y = np.arange(49) % 3
    for value in (0.1, 0.3, 7.7, 1e5 + 0.1):  # their variance is not 0 after rounding
        for form in FORMS:
            assert not label_correlations(form(np.full((49, 1), value)), y).correlation.any()


@pytest.mark.parametrize("sign", ["positive", "negative", "both"])
def test_correlated_atoms_are_sorted(codes: Any, sign: str) -> None:
    y = np.arange(200) % 3
    result = label_correlations(codes, y)
    table = correlated_atoms(pd.DataFrame(codes), y, 3, sign=sign)
    for label in range(3):
        here = table.label == label
        expected = ranked(result.correlation[label], sign)[:3]
        assert_array_equal(table.atom[here], expected)
        assert_allclose(table.correlation[here], result.correlation[label, expected])
    assert_array_equal(table.name, table.atom)


def test_the_atom_of_a_planted_class_is_found() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    U = rng.standard_normal((300, 20)) * (rng.random((300, 20)) < 0.2)
    U[:, 13] += 3 * y
    assert correlated_atoms(U, y, 1).atom[1] == 13


BAD: list[tuple[Callable[[Any], Any], str]] = [
    (lambda U: top_samples(U[0]), "codes must have two dimensions"),
    (lambda U: top_samples(U * np.nan), "codes must be finite"),
    (lambda U: top_samples([["a"]]), "codes must be numbers"),
    (lambda U: top_samples(SCNN(), U), r"got the estimator SCNN; pass scnn.transform\(X\)"),
    (lambda U: label_correlations(SCNN(), U), r"SCNN; pass scnn.transform\(X\)"),
    (lambda U: correlated_atoms(SCNN(), U), r"SCNN; pass scnn.transform\(X\)"),
    (lambda U: top_samples(U, 0), "n_samples must be an integer of at least 1, got 0"),
    (lambda U: top_samples(U, 2.5), "n_samples must be an integer"),  # type: ignore[arg-type]
    (lambda U: top_samples(U, sign="up"), "sign must be one of"),
    (lambda U: top_samples(U, atoms=[7]), r"atoms must be between 0 and 6, got \[7\]"),
    (lambda U: top_samples(U, atoms=-1), "atoms must be between 0 and 6, got -1"),
    (lambda U: top_samples(U, atoms=[]), "atoms must be None or integers"),
    (lambda U: top_samples(U, atoms=1.5), "atoms must be None or integers"),
    (lambda U: top_features(U, feature_names=["a"]), "one name for each of 7 features"),
    (lambda U: label_correlations(U, [1, 2]), "one label for each of 200 samples"),
    (lambda U: label_correlations(U, ["a"] * 200, numeric=True), "y must be numbers"),
    (lambda U: label_correlations(U, [np.nan] * 200, numeric=True), "y must be finite"),
    (lambda U: label_correlations(U, [np.inf] + [1.5] * 199), "y must be finite"),
    (lambda U: label_correlations(U, [None] * 200, numeric=True), "y must be finite"),
    (lambda U: label_correlations(U, [None] * 200), "y must be classes .* got NoneType"),
    (
        lambda U: label_correlations(U, np.array([1, "a"] * 100, dtype=object)),
        "y must be classes .* got int, str",
    ),
    (
        lambda U: label_correlations(U, np.array([1.0, np.nan] * 100, dtype=object)),
        "y must be finite",
    ),
    (lambda U: decompose(SparseCoder(np.eye(7)), U), "sample must be a single one"),
    (
        lambda U: decompose(SparseCoder(np.eye(7)), U[0], code=np.zeros(3)),
        "code must have 7 entries, .* got 3",
    ),
    (
        lambda U: decompose(SparseCoder(np.eye(7), split_sign=True), U[0], code=np.zeros(7)),
        "code must have 14 entries, .* got 7",
    ),
    (
        lambda U: decompose(SparseCoder(np.eye(7)), U[0, :1], code=U[0]),
        "sample must have 7 entries, .* got 1",
    ),
    (lambda U: decompose(U, U[0]), "estimator must be a fitted network, such as SCNN, got array"),
    (lambda U: decompose(SCNN, U[0]), "estimator must be a fitted network"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_refused(codes: Any, call: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call(codes)


def test_pipelines_and_searches_are_named_in_the_error(scnn: SCNN, digits: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"got a Pipeline; pass its step, pipeline\['scnn'"):
        decompose(make_pipeline(StandardScaler(), scnn), digits[0])
    search = GridSearchCV(PCA(2), {"n_components": [2]}, cv=2).fit(digits)
    with pytest.raises(InvalidInputError, match="pass its best_estimator_"):
        decompose(search, digits[0])
    with pytest.raises(NotFittedError):
        decompose(SCNN(), digits[0])
