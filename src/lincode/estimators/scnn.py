"""SCNN as a scikit-learn transformer."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from lincode.core.blocks import blocks
from lincode.core.encoder_step import factor_data
from lincode.core.energy import energy, lam_max
from lincode.core.init import Start, start_from_data, start_from_dictionary, start_of_the_paper
from lincode.core.types import Array, Rows
from lincode.estimators._checks import (
    FLOATS,
    check_choice,
    check_dictionary,
    check_flag,
    check_number,
    check_rows,
    unchanged_on_failure,
)
from lincode.networks._alternate import Callback, Iteration, Outcome, Reason, alternate
from lincode.networks.scnn import SCNNTraining, Trained, Weights, encode, fix_signs, solve_codes
from lincode.networks.scnn_paper import T_MAX, PaperTraining
from lincode.rows.memory import MemoryRows, code_blocks
from lincode.rows.threads import ordered_map, thread_count

ENCODE_ROWS = 4096
"""Rows encoded by one product."""
MAX_ITER = 200
"""Outer iterations of the default solver."""
EXACT_ITERATIONS = 20_000
"""Most accelerated steps for codes solved exactly."""


class SCNN(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
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
        encoder's codes to the best ones and the worse the best ones reconstruct. 0 is plain
        dictionary learning; the encoder is then fitted once at the end.
    threshold : float, default=None
        Threshold of the encoder at ``transform``. None means ``alpha / encoder_weight``, the
        minimiser of the encoder and ℓ1 terms, or ``alpha`` where the weight is 0. May be
        changed after ``fit``. Classification often wants a lower one than reconstruction.
    transform_method : {"encoder", "exact", "relearn"}, default="encoder"
        What ``transform`` gives. May be changed after ``fit``.

        - "encoder": ``soft_threshold(X Cᵀ, threshold)``, one matrix product;
        - "exact": the U that minimises E for the learned D and C;
        - "relearn": the U that minimises the reconstruction and ℓ1 terms, with D alone
          (the paper's "SCNN with re-learning").
    split_sign : bool, default=False
        Give positive and negative parts of the codes as separate features, all ≥ 0: the
        output has 2m columns, first the positive parts, then the negative ones. May be
        changed after ``fit``.
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
        Above 0, print a line after each outer iteration.
    callback : callable, default=None
        Called after each outer iteration with a :class:`lincode.Iteration`. Training ends
        if it returns something true.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary D, an atom a row. Each atom's largest entry in absolute value is
        positive (the first of equals), unless ``positive_code``.
    encoder_ : array of shape (n_components, n_features)
        The encoder C, a filter a row.
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
        How far from optimal each step is at the end, relative: 0 is optimal, 1 is where
        nothing was done. "codes" for the last U step, "dictionary" and "encoder" for the D
        and C steps, and "joint" for the same codes with the D and C that came after them,
        which tells how far the alternation itself has converged. "codes" and "joint" are
        the worst row's.
    usage_ : array of shape (n_components,)
        Share of the training samples that use each atom.
    n_revived_ : int
        How often an atom that no sample used was pointed at a badly reconstructed sample.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where X had column names that are all strings.

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
        threshold: float | None = None,
        transform_method: str = "encoder",
        split_sign: bool = False,
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
            trained, outcome = self._train(X, start)
            self._name(trained, outcome, X)
        self._warn(X, outcome)
        return self

    def transform(self, X: Any) -> Array:
        """The codes of X, by ``transform_method``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_components), twice as wide with ``split_sign``
        """
        check_is_fitted(self)
        self._check_parameters()
        exact = self.transform_method != "encoder"
        U = self._codes(check_rows(self, X, reset=False, scale=exact), self.transform_method)
        return np.hstack([np.maximum(U, 0), np.maximum(-U, 0)]) if self.split_sign else U

    def inverse_transform(self, X: Any) -> Array:
        """The samples that codes stand for: U D.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_components)
            Codes as ``transform`` gives them, with split signs where it splits them.

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        U = check_array(X, accept_sparse="csr", dtype=FLOATS, input_name="codes")
        m = len(self.components_)
        if U.shape[1] != self._n_features_out:
            raise ValueError(
                f"codes must have {self._n_features_out} columns, as transform gives with"
                f" split_sign={self.split_sign}, got {U.shape[1]}."
            )
        if self.split_sign:
            U = U[:, :m] - U[:, m:]
        return np.asarray(U @ self.components_.astype(U.dtype, copy=False))

    def reconstruct(self, X: Any) -> Array:
        """Encode and decode: what the network makes of X, of the shape of X."""
        check_is_fitted(self)
        self._check_parameters()
        X = check_rows(self, X, reset=False, scale=self.transform_method != "encoder")
        U = self._codes(X, self.transform_method)
        return np.asarray(U @ self.components_.astype(X.dtype, copy=False))

    def score(self, X: Any, y: object = None) -> float:
        """Minus the energy per sample on X: the larger the better.

        The energy is that of the codes that minimise it for the learned D and C, whatever
        ``transform_method`` and ``threshold`` are, so that it is to new data what
        ``energy_ / n_samples`` is to the training data.
        """
        check_is_fitted(self)
        self._check_parameters()
        X = check_rows(self, X, reset=False, scale=True)
        U = self._codes(X, "exact")
        total = sum(
            energy(
                X[rows], U[rows], self.components_, self.encoder_,
                self.alpha, self.encoder_weight,
            )
            for rows in blocks(len(U), ENCODE_ROWS)
        )  # fmt: skip
        return -total / len(U)

    def alpha_max(self, X: Any) -> float:
        """The alpha from which on all codes stay zero: m/p times the length of the longest sample.

        Holds for training that starts from a zero encoder, as ``init="data"`` and an array
        do, and whatever the atoms: below it an atom that points along the longest sample is
        worth using, at or above it none is. A share of it (0.01 to 0.3) is a choice of alpha
        that means the same for data of any scale. Needs no ``fit``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        float
        """
        self._check_parameters()
        X = check_rows(clone(self), X, reset=True, scale=True)
        return lam_max(X, self._width(X))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_) * (2 if self.split_sign else 1)

    def _width(self, X: Rows) -> int:
        return int(X.shape[1] if self.n_components is None else self.n_components)

    def _weights(self, *, eta: float | None = None) -> Weights:
        eta = float(self.encoder_weight if eta is None else eta)
        return Weights(lam=float(self.alpha), eta=eta, positive=bool(self.positive_code))

    def _start(self, X: Rows, known: Array | None) -> Start:
        m, p = self._width(X), X.shape[1]
        if known is not None:
            if known.shape != (m, p):
                raise ValueError(
                    f"warm_start=True needs n_components and n_features to stay {known.shape},"
                    f" got ({m}, {p}); set warm_start=False to start anew."
                )
            return Start(D=known.astype(np.float64), C=self.encoder_.astype(np.float64))
        rng = check_random_state(self.random_state)
        if isinstance(self.init, str):
            return (start_from_data if self.init == "data" else start_of_the_paper)(X, m, rng)
        return start_from_dictionary(check_dictionary(self.init, m, p))

    def _train(self, X: Rows, start: Start) -> tuple[Trained, Outcome]:
        paper = self.solver == "paper"
        weights = self._weights()
        U = start.codes(X, weights.threshold, positive=weights.positive)
        training = (PaperTraining if paper else SCNNTraining)(
            MemoryRows(X, U, n_threads=thread_count(self.n_jobs)),
            start.D, start.C, weights, factor_data(X), tol=self.tol,
        )  # fmt: skip
        outcome = alternate(
            training,
            max_iter=self.max_iter or (T_MAX if paper else MAX_ITER),
            tol=self.tol,
            callback=self._on_iteration,
        )
        return training.certify(), outcome

    def _on_iteration(self, iteration: Iteration) -> bool:
        if self.verbose:
            print(f"[SCNN] {iteration}", flush=True)
        return self.callback is not None and bool(self.callback(iteration))

    def _name(self, trained: Trained, outcome: Outcome, X: Rows) -> None:
        D, C = trained.D, trained.C
        if not self.positive_code:
            D, C = fix_signs(D, C)
        self.components_ = D.astype(X.dtype)
        self.encoder_ = C.astype(X.dtype)
        self.energy_ = outcome.energy_path[-1]
        self.energy_path_ = np.array(outcome.energy_path)
        self.n_iter_ = outcome.n_iter
        self.stop_reason_ = outcome.reason.value
        self.optimality_ = trained.optimality
        self.usage_ = trained.used / X.shape[0]
        self.n_revived_ = trained.n_revived

    def _warn(self, X: Rows, outcome: Outcome) -> None:
        if outcome.reason is Reason.MAX_ITER:
            warnings.warn(f"SCNN: {outcome.reason.value}.", ConvergenceWarning, stacklevel=3)
        if not self.usage_.any():
            most = lam_max(X, self._width(X))
            why = (
                f"alpha={self.alpha} must be below {most:.3g} for these data (see alpha_max); a"
                " tenth of that is a place to start"
                if most > 0
                else "X is all zero"
            )
            warnings.warn(f"SCNN: every code is zero: {why}.", UserWarning, stacklevel=3)

    def _codes(self, X: Rows, method: str) -> Array:
        """Codes of validated rows, signs not split."""
        D = self.components_.astype(np.float64)
        C = self.encoder_.astype(X.dtype, copy=False)
        weights = self._weights(eta=0.0 if method == "relearn" else None)
        U: Array = np.empty((X.shape[0], len(D)), dtype=X.dtype)
        if method == "encoder":
            threshold = weights.threshold if self.threshold is None else float(self.threshold)
            for rows in blocks(len(U), ENCODE_ROWS):
                encode(X[rows], C, threshold, positive=weights.positive, out=U[rows])
            return U

        problem = weights.code_problem(D, C.astype(np.float64), X.dtype)

        def solve(rows: slice) -> int:
            codes = solve_codes(
                X[rows], C, problem, weights.threshold,
                tol=self.transform_tol, max_iter=EXACT_ITERATIONS,
            )  # fmt: skip
            U[rows] = codes.U
            return codes.n_open

        n_open = sum(ordered_map(solve, code_blocks(*U.shape), thread_count(self.n_jobs)))
        if n_open:
            warnings.warn(
                f"SCNN: the codes of {n_open} of {len(U)} samples are not within transform_tol ="
                f" {self.transform_tol} of optimal after {EXACT_ITERATIONS} steps; raise it.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return U

    def _check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, integer=True, or_none=True)
        check_number("alpha", self.alpha, 0)
        check_number("encoder_weight", self.encoder_weight, 0)
        check_number("threshold", self.threshold, 0, or_none=True)
        check_number("max_iter", self.max_iter, 1, integer=True, or_none=True)
        check_number("tol", self.tol, 0)
        check_number("transform_tol", self.transform_tol, 0)
        check_choice("transform_method", self.transform_method, ("encoder", "exact", "relearn"))
        check_choice("solver", self.solver, ("auto", "paper"))
        if isinstance(self.init, str):
            check_choice("init", self.init, ("data", "paper"))
        check_number("verbose", int(self.verbose), 0, integer=True)
        for name in ("split_sign", "positive_code", "warm_start"):
            check_flag(name, getattr(self, name))
        if self.split_sign and self.positive_code:
            raise ValueError(
                "split_sign=True has nothing to split where positive_code=True; set one to False."
            )
        if self.n_jobs is not None and (not isinstance(self.n_jobs, Integral) or self.n_jobs == 0):
            raise ValueError(f"n_jobs must be None or an integer but 0, got {self.n_jobs!r}.")
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback must be callable or None, got {self.callback!r}.")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
