"""SCNN as a scikit-learn transformer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from lincode.core.arrays import dense
from lincode.core.dictionary import Start
from lincode.encoder.refinement import max_rows
from lincode.estimators.base import (
    DEFAULT_DENSITY,
    MIN_SPLIT,
    START_CODES,
    BaseSCNN,
    held_out_rows,
    n_start_samples,
)
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
from lincode.training.alternation import (
    SCNNTraining,
    choose_ridge_for,
    subset_sizes,
    train_in_stages,
)
from lincode.training.loop import Outcome, Progress, Reason, with_callbacks
from lincode.training.rows import MemoryRows, RowSource
from lincode.training.threads import blas_threads, matrix_threads, thread_count

ROWS_PER_UNIT = 2
"""With refinement, the energy is minimised with max(4,000,000 / m, 2 m) samples."""
START_ITERATIONS, MAX_ITERATIONS = 10, 200
"""The defaults of max_iter with and without refinement. With 3 instead of 10 iterations, the error
of the refined network was up to 4 % larger."""
START_REASON = "the iterations before the refinement were made"
MAX_ENCODER_RESIDUAL = 1e-3
"""A larger residual of the encoder step means that it ignores some features."""


class SCNN(BaseSCNN):
    """Sparse coding with a dictionary and a linear encoder that are learned together.

    For samples X of shape (N, p) and m units, SCNN minimises

        E = 1/p ‖X − U D‖² + η/m (‖U − X Cᵀ‖² + ρ‖C‖²) + 2λ/m ‖U‖₁    s.t. ‖D[j]‖ ≤ 1

    over the codes U, the dictionary D and the encoder C. Then D and C are refined, so that the
    largest outputs x Cᵀ of the encoder reconstruct a sample x. The code of a new sample costs one
    matrix product.

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
        of the reconstruction error of the encoder's own codes. The training that minimises E is
        then short and only the start. With more than 1024 units there is no such training, and the
        refinement starts from random samples as atoms, unless one of ``alpha``,
        ``encoder_weight``, ``encoder_ridge``, ``tol`` and ``max_iter`` is set. False
        gives the network that minimises E, with a dictionary and a threshold that are fitted to
        the codes of its encoder. Fewer than 50 samples are not refined.
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
    max_iter : int, default=None
        The largest number of iterations of the training that minimises E. None means 200, or 10
        with ``refine=True``.
    tol : float, default=1e-4
        This training stops when the energy decreases by at most ``tol`` in one iteration, relative
        to the energy or to its total decrease, whichever is smaller.
    warm_start : bool, default=False
        Whether ``fit`` starts from the present dictionary, and with ``refine=False`` also from the
        present encoder.
    n_jobs : int, default=None
        The number of threads, including those of the BLAS library. None means as many as the BLAS
        library uses, −1 means all cores. The result does not depend on it, except for rounding.
    random_state : int, RandomState instance or None, default=None
        The seed of the random start and of the held-out samples. Pass an int for reproducible
        results.
    verbose : int, default=0
        If above 0, one line per iteration and per 100 steps of the refinement is printed.
    callback : callable, default=None
        It is called with a :class:`lincode.Iteration` after each iteration of the training that
        minimises E, and after every 100 steps of the refinement. If it returns a true value, this
        part of the training stops. See :class:`lincode.callbacks.Checkpoint`.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary D, one atom per row. The largest entry in absolute value of each atom is
        positive, unless ``positive_code=True``.
    encoder_ : array of shape (n_components, n_features)
        The encoder C, one filter per row.
    threshold_ : float or None
        The threshold of the outputs of the encoder; None if the density is an int.
    density_ : float, int or None
        The density to which the network belongs; None with "exact" and "paper".
    encoder_r2_ : float
        The fraction of the data, 1 − ‖X − R‖²/‖X‖², that the reconstruction R from the encoder's
        codes explains. It is measured on samples that are held out from training and refinement.
        With ``refine=False`` it belongs to leave-one-out outputs of the encoder.
    usage_ : array of shape (n_components,)
        The fraction of the training samples whose codes use each unit. Those of the encoder count,
        or with "exact" and "paper" the trained codes.
    alpha_ : float
        The value of alpha that was used.
    encoder_ridge_ : float
        The ridge of the encoder that was used, relative to the mean eigenvalue of XᵀX.
    noise_variance_ : float
        The variance of the noise on the encoder's input that the ridge is equivalent to, ρ/N.
    energy_ : float
        The energy per sample, E/N, of the samples with which it was minimised, before refinement.
        With ``refine=True`` these are at most max(4,000,000 / n_components, 2 * n_components)
        samples. It is NaN if the refinement started from samples as atoms.
    energy_path_ : array of shape (n_iter + 1,)
        E/N at the start and after each iteration over all of these samples. It never increases.
    n_iter_ : int
        The number of iterations over all of these samples.
    stop_reason_ : str
        The reason why this training stopped.
    optimality_ : dict of str to float
        The relative optimality residual of each step at the end of this training; 0 is optimal.
        "codes" belongs to the last U step, "dictionary" and "encoder" to the D and C steps, and
        "joint" to the same codes with the final D and C.
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
    The parameters that begin with ``transform_``, ``split_sign`` and ``sparse_output`` can be
    changed after ``fit``; only "paper" must be set before. After a change of ``density`` call
    ``calibrate``.

    The network of the paper is ``SCNN(m, alpha=λ, encoder_ridge=0, refine=False,
    transform_algorithm="paper")``.

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
    >>> scnn = SCNN(n_components=32, density=0.2, random_state=0).fit(X)
    >>> codes = scnn.transform(X)
    >>> codes.shape
    (1797, 32)
    >>> scnn.inverse_transform(codes).shape
    (1797, 64)
    """

    _energy_parameters = (*BaseSCNN._energy_parameters, "tol", "max_iter")
    _constraints: ClassVar[dict[str, Constraint]] = BaseSCNN._constraints | {
        "max_iter": either(choice(None), number(1, integer=True)),
        "warm_start": FLAG,
    }

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
        max_iter: int | None = None,
        tol: float = 1e-4,
        warm_start: bool = False,
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
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
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
        (N, p), m = rows.shape, self._n_units(rows.shape[1])
        too_large = self._set_alpha(rows.row_lengths(), m, p)
        self._warn_about_few(N, m)
        is_warm = self.warm_start and hasattr(self, "components_")
        refines, sizes = self.refine and N >= MIN_SPLIT, subset_sizes(N, p, m)
        sizes = [] if refines or is_warm else sizes
        max_iter = self.max_iter or (START_ITERATIONS if refines else MAX_ITERATIONS)
        progress = Progress(self, max_iter * (len(sizes) + 1), X, y)
        with blas_threads(matrix_threads(max(m, p), thread_count(self.n_jobs))):
            start = self._present_weights(m, p) if is_warm else self._first_weights(rows, rng)
            held, others = held_out_rows(N, rng) if refines else (np.arange(0), np.arange(N))
            if refines and self._starts_from_samples(m):
                self._set_start(rows.take(np.sort(others[: n_start_samples(m, p)])), start, N)
            else:
                trained, weights = rows, self._weights()
                if refines:
                    n = max(START_CODES // m, ROWS_PER_UNIT * m)
                    trained = rows.subset(np.sort(others[:n]))
                    if weights.ridge is None:
                        ridge = choose_ridge_for(trained, start.D, weights, N)
                        weights = replace(weights, ridge=ridge)
                trained.set_codes(start.C, weights.thresholding)
                training, outcome = train_in_stages(
                    trained,
                    start.D,
                    start.C,
                    weights,
                    sizes=sizes,
                    rng=rng,
                    tol=self.tol,
                    max_iter=max_iter,
                    progress=progress,
                )
                self._set_result(training, outcome)
                self._warn_about_training(outcome)
            if refines:
                refined = np.sort(others[: max_rows(p)])
                self._refine(rows.take(refined), rows.take(np.sort(held)), progress)
        progress.finish()
        self._warn_about_codes(alpha_is_too_large=too_large)
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
        D, C = (A.astype(np.float64) for A in (self.components_, self.encoder_))
        # A refined encoder is far from the one that minimises E, and would be a worse start.
        is_far = self.refine and not self._starts_from_samples(m)
        return Start(D=D, C=np.zeros_like(C) if is_far else C)

    def _set_result(self, training: SCNNTraining, outcome: Outcome) -> None:
        """Set all fitted attributes except for those of the data and of the refinement."""
        self._set_trained(training.result(), training.rows)
        self.energy_path_ = np.array(outcome.energy_path) / training.n
        self.energy_ = float(self.energy_path_[-1])
        self.n_iter_ = outcome.n_iter
        self.stop_reason_ = START_REASON if self._is_start(outcome) else outcome.reason.value

    def _snapshot(self, training: SCNNTraining) -> SCNN:
        """Return a fitted copy during training, which is not refined."""
        copy: SCNN = self._unfitted_copy()
        copy._set_trained(training.snapshot(), training.rows)
        copy.energy_ = training.energy() / training.n
        copy.energy_path_, copy.n_iter_ = np.array([copy.energy_]), 0
        copy.stop_reason_ = "this is a snapshot during training"
        return copy

    def _is_start(self, outcome: Outcome) -> bool:
        """Return whether training made all iterations before the refinement."""
        return outcome.reason is Reason.MAX_ITER and bool(self.refine)

    def _warn_about_training(self, outcome: Outcome) -> None:
        if outcome.reason is Reason.MAX_ITER and not self._is_start(outcome):
            warn_user(f"SCNN: {outcome.reason.value}.", ConvergenceWarning)
        if self.optimality_["encoder"] > MAX_ENCODER_RESIDUAL:
            warn_user(
                "SCNN: some features of X are so small compared with the others that the encoder"
                " ignores them; scale the features (StandardScaler, MaxAbsScaler)."
            )
