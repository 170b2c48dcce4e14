"""The classifier of the experiments: a one-vs-one linear SVM whose C is chosen on validation data.

The paper only says "linear SVM as multi-class classifier". Its error on raw pixels agrees with
one-vs-one. For many samples the classifier is ``LinearSVC`` for each pair of classes, which is 3 to
14 times faster than ``SVC(kernel="linear")`` on codes of 10,000 digits, and its error is not higher
(``paper/benchmarks/classifiers.py``). For few samples it is ``SVC(kernel="linear")``, which is also
one-vs-one and takes a tenth of the time for 500 digits, with about the same accuracy.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.multiclass import OneVsOneClassifier
from sklearn.svm import SVC, LinearSVC

from lincode.metrics import error_rate

CS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""The values of C that are tried by default."""
FEW = 1000
"""The largest number of training samples for which SVC is used."""


@dataclass(frozen=True)
class ChosenSVM:
    """A fitted classifier, and how its C was chosen."""

    classifier: Any
    """A fitted scikit-learn classifier"""
    C: float
    validation_errors: dict[float, float]
    """The error rate on the validation samples for each C"""

    def predict(self, X: Any) -> Any:
        """Return the predicted labels, of shape (n_samples,)."""
        return self.classifier.predict(X)

    def error(self, X: Any, y: ArrayLike) -> float:
        """Return the error rate on other samples."""
        return error_rate(y, self.predict(X))


def one_vs_one_svm(
    X: Any, y: ArrayLike, X_val: Any, y_val: ArrayLike, *, Cs: Sequence[float] = CS
) -> ChosenSVM:
    """Fit a linear SVM with the C that has the smallest error on the validation samples.

    Of equal errors the smallest C is chosen. Features are not scaled here.

    Parameters
    ----------
    X, X_val : array-like or CSR matrix of shape (n_samples, n_features)
        Samples for training, and for the choice of C. CSR is faster for sparse codes.
    y, y_val : array-like of shape (n_samples,)
        Labels of any kind.
    Cs : sequence of float, default=(0.01, 0.1, 1, 10, 100)

    Returns
    -------
    ChosenSVM

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from paper.svm import one_vs_one_svm
    >>> X, y = load_digits(return_X_y=True)
    >>> svm = one_vs_one_svm(X[:900] / 16, y[:900], X[900:1300] / 16, y[900:1300])
    >>> svm.error(X[1300:] / 16, y[1300:]) < 0.1
    True
    """
    errors = validation_errors(X, y, X_val, y_val, Cs=Cs)
    C = min(errors, key=errors.__getitem__)
    return ChosenSVM(fit(X, y, C), C, errors)


def validation_errors(
    X: Any, y: ArrayLike, X_val: Any, y_val: ArrayLike, *, Cs: Sequence[float] = CS
) -> dict[float, float]:
    """Return the error rate on the validation samples for each C, in ascending order of C."""
    if not len(Cs):
        raise ValueError("Cs must have at least one value, got none.")
    if not np.isin(np.unique(y_val), np.unique(y)).all():
        raise ValueError("y_val must only have labels that y has, but it has others.")
    sparse = scipy.sparse.issparse(X)
    X_both = scipy.sparse.vstack([X, X_val], "csr") if sparse else np.vstack([X, X_val])
    fold = np.repeat([-1, 0], [X.shape[0], X_val.shape[0]])  # -1: always for training
    svm = unfitted_svm(X.shape[0])
    search = GridSearchCV(
        svm,
        {"C" if isinstance(svm, SVC) else "estimator__C": sorted(Cs)},
        scoring=make_scorer(error_rate, greater_is_better=False),
        cv=PredefinedSplit(fold),
        refit=False,  # it would refit on the validation samples too
        error_score="raise",
    )
    with no_convergence_warnings():
        search.fit(X_both, np.concatenate([y, y_val]))
    scores = search.cv_results_["mean_test_score"]
    return {C: -float(score) for C, score in zip(sorted(Cs), scores, strict=True)}


def fit(X: Any, y: ArrayLike, C: float) -> Any:
    """Return the classifier fitted with a given C."""
    with no_convergence_warnings():
        return unfitted_svm(X.shape[0], C).fit(X, y)


def unfitted_svm(n_samples: int, C: float = 1.0) -> Any:
    """Return the classifier for so many training samples: one linear SVM per pair of classes."""
    if n_samples <= FEW:
        return SVC(kernel="linear", C=C)
    return OneVsOneClassifier(LinearSVC(C=C, dual=True, max_iter=1000, random_state=0))


@contextmanager
def no_convergence_warnings() -> Iterator[None]:
    """Ignore that the solver stopped at ``max_iter``, which does not change the error rate."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
