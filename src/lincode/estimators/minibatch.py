"""SCNN trained on batches, as a scikit-learn transformer."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from lincode.core.arrays import Array, RowLengths, Rows, dense, is_lazy, scan_rows
from lincode.core.threshold import n_calibration_rows
from lincode.estimators.base import DEFAULT_ALPHA, BaseSCNN, parse_alpha, resolve_alpha
from lincode.estimators.validation import (
    Constraint,
    check_finite,
    check_rows,
    check_samples,
    check_scale,
    check_seed,
    choice,
    either,
    number,
    unchanged_on_failure,
    warn_user,
)
from lincode.exceptions import InvalidInputError
from lincode.training.alternation import n_ridge_rows
from lincode.training.lazy_rows import LazyRows, RowSample, shuffled_indices
from lincode.training.loop import Progress, Reason, with_callbacks
from lincode.training.online import (
    BatchStopping,
    OnlineTraining,
    RecentRows,
    online_batch_size,
)
from lincode.training.threads import blas_threads, matrix_threads, prefetch, thread_count

MAX_ITER_REASON = "max_iter passes over the data were made; increase max_iter or tol"
CONVERGED_REASON = "converged: the energy of new batches no longer decreases"
PARTIAL_FIT_REASON = "partial_fit learns one batch"
MIN_SAMPLED_ROWS, SAMPLED_ROWS_PER_UNIT, SAMPLED_BYTES = 1000, 4, 128 * 2**20
"""How many rows of data that are not in memory are sampled for the initial atoms, and the largest
size of the sample from which the ridge is chosen and on which the encoder is refined."""

Batches = Iterator[tuple[Rows, Array | None]]


class MiniBatchSCNN(BaseSCNN):
    """SCNN trained on batches, in memory that does not depend on the number of samples.

    It minimises the same energy as :class:`lincode.SCNN`,

        E = 1/p ‖X − U D‖² + η/m (‖U − X Cᵀ‖² + ρ‖C‖²) + 2λ/m ‖U‖₁    s.t. ‖D[j]‖ ≤ 1.

    Each batch is learned by one update of its codes, the dictionary and the encoder, as in online
    dictionary learning. Of earlier batches only the sums UᵀU, UᵀX, ‖U‖₁ and XᵀX are kept. ``fit``
    visits the samples in random order until the energy of batches, measured before they are
    learned, no longer decreases. At the end, one more update follows for the last 10,000 samples
    (or 10 per unit if that is more). Without the encoder term (``encoder_weight=0``), and with more
    than about 9,000 features, the encoder is fitted only then.

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
        that was used is stored in ``alpha_``. With ``partial_fit`` a string is resolved by the
        first batch.
    batch_size : int, default=None
        The number of samples per batch. None means the largest of 1024, ``n_components`` and half
        the number of features; for ``encoder_weight=0`` the larger of 512 and ``n_components``.
        ``partial_fit`` learns a larger batch in parts of this size.
    half_life : float, default=None
        The weight of a sample is halved after this many further samples. None means 1/24 of the
        samples seen so far (1/12 for ``encoder_weight=0``), but at least ``n_components``.
        ``float("inf")`` means that all samples keep their weight.
    max_iter : int, default=100
        The largest number of passes over the data in ``fit``.
    tol : float, default=2e-3
        ``fit`` stops when the energy of new batches, relative to that of zero codes, has not
        decreased by this fraction for ``max_no_improvement`` averages.
    max_no_improvement : int, default=3
        ``fit`` stops after this number of averages of the energy without improvement. None means
        that all ``max_iter`` passes are made. The energy is averaged over 5000 samples (20,000 for
        ``encoder_weight=0``), or over one pass if that is less. With the encoder, ``fit`` learns
        at least 120,000 samples or three passes.
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
    transform_tol : float, default=1e-6
        The relative optimality residual to which ``transform`` and ``score`` compute codes if
        they are computed by optimisation. It is limited by the precision of X.
    n_jobs : int, default=None
        The number of threads, including those of the BLAS library. None means as many as the BLAS
        library uses, −1 means all cores. The result does not depend on it, except for rounding.
    random_state : int, RandomState instance or None, default=None
        The seed of the random start and of the order of the samples. Pass an int for reproducible
        results.
    verbose : int, default=0
        If above 0, one line per batch is printed.
    callback : callable, default=None
        It is called with a :class:`lincode.Iteration` after each batch of ``fit`` and
        ``partial_fit``. If it returns a true value, ``fit`` stops and keeps the result so far. See
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
        The threshold at which the encoder's codes are as sparse as the trained codes. It is
        computed from the last samples and, with ``partial_fit``, averaged over batches.
    matching_density_ : float
        The fraction of non-zeros that the calibration aims at: that of the trained codes, or the
        ``density`` of the last call of ``calibrate``.
    energy_path_ : array of shape (n_steps,)
        The energy per sample of each batch before it was learned. After the first pass over the
        data, ``fit`` measures batches that it has seen before.
    energy_ : float
        The smoothed energy per sample. It estimates the energy of new data as long as the batches
        are new.
    usage_ : array of shape (n_components,)
        The fraction of the samples that use each atom; older samples have a smaller weight.
    n_steps_ : int
        The number of batches that were learned.
    n_samples_seen_ : int
        The number of samples that were learned; repeated passes count.
    n_iter_ : int
        The number of passes over the data, the last of which may be incomplete. It is 1 after
        ``partial_fit``.
    stop_reason_ : str
        The reason why ``fit`` stopped.
    n_replaced_atoms_ : int
        How often an atom that no sample used was replaced by the residual of a sample.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : array of str
        The names of the features, if X has names that are all strings.

    See Also
    --------
    SCNN : Trains on all samples at once.

    Notes
    -----
    The parameters ``threshold``, ``transform_algorithm``, ``transform_n_nonzero_coefs``,
    ``transform_alpha``, ``transform_debias``, ``transform_tol``, ``split_sign``,
    ``sparse_output``, ``positive_code`` and ``encoder_weight``
    can be changed after ``fit`` and affect later calls of ``transform`` and ``score``.

    Examples
    --------
    >>> import numpy as np
    >>> from lincode import MiniBatchSCNN
    >>> rng = np.random.default_rng(0)
    >>> scnn = MiniBatchSCNN(n_components=8, random_state=0)
    >>> for _ in range(3):
    ...     scnn = scnn.partial_fit(rng.standard_normal((100, 5)))
    >>> scnn.n_samples_seen_
    300
    """

    _constraints: ClassVar[dict[str, Constraint]] = BaseSCNN._constraints | {
        "batch_size": either(choice(None), number(1, integer=True)),
        "half_life": either(choice(None), number(1, math.inf)),
        "max_iter": number(1, integer=True),
        "max_no_improvement": either(choice(None), number(1, integer=True)),
    }
    _training: OnlineTraining

    def __init__(
        self,
        n_components: int | None = None,
        alpha: float | str = DEFAULT_ALPHA,
        *,
        batch_size: int | None = None,
        half_life: float | None = None,
        max_iter: int = 100,
        tol: float = 2e-3,
        max_no_improvement: int | None = 3,
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
        transform_tol: float = 1e-6,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.batch_size = batch_size
        self.half_life = half_life
        self.max_iter = max_iter
        self.tol = tol
        self.max_no_improvement = max_no_improvement
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
        self.transform_tol = transform_tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @unchanged_on_failure
    @with_callbacks
    def fit(self, X: Any, y: object = None) -> Self:
        """Learn the dictionary and the encoder from batches in random order.

        Parameters
        ----------
        X : array-like, CSR matrix or lazily read array of shape (n_samples, n_features)
            The training samples. An array that is not in memory is not read as a whole: a
            memory-mapped array of more than 1 GiB, or an object with ``shape``, ``dtype`` and
            slices of rows, such as a dataset of h5py and an array of zarr or Dask. It is read
            once to check it and to resolve ``alpha``. Then chunks of consecutive rows are read
            in random order, and their rows are mixed in a buffer. A thread reads the next batch
            while the present one is learned. Missing entries are NaN, or masked in a masked array;
            X must then be in memory.
        y : ignored

        Returns
        -------
        self
        """
        self._check_parameters()
        rng = check_seed(self.random_state)
        lazy, penalties = LazyRows(X) if is_lazy(X) else None, None
        if lazy is not None:
            sample, lengths = self._scan(lazy, rng)
        else:
            samples = check_samples(self, X, reset=True)
            (sample, penalties), lengths = samples.filled(), samples.lengths
        N = (sample if lazy is None else lazy).shape[0]
        too_large = self._start_training(sample, lengths, rng)
        with blas_threads(matrix_threads(max(self._training.D.shape), self._training.n_threads)):
            self._training.choose_ridge(sample, N)
            seed = int(rng.randint(2**31))
            if lazy is not None:
                read = lazy.shuffled_batches(self._training.batch_size, self.max_iter, seed)
                batches: Batches = ((block, None) for block in prefetch(read))
            else:
                order = shuffled_indices(N, self._training.batch_size, self.max_iter, seed)
                batches = (
                    (sample[rows], None if penalties is None else penalties[rows]) for rows in order
                )
            progress = Progress(self, self.max_iter * -(-N // self._training.batch_size), X, y)
            recent = self._learn_batches(batches, N, progress)
            self._refine(sample)
        progress.finish()
        self.n_iter_ = -(-self.n_samples_seen_ // N)
        if self.stop_reason_ == MAX_ITER_REASON and self.max_no_improvement is not None:
            warn_user(f"MiniBatchSCNN: {self.stop_reason_}.", ConvergenceWarning)
        self._warn_about_codes(recent, alpha_is_too_large=too_large)
        return self

    @unchanged_on_failure
    def partial_fit(self, X: Any, y: object = None) -> Self:
        """Learn one more batch of any size. The first call starts the training.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples of the batch. Missing entries are NaN, or masked in a masked array.
        y : ignored

        Returns
        -------
        self
        """
        self._check_parameters()
        if self.fit_decoder or self.refine_max_iter > 0:
            raise InvalidInputError(
                "partial_fit requires fit_decoder=False and refine_max_iter=0, because one batch"
                " may be too small for them; set them after the last batch and call calibrate(X)"
                " with a larger sample."
            )
        first, started, too_large = not hasattr(self, "_training"), time.perf_counter(), False
        samples = check_samples(self, X, reset=first, allow_unobserved=not first)
        X, penalties = samples.filled(None if first else self._training.moments())
        if first:
            too_large = self._start_training(X, samples.lengths, check_seed(self.random_state))
        else:
            self._continue_training(samples.lengths)
        training = self._training
        with blas_threads(matrix_threads(max(training.D.shape), training.n_threads)):
            if first:
                training.choose_ridge(X, X.shape[0])
            rows, trained = training.learn_and_finish(X, penalties)
            n, total = X.shape[0], trained.stats.n
            self._set_fitted(trained, rows, 0.0 if first else max(1 - n / total, 0.0))
        self._set_progress(PARTIAL_FIT_REASON)
        self.n_iter_ = 1
        self._report(Progress(self), None, self.n_steps_, started, X.shape[0])
        if first:
            self._warn_about_codes(rows.X, alpha_is_too_large=too_large)
        return self

    def _start_training(self, X: Rows, lengths: RowLengths, rng: np.random.RandomState) -> bool:
        """Resolve alpha and start from some samples; return whether alpha is too large."""
        p = X.shape[1]
        m = self._n_units(p)
        self.alpha_ = resolve_alpha(self.alpha, lengths, m, p)
        too_large = self._warn_if_alpha_is_too_large(lengths, m, p)
        start = self._new_start(lambda rows: dense(X[rows]), X.shape, rng)
        self._training = OnlineTraining(start.D, start.C, **self._training_parameters(m, p))
        return too_large

    def _training_parameters(self, m: int, p: int) -> dict[str, Any]:
        size = self.batch_size or online_batch_size(m, p, float(self.encoder_weight))
        return {
            "weights": self._weights(),
            "batch_size": int(size),
            "half_life": self.half_life,
            "n_threads": thread_count(self.n_jobs),
        }

    def _continue_training(self, lengths: RowLengths) -> None:
        """Prepare the state for one more batch, with the present parameters."""
        m, p = self._training.D.shape
        if self._n_units(p) != m:
            raise InvalidInputError(
                f"n_components must remain {m} between calls of partial_fit, got"
                f" {self._n_units(p)}; call fit to start again."
            )
        if parse_alpha(self.alpha)[1] is None:
            self.alpha_ = resolve_alpha(self.alpha, lengths, m, p)
        self._training = self._training.copied()  # the state before remains if this fails
        vars(self._training).update(self._training_parameters(m, p))

    def _scan(self, X: LazyRows, rng: np.random.RandomState) -> tuple[Rows, RowLengths]:
        """Read and check X once; return a random sample of its rows, and the row lengths."""
        check_rows(self, np.zeros((1, X.shape[1]), X.dtype), reset=True)
        n = max(MIN_SAMPLED_ROWS, SAMPLED_ROWS_PER_UNIT * self._n_units(X.shape[1]))
        n_sampled = SAMPLED_BYTES // X.row_bytes
        wanted = n_sampled if self.refine_max_iter > 0 else n_ridge_rows(X.shape[1])
        sample = RowSample(max(n, min(wanted, n_sampled)), rng)
        largest = longest = total = 0.0
        for rows, block in prefetch(X.blocks()):
            block_largest, lengths = scan_rows(block)
            if not math.isfinite(lengths.mean):
                try:
                    check_finite(self, block)
                except InvalidInputError as error:
                    raise InvalidInputError(
                        f"rows {rows.start} to {rows.stop - 1} of X are not finite; missing entries"
                        f" need an array in memory, or partial_fit. {error}"
                    ) from error
            largest, longest = max(block_largest, largest), max(lengths.longest, longest)
            total += lengths.mean * block.shape[0]
            sample.add(block)
        check_scale(X, largest)
        return sample.result(), RowLengths(longest, total / X.shape[0])

    def _learn_batches(self, batches: Batches, N: int, progress: Progress) -> Rows:
        """Learn batches, set the fitted attributes, and return the last samples."""
        training, started = self._training, time.perf_counter()
        eta = training.weights.eta if training.uses_encoder else 0.0
        rule = BatchStopping(self.tol, self.max_no_improvement, N, eta)
        training.recent = RecentRows(min(n_calibration_rows(len(training.D)), N))
        max_batches, reason = self.max_iter * -(-N // training.batch_size), MAX_ITER_REASON
        for X, penalties in batches:
            progress.begin()
            training.learn(X, penalties)
            if self._report(progress, training, max_batches, started, X.shape[0]):
                reason = Reason.CALLBACK.value
                break
            if rule.add(X, training.energy_path[-1]):
                reason = CONVERGED_REASON
                break
        rows, trained = training.finish()
        training.recent = None
        self._set_fitted(trained, rows)
        self._set_progress(reason)
        return rows.X

    def _report(
        self,
        progress: Progress,
        unfinished: OnlineTraining | None,
        max_batches: int,
        started: float,
        n: int,
    ) -> bool:
        """Report a batch of n samples; return whether a callback requests a stop.

        ``unfinished`` is the training whose result is not yet in the fitted attributes.
        """
        return progress.end(
            unfinished,
            n_iter=self._training.n_batches,
            max_iter=max_batches,
            energy_per_sample=self._training.energy_path[-1],
            change=self._training.change(),
            seconds=time.perf_counter() - started,
            n_samples=n,
        )

    def _set_progress(self, stop_reason: str) -> None:
        """Set the attributes that say how training went."""
        training = self._training
        self.energy_, self.energy_path_ = training.energy, np.array(training.energy_path)
        self.n_steps_, self.n_samples_seen_ = training.n_batches, training.n_seen
        self.stop_reason_ = stop_reason

    def _snapshot(self, training: OnlineTraining | None) -> MiniBatchSCNN:
        """Return a fitted copy during training, which ``partial_fit`` can continue."""
        if training is None:  # after partial_fit, all attributes are set
            result: MiniBatchSCNN = copy.copy(self)
            result.callback = None
            return result
        result = self._unfitted_copy()
        result._training = training.copied()
        rows, trained = result._training.finish()
        result._training.recent = None
        result._set_fitted(trained, rows)
        result._set_progress("this is a snapshot during training")
        result._refine(rows.X)
        result.n_iter_ = 1
        return result
