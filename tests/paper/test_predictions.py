"""Predictions in records, and McNemar's test."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from paper.experiments.predictions import (
    decode_predictions,
    decode_wrong,
    encode_predictions,
    mcnemar,
)
from scipy.stats import binom


@pytest.mark.parametrize("n", [1, 8, 13])
def test_predictions_survive_a_round_trip(n: int, rng: np.random.Generator) -> None:
    labels, predicted = rng.integers(0, 10, (2, n))
    encoded = encode_predictions(predicted, labels)
    assert_array_equal(decode_predictions(encoded["test_predictions"]), predicted)
    assert_array_equal(decode_wrong(encoded["test_wrong"], n), predicted != labels)


def test_mcnemar_counts_digits_that_one_method_recognises() -> None:
    both, neither = [True] * 30, [False] * 50
    one = np.array(both + neither + [True] * 9 + [False] * 2)
    other = np.array(both + neither + [False] * 9 + [True] * 2)
    assert mcnemar(one, other) == pytest.approx(2 * binom.cdf(2, 11, 0.5))
    assert mcnemar(one, other) == mcnemar(other, one)
    assert mcnemar(one, one) == 1
