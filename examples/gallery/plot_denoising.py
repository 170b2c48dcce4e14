"""
====================
Denoise a photograph
====================

White noise is added to a photograph. Every method learns from patches of the noisy photograph
alone, denoises all overlapping patches of 8×8 pixels, and averages them. No method sees the clean
photograph. The parameters were chosen on another photograph, flower.jpg. The exception is the alpha
of scikit-learn: 0.2 and 0.3 were equally good there, and 0.2, which is better here, was taken.
"""

from time import process_time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.decomposition import PCA, MiniBatchDictionaryLearning
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

from lincode import SCNN, sparse_encode
from lincode.metrics import rms_error
from lincode.plotting import AtomsDisplay

NOISE = 0.1
SIDE = 8
N_COMPONENTS = 128

# %%
# The photograph and its patches
# ------------------------------
# The mean of each patch is subtracted before and added again after denoising, because the mean of
# 64 pixels has little noise.

clean = load_sample_image("china.jpg").mean(axis=2)[100:356, 150:406] / 255
noisy = clean + NOISE * np.random.default_rng(0).standard_normal(clean.shape)
patches = extract_patches_2d(noisy, (SIDE, SIDE)).reshape(-1, SIDE**2)
means = patches.mean(axis=1, keepdims=True)
X = patches - means
X_train = X[np.random.default_rng(0).choice(len(X), 10_000, replace=False)]


def image_from(denoised_patches):
    """Average the overlapping patches."""
    images = (denoised_patches + means).reshape(-1, SIDE, SIDE)
    return np.clip(reconstruct_from_patches_2d(images, clean.shape), 0, 1)


def psnr(image):
    """Return the peak signal-to-noise ratio in decibels."""
    return -20 * np.log10(rms_error(clean, np.clip(image, 0, 1)))


# %%
# SCNN: one product and a threshold
# ---------------------------------
# ``refine=False``, because a refined encoder would also learn to reconstruct the noise. The density
# follows from the noise: the residual of the patches should be as large as the noise. A denser code
# would reconstruct a part of the noise, and a sparser one loses a part of the photograph.
# ``calibrate`` changes the density without training again, so bisection is cheap.

start = process_time()
scnn = SCNN(N_COMPONENTS, density=0.03, refine=False, random_state=0).fit(X_train)
low, high = 1e-3, 1.0
sample = X[::12]
for _ in range(8):
    density = np.sqrt(low * high)
    residual = rms_error(sample, scnn.calibrate(sample, density=density).reconstruct(sample))
    low, high = (density, high) if residual > NOISE else (low, density)
scnn.calibrate(X, density=density)
fitted = process_time()
images = {"SCNN, encoder": image_from(scnn.reconstruct(X))}
seconds = {"SCNN, encoder": (fitted - start, process_time() - fitted)}

# %%
# Other methods
# -------------
# The non-zeros of the encoder with the values of least squares; orthogonal matching pursuit (OMP)
# with a dictionary of scikit-learn, which adds atoms until the residual is about as large as the
# noise; and a hard threshold of principal components. ``lincode.sparse_encode`` computes the OMP
# codes of scikit-learn, but in less time.

start = process_time()
scnn.set_params(transform_algorithm="projection")
images["SCNN, projection"] = image_from(scnn.reconstruct(X))
seconds["SCNN, projection"] = (seconds["SCNN, encoder"][0], process_time() - start)
scnn.set_params(transform_algorithm="encoder")

start = process_time()
learner = MiniBatchDictionaryLearning(N_COMPONENTS, alpha=0.2, max_iter=1, random_state=0)
D = learner.fit(X_train).components_
fitted = process_time()
codes = sparse_encode(
    X, D, algorithm="omp", n_nonzero_coefs=SIDE**2 // 2, tol=SIDE**2 * (1.1 * NOISE) ** 2
)
images["scikit-learn, OMP"] = image_from(codes @ D)
seconds["scikit-learn, OMP"] = (fitted - start, process_time() - fitted)

start = process_time()
pca = PCA().fit(X)
fitted = process_time()
Z = pca.transform(X)
Z[np.abs(Z) < 2.6 * NOISE] = 0
images["PCA, threshold"] = image_from(pca.inverse_transform(Z))
seconds["PCA, threshold"] = (fitted - start, process_time() - fitted)

# %%
# Result
# ------

quality = {name: psnr(image) for name, image in images.items()}
print(f"Noisy photograph: {psnr(noisy):.2f} dB")
for name, (learning, denoising) in seconds.items():
    print(
        f"{name:20} {quality[name]:.2f} dB, CPU time of learning {learning:4.1f} s,"
        f" of denoising {denoising:4.1f} s"
    )

figure = plt.figure(figsize=(10, 5.6), layout="constrained")
axes = figure.subplot_mosaic(
    [["noisy", "denoised", "clean"], ["atoms"] * 3], height_ratios=(1.95, 1)
)
shown = {
    f"Noisy, {psnr(noisy):.1f} dB": noisy,
    f"Denoised by the encoder, {quality['SCNN, encoder']:.1f} dB": images["SCNN, encoder"],
    "Clean": clean,
}
for part, (title, image) in zip(("noisy", "denoised", "clean"), shown.items(), strict=True):
    axes[part].imshow(image, cmap="gray", vmin=0, vmax=1)
    axes[part].set_title(title, fontsize=11)
    axes[part].set_axis_off()
display = AtomsDisplay.from_estimator(scnn, n_atoms=64, n_columns=16, ax=axes["atoms"])
display.ax_.set_title(
    "The 64 atoms that are used most, learned from the noisy photograph", fontsize=11
)
plt.show()

# %%
best = max(quality, key=quality.__getitem__)
print(
    f"The encoder improves the photograph by {quality['SCNN, encoder'] - psnr(noisy):.1f} dB"
    f" ({best} is the best method with {quality[best] - psnr(noisy):.1f} dB)."
)
