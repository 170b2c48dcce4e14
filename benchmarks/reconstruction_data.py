"""The data of ``reconstruction.py``, ``encoder_modes.py`` and ``topk_autoencoder.py``.

Nothing is downloaded. MNIST is read from the folder that ``LINCODE_DATA`` names; without it, random
images of the same shape are used (see ``data.py``).
"""

from __future__ import annotations

import ast
import gzip
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets
from data import load_digits
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neural_network import MLPClassifier

N_VALIDATION, N_TEST = 500, 500
PACKAGES = ("numpy", "scipy", "sklearn")
LABEL_HEADER_BYTES = 8


@dataclass(frozen=True)
class Split:
    """Samples of one kind of data, and the number of units for them."""

    title: str
    n_components: int
    train: Any
    validation: Any
    test: Any


def split(title: str, n_components: int, X: Any, n_train: int) -> Split:
    """Split the rows of X: first the test rows, then the validation rows, then training rows."""
    held_out = N_TEST + N_VALIDATION
    return Split(
        title,
        n_components,
        train=X[held_out : held_out + n_train],
        validation=X[N_TEST:held_out],
        test=X[:N_TEST],
    )


def mnist() -> Split:
    """Return digits of 28×28 pixels in [−1, 1]."""
    X, source = load_digits()
    return split(f"{source}, 28×28 pixels", 400, X, 10_000)


def patches() -> Split:
    """Return patches of 8×8 pixels of two photographs with mean 0, scaled to a variance of 1.

    The patches do not overlap, so training and test samples have no pixel in common.
    """
    tiles = []
    for image in sklearn.datasets.load_sample_images().images:
        grey = image.mean(axis=2)
        height, width = (size - size % 8 for size in grey.shape)
        blocks = grey[:height, :width].reshape(height // 8, 8, width // 8, 8)
        tiles.append(blocks.transpose(0, 2, 1, 3).reshape(-1, 64))
    X = np.random.default_rng(0).permutation(np.vstack(tiles))
    X = X - X.mean(axis=1, keepdims=True)
    return split("8×8 patches of photographs", 128, X / X.std(), 7000)


def docstrings() -> list[str]:
    """Return the docstrings of at least 200 characters of installed packages, without repetition.

    The files are parsed and not executed.
    """
    found: dict[str, None] = {}
    for package in PACKAGES:
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations if spec else None) or []:
            for path in sorted(Path(folder).rglob("*.py")):
                if "tests" not in path.parts:
                    found.update(dict.fromkeys(docstrings_of(path)))
    return list(found)


def docstrings_of(path: Path) -> Iterator[str]:
    """Yield the long docstrings of one file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about the syntax of the parsed files
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node) or ""
            if len(text) >= 200:
                yield text


def text() -> Split:
    """Return docstrings as tf-idf vectors, reduced to 128 dimensions and normalised."""
    documents = docstrings()
    order = np.random.default_rng(0).permutation(len(documents))
    vectors = TfidfVectorizer(sublinear_tf=True, stop_words="english", min_df=3).fit_transform(
        [documents[i] for i in order]
    )
    held_out = N_TEST + N_VALIDATION
    svd = TruncatedSVD(128, random_state=0).fit(vectors[held_out:])
    X = svd.transform(vectors)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    X *= np.sqrt(X.shape[1])
    return split("docstrings, tf-idf and TruncatedSVD", 256, X, 4000)


def planted() -> Split:
    """Return sums of 16 of 512 random atoms in 256 dimensions, with noise of 10 % of their size."""
    rng = np.random.default_rng(0)
    n, m, p, k = 6000, 512, 256, 16
    D = rng.standard_normal((m, p))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    U = np.zeros((n, m))
    columns = np.argsort(rng.random((n, m)), axis=1)[:, :k]
    np.put_along_axis(U, columns, rng.standard_normal((n, k)), axis=1)
    X = U @ D
    X /= X.std()
    return split("planted dictionary", m, X + 0.1 * rng.standard_normal(X.shape), 5000)


def hidden_activations(n_hidden: int = 256, n_samples: int = 16_000) -> Any:
    """Return the activations of a classifier's hidden layer, centred and with a variance of 1.

    The classifier is trained on MNIST digits (digits of 8×8 pixels without MNIST). The activations
    are those of other digits, if there are enough of them.
    """
    X, y = labelled_digits()
    n_fit = min(len(X), 5000)
    mlp = MLPClassifier((n_hidden,), max_iter=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mlp.fit(X[:n_fit], y[:n_fit])
    rows = X[n_fit : n_fit + n_samples] if len(X) >= n_fit + n_samples else X
    H = np.maximum(rows @ mlp.coefs_[0] + mlp.intercepts_[0], 0)
    H = H - H.mean(axis=0)
    return H / H.std()


def activations() -> Split:
    """Return the activations of 256 hidden units."""
    H = hidden_activations()
    return split("hidden activations of a classifier", 512, H, len(H) - N_TEST - N_VALIDATION)


def labelled_digits() -> tuple[Any, Any]:
    """Return MNIST in [−1, 1] and its labels; without it, digits of 8×8 pixels."""
    folder = os.environ.get("LINCODE_DATA")
    path = Path(folder or ".") / "mnist" / "train-labels-idx1-ubyte.gz"
    if folder and path.exists():
        labels = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8)[LABEL_HEADER_BYTES:]
        return load_digits()[0], labels
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    return X / 8 - 1, y


DATA = {
    "mnist": mnist,
    "patches": patches,
    "text": text,
    "planted": planted,
    "activations": activations,
}
