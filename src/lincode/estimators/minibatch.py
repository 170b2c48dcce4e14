"""SCNN trained on batches, as a scikit-learn transformer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from lincode.core.calibration import n_calibration_rows
from lincode.core.types import Array, Rows
from lincode.estimators.base import BaseSCNN
from lincode.estimators.batch_input import SAMPLED_BYTES, BatchInput, n_sampled_rows, scan_chunks
from lincode.estimators.batch_loop import MAX_ITER_REASON, BatchLoop, BatchSource, stopping_rule
from lincode.estimators.batch_training import BatchTraining
from lincode.estimators.checkpoint import Checkpoint, check_checkpoint_parameters, describe_data
from lincode.estimators.parameters import DEFAULT_ALPHA, resolve_alpha
from lincode.estimators.progress import FitProgress
from lincode.estimators.samples import Samples, check_samples
from lincode.estimators.stored_state import BatchProgress
from lincode.estimators.training_rows import TrainingRows
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import (
    check_number,
    check_seed,
    parse_alpha,
    unchanged_on_failure,
)
from lincode.exceptions import InvalidInputError
from lincode.networks.scnn import Trained, n_ridge_rows
from lincode.networks.scnn_minibatch import Stream
from lincode.networks.scnn_online import online_batch_size
from lincode.networks.training import Callback, Iteration
from lincode.rows.batches import BatchRows
from lincode.rows.chunks import ChunkedRows, is_lazy
from lincode.rows.memory import is_wide_stream, sample_indices
from lincode.rows.threads import thread_count

LARGE_BATCH_SIZE = 8192
"""The default number of samples per batch if each is learned by several iterations."""
HALF_LIFE_BATCHES = 4
"""The default half-life of samples, in such batches."""
PARTIAL_FIT_REASON = "partial_fit learns one batch"
ONE_PASS_REASON = "the batches ended; an iterator allows only one pass"


class MiniBatchSCNN(BaseSCNN):
    """SCNN trained on batches, in memory that does not depend on the number of samples.

    It minimises the same energy as :class:`lincode.SCNN`,

        E = 1/p ‖X − U D‖² + η/m (‖U − X Cᵀ‖² + ρ‖C‖²) + 2λ/m ‖U‖₁    s.t. ‖D[j]‖ ≤ 1.

    Of earlier batches only the sums UᵀU, UᵀX, ‖U‖₁ and XᵀX are kept. XᵀX, of shape (p, p), is
    factored once per batch; with more than about 9,000 features it is replaced by its leading
    directions and its diagonal.

    ``fit`` visits the samples in random order until the energy of batches, measured before they
    are learned, no longer decreases. Each batch is small and is learned by one update of its codes,
    the dictionary and the encoder, as in online dictionary learning. At the end, one more update
    follows for the last 10,000 samples (or 10 per unit if that is more). Without the encoder term
    (``encoder_weight=0``) the encoder is fitted only then.

    ``partial_fit`` learns one batch of any size, by several iterations if ``encoder_weight`` is
    above 0. So does ``fit`` for samples with missing entries or weights, and for data with more
    than about 9,000 features.

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
        The number of samples per batch in ``fit``. None means the largest of 1024,
        ``n_components`` and half the number of features; for ``encoder_weight=0`` the larger of
        512 and ``n_components``. Where batches are learned by several iterations (see above), None
        means 8192, and it should be at least ten times ``n_components``. ``fit_batches``, and with
        ``encoder_weight=0`` also ``partial_fit``, learn a larger batch in parts of this size.
    half_life : float, default=None
        The weight of a sample is halved after this many further samples. None means 1/24 of the
        samples seen so far (1/12 for ``encoder_weight=0``), but at least ``n_components``. Where
        batches are learned by several iterations, None means four times ``batch_size``, or one
        pass over the data if that is less. ``float("inf")`` means that all samples keep their
        weight.
    max_iter : int, default=100
        The largest number of passes over the data in ``fit``.
    tol : float, default=2e-3
        ``fit`` stops when the energy of new batches, relative to that of zero codes, has not
        decreased by this fraction for ``max_no_improvement`` averages.
    max_no_improvement : int, default=3
        ``fit`` stops after this number of averages of the energy without improvement. None means
        that all ``max_iter`` passes are made. The energy is averaged over 5000 samples (20,000 for
        ``encoder_weight=0``), or over one pass if that is less. With the encoder, ``fit`` learns
        at least 120,000 samples or three passes. Where batches are learned by several iterations,
        single batches are compared.
    encoder_weight : float, default=1.0
        The weight η ≥ 0 of the encoder term. The paper uses 1. With a larger weight the encoder's
        codes are closer to the exact ones, and both are denser. 0 means plain dictionary
        learning on small batches; the encoder is then fitted once, after training. Samples with
        missing entries or weights are learned in the same way as with the encoder, also if the
        weight is 0, with the ``batch_size`` and ``half_life`` of that case.
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
    init : {"data"} or array of shape (n_components, n_features), default="data"
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
    checkpoint_path : path, default=None
        A file to which ``fit`` and ``fit_batches`` save their state from time to time. If they are
        interrupted, even by the end of the process, the same call continues from this file: it
        must have the same parameters and data. The result is that of training without
        interruption, bit for bit. The file is deleted when training is finished.
    checkpoint_every : float, default=60
        The number of seconds between two checkpoints. 0 means one after each batch. After
        Ctrl-C or ``sys.exit``, the last complete batch is saved as well.
    verbose : int, default=0
        If above 0, one line per batch is logged, with the elapsed time and an upper bound of the
        time that remains; see docs/progress.md.
    callback : callable, default=None
        It is called with a :class:`lincode.Iteration` after each batch of ``fit`` and
        ``partial_fit``. If it returns a true value, ``fit`` stops and keeps the result so far.

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
        computed from the last batch and, with ``partial_fit``, averaged over batches.
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

    _inits: ClassVar[tuple[str, ...]] = ("data",)
    energy_: float
    energy_path_: Array
    n_steps_: int
    n_samples_seen_: int
    stop_reason_: str
    _stream: Stream

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
        checkpoint_path: str | os.PathLike[str] | None = None,
        checkpoint_every: float = 60.0,
        verbose: int = 0,
        callback: Callback | None = None,
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
        self.checkpoint_path = checkpoint_path
        self.checkpoint_every = checkpoint_every
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> MiniBatchSCNN:
        """Learn the dictionary and the encoder from batches in random order.

        Parameters
        ----------
        X : array-like, CSR matrix or lazily read array of shape (n_samples, n_features)
            The training samples. An array that is not in memory is not read as a whole: a
            memory-mapped array of more than 1 GiB, or an object with ``shape``, ``dtype`` and
            slices of rows, such as a dataset of h5py and an array of zarr or Dask. It is read
            once to check it and to resolve ``alpha``. Then chunks of consecutive rows are read
            in random order, and their rows are mixed in a buffer of about 128 MiB. A thread
            reads the next batch while the present one is learned. Missing entries are NaN, or
            masked in a masked array; X must then be in memory.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            The weights of the samples, which must be in memory. A sample with the weight 2 counts
            as two equal samples, and one with the weight 0 is ignored. None means 1.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            rng = check_seed(self.random_state)
            rows = self._training_rows(X, sample_weight, rng)
            (N, p), samples = rows.shape, rows.samples
            too_large = self._start_training(samples, rng)
            training = self._batch_training(
                online=self._is_online(p, samples),
                half_life=min(HALF_LIFE_BATCHES * rows.batch_size, N),
            )
            checkpoint = Checkpoint(self, rows.describe)
            training.choose_ridge(samples.X, N)
            progress = checkpoint.load(BatchProgress, *training.stream.D.shape)
            seed = int(rng.randint(2**31)) if progress is None else progress.seed
            loop = self._batch_loop(training, checkpoint, seed, progress)
            first = loop.first_batch(N, rows.batch_size)
            with (
                training.blas_threads(),
                closing(rows.batches(seed, first)) as batches,
                checkpoint.saved_on_interrupt(),
            ):
                learn = partial(self._learn_batches, loop, batches, rows, first=first)
                batch, messages = self._with_progress(
                    lambda report: (learn(report=report), self._refine_samples(samples)),
                    max_iter=rows.max_batches(),
                    X=X,
                    y=y,
                )
            checkpoint.remove()
            self.n_iter_ = -(-self.n_samples_seen_ // N)
        self._warn_after_training(messages, batch, too_large)
        return self

    def fit_batches(
        self, batches: Iterable[Any] | Callable[[], Iterable[Any]], y: object = None
    ) -> MiniBatchSCNN:
        """Learn the dictionary and the encoder from an iterable of batches.

        Each batch is learned as it is, in the given order, so the samples should be in random
        order. A string ``alpha`` is resolved by the first batch, and the initial atoms are samples
        of the first batch. Training stops as in ``fit``.

        Parameters
        ----------
        batches : iterable of arrays, or callable that returns one
            Arrays or CSR matrices of shape (any, n_features). Larger ones are learned in parts of
            ``batch_size`` samples. If it is a callable, or an iterable that is not an iterator,
            such as a list, at most ``max_iter`` passes are made. An iterator, such as a generator,
            gives one pass. Missing entries are not supported here; use ``partial_fit``.
        y : ignored

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from lincode import MiniBatchSCNN
        >>> rng = np.random.default_rng(0)
        >>> batches = (rng.standard_normal((100, 5)) for _ in range(3))
        >>> MiniBatchSCNN(n_components=8, random_state=0).fit_batches(batches).n_samples_seen_
        300
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            rng = check_seed(self.random_state)
            source = BatchInput(self, batches, self.max_iter)
            with closing(iter(source)) as incoming:
                X, lengths = next(incoming)
                too_large = self._start_training(Samples(X, lengths), rng)
                if self.refine_max_iter > 0:
                    source.start_sample(len(self._stream.D), rng)
                rows = chain([Samples(X, lengths)], (Samples(*batch) for batch in incoming))
                training = self._batch_training(
                    online=self._is_online(X.shape[1]), half_life=HALF_LIFE_BATCHES * X.shape[0]
                )
                checkpoint = Checkpoint(self, partial(describe_data, X.shape, X.dtype, lengths, X))
                training.choose_ridge(X, np.inf)
                progress = checkpoint.load(BatchProgress, *training.stream.D.shape)
                loop = self._batch_loop(training, checkpoint, 0, progress)
                with training.blas_threads(), checkpoint.saved_on_interrupt():
                    batch = self._with_progress(
                        partial(self._learn_batches, loop, rows, source), max_iter=None
                    )
            if source.one_pass and self.stop_reason_ == MAX_ITER_REASON:
                self.stop_reason_ = ONE_PASS_REASON
            with checkpoint.saved_on_interrupt():
                messages = self._refine(source.sample.result()) if source.sample else []
            self.n_iter_ = source.n_passes
            checkpoint.remove()
        self._warn_after_training(messages, batch, too_large)
        return self

    def partial_fit(self, X: Any, y: object = None, sample_weight: Any = None) -> MiniBatchSCNN:
        """Learn one more batch of any size. The first call starts the training.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples of the batch. Missing entries are NaN, or masked in a masked array.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            The weights of the samples. A sample with the weight 2 counts as two equal samples, and
            one with the weight 0 is ignored. None means 1.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            if self.fit_decoder or self.refine_max_iter > 0:
                raise InvalidInputError(
                    "partial_fit requires fit_decoder=False and refine_max_iter=0, because one"
                    " batch may be too small for them; set them after the last batch and call"
                    " calibrate(X) with a larger sample."
                )
            first = not hasattr(self, "_stream")
            samples = check_samples(self, X, sample_weight, reset=first, allow_unobserved=not first)
            lengths, p = samples.lengths, samples.X.shape[1]
            m = self._n_units(p)
            # With the encoder, a batch that is learned once deserves several iterations.
            online = self.encoder_weight == 0 and self._is_online(p, samples)
            if first or parse_alpha(self.alpha)[1] is None:
                self.alpha_ = resolve_alpha(self.alpha, lengths, m, p)
            if first:
                too_large = self._warn_if_alpha_is_too_large(lengths, m, p)
                self._start_stream(samples, check_seed(self.random_state))
                self.stop_reason_ = PARTIAL_FIT_REASON
                self.n_iter_ = 1
            elif len(self._stream.D) != m:
                raise InvalidInputError(
                    f"n_components must remain {len(self._stream.D)} between calls of partial_fit,"
                    f" got {m}; call fit to start again."
                )
            start = time.perf_counter()
            size = self._batch_size(p, online=online)
            training = self._batch_training(online=online, half_life=HALF_LIFE_BATCHES * size)
            with training.blas_threads():
                learned = training.learn(samples, keep_gram=True)
                rows, trained = training.batch_result(learned)
                self._set_progress(training)
                self._set_batch_weights(rows, trained)
            seconds = time.perf_counter() - start
            iteration = training.iteration(samples.X.shape[0], self.n_steps_, seconds)
            self._report_batch(FitProgress(self), iteration)
        if first:
            self._warn_about_codes(samples.X, alpha_is_too_large=too_large)
        return self

    def _training_rows(
        self, X: Any, sample_weight: Any, rng: np.random.RandomState
    ) -> TrainingRows:
        """Return the validated samples of ``fit``."""
        chunked = None
        if not is_lazy(X):
            samples = check_samples(self, X, sample_weight, reset=True)
            self._check_refinement(samples)
        elif sample_weight is not None:
            raise InvalidInputError(
                "sample_weight requires X in memory, because samples of weight 0 are removed first;"
                " call partial_fit with the weights of each batch."
            )
        else:
            chunked = ChunkedRows(X)
            n_sample = self._n_sampled_rows(chunked)
            samples = Samples(*scan_chunks(self, chunked, n_sample, rng))
        p = samples.X.shape[1]
        size = self._batch_size(p, online=self._is_online(p, samples))
        return TrainingRows(samples, chunked, size, self.max_iter)

    def _n_sampled_rows(self, chunked: ChunkedRows) -> int:
        """Return how many samples are kept in memory if the others are not."""
        p, row_bytes = chunked.shape[1], chunked.row_bytes
        n = n_sampled_rows(self._n_units(p), row_bytes, refine=self.refine_max_iter > 0)
        if self.encoder_weight > 0:  # the ridge is chosen from the sample
            n = max(n, min(n_ridge_rows(p), SAMPLED_BYTES // row_bytes))
        return n

    def _is_online(self, n_features: int, samples: Samples | None = None) -> bool:
        """Return whether batches are learned by one update each.

        This needs complete samples without weights and, with the encoder, an XᵀX that can be
        factored. Otherwise large batches are learned by several iterations.
        """
        if samples is not None:
            weighted = samples.weights is not None and not (samples.weights == 1).all()
            if samples.has_missing or weighted:
                return False
        return self.encoder_weight == 0 or not is_wide_stream(n_features)

    def _batch_size(self, n_features: int, *, online: bool) -> int:
        """Return the number of samples per batch."""
        if self.batch_size is not None:
            return int(self.batch_size)
        if not online:
            return LARGE_BATCH_SIZE
        eta = float(self.encoder_weight)
        return online_batch_size(self._n_units(n_features), n_features, eta)

    def _start_training(self, samples: Samples, rng: np.random.RandomState) -> bool:
        """Resolve alpha and start from some samples; return whether alpha is too large."""
        lengths, p = samples.lengths, samples.X.shape[1]
        m = self._n_units(p)
        self.alpha_ = resolve_alpha(self.alpha, lengths, m, p)
        too_large = self._warn_if_alpha_is_too_large(lengths, m, p)
        self._start_stream(samples, rng)
        return too_large

    def _start_stream(self, samples: Samples, rng: np.random.RandomState) -> None:
        for name in ("matching_threshold_", "gains_"):  # they belong to the previous stream
            self.__dict__.pop(name, None)
        X = samples.X
        start = self._new_start(lambda rows: samples.take(rows).filled()[0], X.shape, X.dtype, rng)
        self._stream = Stream(D=start.D, C=start.C)
        self.energy_, self.energy_path_ = 0.0, np.empty(0)
        self.n_steps_ = self.n_samples_seen_ = 0

    def _batch_training(self, *, online: bool, half_life: float) -> BatchTraining:
        """Return how batches are learned, from the present state on.

        ``half_life`` is the default if batches are learned by several iterations.
        """
        default = None if online else half_life
        return BatchTraining(
            self._stream,
            self._weights(),
            online=online,
            batch_size=self._batch_size(self._stream.D.shape[1], online=online),
            half_life=default if self.half_life is None else float(self.half_life),
            n_threads=thread_count(self.n_jobs),
            energy=self.energy_,
            energy_path=self.energy_path_,
        )

    def _batch_loop(
        self,
        training: BatchTraining,
        checkpoint: Checkpoint,
        seed: int,
        progress: BatchProgress | None,
    ) -> BatchLoop:
        """Return the loop over batches, which continues from ``progress``."""
        eta = float(self.encoder_weight)
        rule = stopping_rule(self.tol, self.max_no_improvement, eta, online=training.online)
        return BatchLoop(training, rule, checkpoint, seed, progress)

    def _learn_batches(
        self,
        loop: BatchLoop,
        batches: Iterable[Samples],
        source: BatchSource,
        report: FitProgress,
        first: int = 0,
    ) -> Rows:
        """Learn batches, set the fitted attributes, and return the last samples."""

        def on_batch(iteration: Iteration) -> bool:
            self._set_progress(loop.training)
            return self._report_batch(report, iteration)

        self._set_progress(loop.training)
        self.stop_reason_ = MAX_ITER_REASON
        result = loop.run(batches, source, first=first, on_begin=report.begin, callback=on_batch)
        self._set_progress(loop.training)
        self.stop_reason_ = result.reason
        self._set_batch_weights(result.rows, result.trained)
        return result.X

    def _set_progress(self, training: BatchTraining) -> None:
        """Set the attributes that every batch changes."""
        self._stream = stream = training.stream
        self.energy_, self.energy_path_ = training.energy, training.energy_path
        self.n_steps_, self.n_samples_seen_ = stream.n_batches, stream.n_seen
        self.n_replaced_atoms_ = stream.n_replaced

    def _report_batch(self, report: FitProgress, iteration: Iteration) -> bool:
        """Report a batch; return whether a callback requests a stop."""
        return report.end(iteration, after=f"  {self.n_samples_seen_} samples")

    def _set_batch_weights(self, rows: BatchRows, trained: Trained) -> None:
        """Set the fitted attributes after training on a batch."""
        sample = sample_indices(rows.shape[0], n_calibration_rows(len(trained.C)))
        # The calibration is averaged over batches.
        first = self._stream.n_batches == 1 or not hasattr(self, "matching_threshold_")
        n = rows.shape[0] if rows.weights is None else float(rows.weights.sum())
        past_weight = 0.0 if first else max(1 - n / trained.stats.n, 0.0)
        self._set_weights(trained, rows, sample, past_weight)

    def _refine_samples(self, samples: Samples) -> list[str]:
        """Refine the encoder on samples, of which at most as many are copied as are needed."""
        X = samples.X
        if self.refine_max_iter > 0 and samples.has_missing:
            chosen = sample_indices(X.shape[0], self._n_refinement_samples())
            X = self._predicted(X[chosen])[0]
        return self._refine(X)

    def _warn_after_training(self, messages: list[str], batch: Rows, too_large: bool) -> None:
        for message in messages:
            warn_user(message)
        not_converged = self.stop_reason_ == MAX_ITER_REASON and self.n_steps_ > 1
        if not_converged and self.max_no_improvement is not None:
            warn_user(f"MiniBatchSCNN: {self.stop_reason_}.", ConvergenceWarning)
        self._warn_about_codes(batch, alpha_is_too_large=too_large)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_checkpoint_parameters(self.checkpoint_path, self.checkpoint_every)
        check_number("batch_size", self.batch_size, 1, integer=True, or_none=True)
        check_number("max_iter", self.max_iter, 1, integer=True)
        check_number("max_no_improvement", self.max_no_improvement, 1, integer=True, or_none=True)
        check_number("half_life", self.half_life, 1, or_none=True, or_infinity=True)
