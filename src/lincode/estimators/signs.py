"""Positive and negative parts of codes as separate features."""

from __future__ import annotations

from typing import Any

import numpy as np

from lincode.estimators.dictionary import DictionaryTransformer


class SignSplitter(DictionaryTransformer):
    """A transformer whose parameter ``split_sign`` doubles the number of features."""

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the codes.

        The names are the name of the class in lower case and a number. With ``split_sign=True`` the
        names of the positive parts end with ``_pos``, and those of the negative parts, which come
        after them, end with ``_neg``.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        array of str
        """
        names = super().get_feature_names_out(input_features)
        if not self.split_sign:
            return names
        units = names[: len(self.components_)]
        split = [f"{unit}_{sign}" for sign in ("pos", "neg") for unit in units]
        return np.array(split, dtype=object)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_) * (2 if self.split_sign else 1)

    def _merge_signs(self, U: Any) -> Any:
        m = len(self.components_)
        return U[:, :m] - U[:, m:] if self.split_sign else U
