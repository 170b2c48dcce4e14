"""What all estimators that learn SCNN share: start, scale, score, names, warnings, checks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lincode.core.encoder_step import matching_threshold
from lincode.core.energy import energy, lam_max
from lincode.core.init import Start, start_from_data, start_from_dictionary, start_of_the_paper
from lincode.core.types import Array, Rows
from lincode.estimators._checks import (
    check_choice,
    check_dictionary,
    check_flag,
    check_n_jobs,
    check_number,
    check_rows,
)
from lincode.estimators._coder import LinearCoder
from lincode.networks.scnn import fix_signs


class BaseSCNN(LinearCoder):
    """SCNN, however it is trained."""

    def score(self, X: Any, y: object = None) -> float:
        """Minus the energy per sample on X: the larger the better.

        The energy is that of the codes that minimise it for the learned D and C, whatever
        ``transform_method`` and ``threshold`` are, so that it is to new data what
        ``energy_ / n_samples`` is to the training data. It compares networks of the same
        ``alpha``, ``encoder_weight`` and ``n_components``, which are part of the energy; to
        choose those, score what you want the codes for.
        """
        check_is_fitted(self)
        self._check_parameters()
        X = check_rows(self, X, reset=False, scale=True)
        U = self._codes(X, "exact")
        D, C, alpha, eta = self.components_, self.encoder_, self.alpha, self.encoder_weight
        return -energy(X, U, D, C, alpha, eta) / len(U)

    def alpha_max(self, X: Any) -> float:
        """The alpha from which on all codes stay zero: m/p times the length of the longest sample.

        Holds for training that starts from a zero encoder, as ``init="data"`` and an array
        do, and whatever the atoms: below it an atom that points along the longest sample is
        worth using, at or above it none is. A share of it (0.01 to 0.3) is a choice of alpha
        that does not depend on the scale of X nor on n_components; it does depend on the
        longest sample, so look at outliers first. Needs no ``fit``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        float
        """
        self._check_parameters()
        X = check_rows(None, X, reset=False, scale=True)
        return lam_max(X, self._width(X))

    def _width(self, X: Rows) -> int:
        return int(X.shape[1] if self.n_components is None else self.n_components)

    def _new_start(self, X: Rows, rng: np.random.RandomState | None = None) -> Start:
        """Where training starts that does not go on from anything."""
        m, p = self._width(X), X.shape[1]
        rng = check_random_state(self.random_state) if rng is None else rng
        if isinstance(self.init, str):
            return (start_from_data if self.init == "data" else start_of_the_paper)(X, m, rng)
        return start_from_dictionary(check_dictionary(self.init, m, p))

    def _name_weights(self, D: Array, C: Array, used: Array, X: Rows) -> None:
        """Components, encoder and what follows from them; ``used`` is a share of rows."""
        if not self.positive_code:
            D, C = fix_signs(D, C)
        self.components_ = D.astype(X.dtype)
        self.encoder_ = C.astype(X.dtype)
        self.usage_ = used
        self.matching_threshold_ = matching_threshold(
            X, self.encoder_, float(used.mean()), positive=self.positive_code
        )

    def _warn_of_codes(self, X: Rows) -> None:
        """Say so where codes are all zero, or the encoder's all but empty."""
        name = type(self).__name__
        if not self.usage_.any():
            most = lam_max(X, self._width(X))
            why = (
                f"alpha={self.alpha} must be below {most:.3g} for these data (see alpha_max); a"
                " tenth of that is a place to start"
                if most > 0
                else "X is all zero"
            )
            warnings.warn(f"{name}: every code is zero: {why}.", UserWarning, stacklevel=3)
        elif self.transform_method == "encoder":
            encoded = np.count_nonzero(
                self._codes(X[:: -(-X.shape[0] // 1000)], "encoder"), axis=1
            ).mean()
            trained = float(self.usage_.sum())
            if encoded < trained / 100:
                warnings.warn(
                    f"{name}: the encoder's codes have {encoded:.2g} non-zeros a sample, the"
                    f" trained codes {trained:.2g}: the encoder's threshold is too high. Set"
                    f" threshold='match' (here {self.matching_threshold_:.3g}) or a number below"
                    f" {self._encoder_threshold():.3g}.",
                    UserWarning,
                    stacklevel=3,
                )

    def _check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, integer=True, or_none=True)
        check_number("alpha", self.alpha, 0)
        check_number("encoder_weight", self.encoder_weight, 0)
        if not isinstance(self.threshold, str):
            check_number("threshold", self.threshold, 0, or_none=True)
        elif self.threshold != "match":
            raise ValueError(
                "threshold must be a number of at least 0, 'match' or None, got"
                f" {self.threshold!r}."
            )
        check_number("tol", self.tol, 0)
        check_number("transform_tol", self.transform_tol, 0)
        check_choice("transform_method", self.transform_method, ("encoder", "exact", "relearn"))
        if isinstance(self.init, str):
            check_choice("init", self.init, ("data", "paper"))
        if not isinstance(self.verbose, bool | np.bool_):
            check_number("verbose", self.verbose, 0, integer=True)
        for name in ("split_sign", "positive_code", "sparse_output"):
            check_flag(name, getattr(self, name))
        if self.split_sign and self.positive_code:
            raise ValueError(
                "split_sign=True has nothing to split where positive_code=True; set one to False."
            )
        check_n_jobs(self.n_jobs)
