"""What the experiments measure."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from paper import svm
from paper.cache import Record, Run
from paper.codes import THRESHOLDS, soft_threshold, sparsity_area, sparsity_curve
from paper.experiments import competitors, digits, features, missing_pixels, mnist_noise, networks
from paper.samples import Samples, Split
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits
from sklearn.metrics import zero_one_loss

from lincode import SCNN


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_all_features_get_the_same_scale(form: type, rng: np.random.Generator) -> None:
    A = rng.standard_normal((200, 5)) * [1, 10, 0.01, 0, 3]
    B = features.scaled(form(A), features.scales(form(A)))
    B = B.toarray() if hasattr(B, "toarray") else B
    assert_allclose(np.square(B).mean(axis=0), [0.2, 0.2, 0.2, 0, 0.2])
    assert_allclose(np.square(B).sum(axis=1).mean(), 0.8)


def test_codes_are_thresholded_or_split_into_parts(rng: np.random.Generator) -> None:
    Z = rng.standard_normal((7, 3))
    plain = features.coded(Z, 0.3, "plain").toarray()
    assert_array_equal(plain, soft_threshold(Z, 0.3))
    split = features.coded(Z, 0.3, "split").toarray()
    assert split.shape == (7, 6)
    assert (split >= 0).all()
    assert_allclose(split[:, :3] - split[:, 3:], plain)


ZEROS = [0.95, 0.2, 0.6]


def labelled(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    y = rng.integers(0, 3, n)
    return np.eye(3)[y] * 3 + 1.5 * rng.standard_normal((n, 3)), y


def test_threshold_and_c_do_not_depend_on_the_test_set(rng: np.random.Generator) -> None:
    sets = [labelled(rng, n) for n in (90, 60, 60)]
    Z, y = [z for z, _ in sets], [y for _, y in sets]
    data = Split(Z[0], Z[1], Z[2], y[0], y[1], y[2])
    found = features.classify(Z, data, "plain", ZEROS, [0.1, 10.0])
    shuffled = replace(data, y_test=rng.permutation(y[2]))
    other = features.classify(Z, shuffled, "plain", ZEROS, [0.1, 10.0])
    assert found["test_error"] < other["test_error"]
    for name in ("zeros", "C", "threshold", "val_error"):
        assert found[name] == other[name]
    assert np.shape(found["val_errors"]) == (3, 2)
    assert len(np.unique(np.min(found["val_errors"], axis=1))) > 1, (
        "otherwise there is no choice to make"
    )
    assert found["val_error"] == np.min(found["val_errors"])
    fraction = (features.coded(Z[0], found["threshold"], "plain").toarray() == 0).mean()
    assert fraction == pytest.approx(found["zeros"], abs=0.02)


def test_missing_pixels_are_a_fraction_of_each_patch(rng: np.random.Generator) -> None:
    X = rng.standard_normal((30, 64)) + 5
    for level in missing_pixels.LEVELS:
        Y = missing_pixels.remove_pixels(X, level, [0])
        assert_array_equal((Y == 0).sum(axis=1), round(64 * level))
        assert_array_equal(Y[Y != 0], X[Y != 0])
        assert_array_equal(Y, missing_pixels.remove_pixels(X, level, [0]))
    assert (
        missing_pixels.remove_pixels(X, 0.5, [0, 1]) != missing_pixels.remove_pixels(X, 0.5, [0, 0])
    ).any()


def test_noise_has_the_given_standard_deviation() -> None:
    zeros = [np.zeros((200, 100), np.float32) for _ in range(3)]
    data = mnist_noise.add_noise(Split(*zeros), 0.06, 0)
    for X in (data.train, data.val, data.test):
        assert X.std() == pytest.approx(0.06, rel=0.03)
        assert X.dtype == np.float32
    assert (data.val != data.test).any()


def test_noise_with_the_given_variance_is_clipped() -> None:
    grey = [np.zeros((200, 100), np.float32) for _ in range(3)]  # 1/2 as a pixel in [0, 1]
    for X in mnist_noise.add_noise(Split(*grey), 0.01, 0, mnist_noise.VARIANCE).arrays():
        assert np.var((X + 1) / 2) == pytest.approx(0.01, rel=0.05)
        assert X.dtype == np.float32
    black = [np.full((200, 100), -1, np.float32) for _ in range(3)]
    for X in mnist_noise.add_noise(Split(*black), 0.08, 0, mnist_noise.VARIANCE).arrays():
        assert -1 == X.min() < X.max() <= 1
        assert np.mean(X == -1) == pytest.approx(0.5, abs=0.02)


def a_record(
    val: list[float],
    test: list[float],
    network: str = "SCNN",
    m: int = 25,
    seed: int = 0,
    areas: list[float] | None = None,
) -> Record:
    settings = {"network": network, "m": m, "n": [500, 500, 500]}
    run = Run("digits-components", "paper", seed, False, settings)
    columns = {"val_accuracy": val, "test_accuracy": test, "val_sparsity_area": areas}
    return Record(run, columns, 1.0, {})


def test_lambda_is_chosen_on_validation_digits() -> None:
    record = a_record([0.5, 0.8, 0.8, 0.7], [0.9, 0.6, 0.75, 0.95])
    assert digits.chosen_accuracy(record) == 0.75


def test_minimum_sparsity_area_applies_to_validation_codes() -> None:
    record = a_record([0.9, 0.8, 0.7], [0.5, 0.6, 0.4], areas=[0.3, 0.8, 0.9])
    assert digits.chosen_accuracy(record) == 0.5
    assert digits.chosen_accuracy(record, 0.8) == 0.6
    assert digits.chosen_accuracy(record, 0.85) == 0.4
    assert digits.chosen_accuracy(record, 0.95) is None


def test_predictions_survive_a_round_trip(rng: np.random.Generator) -> None:
    predicted, labels = rng.integers(0, 10, (2, 37))
    found = features.encode_predictions(predicted, labels)
    assert [int(c) for c in found["test_predictions"]] == list(predicted)
    assert_array_equal(features.decode_wrong(found["test_wrong"], 37), predicted != labels)


def test_diverging_training_counts_as_an_accuracy_of_zero() -> None:
    (run, *_) = (r for r in competitors.runs("smoke", True) if r.group == competitors.GROUP)
    run = replace(run, settings={**run.settings, "solver": "sgd", "rates": [1e9, 1e-4]})
    found = competitors.measure(run, Samples(embedded=True))
    assert found["val_accuracy"][0] == found["test_accuracy"][0] == 0
    assert found["val_accuracy"][1] > 0.2


def test_networks_of_the_paper_are_built_from_the_settings_of_runs() -> None:
    assert isinstance(networks.build("SCNN", 5, 0.1, 0), SCNN)
    start = networks.build("SCNN, weights in [−1, 1]", 5, 0.1, 0, init="paper", tol=0.01)
    assert (start.solver, start.tol, start.alpha) == ("accelerated", 0.01, 0.1)
    assert networks.build("SCNN", 5, 0.1, 0, init="paper", solver="paper").solver == "gradient"
    assert isinstance(networks.build("SCNN", 5, 0.1, 0, init="data", solver="auto"), SCNN)
    assert networks.wide_lams("SCNN", 3) == [0.0, 0.001, 0.003]


def test_codes_of_the_paper_are_those_of_the_trained_encoder() -> None:
    """The numbers of linear codes are those of the code with which the records were measured.

    The D step of that code stopped elsewhere within its tolerance.
    """
    X = load_digits().data[:700] / 8 - 1
    scnn = networks.build("SCNN", 30, 0.1, 0, tol=1e-2, threshold=0.0).fit(X[:500])
    linear = networks.encode(scnn, X[500:], threshold=0.0)
    assert_allclose(np.abs(linear).sum(), 3071.885127291168, rtol=1e-4)
    assert_allclose(np.square(scnn.inverse_transform(linear)).sum(), 7373.024300942048, rtol=1e-4)
    thresholded = networks.encode(scnn, X[500:])
    assert_allclose(thresholded, soft_threshold(linear, 0.1), atol=1e-12)
    assert_array_equal(thresholded, scnn.transform(X[500:]))


@pytest.mark.parametrize("n", [600, 1100])
def test_validation_errors_are_those_of_a_one_vs_one_svm(n: int) -> None:
    """With few samples the classifier is SVC, otherwise LinearSVC for each pair of classes."""
    X, y = load_digits(return_X_y=True)
    X, X_val, y_val = X / 16, X[n : n + 300] / 16, y[n : n + 300]
    errors = svm.validation_errors(X[:n], y[:n], X_val, y_val, Cs=(1.0, 1e-5))
    assert list(errors) == [1e-5, 1.0]
    fitted = svm.fit(X[:n], y[:n], 1.0)
    assert errors[1.0] == zero_one_loss(y_val, fitted.predict(X_val)) < min(errors[1e-5], 0.09)
    rows = (csr_matrix(X[:n]), y[:n], csr_matrix(X_val), y_val)
    assert svm.validation_errors(*rows, Cs=[1.0])[1.0] == pytest.approx(errors[1.0], abs=0.007)


def test_sparsity_counts_small_codes_of_either_sign() -> None:
    U = np.array([[0.0, 0.2, -0.2, -3.0], [0.0, 0.0, 0.1, 5.0]])
    at = {round(float(t), 2): s for t, s in zip(THRESHOLDS, sparsity_curve(U), strict=True)}
    assert [at[t] for t in (0.0, 0.1, 0.2, 0.5)] == [3 / 8, 4 / 8, 6 / 8, 6 / 8]
    assert sparsity_area(np.zeros((2, 3))) == 1
    single = np.array([[0.1, 0.2, 0.0]], dtype=np.float32)
    assert_allclose(sparsity_curve(single)[[10, 20]], [2 / 3, 1])
