"""The coding side of SCNN: codes by its encoder, or solved; split, sparse or dense."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from lincode.core.code_step import Codes
from lincode.core.encoder_step import encode
from lincode.core.types import Array, Rows
from lincode.estimators._checks import check_rows
from lincode.estimators._dictionary import DictionaryTransformer
from lincode.networks.scnn import Weights, solve_codes
from lincode.rows.memory import chunks, code_blocks
from lincode.rows.threads import ordered_map, thread_count

EXACT_ITERATIONS = 20_000
"""Most accelerated steps for codes solved exactly."""


class LinearCoder(DictionaryTransformer):
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

    def _joined(self, U: Any) -> Any:
        m = len(self.components_)
        return U[:, :m] - U[:, m:] if self.split_sign else U

    def _coded(self, X: Any) -> Array:
        self._check_parameters()
        X = check_rows(self, X, reset=False, scale=self.transform_method != "encoder")
        return self._codes(X, self.transform_method)

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
        if method == "encoder":
            return self._encoded_parts(X, out)
        return self._solved_parts(X, method, out)

    def _encoded_parts(self, X: Rows, out: Array | None) -> Iterator[tuple[slice, Array]]:
        C = self.encoder_.astype(X.dtype, copy=False)
        threshold, positive = self._encoder_threshold(), bool(self.positive_code)

        def encoded(rows: slice) -> tuple[slice, Array]:
            room = None if out is None else out[rows]
            return rows, encode(X[rows], C, threshold, positive=positive, out=room)

        parts = chunks(X.shape[0], len(C))
        if len(parts) == 1:  # too little for threads of ours: BLAS may use its own
            return iter([encoded(parts[0])])
        return ordered_map(encoded, parts, thread_count(self.n_jobs))

    def _solved_parts(
        self, X: Rows, method: str, out: Array | None
    ) -> Iterator[tuple[slice, Array]]:
        weights = self._weights(eta=0.0 if method == "relearn" else None)
        C = self.encoder_.astype(X.dtype, copy=False)
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


def _split(U: Array, out: Array | None = None) -> Array:
    """Positive parts, then negative ones: [max(U, 0), max(−U, 0)]. U is not the same after it."""
    m = U.shape[1]
    out = np.empty((len(U), 2 * m), dtype=U.dtype) if out is None else out
    np.maximum(U, 0, out=out[:, :m])
    np.maximum(np.negative(U, out=U), 0, out=out[:, m:])
    return out
