"""Denoising of images and signals by greedy codes of their overlapping patches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from lincode.core.arrays import Array, blocks
from lincode.estimators.sparse_encode import adapt_dictionary, sparse_encode
from lincode.estimators.validation import check_matrix, check_seed, choice, either, number
from lincode.exceptions import InvalidInputError

SIDE = 8
"""Patches of images have 8×8 pixels, and windows of signals 64 samples."""
BLOCK_PATCHES = 50_000
"""At most about this number of patches is coded at once, which limits the memory."""
ATOMS, COLOUR_ATOMS, TRAINING_PATCHES, ROUNDS = 256, 384, 20_000, 10
NOISE_DEVIATIONS = 1.2
"""A patch is coded until its squared residual is this number of standard deviations above the mean
squared length of white noise. It was chosen on training images of BSDS300 with σ = 25."""


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
    residual of each is as large as the noise, and the reconstructed patches are averaged.

    Parameters
    ----------
    X : array-like of shape (n_samples,), (height, width) or (height, width, n_colours)
        A signal, a grey image or a colour image with 3 or 4 colours, at any scale.
    sigma : float, default=None
        The standard deviation of the noise. None means an estimate from principal components of
        the patches, which is too small if the noise of neighbouring values is correlated.
    network : estimator or array of shape (n_components, n_features), default=None
        An estimator with ``components_``, or a dictionary, for square patches without their mean,
        with 192 features for 8×8 pixels and 3 colours, in the order of
        ``extract_patches_2d(X, (8, 8)).reshape(-1, 192)``. None means that it is learned from X.
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
    >>> noisy = np.sin(np.arange(1000) / 20) + 0.2 * np.random.default_rng(0).standard_normal(1000)
    >>> error = lincode.denoise(noisy, random_state=0) - np.sin(np.arange(1000) / 20)
    >>> bool(np.std(error) < 0.1)
    True
    """
    either(choice(None), number(0)).check("sigma", sigma)
    image, D = _as_image(X), None
    n_colours = image.shape[2]
    if network is not None:
        D = check_matrix("network", getattr(network, "components_", network), None, image.dtype)
    p = SIDE**2 * n_colours if D is None else D.shape[1]
    side = round((p / n_colours) ** 0.5)
    shape = (p, 1) if np.ndim(X) == 1 else (side, side)
    if shape[0] * shape[1] * n_colours != p or np.less(image.shape[:2], shape).any():
        raise InvalidInputError(
            "atoms must be square patches, or windows of a signal, and X at least as large as its"
            f" patches; got atoms with {p} entries and an X of shape {np.shape(X)}."
        )
    patches = sliding_window_view(image, shape, axis=(0, 1))
    patches = np.moveaxis(patches, 2, -1)  # (rows, columns, *shape, colours)
    order = check_seed(random_state).permutation(patches.shape[0] * patches.shape[1])
    sample = patches[np.unravel_index(order[:TRAINING_PATCHES], patches.shape[:2])]
    if sigma is None and len(sample) < 2 * p:
        raise InvalidInputError(
            f"the noise cannot be estimated from {len(sample)} patches of {p} values, because at"
            f" least {2 * p} patches are needed; pass sigma."
        )
    noise = _estimated_noise(sample.reshape(-1, p)) if sigma is None else float(sigma)
    tol = p * noise**2 * (1 + NOISE_DEVIATIONS * (2 / p) ** 0.5)
    options: dict[str, Any] = {"algorithm": "omp", "n_nonzero_coefs": max(1, p // 2), "tol": tol}
    options |= {"sparse_output": True, "n_jobs": n_jobs}
    if noise == 0:
        return image.reshape(np.shape(X)).copy()
    if D is None:
        rows = (sample - sample.mean(axis=(-3, -2), keepdims=True)).reshape(-1, p)
        m = ATOMS if n_colours == 1 else COLOUR_ATOMS
        D = adapt_dictionary(rows, rows[:m], n_rounds=ROUNDS, **options)
    total, count = np.zeros_like(image), np.zeros_like(image)
    for part in blocks(len(patches), max(1, BLOCK_PATCHES // patches.shape[1])):
        block = patches[part]
        means = block.mean(axis=(-3, -2), keepdims=True)
        rows = (block - means).reshape(-1, p)
        denoised = (sparse_encode(rows, D, **options) @ D).reshape(block.shape) + means
        for i, j in np.ndindex(*shape):
            place = np.s_[part.start + i : part.stop + i, j : j + block.shape[1]]
            total[place] += denoised[..., i, j, :]
            count[place] += 1
    return np.asarray((total / count).reshape(np.shape(X)))


def _as_image(X: ArrayLike) -> Array:
    """Return X as a finite array of shape (height, width, n_colours); signals have width 1."""
    shape = np.shape(X)
    if len(shape) not in (1, 2, 3) or shape[2:] not in ((), (1,), (3,), (4,)):
        raise InvalidInputError(
            "X must have the shape (n_samples,), (height, width) or (height, width, n_colours) with"
            f" 3 or 4 colours, got {shape}."
        )
    dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
    rows = check_matrix("X", np.reshape(np.asarray(X), (shape[0], -1)), None, dtype)
    return rows.reshape((*shape, 1, 1)[:3])


def _estimated_noise(rows: Array) -> float:
    """Return the standard deviation of white noise, from the variances of principal components.

    Patches vary in few directions, and the variances in the others are those of the noise: as many
    of the smallest ones that their mean is not above their median (Chen, Zhu and Heng 2015).
    """
    variances, n = np.linalg.eigvalsh(np.cov(rows, rowvar=False)).clip(0), np.arange(rows.shape[1])
    means = np.cumsum(variances) / (n + 1)
    medians = (variances[n // 2] + variances[(n + 1) // 2]) / 2
    return float(np.sqrt(means[means <= medians * (1 + 1e-9)][-1]))
