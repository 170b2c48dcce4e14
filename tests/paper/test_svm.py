"""The SVM, whose C is chosen on validation data only."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from paper.svm import one_vs_one_svm
from sklearn.datasets import load_digits
from sklearn.multiclass import OneVsOneClassifier
from sklearn.svm import SVC, LinearSVC

from lincode.metrics import error_rate


@pytest.fixture(scope="module")
def data() -> Any:
    return split(600)


def split(n: int) -> Any:
    X, y = load_digits(return_X_y=True)
    X = X / 16
    return X[:n], y[:n], X[n : n + 300], y[n : n + 300], X[n + 300 :], y[n + 300 :]


@pytest.mark.parametrize("n", [600, 1100])
def test_chosen_c_has_the_smallest_validation_error(n: int) -> None:
    """With few samples the classifier is SVC, otherwise LinearSVC."""
    X, y, X_val, y_val, X_test, y_test = split(n)
    svm = one_vs_one_svm(X, y, X_val, y_val, Cs=(1.0, 1e-5, 0.1))
    assert list(svm.validation_errors) == [1e-5, 0.1, 1.0]
    assert svm.validation_errors[svm.C] == min(svm.validation_errors.values())
    assert svm.C > 1e-5
    if n == 600:
        same = SVC(kernel="linear", C=svm.C)
        n_pairs = svm.classifier.intercept_.size
    else:
        same = OneVsOneClassifier(LinearSVC(C=svm.C, dual=True, max_iter=1000, random_state=0))
        n_pairs = len(svm.classifier.estimators_)
    same.fit(X, y)
    assert svm.error(X_test, y_test) == error_rate(y_test, same.predict(X_test)) < 0.09
    assert n_pairs == 45, "one classifier per pair of classes"


def test_smallest_c_is_chosen_among_equal_errors(data: Any) -> None:
    X, y = np.array([[0.0], [1.0]] * 5), np.array(["a", "b"] * 5)
    svm = one_vs_one_svm(X, y, X, y, Cs=(100.0, 10.0))
    assert svm.validation_errors == {10.0: 0.0, 100.0: 0.0}
    assert svm.C == 10.0


def test_sparse_and_dense_features_give_the_same_error(data: Any) -> None:
    X, y, X_val, y_val, X_test, y_test = data
    dense = one_vs_one_svm(X, y, X_val, y_val, Cs=(1.0,))
    rows = [scipy.sparse.csr_matrix(A) for A in (X, X_val, X_test)]
    sparse = one_vs_one_svm(rows[0], y, rows[1], y_val, Cs=(1.0,))
    assert sparse.error(rows[2], y_test) == pytest.approx(dense.error(X_test, y_test), abs=0.005)


def test_invalid_arguments_are_refused(data: Any) -> None:
    X, y, X_val, y_val, *_ = data
    with pytest.raises(ValueError, match="at least one value"):
        one_vs_one_svm(X, y, X_val, y_val, Cs=())
    with pytest.raises(ValueError, match="must only have labels that y has"):
        one_vs_one_svm(X[y > 0], y[y > 0], X_val, y_val)
