"""The data of the benchmarks. Nothing is downloaded.

MNIST, photographs and activations of a transformer are read from the folder that ``LINCODE_DATA``
names; without it, random images of the same shape, scikit-learn's photographs and activations of a
small classifier are used.
"""

from __future__ import annotations

import ast
import gzip
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neural_network import MLPClassifier

N_VALIDATION, N_TEST = 500, 2000
N_SAMPLES, N_FEATURES = 60_000, 784
HEADER_BYTES = 16
PACKAGES = ("numpy", "scipy", "sklearn")


def load_digits() -> tuple[Any, str]:
    """Load digits of 28×28 pixels, scaled to [−1, 1].

    MNIST is read from ``mnist/train-images-idx3-ubyte.gz`` in the folder that the environment
    variable ``LINCODE_DATA`` names.

    Returns
    -------
    X : float32 array of shape (60000, 784)
    source : str
        What the data are.
    """
    folder = os.environ.get("LINCODE_DATA")
    path = Path(folder or ".") / "mnist" / "train-images-idx3-ubyte.gz"
    if not (folder and path.exists()):
        return random_digits(), "random data of MNIST's shape"
    pixels = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=HEADER_BYTES)
    return pixels.reshape(N_SAMPLES, N_FEATURES).astype(np.float32) / np.float32(127.5) - 1, "MNIST"


def shrink_digits(X: Any) -> Any:
    """Return digits of 14×14 pixels, of shape (n_samples, 196), by averaging 2×2 pixels."""
    return X.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(X), 196)


def random_digits(n_samples: int = N_SAMPLES) -> Any:
    """Return images with a dark background and about ten of 300 smooth spots each."""
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.arange(28), np.arange(28)), axis=-1).reshape(-1, 2)
    centres, widths = rng.uniform(4, 24, (300, 1, 2)), rng.uniform(1.5, 5, (300, 2))
    spots = np.exp(-(((grid - centres) / widths[:, None]) ** 2).sum(axis=2)).astype(np.float32)
    X = np.empty((n_samples, N_FEATURES), dtype=np.float32)
    for start in range(0, n_samples, 5000):
        n = min(5000, n_samples - start)
        weights = rng.random((n, 300), dtype=np.float32) * (rng.random((n, 300)) < 10 / 300)
        X[start : start + n] = np.clip(2 * (weights @ spots) - 1, -1, 1)
    return X


def load_patches(n: int, size: int = 8) -> tuple[Any, str]:
    """Load patches of photographs in random order, with grey values in [0, 1] minus their mean.

    The photographs are those of ``bsds300`` in the folder that the environment variable
    ``LINCODE_DATA`` names, or else the two sample images of scikit-learn.

    Returns
    -------
    X : float32 array of shape (n, size²)
    source : str
        What the photographs are.
    """
    images, source = _photographs()
    rng = np.random.default_rng(0)
    per_image = -(-n // len(images))
    patches = []
    for image in images:
        grey = image.mean(axis=2, dtype=np.float32) / 255
        corners = rng.integers(0, np.array(grey.shape) - size + 1, (per_image, 2))
        patches += [grey[i : i + size, j : j + size].ravel() for i, j in corners]
    X = rng.permutation(np.array(patches))[:n]
    return X - X.mean(axis=1, keepdims=True), source


def _photographs() -> tuple[list[Any], str]:
    """Return photographs as arrays of shape (height, width, 3), and what they are."""
    folder = os.environ.get("LINCODE_DATA")
    files = sorted((Path(folder) / "bsds300").rglob("*.jpg")) if folder else []
    if not files:
        return list(sklearn.datasets.load_sample_images().images), "scikit-learn's sample images"
    from PIL import Image

    return [np.asarray(Image.open(file).convert("RGB")) for file in files], "BSDS300"


@dataclass(frozen=True)
class Split:
    """Samples of one kind, the number of units for them, and labels if there are any."""

    title: str
    n_components: int
    train: Any
    validation: Any
    test: Any
    labels: tuple[Any, Any] | None = None
    """The labels of the training and the test samples"""


def split(title: str, m: int, X: Any, n_train: int, y: Any = None, n_test: int = N_TEST) -> Split:
    """Split the rows of X: first the test rows, then the validation rows, then training rows."""
    held_out = n_test + N_VALIDATION
    parts = slice(held_out, held_out + n_train), slice(n_test, held_out), slice(0, n_test)
    labels = None if y is None else (y[parts[0]], y[parts[2]])
    train, validation, test = (X[part] for part in parts)
    return Split(title, m, train, validation, test, labels)


def digits() -> Split:
    """Return scikit-learn's digits of 8×8 pixels."""
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    held_out = 400
    X, y = X[order] / 16, y[order]
    validation, test = X[held_out : held_out + 200], X[:held_out]
    train, labels = X[held_out + 200 :], (y[held_out + 200 :], y[:held_out])
    return Split("8×8 digits", 100, train, validation, test, labels)


def mnist(n_train: int = 10_000) -> Split:
    """Return digits of 28×28 pixels in [0, 1]."""
    X, source = load_digits()
    folder = os.environ.get("LINCODE_DATA")
    path = Path(folder or ".") / "mnist" / "train-labels-idx1-ubyte.gz"
    y = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=8) if folder else None
    return split(f"{source}, 28×28 pixels", 400, (X + 1) / 2, n_train, y)


