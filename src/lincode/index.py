"""SparseIndex: vectors compressed to sparse codes of a few bytes, searched by inner product.

A vector x is stored as mean + Σ s·q[j]/31·D[unit[j]] with k non-zeros. Its bytes contain the scale
s on a logarithmic grid (8 bits), and for each non-zero the integer q (6 bits, −31 to 31) and the
unit. Units are in increasing order and stored as Elias–Fano codes: the low bits of each, and the
high bits as the positions of ones in a bit string.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lincode.core.arrays import Array, blocks, dense
from lincode.core.compiler import compiled, inlined
from lincode.estimators.minibatch import MiniBatchSCNN
from lincode.estimators.sparse_encode import adapt_dictionary, sparse_encode
from lincode.estimators.validation import (
    N_JOBS,
    check_parameters,
    check_rows,
    check_scaled_rows,
    check_seed,
    number,
    unchanged_on_failure,
)
from lincode.exceptions import InvalidInputError
from lincode.training.threads import thread_count, threaded_map

MAX_LEVEL, VALUE_BITS, SCALE_BITS = 31, 6, 8
"""Values with 6 bits and a scale per vector had the best recall on texts, sentence embeddings,
activations and word vectors: of 3 to 7 bits, which leave more or less space for non-zeros."""
STEPS_PER_OCTAVE, LARGEST_STEP = 16, 64
"""The grid of scales has 16 steps per octave, from 2⁻¹² to 2⁴ of the largest in ``fit``."""
ROUNDING_SWEEPS = 4
ROUNDS = 5
"""After the training of a network, its dictionary is adapted to greedy codes in some rounds."""
TRAINING_ROWS, TRAINING_ROWS_PER_UNIT = 20_000, 20
"""The dictionary is learned from at most max(20,000, 20 m) rows."""
QUERY_BLOCK, ROW_BLOCK = 64, 4096
GREEDY: dict[str, Any] = {"algorithm": "ols", "sparse_output": True}
CONSTRAINTS = {
    "n_components": number(1, 65_536, integer=True),
    "n_bytes": number(4, 65_536, integer=True),
    "n_jobs": N_JOBS,
}


class SparseIndex(BaseEstimator):
    """Vectors compressed to sparse codes of a few bytes each, searched by inner product.

    ``fit`` learns a dictionary and stores the codes of the vectors; ``add`` stores more of them.
    ``kneighbors`` finds the stored vectors with the largest inner products with a query. For
    cosine similarity, divide vectors and queries by their lengths first.

    Parameters
    ----------
    n_components : int, default=1024
        The number of atoms of the dictionary.
    n_bytes : int, default=32
        The number of bytes per vector. It determines the number of non-zeros, which is 18 for 32
        bytes and 1024 atoms.
    n_jobs : int, default=None
        The number of threads. None means as many as the BLAS library uses, −1 means all cores.
    random_state : int, RandomState instance or None, default=None
        The random numbers of the training.

    Attributes
    ----------
    codes_ : uint8 array of shape (n_stored, n_bytes)
        The compressed vectors.
    components_, mean_ : float32 arrays of shape (n_components, n_features) and (n_features,)
        The dictionary, and the mean of the vectors, which is not part of the codes.
    scale_ : float
        The largest code of the vectors from which the dictionary was learned.
    n_nonzero_ : int
        The number of non-zeros per vector.
    nbytes : int
        The number of bytes of the codes, the dictionary and the mean.

    See Also
    --------
    sklearn.neighbors.NearestNeighbors : Exact neighbours of uncompressed vectors.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import SparseIndex
    >>> X = load_digits().data
    >>> index = SparseIndex(128, n_bytes=16, random_state=0).fit(X[:1500])
    >>> index.add(X[1500:1700]).codes_.shape
    (1700, 16)
    >>> similarities, indices = index.kneighbors(X[1700:], n_neighbors=3)
    >>> indices.shape
    (97, 3)
    """

    def __init__(
        self,
        n_components: int = 1024,
        *,
        n_bytes: int = 32,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_bytes = n_bytes
        self.n_jobs = n_jobs
        self.random_state = random_state

    @unchanged_on_failure
    def fit(self, X: Any, y: object = None) -> Self:
        """Learn the dictionary from vectors and store them.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The vectors. The dictionary is learned from a random part of them if there are many.
        y : ignored

        Returns
        -------
        self
        """
        check_parameters(vars(self), CONSTRAINTS)
        m, (k, _) = self.n_components, _layout(self.n_components, self.n_bytes)
        X, rng = self._check_vectors(X, reset=True), check_seed(self.random_state)
        n = max(TRAINING_ROWS, TRAINING_ROWS_PER_UNIT * m)
        sample = X[np.sort(rng.permutation(len(X))[:n])]
        self.mean_ = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
        sample -= self.mean_
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are about the encoder, which is not used
            network = MiniBatchSCNN(m, density=k, n_jobs=self.n_jobs, random_state=rng).fit(sample)
        options: dict[str, Any] = GREEDY | {"n_nonzero_coefs": k, "n_jobs": self.n_jobs}
        D = adapt_dictionary(sample, network.components_, n_rounds=ROUNDS, **options)
        U = sparse_encode(sample, D, **options)
        self.n_nonzero_, self.components_ = k, D
        self.scale_ = float(np.abs(U.data).max(initial=0)) or 1.0
        self.codes_ = np.empty((0, self.n_bytes), np.uint8)
        return self.add(X)

    @unchanged_on_failure
    def add(self, X: Any) -> Self:
        """Store more vectors. The dictionary remains.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The vectors.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        X, n_bytes = self._check_vectors(X, reset=False), self.codes_.shape[1]
        D, (k, low), codes = self.components_, self._layout(), [self.codes_]
        options: dict[str, Any] = GREEDY | {"n_nonzero_coefs": k, "n_jobs": self.n_jobs}
        for rows in blocks(len(X), ROW_BLOCK):
            U = sparse_encode(X[rows] - self.mean_, D, **options)
            largest = np.abs(U).max(axis=1).toarray().ravel() / self.scale_
            steps = np.round(np.log2(largest.clip(1e-30)) * STEPS_PER_OCTAVE) + 255 - LARGEST_STEP
            if steps.max() > 255:
                raise InvalidInputError(
                    "the vectors must not be more than 16 times as long as those given to fit;"
                    " divide them by their lengths, or fit on vectors of all lengths."
                )
            steps = np.maximum(steps, 0).astype(np.uint8)
            units, levels = np.zeros((2, len(steps), k), np.int64)
            _round(U.indptr, U.indices, U.data, D @ D.T, self._scales()[steps], units, levels)
            codes.append(_pack(steps, units, levels + MAX_LEVEL, low, n_bytes))
        self.codes_ = np.concatenate(codes)
        return self

    def kneighbors(self, X: Any, n_neighbors: int = 5) -> tuple[Array, NDArray[np.int64]]:
        """Find the stored vectors with the largest inner products, in place of least distances.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_queries, n_features)
            The queries, which are not compressed.
        n_neighbors : int, default=5
            The number of vectors to find for each query.

        Returns
        -------
        similarities : float32 array of shape (n_queries, n_neighbors)
            The inner products of the query with the compressed vectors, the largest first.
        indices : int64 array of shape (n_queries, n_neighbors)
            The numbers of the vectors, in the order in which they were stored.
        """
        check_is_fitted(self)
        number(1, len(self.codes_), integer=True).check("n_neighbors", n_neighbors)
        X, layout = self._check_vectors(X, reset=False), self._layout()
        similarities = np.full((len(X), n_neighbors), -np.inf, np.float32)
        indices = np.full((len(X), n_neighbors), -1, np.int64)

        def search(queries: slice) -> None:
            products = np.ascontiguousarray(self.components_ @ X[queries].T)
            found = similarities[queries], indices[queries]
            _search(self.codes_, self._scales(), *layout, products, *found)
            similarities[queries] += (X[queries] @ self.mean_)[:, None]

        threaded_map(search, blocks(len(X), QUERY_BLOCK), thread_count(self.n_jobs))
        return similarities, indices

    @property
    def nbytes(self) -> int:
        """The number of bytes of the codes, the dictionary and the mean."""
        check_is_fitted(self)
        return int(self.codes_.nbytes + self.components_.nbytes + self.mean_.nbytes)

    def _check_vectors(self, X: Any, *, reset: bool) -> Array:
        with np.errstate(over="ignore"):
            X = dense(check_rows(self, X, reset=reset)).astype(np.float32)
        return dense(check_scaled_rows(None, X, reset=False, advice="Divide all vectors by {0}."))

    def _layout(self) -> tuple[int, int]:
        return _layout(len(self.components_), self.codes_.shape[1])

    def _scales(self) -> Array:
        """Return the value of the level 1 for each of the 256 steps of the grid of scales."""
        octaves = (np.arange(256) - 255 + LARGEST_STEP) / STEPS_PER_OCTAVE
        return np.asarray(self.scale_ / MAX_LEVEL * 2**octaves, np.float32)


