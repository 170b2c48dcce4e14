"""Denoising of images and signals by greedy codes of their overlapping patches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from lincode.core.arrays import Array
from lincode.estimators.sparse_encode import adapt_dictionary, sparse_encode
from lincode.estimators.validation import N_JOBS, check_matrix, check_seed, either, number
from lincode.estimators.validation import choice as one_of
from lincode.exceptions import InvalidInputError

SIDE, WINDOW = 8, 64
"""Patches of images have 8×8 pixels, and windows of signals 64 samples."""
ATOMS, COLOUR_ATOMS, TRAINING_PATCHES, ROUNDS = 256, 384, 20_000, 10
NOISE_DEVIATIONS = 1.2
"""A patch is coded until its squared residual is this number of standard deviations above the mean
squared length of white noise. It was chosen on training images of BSDS300 with σ = 25."""
BLOCK_PATCHES = 50_000


def denoise(
    X: ArrayLike,
    sigma: float | None = None,
    *,
    network: Any = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> Array:
    """Remove white noise from an image or a signal.

    All overlapping patches, minus their mean, are coded by orthogonal matching pursuit until the
    residual of each is as large as the noise, and the reconstructed patches are averaged. The
    dictionary is learned from the noisy patches, unless a network is given.

    Parameters
    ----------
    X : array-like of shape (n_samples,), (height, width) or (height, width, n_colours)
        A signal, a grey image or a colour image with 3 or 4 colours, with white noise. The values
        may have any scale.
    sigma : float, default=None
        The standard deviation of the noise. None means that it is estimated from the
        smallest variances of principal components of the patches. It must be white: the estimate
        is too small if the noise of neighbouring values is correlated.
    network : estimator or array of shape (n_components, n_features), default=None
        A fitted network or another estimator with ``components_``, or a dictionary, for patches
        without their mean. Patches of images are square, so that ``n_features`` is 64 for 8×8
        pixels, and 192 with 3 colours.
    n_jobs : int, default=None
        The number of threads. None means as many as the BLAS library uses, −1 means all cores.
    random_state : int, RandomState instance or None, default=None
        The random numbers of the training.

    Returns
    -------
    array of the shape of X
        The denoised image or signal, in float64, or in float32 if X is in float32.

    Examples
    --------
    >>> import numpy as np
    >>> import lincode
    >>> clean = np.sin(np.arange(1000) / 20)
    >>> noisy = clean + 0.2 * np.random.default_rng(0).standard_normal(1000)
    >>> denoised = lincode.denoise(noisy, random_state=0)
    >>> bool(np.std(denoised - clean) < 0.5 * np.std(noisy - clean))
    True
    """
    either(one_of(None), number(0)).check("sigma", sigma)
    N_JOBS.check("n_jobs", n_jobs)
    image, rng = _as_image(X), check_seed(random_state)
    n_colours, D = image.shape[2], None
    shape = (WINDOW, 1) if np.ndim(X) == 1 else (SIDE, SIDE)
    if network is not None:
        D = check_matrix("network", getattr(network, "components_", network), None, image.dtype)
        side = round((D.shape[1] / n_colours) ** 0.5)
        shape = (D.shape[1], 1) if np.ndim(X) == 1 else (side, side)
        if shape[0] * shape[1] * n_colours != D.shape[1]:
            raise InvalidInputError(
                f"the atoms must be square patches with {n_colours} colours, but have"
                f" {D.shape[1]} entries."
            )
    if shape[0] > image.shape[0] or shape[1] > image.shape[1]:
        raise InvalidInputError(
            f"X must be at least as large as its patches, {shape[: np.ndim(X)]}, got {np.shape(X)}."
        )
    patches = sliding_window_view(image, shape, axis=(0, 1))  # (rows, columns, colours, *shape)
    chosen = rng.permutation(patches.shape[0] * patches.shape[1])[:TRAINING_PATCHES]
    sample = patches[np.unravel_index(chosen, patches.shape[:2])].reshape(len(chosen), -1)
    noise = _estimated_noise(sample) if sigma is None else float(sigma)
    if noise == 0:
        return image.reshape(np.shape(X)).copy()
    p = n_colours * shape[0] * shape[1]
    tol = p * noise**2 * (1 + NOISE_DEVIATIONS * (2 / p) ** 0.5)
    options: dict[str, Any] = {"algorithm": "omp", "n_nonzero_coefs": max(1, p // 2), "tol": tol}
    options |= {"sparse_output": True, "n_jobs": n_jobs}
    if D is None:
        sample, _ = _centred(sample.reshape(len(sample), n_colours, *shape))
        m = ATOMS if n_colours == 1 else COLOUR_ATOMS
        D = adapt_dictionary(sample, sample[:m], n_rounds=ROUNDS, **options)
    total, count = np.zeros_like(image), np.zeros_like(image)
    for first in range(0, len(patches), step := max(1, BLOCK_PATCHES // patches.shape[1])):
        block = patches[first : first + step]
        rows, means = _centred(block.reshape(-1, *block.shape[2:]))
        denoised = sparse_encode(rows, D, **options) @ D
        denoised = denoised.reshape(*block.shape[:2], n_colours, -1) + means.reshape(
            *block.shape[:3], 1
        )
        for i, j in np.ndindex(*shape):
            place = np.s_[first + i : first + i + len(block), j : j + block.shape[1]]
            total[place] += denoised[..., i * shape[1] + j]
            count[place] += 1
    return np.asarray((total / count).reshape(np.shape(X)))


def _as_image(X: ArrayLike) -> Array:
    """Return X as a finite array of shape (height, width, n_colours); signals have width 1."""
    shape = np.shape(X)
    if len(shape) not in (1, 2, 3) or (len(shape) == 3 and shape[2] not in (1, 3, 4)):
        raise InvalidInputError(
            "X must have the shape (n_samples,), (height, width) or (height, width, n_colours) with"
            f" 3 or 4 colours, got {shape}."
        )
    dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
    rows = check_matrix("X", np.reshape(np.asarray(X), (shape[0], -1)), None, dtype)
    return rows.reshape(*shape[:2], -1) if len(shape) > 1 else rows.reshape(-1, 1, 1)


def _centred(patches: Array) -> tuple[Array, Array]:
    """Return patches of shape (n, n_colours, height, width) as rows, and the means of colours."""
    rows = patches.reshape(*patches.shape[:2], -1)
    means = rows.mean(axis=2, keepdims=True)
    return np.ascontiguousarray((rows - means).reshape(len(rows), -1)), means


def _estimated_noise(rows: Array) -> float:
    """Return the standard deviation of white noise, from the variances of principal components.

    Patches vary in few directions, and the variances in the others are those of the noise. The
    largest variances are removed until the mean of the others is not above their median (Chen, Zhu
    and Heng 2015).
    """
    variances = np.linalg.eigvalsh(np.cov(rows, rowvar=False))
    for n in range(len(variances), 0, -1):
        if variances[:n].mean() <= np.median(variances[:n]) * (1 + 1e-9):
            return float(np.sqrt(max(variances[:n].mean(), 0)))
    return 0.0
