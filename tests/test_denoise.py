"""denoise: images and signals with white noise."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_sample_image
from sklearn.feature_extraction.image import extract_patches_2d

from lincode import denoise
from lincode.exceptions import InvalidInputError

IMAGE = load_sample_image("flower.jpg")[200:264, 250:322] / 255
SIGNAL = np.sin(np.arange(2000) / 15) + (np.arange(2000) % 400 > 200)


def noise(shape: tuple[int, ...]) -> Any:
    """Return the same noise in every test, whatever ran before."""
    return 0.1 * np.random.default_rng(0).standard_normal(shape)


def gain(clean: Any, noisy: Any, **options: Any) -> float:
    """Return by how many decibels the error decreases."""
    denoised = denoise(noisy, random_state=0, **options)
    assert denoised.shape == clean.shape
    return float(20 * np.log10(np.std(noisy - clean) / np.std(denoised - clean)))


@pytest.mark.parametrize(
    ("clean", "least"), [(IMAGE.mean(axis=2), 4), (IMAGE, 5), (SIGNAL, 7)], ids=np.ndim
)
def test_noise_is_removed_at_any_scale(clean: Any, least: float) -> None:
    noisy = clean + noise(clean.shape)
    assert gain(clean, noisy, sigma=0.1) > least
    assert gain(1000 * clean, 1000 * noisy) > least - 1  # estimated noise


def test_a_given_dictionary_is_used() -> None:
    clean = IMAGE.mean(axis=2).astype(np.float32)
    noisy = clean + noise(clean.shape).astype(np.float32)
    waves = np.cos(np.pi * np.outer(np.arange(12), np.arange(6) + 0.5) / 12)
    assert gain(clean, noisy, sigma=0.1, network=np.kron(waves, waves)) > 4
    assert denoise(noisy, 0.1, network=np.kron(waves, waves)).dtype == np.float32
    assert_array_equal(denoise(noisy, 0.0), noisy)


def test_patches_have_the_order_of_extract_patches_2d() -> None:
    """Atoms that are the clean patches themselves are the best dictionary."""
    noisy = IMAGE + noise(IMAGE.shape)
    patches = extract_patches_2d(IMAGE, (8, 8), max_patches=1000, random_state=0)
    patches = patches - patches.mean(axis=(1, 2), keepdims=True)
    channels_first = np.moveaxis(patches, -1, 1)
    best, wrong = (
        gain(IMAGE, noisy, sigma=0.1, network=A.reshape(-1, 192)) for A in (patches, channels_first)
    )
    assert best > gain(IMAGE, noisy, sigma=0.1)
    assert best > wrong + 2


@pytest.mark.parametrize(
    ("X", "options", "words"),
    [
        (np.zeros((9, 9, 2)), {}, "shape"),
        (np.zeros((5, 9)), {}, "as large as its patches"),
        (np.full((9, 9), np.nan), {}, "NaN"),
        (np.zeros((9, 9)), {"sigma": -1}, "sigma must be"),
        (np.zeros((9, 9)), {"network": np.ones((5, 24))}, "square patches"),
        (np.arange(100.0), {}, "cannot be estimated from 37 patches"),
    ],
)
def test_invalid_input(X: Any, options: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        denoise(X, **options)
