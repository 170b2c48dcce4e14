"""SCNN learned a batch at a time: for data that do not fit in memory, or do not end."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from lincode.core.init import Start
from lincode.core.types import Rows
from lincode.estimators._checks import check_number, check_rows, unchanged_on_failure
from lincode.estimators._scnn import BaseSCNN
from lincode.networks.scnn_minibatch import Stream
from lincode.rows.threads import thread_count

SMOOTHING = 0.5
"""Weight of the newest batch in the smoothed energy."""


class MiniBatchSCNN(BaseSCNN):
    """SCNN learned a batch at a time, in memory that does not depend on the number of samples.

    Lowers the same energy as :class:`lincode.SCNN`. Of the samples of earlier batches only
    UᵀU, UᵀX, Σ|U| and XᵀX are kept; XᵀX (p×p) is factored once a batch, so that features should not
    be many thousands. ``fit`` goes through X in random order until the energy of batches,
    measured before they are learned, no longer falls; ``partial_fit`` learns one batch that
    is given to it, of any size.

    Parameters
    ----------
    n_components : int, default=None
        Number m of units. None means the number of features.
    alpha : float, default=0.1
        Sparsity λ ≥ 0. Its scale is that of the data: see :meth:`alpha_max`.
    batch_size : int, default=8192
        Samples per batch in ``fit``. Some ten times ``n_components`` or more: the first batch
        is where most of the network is learned.
    half_life : float, default=None
        A sample counts half after so many further ones. None means four times ``batch_size``,
        or one pass over the data where that is less; ``float("inf")`` that nothing is ever
        forgotten.
    max_iter : int, default=10
        Most passes over the data in ``fit``.
    tol : float, default=2e-3
        ``fit`` ends when the smoothed energy of new batches has not fallen by this share
        for ``max_no_improvement`` batches.
    max_no_improvement : int, default=3
        See ``tol``. None means to go on until ``max_iter``.
    encoder_weight : float, default=1.0
    threshold : float or "match", default=None
    transform_method : {"encoder", "exact", "relearn"}, default="encoder"
    split_sign : bool, default=False
    sparse_output : bool, default=False
    positive_code : bool, default=False
    init : {"data"} or array of shape (n_components, n_features), default="data"
    transform_tol : float, default=1e-6
    n_jobs : int, default=None
    verbose : int, default=0
        As in :class:`lincode.SCNN`.
    random_state : int, RandomState instance or None, default=None
        Seed of the start and of the order of the samples.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary D, an atom a row.
    encoder_ : array of shape (n_components, n_features)
        The encoder C, a filter a row.
    matching_threshold_ : float
        The threshold at which the encoder's codes are as sparse as the trained ones, measured
        on the last batch (and, with ``partial_fit``, averaged over batches).
    energy_path_ : array of shape (n_batches_,)
        Energy per sample of each batch before it was learned; after the first pass of ``fit``
        over the data, before it was learned again.
    energy_ : float
        The same, smoothed. What to expect of new data as long as batches are new.
    usage_ : array of shape (n_components,)
        Share of the samples that use each atom, older ones counting less.
    n_batches_, n_samples_seen_ : int
    n_iter_ : int
        Passes over the data, the last one perhaps not whole; 1 after ``partial_fit``.
    stop_reason_ : str
        Why ``fit`` ended.
    n_revived_ : int
    n_features_in_ : int
    feature_names_in_ : array of str

    Examples
    --------
    >>> import numpy as np
    >>> from lincode import MiniBatchSCNN
    >>> rng = np.random.default_rng(0)
    >>> scnn = MiniBatchSCNN(n_components=8, alpha=0.1, random_state=0)
    >>> for _ in range(3):
    ...     scnn = scnn.partial_fit(rng.standard_normal((100, 5)))
    >>> scnn.n_samples_seen_
    300
    """

    energy_: float

    def __init__(
        self,
        n_components: int | None = None,
        alpha: float = 0.1,
        *,
        batch_size: int = 8192,
        half_life: float | None = None,
        max_iter: int = 10,
        tol: float = 2e-3,
        max_no_improvement: int | None = 3,
        encoder_weight: float = 1.0,
        threshold: float | str | None = None,
        transform_method: str = "encoder",
        split_sign: bool = False,
        sparse_output: bool = False,
        positive_code: bool = False,
        init: str | ArrayLike = "data",
        transform_tol: float = 1e-6,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.batch_size = batch_size
        self.half_life = half_life
        self.max_iter = max_iter
        self.tol = tol
        self.max_no_improvement = max_no_improvement
        self.encoder_weight = encoder_weight
        self.threshold = threshold
        self.transform_method = transform_method
        self.split_sign = split_sign
        self.sparse_output = sparse_output
        self.positive_code = positive_code
        self.init = init
        self.transform_tol = transform_tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: object = None) -> MiniBatchSCNN:
        """Learn X from the start, in batches drawn in random order.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            May be memory-mapped: a batch at a time is read.
        y : ignored

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            X = check_rows(self, X, reset=True, scale=True)
            self.stop_reason_ = "max_iter passes over the data; raise max_iter or tol"
            rng = check_random_state(self.random_state)
            self._begin(X, rng)
            best, since, stopped = np.inf, 0, False
            for batch in self._batches(X, rng):
                energy = self._learn(batch, X.shape[0])
                best, since = (energy, 0) if energy < best * (1 - self.tol) else (best, since + 1)
                if self.max_no_improvement is not None and since >= self.max_no_improvement:
                    self.stop_reason_ = "converged: the energy of the next batch no longer falls"
                    stopped = True
                    break
            self.n_iter_ = -(-self.n_samples_seen_ // X.shape[0])
            self._name_batch(batch)
        if not stopped and self.max_no_improvement is not None and self.n_batches_ > 1:
            warnings.warn(f"MiniBatchSCNN: {self.stop_reason_}.", ConvergenceWarning, stacklevel=2)
        self._warn_of_codes(batch)
        return self

    def partial_fit(self, X: Any, y: object = None) -> MiniBatchSCNN:
        """Learn one more batch, of any size; the first call starts the network.

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
            first = not hasattr(self, "_stream")
            X = check_rows(self, X, reset=first, scale=True)
            if first:
                self._begin(X)
                self.stop_reason_ = "partial_fit learns one batch"
                self.n_iter_ = 1
            elif len(self._stream.D) != self._width(X):
                raise ValueError(
                    f"n_components must stay {len(self._stream.D)} from one partial_fit to the"
                    f" next, got {self._width(X)}; call fit to start anew."
                )
            self._learn(X)
            self._name_batch(X)
        if first:
            self._warn_of_codes(X)
        return self

    def _begin(self, X: Rows, rng: np.random.RandomState | None = None) -> None:
        self.__dict__.pop("matching_threshold_", None)  # of a stream that is no more
        start: Start = self._new_start(X, rng)
        self._stream = Stream(D=start.D, C=start.C)
        self.energy_path_ = np.empty(0)
        self.n_batches_ = self.n_samples_seen_ = 0

    def _batches(self, X: Rows, rng: np.random.RandomState) -> Iterator[Rows]:
        """Batches of X of one size, give or take a row, each pass in another random order."""
        N = X.shape[0]
        for _ in range(self.max_iter):
            for rows in np.array_split(rng.permutation(N), -(-N // self.batch_size)):
                yield X[np.sort(rows)]

    def _learn(self, X: Rows, samples: float = np.inf) -> float:
        """One batch, of data that have so many samples; the smoothed energy."""
        most = min(4 * self.batch_size, samples)
        self._stream = stream = self._stream.after(
            X,
            self._weights(),
            half_life=float(most if self.half_life is None else self.half_life),
            n_threads=thread_count(self.n_jobs),
        )
        now, smooth = stream.batch_energy, stream.batch_energy
        # The first batch is measured on an untrained network: it is no part of the average.
        if stream.n_batches > 2:
            smooth = self.energy_ + SMOOTHING * (now - self.energy_)
        self.energy_, self.energy_path_ = float(smooth), np.append(self.energy_path_, now)
        self.n_batches_, self.n_samples_seen_ = stream.n_batches, stream.n_seen
        self.n_revived_ = stream.n_revived
        if self.verbose:
            print(
                f"[MiniBatchSCNN] batch {self.n_batches_}  samples {self.n_samples_seen_}"
                f"  energy per sample {now:.6g}  smoothed {smooth:.6g}",
                flush=True,
            )
        return float(smooth)

    def _name_batch(self, X: Rows) -> None:
        stream = self._stream
        assert stream.stats is not None
        before = getattr(self, "matching_threshold_", None) if stream.n_batches > 1 else None
        self._name_weights(stream.D, stream.C, stream.stats.used / stream.stats.n, X)
        if before is not None:  # one batch is not the stream
            new = X.shape[0] / stream.stats.n
            self.matching_threshold_ = before + new * (self.matching_threshold_ - before)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("batch_size", self.batch_size, 1, integer=True)
        check_number("max_iter", self.max_iter, 1, integer=True)
        check_number("max_no_improvement", self.max_no_improvement, 1, integer=True, or_none=True)
        if self.half_life != float("inf"):
            check_number("half_life", self.half_life, 1, or_none=True)
        if isinstance(self.init, str) and self.init != "data":
            raise ValueError(f"init must be 'data' or an array of atoms, got {self.init!r}.")
