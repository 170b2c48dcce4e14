"""Training, validation and test samples do not overlap and are determined by the seed."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from paper.samples import Samples, fit_to

DATA = os.environ.get("LINCODE_DATA")
SOURCES = [
    pytest.param(Samples(embedded=True), id="embedded"),
    pytest.param(
        Samples(Path(DATA or ".")),
        id="real",
        marks=pytest.mark.skipif(not DATA, reason="LINCODE_DATA is not set"),
    ),
]


def rows(X: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in np.ascontiguousarray(X)}


@pytest.mark.parametrize("samples", SOURCES)
def test_digits_do_not_overlap(samples: Samples) -> None:
    data = samples.digits((100, 100, 100), 0, 28)
    # Two of the 8×8 digits may be equal by chance.
    assert len(rows(data.train) & rows(data.test)) <= 1
    assert len(rows(data.train) & rows(data.val)) <= 1
    assert [len(x) for x in data.arrays()] == [100] * 6


@pytest.mark.parametrize("samples", SOURCES)
def test_patches_are_centred_and_do_not_overlap(samples: Samples) -> None:
    data = samples.patches((50, 40, 30), 0)
    assert [len(x) for x in data.arrays()] == [50, 40, 30]
    for X in data.arrays():
        assert np.abs(X.mean(axis=1)).max() < 1e-12
    assert not rows(data.train) & rows(data.test)


@pytest.mark.parametrize("samples", SOURCES)
@pytest.mark.parametrize("kind", ["digits", "patches"])
def test_seed_determines_the_split_and_its_checksum(samples: Samples, kind: str) -> None:
    def sample(seed: int) -> tuple[np.ndarray, str]:
        data = getattr(samples, kind)((40, 30, 20), seed)
        return data.train, samples.given["sha256"]

    X, checksum = sample(0)
    again, same = sample(0)
    assert_array_equal(X, again)
    assert checksum == same
    other, different = sample(1)
    assert not np.array_equal(X, other)
    assert checksum != different


def test_name_of_embedded_data_says_so() -> None:
    samples = Samples(embedded=True)
    for kind in ("digits", "patches"):
        getattr(samples, kind)((10, 10, 10), 0)
        assert samples.given["name"].startswith("embedded: ")


def test_embedded_digits_are_resized_in_proportion() -> None:
    samples = Samples(embedded=True)
    assert samples.digits((10, 10, 10), 0, 28).train.shape == (10, 64)
    assert samples.digits((10, 10, 10), 0, 14).train.shape == (10, 16)


def test_sizes_are_reduced_in_proportion() -> None:
    assert fit_to(1000, (100, 100, 100)) == (100, 100, 100)
    assert fit_to(1400, (50_000, 10_000, 10_000)) == (1000, 200, 200)


@pytest.mark.skipif(not DATA, reason="LINCODE_DATA is not set")
def test_split_of_all_of_mnist_is_that_of_the_paper() -> None:
    samples = Samples(Path(DATA or "."))
    data = samples.all_digits((50_000, 10_000, 10_000))
    assert [x.shape for x in (data.train, data.val, data.test)] == [
        (50_000, 784),
        (10_000, 784),
        (10_000, 784),
    ]
    assert data.train.min() == -1
    assert data.train.max() == 1
    assert len(np.unique(data.y_test)) == 10
    few = samples.all_digits((50_000, 100, 100))
    assert not rows(few.val) & rows(few.train)
