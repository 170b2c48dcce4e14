"""
====================
Denoise a photograph
====================

White noise is added to a photograph. ``lincode.denoise`` learns a dictionary from patches of the
noisy photograph, codes all of its overlapping patches of 8×8 pixels until the residual is as large
as the noise, and averages them. It is compared with a threshold of principal components, which uses
the same patches.
"""

from time import process_time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.decomposition import PCA
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

from lincode import denoise
from lincode.metrics import rms_error

NOISE = 0.1
clean = load_sample_image("china.jpg")[100:356, 150:406].mean(axis=2) / 255
noisy = clean + NOISE * np.random.default_rng(0).standard_normal(clean.shape)


def psnr(image):
    """Return the peak signal-to-noise ratio in decibels."""
    return -20 * np.log10(rms_error(clean, np.clip(image, 0, 1)))


# %%
# One call
# --------
# The standard deviation of the noise is estimated from the photograph if it is not given. The
# estimate is too large for a photograph with as much fine detail as this one.

images, seconds = {}, {}
for name, sigma in (("denoise", NOISE), ("denoise, estimated noise", None)):
    start = process_time()
    images[name] = denoise(noisy, sigma, random_state=0)
    seconds[name] = process_time() - start

# %%
# Principal components
# --------------------
# Scores below 2.6 times the noise become zero. This constant was chosen on another photograph,
# flower.jpg.

start = process_time()
patches = extract_patches_2d(noisy, (8, 8)).reshape(-1, 64)
means = patches.mean(axis=1, keepdims=True)
pca = PCA().fit(patches - means)
scores = pca.transform(patches - means)
scores[np.abs(scores) < 2.6 * NOISE] = 0
denoised = (pca.inverse_transform(scores) + means).reshape(-1, 8, 8)
images["PCA, threshold"] = reconstruct_from_patches_2d(denoised, clean.shape)
seconds["PCA, threshold"] = process_time() - start

# %%
# Result
# ------

quality = {name: psnr(image) for name, image in images.items()}
print(f"Noisy photograph: {psnr(noisy):.2f} dB")
for name in images:
    print(f"{name:25} {quality[name]:.2f} dB, CPU time {seconds[name]:.1f} s")

shown = {f"Noisy, {psnr(noisy):.1f} dB": noisy}
shown |= {f"{name}, {quality[name]:.1f} dB": image for name, image in images.items()}
shown["Clean"] = clean
del shown[f"denoise, estimated noise, {quality['denoise, estimated noise']:.1f} dB"]
figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
for ax, (title, image) in zip(axes, shown.items(), strict=True):
    ax.imshow(image[60:188, 60:188], cmap="gray", vmin=0, vmax=1)
    ax.set_title(title, fontsize=11)
    ax.set_axis_off()
figure.suptitle("A quarter of the photograph")
plt.show()

best = max(quality, key=lambda name: quality[name])
print(f"The best result is that of {best}: {quality[best] - psnr(noisy):.1f} dB above the noise.")
