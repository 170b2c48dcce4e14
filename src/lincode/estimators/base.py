"""What the estimators have in common: parameters, calibration, codes and reconstruction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lincode.core.arrays import (
    Array,
    RowLengths,
    Rows,
    blocks,
    is_lazy,
    sample_indices,
    scan_rows,
    stack,
)
from lincode.core.dictionary import (
    Start,
    nonnegative_atoms,
    start_from_data,
    start_from_dictionary,
)
from lincode.core.energy import code_products, lam_max
from lincode.core.lasso import Coder, EnergyCoder
from lincode.core.missing import IncompleteCoder, SecondMoments, fill_rows
from lincode.core.ridge import choose_ridge
from lincode.core.threshold import Thresholding, encode, n_calibration_rows
from lincode.encoder.calibration import (
    Network,
    calibrate,
    explained_fraction,
    leave_one_out_outputs,
    scale_network,
)
from lincode.encoder.refinement import (
    Directions,
    Schedule,
    SparseGradients,
    max_rows,
    refine,
    shuffled_batches,
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
    fraction,
    number,
    unchanged_on_failure,
    warn_empty,
    warn_user,
)
from lincode.exceptions import InvalidInputError
from lincode.training.alternation import EnergyWeights, Trained, atom_signs
from lincode.training.lazy_rows import LazyRows
from lincode.training.loop import CallbackSupportMixin, Iteration, Progress
from lincode.training.rows import RowSource, factor_rows
from lincode.training.threads import blas_threads, matrix_threads, prefetch, thread_count

Take = Callable[[NDArray[np.intp]], Array]
ENCODER = ("encoder", "projection")
"""The algorithms of ``transform`` whose support the encoder chooses."""
ENERGY = ("exact", "paper")
"""The algorithms of ``transform`` whose codes belong to the energy that training minimises."""
ALGORITHMS = (*ENCODER, "lasso", "omp", *ENERGY)
DEFAULT_DENSITY = 0.1
"""The default of density, chosen by ``benchmarks/density.py`` on six kinds of data."""
ALPHA_DENSITY, ALPHA_EXPONENT = 0.1, 2 / 3
"""alpha="auto" is √m/p times the mean length of the samples for this density, and proportional to
this power of 1/density. The trained codes are then two to four times as dense as those of the
encoder, which is the best start of the refinement on digits, patches, text and activations."""
SAMPLES_REASON = "the network has so many units that the refinement started from samples"
MAX_ENCODER_WEIGHT = 1e200
"""A larger weight of the encoder term would let the energy overflow."""
CODE_TOL, MAX_CODE_STEPS = 1e-6, 20_000
"""The relative optimality residual of codes that are computed by optimisation, and the largest
number of accelerated steps."""
READ_BYTES = 32 * 2**20
"""The size of the blocks in which samples that are not in memory are read."""
USAGE_ROWS = 2048
"""The number of samples of which codes are computed at a time to count the used units."""
MIN_HELD_OUT, MAX_HELD_OUT, MIN_SPLIT = 100, 2000, 50
"""With refinement, a tenth of the samples is held out; at least 100 (but no more than a fifth of
all), and at most 2000. With fewer than 50 samples there is no refinement."""
MAX_START_UNITS, START_CODES = 1024, 4_000_000
"""With refinement and more units, the energy is not minimised before it: random samples are as good
a start, and the U step takes longer than the refinement. The number of codes (samples times units)
from which the energy is minimised, or from which such a start is scaled."""
MIN_ENCODER_R2 = 0.05
"""``fit`` warns if the encoder's codes reconstruct a smaller fraction of the data."""


