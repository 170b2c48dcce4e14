"""Codes of samples for a given dictionary, as a function and as a transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags

from lincode.core.arrays import Array, Rows
from lincode.core.dictionary import dictionary_sweep
from lincode.core.energy import CodeStats
from lincode.estimators.base import DictionaryTransformer
from lincode.estimators.codes import LASSO, CodeOutput, make_coder, unfinished_message, write_codes
from lincode.estimators.validation import (
    FLAG,
    FLOAT_DTYPES,
    N_JOBS,
    check_matrix,
    check_parameters,
    check_scaled_rows,
    choice,
    either,
    largest_entry,
    number,
    representable,
    unchanged_on_failure,
    warn_user,
)
from lincode.exceptions import InvalidInputError
from lincode.training.threads import blas_threads, matrix_threads, thread_count

ADVICE = "Divide X and the dictionary by {0}, and alpha by its square: the codes remain the same."
SWEEPS = 2
"""The number of updates of each atom per round of ``adapt_dictionary``."""
GREEDY = ("omp", "ols")
"""The algorithms with a given number of non-zeros."""
CONSTRAINTS = {
    "algorithm": choice(*LASSO, *GREEDY, "threshold"),
    "n_nonzero_coefs": either(choice(None), number(1, integer=True)),
    "alpha": either(choice(None), number(0)),
    "max_iter": number(0, integer=True),
    "tol": either(choice(None), number(0)),
    "positive": FLAG,
    "debias": FLAG,
    "sparse_output": FLAG,
    "n_jobs": N_JOBS,
}


def sparse_encode(
    X: Any,
    dictionary: ArrayLike,
    *,
    gram: ArrayLike | None = None,
    cov: ArrayLike | None = None,
    algorithm: str = "lasso",
    n_nonzero_coefs: int | None = None,
    alpha: float | None = None,
    init: ArrayLike | None = None,
    max_iter: int = 1000,
    n_jobs: int | None = None,
    positive: bool = False,
    tol: float | None = None,
    debias: bool = False,
    sparse_output: bool = False,
) -> Any:
    """Compute the codes of samples for a given dictionary.

    The parameters are those of :func:`sklearn.decomposition.sparse_encode`, without ``copy_cov``,
    ``check_input`` and ``verbose``, and three more (``tol``, ``debias``, ``sparse_output``). The
    atoms may have any length.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The samples. The codes have its dtype, float64 or float32.
    dictionary : array-like of shape (n_components, n_features)
        The dictionary D, one atom per row.
    gram : array-like of shape (n_components, n_components), default=None
        The products D Dᵀ, if they are known already.
    cov : array-like of shape (n_components, n_samples), default=None
        The products D Xᵀ, if they are known already.
    algorithm : {"lasso", "lasso_cd", "lasso_lars", "omp", "ols", "threshold"}, default="lasso"
        How the code u of each sample x is computed.

        - "lasso": the minimiser of ½‖x − u D‖² + alpha ‖u‖₁. scikit-learn's names "lasso_cd" and
          "lasso_lars" mean the same;
        - "omp": orthogonal matching pursuit. Atoms are chosen one after the other, each time the
          one with the largest correlation with the residual;
        - "ols": orthogonal least squares. Each time the atom is chosen that leaves the smallest
          residual. The reconstruction error is usually smaller than with "omp", in the same time;
        - "threshold": the soft threshold of x Dᵀ at alpha.
    n_nonzero_coefs : int, default=None
        The largest number of non-zeros of a code with "omp" and "ols". None means a tenth of the
        number of features, or no limit if ``tol`` is given.
    alpha : float, default=None
        The penalty of the lasso, or the threshold. None means 1. "omp" and "ols" do not use it.
    init : array-like of shape (n_samples, n_components), default=None
        The codes from which the lasso starts. None means zero.
    max_iter : int, default=1000
        The largest number of gradient steps for samples whose lasso problem is not solved by the
        active-set method, which is rare.
    n_jobs : int, default=None
        The number of threads. None means as many as the BLAS library uses, −1 means all cores.
    positive : bool, default=False
        Whether to constrain the codes to be at least 0, with "lasso" and "threshold".
    tol : float, default=None
        With "lasso", the largest violation of the optimality conditions, relative to ``max|D x|``;
        None means 1e-10. It is limited by rounding, so that float32 codes are not computed more
        accurately than float32 allows. With "omp" and "ols", a sample is finished when its squared
        residual ‖x − u D‖² is at most ``tol``; None means 0.
    debias : bool, default=False
        Whether lasso codes are replaced by those of least squares on their support.
    sparse_output : bool, default=False
        Whether to return compressed codes (CSR), which are built block by block: a ``csr_array``
        if X is a sparse array, else a ``csr_matrix``. With scikit-learn's setting
        ``sparse_interface="sparray"`` it is always a ``csr_array``.

    Returns
    -------
    array, or CSR array or matrix, of shape (n_samples, n_components)
        The codes.

    See Also
    --------
    SparseCoder : The same as a transformer.
    SCNN : Learns a dictionary, and an encoder that computes codes by one matrix product.

    Notes
    -----
    Differences from scikit-learn: "omp" divides correlations by the lengths of the atoms, so that
    its choice does not depend on them, whereas scikit-learn compares the products; the codes are
    equal for atoms of equal length. Lasso codes are solved to a given optimality residual, "lars"
    is not available, and ``n_jobs=None`` does not mean one thread.

    Examples
    --------
    >>> import numpy as np
    >>> from lincode import sparse_encode
    >>> D = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> X = np.array([[3.0, 0.0], [0.6, 0.8]])
    >>> sparse_encode(X, D, alpha=0.5)
    array([[2.5, 0. , 0. ],
           [0. , 0. , 0.5]])
    >>> sparse_encode(X, D, algorithm="omp", n_nonzero_coefs=1)
    array([[3., 0., 0.],
           [0., 0., 1.]])
    """
    check_options(
        algorithm=algorithm,
        n_nonzero_coefs=n_nonzero_coefs,
        alpha=alpha,
        max_iter=max_iter,
        positive=positive,
        tol=tol,
        debias=debias,
        sparse_output=sparse_output,
        n_jobs=n_jobs,
    )
    X, D = _check_arrays(None, X, dictionary, reset=False)
    N, m = X.shape[0], len(D)
    gram = None if gram is None else check_matrix("gram", gram, (m, m), X.dtype)
    cov = None if cov is None else check_matrix("cov", cov, (m, N), X.dtype)
    init = None if init is None else check_matrix("init", init, (N, m), X.dtype)
    n_threads = thread_count(n_jobs)
    output = CodeOutput(X, m, sparse=sparse_output)
    with blas_threads(matrix_threads(m, n_threads)):
        coder = make_coder(
            D,
            gram,
            algorithm=algorithm,
            n_nonzero_coefs=n_nonzero_coefs,
            alpha=alpha,
            max_iter=max_iter,
            positive=positive,
            tol=tol,
            debias=debias,
        )
        n_unfinished = write_codes(X, coder, output, n_threads, cov=cov, start=init)
    if n_unfinished:
        warn_user(unfinished_message(n_unfinished, X, "max_iter or tol"), ConvergenceWarning)
    return output.result()


def adapt_dictionary(X: Array, D: Array, *, n_rounds: int, **options: Any) -> Array:
    """Return a dictionary with atoms of length 1, adapted to codes of ``sparse_encode`` of X.

    In each round, the codes are computed with ``options``, among which is ``sparse_output=True``,
    and each atom is then optimised in turn.
    """
    D = _unit_atoms(np.asarray(D, np.float64))
    for _ in range(n_rounds):
        U = sparse_encode(X, D.astype(X.dtype), **options).astype(np.float64)
        used = np.bincount(U.indices, minlength=len(D)).astype(np.float64)
        stats = CodeStats((U.T @ U).toarray(), np.asarray(U.T @ X), 0.0, used, len(X))
        for _ in range(SWEEPS):
            D = _unit_atoms(dictionary_sweep(D, stats))
    return D.astype(X.dtype)


def _unit_atoms(D: Array) -> Array:
    """Return the atoms with length 1, except for those of length 0."""
    lengths = np.linalg.norm(D, axis=1, keepdims=True)
    return np.asarray(D / np.where(lengths > 0, lengths, 1))


def check_options(**options: Any) -> None:
    """Check the parameters of ``sparse_encode`` that say which codes are computed."""
    check_parameters(options, CONSTRAINTS)
    algorithm = options["algorithm"]
    if options["positive"] and algorithm in GREEDY:
        raise InvalidInputError(
            f"positive codes are not supported with algorithm={algorithm!r}; use 'lasso' or"
            " 'threshold'."
        )
    if options["debias"] and algorithm not in LASSO:
        raise InvalidInputError(f"debias=True needs algorithm='lasso', got {algorithm!r}.")


def _check_arrays(estimator: Any, X: Any, dictionary: Any, *, reset: bool) -> tuple[Rows, Array]:
    """Return the samples and the dictionary with the dtype of the samples."""
    X = check_scaled_rows(estimator, X, reset=reset, advice=ADVICE)
    D = check_matrix("dictionary", dictionary, None, FLOAT_DTYPES)
    largest, (low, high) = largest_entry(D), representable(X.dtype)
    if largest != 0 and not low <= largest <= high:
        raise InvalidInputError(
            f"the largest absolute value of the dictionary must be between {low:.0e} and"
            f" {high:.0e}, because {X.dtype} cannot represent the squares of other values; got"
            f" {largest:.3g}. Divide it by {largest:.3g}: the codes are multiplied by the same"
            " number, if alpha is also divided by it."
        )
    if X.shape[1] != D.shape[1]:
        raise InvalidInputError(
            f"X must have as many columns as the dictionary, {D.shape[1]}, got {X.shape[1]}; rows"
            " of the dictionary are atoms."
        )
    return X, np.ascontiguousarray(D, dtype=X.dtype)


class SparseCoder(DictionaryTransformer):
    """Codes of samples for a given dictionary.

    It is :func:`lincode.sparse_encode` as a transformer, with the parameters of
    :class:`sklearn.decomposition.SparseCoder` and three more (``transform_tol``,
    ``transform_debias``, ``sparse_output``). Nothing is learned: ``fit`` only checks its input, and
    ``transform`` can be called without it.

    Parameters
    ----------
    dictionary : array-like of shape (n_components, n_features)
        The dictionary, one atom per row. The atoms may have any length.
    transform_algorithm : {"omp", "ols", "lasso", "lasso_cd", "lasso_lars", "threshold"}, \
            default="omp"
        How codes are computed; see :func:`lincode.sparse_encode`.
    transform_n_nonzero_coefs : int, default=None
        The largest number of non-zeros of a code with "omp" and "ols". None means a tenth of the
        number of features, or no limit if ``transform_tol`` is given.
    transform_alpha : float, default=None
        The penalty of the lasso, or the threshold. None means 1.
    split_sign : bool, default=False
        Whether to return the positive and negative parts of the codes as separate non-negative
        features: first all positive parts, then all negative parts.
    n_jobs : int, default=None
        The number of threads. None means as many as the BLAS library uses, −1 means all cores.
    positive_code : bool, default=False
        Whether to constrain the codes to be at least 0, with "lasso" and "threshold".
    transform_max_iter : int, default=1000
        The largest number of gradient steps for samples whose lasso problem is not solved by the
        active-set method, which is rare.
    transform_tol : float, default=None
        The ``tol`` of :func:`lincode.sparse_encode`.
    transform_debias : bool, default=False
        Whether lasso codes are replaced by those of least squares on their support.
    sparse_output : bool, default=False
        Whether ``transform`` returns compressed codes (CSR), which are built block by block: a
        ``csr_array`` if X is a sparse array, else a ``csr_matrix``.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary as an array.
    n_components_ : int
        The number of atoms.
    n_features_in_ : int
        The number of features of the samples given to ``fit``.
    feature_names_in_ : array of str
        The names of the features given to ``fit``, if they are all strings.

    See Also
    --------
    sparse_encode : The same as a function.
    SCNN : Learns a dictionary, and an encoder that computes codes by one matrix product.

    Examples
    --------
    >>> import numpy as np
    >>> from lincode import SparseCoder
    >>> D = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> coder = SparseCoder(D, transform_algorithm="lasso", transform_alpha=0.5)
    >>> coder.transform(np.array([[3.0, 0.0], [0.6, 0.8]]))
    array([[2.5, 0. , 0. ],
           [0. , 0. , 0.5]])
    """

    def __init__(
        self,
        dictionary: ArrayLike,
        *,
        transform_algorithm: str = "omp",
        transform_n_nonzero_coefs: int | None = None,
        transform_alpha: float | None = None,
        split_sign: bool = False,
        n_jobs: int | None = None,
        positive_code: bool = False,
        transform_max_iter: int = 1000,
        transform_tol: float | None = None,
        transform_debias: bool = False,
        sparse_output: bool = False,
    ) -> None:
        self.dictionary = dictionary
        self.transform_algorithm = transform_algorithm
        self.transform_n_nonzero_coefs = transform_n_nonzero_coefs
        self.transform_alpha = transform_alpha
        self.split_sign = split_sign
        self.n_jobs = n_jobs
        self.positive_code = positive_code
        self.transform_max_iter = transform_max_iter
        self.transform_tol = transform_tol
        self.transform_debias = transform_debias
        self.sparse_output = sparse_output

    @unchanged_on_failure
    def fit(self, X: Any, y: object = None) -> SparseCoder:
        """Check the parameters and the samples. Nothing is learned.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Samples.
        y : ignored

        Returns
        -------
        self
        """
        self._check_parameters()
        _check_arrays(self, X, self.dictionary, reset=True)
        return self

    def transform(self, X: Any, y: object = None) -> Any:
        """Compute the codes of X.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.
        y : ignored

        Returns
        -------
        array, or CSR array or matrix, of shape (n_samples, n_features_out)
            The codes, with the dtype of X.
        """
        return self._transform(X, split=self.split_sign)

    @property
    def components_(self) -> Array:
        """The dictionary as an array of shape (n_components, n_features)."""
        return np.asarray(self.dictionary)

    @property
    def n_components_(self) -> int:
        """The number of atoms."""
        return len(self.components_)

    def _transform(self, X: Any, *, split: bool) -> Any:
        options = self._check_parameters()
        X, D = _check_arrays(self, X, self.dictionary, reset=False)
        n_threads = thread_count(self.n_jobs)
        with blas_threads(matrix_threads(len(D), n_threads)):
            coder = make_coder(D, **options)
        output = CodeOutput(X, len(D), split=split, sparse=self.sparse_output)
        n_unfinished = write_codes(X, coder, output, n_threads)
        if n_unfinished:
            increase = "transform_max_iter or transform_tol"
            warn_user(unfinished_message(n_unfinished, X, increase), ConvergenceWarning)
        return output.result()

    def _check_parameters(self) -> dict[str, Any]:
        """Check the parameters; return those of ``make_coder``."""
        FLAG.check("split_sign", self.split_sign)
        options = {
            "algorithm": self.transform_algorithm,
            "n_nonzero_coefs": self.transform_n_nonzero_coefs,
            "alpha": self.transform_alpha,
            "max_iter": self.transform_max_iter,
            "positive": self.positive_code,
            "tol": self.transform_tol,
            "debias": self.transform_debias,
        }
        check_options(**options, sparse_output=self.sparse_output, n_jobs=self.n_jobs)
        return options

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags
