"""What the estimators have in common: parameters, calibration, codes and reconstruction."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lincode.core.arrays import Array, RowLengths, Rows, is_lazy, sample_indices, scan_rows, stack
from lincode.core.dictionary import Start, start_from_data, start_from_dictionary
from lincode.core.energy import energy_of_rows, lam_max
from lincode.core.lasso import Coder, EnergyCoder
from lincode.core.missing import IncompleteCoder, SecondMoments, predict_rows
from lincode.core.threshold import MODES, Thresholding, matching_threshold, n_calibration_rows
from lincode.encoder.calibration import (
    CodedRows,
    fit_decoder,
    fit_gains,
    leave_one_out_outputs,
)
from lincode.estimators.codes import (
    CodeOutput,
    check_codes_memory,
    encode_rows,
    make_coder,
    unfinished_message,
    write_codes,
)
from lincode.estimators.validation import (
    CALLBACK,
    FLAG,
    LARGEST,
    N_JOBS,
    VERBOSE,
    Constraint,
    check_finite,
    check_matrix,
    check_parameters,
    check_rows,
    check_samples,
    check_scale,
    choice,
    either,
    number,
    unchanged_on_failure,
    warn_empty,
    warn_user,
)
from lincode.exceptions import InvalidInputError
from lincode.training.alternation import EnergyWeights, Trained, atom_signs
from lincode.training.lazy_rows import LazyRows
from lincode.training.loop import CallbackSupportMixin
from lincode.training.rows import RowSource
from lincode.training.threads import blas_threads, matrix_threads, prefetch, thread_count

Take = Callable[[NDArray[np.intp]], Array]
GREEDY = ("omp", "ols")
"""The algorithms of ``transform`` with a given number of non-zeros."""
ALGORITHMS = ("encoder", "exact", "lasso", *GREEDY)
DEFAULT_ALPHA = "mean"
"""The default of alpha, chosen by ``benchmarks/alpha_scale.py`` on many kinds of data."""
MAX_ENCODER_WEIGHT = 1e200
"""A larger weight of the encoder term would let the energy overflow."""
MAX_TRANSFORM_STEPS = 20_000
"""The largest number of accelerated steps for codes computed by optimisation."""
READ_BYTES = 32 * 2**20
"""The size of the blocks in which samples that are not in memory are read."""
REFINEMENT_SAMPLES, REFINEMENT_SAMPLES_PER_UNIT = 100_000, 100
"""The encoder is refined on at most max(100,000, 100 · n_components) samples."""
MIN_ENCODER_R2 = 0.05
"""``fit`` warns if the encoder's codes reconstruct a smaller fraction of the data."""


def parse_alpha(alpha: Any) -> tuple[float, str | None]:
    """Return alpha as a number, or as a factor and the scale that it is relative to.

    ``"0.05*max"`` gives (0.05, "max") and 0.1 gives (0.1, None).
    """
    if not isinstance(alpha, str):
        number(0).check("alpha", alpha)
        return float(alpha), None
    match = re.fullmatch(r"\s*(?:([^*]+)\*)?\s*(max|mean)\s*", alpha)
    try:
        factor = float(match[1] or 1) if match else math.nan
    except ValueError:
        factor = math.nan
    if match is None or not 0 <= factor < math.inf:
        raise InvalidInputError(
            "alpha must be a finite number of at least 0 or a string such as '0.1*max' or"
            f" '0.1*mean', got {alpha!r}."
        )
    return factor, match[2]


def resolve_alpha(alpha: Any, lengths: RowLengths, m: int, p: int) -> float:
    """Return alpha as a number, from the row lengths if it is a string."""
    factor, scale = parse_alpha(alpha)
    if scale == "max":
        factor *= lam_max(lengths.longest, m, p)
    elif scale == "mean":
        # With fewer than four units √m would be close to alpha_max or above it.
        factor *= float(min(np.sqrt(m), m / 2) / p * lengths.mean)
    number(0, LARGEST).check("alpha", factor)
    return factor


class DictionaryTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer with a dictionary ``components_`` and the parameter ``split_sign``."""

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
        if np.ma.is_masked(X):
            raise InvalidInputError("codes must not have masked entries.")
        U = check_rows(None, X, reset=False)
        if U.shape[1] != self._n_features_out:
            raise InvalidInputError(
                f"codes must have {self._n_features_out} columns, as returned by transform with"
                f" split_sign={self.split_sign}, got {U.shape[1]}."
            )
        m = len(self.components_)
        return self._decode(U[:, :m] - U[:, m:] if self.split_sign else U)

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
        return self._decode(self._transform(X, split=False))

    def _decode(self, U: Any) -> Array:
        D = self._decoder().astype(U.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            X = np.asarray(U @ D)
            is_finite = np.isfinite(X.sum()) or np.isfinite(X).all()
        if not is_finite:
            raise InvalidInputError(
                f"the reconstruction must be finite, but its entries are too large for {X.dtype};"
                " divide the codes or the dictionary by a number."
            )
        return X

    def _decoder(self) -> Array:
        """Return the matrix with which codes are multiplied to reconstruct samples."""
        return np.asarray(self.components_)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the codes.

        The names are the name of the class in lower case and a number. With ``split_sign=True`` the
        names of the positive parts end with ``_pos``, and those of the negative parts, which come
        after them, end with ``_neg``.

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
        return np.array([f"{u}_{sign}" for sign in ("pos", "neg") for u in units], dtype=object)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_) * (2 if self.split_sign else 1)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class BaseSCNN(CallbackSupportMixin, DictionaryTransformer):
    """The methods of SCNN that do not depend on how it is trained.

    Subclasses call ``_set_fitted`` with the result of training.
    """

    _constraints: ClassVar[dict[str, Constraint]] = {
        "n_components": either(choice(None), number(1, integer=True)),
        "encoder_weight": number(0, MAX_ENCODER_WEIGHT),
        "encoder_ridge": either(choice("auto"), number(0, LARGEST)),
        "threshold": either(choice("match", "alpha"), number(0)),
        "threshold_mode": choice(*MODES),
        "transform_n_nonzero_coefs": either(choice(None), number(1, integer=True)),
        "refine_max_iter": number(0, integer=True),
        "transform_algorithm": choice(*ALGORITHMS),
        "transform_alpha": either(choice(None), number(0)),
        "tol": number(0),
        "transform_tol": number(0),
        "n_jobs": N_JOBS,
        "verbose": VERBOSE,
        "callback": CALLBACK,
    } | dict.fromkeys(
        (
            "fit_gains",
            "fit_decoder",
            "transform_debias",
            "split_sign",
            "sparse_output",
            "positive_code",
            "positive_dict",
        ),
        FLAG,
    )

    matching_threshold_: float
    gains_: Array
    calibrated_mode_: str

    # Parameters

    def _check_parameters(self) -> None:
        check_parameters(vars(self), self._constraints)  # get_params would be slow
        parse_alpha(self.alpha)
        if isinstance(self.init, str):
            choice("data").check("init", self.init)
        if self.refine_max_iter > 0 and self.threshold != "match":
            raise InvalidInputError(
                "refine_max_iter > 0 requires threshold='match', because refinement changes the"
                f" scale of the encoder; got threshold={self.threshold!r}."
            )
        if self.positive_code and self.transform_algorithm in GREEDY:
            raise InvalidInputError(
                f"transform_algorithm={self.transform_algorithm!r} has codes of both signs, but"
                " positive_code=True; use 'lasso'."
            )
        if self.split_sign and self.positive_code:
            raise InvalidInputError(
                "split_sign=True and positive_code=True exclude each other, because positive codes"
                " have no negative part; set one of them to False."
            )

    def alpha_max(self, X: Any) -> float:
        """Return the smallest alpha for which all codes are zero.

        It is m/p times the length of the longest sample. It holds for training that starts from
        a zero encoder, as ``fit`` does without ``warm_start``. No ``fit`` is needed. The parameter
        ``alpha="0.05*max"`` means 0.05 times this value.

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
        samples = check_samples(None, X, reset=False)
        p = samples.X.shape[1]
        return lam_max(samples.lengths.longest, self._n_units(p), p)

    def _n_units(self, n_features: int) -> int:
        return int(n_features if self.n_components is None else self.n_components)

    def _weights(self) -> EnergyWeights:
        return EnergyWeights(
            self.alpha_,
            float(self.encoder_weight),
            bool(self.positive_code),
            None if self.encoder_ridge == "auto" else float(self.encoder_ridge),
            bool(self.positive_dict),
        )

    def _warn_if_alpha_is_too_large(self, lengths: RowLengths, m: int, p: int) -> bool:
        """Warn if all codes will be zero in training from C = 0; return whether this is so."""
        limit = lam_max(lengths.longest, m, p)
        if self.alpha_ < limit * (1 - 1e-9):
            return False
        reason = f"alpha is {self.alpha_:.3g}, but it must be below alpha_max, {limit:.3g}"
        reason = reason if limit > 0 else "X is all zero"
        warn_user(f"{type(self).__name__}: all codes will be zero: {reason}.")
        return True

    def _new_start(self, take: Take, shape: tuple[int, int], rng: np.random.RandomState) -> Start:
        """Return the initial D and C. ``take(indices)`` returns some of the samples."""
        m, p = self._n_units(shape[1]), shape[1]
        if not isinstance(self.init, str):
            return start_from_dictionary(check_matrix("init", self.init, (m, p), np.float64))
        return start_from_data(take, shape, m, rng)

    # Fitted attributes

    def _set_fitted(self, trained: Trained, rows: RowSource, past_weight: float = 0.0) -> None:
        """Set the weights, and calibrate the encoder on a sample of the rows.

        ``past_weight`` is the weight of the calibration by earlier batches.
        """
        indices = sample_indices(rows.shape[0], n_calibration_rows(len(trained.C)))
        X, U = rows.take(indices), rows.take_codes(indices)
        stats, D, C = trained.stats, trained.D, trained.C
        sign = np.ones((len(D), 1)) if self.positive_code else atom_signs(D)
        self.components_, self.encoder_ = (sign * D).astype(X.dtype), (sign * C).astype(X.dtype)
        self.usage_ = stats.used / stats.n
        self.encoder_ridge_ = trained.ridge
        self.noise_variance_ = trained.factor.ridge / stats.n
        self.optimality_ = trained.optimality
        self.n_replaced_atoms_ = trained.n_replaced
        Z = leave_one_out_outputs(X, U, C, stats.UtX, stats.n, trained.factor)
        Z *= sign.T.astype(Z.dtype)
        self.matching_density_ = float(self.usage_.mean())
        self._calibrate(Z, X, sign * D, past_weight)

    def _calibrate(
        self,
        Z: Array,
        X: Rows,
        D: Array,
        past_weight: float = 0.0,
    ) -> None:
        """Set threshold, gains and decoder from outputs Z of the encoder for samples X."""
        threshold = matching_threshold(Z, self.matching_density_, positive=self.positive_code)
        prior, prior_weight = None, 0.0
        if past_weight > 0:
            threshold += past_weight * (self.matching_threshold_ - threshold)
            # Gains of another mode are not a useful prior.
            prior = self.gains_ if self.calibrated_mode_ == self.threshold_mode else None
            prior_weight = past_weight / (1 - past_weight)
        self.matching_threshold_ = self.refined_threshold_ = threshold
        coded = CodedRows.of(Z, X, self._thresholding())
        self.gains_ = fit_gains(coded, D, prior, prior_weight)
        gains = self.gains_ if self.fit_gains else np.ones(len(D))
        for name in ("decoder_", "refined_encoder_"):
            self.__dict__.pop(name, None)
        self.calibrated_mode_ = self.threshold_mode
        self.calibrated_gains_ = bool(self.fit_gains)
        if self.fit_decoder:
            D = fit_decoder(coded, gains, D)
            self.decoder_ = D.astype(X.dtype)
        self.encoder_r2_ = coded.r2(gains, D)

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
        return self._calibrate_on(X, density)

    @unchanged_on_failure
    def _calibrate_on(self, X: Any, density: float | None) -> Any:
        self._check_parameters()
        self._check_density(density)
        samples = check_samples(self, X, reset=False, allow_unobserved=True)
        X = self._predicted(samples.X)
        if density is not None:
            self.matching_density_ = float(density)
        chosen = sample_indices(X.shape[0], n_calibration_rows(len(self.encoder_)))
        with blas_threads(thread_count(self.n_jobs)):
            Z = np.ascontiguousarray(X[chosen] @ self.encoder_.astype(X.dtype, copy=False).T)
            self._calibrate(Z, X[chosen], self.components_.astype(np.float64))
        self._refine(X)
        return self

    def _check_density(self, density: Any) -> None:
        if density is None:
            return
        number(0, 1).check("density", density)
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

    def _refine(self, X: Rows) -> None:
        """Refine the calibrated encoder on samples X and set the attributes that belong to it."""
        if self.refine_max_iter == 0:
            return
        from lincode.encoder.refinement import refine_encoder

        C, D = self.encoder_, self.components_.astype(np.float64)
        X = X[sample_indices(X.shape[0], self._n_refinement_samples())]
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
            warn_user(
                f"{name}: refinement did not reduce the error of held-out samples, so the encoder"
                " is not changed; use more samples or refine_max_iter=0."
            )
        elif refined.n_lost:
            warn_user(
                f"{name}: the refined encoder no longer uses {refined.n_lost} of {len(D)} units;"
                " use more samples or a smaller refine_max_iter if all of them are needed."
            )

    def _n_refinement_samples(self) -> int:
        return max(REFINEMENT_SAMPLES, REFINEMENT_SAMPLES_PER_UNIT * len(self.components_))

    def _copy_features(self, estimator: Any) -> Any:
        """Return the estimator with ``alpha_`` and the features of this one."""
        for name in ("n_features_in_", "feature_names_in_", "alpha_"):
            if hasattr(self, name):
                setattr(estimator, name, getattr(self, name))
        return estimator

    def _unfitted_copy(self) -> Any:
        """Return a copy without callbacks that has not been fitted, except for its features."""
        parameters = self.get_params(deep=False) | {"callback": None}
        return self._copy_features(type(self)(**parameters))

    def _warn_about_codes(self, X: Rows, *, alpha_is_too_large: bool) -> None:
        """Warn if the codes are zero, or if the encoder's codes hardly reconstruct the samples.

        ``alpha_is_too_large`` says that there was already a warning about alpha.
        """
        name = type(self).__name__
        if not self.usage_.any() and not alpha_is_too_large:
            warn_user(
                f"{name}: all trained codes are zero: alpha, {self.alpha_:.3g}, is too large for"
                " the atoms that training started from. Use a smaller alpha or more iterations."
            )
        if self.transform_algorithm != "encoder" or not self.usage_.any():
            return
        Z = X[sample_indices(X.shape[0], 1000)] @ self._used_encoder().astype(X.dtype).T
        codes = self._thresholding(self._checked_gains()).apply(np.ascontiguousarray(Z))
        encoded, trained = np.count_nonzero(codes, axis=1).mean(), float(self.usage_.sum())
        if encoded < trained / 100:
            # The matching threshold is that of leave-one-out outputs, which are much larger.
            advice = "the encoder overfits. Use a larger encoder_ridge or more samples."
            if self.threshold != "match":
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

    # The encoder and the decoder in use

    @property
    def threshold_(self) -> float:
        """The threshold that ``transform`` applies to the output of the encoder."""
        check_is_fitted(self)
        if self.refine_max_iter > 0:
            return float(self.refined_threshold_)
        if self.threshold == "match":
            return float(self.matching_threshold_)
        return self._weights().threshold if self.threshold == "alpha" else float(self.threshold)

    @property
    def n_nonzero_coefs_(self) -> int:
        """The number of non-zeros per sample of ``threshold_mode="top_k"``, "omp" and "ols"."""
        check_is_fitted(self)
        m = len(self.components_)
        if self.transform_n_nonzero_coefs is None:
            return _n_nonzero(self.matching_density_, m)
        return min(m, int(self.transform_n_nonzero_coefs))

    def _thresholding(self, gains: Array | None = None) -> Thresholding:
        """Return how the output of the encoder is turned into codes."""
        k = self.n_nonzero_coefs_ if self.threshold_mode == "top_k" else 1
        return Thresholding(
            self.threshold_mode, self.threshold_, k, bool(self.positive_code), gains
        )

    def _used_encoder(self) -> Array:
        """Return the encoder that ``transform`` applies."""
        self._check_calibration()
        return np.asarray(self.refined_encoder_ if self.refine_max_iter > 0 else self.encoder_)

    def _checked_gains(self) -> Array | None:
        uses_gains = self.fit_gains and self.refine_max_iter == 0
        return np.asarray(self.gains_) if uses_gains else None

    def _decoder(self) -> Array:
        if self.transform_algorithm != "encoder":
            return np.asarray(self.components_)
        self._check_calibration()
        own = self.fit_decoder or self.refine_max_iter > 0
        return np.asarray(self.decoder_ if own else self.components_)

    def _check_calibration(self) -> None:
        """Check that gains and decoder belong to the present parameters."""
        refined = self.refine_max_iter > 0
        own = self.fit_decoder and not refined
        changed = {
            "threshold_mode": (self.fit_gains or self.fit_decoder or refined)
            and self.calibrated_mode_ != self.threshold_mode,
            "refine_max_iter": hasattr(self, "refined_encoder_") != refined,
            "fit_decoder": own and not hasattr(self, "decoder_"),
            "fit_gains": own and self.calibrated_gains_ != self.fit_gains,
        }
        for name, is_changed in changed.items():
            if is_changed:
                raise InvalidInputError(
                    f"{name} was changed to {getattr(self, name)!r} after fit, and the calibration"
                    " does not belong to it; call calibrate(X), or fit again."
                )

    # Codes

    def transform(self, X: Any) -> Any:
        """Compute the codes of X by the method that ``transform_algorithm`` names.

        Parameters
        ----------
        X : array-like, CSR matrix or lazily read array of shape (n_samples, n_features)
            The samples. A memory-mapped array of more than 1 GiB, and an object with ``shape``,
            ``dtype`` and slices of rows that is not in memory, such as a dataset of h5py, is read
            block by block.
            Missing entries are NaN, or masked in a masked array. "encoder" and "exact" replace them
            by a linear prediction from the observed ones. The other algorithms compute the codes of
            the observed entries, with alpha times the fraction of them.

        Returns
        -------
        array, or CSR array or matrix, of shape (n_samples, n_components)
            The codes. With ``split_sign=True`` there are 2 * n_components columns. With
            ``sparse_output=True`` the codes are compressed (CSR), block by block: a ``csr_array``
            if X is a sparse array, else a ``csr_matrix``. With scikit-learn's setting
            ``sparse_interface="sparray"`` it is always a ``csr_array``.
        """
        check_is_fitted(self)
        split, sparse = self.split_sign, self.sparse_output
        if not is_lazy(X):
            return self._transform(X, split=split, sparse=sparse)
        rows = LazyRows(X)
        parts = prefetch(rows.blocks(READ_BYTES))
        if sparse:
            return stack([self._transform(block, split=split, sparse=True) for _, block in parts])
        shape = rows.shape[0], self._n_features_out
        check_codes_memory(*shape, rows.dtype)
        codes = np.empty(shape, rows.dtype)
        for position, block in parts:
            codes[position] = self._transform(block, split=split)
        return codes

    def _transform(self, X: Any, *, split: bool, sparse: bool = False) -> Any:
        """Return the codes of samples in memory."""
        self._check_parameters()
        algorithm = self.transform_algorithm
        X = self._check_coded_samples(X, algorithm)
        output = CodeOutput(X, len(self.encoder_), split=split, sparse=sparse)
        if algorithm == "encoder":
            C = self._used_encoder().astype(X.dtype, copy=False)
            thresholding = self._thresholding(self._checked_gains())
            n_empty = encode_rows(X, C, thresholding, output, self.n_jobs, self._complete_outputs)
            if n_empty:
                warn_empty(self, n_empty)
        else:
            alpha = self.alpha_ if self.transform_alpha is None else self.transform_alpha
            self._solve(X, algorithm, float(alpha), output)
        return output.result()

    def _check_coded_samples(self, X: Any, algorithm: str) -> Rows:
        X = check_rows(self, X, reset=False, check_finite=False)
        if algorithm == "encoder":  # ``encode_rows`` finds entries that are not finite
            return X
        largest, lengths = scan_rows(X)
        if not np.isfinite(lengths.mean):
            check_finite(self, X, allow_nan=True)
            if not issparse(X):
                largest = float(np.fmax.reduce(np.abs(X), axis=None, initial=0))  # ignores NaN
                self._warn_about_empty(X)
        check_scale(X, largest)
        return self._predicted(X) if algorithm == "exact" else X

    def _warn_about_empty(self, X: Array) -> None:
        """Warn about samples without any observed entry."""
        n_empty = int(np.isnan(X).all(axis=1).sum())
        if n_empty:
            warn_empty(self, n_empty)

    def _complete_outputs(self, X: Rows, Z: Array) -> int:
        """Compute the outputs Z of samples with missing entries again, from predicted entries.

        Returns how many samples have no observed entry.
        """
        check_finite(self, X, allow_nan=True)
        if issparse(X):
            return 0
        incomplete = np.flatnonzero(np.isnan(X).any(axis=1))
        if incomplete.size:
            C = self._used_encoder().astype(X.dtype, copy=False)
            Z[incomplete] = self._predicted(X[incomplete]) @ C.T
        return int(np.isnan(X[incomplete]).all(axis=1).sum())

    def _predicted(self, X: Rows) -> Rows:
        """Return X with a linear prediction of missing entries.

        The atoms, weighted by how often they are used, determine the second moments.
        """
        if issparse(X) or not np.isnan(X).any():
            return X
        X, missing = np.array(X, order="C"), np.isnan(X)
        atoms = np.sqrt(self.usage_)[:, None] * self.components_.astype(np.float64)
        predict_rows(X, missing, SecondMoments.of_factor(atoms))
        return X

    def _solve(self, X: Rows, algorithm: str, lam: float, output: CodeOutput) -> None:
        """Write the codes of the algorithms other than "encoder"."""
        n_threads = thread_count(self.n_jobs)
        with blas_threads(matrix_threads(len(self.components_), n_threads)):
            coder = self._coder(algorithm, lam, X.dtype)
            n_unfinished = write_codes(X, coder, output, n_threads)
        if n_unfinished:
            message = unfinished_message(
                n_unfinished, X, f"transform_tol, which is {self.transform_tol:g}"
            )
            warn_user(f"{type(self).__name__}: {message}", ConvergenceWarning)

    def _coder(self, algorithm: str, lam: float, dtype: np.dtype[np.floating]) -> Coder:
        """Return what computes codes by an algorithm other than "encoder"."""
        D, C = (A.astype(np.float64) for A in (self.components_, self.encoder_))
        (m, p), tol = D.shape, self.transform_tol
        if algorithm == "exact":
            weights = replace(self._weights(), lam=lam)
            problem = weights.code_problem(D, C, dtype)
            return EnergyCoder(
                problem, C.astype(dtype), weights.thresholding, tol, MAX_TRANSFORM_STEPS
            )

        def dictionary_coder(atoms: Array, fraction: float) -> Coder:
            """Return the coder of atoms, with a penalty times the fraction of observed entries."""
            return make_coder(
                np.ascontiguousarray(atoms, dtype=dtype),
                algorithm=algorithm,
                n_nonzero_coefs=self.n_nonzero_coefs_,
                alpha=fraction * lam * p / m,
                max_iter=MAX_TRANSFORM_STEPS,
                positive=bool(self.positive_code),
                tol=tol if algorithm == "lasso" else 0.0,
                debias=bool(self.transform_debias),
            )

        D = self.components_.astype(dtype)
        complete = dictionary_coder(D, 1.0)
        return IncompleteCoder(D, complete, dictionary_coder, unit=algorithm in GREEDY)

    def score(self, X: Any, y: object = None) -> float:
        """Return the negative energy per sample of X; a higher score is better.

        The energy is that of the codes that minimise it for the learned D and C, whatever
        ``transform_algorithm`` and ``threshold`` are. It compares networks with the same alpha,
        ``encoder_weight`` and ``n_components`` only, because these are part of the energy. To
        choose them, score the task that the codes are used for.

        Parameters
        ----------
        X : array-like, CSR matrix or lazily read array of shape (n_samples, n_features)
            The samples. They are read as by ``transform``. Missing entries (NaN) are predicted.
        y : ignored

        Returns
        -------
        float
        """
        check_is_fitted(self)
        self._check_parameters()
        parts = prefetch(LazyRows(X).blocks(READ_BYTES)) if is_lazy(X) else [(None, X)]
        total, n = 0.0, 0
        for _, part in parts:
            block = self._check_coded_samples(part, "exact")
            output = CodeOutput(block, len(self.encoder_))
            self._solve(block, "exact", self.alpha_, output)
            with blas_threads(thread_count(self.n_jobs)):
                total += energy_of_rows(
                    block,
                    output.result(),
                    self.components_,
                    self.encoder_,
                    self.alpha_,
                    self.encoder_weight,
                )
            n += block.shape[0]
        squares = float(np.sum(np.square(self.encoder_, dtype=np.float64)))
        ridge = self.encoder_weight / len(self.encoder_) * (self.noise_variance_ * squares)
        score = float(-total / n - ridge)
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


def _n_nonzero(density: float, m: int) -> int:
    """Return the number of non-zeros of m units that has about the given density."""
    return min(m, max(1, round(density * m)))
