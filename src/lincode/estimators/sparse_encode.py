"""``sparse_encode``: the codes of samples for a given dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from lincode.core.code_step import CodeProblem
from lincode.core.coders import Coder, GreedyCoder, LassoCoder, ThresholdCoder
from lincode.core.types import Array, Rows
from lincode.estimators.array_api import foreign_array, to_numpy
from lincode.estimators.logs import is_logged, log_progress
from lincode.estimators.output import CodeOutput, make_output
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import (
    FLOAT_DTYPES,
    check_choice,
    check_finite,
    check_flag,
    check_n_jobs,
    check_not_masked,
    check_number,
    check_rows,
    check_scale,
    check_verbose,
    is_float_matrix,
    largest_entry,
    representable,
)
from lincode.exceptions import InvalidInputError
from lincode.rows.memory import blocks, code_blocks
from lincode.rows.threads import blas_threads, matrix_threads, thread_count, threaded_map

LASSO = ("lasso", "lasso_cd", "lasso_lars")
"""The names of the lasso; the last two are those of scikit-learn."""
ALGORITHMS = (*LASSO, "omp", "ols", "threshold")
DEFAULT_TOL = 1e-10
"""The relative optimality residual of lasso codes."""
MIN_BLOCK_ROWS, MAX_BLOCK_ENTRIES = 256, 2_000_000
"""The product of fewer samples with the dictionary is slower per sample. This number of samples is
not used if their codes have more entries."""
ADVICE = "Divide X and the dictionary by {0}, and alpha by its square: the codes remain the same."


def sparse_encode(
    X: Any,
    dictionary: ArrayLike,
    *,
    gram: ArrayLike | None = None,
    cov: ArrayLike | None = None,
    algorithm: str = "lasso",
    n_nonzero_coefs: int | None = None,
    alpha: float | None = None,
    copy_cov: bool = True,
    init: ArrayLike | None = None,
    max_iter: int = 1000,
    n_jobs: int | None = None,
    check_input: bool = True,
    verbose: int = 0,
    positive: bool = False,
    tol: float | None = None,
    debias: bool = False,
    sparse_output: bool = False,
) -> Any:
    """Compute the codes of samples for a given dictionary.

    The parameters are those of :func:`sklearn.decomposition.sparse_encode` and three more (``tol``,
    ``debias``, ``sparse_output``). The atoms may have any length.

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
    copy_cov : bool, default=True
        It has no effect, because ``cov`` is never overwritten.
    init : array-like of shape (n_samples, n_components), default=None
        The codes from which the lasso starts. None means zero.
    max_iter : int, default=1000
        The largest number of gradient steps for samples whose lasso problem is not solved by the
        active-set method, which is rare.
    n_jobs : int, default=None
        The number of threads. None means as many as the BLAS library uses, −1 means all cores.
    check_input : bool, default=True
        Whether to check the arrays. If False, they must be arrays of one dtype, float64 or float32.
    verbose : int, default=0
        If above 0, one line per block of samples is logged; see docs/progress.md.
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
    check_options(algorithm, n_nonzero_coefs, alpha, max_iter, positive, tol, debias)
    for name, flag in (("copy_cov", copy_cov), ("sparse_output", sparse_output)):
        check_flag(name, flag)
    check_n_jobs(n_jobs)
    check_verbose(verbose)
    foreign = foreign_array(X)
    if check_input:
        X, dictionary, gram, cov, init = _check_arrays(X, dictionary, gram, cov, init)
    D = np.asarray(dictionary)
    n_threads = thread_count(n_jobs)
    output = make_output(X, len(D), split=False, sparse=sparse_output)
    with blas_threads(matrix_threads(len(D), n_threads)):
        coder = make_coder(
            D,
            None if gram is None else np.asarray(gram),
            algorithm=algorithm,
            n_nonzero_coefs=n_nonzero_coefs,
            alpha=alpha,
            max_iter=max_iter,
            positive=positive,
            tol=tol,
            debias=debias,
        )
        n_unfinished = write_codes(
            X, coder, output, n_threads, cov=cov, start=init, verbose=verbose
        )
    if n_unfinished:
        warn_user(unfinished_message(n_unfinished, X, "max_iter or tol"), ConvergenceWarning)
    return output.result() if foreign is None else foreign.restore(output.result())


def check_options(
    algorithm: object,
    n_nonzero_coefs: object,
    alpha: object,
    max_iter: object,
    positive: object,
    tol: object,
    debias: object,
) -> None:
    """Check the parameters of ``sparse_encode`` that say which codes are computed."""
    check_choice("algorithm", algorithm, ALGORITHMS)
    check_number("n_nonzero_coefs", n_nonzero_coefs, 1, integer=True, or_none=True)
    check_number("alpha", alpha, 0, or_none=True)
    check_number("max_iter", max_iter, 0, integer=True)
    check_number("tol", tol, 0, or_none=True)
    check_flag("positive", positive)
    check_flag("debias", debias)
    if positive and algorithm in ("omp", "ols"):
        raise InvalidInputError(
            f"positive codes are not supported with algorithm={algorithm!r}; use 'lasso' or"
            " 'threshold'."
        )
    if debias and algorithm not in LASSO:
        raise InvalidInputError(f"debias=True needs algorithm='lasso', got {algorithm!r}.")


