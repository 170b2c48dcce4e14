"""SCNN trained on batches, as a scikit-learn transformer."""

from __future__ import annotations

import copy
import math
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from lincode.core.arrays import (
    Array,
    RowLengths,
    Rows,
    blocks,
    dense,
    is_lazy,
    scan_rows,
)
from lincode.core.dictionary import Start
from lincode.core.threshold import n_calibration_rows
from lincode.encoder.refinement import (
    BATCH_ROWS,
    HeldOutRows,
    Schedule,
    SparseGradients,
    max_rows,
    shuffled_batches,
)
from lincode.estimators.base import (
    DEFAULT_DENSITY,
    MAX_HELD_OUT,
    MIN_SPLIT,
    BaseSCNN,
    held_out_rows,
    n_start_samples,
)
from lincode.estimators.validation import (
    Constraint,
    check_finite,
    check_rows,
    check_samples,
    check_scale,
    check_seed,
    choice,
    either,
    largest_entry,
    number,
    unchanged_on_failure,
    warn_user,
)
from lincode.exceptions import InvalidInputError
from lincode.training.alternation import n_ridge_rows
from lincode.training.lazy_rows import LazyRows, RowSample, shuffled_indices
from lincode.training.loop import Progress, Reason, with_callbacks
from lincode.training.online import (
    REPEATS,
    BatchStopping,
    OnlineTraining,
    RecentRows,
    online_batch_size,
)
from lincode.training.threads import (
    blas_threads,
    matrix_threads,
    ordered_map,
    prefetch,
    thread_count,
)

MAX_ITER_REASON = "max_iter passes over the data were made; increase max_iter or tol"
CONVERGED_REASON = "converged: the energy of new batches no longer decreases"
START_REASON = "the network was refined on the following batches"
PARTIAL_FIT_REASON = "partial_fit learns one batch"
MIN_SAMPLED_ROWS, SAMPLED_ROWS_PER_UNIT, SAMPLED_BYTES = 1000, 4, 128 * 2**20
"""How many rows of data that are not in memory are sampled for the initial atoms, and the largest
size of the sample from which the ridge and the directions of the refinement are chosen."""
MIN_START_ROWS, START_ROWS_PER_UNIT = 20_000, 10
"""With refinement, the energy is minimised with this number of rows."""

Batches = Generator[tuple[Rows, Array | None], None, None]


def n_start_rows(m: int) -> int:
    """Return after how many rows a network with m units is refined."""
    return max(MIN_START_ROWS, START_ROWS_PER_UNIT * m)


