"""Predicted labels in records, and the comparison of two methods on the same test digits."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import binomtest


def encode_predictions(predicted: Any, labels: Any) -> dict[str, str]:
    """Return the predicted digits as one string, and which of them are wrong as hexadecimal bits.

    With the second string two methods can be compared without the labels.
    """
    predicted, labels = np.asarray(predicted), np.asarray(labels)
    return {
        "test_predictions": "".join(str(int(digit)) for digit in predicted),
        "test_wrong": np.packbits(predicted != labels).tobytes().hex(),
    }


def decode_predictions(text: str) -> Any:
    """Return the predicted digits of a string as an integer array."""
    return np.frombuffer(text.encode("ascii"), dtype=np.uint8) - ord("0")


def decode_wrong(text: str, n: int) -> Any:
    """Return for each of n test digits whether its prediction is wrong."""
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(text), dtype=np.uint8))
    return bits[:n].astype(bool)


def mcnemar(one: Any, other: Any) -> float:
    """Return the p-value of McNemar's exact test that two methods are wrong equally often.

    ``one`` and ``other`` tell for the same digits whether each method is wrong. Only digits that
    exactly one of the methods recognises count.
    """
    only_one = int(np.sum(one & ~other))
    only_other = int(np.sum(other & ~one))
    if only_one + only_other == 0:
        return 1.0
    return float(binomtest(only_one, only_one + only_other).pvalue)
