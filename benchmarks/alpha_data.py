"""The data sets of ``alpha_scale.py``. None needs a download; MNIST is used where it exists."""

from __future__ import annotations

import gzip
import importlib
import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_sample_image,
    load_wine,
)
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.image import extract_patches_2d
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler, normalize

MODULES = (
    *("numpy", "numpy.linalg", "numpy.random", "numpy.fft", "scipy.linalg", "scipy.optimize"),
    *("scipy.signal", "scipy.sparse", "scipy.spatial", "scipy.stats", "sklearn.cluster"),
    *("sklearn.datasets", "sklearn.decomposition", "sklearn.ensemble", "sklearn.linear_model"),
    *("sklearn.metrics", "sklearn.model_selection", "sklearn.preprocessing", "pandas"),
)
"""Modules whose docstrings are the text corpus; those that are not installed are skipped."""


@dataclass(frozen=True)
class DataSet:
    """Rows ``X`` in random order and the numbers of units to train on them.

    ``stress`` marks data that were made to break a scale, such as rows with outliers.
    """

    name: str
    X: Any
    sizes: tuple[int, ...]
    stress: bool = False


def digits() -> Any:
    return load_digits().data / 16


def mnist(n: int = 1200) -> Any:
    """Downsampled MNIST (14×14 pixels in [0, 1]), or None if LINCODE_DATA does not have it."""
    path = Path(os.environ.get("LINCODE_DATA", ".")) / "mnist" / "train-images-idx3-ubyte.gz"
    if not path.exists():
        return None
    with gzip.open(path) as file:
        pixels = np.frombuffer(file.read(16 + n * 784), dtype=np.uint8, offset=16)
    return pixels.reshape(n, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(n, 196) / 255


def patches() -> Any:
    image = load_sample_image("china.jpg").mean(axis=2) / 255
    return extract_patches_2d(image, (8, 8), max_patches=1500, random_state=0).reshape(-1, 64)


def paragraphs() -> list[str]:
    """Paragraphs of at least 15 words from the docstrings of MODULES, sorted."""
    found: set[str] = set()
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        for key in sorted(vars(module)):
            if not key.startswith("_") and callable(getattr(module, key)):
                text = inspect.getdoc(getattr(module, key)) or ""
                found.update(part for part in text.split("\n\n") if len(part.split()) >= 15)
    return sorted(found)


def low_rank(rng: np.random.Generator, n: int = 1500, p: int = 128, rank: int = 24) -> Any:
    """Gaussian rows of low rank with a decaying spectrum, plus noise, of varying length."""
    factors = rng.standard_normal((n, rank)) / np.arange(1, rank + 1) ** 0.5
    rows = factors @ rng.standard_normal((rank, p)) + 0.3 * rng.standard_normal((n, p))
    return rows * rng.lognormal(0, 0.4, (n, 1))


def activations() -> Any:
    """Activations of the hidden layer (ReLU) of a small classifier of the digits."""
    X, y = digits(), load_digits().target
    net = MLPClassifier((96,), max_iter=30, tol=1e-2, random_state=0).fit(X, y)
    return np.maximum(X @ net.coefs_[0] + net.intercepts_[0], 0)


def spectra(rng: np.random.Generator, n: int = 1500, p: int = 128) -> Any:
    """Sums of two to six peaks from a list of 40, plus a little noise; positive."""
    places, widths = rng.uniform(0, p, 40), rng.uniform(1, 6, 40)
    peaks = np.exp(-0.5 * ((np.arange(p) - places[:, None]) / widths[:, None]) ** 2)
    present = rng.random((n, 40)) < rng.integers(2, 7, (n, 1)) / 40
    heights = present * rng.gamma(2, 1, (n, 40))
    return heights @ peaks + 0.01 * rng.random((n, p))


def planted(rng: np.random.Generator, n: int = 1500, p: int = 64, m: int = 128) -> Any:
    """Rows made of 5 of 128 random atoms, plus noise of a tenth of their length."""
    atoms = normalize(rng.standard_normal((m, p)))
    order = rng.random((n, m)).argsort(axis=1)
    codes = np.where(order < 5, rng.standard_normal((n, m)), 0)
    return codes @ atoms + 0.1 * (5 / p) ** 0.5 * rng.standard_normal((n, p))


def one_hot(rng: np.random.Generator, fields: int, levels: int, n: int = 1500) -> Any:
    """``fields`` categorical columns, each one-hot over ``levels``, of unequal frequencies."""
    frequency = 1 / np.arange(1, levels + 1)
    chosen = rng.choice(levels, (n, fields), p=frequency / frequency.sum())
    return np.eye(levels)[chosen].reshape(n, -1)


def with_outliers(X: Any, count: int) -> Any:
    """X, the first ``count`` rows 100 times longer; these rows are always trained on."""
    return X * np.where(np.arange(len(X)) < count, 100.0, 1.0)[:, None]


def centred(X: Any) -> Any:
    return X - X.mean(axis=0)


def sizes(p: int) -> tuple[int, ...]:
    """Half as many units as features, as many, twice as many and four times as many."""
    return (p // 2, p, 2 * p, 4 * p)


def image_sets() -> Iterator[DataSet]:
    usual = (32, 64, 128, 256)
    yield DataSet("digits", digits(), usual)
    yield DataSet("digits, centred", centred(digits()), usual)
    images = mnist()
    if images is not None:
        yield DataSet("MNIST 14×14", images, (64, 196))
        yield DataSet("MNIST 14×14, centred", centred(images), (64, 196))
    X = patches()
    yield DataSet("photo patches", X, usual)
    yield DataSet("photo patches, row mean removed", X - X.mean(axis=1, keepdims=True), usual)


def text_sets() -> Iterator[DataSet]:
    rng = np.random.default_rng(0)
    documents = list(rng.permutation(paragraphs()))
    wide = TfidfVectorizer(min_df=2).fit_transform(documents[:1000])
    yield DataSet(f"TF-IDF, 1000 × {wide.shape[1]}", wide, (32, 128))
    tall = TfidfVectorizer(max_features=500).fit_transform(documents[:2000])
    yield DataSet(f"TF-IDF, {tall.shape[0]} × 500", tall, (64, 256))
    lsa = TruncatedSVD(64, random_state=0).fit_transform(wide)
    yield DataSet("LSA of text", lsa, (32, 64, 128, 256))
    yield DataSet("LSA of text, unit rows", normalize(lsa), (32, 64, 128, 256))


def vector_sets() -> Iterator[DataSet]:
    rng = np.random.default_rng(1)
    rows = low_rank(rng)
    yield DataSet("low rank + noise", rows, (64, 128, 256))
    yield DataSet("low rank + noise, unit rows", normalize(rows), (64, 128, 256))
    hidden = activations()
    yield DataSet("MLP activations", hidden, (48, 96, 192))
    yield DataSet("MLP activations, centred", centred(hidden), (48, 96, 192))
    yield DataSet("white noise", rng.standard_normal((1500, 64)), (32, 64, 128, 256))
    X = spectra(rng)
    yield DataSet("spectra", X, (64, 128, 256))
    yield DataSet("spectra, centred", centred(X), (64, 128, 256))
    yield DataSet("planted dictionary", planted(rng), (32, 64, 128, 256))


def table_sets() -> Iterator[DataSet]:
    tables: list[tuple[str, Callable[[], Any]]] = [
        ("breast cancer", load_breast_cancer),
        ("wine", load_wine),
        ("diabetes", load_diabetes),
    ]
    rng = np.random.default_rng(2)
    for name, load in tables:
        X = rng.permutation(StandardScaler().fit_transform(load().data))
        yield DataSet(f"{name}, StandardScaler", X, sizes(X.shape[1]))


def stress_sets() -> Iterator[DataSet]:
    rng = np.random.default_rng(3)
    usual = (32, 64, 128, 256)
    yield DataSet("one-hot, 1 column of 64", one_hot(rng, 1, 64), usual, stress=True)
    yield DataSet("one-hot, 8 columns of 8", one_hot(rng, 8, 8), usual, stress=True)
    heavy = rng.standard_t(2, (1500, 64)) * rng.lognormal(0, 1, (1500, 1))
    yield DataSet("heavy-tailed", heavy, usual, stress=True)
    for count in (1, 15):
        X = with_outliers(planted(rng), count)
        yield DataSet(f"planted, {count} of 1500 rows × 100", X, usual, stress=True)
    blank = digits() * (rng.random((1797, 1)) < 0.4)
    yield DataSet("digits, 60 % of rows blank", blank, usual, stress=True)


def data_sets() -> list[DataSet]:
    groups = (image_sets, text_sets, vector_sets, table_sets, stress_sets)
    return [data for group in groups for data in group()]
