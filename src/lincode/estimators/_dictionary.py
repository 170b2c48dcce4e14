"""What follows from a dictionary alone: from codes back to samples, names, tags."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted

from lincode.core.types import Array
from lincode.estimators._checks import FLOATS


class DictionaryTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer with ``components_`` (D), an atom a row; subclasses learn it and code by it."""

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
        if U.shape[1] != self._n_features_out:
            split = getattr(self, "split_sign", None)
            how = "" if split is None else f" with split_sign={split}"
            raise ValueError(
                f"codes must have {self._n_features_out} columns, as transform gives{how}, got"
                f" {U.shape[1]}."
            )
        return self._decoded(self._joined(U))

    def reconstruct(self, X: Any) -> Array:
        """Encode and decode: what the network makes of X, of the shape of X."""
        check_is_fitted(self)
        return self._decoded(self._coded(X))

    def _decoded(self, U: Any) -> Array:
        return np.asarray(U @ self.components_.astype(U.dtype, copy=False))

    def _joined(self, U: Any) -> Any:
        """Codes with one column an atom, from what ``transform`` gives."""
        return U

    def _coded(self, X: Any) -> Array:
        """Codes of X with one column an atom."""
        return np.asarray(self.transform(X))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
