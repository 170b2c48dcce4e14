"""The classifier of the experiments: a one-vs-one linear SVM, its C chosen on validation data.

scikit-learn's, not ours. The paper says "linear SVM as multi-class classifier" and no more; its
error on raw pixels agrees with one-vs-one. Of what scikit-learn has, ``LinearSVC`` for each pair
is 3 to 14 times faster than ``SVC(kernel="linear")`` on codes of 10,000 digits and errs no more
(``benchmarks/classifiers.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lincode.metrics import error_rate

CS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""The C that are tried."""


@dataclass(frozen=True)
class ChosenSVM:
    """A fitted classifier, and how it was chosen."""

    classifier: Any
    """scikit-learn's; has ``predict``"""
    C: float
    validation_errors: dict[float, float]
    """Error rate on the validation samples for each C"""

    def predict(self, X: Any) -> Any:
        """Labels of other samples."""
        return self.classifier.predict(X)

    def error(self, X: Any, y: ArrayLike) -> float:
        """Error rate on other samples."""
        return error_rate(y, self.predict(X))


def one_vs_one_svm(
    X: Any,
    y: ArrayLike,
    X_val: Any,
    y_val: ArrayLike,
    *,
    Cs: Sequence[float] = CS,
    max_iter: int = 1000,
    n_jobs: int | None = None,
    random_state: int | None = 0,
) -> ChosenSVM:
    """Fit a linear SVM for each C and keep the one that errs least on the validation samples.

    Of equals the smallest C is kept. Features are used as they are: bring them to one scale.

    Parameters
    ----------
    X, X_val : array-like or CSR matrix of shape (n_samples, n_features)
        To learn from, and to choose C by. CSR is faster where codes are sparse.
    y, y_val : array-like of shape (n_samples,)
        Labels of any kind.
    Cs : sequence of float, default=(0.01, 0.1, 1, 10, 100)
    max_iter : int, default=1000
        Most passes of the solver over the samples of two classes. It stops there without a
        warning: with large C the last digits take longest and decide nothing.
    n_jobs : int, default=None
        Pairs of classes fitted at a time.
    random_state : int, default=0

    Returns
    -------
    ChosenSVM

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode.classifier import one_vs_one_svm
    >>> X, y = load_digits(return_X_y=True)
    >>> svm = one_vs_one_svm(X[:900] / 16, y[:900], X[900:1300] / 16, y[900:1300])
    >>> svm.error(X[1300:] / 16, y[1300:]) < 0.1
    True
    """
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.multiclass import OneVsOneClassifier
    from sklearn.svm import LinearSVC

    if not len(Cs):
        raise ValueError("Cs must have at least one C, got none.")
    if not np.isin(np.unique(y_val), np.unique(y)).all():
        raise ValueError("y_val has labels that y has not: no classifier could be right on them.")
    fitted, errors = {}, {}
    for C in sorted(Cs):
        machine = LinearSVC(C=C, dual=True, max_iter=max_iter, random_state=random_state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted[C] = OneVsOneClassifier(machine, n_jobs=n_jobs).fit(X, y)
        errors[C] = error_rate(y_val, fitted[C].predict(X_val))
    best = min(errors, key=lambda C: errors[C])
    return ChosenSVM(fitted[best], best, errors)
