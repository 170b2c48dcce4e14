"""Data and settings shared by the tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from sklearn.datasets import load_digits, load_sample_images
from sklearn.feature_extraction.image import extract_patches_2d

# Every run uses the same examples, and no example has a time limit.
settings.register_profile(
    "lincode",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("lincode")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def digits() -> Any:
    """600 digits of 8×8 pixels, in [0, 1], read-only."""
    X = load_digits().data[:600] / 16
    X.flags.writeable = False
    return X


@pytest.fixture(scope="session")
def patches() -> Any:
    """2000 grey patches of 8×8 pixels from scikit-learn's photographs, each with mean 0."""
    grey = [image.mean(axis=2) / 255 for image in load_sample_images().images]
    X = np.vstack(
        [
            extract_patches_2d(image, (8, 8), max_patches=1000, random_state=0).reshape(-1, 64)
            for image in grey
        ]
    )
    return X - X.mean(axis=1, keepdims=True)
