"""
================================
Fill missing pixels (inpainting)
================================

Most pixels of a photograph are missing. SCNN is trained on its incomplete patches, in which missing
pixels are NaN, and predicts the missing pixels from its codes. The alternative is linear
interpolation between the known pixels, by linear or cubic functions.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.interpolate import griddata
from sklearn.datasets import load_sample_image

from lincode import SCNN
from lincode.metrics import rms_error

SIDE, STEP = 8, 2
MISSING = 0.7

# %%
# The photograph and its patches
# ------------------------------
# A patch is a window of 8×8 pixels of one colour channel. All three channels have one dictionary.

clean = load_sample_image("china.jpg")[100:260, 210:370] / 255
rng = np.random.default_rng(0)
missing = rng.random(clean.shape[:2]) < MISSING
holes = np.where(missing[:, :, None], np.nan, clean)

windows = np.lib.stride_tricks.sliding_window_view(holes, (SIDE, SIDE), axis=(0, 1))[::STEP, ::STEP]
patches = windows.reshape(-1, SIDE**2)
means = np.nanmean(patches, axis=1, keepdims=True)
X = patches - means
print(f"{len(X)} patches, {np.isnan(X).mean():.0%} of their pixels are missing")


def image_from(filled_patches):
    """Average the overlapping patches, and keep the known pixels."""
    blocks = (filled_patches + means).reshape(windows.shape)
    total, count = np.zeros_like(clean), np.zeros_like(clean)
    for row in range(SIDE):
        for column in range(SIDE):
            rows = slice(row, row + STEP * len(blocks), STEP)
            columns = slice(column, column + STEP * blocks.shape[1], STEP)
            total[rows, columns] += blocks[..., row, column]
            count[rows, columns] += 1
    return np.where(missing[:, :, None], np.clip(total / count, 0, 1), clean)


# %%
# Train on incomplete patches
# ---------------------------
# ``fit`` accepts NaN. ``reconstruct`` returns all pixels of a patch, also the missing ones.

X_train = X[rng.choice(len(X), 4000, replace=False)]
scnn = SCNN(96, random_state=0).fit(X_train)
images = {"SCNN, encoder": image_from(scnn.reconstruct(X))}
scnn.set_params(transform_algorithm="lasso")
images["SCNN, lasso codes"] = image_from(scnn.reconstruct(X))

# %%
# Interpolation
# -------------

known = np.argwhere(~missing)
grid = tuple(np.indices(missing.shape))
nearest = griddata(known, clean[~missing], grid, method="nearest")
for method in ("linear", "cubic"):
    filled = griddata(known, clean[~missing], grid, method=method)
    filled = np.clip(np.where(np.isnan(filled), nearest, filled), 0, 1)
    images[f"{method} interpolation"] = np.where(missing[:, :, None], filled, clean)

# %%
# Result
# ------


def psnr(image):
    """Return the peak signal-to-noise ratio of the missing pixels in decibels."""
    return -20 * np.log10(rms_error(clean[missing], image[missing]))


quality = {name: psnr(image) for name, image in images.items()}
for name, value in quality.items():
    print(f"{name:20} {value:.2f} dB")

best_interpolation = max(list(quality)[2:], key=quality.__getitem__)
shown = {f"{MISSING:.0%} of the pixels are missing": np.nan_to_num(holes, nan=0.5)}
for name in (best_interpolation, "SCNN, encoder"):
    shown[f"{name}, {quality[name]:.1f} dB"] = images[name]
figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
for ax, (title, image) in zip(axes, (shown | {"original": clean}).items(), strict=True):
    ax.imshow(image)
    ax.set_title(title, fontsize=11)
    ax.set_axis_off()
plt.show()

# %%
best = max(quality, key=quality.__getitem__)
print(
    f"The best prediction of the missing pixels is that of {best} ({quality[best]:.1f} dB;"
    f" {best_interpolation}: {quality[best_interpolation]:.1f} dB)."
)