class MiniBatchSCNN(BaseSCNN):
    """SCNN trained on batches, in memory that does not depend on the number of samples.

    It minimises the same energy as :class:`lincode.SCNN`,

        E = 1/p ‖X − U D‖² + η/m (‖U − X Cᵀ‖² + ρ‖C‖²) + 2λ/m ‖U‖₁    s.t. ‖D[j]‖ ≤ 1.

    Each batch is learned by one update of its codes, the dictionary and the encoder, as in online
    dictionary learning. Of earlier batches only the sums UᵀU, UᵀX, ‖U‖₁ and XᵀX are kept. After
    max(20,000, 10 * n_components) samples, the network is refined on the following batches.

    Parameters
    ----------
    n_components : int, default=None
        The number m of units: atoms of the dictionary and features of the code. None means the
        number of features.
    density : float or int, default=0.1
        How sparse the codes are. A float in (0, 1] is the mean fraction of non-zeros of the codes
        of new samples: one threshold is chosen on samples that are held out. An int k means that
        every code has the k largest outputs of the encoder. It also determines the number of
        non-zeros of "omp" codes.
    alpha : float or "auto", default="auto"
        The weight λ ≥ 0 of the ℓ1 penalty in training. "auto" follows from the density and the mean
        length of the samples: the trained codes are two to four times as dense. The value that was
        used is stored in ``alpha_``. ``alpha_max(X)`` is the upper end of its range.
    encoder_weight : float, default=1.0
        The weight η ≥ 0 of the encoder term. The paper uses 1. 0 means plain dictionary learning;
        the encoder is then fitted once, after training.
    encoder_ridge : float or "auto", default="auto"
        The ridge ρ of the encoder, relative to the mean eigenvalue of XᵀX. The encoder term of the
        energy is η/m (‖U − X Cᵀ‖² + ρ‖C‖²). The paper uses 0. A ridge keeps the encoder from
        overfitting. "auto" chooses between 0.01 and 3 by generalised cross-validation before
        training. The chosen value is stored in ``encoder_ridge_``.
    refine : bool, default=True
        Whether the encoder and the dictionary are refined after training, by stochastic gradients
        of the reconstruction error of the encoder's own codes. With more than 1024 units E is not
        minimised before, and the refinement starts from random samples as atoms, unless one of
        ``alpha``, ``encoder_weight`` and ``encoder_ridge`` is set. False gives the
        network that minimises E, with a dictionary and a threshold that are fitted to the codes of
        its encoder.
    transform_algorithm : {"encoder", "projection", "lasso", "omp", "exact", "paper"}, \
            default="encoder"
        How ``transform`` computes codes.

        - "encoder": the largest outputs X Cᵀ, which costs one matrix product;
        - "projection": the same non-zeros with the values of least squares, where atoms that depend
          on others get 0. It costs little more and reconstructs better;
        - "lasso": the U that minimises the reconstruction and ℓ1 terms for the learned D, without
          the encoder. The paper calls this re-learning;
        - "omp": orthogonal matching pursuit with as many non-zeros as the density says;
        - "exact": the U that minimises E for the learned D and C. It requires ``refine=False``;
        - "paper": the soft threshold of X Cᵀ at alpha / encoder_weight (alpha if the weight is 0),
          as in the paper. It requires ``refine=False``.

        With "exact" and "paper" in ``fit``, the dictionary is the one that minimises E.
    transform_alpha : float, default=None
        The alpha of the "lasso" and "exact" codes of ``transform``, if it is not to be that of
        training. It has the unit of ``alpha``, which is n_components / n_features times the alpha
        of scikit-learn and of :func:`lincode.sparse_encode`.
    positive_code : bool, default=False
        Whether to constrain the codes to U ≥ 0. It excludes "omp".
    positive_dict : bool, default=False
        Whether to constrain the dictionary to D ≥ 0.
    split_sign : bool, default=False
        Whether to return the positive and negative parts of the codes as separate non-negative
        features. The output then has 2 * n_components columns: first the positive parts, then
        the negative parts. Linear classifiers profit from it.
    sparse_output : bool, default=False
        Whether ``transform`` returns compressed codes (CSR). They are built block by block, without
        a dense array of all codes.
    dict_init : array of shape (n_components, n_features), default=None
        The first atoms, which are projected onto the unit balls. None means random samples,
        normalised to length 1. The encoder starts from zero.
    batch_size : int, default=None
        The number of samples per batch. None means 512 in the refinement, and before it the largest
        of 1024, ``n_components`` and half the number of features; for ``encoder_weight=0`` the
        larger of 512 and ``n_components``. ``partial_fit`` learns a larger batch in parts.
    max_iter : int, default=100
        The largest number of passes over the data in ``fit``.
    tol : float, default=2e-3
        ``fit`` stops when the error of held-out samples (with ``refine=False``, the energy of new
        batches) has not decreased by this fraction for ``max_no_improvement`` times. Before that,
        when it has not decreased by twice this fraction as often, the steps become shorter.
    max_no_improvement : int, default=3
        After how many measurements without improvement ``fit`` stops. None means that all
        ``max_iter`` passes are made. The error is measured after every 100 batches. With
        ``refine=False`` the energy is averaged over 5000 samples (20,000 for ``encoder_weight=0``).
    n_jobs : int, default=None
        The number of threads, including those of the BLAS library. None means as many as the BLAS
        library uses, −1 means all cores. The result does not depend on it, except for rounding.
    random_state : int, RandomState instance or None, default=None
        The seed of the random start and of the order of the samples. Pass an int for reproducible
        results.
    verbose : int, default=0
        If above 0, one line per batch and per 100 steps of the refinement is printed.
    callback : callable, default=None
        It is called with a :class:`lincode.Iteration` after each batch of the training that
        minimises E, and after every 100 steps of the refinement. If it returns a true value, this
        part of the training stops. See :class:`lincode.callbacks.Checkpoint`.

    Attributes
    ----------
    components_, encoder_, threshold_, density_, usage_, alpha_, encoder_ridge_, noise_variance_, \
            n_replaced_atoms_, n_features_in_, feature_names_in_
        See :class:`lincode.SCNN`.
    encoder_r2_ : float
        The fraction of the data, 1 − ‖X − R‖²/‖X‖², that the reconstruction R from the encoder's
        codes explains, measured on samples that are held out from the refinement, or with
        ``partial_fit`` on samples that are new. If X is not in memory and has more than 128 MiB,
        they are a random sample, which training may use too.
    energy_path_ : array of shape (n_steps,)
        The energy per sample of each batch before it was learned, without the refinement.
    energy_ : float
        The smoothed energy per sample; NaN if the refinement started from samples.
    n_steps_ : int
        The number of batches that were learned, without those of the refinement in ``fit``.
    n_samples_seen_ : int
        The number of samples of these batches; repeated passes count.
    n_iter_ : int
        The number of passes over the data that minimise E, the last of which may be incomplete. It
        is 1 after ``partial_fit``.
    stop_reason_ : str
        The reason why the training that minimises E stopped.

    See Also
    --------
    SCNN : Trains on all samples at once.

    Examples
    --------
    >>> import numpy as np
    >>> from lincode import MiniBatchSCNN
    >>> rng = np.random.default_rng(0)
    >>> scnn = MiniBatchSCNN(n_components=8, density=0.5, random_state=0)
    >>> for _ in range(3):
    ...     scnn = scnn.partial_fit(rng.standard_normal((100, 5)))
    >>> scnn.n_samples_seen_
    300
    """

    _constraints: ClassVar[dict[str, Constraint]] = BaseSCNN._constraints | {
        "batch_size": either(choice(None), number(1, integer=True)),
        "max_iter": number(1, integer=True),
        "max_no_improvement": either(choice(None), number(1, integer=True)),
    }
    _training: OnlineTraining
    _gradients: SparseGradients | None
    _is_refined: bool

    def __init__(
        self,
        n_components: int | None = None,
        *,
        density: float = DEFAULT_DENSITY,
        alpha: float | str = "auto",
        encoder_weight: float = 1.0,
        encoder_ridge: float | str = "auto",
        refine: bool = True,
        transform_algorithm: str = "encoder",
        transform_alpha: float | None = None,
        positive_code: bool = False,
        positive_dict: bool = False,
        split_sign: bool = False,
        sparse_output: bool = False,
        dict_init: ArrayLike | None = None,
        batch_size: int | None = None,
        max_iter: int = 100,
        tol: float = 2e-3,
        max_no_improvement: int | None = 3,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.n_components = n_components
        self.density = density
        self.alpha = alpha
        self.encoder_weight = encoder_weight
        self.encoder_ridge = encoder_ridge
        self.refine = refine
        self.transform_algorithm = transform_algorithm
        self.transform_alpha = transform_alpha
        self.positive_code = positive_code
        self.positive_dict = positive_dict
        self.split_sign = split_sign
        self.sparse_output = sparse_output
        self.dict_init = dict_init
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.max_no_improvement = max_no_improvement
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
            lazy = lazy if sample.shape[0] < lazy.shape[0] else None  # all rows are in memory
        else:
            samples = check_samples(self, X, reset=True)
            (sample, penalties), lengths = samples.filled(), samples.lengths
        N = (sample if lazy is None else lazy).shape[0]
        too_large = self._start_training(sample, lengths, rng)
        seed = int(rng.randint(2**31))
        held = others = np.arange(sample.shape[0])
        refines = self.refine and sample.shape[0] >= MIN_SPLIT
        if refines:
            held, others = held_out_rows(sample.shape[0], rng)
        size, m = self._training.batch_size, len(self._training.D)
        self._warn_about_few(N, m)
        with blas_threads(matrix_threads(max(self._training.D.shape), self._training.n_threads)):
            progress = Progress(self, self.max_iter * -(-N // size), X, y)
            if refines and self._starts_from_samples(m):
                chosen = np.sort(others[: n_start_samples(m, sample.shape[1])])
                self._set_start(sample[chosen], Start(self._training.D, self._training.C), N)
                self.n_steps_ = self.n_samples_seen_ = 0
            else:
                self._training.choose_ridge(sample, N)
                if lazy is not None:
                    read = lazy.shuffled_batches(size, self.max_iter, seed)
                    batches: Batches = ((block, None) for block in prefetch(read))
                else:
                    order = shuffled_indices(len(others), size, self.max_iter, seed)
                    batches = (
                        (sample[rows], None if penalties is None else penalties[rows])
                        for rows in (np.sort(others[part]) for part in order)
                    )
                with closing(batches):  # this ends the thread that reads
                    self._learn_batches(batches, N, progress)
            self.n_iter_ = -(-self.n_samples_seen_ // N)
            if refines:
                self._refine_batches(lazy, sample, others, sample[np.sort(held)], seed, progress)
        progress.finish()
        if self.stop_reason_ == MAX_ITER_REASON and self.max_no_improvement is not None:
            warn_user(f"MiniBatchSCNN: {self.stop_reason_}.", ConvergenceWarning)
        self._warn_about_codes(alpha_is_too_large=too_large)
        return self

    def _refine_batches(
        self,
        lazy: LazyRows | None,
        X: Rows,
        others: NDArray[np.intp],
        held_out: Rows,
        seed: int,
        progress: Progress,
    ) -> None:
        """Refine on batches of all samples. X are those in memory; ``others`` are not held out."""
        n, limit = self.batch_size or BATCH_ROWS, max_rows(X.shape[1])
        N = len(others) if lazy is None else lazy.shape[0]
        sample = X[np.sort(others[:limit])]
        with blas_threads(1):
            gradients = self._new_gradients(sample)
            directions = gradients.directions
            if lazy is not None:
                read = prefetch(lazy.shuffled_batches(n, self.max_iter, seed + 1))
                batches: Generator[Array, None, None] = (directions.rotated(X) for X in read)
            elif limit >= N:
                batches = shuffled_batches(sample, directions, n)
            else:
                order = shuffled_indices(N, n, self.max_iter, seed + 1)
                batches = (directions.rotated(X[np.sort(others[rows])]) for rows in order)
            schedule = Schedule(self.max_iter * -(-N // n), self.tol, self.max_no_improvement)
            with closing(batches):  # this ends the thread that reads
                self._set_refined(gradients, batches, sample, held_out, schedule, progress)

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
        first, too_large, progress = not hasattr(self, "_training"), False, Progress(self)
        samples = check_samples(self, X, reset=first, allow_unobserved=not first)
        X, penalties = samples.filled(None if first else self._training.moments())
        if first:
            too_large = self._start_training(X, samples.lengths, check_seed(self.random_state))
        else:
            self._continue_training()
            advice = "This is the size of earlier batches; pass X in float64."
            check_scale(X.dtype, self._training.scale(), advice)
        training, (m, p) = self._training, self._training.D.shape
        is_refined = not first and (self._is_refined or training.n_seen >= n_start_rows(m))
        if self.refine and (is_refined or self._starts_from_samples(m)):
            if first:
                sample, start = X[: n_start_samples(m, p)], Start(training.D, training.C)
                self._set_start(sample, start, X.shape[0])
            self._refine_batch(X)
        else:
            with blas_threads(matrix_threads(max(training.D.shape), training.n_threads)):
                if first:
                    training.choose_ridge(X, X.shape[0])
                rows, trained = training.learn_and_finish(X, penalties)
                assert training.recent is not None
                recent = None
                if len(training.recent.batches) > 1:
                    recent = training.recent.rows()[0].astype(X.dtype, copy=False)
                self._set_trained(trained, rows, recent)
        self._set_progress(PARTIAL_FIT_REASON)
        self.n_iter_ = 1
        self._report(progress, None, self.n_steps_)
        if first:
            self._warn_about_codes(alpha_is_too_large=too_large)
        return self

    def _refine_batch(self, X: Rows) -> None:
        """Refine the network by one batch. New samples measure it and determine its threshold."""
        self._training.n_seen += X.shape[0]
        self._training.n_batches += 1
        if largest_entry(X) == 0:  # nothing is learned; their scale is not that of other samples
            return self._set_network(self._network(), self.usage_, X.dtype)
        with blas_threads(1):
            gradients = copy.deepcopy(getattr(self, "_gradients", None))
            if gradients is None or not self._is_present(gradients):
                gradients = self._new_gradients(X, self._training.XtX)
            held = HeldOutRows.of(X, gradients.directions)
            r2, measured = held.measure(gradients.network(), gradients.density)
            weight = min(1.0, X.shape[0] / MAX_HELD_OUT)
            run = partial(ordered_map, n_threads=thread_count(self.n_jobs))
            repeats = REPEATS if X.shape[0] >= BATCH_ROWS else 1
            for _ in range(repeats):
                for rows in blocks(X.shape[0], self.batch_size or BATCH_ROWS):
                    gradients.step(held.Y[rows], run)
            network = gradients.in_features(replace(gradients.average, rule=measured.rule))
            before, threshold = self.threshold_, network.rule.threshold
            if before is not None:
                threshold = before + weight * (threshold - before)
            network = replace(network, rule=replace(network.rule, threshold=threshold))
            S = network.rule.apply(np.ascontiguousarray(X @ network.C.T.astype(X.dtype)))
            usage = self.usage_ + weight * (np.mean(S != 0, axis=0) - self.usage_)
        self._set_network(network, usage, X.dtype)
        self.encoder_r2_ += weight * (r2 - self.encoder_r2_)
        self._gradients, self._is_refined = gradients, True

    def _is_present(self, gradients: SparseGradients) -> bool:
        """Return whether the refinement belongs to the present parameters."""
        rule, m = replace(gradients.rule, threshold=0.0), len(self.encoder_)
        same = gradients.positive_dict == self.positive_dict and rule == self._new_rule(m)
        return same and gradients.density == self._fraction(m)

    def _calibrate(self, *args: Any) -> None:
        super()._calibrate(*args)
        self._gradients = None

    def _start_training(self, X: Rows, lengths: RowLengths, rng: np.random.RandomState) -> bool:
        """Resolve alpha and start from some samples; return whether alpha is too large."""
        p = X.shape[1]
        m = self._n_units(p)
        self._gradients, self._is_refined = None, False
        too_large = self._set_alpha(lengths, m, p)
        start = self._new_start(lambda rows: dense(X[rows]), X.shape, rng)
        self._training = OnlineTraining(start.D, start.C, **self._training_parameters(m, p))
        return too_large

    def _training_parameters(self, m: int, p: int) -> dict[str, Any]:
        size = self.batch_size or online_batch_size(m, p, float(self.encoder_weight))
        return {
            "weights": self._weights(),
            "batch_size": int(size),
            "n_threads": thread_count(self.n_jobs),
        }

    def _continue_training(self) -> None:
        """Prepare the state for one more batch, with the present parameters."""
        m, p = self._training.D.shape
        if self._n_units(p) != m:
            raise InvalidInputError(
                f"n_components must remain {m} between calls of partial_fit, got"
                f" {self._n_units(p)}; call fit to start again."
            )
        if self.alpha != "auto":
            self.alpha_ = float(self.alpha)
        self._training = self._training.copied()  # the state before remains if this fails
        vars(self._training).update(self._training_parameters(m, p))

    def _scan(self, X: LazyRows, rng: np.random.RandomState) -> tuple[Rows, RowLengths]:
        """Read and check X once; return a random sample of its rows, and the row lengths."""
        check_rows(self, np.zeros((1, X.shape[1]), X.dtype), reset=True)
        n = max(MIN_SAMPLED_ROWS, SAMPLED_ROWS_PER_UNIT * self._n_units(X.shape[1]))
        n_sampled = SAMPLED_BYTES // X.row_bytes
        wanted = n_sampled if self.refine else n_ridge_rows(X.shape[1])
        sample = RowSample(max(n, min(wanted, n_sampled)), rng)
        largest = longest = total = 0.0
        for rows, block in prefetch(X.blocks()):
            block_largest, lengths = scan_rows(block)
            if not math.isfinite(lengths.mean):
                advice = "missing entries need an array in memory, or partial_fit"
                check_finite(self, block, first_row=rows.start, nan_advice=advice)
            largest, longest = max(block_largest, largest), max(lengths.longest, longest)
            total += lengths.mean * block.shape[0]
            sample.add(block)
        check_scale(X.dtype, largest)
        return sample.result(), RowLengths(longest, total / X.shape[0])

    def _learn_batches(self, batches: Batches, N: int, progress: Progress) -> None:
        """Learn batches and set the fitted attributes. With refinement, they are only the start."""
        training = self._training
        eta = training.weights.eta if training.uses_encoder else 0.0
        rule = BatchStopping(self.tol, self.max_no_improvement, N, eta)
        training.recent = RecentRows(min(n_calibration_rows(len(training.D)), N))
        max_batches, reason = self.max_iter * -(-N // training.batch_size), MAX_ITER_REASON
        for X, penalties in batches:
            progress.begin()
            training.learn(X, penalties)
            if self._report(progress, training, max_batches):
                reason = Reason.CALLBACK.value
                break
            if rule.add(X, training.energy_path[-1]):
                reason = CONVERGED_REASON
                break
            if self.refine and training.n_seen >= n_start_rows(len(training.D)):
                reason = START_REASON
                break
        rows, trained = training.finish()
        training.recent = None
        self._set_trained(trained, rows)
        self._set_progress(reason)

    def _report(
        self, progress: Progress, unfinished: OnlineTraining | None, max_batches: int
    ) -> bool:
        """Report a batch; return whether a callback requests a stop.

        ``unfinished`` is the training whose result is not yet in the fitted attributes.
        """
        path, is_refined = self._training.energy_path, unfinished is None and self._is_refined
        return progress.end(
            unfinished,
            n_iter=self._training.n_batches,
            max_iter=max_batches,
            energy_per_sample=np.nan if is_refined else path[-1],
            change=np.nan if is_refined else self._training.change(),
            n_samples=self._training.n_seen,
            stage="refinement" if is_refined else "batches",
            encoder_r2=self.encoder_r2_ if is_refined else np.nan,
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
            return self._fitted_copy()  # type: ignore[no-any-return]
        result: MiniBatchSCNN = self._unfitted_copy()
        result._training = training.copied()
        rows, trained = result._training.finish()
        result._training.recent = None
        result._set_trained(trained, rows)
        result._set_progress("this is a snapshot during training")
        result.n_iter_ = 1
        return result
