"""The defaults reconstruct new samples better than PCA and scikit-learn's dictionary learning."""

import ast
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_sample_image
from sklearn.decomposition import PCA, MiniBatchDictionaryLearning, TruncatedSVD, sparse_encode
from sklearn.feature_extraction.image import extract_patches_2d
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from lincode import SCNN


def digits() -> tuple[Any, int]:
    return load_digits().data / 16, 100


def patches() -> tuple[Any, int]:
    image = load_sample_image("china.jpg").mean(axis=2) / 255
    X = extract_patches_2d(image, (8, 8), max_patches=4000, random_state=0).reshape(-1, 64)
    return X - X.mean(axis=1, keepdims=True), 128


def paragraphs() -> list[str]:
    """Return paragraphs of scikit-learn's docstrings. The files are not executed."""
    found: set[str] = set()
    for path in sorted(Path(inspect.getfile(PCA)).parents[1].glob("*/_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.update((ast.get_docstring(node) or "").split("\n\n"))
    return sorted(text for text in found if len(text.split()) >= 12)


def text() -> tuple[Any, int]:
    vectors = TfidfVectorizer(min_df=2).fit_transform(paragraphs())
    return normalize(TruncatedSVD(64, random_state=0).fit_transform(vectors)), 128


def activations() -> tuple[Any, int]:
    """Return activations of a transformer."""
    file = Path(os.environ.get("LINCODE_DATA", ".")) / "activations" / "minilm_layer3_test.npy"
    if not file.exists():
        pytest.skip("LINCODE_DATA does not name a folder with activations")
    X = np.load(file).astype(np.float32)
    return X - X.mean(axis=0), 384


def spectra() -> tuple[Any, int]:
    rng, p = np.random.default_rng(0), 128
    places, widths = rng.uniform(0, p, 40), rng.uniform(1, 6, 40)
    peaks = np.exp(-0.5 * ((np.arange(p) - places[:, None]) / widths[:, None]) ** 2)
    present = rng.random((2500, 40)) < rng.integers(2, 7, (2500, 1)) / 40
    return present * rng.gamma(2, 1, (2500, 40)) @ peaks + 0.01 * rng.random((2500, p)), 64


def lasso_error(D: Any, train: Any, test: Any, k: float) -> float:
    """Return the error of scikit-learn's lasso codes with k non-zeros per training sample."""
    low, high = 1e-4, float(np.abs(train @ D.T).max())
    for _ in range(12):
        alpha = (low * high) ** 0.5
        U = sparse_encode(train[:100], D, algorithm="lasso_cd", alpha=alpha)
        low, high = (alpha, high) if np.count_nonzero(U) > 100 * k else (low, alpha)
    U = sparse_encode(test, D, algorithm="lasso_cd", alpha=alpha)
    return float(np.sum((test - U @ D) ** 2))


@pytest.mark.slow
@pytest.mark.parametrize("load", [digits, patches, text, activations, spectra])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_defaults_beat_pca_and_lasso_codes(load: Callable[[], tuple[Any, int]]) -> None:
    X, m = load()
    X = np.random.default_rng(1).permutation(X)
    n_test = 300
    train, test = X[n_test:], X[:n_test]
    scnn = SCNN(m, random_state=0).fit(train)
    codes = scnn.transform(test)
    k = codes.astype(bool).sum(axis=1).mean()
    assert k == pytest.approx(0.1 * m, rel=0.15)
    assert (scnn.usage_ > 0).mean() > 0.45
    error = float(np.sum((test - scnn.inverse_transform(codes)) ** 2))
    pca = PCA(round(k), random_state=0).fit(train)
    pca_error = float(np.sum((test - pca.inverse_transform(pca.transform(test))) ** 2))
    assert error < 0.9 * pca_error
    alpha = 0.1 * float(np.linalg.norm(train, axis=1).mean())
    learner = MiniBatchDictionaryLearning(
        m, alpha=alpha, batch_size=256, max_iter=4, random_state=0
    )
    D = learner.fit(train).components_
    assert error < 0.97 * lasso_error(D, train, test, k)
