"""Calibration and refinement of the encoder after training, and which encoder is used."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from lincode.core.calibration import (
    CodedRows,
    fit_decoder,
    fit_gains,
    matching_threshold,
    n_calibration_rows,
)
from lincode.core.encoder_step import Thresholding
from lincode.core.missing_fill import SecondMoments
from lincode.core.observed_calibration import ObservedRows
from lincode.core.refinement import refine_encoder
from lincode.core.types import Array, Rows
from lincode.estimators.parameters import ParametrisedSCNN
from lincode.estimators.samples import check_samples
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import check_number, unchanged_on_failure
from lincode.exceptions import InvalidInputError
from lincode.rows.memory import sample_indices
from lincode.rows.missing import predict_rows
from lincode.rows.threads import blas_threads, thread_count

REFINEMENT_SAMPLES, REFINEMENT_SAMPLES_PER_UNIT = 100_000, 100
"""The encoder is refined on at most max(100,000, 100 · n_components) samples."""


class CalibratedEncoder(ParametrisedSCNN):
    """The encoder of SCNN with its threshold, gains and decoder.

    It needs ``components_`` (D), ``encoder_`` (C), ``usage_``, ``matching_density_`` and
    ``matching_threshold_``, and sets ``gains_``, ``decoder_``, ``refined_encoder_``,
    ``refined_threshold_`` and ``encoder_r2_``.
    """

    def calibrate(self, X: Any, y: object = None, *, density: float | None = None) -> Any:
        """Adapt the threshold, the gains and the decoder to X, without training again.

        Call it after a change of ``threshold_mode``, ``threshold``, ``transform_n_nonzero_coefs``,
        ``fit_decoder`` or ``refine_max_iter``, or to choose how sparse the encoder's codes are. Use
        samples that the network was not trained on if there are any: ``fit`` itself calibrates
        with leave-one-out outputs of the encoder, which samples given here do not have.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.
        y : ignored
        density : float, default=None
            The fraction of non-zeros that the encoder's codes should have. None means that of the
            previous calibration; after ``fit`` it is the density of the trained codes. It requires
            ``threshold="match"`` or ``threshold_mode="top_k"``. With "top_k" it determines the
            number of non-zeros per sample, max(1, round(density * n_components)), and must agree
            with ``transform_n_nonzero_coefs`` if that is not None.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        with unchanged_on_failure(self):
            self._check_parameters()
            self._check_density(density)
            samples = check_samples(self, X, reset=False, allow_unobserved=True)
            X, missing = self._predicted(samples.X) if samples.has_missing else (samples.X, None)
            if density is not None:
                self.matching_density_ = float(density)
            chosen = sample_indices(X.shape[0], n_calibration_rows(len(self.encoder_)))
            sample = X[chosen]
            with blas_threads(thread_count(self.n_jobs)):
                Z = np.ascontiguousarray(sample @ self.encoder_.astype(X.dtype, copy=False).T)
                D = self.components_.astype(np.float64)
                threshold = matching_threshold(
                    Z, self.matching_density_, positive=self.positive_code
                )
                self.matching_threshold_ = threshold
                holes = None if missing is None else missing[chosen]
                self._calibrate(Z, sample, D, missing=holes)
            messages = self._refine(X)
        for message in messages:
            warn_user(message)
        return self

    def _check_density(self, density: Any) -> None:
        if density is None:
            return
        check_number("density", density, 0)
        if density > 1:
            raise InvalidInputError(f"density must be at most 1, got {density!r}.")
        if self.threshold_mode != "top_k" and self.threshold != "match":
            raise InvalidInputError(
                f"density requires threshold='match', got threshold={self.threshold!r}; set it to"
                " 'match', or leave density out."
            )
        m, k = len(self.components_), self.transform_n_nonzero_coefs
        if self.threshold_mode == "top_k" and k is not None and min(m, k) != _n_nonzero(density, m):
            raise InvalidInputError(
                f"density={density:g} means {_n_nonzero(density, m)} of {m} units per sample, but"
                f" transform_n_nonzero_coefs is {k}; set it to None, or leave density out."
            )

    @property
    def threshold_(self) -> float:
        """The threshold that ``transform`` applies to the output of the encoder."""
        check_is_fitted(self)
        return self._used_threshold()

    @property
    def n_nonzero_coefs_(self) -> int:
        """The number of non-zeros per sample of ``threshold_mode="top_k"``, "omp" and "ols"."""
        check_is_fitted(self)
        return self._n_kept()

    def _predicted(self, X: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return X with a linear prediction of missing entries, and which entries are missing.

        The atoms, weighted by how often they are used, determine the second moments.
        """
        X, missing = np.array(X, order="C"), np.isnan(X)
        atoms = np.sqrt(self.usage_)[:, None] * self.components_.astype(np.float64)
        predict_rows(X, missing, SecondMoments.of_factor(atoms))
        return X, missing

    # The encoder and the decoder in use

    def _used_threshold(self) -> float:
        if self.refine_max_iter > 0:
            return float(self.refined_threshold_)
        if self.threshold == "match":
            return float(self.matching_threshold_)
        if self.threshold == "alpha":
            return self._weights().threshold
        return float(self.threshold)

    def _n_kept(self) -> int:
        m = len(self.components_)
        if self.transform_n_nonzero_coefs is None:
            return _n_nonzero(self.matching_density_, m)
        return min(m, int(self.transform_n_nonzero_coefs))

    def _thresholding(self, gains: Array | None = None) -> Thresholding:
        """Return how the output of the encoder is turned into codes."""
        threshold = self._used_threshold()
        k = self._n_kept() if self.threshold_mode == "top_k" else 1
        return Thresholding(self.threshold_mode, threshold, k, bool(self.positive_code), gains)

    def _used_encoder(self) -> Array:
        """Return the encoder that ``transform`` applies."""
        self._check_calibration()
        return np.asarray(self.refined_encoder_ if self.refine_max_iter > 0 else self.encoder_)

    def _checked_gains(self) -> Array | None:
        if not self.fit_gains or self.refine_max_iter > 0:
            return None
        return np.asarray(self.gains_)

    def _decoder(self) -> Array:
        if self.transform_algorithm != "encoder":
            return np.asarray(self.components_)
        self._check_calibration()
        own = self.fit_decoder or self.refine_max_iter > 0
        return np.asarray(self.decoder_ if own else self.components_)

    def _check_calibration(self) -> None:
        """Check that gains and decoder belong to the present ``threshold_mode``."""
        uses_calibration = self.fit_gains or self.fit_decoder or self.refine_max_iter > 0
        if uses_calibration and self.calibrated_mode_ != self.threshold_mode:
            raise InvalidInputError(
                f"threshold_mode was changed from {self.calibrated_mode_!r} to"
                f" {self.threshold_mode!r} after fit; call calibrate(X), or fit again."
            )
        refined = hasattr(self, "refined_encoder_")
        if refined != (self.refine_max_iter > 0):
            raise InvalidInputError(
                f"refine_max_iter was changed to {self.refine_max_iter} after fit; call"
                " calibrate(X), or fit again."
            )
        if self.fit_decoder and not hasattr(self, "decoder_"):
            raise InvalidInputError(
                "fit_decoder was set to True after fit; call calibrate(X), or fit again."
            )
        if (
            self.fit_decoder
            and self.refine_max_iter == 0
            and self.calibrated_gains_ != self.fit_gains
        ):
            raise InvalidInputError(
                f"fit_gains was changed to {self.fit_gains} after fit, and decoder_ does not belong"
                " to it; call calibrate(X), or fit again."
            )

    # Calibration

    def _calibrate(
        self,
        Z: Array,
        X: Rows,
        D: Array,
        prior: Array | None = None,
        weight: float = 0.0,
        *,
        sample_weight: Array | None = None,
        missing: NDArray[np.bool_] | None = None,
    ) -> None:
        """Set gains and decoder from outputs Z of the encoder for samples X.

        ``prior`` are the gains of earlier batches, and ``weight`` is their weight. Entries that
        are missing do not count.
        """
        self.refined_threshold_ = self.matching_threshold_  # refinement replaces it
        coded = CodedRows.of(Z, X, self._thresholding(), sample_weight)
        self.gains_ = fit_gains(coded, D, prior, weight)
        observed = None
        if missing is not None:
            S = self._thresholding().apply(Z.copy())
            observed = ObservedRows(S, X, missing, sample_weight)
            self.gains_ = observed.fit_gains(self.gains_, D, prior, weight)
        gains = self.gains_ if self.fit_gains else np.ones(len(D))
        for name in ("decoder_", "refined_encoder_"):
            self.__dict__.pop(name, None)
        self.encoder_r2_ = (observed or coded).r2(gains, D)
        self.calibrated_mode_ = self.threshold_mode
        self.calibrated_gains_ = bool(self.fit_gains)
        if self.fit_decoder:
            if observed is None:
                decoder = fit_decoder(coded, gains, D)
            else:
                decoder = observed.fit_decoder(gains, D)
            self.decoder_ = decoder.astype(X.dtype)
            self.encoder_r2_ = (observed or coded).r2(gains, decoder)

    def _n_refinement_samples(self) -> int:
        return max(REFINEMENT_SAMPLES, REFINEMENT_SAMPLES_PER_UNIT * len(self.components_))

    def _refine(self, X: Rows) -> list[str]:
        """Refine the calibrated encoder on samples X and set the attributes that belong to it.

        Returns messages for warnings, which are issued when the estimator is complete.
        """
        if self.refine_max_iter == 0:
            return []
        C, D = self.encoder_, self.components_.astype(np.float64)
        limit = self._n_refinement_samples()
        if X.shape[0] > limit:
            X = X[sample_indices(X.shape[0], limit)]
        rule = self._thresholding(self.gains_ if self.fit_gains else None)
        # One thread, because thresholds and accepted steps would magnify different rounding errors.
        with blas_threads(1):
            refined = refine_encoder(
                X, C, D, rule, self.matching_density_, max_iter=self.refine_max_iter
            )
        self.refined_encoder_ = refined.C.astype(X.dtype)
        self.decoder_ = refined.D.astype(X.dtype)
        self.refined_threshold_ = refined.thresholding.threshold
        self.encoder_r2_ = refined.r2
        name = type(self).__name__
        if refined.r2 <= refined.start_r2 and self.usage_.any():
            return [
                f"{name}: refinement did not reduce the error of held-out samples, so the encoder"
                " is not changed; use more samples or refine_max_iter=0."
            ]
        if refined.n_lost:
            return [
                f"{name}: the refined encoder no longer uses {refined.n_lost} of {len(D)} units;"
                " use more samples or a smaller refine_max_iter if all of them are needed."
            ]
        return []


def _n_nonzero(density: float, m: int) -> int:
    """Return the number of non-zeros of m units that has about the given density."""
    return min(m, max(1, round(density * m)))
