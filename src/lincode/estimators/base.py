"""What the training of SCNN and MiniBatchSCNN has in common."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lincode.core.calibration import leave_one_out_outputs, matching_threshold
from lincode.core.energy import energy_of_rows
from lincode.core.init import Start, paper_start, start_from_data, start_from_dictionary
from lincode.core.missing_codes import PatternProblem, patterns
from lincode.core.types import Array, Rows
from lincode.estimators.coding import READ_BYTES, CodingTransformer
from lincode.estimators.progress import ProgressMixin
from lincode.estimators.samples import Samples
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import check_dictionary
from lincode.exceptions import InvalidInputError
from lincode.networks.scnn import Trained, atom_signs
from lincode.rows.chunks import ChunkedRows, is_lazy
from lincode.rows.memory import MemoryRows, dense, sample_indices
from lincode.rows.prefetch import prefetch
from lincode.rows.threads import blas_threads, thread_count

MIN_ENCODER_R2 = 0.05
"""``fit`` warns if the encoder's codes reconstruct a smaller fraction of the data."""


class BaseSCNN(ProgressMixin, CodingTransformer):
    """The methods of SCNN that do not depend on how it is trained.

    Each of its base classes adds one subject: ``DictionaryTransformer`` (inverse_transform),
    ``ParametrisedSCNN`` (parameters, alpha_max), ``CalibratedEncoder`` (threshold, gains, decoder),
    ``CodingTransformer`` (transform) and ``ProgressMixin`` (callbacks). Subclasses set
    ``components_`` (D), ``encoder_`` (C), ``alpha_`` (λ), ``usage_`` and ``matching_threshold_`` in
    ``fit``.
    """

    def score(self, X: Any, y: object = None) -> float:
        """Return the negative energy per sample of X; a higher score is better.

        The energy is that of the codes that minimise it for the learned D and C, whatever
        ``transform_algorithm`` and ``threshold`` are. It compares networks with the same alpha,
        ``encoder_weight`` and ``n_components`` only, because these are part of the energy. To
        choose them, score the task that the codes are used for.

        Parameters
        ----------
        X : array-like, CSR matrix or lazily read array of shape (n_samples, n_features)
            The samples. They are read as by ``transform``. Missing entries (NaN) are unknowns of
            the energy.
        y : ignored

        Returns
        -------
        float
        """
        check_is_fitted(self)
        self._check_parameters()
        if not is_lazy(X):
            return self._score(X)
        with closing(prefetch(ChunkedRows(X).blocks(READ_BYTES))) as blocks:
            total = sum(block.shape[0] * self._score(block) for _, block in blocks)
        return float(total / int(X.shape[0]))

    def _score(self, X: Any) -> float:
        X = self._check_samples(X, "exact")
        U = self._codes(X, "exact")
        C, eta = self.encoder_, self.encoder_weight
        with blas_threads(thread_count(self.n_jobs)):
            total = self._total_energy(X, U)
        squares = float(np.sum(np.square(C, dtype=np.float64)))
        ridge = eta / len(C) * (self.noise_variance_ * squares)
        score = float(-total / len(U) - ridge)
        if not np.isfinite(score):
            raise InvalidInputError(
                f"the energy of these samples is {-score}; scale X to moderate values, and choose"
                " alpha and encoder_weight to match."
            )
        return score

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _total_energy(self, X: Rows, U: Array) -> float:
        """Return the energy of samples at the best missing entries, without the ridge."""
        D, C, lam, eta = self.components_, self.encoder_, self.alpha_, self.encoder_weight
        incomplete = np.zeros(len(U), bool) if issparse(X) else np.isnan(X).any(axis=1)
        if not incomplete.any():
            return energy_of_rows(X, U, D, C, lam, eta)
        total = energy_of_rows(X[~incomplete], U[~incomplete], D, C, lam, eta)
        for observed, rows in patterns(X, np.flatnonzero(incomplete)):
            problem = PatternProblem.of(D.astype(float), C.astype(float), eta, observed)
            total += float(problem.energies(X[np.ix_(rows, observed)], U[rows], lam).sum())
        return total

    def _check_refinement(self, samples: Samples) -> None:
        if self.refine_max_iter > 0 and samples.weights is not None:
            raise InvalidInputError(
                "sample_weight requires refine_max_iter=0, because refinement does not use weights;"
                f" got refine_max_iter={self.refine_max_iter}."
            )

    def _new_start(
        self,
        take: Callable[[NDArray[np.intp]], Rows],
        shape: tuple[int, int],
        dtype: np.dtype[np.floating],
        rng: np.random.RandomState,
    ) -> Start:
        """Return the initial D, C and U that ``init`` names, for samples of a shape and dtype.

        ``take(indices)`` returns some of the samples.
        """
        m = self._n_units(shape[1])
        if not isinstance(self.init, str):
            return start_from_dictionary(check_dictionary(self.init, m, shape[1], self._inits))
        if self.init == "paper":
            return paper_start(shape, m, rng, dtype)
        return start_from_data(lambda indices: dense(take(indices)), shape, m, rng)

    def _set_weights(
        self,
        trained: Trained,
        rows: MemoryRows,
        indices: NDArray[np.intp],
        past_weight: float = 0.0,
    ) -> None:
        """Set the fitted attributes that all kinds of training have in common.

        The samples with the given indices are those of the calibration. ``past_weight`` is the
        weight of the calibration by earlier batches.
        """
        X, U = rows.take(indices), rows.take_codes(indices)
        weights = None if rows.weights is None else rows.weights[indices]
        missing = None if rows.missing is None else rows.missing[indices]
        stats, D, C = trained.stats, trained.D, trained.C
        sign = np.ones((len(D), 1)) if self.positive_code else atom_signs(D)
        self.components_, self.encoder_ = (sign * D).astype(X.dtype), (sign * C).astype(X.dtype)
        self.usage_ = stats.used / stats.n
        self.encoder_ridge_ = trained.ridge
        self.noise_variance_ = trained.factor.ridge / stats.n
        Z = leave_one_out_outputs(X, U, C, stats.UtX, stats.n, trained.factor, weights)
        Z *= sign.T.astype(Z.dtype)
        self.matching_density_ = float(self.usage_.mean())
        threshold = matching_threshold(
            Z, self.matching_density_, positive=self.positive_code, weights=weights
        )
        gains = None
        if past_weight > 0:
            # Gains of another mode are not a useful prior.
            if self.calibrated_mode_ == self.threshold_mode:
                gains = self.gains_
            threshold += past_weight * (self.matching_threshold_ - threshold)
        self.matching_threshold_ = threshold
        self._calibrate(
            Z,
            X,
            sign * D,
            gains,
            past_weight / (1 - past_weight),
            sample_weight=weights,
            missing=missing,
        )

    def _warn_about_codes(self, X: Rows, *, alpha_is_too_large: bool) -> None:
        """Warn if the codes are zero, or if the encoder's codes hardly reconstruct the samples.

        ``alpha_is_too_large`` says that there was already a warning about alpha.
        """
        name = type(self).__name__
        if not self.usage_.any() and not alpha_is_too_large:
            # The solver of the paper does not replace atoms that no sample uses.
            paper = getattr(self, "solver", "auto") == "paper"
            advice = "solver='auto'" if paper else "more iterations"
            warn_user(
                f"{name}: all trained codes are zero: alpha, {self.alpha_:.3g}, is too large for"
                f" the atoms that training started from. Use a smaller alpha or {advice}."
            )
        if self.transform_algorithm != "encoder" or not self.usage_.any():
            return
        sample = self._codes(X[sample_indices(X.shape[0], 1000)], "encoder")
        encoded = np.count_nonzero(sample, axis=1).mean()
        trained = float(self.usage_.sum())
        if encoded < trained / 100:
            if self.threshold == "match":
                # The threshold is that of leave-one-out outputs, which are much larger.
                advice = "the encoder overfits. Use a larger encoder_ridge or more samples."
            else:
                advice = (
                    f"the threshold {self.threshold_:.3g} is too high. Set threshold='match' (here"
                    f" {self.matching_threshold_:.3g}) or a smaller number."
                )
            warn_user(
                f"{name}: the encoder's codes have {encoded:.2g} non-zeros per sample, but the"
                f" trained codes have {trained:.2g}: {advice}"
            )
        elif self.encoder_r2_ < MIN_ENCODER_R2 and X.shape[0] > 1:
            # The leave-one-out output for a single sample is always 0.
            warn_user(
                f"{name}: the encoder's codes reconstruct only {max(self.encoder_r2_, 0):.1%} of"
                " the data (see encoder_r2_), so they are poor features. Use"
                " transform_algorithm='lasso', a smaller alpha, more samples or a larger"
                " encoder_ridge."
            )
