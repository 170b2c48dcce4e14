"""Base classes: estimators with a dictionary, and what SCNN and MiniBatchSCNN have in common."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted

from lincode.core.calibration import (
    MODES,
    CodedRows,
    fit_decoder,
    fit_gains,
    leave_one_out_outputs,
    matching_threshold,
)
from lincode.core.code_step import Codes, code_step
from lincode.core.encoder_step import Thresholding, encode
from lincode.core.energy import energy, lam_max
from lincode.core.init import Start, paper_start, start_from_data, start_from_dictionary
from lincode.core.refinement import refine_encoder
from lincode.core.types import Array, Rows
from lincode.estimators.validation import (
    FLOAT_DTYPES,
    check_callback,
    check_choice,
    check_dictionary,
    check_flag,
    check_n_jobs,
    check_number,
    check_rows,
    check_scaled_rows,
    check_verbose,
    parse_alpha,
    unchanged_on_failure,
)
from lincode.exceptions import InvalidInputError
from lincode.networks.scnn import EnergyWeights, Trained, atom_signs
from lincode.rows.memory import chunks, code_blocks, dense, dense_blocks, sample_indices
from lincode.rows.protocol import RowLengths
from lincode.rows.threads import blas_threads, matrix_threads, ordered_map, thread_count

DEFAULT_ALPHA = "mean"
"""The default of alpha, chosen by ``benchmarks/alpha_scale.py`` on many kinds of data."""
MAX_TRANSFORM_STEPS = 20_000
"""The largest number of accelerated steps for codes computed by optimisation."""
CALIBRATION_SAMPLES, CALIBRATION_SAMPLES_PER_UNIT = 10_000, 10
"""The encoder is calibrated with at most max(10,000, 10 · n_components) samples."""
MIN_ENCODER_R2 = 0.05
"""``fit`` warns if the encoder's codes reconstruct a smaller fraction of the data."""


class DictionaryTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer with a dictionary ``components_``. Subclasses learn it and compute codes."""

    def inverse_transform(self, X: Any) -> Array:
        """Reconstruct samples from their codes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_out)
            Codes as returned by ``transform``.

        Returns
        -------
        array of shape (n_samples, n_features)
            The reconstruction, the product of the codes and ``components_``.
        """
        check_is_fitted(self)
        try:
            U = check_array(X, accept_sparse="csr", dtype=FLOAT_DTYPES, input_name="codes")
        except (ValueError, TypeError) as error:
            raise InvalidInputError(str(error)) from error
        if U.shape[1] != self._n_features_out:
            split = getattr(self, "split_sign", None)
            how = "" if split is None else f" with split_sign={split}"
            raise InvalidInputError(
                f"codes must have {self._n_features_out} columns, as returned by transform{how},"
                f" got {U.shape[1]}."
            )
        return self._decode(self._merge_signs(U))

    def reconstruct(self, X: Any) -> Array:
        """Compute the codes of X and reconstruct X from them.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self._decode(self._unsplit_codes(X))

    def _decode(self, U: Any) -> Array:
        return np.asarray(U @ self._decoder().astype(U.dtype, copy=False))

    def _decoder(self) -> Array:
        """Return the matrix with which codes are multiplied to reconstruct samples."""
        return np.asarray(self.components_)

    def _merge_signs(self, U: Any) -> Any:
        """Return codes with one column per atom from the output of ``transform``."""
        return U

    def _unsplit_codes(self, X: Any) -> Array:
        """Return the codes of X with one column per atom."""
        return np.asarray(self.transform(X))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class BaseSCNN(DictionaryTransformer):
    """The methods of SCNN that do not depend on how it is trained.

    Subclasses set ``components_`` (D), ``encoder_`` (C), ``alpha_`` (λ), ``usage_`` and
    ``matching_threshold_`` in ``fit``.
    """

    def transform(self, X: Any) -> Any:
        """Compute the codes of X by the method that ``transform_algorithm`` names.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        array or CSR matrix of shape (n_samples, n_components)
            The codes. With ``split_sign=True`` there are 2 * n_components columns. With
            ``sparse_output=True`` the result is a CSR matrix, which is built block by block.
        """
        check_is_fitted(self)
        self._check_parameters()
        X = self._check_samples(X, self.transform_algorithm)
        if not (self.split_sign or self.sparse_output):
            return self._codes(X, self.transform_algorithm)
        blocks = self._code_blocks(X, self.transform_algorithm)
        if self.sparse_output:
            sparse = [csr_matrix(_split(U) if self.split_sign else U) for _, U in blocks]
            return vstack(sparse, format="csr")
        out: Array = np.empty((X.shape[0], self._n_features_out), dtype=X.dtype)
        for rows, U in blocks:
            _split(U, out=out[rows])
        return out

    def score(self, X: Any, y: object = None) -> float:
        """Return the negative energy per sample of X; a higher score is better.

        The energy is that of the codes that minimise it for the learned D and C, whatever
        ``transform_algorithm`` and ``threshold`` are. It compares networks with the same alpha,
        ``encoder_weight`` and ``n_components`` only, because these are part of the energy. To
        choose them, score the task that the codes are used for.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.
        y : ignored

        Returns
        -------
        float
        """
        check_is_fitted(self)
        self._check_parameters()
        X = self._check_samples(X, "exact")
        U = self._codes(X, "exact")
        D, C, eta = self.components_, self.encoder_, self.encoder_weight
        with blas_threads(thread_count(self.n_jobs)):
            total = sum(
                energy(dense(X[rows]), U[rows], D, C, self.alpha_, eta) for rows in dense_blocks(X)
            )
        ridge = eta / len(D) * self.noise_variance_ * float(np.sum(np.square(C, dtype=np.float64)))
        return float(-total / len(U) - ridge)

    def alpha_max(self, X: Any) -> float:
        """Return the smallest alpha for which all codes are zero.

        It is m/p times the length of the longest sample. It holds for training that starts from
        a zero encoder, that is for ``init="data"`` and for an array. No ``fit`` is needed. The
        parameter ``alpha="0.05*max"`` means 0.05 times this value.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        float
        """
        self._check_parameters()
        X, lengths = check_scaled_rows(None, X, reset=False)
        return lam_max(lengths.longest, self._n_units(X.shape[1]), X.shape[1])

    @property
    def threshold_(self) -> float:
        """The threshold that ``transform`` applies to the output of the encoder."""
        check_is_fitted(self)
        if self.refine_max_iter > 0:
            return float(self.refined_threshold_)
        if self.threshold == "match":
            return float(self.matching_threshold_)
        if self.threshold == "alpha":
            return self._weights().threshold
        return float(self.threshold)

    @property
    def n_nonzero_coefs_(self) -> int:
        """The number of non-zeros per sample that ``threshold_mode="top_k"`` keeps."""
        check_is_fitted(self)
        m = len(self.components_)
        if self.transform_n_nonzero_coefs is None:
            return min(m, max(1, round(float(self.usage_.sum()))))
        return min(m, int(self.transform_n_nonzero_coefs))

    def calibrate(self, X: Any, y: object = None, *, density: float | None = None) -> Any:
        """Adapt the threshold, the gains and the decoder to X, without training again.

        Call it after a change of ``threshold_mode``, ``threshold``, ``transform_n_nonzero_coefs``
        or ``fit_decoder``, or to choose how sparse the encoder's codes are. Use samples that the
        network was not trained on if there are any: ``fit`` itself calibrates with leave-one-out
        outputs of the encoder, which samples given here do not have.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.
        y : ignored
        density : float, default=None
            The fraction of non-zeros that ``threshold="match"`` aims at. None means the density of
            the trained codes.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        with unchanged_on_failure(self):
            self._check_parameters()
            if density is not None:
                check_number("density", density, 0)
                if density > 1:
                    raise InvalidInputError(f"density must be between 0 and 1, got {density!r}.")
            X, _ = check_scaled_rows(self, X, reset=False)
            target = float(self.usage_.mean()) if density is None else float(density)
            sample = X[sample_indices(X.shape[0], self._n_calibration_samples())]
            with blas_threads(thread_count(self.n_jobs)):
                Z = np.ascontiguousarray(sample @ self.encoder_.astype(X.dtype, copy=False).T)
                D = self.components_.astype(np.float64)
                threshold = matching_threshold(Z, target, positive=self.positive_code)
                self.matching_threshold_ = threshold
                self._calibrate(Z, sample, D, target)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the codes.

        The names are ``scnn0``, ``scnn1``, …. With ``split_sign=True`` they are ``scnn0_pos``,
        ``scnn1_pos``, …, ``scnn0_neg``, ``scnn1_neg``, ….

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

    def _merge_signs(self, U: Any) -> Any:
        m = len(self.components_)
        return U[:, :m] - U[:, m:] if self.split_sign else U

    def _unsplit_codes(self, X: Any) -> Array:
        self._check_parameters()
        X = self._check_samples(X, self.transform_algorithm)
        return self._codes(X, self.transform_algorithm)

    # Codes

    def _check_samples(self, X: Any, algorithm: str) -> Rows:
        if algorithm == "encoder":
            return check_rows(self, X, reset=False)
        return check_scaled_rows(self, X, reset=False)[0]

    def _codes(self, X: Rows, algorithm: str) -> Array:
        """Return the codes of validated samples, without splitting signs."""
        out: Array = np.empty((X.shape[0], len(self.encoder_)), dtype=X.dtype)
        for _ in self._code_blocks(X, algorithm, out=out):
            pass
        return out

    def _code_blocks(
        self, X: Rows, algorithm: str, out: Array | None = None
    ) -> Iterator[tuple[slice, Array]]:
        """Yield the codes of validated samples block by block; write them to ``out`` if given."""
        if algorithm == "encoder":
            return self._encoded_blocks(X, out)
        return self._solved_blocks(X, algorithm, out)

    def _encoded_blocks(self, X: Rows, out: Array | None) -> Iterator[tuple[slice, Array]]:
        C = self._used_encoder().astype(X.dtype, copy=False)
        thresholding = self._thresholding(self._checked_gains())

        def encode_block(rows: slice) -> tuple[slice, Array]:
            target = None if out is None else out[rows]
            return rows, encode(X[rows], C, thresholding, out=target)

        blocks = chunks(X.shape[0], len(C))
        if len(blocks) > 1:
            return ordered_map(encode_block, blocks, thread_count(self.n_jobs))
        if self.n_jobs is None:  # one product, for which BLAS may use its own threads
            return iter([encode_block(blocks[0])])
        with blas_threads(thread_count(self.n_jobs)):
            return iter([encode_block(blocks[0])])

    def _solved_blocks(
        self, X: Rows, algorithm: str, out: Array | None
    ) -> Iterator[tuple[slice, Array]]:
        n_threads = thread_count(self.n_jobs)
        weights = self._weights(eta=0.0 if algorithm == "lasso" else None)
        C = self.encoder_.astype(X.dtype, copy=False)
        with blas_threads(matrix_threads(len(C), n_threads)):
            D, C64 = (A.astype(np.float64) for A in (self.components_, self.encoder_))
            problem = weights.code_problem(D, C64, X.dtype)

        def solve_block(rows: slice) -> tuple[slice, Codes]:
            if problem.mu > 0:
                start = encode(X[rows], C, weights.thresholding)
            else:
                start = np.zeros((X[rows].shape[0], len(C)), dtype=X.dtype)
            tol, max_iter = self.transform_tol, MAX_TRANSFORM_STEPS
            codes = code_step(start, X[rows], problem, tol=tol, max_iter=max_iter)
            if out is not None:
                out[rows] = codes.U
            return rows, codes

        n_unfinished = 0
        for rows, codes in ordered_map(solve_block, code_blocks(X.shape[0], len(C)), n_threads):
            n_unfinished += codes.n_unfinished
            yield rows, codes.U
        if n_unfinished:
            warnings.warn(
                f"{type(self).__name__}: the codes of {n_unfinished} of {X.shape[0]} samples did"
                f" not reach transform_tol={self.transform_tol} within {MAX_TRANSFORM_STEPS}"
                " steps; increase transform_tol.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _thresholding(self, gains: Array | None = None) -> Thresholding:
        """Return how the output of the encoder is turned into codes."""
        k, positive = self.n_nonzero_coefs_, bool(self.positive_code)
        return Thresholding(self.threshold_mode, self.threshold_, k, positive, gains)

    def _used_encoder(self) -> Array:
        """Return the encoder that ``transform`` applies."""
        self._check_calibration()
        return np.asarray(self.refined_encoder_ if self.refine_max_iter > 0 else self.encoder_)

    def _checked_gains(self) -> Array | None:
        if not self.fit_gains or self.refine_max_iter > 0:
            return None
        return np.asarray(self.gains_)

    def _decoder(self) -> Array:
        own = self.fit_decoder or self.refine_max_iter > 0
        if not own or self.transform_algorithm != "encoder":
            return np.asarray(self.components_)
        self._check_calibration()
        return np.asarray(self.decoder_)

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
        if self.fit_decoder and self.calibrated_gains_ != self.fit_gains:
            raise InvalidInputError(
                f"fit_gains was changed to {self.fit_gains} after fit, and decoder_ does not belong"
                " to it; call calibrate(X), or fit again."
            )

    # Training

    def _n_calibration_samples(self) -> int:
        m = self._n_units(self.n_features_in_)
        return max(CALIBRATION_SAMPLES, CALIBRATION_SAMPLES_PER_UNIT * m)

    def _calibrate(
        self,
        Z: Array,
        X: Rows,
        D: Array,
        density: float,
        prior: Array | None = None,
        weight: float = 0.0,
    ) -> None:
        """Set gains and decoder from outputs Z of the encoder for samples X.

        ``prior`` are the gains of earlier batches, and ``weight`` is their weight.
        """
        self.refined_threshold_ = self.matching_threshold_  # refinement replaces it
        coded = CodedRows.of(Z, X, self._thresholding())
        self.gains_ = fit_gains(coded, D, prior, weight)
        gains = self.gains_ if self.fit_gains else np.ones(len(D))
        for name in ("decoder_", "refined_encoder_"):
            self.__dict__.pop(name, None)
        self.encoder_r2_ = coded.r2(gains, D)
        self.calibrated_mode_ = self.threshold_mode
        self.calibrated_gains_ = bool(self.fit_gains)
        if self.refine_max_iter > 0:
            self._refine(X, D, density)
        elif self.fit_decoder:
            decoder = fit_decoder(coded, gains, D)
            self.decoder_ = decoder.astype(X.dtype)
            self.encoder_r2_ = coded.r2(gains, decoder)

    def _refine(self, X: Rows, D: Array, density: float) -> None:
        """Refine the encoder on samples X and set the attributes that belong to it."""
        refined = refine_encoder(
            X, self.encoder_, D, self._thresholding(), density, max_iter=self.refine_max_iter
        )
        self.refined_encoder_ = refined.C.astype(X.dtype)
        self.decoder_ = refined.D.astype(X.dtype)
        self.refined_threshold_ = refined.thresholding.threshold
        self.encoder_r2_ = refined.r2
        n_unused = int(np.count_nonzero((refined.used == 0) & (self.usage_ > 0)))
        if n_unused:
            warnings.warn(
                f"{type(self).__name__}: {n_unused} of {len(D)} units are not used by the refined"
                " encoder; use more samples or a smaller refine_max_iter.",
                UserWarning,
                stacklevel=4,
            )

    def _n_units(self, n_features: int) -> int:
        return int(n_features if self.n_components is None else self.n_components)

    def _weights(self, *, eta: float | None = None) -> EnergyWeights:
        eta = float(self.encoder_weight if eta is None else eta)
        ridge = None if self.encoder_ridge == "auto" else float(self.encoder_ridge)
        return EnergyWeights(self.alpha_, eta, bool(self.positive_code), ridge)

    def _resolve_alpha(self, lengths: RowLengths, m: int, p: int) -> float:
        """Return alpha as a number, from the row lengths if it is a string."""
        factor, scale = parse_alpha(self.alpha)
        if scale is None:
            return factor
        if scale == "max":
            return factor * lam_max(lengths.longest, m, p)
        # With fewer than four units √m would be close to alpha_max or above it.
        return float(factor * min(np.sqrt(m), m / 2) / p * lengths.mean)

    def _warn_if_alpha_is_too_large(self, lengths: RowLengths, m: int, p: int) -> None:
        """Warn before training that all codes will be zero."""
        limit = lam_max(lengths.longest, m, p)
        if limit == 0:
            reason = "X is all zero"
        elif self.alpha_ >= limit * (1 - 1e-9):
            given = f"{self.alpha_:.3g}" + (
                f" ({self.alpha!r})" if isinstance(self.alpha, str) else ""
            )
            reason = (
                f"alpha is {given}, but it must be below alpha_max, which is {limit:.3g} for these"
                " data. Try alpha='0.1*max'"
            )
        else:
            return
        name = type(self).__name__
        warnings.warn(f"{name}: all codes will be zero: {reason}.", UserWarning, stacklevel=3)

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
            return start_from_dictionary(check_dictionary(self.init, m, shape[1]))
        if self.init == "paper":
            return paper_start(shape, m, rng, dtype)
        return start_from_data(lambda indices: dense(take(indices)), shape, m, rng)

    def _set_weights(self, trained: Trained, X: Rows, U: Array, past_weight: float = 0.0) -> None:
        """Set the fitted attributes that all kinds of training have in common.

        X are samples for the calibration, and U are their trained codes. ``past_weight`` is the
        weight of the calibration by earlier batches.
        """
        stats, D, C = trained.stats, trained.D, trained.C
        sign = np.ones((len(D), 1)) if self.positive_code else atom_signs(D)
        self.components_, self.encoder_ = (sign * D).astype(X.dtype), (sign * C).astype(X.dtype)
        self.usage_ = stats.used / stats.n
        self.encoder_ridge_ = trained.ridge
        self.noise_variance_ = trained.factor.ridge / stats.n
        Z = leave_one_out_outputs(X, U, C, stats.UtX, stats.n, trained.factor)
        Z *= sign.T.astype(Z.dtype)
        density = float(self.usage_.mean())
        threshold = matching_threshold(Z, density, positive=self.positive_code)
        gains = None
        if past_weight > 0:
            # Gains of another mode are not a useful prior.
            if self.calibrated_mode_ == self.threshold_mode:
                gains = self.gains_
            threshold += past_weight * (self.matching_threshold_ - threshold)
        self.matching_threshold_ = threshold
        self._calibrate(Z, X, sign * D, density, gains, past_weight / (1 - past_weight))

    def _warn_about_codes(self, X: Rows) -> None:
        """Warn if the encoder's codes are nearly empty or hardly reconstruct the samples."""
        if self.transform_algorithm != "encoder" or not self.usage_.any():
            return
        name = type(self).__name__
        sample = self._codes(X[sample_indices(X.shape[0], 1000)], "encoder")
        encoded = np.count_nonzero(sample, axis=1).mean()
        trained = float(self.usage_.sum())
        if encoded < trained / 100:
            warnings.warn(
                f"{name}: the encoder's codes have {encoded:.2g} non-zeros per sample, but the"
                f" trained codes have {trained:.2g}: the threshold {self.threshold_:.3g} is too"
                f" high. Set threshold='match' (here {self.matching_threshold_:.3g}) or a smaller"
                " number.",
                UserWarning,
                stacklevel=3,
            )
        elif self.encoder_r2_ < MIN_ENCODER_R2 and X.shape[0] > 1:
            # The leave-one-out output for a single sample is always 0.
            warnings.warn(
                f"{name}: the encoder's codes reconstruct only {max(self.encoder_r2_, 0):.1%} of"
                " the data (see encoder_r2_), so they are poor features. Use"
                " transform_algorithm='lasso', a smaller alpha, more samples or a larger"
                " encoder_ridge.",
                UserWarning,
                stacklevel=3,
            )

    def _check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, integer=True, or_none=True)
        parse_alpha(self.alpha)
        check_number("encoder_weight", self.encoder_weight, 0)
        if not isinstance(self.encoder_ridge, str):
            check_number("encoder_ridge", self.encoder_ridge, 0)
        elif self.encoder_ridge != "auto":
            raise InvalidInputError(
                "encoder_ridge must be 'auto' or a number of at least 0, got"
                f" {self.encoder_ridge!r}."
            )
        check_choice("threshold_mode", self.threshold_mode, MODES)
        check_number("refine_max_iter", self.refine_max_iter, 0, integer=True)
        if self.refine_max_iter > 0 and self.threshold != "match":
            raise InvalidInputError(
                "refine_max_iter > 0 requires threshold='match', because refinement changes the"
                f" scale of the encoder; got threshold={self.threshold!r}."
            )
        coefs = self.transform_n_nonzero_coefs
        check_number("transform_n_nonzero_coefs", coefs, 1, integer=True, or_none=True)
        if not isinstance(self.threshold, str):
            check_number("threshold", self.threshold, 0)
        elif self.threshold not in ("match", "alpha"):
            raise InvalidInputError(
                "threshold must be 'match', 'alpha' or a number of at least 0, got"
                f" {self.threshold!r}."
            )
        check_number("tol", self.tol, 0)
        check_number("transform_tol", self.transform_tol, 0)
        check_choice("transform_algorithm", self.transform_algorithm, ("encoder", "exact", "lasso"))
        if isinstance(self.init, str):
            check_choice("init", self.init, ("data", "paper"))
        check_verbose(self.verbose)
        check_callback(self.callback)
        for name in ("split_sign", "positive_code", "sparse_output", "fit_gains", "fit_decoder"):
            check_flag(name, getattr(self, name))
        if self.split_sign and self.positive_code:
            raise InvalidInputError(
                "split_sign=True and positive_code=True exclude each other, because positive codes"
                " have no negative part; set one of them to False."
            )
        check_n_jobs(self.n_jobs)


def _split(U: Array, out: Array | None = None) -> Array:
    """Return [max(U, 0), max(−U, 0)]. U is overwritten."""
    m = U.shape[1]
    out = np.empty((len(U), 2 * m), dtype=U.dtype) if out is None else out
    np.maximum(U, 0, out=out[:, :m])
    np.maximum(np.negative(U, out=U), 0, out=out[:, m:])
    return out
