"""The base class of all estimators, which have a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted

from lincode.core.types import Array
from lincode.estimators.array_api import keeps_array_type
from lincode.estimators.validation import FLOAT_DTYPES, check_not_masked
from lincode.exceptions import InvalidInputError


class DictionaryTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer with a dictionary ``components_``. Subclasses learn it and compute codes."""

    @keeps_array_type
    def inverse_transform(self, X: Any) -> Array:
        """Reconstruct samples from their codes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_out)
            Codes as returned by ``transform``.

        Returns
        -------
        array of shape (n_samples, n_features)
            The reconstruction, the product of the codes and ``components_``.
        """
        check_is_fitted(self)
        check_not_masked("codes", X)
        try:
            U = check_array(X, accept_sparse="csr", dtype=FLOAT_DTYPES, input_name="codes")
        except (ValueError, TypeError) as error:
            raise InvalidInputError(str(error)) from error
        if U.shape[1] != self._n_features_out:
            split = getattr(self, "split_sign", None)
            how = "" if split is None else f" with split_sign={split}"
            raise InvalidInputError(
                f"codes must have {self._n_features_out} columns, as returned by transform{how},"
                f" got {U.shape[1]}."
            )
        return self._decode(self._merge_signs(U))

    @keeps_array_type
    def reconstruct(self, X: Any) -> Array:
        """Compute the codes of X and reconstruct X from them.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self._decode(self._unsplit_codes(X))

    def _decode(self, U: Any) -> Array:
        D = self._decoder().astype(U.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            X = np.asarray(U @ D)
            is_finite = np.isfinite(X.sum()) or np.isfinite(X).all()
        if not is_finite:
            raise InvalidInputError(
                f"the reconstruction must be finite, but its entries are too large for {X.dtype};"
                " divide the codes or the dictionary by a number."
            )
        return X

    def _decoder(self) -> Array:
        """Return the matrix with which codes are multiplied to reconstruct samples."""
        return np.asarray(self.components_)

    def _merge_signs(self, U: Any) -> Any:
        """Return codes with one column per atom from the output of ``transform``."""
        return U

    def _unsplit_codes(self, X: Any) -> Array:
        """Return the codes of X with one column per atom."""
        return np.asarray(self.transform(X))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