def _layout(m: int, n_bytes: int) -> tuple[int, int]:
    """Return how many non-zeros fit into a code, and the number of low bits of units."""
    free = 8 * n_bytes - SCALE_BITS - 1
    counts = [(free - ((m - 1) >> low)) // (VALUE_BITS + low + 1) for low in range(17)]
    k = max(counts)
    return min(k, m), counts.index(k)


@compiled
def _round(
    starts: Any, columns: Any, U: Any, gram: Any, scales: Any, units: Any, levels: Any
) -> None:
    """Write the units and the levels of codes in CSR format.

    Values are rounded, and then each level in turn becomes the one with the smallest error of the
    reconstruction given the others. Missing non-zeros repeat the last unit with the level 0.
    """
    for i in range(len(units)):
        first, n = starts[i], min(starts[i + 1] - starts[i], units.shape[1])
        u, q = U[first : first + n] / scales[i], levels[i]
        for j in range(n):
            q[j] = _level(u[j])
        for j in range(units.shape[1] if n else 0):
            units[i, j] = columns[first + min(j, n - 1)]
        for _ in range(ROUNDING_SWEEPS):
            for j in range(n):
                total = u[j]
                for r in range(n):
                    if r != j:
                        total += gram[units[i, j], units[i, r]] * (u[r] - q[r])
                q[j] = _level(total)


@inlined
def _level(value: float) -> int:
    return max(-MAX_LEVEL, min(MAX_LEVEL, int(np.floor(value + 0.5))))


def _pack(steps: Any, units: Any, levels: Any, low: int, n_bytes: int) -> NDArray[np.uint8]:
    """Return codes of the steps, the units and the levels, which are at least 0."""
    n, k = units.shape
    words, width = (units & ((1 << low) - 1)) | (levels << low), VALUE_BITS + low
    bits = np.zeros((n, 8 * n_bytes), np.uint8)
    bits[:, :SCALE_BITS] = steps[:, None] >> np.arange(SCALE_BITS) & 1
    word_bits = words[:, :, None] >> np.arange(width) & 1
    bits[:, SCALE_BITS : SCALE_BITS + k * width] = word_bits.reshape(n, k * width)
    high = SCALE_BITS + k * width + (units >> low) + np.arange(k)
    np.put_along_axis(bits, high, 1, axis=1)
    return np.packbits(bits, axis=1, bitorder="little")


@compiled
def _search(
    codes: Any, scales: Any, k: int, low: int, products: Any, similarities: Any, indices: Any
) -> None:
    """Read the codes and write the largest similarities of each query, and their indices.

    ``products`` are those of the atoms and the queries, shape (m, n_queries).
    """
    (n, n_bytes), (n_queries, n_neighbors) = codes.shape, similarities.shape
    mask, width = (1 << low) - 1, VALUE_BITS + low
    sums = np.empty(n_queries, np.float32)
    for i in range(n):
        sums[:] = 0
        high = SCALE_BITS + k * width
        for j in range(k):
            position, word = SCALE_BITS + j * width, np.int64(0)
            for b in range(min(4, n_bytes - (position >> 3))):
                word |= np.int64(codes[i, (position >> 3) + b]) << np.int64(8 * b)
            word >>= np.int64(position & 7)
            while not (codes[i, high >> 3] >> (high & 7)) & 1:
                high += 1
            unit = (high - SCALE_BITS - k * width - j) << low | (word & mask)
            level = ((word >> low) & ((1 << VALUE_BITS) - 1)) - MAX_LEVEL
            value = scales[codes[i, 0]] * np.float32(level)
            for q in range(n_queries):
                sums[q] += value * products[unit, q]
            high += 1
        for q in range(n_queries):
            r = n_neighbors - 1
            if sums[q] > similarities[q, r]:
                while r > 0 and sums[q] > similarities[q, r - 1]:
                    similarities[q, r] = similarities[q, r - 1]
                    indices[q, r] = indices[q, r - 1]
                    r -= 1
                similarities[q, r] = sums[q]
                indices[q, r] = i
