"""The parameters that SCNN and MiniBatchSCNN have in common: checks, and what they mean."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lincode.core.calibration import MODES
from lincode.core.energy import lam_max
from lincode.core.types import LARGEST
from lincode.estimators.dictionary import DictionaryTransformer
from lincode.estimators.samples import check_samples
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import (
    check_callback,
    check_choice,
    check_flag,
    check_n_jobs,
    check_number,
    check_verbose,
    parse_alpha,
)
from lincode.exceptions import InvalidInputError
from lincode.networks.scnn import EnergyWeights
from lincode.rows.protocol import RowLengths

MAX_ENCODER_WEIGHT = 1e200
"""A larger weight of the encoder term would let the energy overflow."""
DEFAULT_ALPHA = "mean"
"""The default of alpha, chosen by ``benchmarks/alpha_scale.py`` on many kinds of data."""

GREEDY = ("omp", "ols")
"""The algorithms of ``transform`` with a given number of non-zeros."""
ALGORITHMS = ("encoder", "exact", "lasso", *GREEDY)
OTHER_NAMES = {"lasso_cd": "lasso", "lasso_lars": "lasso", "lars": "ols"}
"""Algorithms of scikit-learn that are not available, and what to use instead."""
FLAGS = (
    "split_sign",
    "positive_code",
    "positive_dict",
    "sparse_output",
    "fit_gains",
    "fit_decoder",
    "transform_debias",
)


def resolve_alpha(alpha: Any, lengths: RowLengths, m: int, p: int) -> float:
    """Return alpha as a number, from the row lengths if it is a string."""
    factor, scale = parse_alpha(alpha)
    if scale == "max":
        factor *= lam_max(lengths.longest, m, p)
    elif scale == "mean":
        # With fewer than four units √m would be close to alpha_max or above it.
        factor *= float(min(np.sqrt(m), m / 2) / p * lengths.mean)
    if factor > LARGEST:
        raise InvalidInputError(
            f"alpha must be at most {LARGEST:.0e}, got {factor:.3g} ({alpha!r}); all codes are zero"
            " from alpha_max(X) on."
        )
    return factor


class ParametrisedSCNN(DictionaryTransformer):
    """The meaning of the parameters of SCNN, among them alpha relative to the data."""

    _inits: ClassVar[tuple[str, ...]] = ("data", "paper")
    """The values of ``init`` that are not arrays"""

    def alpha_max(self, X: Any) -> float:
        """Return the smallest alpha for which all codes are zero.

        It is m/p times the length of the longest sample. It holds for training that starts from
        a zero encoder, that is for ``init="data"`` and for an array. No ``fit`` is needed. The
        parameter ``alpha="0.05*max"`` means 0.05 times this value.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples. If entries are missing (NaN), the result is an upper bound: their squares
            are replaced by the mean square of their feature.

        Returns
        -------
        float
        """
        self._check_parameters()
        samples = check_samples(None, X, reset=False, warn=False)
        p = samples.X.shape[1]
        return lam_max(samples.lengths.longest, self._n_units(p), p)

    def _n_units(self, n_features: int) -> int:
        return int(n_features if self.n_components is None else self.n_components)

    def _weights(self) -> EnergyWeights:
        ridge = None if self.encoder_ridge == "auto" else float(self.encoder_ridge)
        return EnergyWeights(
            self.alpha_,
            float(self.encoder_weight),
            bool(self.positive_code),
            ridge,
            bool(self.positive_dict),
        )

    def _warn_if_alpha_is_too_large(
        self, lengths: RowLengths, m: int, p: int, *, zero_encoder: bool = True
    ) -> bool:
        """Warn before training that all codes will be zero; return whether this is so.

        For a large alpha this is certain only if training starts from C = 0.
        """
        limit = lam_max(lengths.longest, m, p)
        if limit == 0:
            reason = "X is all zero"
        elif zero_encoder and self.alpha_ >= limit * (1 - 1e-9):
            given = f"{self.alpha_:.3g}" + (
                f" ({self.alpha!r})" if isinstance(self.alpha, str) else ""
            )
            reason = (
                f"alpha is {given}, but it must be below alpha_max, which is {limit:.3g} for these"
                " data. Try alpha='0.1*max'"
            )
        else:
            return False
        warn_user(f"{type(self).__name__}: all codes will be zero: {reason}.")
        return True

    def _check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, integer=True, or_none=True)
        parse_alpha(self.alpha)
        check_number("encoder_weight", self.encoder_weight, 0)
        if float(self.encoder_weight) > MAX_ENCODER_WEIGHT:
            raise InvalidInputError(
                f"encoder_weight must be at most {MAX_ENCODER_WEIGHT:.0e}, got"
                f" {self.encoder_weight!r}; the energy cannot be represented otherwise."
            )
        if not isinstance(self.encoder_ridge, str):
            check_number("encoder_ridge", self.encoder_ridge, 0)
            if float(self.encoder_ridge) > LARGEST:
                raise InvalidInputError(
                    f"encoder_ridge must be at most {LARGEST:.0e}, got {self.encoder_ridge!r}; it"
                    " is relative to the mean eigenvalue of XᵀX."
                )
        elif self.encoder_ridge != "auto":
            raise InvalidInputError(
                "encoder_ridge must be 'auto' or a number of at least 0, got"
                f" {self.encoder_ridge!r}."
            )
        check_choice("threshold_mode", self.threshold_mode, MODES)
        check_number("refine_max_iter", self.refine_max_iter, 0, integer=True)
        coefs = self.transform_n_nonzero_coefs
        check_number("transform_n_nonzero_coefs", coefs, 1, integer=True, or_none=True)
        if not isinstance(self.threshold, str):
            check_number("threshold", self.threshold, 0)
        elif self.threshold not in ("match", "alpha"):
            raise InvalidInputError(
                "threshold must be 'match', 'alpha' or a number of at least 0, got"
                f" {self.threshold!r}."
            )
        if self.refine_max_iter > 0 and self.threshold != "match":
            raise InvalidInputError(
                "refine_max_iter > 0 requires threshold='match', because refinement changes the"
                f" scale of the encoder; got threshold={self.threshold!r}."
            )
        check_number("tol", self.tol, 0)
        check_number("transform_tol", self.transform_tol, 0)
        check_number("transform_alpha", self.transform_alpha, 0, or_none=True)
        self._check_algorithm()
        if self.positive_code and self.transform_algorithm in GREEDY:
            raise InvalidInputError(
                f"transform_algorithm={self.transform_algorithm!r} has codes of both signs, but"
                " positive_code=True; use 'lasso'."
            )
        if isinstance(self.init, str) and self.init not in self._inits:
            raise InvalidInputError(
                f"init must be {', '.join(map(repr, self._inits))} or an array of atoms, got"
                f" {self.init!r}."
            )
        check_verbose(self.verbose)
        check_callback(self.callback)
        for name in FLAGS:
            check_flag(name, getattr(self, name))
        if self.split_sign and self.positive_code:
            raise InvalidInputError(
                "split_sign=True and positive_code=True exclude each other, because positive codes"
                " have no negative part; set one of them to False."
            )
        check_n_jobs(self.n_jobs)

    def _check_algorithm(self) -> None:
        algorithm = self.transform_algorithm
        if isinstance(algorithm, str) and algorithm in OTHER_NAMES:
            names = ", ".join(repr(name) for name in ALGORITHMS)
            raise InvalidInputError(
                f"transform_algorithm must be one of {names}, got {algorithm!r}; use"
                f" {OTHER_NAMES[algorithm]!r}."
            )
        check_choice("transform_algorithm", algorithm, ALGORITHMS)