def few_digits() -> Split:
    """Return 500 digits with 784 pixels."""
    return mnist(500)


def patches() -> Split:
    """Return patches of 8×8 pixels without their mean."""
    X, source = load_patches(20_000 + N_VALIDATION + N_TEST)
    return split(f"8×8 patches of {source}", 128, X, 20_000)


def docstrings() -> tuple[list[str], Any]:
    """Return paragraphs of docstrings of installed packages, and the number of their package.

    The files are parsed and not executed.
    """
    found: dict[str, int] = {}
    for number, package in enumerate(PACKAGES):
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations if spec else None) or []:
            for path in sorted(Path(folder).rglob("*.py")):
                if "tests" not in path.parts:
                    found |= dict.fromkeys(_paragraphs(path), number)
    return list(found), np.array(list(found.values()))


def _paragraphs(path: Path) -> Iterator[str]:
    """Yield the paragraphs of at least 12 words of the docstrings of one file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about the syntax of the parsed files
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            paragraphs = (ast.get_docstring(node) or "").split("\n\n")
            yield from (text for text in paragraphs if len(text.split()) >= 12)


def sparse_texts() -> tuple[Any, Any]:
    """Return paragraphs of docstrings as sparse tf-idf vectors of float32, and their packages."""
    documents, y = docstrings()
    order = np.random.default_rng(0).permutation(len(documents))
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=3, dtype=np.float32)
    return vectorizer.fit_transform([documents[i] for i in order]), y[order]


def text() -> Split:
    """Return texts as tf-idf vectors, reduced to 128 dimensions and normalised."""
    vectors, y = sparse_texts()
    svd = TruncatedSVD(128, random_state=0).fit(vectors[N_TEST + N_VALIDATION :])
    X = svd.transform(vectors)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    return split("texts, tf-idf and SVD", 256, X, 20_000, y)


def wide_text() -> Split:
    """Return texts as sparse tf-idf vectors of many words."""
    vectors, y = sparse_texts()
    return split("texts, tf-idf", 100, vectors.tocsr(), 5000, y)


def activations() -> Split:
    """Return activations of a transformer, minus the mean of the training rows."""
    folder = Path(os.environ.get("LINCODE_DATA", ".")) / "activations"
    files = [folder / f"minilm_layer3_{part}.npy" for part in ("train", "test")]
    if not files[0].exists():
        return hidden_activations()
    train, test = (np.load(file).astype(np.float32) for file in files)
    mean = train.mean(axis=0)
    X = np.concatenate([test[: N_TEST + N_VALIDATION], train]) - mean
    return split("activations of MiniLM, layer 3", 1536, X, 20_000)


def hidden_activations() -> Split:
    """Return the activations of 256 hidden units of a classifier of digits."""
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    X = X / 16
    mlp = MLPClassifier((256,), max_iter=30, tol=1e-2, random_state=0).fit(X, y)
    H = np.maximum(X @ mlp.coefs_[0] + mlp.intercepts_[0], 0)
    return split("activations of a classifier", 512, H - H.mean(axis=0), 1000, n_test=200)


def spectra() -> Split:
    """Return sums of two to six of 40 peaks, plus a little noise."""
    rng, n, p = np.random.default_rng(0), 7000, 128
    places, widths = rng.uniform(0, p, 40), rng.uniform(1, 6, 40)
    peaks = np.exp(-0.5 * ((np.arange(p) - places[:, None]) / widths[:, None]) ** 2)
    present = rng.random((n, 40)) < rng.integers(2, 7, (n, 1)) / 40
    X = present * rng.gamma(2, 1, (n, 40)) @ peaks + 0.01 * rng.random((n, p))
    return split("spectra", 64, X, 4000)


def planted() -> Split:
    """Return sums of 5 of 128 random atoms in 64 dimensions, plus 10 % noise."""
    rng, n, p, m = np.random.default_rng(0), 12_500, 64, 128
    atoms = rng.standard_normal((m, p))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    codes = np.where(rng.random((n, m)).argsort(axis=1) < 5, rng.standard_normal((n, m)), 0)
    X = codes @ atoms + 0.1 * (5 / p) ** 0.5 * rng.standard_normal((n, p))
    return split("planted dictionary", m, X, 10_000)


FRONT: dict[str, Callable[[], Split]] = {
    "mnist": mnist,
    "patches": patches,
    "text": text,
    "activations": activations,
    "planted": planted,
    "spectra": spectra,
}
"""The data sets of the front."""
ALL = FRONT | {"digits": digits, "few digits": few_digits, "wide text": wide_text}
