"""The samples of the experiments: the paper's data, or data from scikit-learn in their place."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from paper import datasets

EMBEDDED_SIDE = 8
NAMES = {
    ("digits", False): "MNIST",
    ("digits", True): "embedded: scikit-learn's digits (8×8 instead of 28×28), not MNIST",
    ("patches", False): "BSDS300",
    ("patches", True): "embedded: two photographs from scikit-learn, not BSDS300",
}
"""What tables and figures call the data, by kind and whether they are embedded."""


@dataclass(frozen=True)
class Split:
    """Training, validation and test samples, one sample per row, and labels if there are any."""

    train: Any
    val: Any
    test: Any
    y_train: Any = None
    y_val: Any = None
    y_test: Any = None

    def arrays(self) -> Iterator[Any]:
        """Yield all arrays that are not None."""
        every = (self.train, self.val, self.test, self.y_train, self.y_val, self.y_test)
        yield from (array for array in every if array is not None)


@dataclass
class Samples:
    """A source of samples. It stores the checksum of the last split for the record."""

    data_dir: Path | None = None
    embedded: bool = False
    given: dict[str, str] = field(default_factory=dict)
    """Name and sha256 of the last split"""

    def digits(self, n: tuple[int, int, int], seed: int, side: int = 14) -> Split:
        """Return a random sample of digits.

        Training and validation digits come from MNIST's training set, test digits from its test
        set. The embedded digits are 8×8: a side of 28 becomes 8, a side of 14 becomes 4.
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
            X, y = self._sampled("train", rng, n_train + n_val, side)
            X_test, y_test = self._sampled("test", rng, n_test, side)
        val = slice(n_train, n_train + n_val)
        split = Split(X[:n_train], X[val], X_test[:n_test], y[:n_train], y[val], y_test[:n_test])
        return self._with_checksum(split, "digits")

    def all_digits(self, n: tuple[int, int, int]) -> Split:
        """Return the first and the last training digits of MNIST and its first test digits."""
        n_train, n_val, n_test = n
        if self.embedded:
            return self.digits(n, 0, 28)
        X, y = mnist("train", 28, self.data_dir)
        X_test, y_test = mnist("test", 28, self.data_dir)
        val = slice(len(X) - n_val, None)
        split = Split(X[:n_train], X[val], X_test[:n_test], y[:n_train], y[val], y_test[:n_test])
        return self._with_checksum(split, "digits")

    def patches(self, n: tuple[int, int, int], seed: int) -> Split:
        """Return 8×8 patches of mean 0. Test patches come from other images than the rest."""
        n_train, n_val, n_test = n

        def load(n: int, split: str) -> Any:
            if self.embedded:
                return datasets.load_photo_patches(n, split=split, random_state=seed)
            return datasets.load_bsds_patches(
                n, split=split, data_dir=self.data_dir, random_state=seed, verify=True
            )

        X = load(n_train + n_val, "train")
        X_test = load(n_test, "test") if n_test else X[:0]
        return self._with_checksum(Split(X[:n_train], X[n_train:], X_test), "patches")

    def _sampled(self, split: str, rng: np.random.Generator, n: int, side: int) -> tuple[Any, Any]:
        X, y = mnist(split, side, self.data_dir)
        rows = rng.choice(len(X), n, replace=False)
        return X[rows], y[rows]

    def _with_checksum(self, split: Split, kind: str) -> Split:
        digest = hashlib.sha256()
        for array in split.arrays():
            digest.update(np.ascontiguousarray(array).data)
        self.given = {"name": NAMES[kind, self.embedded], "sha256": digest.hexdigest()}
        return split


def fit_to(total: int, n: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return n, reduced in proportion if its sum is larger than the total."""
    fraction = min(1.0, total / sum(n))
    return tuple(int(k * fraction) for k in n)  # type: ignore[return-value]


@lru_cache(maxsize=4)
def mnist(split: str, side: int, data_dir: Path | None) -> tuple[Any, Any]:
    """Load and check MNIST, once per process."""
    return datasets.load_mnist(split, size=side, data_dir=data_dir)


def small_digits(side: int) -> tuple[Any, Any]:
    """Return scikit-learn's digits, resized."""
    X, y = datasets.load_digits_small()
    R = datasets.overlap(EMBEDDED_SIDE, side)
    images = R @ X.reshape(-1, EMBEDDED_SIDE, EMBEDDED_SIDE) @ R.T
    return images.reshape(len(X), -1).astype(np.float32), y
