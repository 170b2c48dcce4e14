"""Estimates of memory, and the errors if there is not enough of it."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from lincode.rows.memory import needs_iterative_factor
from lincode.rows.required_memory import (
    available_bytes,
    check_codes_memory,
    check_training_memory,
    training_bytes,
)

from lincode import SCNN, MiniBatchSCNN
from lincode.exceptions import InvalidInputError
from lincode.rows import memory, required_memory

FLOAT32: Any = np.dtype(np.float32)


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 1 MB of memory, on which every requirement is checked."""
    monkeypatch.setattr(required_memory, "available_bytes", lambda: 1_000_000)
    monkeypatch.setattr(required_memory, "MIN_CHECKED_BYTES", 0)


def test_available_memory_is_positive_or_unknown() -> None:
    available = available_bytes()
    assert available is None or available > 0


def test_sizes_of_codes_and_factor() -> None:
    needed = training_bytes(1000, 300, 20, FLOAT32, iterative=False)
    assert needed["codes"] == 2 * 1000 * 20 * 4
    assert needed["encoder step"] == 3 * 8 * 300 * 300
    wide = training_bytes(20_000, 50_000, 200, FLOAT32, iterative=True)
    assert sum(wide.values()) < 2.5e9
    direct = training_bytes(20_000, 50_000, 200, FLOAT32, iterative=False)
    assert direct["encoder step"] == 24 * 50_000 * 20_000


@pytest.mark.usefixtures("small_machine")
def test_message_names_the_sizes_and_what_to_do() -> None:
    with pytest.raises(InvalidInputError, match="100000 samples with 10 features") as error:
        check_training_memory(100_000, 10, 20, FLOAT32, iterative=False)
    assert "MiniBatchSCNN" in str(error.value)
    with pytest.raises(InvalidInputError, match="a CSR matrix if most entries"):
        check_training_memory(500, 500, 2, FLOAT32, iterative=False)
    with pytest.raises(InvalidInputError, match="sparse_output=True"):
        check_codes_memory(100_000, 20, FLOAT32)
    check_codes_memory(100, 20, FLOAT32)


def test_unknown_memory_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(required_memory, "available_bytes", lambda: None)
    check_codes_memory(10**9, 10**6, FLOAT32)


def test_a_failed_fit_does_not_change_the_estimator(
    rng: np.random.Generator, request: pytest.FixtureRequest
) -> None:
    X = rng.standard_normal((300, 8))
    scnn = SCNN(4, random_state=0).fit(X)
    batches = MiniBatchSCNN(4, random_state=0).fit(X)
    before = scnn.transform(X)
    request.getfixturevalue("small_machine")
    large = rng.standard_normal((60_000, 8))
    for model in (scnn, batches.set_params(batch_size=60_000)):
        with pytest.raises(InvalidInputError, match="of memory in addition to X"):
            model.fit(large)
    with pytest.raises(InvalidInputError, match="transform fewer samples"):
        scnn.transform(large)
    assert scnn.set_params(sparse_output=True).transform(large).shape == (60_000, 4)
    np.testing.assert_array_equal(scnn.set_params(sparse_output=False).transform(X), before)


@pytest.mark.parametrize(
    ("shape", "dense", "sparse"),
    [
        ((5000, 2048), False, False),
        ((2048, 60_000), True, True),
        ((2048, 5000), False, False),
        ((1500, 50_000), False, True),
        ((5000, 2049), False, True),
        ((200_000, 9000), False, True),
        ((20_000, 50_000), True, True),
    ],
)
def test_choice_of_the_factor_depends_on_sizes_only(
    shape: tuple[int, int], dense: bool, sparse: bool
) -> None:
    assert needs_iterative_factor(np.broadcast_to(np.float32(0), shape)) == dense
    assert needs_iterative_factor(scipy.sparse.csr_array(shape, dtype=np.float32)) == sparse


def test_the_fixed_limit_is_read_from_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.zeros((5, 5))
    assert not needs_iterative_factor(X)
    monkeypatch.setattr(memory, "MAX_DIRECT_BYTES", 0)
    assert needs_iterative_factor(X)
