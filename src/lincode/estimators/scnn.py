"""SCNN as a scikit-learn transformer: its parameters and its training."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from lincode.core.encoder_step import EncoderFactor, factor_data
from lincode.core.init import Start
from lincode.core.types import Array, Rows
from lincode.estimators._checks import (
    check_choice,
    check_flag,
    check_number,
    check_rows,
    unchanged_on_failure,
)
from lincode.estimators._scnn import BaseSCNN
from lincode.networks._alternate import Callback, Iteration, Outcome, Reason, alternate
from lincode.networks.scnn import SCNNTraining, Trained
from lincode.networks.scnn_paper import T_MAX, PaperTraining
from lincode.rows.memory import MemoryRows
from lincode.rows.threads import thread_count

MAX_ITER = 200
"""Outer iterations of the default solver."""


class SCNN(BaseSCNN):
    """Sparse codes by one matrix product: a dictionary and a linear encoder learned together.

    Minimises over the codes U, the dictionary D and the encoder C

        E = 1/p ‖X − U D‖² + η/m ‖U − X Cᵀ‖² + 2λ/m ‖U‖₁    s.t. ‖D[j]‖ ≤ 1

    for N samples X of p features and m units, so that the code of an unseen sample is
    ``soft_threshold(x Cᵀ, λ)`` instead of an optimisation of its own.

    Parameters
    ----------
    n_components : int, default=None
        Number m of units (atoms of the dictionary, features of the code). None means the
        number of features.
    alpha : float, default=0.1
        Sparsity λ ≥ 0. Its scale is that of the data: see :meth:`alpha_max`.
    encoder_weight : float, default=1.0
        Factor η ≥ 0 of the encoder term; 1 is the paper's. The larger, the closer the
        encoder's codes to the exact ones, and the denser both. 0 is plain dictionary
        learning; the encoder is then fitted once at the end.
    threshold : float or "match", default=None
        Threshold of the encoder at ``transform``. None means ``alpha / encoder_weight``, the
        minimiser of the encoder and ℓ1 terms, or ``alpha`` where the weight is 0. The encoder
        was fitted to codes that are shrunk already and this shrinks them again, so its codes
        are much sparser than the trained ones; "match" means ``matching_threshold_``, at which
        they are just as sparse.
    transform_method : {"encoder", "exact", "relearn"}, default="encoder"
        What ``transform`` gives.

        - "encoder": ``soft_threshold(X Cᵀ, threshold)``, one matrix product;
        - "exact": the U that minimises E for the learned D and C;
        - "relearn": the U that minimises the reconstruction and ℓ1 terms, with D alone
          (the paper's "SCNN with re-learning").
    split_sign : bool, default=False
        Give positive and negative parts of the codes as separate features, all ≥ 0: the
        output has 2m columns, first the positive parts, then the negative ones.
    sparse_output : bool, default=False
        Give codes as a CSR matrix, made a block at a time: the dense array never exists.
    positive_code : bool, default=False
        Demand U ≥ 0.
    init : {"data", "paper"} or array of shape (n_components, n_features), default="data"
        Where training starts.

        - "data": atoms are samples drawn at random and scaled to length 1; C = 0, U = 0;
        - "paper": U, D and C uniform in [−1, 1]; D is brought into the unit balls;
        - an array: the atoms, brought into the unit balls; C = 0, U = 0.
    solver : {"auto", "paper"}, default="auto"
        "auto" solves each step by the method that suits it. "paper" is Algorithm 1 of the
        paper with its plain gradient iterations: a slow reference. It revives no atoms and
        stops on the change of the network's reconstruction error instead of the energy's.
    max_iter : int, default=None
        Most outer iterations. None means 200, and the paper's 50 with ``solver="paper"``.
    tol : float, default=1e-4
        Training ends when an outer iteration changes the energy by at most this share.
    transform_tol : float, default=1e-6
        Optimality residual to which codes are solved at ``transform`` and ``score`` when
        they are solved at all. Not below what the precision of X can tell.
    n_jobs : int, default=None
        Threads. None means as many as the BLAS library would use; −1 all cores. The result
        does not depend on it beyond rounding.
    random_state : int, RandomState instance or None, default=None
        Seed of the start.
    warm_start : bool, default=False
        Start the next ``fit`` from the present dictionary and encoder instead of ``init``.
    verbose : int, default=0
        Above 0, print a line before the first and after each outer iteration.
    callback : callable, default=None
        Called after each outer iteration with a :class:`lincode.Iteration`. Training ends
        there, and what was learned is kept, if it returns something true.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary D, an atom a row. Each atom's largest entry in absolute value is
        positive (the first of equals), unless ``positive_code``.
    encoder_ : array of shape (n_components, n_features)
        The encoder C, a filter a row.
    matching_threshold_ : float
        The threshold at which the encoder's codes of the training samples are as sparse as
        the trained codes (measured on at most 10,000 of them, evenly spaced).
    energy_ : float
        E on the training data, the sum over samples as above.
    energy_path_ : array of shape (n_iter_ + 1,)
        E at the start and after each outer iteration, the last being ``energy_``. It never
        rises.
    n_iter_ : int
        Outer iterations done.
    stop_reason_ : str
        Why training ended, in a sentence.
    optimality_ : dict of str to float
        How far from optimal each step is at the end, relative; 0 is optimal. "codes" for the
        last U step, "dictionary" and "encoder" for the D and C steps, and "joint" for the
        same codes with the D and C that came after them: how much the worst row would still
        like to move. At the default ``tol`` a few hundredths of "joint" are usual and worth
        about 1e-4 of the energy; a lower ``tol`` brings it down.
    usage_ : array of shape (n_components,)
        Share of the training samples that use each atom.
    n_revived_ : int
        How often an atom that no sample used was pointed at a badly reconstructed sample.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where X had column names that are all strings.

    Notes
    -----
    Codes are made with the parameters as they are when they are made: ``threshold``,
    ``transform_method``, ``split_sign``, ``transform_tol``, ``positive_code``, ``alpha`` and
    ``encoder_weight`` may be changed after ``fit`` and count from then on.

    References
    ----------
    Montalto, Tessitore, Prevete: A linear approach for sparse coding by a two-layer neural
    network. Neurocomputing 149 (2015).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import SCNN
    >>> X = load_digits().data / 16
    >>> scnn = SCNN(n_components=32, alpha=0.1, random_state=0).fit(X)
    >>> codes = scnn.transform(X)
    >>> codes.shape
    (1797, 32)
    >>> scnn.inverse_transform(codes).shape
    (1797, 64)
    """

    def __init__(
        self,
        n_components: int | None = None,
        alpha: float = 0.1,
        *,
        encoder_weight: float = 1.0,
        threshold: float | str | None = None,
        transform_method: str = "encoder",
        split_sign: bool = False,
        sparse_output: bool = False,
        positive_code: bool = False,
        init: str | ArrayLike = "data",
        solver: str = "auto",
        max_iter: int | None = None,
        tol: float = 1e-4,
        transform_tol: float = 1e-6,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.encoder_weight = encoder_weight
        self.threshold = threshold
        self.transform_method = transform_method
        self.split_sign = split_sign
        self.sparse_output = sparse_output
        self.positive_code = positive_code
        self.init = init
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.transform_tol = transform_tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: Any, y: object = None) -> SCNN:
        """Learn the dictionary and the encoder of X.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            known = getattr(self, "components_", None) if self.warm_start else None
            X = check_rows(self, X, reset=True, scale=True)
            start = self._start(X, known)
            if self.verbose:
                print(
                    f"[SCNN] {X.shape[0]} samples of {X.shape[1]} features: factoring", flush=True
                )
            _, outcome = self._train(self._rows(X, start), start.D, start.C, factor_data(X))
        self._warn_of_training(outcome)
        self._warn_of_codes(X)
        return self

    def _start(self, X: Rows, known: Array | None) -> Start:
        if known is None:
            return self._new_start(X)
        m, p = self._width(X), X.shape[1]
        if known.shape != (m, p):
            raise ValueError(
                f"warm_start=True needs n_components and n_features to stay {known.shape},"
                f" got ({m}, {p}); set warm_start=False to start anew."
            )
        return Start(D=known.astype(np.float64), C=self.encoder_.astype(np.float64))

    def _rows(self, X: Rows, start: Start) -> MemoryRows:
        """X with the codes it starts from."""
        weights = self._weights()
        U = start.codes(X, weights.threshold, positive=weights.positive)
        return MemoryRows(X, U, n_threads=thread_count(self.n_jobs))

    def _train(
        self, rows: MemoryRows, D: Array, C: Array, factor: EncoderFactor
    ) -> tuple[Trained, Outcome]:
        """Learn from where rows, D and C are, and name what was learned."""
        paper = self.solver == "paper"
        training = (PaperTraining if paper else SCNNTraining)(
            rows, D, C, self._weights(), factor, tol=self.tol
        )
        outcome = alternate(
            training,
            max_iter=self.max_iter or (T_MAX if paper else MAX_ITER),
            tol=self.tol,
            callback=self._on_iteration,
        )
        trained = training.certify()
        self._name(trained, outcome, rows.X)
        return trained, outcome

    def _on_iteration(self, iteration: Iteration) -> bool:
        if self.verbose:
            print(f"[SCNN] {iteration}", flush=True)
        return self.callback is not None and bool(self.callback(iteration))

    def _name(self, trained: Trained, outcome: Outcome, X: Rows) -> None:
        self._name_weights(trained.D, trained.C, trained.used / X.shape[0], X)
        self.energy_ = outcome.energy_path[-1]
        self.energy_path_ = np.array(outcome.energy_path)
        self.n_iter_ = outcome.n_iter
        self.stop_reason_ = outcome.reason.value
        self.optimality_ = trained.optimality
        self.n_revived_ = trained.n_revived

    def _warn_of_training(self, outcome: Outcome) -> None:
        if outcome.reason is Reason.MAX_ITER:
            warnings.warn(f"SCNN: {outcome.reason.value}.", ConvergenceWarning, stacklevel=3)
        if self.solver == "auto" and self.optimality_["encoder"] > 1e-3:
            warnings.warn(
                "SCNN: some features of X are so small beside the others that the encoder cannot"
                " use them; scale the features alike (StandardScaler, MaxAbsScaler).",
                UserWarning,
                stacklevel=3,
            )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("max_iter", self.max_iter, 1, integer=True, or_none=True)
        check_choice("solver", self.solver, ("auto", "paper"))
        check_flag("warm_start", self.warm_start)
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback must be callable or None, got {self.callback!r}.")
