"""SCNN as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from lincode.core.arrays import dense, sample_indices
from lincode.core.dictionary import Start
from lincode.estimators.base import DEFAULT_ALPHA, BaseSCNN, resolve_alpha
from lincode.estimators.validation import (
    FLAG,
    Constraint,
    check_samples,
    check_seed,
    choice,
    either,
    number,
    unchanged_on_failure,
    warn_user,
)
from lincode.exceptions import InvalidInputError
from lincode.training.alternation import SCNNTraining, subset_sizes, train_in_stages
from lincode.training.loop import Outcome, Progress, Reason, with_callbacks
from lincode.training.rows import MemoryRows, RowSource
from lincode.training.threads import blas_threads, matrix_threads, thread_count

MAX_ENCODER_RESIDUAL = 1e-3
"""A larger residual of the encoder step means that it ignores some features."""


class SCNN(BaseSCNN):
    """Sparse coding with a dictionary and a linear encoder that are learned together.

    For samples X of shape (N, p) and m units, SCNN minimises

        E = 1/p ‖X − U D‖² + η/m (‖U − X Cᵀ‖² + ρ‖C‖²) + 2λ/m ‖U‖₁    s.t. ‖D[j]‖ ≤ 1

    over the codes U, the dictionary D and the encoder C. The code of a new sample x is then the
    thresholded x Cᵀ, which costs one matrix product. After training, the threshold and one gain
    per unit are calibrated so that these codes reconstruct new samples well.

    Parameters
    ----------
    n_components : int, default=None
        The number m of units: atoms of the dictionary and features of the code. None means the
        number of features.
    alpha : float or str, default="mean"
        The weight λ ≥ 0 of the ℓ1 penalty. Larger values give sparser codes. A string is a factor
        times a scale of the training data and is resolved in ``fit``:

        - ``"0.05*max"`` is 0.05 times ``alpha_max(X)``, the smallest alpha for which all codes
          are zero;
        - ``"0.8*mean"`` is 0.8 times √m/p times the mean length of the samples, and ``"mean"`` is
          the same with the factor 1. With √m the fraction of non-zeros depends little on the
          number of units. (With fewer than four units, m/2 replaces √m.)

        A number has the scale of the data, and its useful range is proportional to m/p. The value
        that was used is stored in ``alpha_``.
    encoder_weight : float, default=1.0
        The weight η ≥ 0 of the encoder term. The paper uses 1. With a larger weight the encoder's
        codes are closer to the exact ones, and both are denser. 0 means plain dictionary
        learning; the encoder is then fitted once, after training.
    encoder_ridge : float or "auto", default="auto"
        The ridge ρ of the encoder, relative to the mean eigenvalue of XᵀX. The encoder term of the
        energy is η/m (‖U − X Cᵀ‖² + ρ‖C‖²). The paper uses 0. A ridge keeps the encoder from
        overfitting if there are few samples, and it makes the codes of noisy or new samples
        more useful. "auto" chooses between 0.01 and 3 by generalised cross-validation before
        training. The chosen value is stored in ``encoder_ridge_``.
    threshold : {"match", "alpha"} or float, default="match"
        The threshold that ``transform_algorithm="encoder"`` applies.

        - "match": the threshold at which the encoder's codes of new samples are about as sparse as
          the trained codes (``matching_threshold_``);
        - "alpha": the threshold of the paper, alpha / encoder_weight (alpha if the weight is 0).
          The encoder is fitted to codes that are already shrunk by alpha, so these codes are
          much sparser than the trained ones;
        - a number: this threshold.
    threshold_mode : {"hard", "soft", "top_k"}, default="hard"
        How the encoder's output z = X Cᵀ is made sparse.

        - "hard": z is kept where ``|z|`` exceeds the threshold;
        - "soft": z is also reduced by the threshold, as in the paper;
        - "top_k": the largest ``|z|`` of each sample are kept, as many as
          ``transform_n_nonzero_coefs``.
    transform_n_nonzero_coefs : int, default=None
        The number of non-zeros per sample for ``threshold_mode="top_k"`` and for "omp" and "ols".
        None means the mean number of non-zeros of the trained codes.
    fit_gains : bool, default=True
        Whether the encoder's codes are multiplied by one factor per unit, ``gains_``, which is
        fitted after training so that the codes reconstruct the samples with ``components_``.
        Without it they are too small, because the trained codes are shrunk by alpha.
    fit_decoder : bool, default=False
        Whether to fit a separate dictionary, ``decoder_``, to the encoder's codes by least
        squares. ``inverse_transform`` and ``reconstruct`` then use it as long as
        ``transform_algorithm="encoder"``; it must not be used for codes of the other algorithms.
    refine_max_iter : int, default=0
        The largest number of rounds in which the encoder is refined after training, so that its
        own thresholded codes reconstruct the samples. It ends earlier if held-out samples are no
        longer reconstructed better. 20 to 50 rounds reduce the reconstruction error clearly, and
        a round costs about as much as an iteration of training or less. The refined encoder and
        its dictionary are ``refined_encoder_`` and ``decoder_``; ``transform`` and
        ``inverse_transform`` use them as long as ``transform_algorithm="encoder"``. The paper does
        not have this step.
    transform_algorithm : {"encoder", "exact", "lasso", "omp", "ols"}, default="encoder"
        How ``transform`` computes codes.

        - "encoder": the thresholded X Cᵀ times ``gains_``, which costs one matrix product;
        - "exact": the U that minimises E for the learned D and C;
        - "lasso": the U that minimises the reconstruction and ℓ1 terms for the learned D, without
          the encoder. The paper calls this re-learning;
        - "omp", "ols": orthogonal matching pursuit and orthogonal least squares with
          ``n_nonzero_coefs_`` non-zeros, for the learned D; see :func:`lincode.sparse_encode`.
    transform_alpha : float, default=None
        The alpha of the "lasso" and "exact" codes of ``transform``, if it is not to be that of
        training. It has the unit of ``alpha``, which is n_components / n_features times the alpha
        of scikit-learn and of :func:`lincode.sparse_encode`. It is a number and not a string: to
        make it relative to training, set it to a multiple of ``alpha_`` after ``fit``.
    transform_debias : bool, default=False
        Whether the "lasso" codes of ``transform`` are replaced by those of least squares on their
        support.
    split_sign : bool, default=False
        Whether to return the positive and negative parts of the codes as separate non-negative
        features. The output then has 2 * n_components columns: first the positive parts, then
        the negative parts.
    sparse_output : bool, default=False
        Whether ``transform`` returns compressed codes (CSR). They are built block by block, without
        a dense array of all codes.
    positive_code : bool, default=False
        Whether to constrain the codes to U ≥ 0. It excludes "omp" and "ols".
    positive_dict : bool, default=False
        Whether to constrain the dictionary to D ≥ 0. The decoder of ``fit_decoder=True`` and of
        ``refine_max_iter > 0`` is not constrained.
    init : "data" or array of shape (n_components, n_features), default="data"
        The start of training: random samples, normalised to length 1, as atoms, or the given
        atoms, projected onto the unit balls. The encoder starts from zero.
    init_size : int, "auto" or None, default="auto"
        The number of samples in the first stage of training. With many samples, training starts on
        a random subset, continues on subsets that are four times as large as the one before, and
        ends on all samples. The last stage then needs few iterations. A subset has at most a third
        of the samples, and at most 1 GiB. "auto" means max(1000, 10 * n_components) if there are at
        least 10,000 samples, and all samples otherwise. None means that all iterations use all
        samples, which is also the case with ``warm_start=True`` after the first ``fit``.
    max_iter : int, default=200
        The largest number of outer iterations over all samples, and over each subset before (see
        ``init_size``).
    tol : float, default=1e-4
        Training stops when the relative change of the energy in one iteration over all samples is
        at most ``tol``.
    transform_tol : float, default=1e-6
        The relative optimality residual to which ``transform`` and ``score`` compute codes if
        they are computed by optimisation. It is limited by the precision of X.
    n_jobs : int, default=None
        The number of threads, including those of the BLAS library. None means as many as the BLAS
        library uses, −1 means all cores. The result does not depend on it, except for rounding.
    random_state : int, RandomState instance or None, default=None
        The seed of the random start. Pass an int for reproducible results.
    warm_start : bool, default=False
        Whether ``fit`` starts from the present dictionary and encoder instead of ``init``.
    verbose : int, default=0
        If above 0, one line per outer iteration is printed.
    callback : callable, default=None
        It is called with a :class:`lincode.Iteration` after each outer iteration, including those
        over subsets. If it returns a true value, training stops and the result so far is kept. If
        this happens on a subset, one iteration over all samples follows. See
        :class:`lincode.callbacks.Checkpoint`.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary D, one atom per row. The largest entry in absolute value of each atom is
        positive, unless ``positive_code=True``.
    encoder_ : array of shape (n_components, n_features)
        The encoder C, one filter per row.
    alpha_ : float
        The value of alpha that was used.
    encoder_ridge_ : float
        The ridge of the encoder that was used, relative to the mean eigenvalue of XᵀX.
    noise_variance_ : float
        The variance of the noise on the encoder's input that the ridge is equivalent to, ρ/N.
    gains_ : array of shape (n_components,)
        The factors of the encoder's codes, which are used if ``fit_gains=True``.
    decoder_ : array of shape (n_components, n_features)
        The dictionary for the encoder's codes, if ``fit_decoder=True`` or ``refine_max_iter > 0``.
    refined_encoder_ : array of shape (n_components, n_features)
        The refined encoder, if ``refine_max_iter > 0``.
    refined_threshold_ : float
        The threshold of the refined encoder.
    calibrated_mode_ : str
        The ``threshold_mode`` for which gains and decoder were fitted.
    calibrated_gains_ : bool
        The value of ``fit_gains`` for which the decoder was fitted.
    n_nonzero_coefs_ : int
        The number of non-zeros per sample of ``threshold_mode="top_k"``, "omp" and "ols".
    encoder_r2_ : float
        The fraction of the training data, 1 − ‖X − R‖²/‖X‖², that the reconstruction R from the
        encoder's codes explains. It is measured on leave-one-out outputs of the encoder. With few
        samples it is still too optimistic, because the dictionary was trained on them.
    threshold_ : float
        The threshold that ``transform`` uses with ``transform_algorithm="encoder"``.
    matching_threshold_ : float
        The threshold at which leave-one-out outputs of the encoder have ``matching_density_``. It
        is computed from at most max(10,000, 10 * n_components) samples.
    matching_density_ : float
        The fraction of non-zeros that the calibration aims at: that of the trained codes, or the
        ``density`` of the last call of ``calibrate``.
    energy_ : float
        The energy per sample of the training data, E/N.
    energy_path_ : array of shape (n_iter + 1,)
        E/N at the start of the iterations over all samples and after each of them. It never
        increases. The stages before, on subsets, are not included.
    n_iter_ : int
        The number of outer iterations over all samples.
    stop_reason_ : str
        The reason why training stopped.
    optimality_ : dict of str to float
        The relative optimality residual of each step at the end of training; 0 is optimal. "codes"
        belongs to the last U step, "dictionary" and "encoder" to the D and C steps, and "joint"
        to the same codes with the final D and C. With the default ``tol``, a "joint" residual
        of a few hundredths is usual and corresponds to about 1e-4 of the energy; a smaller
        ``tol`` reduces it.
    usage_ : array of shape (n_components,)
        The fraction of the training samples that use each atom.
    n_replaced_atoms_ : int
        How often an atom that no sample used was replaced by the residual of a sample.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : array of str
        The names of the features, if X has names that are all strings.

    See Also
    --------
    MiniBatchSCNN : Trains on batches, for data that do not fit in memory.
    scnn_path : Trains networks for several values of alpha.

    Notes
    -----
    The parameters ``threshold``, ``transform_algorithm``, ``transform_n_nonzero_coefs``,
    ``transform_alpha``, ``transform_debias``, ``transform_tol``, ``split_sign``,
    ``sparse_output``, ``positive_code`` and ``encoder_weight``
    can be changed after ``fit`` and affect later calls of ``transform`` and ``score``. A change of
    ``alpha`` takes effect in the next ``fit``. After a change of ``threshold_mode``,
    ``fit_gains``, ``fit_decoder`` or ``refine_max_iter``, call ``calibrate``.

    The codes of the paper are those of ``SCNN(threshold="alpha", threshold_mode="soft",
    fit_gains=False, encoder_ridge=0)``.

    Missing entries of X are NaN. ``fit`` replaces them by a linear prediction from the observed
    ones, and ``reconstruct`` predicts them by the network; see docs/missing.md.

    References
    ----------
    Montalto, Tessitore, Prevete: A linear approach for sparse coding by a two-layer neural
    network. Neurocomputing 149 (2015).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import SCNN
    >>> X = load_digits().data / 16
    >>> scnn = SCNN(n_components=32, random_state=0).fit(X)
    >>> codes = scnn.transform(X)
    >>> codes.shape
    (1797, 32)
    >>> scnn.inverse_transform(codes).shape
    (1797, 64)
    """

    _constraints: ClassVar[dict[str, Constraint]] = BaseSCNN._constraints | {
        "max_iter": number(1, integer=True),
        "init_size": either(choice("auto", None), number(1, integer=True)),
        "warm_start": FLAG,
    }

    def __init__(
        self,
        n_components: int | None = None,
        alpha: float | str = DEFAULT_ALPHA,
        *,
        encoder_weight: float = 1.0,
        encoder_ridge: float | str = "auto",
        threshold: float | str = "match",
        threshold_mode: str = "hard",
        transform_n_nonzero_coefs: int | None = None,
        fit_gains: bool = True,
        fit_decoder: bool = False,
        refine_max_iter: int = 0,
        transform_algorithm: str = "encoder",
        transform_alpha: float | None = None,
        transform_debias: bool = False,
        split_sign: bool = False,
        sparse_output: bool = False,
        positive_code: bool = False,
        positive_dict: bool = False,
        init: str | ArrayLike = "data",
        init_size: int | str | None = "auto",
        max_iter: int = 200,
        tol: float = 1e-4,
        transform_tol: float = 1e-6,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.encoder_weight = encoder_weight
        self.encoder_ridge = encoder_ridge
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.transform_n_nonzero_coefs = transform_n_nonzero_coefs
        self.fit_gains = fit_gains
        self.fit_decoder = fit_decoder
        self.refine_max_iter = refine_max_iter
        self.transform_algorithm = transform_algorithm
        self.transform_alpha = transform_alpha
        self.transform_debias = transform_debias
        self.split_sign = split_sign
        self.sparse_output = sparse_output
        self.positive_code = positive_code
        self.positive_dict = positive_dict
        self.init = init
        self.init_size = init_size
        self.max_iter = max_iter
        self.tol = tol
        self.transform_tol = transform_tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    @unchanged_on_failure
    @with_callbacks
    def fit(self, X: Any, y: object = None) -> Self:
        """Learn the dictionary and the encoder.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The training samples. Missing entries are NaN, or masked in a masked array.
        y : ignored

        Returns
        -------
        self
        """
        self._check_parameters()
        rng = check_seed(self.random_state)
        rows = self._rows(X)
        (N, p), m, lengths = rows.shape, self._n_units(rows.shape[1]), rows.row_lengths()
        self.alpha_ = resolve_alpha(self.alpha, lengths, m, p)
        is_warm = self.warm_start and hasattr(self, "components_")
        too_large = not is_warm and self._warn_if_alpha_is_too_large(lengths, m, p)
        with blas_threads(matrix_threads(max(m, p), thread_count(self.n_jobs))):
            start = self._present_weights(m, p) if is_warm else self._first_weights(rows, rng)
            rows.set_codes(start.C, self._weights().thresholding)
            sizes = [] if is_warm else self._subset_sizes(N, p, m)
            progress = Progress(self, self.max_iter * (len(sizes) + 1), X, y)
            training, outcome = train_in_stages(
                rows,
                start.D,
                start.C,
                self._weights(),
                sizes=sizes,
                rng=rng,
                tol=self.tol,
                max_iter=self.max_iter,
                progress=progress,
            )
            self._set_result(training, outcome)
            sample = self._refinement_sample(rows)
            self._refine(sample)
        progress.finish()
        self._warn_about_training(outcome)
        self._warn_about_codes(sample, alpha_is_too_large=too_large)
        return self

    def _rows(self, X: Any) -> RowSource:
        """Return the validated samples as a row source."""
        samples = check_samples(self, X, reset=True)
        n_threads = thread_count(self.n_jobs)
        with blas_threads(n_threads):
            X, penalties = samples.filled()
        m = self._n_units(X.shape[1])
        return MemoryRows(X, m, n_threads=n_threads, lengths=samples.lengths, penalties=penalties)

    def _first_weights(self, rows: RowSource, rng: np.random.RandomState) -> Start:
        return self._new_start(lambda indices: dense(rows.take(indices)), rows.shape, rng)

    def _present_weights(self, m: int, p: int) -> Start:
        if self.components_.shape != (m, p):
            raise InvalidInputError(
                "with warm_start=True, (n_components, n_features) must remain"
                f" {self.components_.shape}, got {(m, p)}; set warm_start=False to start again."
            )
        return Start(D=self.components_.astype(np.float64), C=self.encoder_.astype(np.float64))

    def _subset_sizes(self, N: int, p: int, m: int) -> list[int]:
        """Return the sizes of the subsets on which training starts."""
        if self.init_size is None:
            return []
        return subset_sizes(N, p, m, None if self.init_size == "auto" else int(self.init_size))

    def _set_result(self, training: SCNNTraining, outcome: Outcome) -> None:
        """Set all fitted attributes except for those of the data and of the refinement."""
        self._set_fitted(training.result(), training.rows)
        self.energy_path_ = np.array(outcome.energy_path) / training.n
        self.energy_ = float(self.energy_path_[-1])
        self.n_iter_ = outcome.n_iter
        self.stop_reason_ = outcome.reason.value

    def _refinement_sample(self, rows: RowSource) -> Any:
        """Return samples on which the encoder is refined and checked."""
        n = self._n_refinement_samples() if self.refine_max_iter > 0 else 1000
        return rows.take(sample_indices(rows.shape[0], n))

    def _snapshot(self, training: SCNNTraining) -> SCNN:
        """Return a fitted copy during training."""
        copy: SCNN = self._unfitted_copy()
        copy._set_fitted(training.snapshot(), training.rows)
        copy._refine(copy._refinement_sample(training.rows))
        copy.energy_ = training.energy() / training.n
        copy.energy_path_, copy.n_iter_ = np.array([copy.energy_]), 0
        copy.stop_reason_ = "this is a snapshot during training"
        return copy

    def _warn_about_training(self, outcome: Outcome) -> None:
        if outcome.reason is Reason.MAX_ITER:
            warn_user(f"SCNN: {outcome.reason.value}.", ConvergenceWarning)
        if self.optimality_["encoder"] > MAX_ENCODER_RESIDUAL:
            warn_user(
                "SCNN: some features of X are so small compared with the others that the encoder"
                " ignores them; scale the features (StandardScaler, MaxAbsScaler)."
            )
