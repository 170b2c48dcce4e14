"""
=======================
Atoms of natural images
=======================

Sparse codes of whitened patches of photographs have localized, oriented atoms, which resemble the
receptive fields of cells in the visual cortex (Olshausen and Field, 1996). Independent component
analysis (ICA) finds similar atoms, and the components of PCA are waves that fill the whole patch.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import kurtosis
from sklearn.datasets import load_sample_images
from sklearn.decomposition import PCA, FastICA
from sklearn.feature_extraction.image import extract_patches_2d

from lincode import SCNN
from lincode.plotting import AtomsDisplay

SIDE, N_PATCHES = 8, 10_000

# %%
# Whitened patches
# ----------------
# The filter multiplies the amplitude at the frequency f by f exp(−(f/f₀)⁴), where f₀ is 0.4 cycles
# per pixel. The factor f flattens the spectrum of natural images, and the exponential removes the
# highest frequencies.


def whiten(image):
    fy, fx = (np.fft.fftfreq(n) for n in image.shape)
    f = np.hypot(fy[:, None], fx)
    filtered = np.fft.ifft2(np.fft.fft2(image - image.mean()) * f * np.exp(-((f / 0.4) ** 4))).real
    return filtered / filtered.std()


X = np.vstack(
    [
        extract_patches_2d(
            whiten(image.mean(axis=2) / 255),
            (SIDE, SIDE),
            max_patches=N_PATCHES // 2,
            random_state=0,
        ).reshape(-1, SIDE**2)
        for image in load_sample_images().images
    ]
)
X = np.random.default_rng(0).permutation(X - X.mean(axis=1, keepdims=True))
X *= np.sqrt(0.1) / X.std()
X_train, X_test = X[:8000], X[8000:]

# %%
# Three kinds of atoms
# --------------------
# The last component of PCA is left out, because patches with mean 0 have 63 dimensions. The
# kurtosis of the codes measures how far they are from a normal distribution, whose kurtosis is 0.
# Codes with many small and few large values have a large kurtosis. It is the mean over the units
# that are used. An atom is localized if few pixels have most of its squared length.


def n_pixels(atoms):
    """Return the mean number of pixels that have 80 % of the squared length of an atom."""
    fractions = np.sort(np.square(atoms), axis=1)[:, ::-1].cumsum(axis=1)
    return np.mean(np.sum(fractions < 0.8 * fractions[:, -1:], axis=1) + 1)


models = {
    "PCA": PCA(63).fit(X_train),
    "ICA": FastICA(63, whiten="unit-variance", random_state=0, max_iter=500, tol=1e-3).fit(X_train),
    "SCNN": SCNN(64, random_state=0).fit(X_train),
}
atoms = {name: model.components_ for name, model in models.items()}
atoms["ICA"] = models["ICA"].mixing_.T
sizes, kurtoses = {}, {}
for name, model in models.items():
    sizes[name] = n_pixels(atoms[name])
    codes = model.transform(X_test)
    codes = codes[:, codes.any(axis=0)]
    kurtoses[name] = kurtosis(codes, axis=0).mean()
    print(
        f"{name:5} kurtosis of a code {kurtoses[name]:5.1f},"
        f" {sizes[name]:4.1f} of 64 pixels have 80 % of the squared length of an atom"
    )
print(f"kurtosis of a pixel {kurtosis(X_test, axis=0).mean():.1f}")

# %%
figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
for ax, (name, D) in zip(axes, atoms.items(), strict=True):
    AtomsDisplay(D).plot(n_columns=8, ax=ax)
    ax.set_title(f"{name}: {sizes[name]:.0f} pixels per atom", fontsize=11)
plt.show()

# %%
print(
    f"An atom of SCNN needs {sizes['SCNN']:.0f} pixels for 80 % of its squared length, one of ICA"
    f" {sizes['ICA']:.0f} and one of PCA {sizes['PCA']:.0f}."
)
