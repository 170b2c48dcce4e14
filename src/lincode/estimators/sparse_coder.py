"""SparseCoder: codes for a given dictionary, as a transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags

from lincode.core.types import Array, Rows
from lincode.estimators.array_api import keeps_array_type
from lincode.estimators.output import make_output
from lincode.estimators.signs import SignSplitter
from lincode.estimators.sparse_encode import (
    ADVICE,
    check_dictionary_array,
    check_options,
    make_coder,
    unfinished_message,
    write_codes,
)
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import (
    check_flag,
    check_n_jobs,
    check_scaled_rows,
    unchanged_on_failure,
)
from lincode.exceptions import InvalidInputError
from lincode.rows.threads import blas_threads, matrix_threads, thread_count


class SparseCoder(SignSplitter):
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
        with unchanged_on_failure(self):
            self._check_parameters()
            self._check_samples(X, reset=True)
        return self

    @keeps_array_type
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
        self._check_parameters()
        return self._encode(self._check_samples(X, reset=False), split=self.split_sign)

    @property
    def components_(self) -> Array:
        """The dictionary as an array of shape (n_components, n_features)."""
        return np.asarray(self.dictionary)

    @property
    def n_components_(self) -> int:
        """The number of atoms."""
        return len(self.components_)

    def _encode(self, X: Rows, *, split: bool) -> Any:
        D = check_dictionary_array(self.dictionary, X.dtype)
        n_threads = thread_count(self.n_jobs)
        with blas_threads(matrix_threads(len(D), n_threads)):
            coder = make_coder(
                D,
                None,
                algorithm=self.transform_algorithm,
                n_nonzero_coefs=self.transform_n_nonzero_coefs,
                alpha=self.transform_alpha,
                max_iter=self.transform_max_iter,
                positive=self.positive_code,
                tol=self.transform_tol,
                debias=self.transform_debias,
            )
        output = make_output(X, len(D), split=split, sparse=self.sparse_output)
        n_unfinished = write_codes(X, coder, output, n_threads)
        if n_unfinished:
            increase = "transform_max_iter or transform_tol"
            warn_user(unfinished_message(n_unfinished, X, increase), ConvergenceWarning)
        return output.result()

    def _unsplit_codes(self, X: Any) -> Any:
        self._check_parameters()
        return self._encode(self._check_samples(X, reset=False), split=False)

    def _check_samples(self, X: Any, *, reset: bool) -> Rows:
        X, _ = check_scaled_rows(self, X, reset=reset, advice=ADVICE)
        p = check_dictionary_array(self.dictionary, X.dtype).shape[1]
        if X.shape[1] != p:
            raise InvalidInputError(
                f"X must have as many columns as the dictionary, {p}, got {X.shape[1]}; rows of"
                " the dictionary are atoms."
            )
        return X

    def _check_parameters(self) -> None:
        check_options(
            self.transform_algorithm,
            self.transform_n_nonzero_coefs,
            self.transform_alpha,
            self.transform_max_iter,
            self.positive_code,
            self.transform_tol,
            self.transform_debias,
        )
        check_flag("split_sign", self.split_sign)
        check_flag("sparse_output", self.sparse_output)
        check_n_jobs(self.n_jobs)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags
