"""The samples an experiment sees: the paper's data, or the embedded ones in their place."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from lincode import datasets

Floats = Any  # arrays, rows are samples
EMBEDDED_SIDE = 8


@dataclass(frozen=True)
class Split:
    """Samples to learn from, to choose by, and to report; labels where there are any."""

    train: Floats
    val: Floats
    test: Floats
    y_train: Any = None
    y_val: Any = None
    y_test: Any = None

    def arrays(self) -> Iterator[Any]:
        """Those there are."""
        every = (self.train, self.val, self.test, self.y_train, self.y_val, self.y_test)
        yield from (array for array in every if array is not None)


@dataclass
class Samples:
    """Where samples come from; remembers what it gave, for the record."""

    data_dir: Path | None = None
    embedded: bool = False
    given: dict[str, str] = field(default_factory=dict)
    """Name and sha256 of the split last given"""

    def digits(self, n: tuple[int, int, int], seed: int, side: int = 14) -> Split:
        """Digits drawn by the seed: train and validation from one half, test from the other.

        The embedded digits are 8×8: a side of 28 is 8 there, one of 14 is 4.
        """
        n_train, n_val, n_test = n
        rng = np.random.default_rng(seed)
        if self.embedded:
            X, y = small_digits(max(1, round(side * EMBEDDED_SIDE / 28)))
            n_train, n_val, n_test = fit_to(len(X), n)
            order = rng.permutation(len(X))
            X, y = X[order], y[order]
            X_test, y_test = X[n_train + n_val :], y[n_train + n_val :]
        else:
            X, y = self._drawn("train", rng, n_train + n_val, side)
            X_test, y_test = self._drawn("test", rng, n_test, side)
        cut = slice(n_train, n_train + n_val)
        split = Split(
            X[:n_train], X[cut], X_test[:n_test], y[:n_train], y[cut], y_test[:n_test]
        )  # fmt: skip
        return self._give(split, datasets_name("digits", self.embedded))

    def all_digits(self, n: tuple[int, int, int]) -> Split:
        """The first n of MNIST's training digits, the last n of them, the first n of its test."""
        n_train, n_val, n_test = n
        if self.embedded:
            return self.digits(n, 0, 28)
        X, y = mnist("train", 28, self.data_dir)
        X_test, y_test = mnist("test", 28, self.data_dir)
        split = Split(
            X[:n_train], X[len(X) - n_val :], X_test[:n_test],
            y[:n_train], y[len(X) - n_val :], y_test[:n_test],
        )  # fmt: skip
        return self._give(split, datasets_name("digits", False))

    def patches(self, n: tuple[int, int, int], seed: int) -> Split:
        """8×8 patches, each of mean 0: train and validation of some images, test of others."""
        n_train, n_val, n_test = n

        def load(n: int, split: str) -> Floats:
            if self.embedded:
                return datasets.load_photo_patches(n, split=split, random_state=seed)
            verified(split, self.data_dir)
            return datasets.load_bsds_patches(
                n, split=split, data_dir=self.data_dir, random_state=seed
            )

        X = load(n_train + n_val, "train")
        X_test = load(n_test, "test") if n_test else X[:0]
        split = Split(X[:n_train], X[n_train:], X_test)
        return self._give(split, datasets_name("patches", self.embedded))

    def _drawn(self, split: str, rng: np.random.Generator, n: int, side: int) -> tuple[Any, Any]:
        X, y = mnist(split, side, self.data_dir)
        rows = rng.choice(len(X), n, replace=False)
        return X[rows], y[rows]

    def _give(self, split: Split, name: str) -> Split:
        digest = hashlib.sha256()
        for array in split.arrays():
            digest.update(np.ascontiguousarray(array).data)
        self.given = {"name": name, "sha256": digest.hexdigest()}
        return split


def datasets_name(kind: str, embedded: bool) -> str:
    """What a table or figure calls the data."""
    if kind == "digits":
        return (
            "embedded: scikit-learn's digits (8×8 in place of 28×28), not MNIST"
            if embedded
            else "MNIST"
        )
    return "embedded: two photographs of scikit-learn, not BSDS300" if embedded else "BSDS300"


def fit_to(total: int, n: tuple[int, int, int]) -> tuple[int, int, int]:
    """As many as asked for, or as there are, in the same proportions."""
    share = min(1.0, total / sum(n))
    return tuple(int(k * share) for k in n)  # type: ignore[return-value]


@lru_cache(maxsize=4)
def mnist(split: str, side: int, data_dir: Path | None) -> tuple[Any, Any]:
    """Loaded and checked once a process."""
    return datasets.load_mnist(split, size=side, data_dir=data_dir)


@lru_cache(maxsize=4)
def verified(split: str, data_dir: Path | None) -> None:
    """BSDS300 is whole: checked once a process."""
    datasets.load_bsds_patches(1, split=split, data_dir=data_dir, verify=True)


def check(need: str, data_dir: Path | None) -> None:
    """Whether the data of an experiment are there and whole; an error says what is wrong."""
    for split in ("train", "test"):
        if need == "mnist":
            datasets.load_mnist(split, data_dir=data_dir)
        else:
            verified(split, data_dir)


def small_digits(side: int) -> tuple[Any, Any]:
    """The embedded digits at another size."""
    X, y = datasets.load_digits_small()
    R = datasets.overlap(EMBEDDED_SIDE, side)
    images = R @ X.reshape(-1, EMBEDDED_SIDE, EMBEDDED_SIDE) @ R.T
    return images.reshape(len(X), -1).astype(np.float32), y
