"""The coding side of a linear network: what all that have a dictionary and an encoder share."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted

from lincode.core.blocks import blocks
from lincode.core.code_step import Codes
from lincode.core.encoder_step import encode
from lincode.core.types import Array, Rows
from lincode.estimators._checks import FLOATS, check_rows
from lincode.networks.scnn import Weights, solve_codes
from lincode.rows.memory import code_blocks
from lincode.rows.threads import ordered_map, thread_count

ENCODE_ROWS = 4096
"""Rows encoded by one product."""
EXACT_ITERATIONS = 20_000
"""Most accelerated steps for codes solved exactly."""


class LinearCoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer with ``components_`` (D) and ``encoder_`` (C); subclasses train them."""

    def transform(self, X: Any) -> Any:
        """The codes of X, by ``transform_method``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_components), twice as wide with ``split_sign``; a CSR
        matrix with ``sparse_output``, made without the dense array ever existing
        """
        check_is_fitted(self)
        self._check_parameters()
        exact = self.transform_method != "encoder"
        X = check_rows(self, X, reset=False, scale=exact)
        if not (self.split_sign or self.sparse_output):
            return self._codes(X, self.transform_method)
        parts = self._code_parts(X, self.transform_method)
        if self.sparse_output:
            sparse = [csr_matrix(_split(U) if self.split_sign else U) for _, U in parts]
            return vstack(sparse, format="csr")
        out: Array = np.empty((X.shape[0], self._n_features_out), dtype=X.dtype)
        for rows, U in parts:
            _split(U, out=out[rows])
        return out

    def inverse_transform(self, X: Any) -> Array:
        """The samples that codes stand for: U D.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_components)
            Codes as ``transform`` gives them, with split signs where it splits them.

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        U = check_array(X, accept_sparse="csr", dtype=FLOATS, input_name="codes")
        m = len(self.components_)
        if U.shape[1] != self._n_features_out:
            raise ValueError(
                f"codes must have {self._n_features_out} columns, as transform gives with"
                f" split_sign={self.split_sign}, got {U.shape[1]}."
            )
        if self.split_sign:
            U = U[:, :m] - U[:, m:]
        return np.asarray(U @ self.components_.astype(U.dtype, copy=False))

    def reconstruct(self, X: Any) -> Array:
        """Encode and decode: what the network makes of X, of the shape of X."""
        check_is_fitted(self)
        self._check_parameters()
        X = check_rows(self, X, reset=False, scale=self.transform_method != "encoder")
        U = self._codes(X, self.transform_method)
        return np.asarray(U @ self.components_.astype(X.dtype, copy=False))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the codes: ``scnn0``, ``scnn1``, …; with split signs ``scnn0_pos``, … first,
        then ``scnn0_neg``, ….

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        array of str
        """
        names = super().get_feature_names_out(input_features)
        if not self.split_sign:
            return names
        units = names[: len(self.components_)]
        split = [f"{unit}_{sign}" for sign in ("pos", "neg") for unit in units]
        return np.array(split, dtype=object)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_) * (2 if self.split_sign else 1)

    def _weights(self, *, eta: float | None = None) -> Weights:
        eta = float(self.encoder_weight if eta is None else eta)
        return Weights(lam=float(self.alpha), eta=eta, positive=bool(self.positive_code))

    def _encoder_threshold(self) -> float:
        if self.threshold is None:
            return self._weights().threshold
        return float(self.matching_threshold_ if self.threshold == "match" else self.threshold)

    def _codes(self, X: Rows, method: str) -> Array:
        """Codes of validated rows, signs not split."""
        out: Array = np.empty((X.shape[0], len(self.encoder_)), dtype=X.dtype)
        for _ in self._code_parts(X, method, out=out):
            pass
        return out

    def _code_parts(
        self, X: Rows, method: str, out: Array | None = None
    ) -> Iterator[tuple[slice, Array]]:
        """Codes of validated rows, a block at a time and in order; written to ``out`` if given."""
        C = self.encoder_.astype(X.dtype, copy=False)
        weights = self._weights(eta=0.0 if method == "relearn" else None)
        if method == "encoder":
            threshold = self._encoder_threshold()
            room: Array = np.empty((0, 0), dtype=X.dtype)
            for rows in blocks(X.shape[0], ENCODE_ROWS):
                if out is not None:
                    room = out[rows]
                elif len(room) != rows.stop - rows.start:
                    room = np.empty((rows.stop - rows.start, len(C)), dtype=X.dtype)
                yield rows, encode(X[rows], C, threshold, positive=weights.positive, out=room)
            return

        D, C64 = (A.astype(np.float64) for A in (self.components_, self.encoder_))
        problem = weights.code_problem(D, C64, X.dtype)

        def solve(rows: slice) -> tuple[slice, Codes]:
            codes = solve_codes(
                X[rows], C, problem, weights.threshold,
                tol=self.transform_tol, max_iter=EXACT_ITERATIONS,
            )  # fmt: skip
            if out is not None:
                out[rows] = codes.U
            return rows, codes

        n_open = 0
        parts = code_blocks(X.shape[0], len(C))
        for rows, codes in ordered_map(solve, parts, thread_count(self.n_jobs)):
            n_open += codes.n_open
            yield rows, codes.U
        if n_open:
            warnings.warn(
                f"{type(self).__name__}: the codes of {n_open} of {X.shape[0]} samples are not"
                f" within transform_tol = {self.transform_tol} of optimal after"
                f" {EXACT_ITERATIONS} steps; raise it.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _split(U: Array, out: Array | None = None) -> Array:
    """Positive parts, then negative ones: [max(U, 0), max(−U, 0)]. U is not the same after it."""
    m = U.shape[1]
    out = np.empty((len(U), 2 * m), dtype=U.dtype) if out is None else out
    np.maximum(U, 0, out=out[:, :m])
    np.maximum(np.negative(U, out=U), 0, out=out[:, m:])
    return out