def n_start_samples(m: int, p: int) -> int:
    """Return from how many samples the refinement of a network with m units starts."""
    return max(START_CODES // m, 2 * p)


def held_out_rows(N: int, rng: np.random.RandomState) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of rows that are held out, and of all others, in random order."""
    n = int(np.clip(N // 10, min(N // 5, MIN_HELD_OUT), MAX_HELD_OUT))
    order = rng.permutation(N)
    return order[:n], order[n:]


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
        D = self.components_.astype(U.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            X = np.asarray(U @ D)
            is_finite = np.isfinite(X.sum()) or np.isfinite(X).all()
        if not is_finite:
            raise InvalidInputError(
                f"the reconstruction must be finite, but its entries are too large for {X.dtype};"
                " divide the codes or the dictionary by a number."
            )
        return X

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

    Subclasses call ``_set_trained`` with the result of training, and then ``_refine``.
    """

    _constraints: ClassVar[dict[str, Constraint]] = {
        "n_components": either(choice(None), number(1, integer=True)),
        "density": either(fraction(), number(1, integer=True)),
        "alpha": either(choice("auto"), number(0, LARGEST)),
        "encoder_weight": number(0, MAX_ENCODER_WEIGHT),
        "encoder_ridge": either(choice("auto"), number(0, LARGEST)),
        "transform_algorithm": choice(*ALGORITHMS),
        "transform_alpha": either(choice(None), number(0)),
        "tol": number(0),
        "n_jobs": N_JOBS,
        "verbose": VERBOSE,
        "callback": CALLBACK,
    } | dict.fromkeys(
        ("refine", "split_sign", "sparse_output", "positive_code", "positive_dict"), FLAG
    )

    _energy_parameters: tuple[str, ...] = ("alpha", "encoder_weight", "encoder_ridge")
    """If one of these is set, the energy is minimised for any number of units."""

    threshold_: float | None
    density_: float | None

    # Parameters

    def _check_parameters(self) -> None:
        check_parameters(vars(self), self._constraints)  # get_params would be slow
        algorithm = self.transform_algorithm
        if algorithm in ENERGY and self.refine:
            raise InvalidInputError(
                f"transform_algorithm={algorithm!r} belongs to the energy that training minimises,"
                " which refinement does not; set refine=False and fit again."
            )
        if self.density != DEFAULT_DENSITY and self.alpha != "auto" and algorithm in ENERGY:
            raise InvalidInputError(
                f"density={self.density} has no effect with transform_algorithm={algorithm!r} and a"
                " number as alpha, which determines the density; leave density out."
            )
        if self.transform_alpha is not None and algorithm not in ("lasso", "exact"):
            raise InvalidInputError(
                f"transform_alpha has no effect with transform_algorithm={algorithm!r}; leave it"
                " out, or use 'lasso'."
            )
        if self.positive_code and algorithm == "omp":
            raise InvalidInputError(
                "transform_algorithm='omp' has codes of both signs, but positive_code=True; use"
                " 'lasso' or 'projection'."
            )
        if self.split_sign and self.positive_code:
            raise InvalidInputError(
                "split_sign=True and positive_code=True exclude each other, because positive codes"
                " have no negative part; set one of them to False."
            )

    def alpha_max(self, X: Any) -> float:
        """Return the smallest alpha for which all trained codes are zero.

        It is m/p times the length of the longest sample. It holds for training that starts from
        a zero encoder, as ``fit`` does without ``warm_start``. No ``fit`` is needed.

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
        lengths, p = self._row_lengths(X)
        return lam_max(lengths.longest, self._n_units(p), p)

    def _row_lengths(self, X: Any) -> tuple[RowLengths, int]:
        """Return the row lengths of the samples, and the number of features."""
        samples = check_samples(None, X, reset=False)
        return samples.lengths, samples.X.shape[1]

    def _n_units(self, n_features: int) -> int:
        return int(n_features if self.n_components is None else self.n_components)

    def _set_alpha(self, lengths: RowLengths, m: int, p: int) -> bool:
        """Set ``alpha_``; return whether a warning says that all trained codes will be zero."""
        if not self._is_top_k and self.density * m < 1 and self.transform_algorithm not in ENERGY:
            warn_user(
                f"{type(self).__name__}: density={self.density} of {m} components is less than one"
                " non-zero per sample, so many codes are all zero. Use a larger density, or"
                " density=1, which means one non-zero."
            )
        if self.alpha == "auto":
            # With fewer than four units √m would be close to alpha_max or above it.
            scale = float(min(np.sqrt(m), m / 2) / p * lengths.mean)
            self.alpha_ = scale * (ALPHA_DENSITY / self._fraction(m)) ** ALPHA_EXPONENT
        else:
            self.alpha_ = float(self.alpha)
        limit = lam_max(lengths.longest, m, p)
        if self.alpha_ < limit * (1 - 1e-9):
            return False
        if self.alpha == "auto" and limit > 0:
            self.alpha_ = limit / 2
            return False
        reason = f"alpha is {self.alpha_:.3g}, but it must be below alpha_max, {limit:.3g}"
        reason = reason if limit > 0 else "X is all zero"
        warn_user(f"{type(self).__name__}: all codes will be zero: {reason}.")
        return True

    def _fraction(self, m: int) -> float:
        """Return the density as a fraction of m units."""
        return self._n_nonzero(m) / m if self._is_top_k else float(self.density)

    def _n_nonzero(self, m: int) -> int:
        """Return the number of non-zeros per sample that the density means for m units."""
        if not self._is_top_k:
            return min(m, max(1, round(self.density * m)))
        if self.density > m:
            raise InvalidInputError(
                f"density={self.density} non-zeros per sample need at least as many components, but"
                f" there are {m}; use a smaller density, or a fraction such as 0.1."
            )
        return int(self.density)

    @property
    def _is_top_k(self) -> bool:
        return not isinstance(self.density, float | np.floating)

    def _warn_about_few(self, n_samples: int, m: int) -> None:
        """Warn if there are fewer samples than components."""
        if n_samples < m:
            warn_user(
                f"{type(self).__name__}: {n_samples} samples are too few for {m} components, which"
                " overfit them; use fewer components, or more samples."
            )

    def _weights(self) -> EnergyWeights:
        return EnergyWeights(
            self.alpha_,
            float(self.encoder_weight),
            bool(self.positive_code),
            None if self.encoder_ridge == "auto" else float(self.encoder_ridge),
            bool(self.positive_dict),
        )

    def _new_start(self, take: Take, shape: tuple[int, int], rng: np.random.RandomState) -> Start:
        """Return the initial D and C. ``take(indices)`` returns some of the samples."""
        m, p = self._n_units(shape[1]), shape[1]
        if self.dict_init is not None:
            return start_from_dictionary(
                check_matrix("dict_init", self.dict_init, (m, p), np.float64)
            )
        return start_from_data(take, shape, m, rng)

    # The fitted network

    def _starts_from_samples(self, m: int) -> bool:
        """Return whether the refinement starts from samples, without minimising the energy."""
        defaults, names = signature(type(self)).parameters, self._energy_parameters
        chosen = any(getattr(self, name) != defaults[name].default for name in names)
        return m > MAX_START_UNITS and not chosen

    def _set_start(self, X: Rows, start: Start, N: int) -> None:
        """Set the network before the refinement to given atoms. X is a sample of N samples."""
        D, m, n = start.D, len(start.D), X.shape[0]
        if self.positive_dict:
            D = nonnegative_atoms(D, signed=not self.positive_code)
        network = Network(start.C if start.C.any() else D, D, self._new_rule(m))
        network, S = scale_network(network, X, self._fraction(m))
        factor, units = factor_rows(X, thread_count(self.n_jobs)), slice(MAX_START_UNITS)
        sums = code_products(S[:, units], X, np.count_nonzero(S) / S.size)
        self.encoder_ridge_ = choose_ridge(*sums, n, factor, N)
        self.noise_variance_ = factor.with_ridge(self.encoder_ridge_).ridge / n
        self.energy_, self.energy_path_ = np.nan, np.empty(0)
        self.optimality_: dict[str, float] = {}
        self.n_iter_, self.n_replaced_atoms_, self.stop_reason_ = 0, 0, SAMPLES_REASON
        self.density_, self._is_refined = self.density, False
        self.encoder_r2_ = explained_fraction(X, S, D)
        self._set_network(network, np.mean(S != 0, axis=0), X.dtype)

    def _set_trained(self, trained: Trained, rows: RowSource, recent: Rows = None) -> None:
        """Set the result of training, and calibrate the encoder on a sample of the rows.

        ``recent`` are more rows, if the row source has only the last batch of a stream.
        """
        stats, D, C = trained.stats, trained.D, trained.C
        self.encoder_ridge_ = trained.ridge
        self.noise_variance_ = trained.factor.ridge / stats.n
        self.optimality_ = trained.optimality
        self.n_replaced_atoms_ = trained.n_replaced
        self._is_refined = False
        indices = sample_indices(rows.shape[0], n_calibration_rows(len(C)))
        X = rows.take(indices)
        if self.transform_algorithm in ENERGY:
            self.density_ = None
            network = Network(C, D, self._weights().thresholding)
            self._set_network(network, stats.used / stats.n, rows.dtype)
            S = network.rule.apply(np.ascontiguousarray(X @ C.astype(X.dtype).T))
            self.encoder_r2_ = explained_fraction(X, S, D)
            return
        if recent is None:
            U = rows.take_codes(indices)
            Z = leave_one_out_outputs(X, U, C, stats.UtX, stats.n, trained.factor)
        else:
            X, Z = recent, np.ascontiguousarray(recent @ C.T.astype(recent.dtype))
        self._calibrate(Z, X, C, D)

    def _calibrate(self, Z: Array, X: Rows, C: Array, D: Array) -> None:
        """Set the network with the encoder C for outputs Z of the encoder and samples X."""
        m, network = len(C), Network(C, D, self._new_rule(len(C)))
        calibrated = calibrate(
            network, Z, X, self._fraction(m), positive_dict=bool(self.positive_dict)
        )
        self.density_ = self.density
        self._set_network(calibrated.network, calibrated.usage, X.dtype)
        self.encoder_r2_ = calibrated.r2

    def _new_rule(self, m: int) -> Thresholding:
        """Return how outputs are turned into codes, without the threshold."""
        mode, k = ("top_k", self._n_nonzero(m)) if self._is_top_k else ("hard", 1)
        return Thresholding(mode, k=k, positive=bool(self.positive_code))

    def _is_calibrated(self) -> bool:
        """Return whether the network belongs to the present density."""
        same = self.density_ is not None and self.density_ == self.density
        return same and self._is_top_k == (self.threshold_ is None)

    def _set_network(self, network: Network, usage: Array, dtype: Any) -> None:
        """Set the weights of the network. The largest entry of each atom becomes positive."""
        sign = np.ones((len(network.D), 1)) if self.positive_code else atom_signs(network.D)
        self.components_ = (sign * network.D).astype(dtype)
        self.encoder_ = (sign * network.C).astype(dtype)
        self.threshold_ = None if network.rule.mode == "top_k" else float(network.rule.threshold)
        self.usage_ = usage

    def _network(self) -> Network:
        """Return the fitted network in float64."""
        C, D = (A.astype(np.float64) for A in (self.encoder_, self.components_))
        return Network(C, D, self._rule())

    def _refine(self, X: Rows, held_out: Rows, progress: Progress) -> None:
        """Refine the calibrated network on samples X. Its threshold is that of held-out samples."""
        with blas_threads(1):
            gradients = self._new_gradients(X)
            batches = shuffled_batches(X, gradients.directions)
            schedule = Schedule.of(X.shape[0], len(self.encoder_))
            self._set_refined(gradients, batches, X, held_out, schedule, progress)

    def _new_gradients(self, X: Rows, XtX: Array | None = None) -> SparseGradients:
        """Return the start of the refinement in the directions of X, and of XtX if it is given."""
        density, network = self._fraction(len(self.encoder_)), self._network()
        return SparseGradients(
            network,
            Directions.of(X, network, XtX),
            density,
            self.noise_variance_,
            positive_dict=bool(self.positive_dict),
        )

    def _set_refined(
        self,
        gradients: SparseGradients,
        batches: Iterator[Array],
        X: Rows,
        held_out: Rows,
        schedule: Schedule,
        progress: Progress,
    ) -> None:
        """Refine the network, and measure on samples X which units it uses."""
        sample = X[sample_indices(X.shape[0], n_calibration_rows(len(self.encoder_)))]

        def use(model: BaseSCNN, network: Network, r2: float) -> BaseSCNN:
            C, used = network.C.astype(X.dtype), np.zeros(len(network.C))
            for rows in blocks(sample.shape[0], USAGE_ROWS):
                used += np.count_nonzero(encode(sample[rows], C, network.rule), axis=0)
            model._set_network(network, used / sample.shape[0], X.dtype)
            model.encoder_r2_, model._is_refined = r2, True
            return model

        def report(n_steps: int, n_rows: int, best: Network, r2: float) -> bool:
            return progress.show(
                Iteration(
                    n_steps,
                    schedule.max_steps,
                    energy_per_sample=np.nan,
                    change=np.nan,
                    seconds=time.perf_counter() - progress.started,
                    n_samples=n_rows,
                    snapshot=lambda: use(self._fitted_copy(), best, r2),
                    stage="refinement",
                    encoder_r2=r2,
                )
            )

        n_threads = thread_count(self.n_jobs)
        refined = refine(
            self._network(),
            gradients,
            batches,
            held_out,
            schedule,
            n_threads=n_threads,
            report=report,
        )
        use(self, refined.network, refined.r2)

    def calibrate(self, X: Any, y: object = None, *, density: float | None = None) -> Any:
        """Fit the threshold and the dictionary to X, and refine the network if ``refine=True``.

        Use it to change the density of a fitted network, or to adapt it to other data. Training,
        which takes longer, is not repeated.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples. Without refinement, use samples that the network was not trained on if
            there are any, because its outputs for the training samples are larger. Fewer than 50
            samples are not enough for a refinement.
        y : ignored
        density : float or int, default=None
            The new value of the parameter ``density``. None means that it remains.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        return self._calibrate_on(X, density)

    @unchanged_on_failure
    def _calibrate_on(self, X: Any, density: float | None) -> Any:
        if density is not None:
            self.density = density
        self._check_parameters()
        if self.transform_algorithm in ENERGY:
            raise InvalidInputError(
                f"codes of transform_algorithm={self.transform_algorithm!r} are not calibrated; use"
                " set_params(transform_algorithm='encoder') first."
            )
        samples = check_samples(self, X, reset=False, allow_unobserved=True)
        X = self._predicted(samples.X)
        others = held = np.arange(X.shape[0])
        refines = self.refine and X.shape[0] >= MIN_SPLIT
        if refines:
            held, others = held_out_rows(X.shape[0], np.random.RandomState(0))
            others = others[: max_rows(X.shape[1])]
        C, D = (A.astype(np.float64) for A in (self.encoder_, self.components_))
        chosen = np.sort(others)[sample_indices(len(others), n_calibration_rows(len(C)))]
        with blas_threads(thread_count(self.n_jobs)):
            Z = np.ascontiguousarray(X[chosen] @ C.astype(X.dtype).T)
            self._calibrate(Z, X[chosen], C, D)
            if refines:
                self._refine(X[np.sort(others)], X[np.sort(held)], Progress(self))
        return self

    def _copy_features(self, estimator: Any) -> Any:
        """Return the estimator with ``alpha_`` and the features of this one."""
        for name in ("n_features_in_", "feature_names_in_", "alpha_"):
            if hasattr(self, name):
                setattr(estimator, name, getattr(self, name))
        return estimator

    def _fitted_copy(self) -> Any:
        """Return a copy without callbacks, which shares all arrays."""
        result, private = self._unfitted_copy(), ("_training", "_gradients", "_is_refined")
        fitted = [name for name in vars(self) if name.endswith("_") or name in private]
        vars(result).update({name: vars(self)[name] for name in fitted})
        return result

    def _unfitted_copy(self) -> Any:
        """Return a copy without callbacks that has not been fitted, except for its features."""
        parameters = self.get_params(deep=False) | {"callback": None}
        return self._copy_features(type(self)(**parameters))

    def _warn_about_codes(self, *, alpha_is_too_large: bool) -> None:
        """Warn if the codes are zero, or if the encoder's codes hardly reconstruct the samples.

        ``alpha_is_too_large`` says that there was already a warning about alpha.
        """
        name = type(self).__name__
        if not self.usage_.any():
            if not alpha_is_too_large:
                warn_user(
                    f"{name}: all codes are zero. Use a smaller alpha (now {self.alpha_:.3g}), a"
                    " larger density or more samples."
                )
        elif self.transform_algorithm in ENCODER and self.encoder_r2_ < MIN_ENCODER_R2:
            warn_user(
                f"{name}: the encoder's codes reconstruct only {max(self.encoder_r2_, 0):.1%} of"
                " the data (see encoder_r2_), so they are poor features. Use"
                " transform_algorithm='lasso', a larger density or more samples."
            )

    def _rule(self) -> Thresholding:
        """Return how the outputs of the encoder are turned into codes."""
        positive = bool(self.positive_code)
        if self.transform_algorithm == "paper":
            return self._weights().thresholding
        if not self._is_calibrated():
            was = "with another algorithm" if self.density_ is None else f"for {self.density_}"
            raise InvalidInputError(
                f"density is {self.density}, but the network was fitted {was}; call calibrate(X),"
                " or fit again."
            )
        if self.threshold_ is None:
            return Thresholding("top_k", k=int(self.density), positive=positive)
        return Thresholding("hard", self.threshold_, positive=positive)

    # Codes

    def transform(self, X: Any) -> Any:
        """Compute the codes of X by the method that ``transform_algorithm`` names.

        Parameters
        ----------
        X : array-like, CSR matrix or lazily read array of shape (n_samples, n_features)
            The samples. A memory-mapped array of more than 1 GiB, and an object with ``shape``,
            ``dtype`` and slices of rows that is not in memory, such as a dataset of h5py, is read
            block by block.
            Missing entries are NaN, or masked in a masked array. "lasso" and "omp" compute the
            codes of the observed entries, with alpha times the fraction of them. The other
            algorithms replace missing entries by a linear prediction from the observed ones.

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
        parts = self._finite_blocks(rows)
        if sparse:
            return stack([self._transform(block, split=split, sparse=True) for _, block in parts])
        shape = rows.shape[0], self._n_features_out
        check_codes_memory(*shape, rows.dtype)
        codes = np.empty(shape, rows.dtype)
        for position, block in parts:
            codes[position] = self._transform(block, split=split)
        return codes

    def _finite_blocks(self, rows: LazyRows) -> Iterator[tuple[slice, Rows]]:
        """Yield blocks of rows that are not in memory, and their position."""
        for position, block in prefetch(rows.blocks(READ_BYTES)):
            if not np.isfinite(block.sum()):
                check_finite(self, block, allow_nan=True, first_row=position.start)
            yield position, block

    def _transform(self, X: Any, *, split: bool, sparse: bool = False) -> Any:
        """Return the codes of samples in memory."""
        self._check_parameters()
        algorithm = self.transform_algorithm
        if algorithm == "paper" and self.density_ is not None:
            raise InvalidInputError(
                "transform_algorithm='paper' needs the encoder that minimises the energy, but this"
                " one was calibrated; fit again with this algorithm."
            )
        X = self._check_coded_samples(X, algorithm)
        output = CodeOutput(X, len(self.encoder_), split=split, sparse=sparse)
        if algorithm in (*ENCODER, "paper"):
            C = self.encoder_.astype(X.dtype, copy=False)
            D = self.components_.astype(X.dtype, copy=False) if algorithm == "projection" else None
            complete = self._complete_outputs
            n_empty = encode_rows(X, C, self._rule(), output, self.n_jobs, complete, D)
            if n_empty:
                warn_empty(self, n_empty)
        else:
            alpha = self.alpha_ if self.transform_alpha is None else self.transform_alpha
            self._solve(X, algorithm, float(alpha), output)
        return output.result()

    def _check_coded_samples(self, X: Any, algorithm: str) -> Rows:
        X = check_rows(self, X, reset=False, check_finite=False)
        if algorithm in ("encoder", "paper"):  # ``encode_rows`` finds entries that are not finite
            return X
        largest, lengths = scan_rows(X)
        if not np.isfinite(lengths.mean):
            check_finite(self, X, allow_nan=True)
            if not issparse(X):
                largest = float(np.fmax.reduce(np.abs(X), axis=None, initial=0))  # ignores NaN
                self._warn_about_empty(X)
        check_scale(X.dtype, largest)
        return self._predicted(X) if algorithm in ("exact", "projection") else X

    def _warn_about_empty(self, X: Array) -> None:
        """Warn about samples without any observed entry."""
        n_empty = int(np.isnan(X).all(axis=1).sum())
        if n_empty:
            warn_empty(self, n_empty)

    def _complete_outputs(self, X: Rows, rows: slice, Z: Array) -> int:
        """Compute the outputs Z of rows with missing entries again, from predicted entries.

        Returns how many samples have no observed entry.
        """
        X = X[rows]
        check_finite(self, X, allow_nan=True, first_row=rows.start)
        if issparse(X):
            return 0
        incomplete = np.flatnonzero(np.isnan(X).any(axis=1))
        if incomplete.size:
            C = self.encoder_.astype(X.dtype, copy=False)
            Z[incomplete] = self._predicted(X[incomplete]) @ C.T
        return int(np.isnan(X[incomplete]).all(axis=1).sum())

    def _predicted(self, X: Rows) -> Rows:
        """Return X with a linear prediction of missing entries.

        The atoms, weighted by how often they are used, determine the second moments.
        """
        if issparse(X) or not np.isnan(X).any():
            return X
        atoms = np.sqrt(self.usage_)[:, None] * self.components_.astype(np.float64)
        return fill_rows(X, SecondMoments.of_factor(atoms))[0]

    def _solve(self, X: Rows, algorithm: str, lam: float, output: CodeOutput) -> None:
        """Write the codes of "lasso", "omp" and "exact"."""
        n_threads = thread_count(self.n_jobs)
        with blas_threads(matrix_threads(len(self.components_), n_threads)):
            coder = self._coder(algorithm, lam, X.dtype)
            n_unfinished = write_codes(X, coder, output, n_threads)
        if n_unfinished:
            message = unfinished_message(n_unfinished, X, "alpha")
            warn_user(f"{type(self).__name__}: {message}", ConvergenceWarning)

    def _coder(self, algorithm: str, lam: float, dtype: np.dtype[np.floating]) -> Coder:
        """Return what computes the codes of "lasso", "omp" or "exact"."""
        D, C = (A.astype(np.float64) for A in (self.components_, self.encoder_))
        m, p = D.shape
        if algorithm == "exact":
            weights = replace(self._weights(), lam=lam)
            problem = weights.code_problem(D, C, dtype)
            return EnergyCoder(
                problem, C.astype(dtype), weights.thresholding, CODE_TOL, MAX_CODE_STEPS
            )

        def dictionary_coder(atoms: Array, fraction: float) -> Coder:
            """Return the coder of atoms, with a penalty times the fraction of observed entries."""
            return make_coder(
                np.ascontiguousarray(atoms, dtype=dtype),
                algorithm=algorithm,
                n_nonzero_coefs=self._n_nonzero(m),
                alpha=fraction * lam * p / m,
                max_iter=MAX_CODE_STEPS,
                positive=bool(self.positive_code),
                tol=CODE_TOL if algorithm == "lasso" else 0.0,
                debias=False,
            )

        D = self.components_.astype(dtype)
        complete = dictionary_coder(D, 1.0)
        return IncompleteCoder(D, complete, dictionary_coder, unit=algorithm == "omp")

    def score(self, X: Any, y: object = None) -> float:
        """Return the fraction of X that the codes of ``transform`` reconstruct.

        It is R² = 1 − ‖X − R‖²/‖X‖² for the reconstruction R, so that a higher score is better and
        1 is the best. Missing entries of X do not count.

        Parameters
        ----------
        X : array-like, CSR matrix or lazily read array of shape (n_samples, n_features)
            The samples. They are read as by ``transform``.
        y : ignored

        Returns
        -------
        float
        """
        check_is_fitted(self)
        squares, fractions = np.array(self._score_parts(X)).T
        return float(squares @ fractions / squares.sum()) if squares.any() else 0.0

    def _score_parts(self, X: Any) -> list[tuple[float, float]]:
        """Return the results of ``_score_part`` for all samples."""
        parts = self._finite_blocks(LazyRows(X)) if is_lazy(X) else [(None, X)]
        return [self._score_part(part) for _, part in parts]

    def _score_part(self, X: Any) -> tuple[float, float]:
        """Return ‖X‖² of samples in memory, and the fraction of it that is reconstructed."""
        U = self._transform(X, split=False)
        X = check_rows(self, X, reset=False, check_finite=False)
        if issparse(X) or not np.isnan(X).any():
            squares = float(np.sum(np.square(X.data if issparse(X) else X, dtype=np.float64)))
            return squares, explained_fraction(X, U, self.components_)
        observed = ~np.isnan(X)
        errors = (X - U @ self.components_.astype(U.dtype))[observed]
        squares = float(np.sum(np.square(X[observed], dtype=np.float64)))
        error = float(np.sum(np.square(errors, dtype=np.float64)))
        return squares, 1 - error / squares if squares > 0 else 0.0

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