def make_coder(
    D: Array,
    gram: Array | None,
    *,
    algorithm: str,
    n_nonzero_coefs: int | None,
    alpha: float | None,
    max_iter: int,
    positive: bool,
    tol: float | None,
    debias: bool,
) -> Coder:
    """Return what computes the codes of ``sparse_encode`` for validated parameters."""
    penalty = 1.0 if alpha is None else float(alpha)
    if algorithm == "threshold":
        return ThresholdCoder(D, penalty, positive)
    if algorithm in LASSO:
        problem = CodeProblem.lasso(D, penalty, gram=gram, positive=positive)
        return LassoCoder(problem, DEFAULT_TOL if tol is None else tol, max_iter, debias)
    from lincode.core.omp import MatchingProblem  # imports Numba

    m, p = D.shape
    if n_nonzero_coefs is None:
        n_nonzero_coefs = int(max(p / 10, 1)) if tol is None else m
    matching = MatchingProblem.of(D @ D.T if gram is None else gram)
    return GreedyCoder(matching, D, min(n_nonzero_coefs, p), tol or 0.0, algorithm == "ols")


def write_codes(
    X: Rows,
    coder: Coder,
    output: CodeOutput,
    n_threads: int,
    *,
    cov: Any = None,
    start: Any = None,
    verbose: int = 0,
) -> int:
    """Compute the codes of validated samples block by block; return how many are not solved."""
    n = X.shape[0]

    def encode(rows: slice) -> int:
        U = output.buffer(rows)
        b = None if cov is None else np.ascontiguousarray(cov[:, rows].T)
        unfinished = coder.write(U, X[rows], b, None if start is None else start[rows])
        output.finish(rows, U)
        if is_logged(verbose):
            log_progress(f"[sparse_encode] rows {rows.start} to {rows.stop} of {n}", verbose)
        return unfinished

    return sum(threaded_map(encode, product_blocks(n, coder.n_units), n_threads))


def product_blocks(n: int, m: int) -> list[slice]:
    """Return the blocks in which the products and codes of n samples are computed."""
    n_rows = code_blocks(n, m)[0].stop if n else 1
    return blocks(n, max(n_rows, min(MIN_BLOCK_ROWS, MAX_BLOCK_ENTRIES // m)))


def unfinished_message(n_unfinished: int, X: Rows, increase: str) -> str:
    """Return the text of the warning about codes that are not solved."""
    return (
        f"the codes of {n_unfinished} of {X.shape[0]} samples did not reach the tolerance; increase"
        f" {increase}."
    )


def _check_arrays(X: Any, dictionary: Any, gram: Any, cov: Any, init: Any) -> tuple[Any, ...]:
    """Return the arrays of ``sparse_encode`` with the dtype of X."""
    X = check_rows(None, X, reset=False, check_finite=False)
    largest = largest_entry(X)
    if not np.isfinite(largest):
        check_finite(None, X)
    check_scale(X, largest, ADVICE)
    D = check_dictionary_array(dictionary, X.dtype)
    m, p = D.shape
    if X.shape[1] != p:
        raise InvalidInputError(
            f"X must have as many columns as the dictionary, {p}, got {X.shape[1]}; rows of the"
            " dictionary are atoms."
        )
    shapes = {
        "gram": (gram, (m, m)),
        "cov": (cov, (m, X.shape[0])),
        "init": (init, (X.shape[0], m)),
    }
    others = []
    for name, (array, shape) in shapes.items():
        if array is not None:
            array = check_numbers(name, array, X.dtype)
            if array.shape != shape:
                raise InvalidInputError(f"{name} must have shape {shape}, got {array.shape}.")
        others.append(array)
    return X, D, *others


def check_dictionary_array(dictionary: Any, dtype: np.dtype[np.floating]) -> Array:
    """Return a dictionary whose entries have squares that the dtype can represent."""
    D, (low, high) = dictionary, representable(dtype)
    if not is_float_matrix(D) or not np.isfinite(largest_entry(D)):
        D = check_numbers("dictionary", D, FLOAT_DTYPES)
    largest = largest_entry(D)
    if largest != 0 and not low <= largest <= high:
        raise InvalidInputError(
            f"the largest absolute value of the dictionary must be between {low:.0e} and"
            f" {high:.0e}, because {dtype} cannot represent the squares of other values; got"
            f" {largest:.3g}. Divide it by {largest:.3g}: the codes are multiplied by the same"
            " number, if alpha is also divided by it."
        )
    return np.ascontiguousarray(D, dtype=dtype)


def check_numbers(name: str, array: Any, dtype: Any) -> Array:
    """Return a finite dense array of two dimensions."""
    check_not_masked(name, array)
    try:
        array = array.toarray() if issparse(array) else to_numpy(array)
        return np.asarray(check_array(array, dtype=dtype, input_name=name, order="C"))
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInputError(f"{name}: {error}") from error
