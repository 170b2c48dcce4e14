"""
=============================
Learn from a file in one pass
=============================

The samples are in a file that is read through a memory map, so that only one batch is in memory at
a time. :class:`lincode.MiniBatchSCNN` learns the batches one after the other. The samples are
colour patches of two photographs.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images
from sklearn.decomposition import IncrementalPCA
from sklearn.feature_extraction.image import extract_patches_2d

from lincode import SCNN, MiniBatchSCNN
from lincode.metrics import rms_error
from lincode.plotting import AtomsDisplay

plt.style.use("tableau-colorblind10")

SIDE = 8
N_PATCHES, BATCH = 40_000, 1000
N_COMPONENTS = 100

# %%
# The file
# --------
# The left part of each photograph gives training patches, and the right part test patches. The mean
# of each colour of a patch is subtracted.


def colour_patches(image, n, seed):
    patches = extract_patches_2d(image / 255, (SIDE, SIDE), max_patches=n, random_state=seed)
    patches = patches - patches.mean(axis=(1, 2), keepdims=True)
    return patches.reshape(n, -1).astype(np.float32)


images = load_sample_images().images
folder = tempfile.TemporaryDirectory()
path = Path(folder.name, "patches.npy")
file = np.lib.format.open_memmap(path, "w+", np.float32, (N_PATCHES, 3 * SIDE**2))
for i, image in enumerate(images):
    file[i :: len(images)] = colour_patches(image[:, :480], N_PATCHES // len(images), i)
file.flush()
del file
X_test = np.vstack([colour_patches(image[:, 480:], 2000, i) for i, image in enumerate(images)])
print(f"{path.stat().st_size / 1e6:.0f} MB in the file, {BATCH} of {N_PATCHES} patches per batch")

# %%
# One pass
# --------
# ``score`` is the fraction of the test patches that is reconstructed. The first 20,000 patches
# minimise the energy, and later batches refine the network.

X = np.load(path, mmap_mode="r")
stream = MiniBatchSCNN(N_COMPONENTS, random_state=0)
n_seen, unexplained = [], []
for start in range(0, N_PATCHES, BATCH):
    stream.partial_fit(X[start : start + BATCH])
    if start == 0:
        first_atoms = stream.components_[np.argsort(-stream.usage_)]
    n_seen.append(stream.n_samples_seen_)
    unexplained.append(1 - stream.score(X_test))

# %%
# Comparison
# ----------
# ``SCNN`` on the first batch shows what can be learned from 1000 patches in memory.
# ``IncrementalPCA`` has as many components as the codes of ``MiniBatchSCNN`` have non-zeros.

one_batch = SCNN(N_COMPONENTS, random_state=0).fit(X[:BATCH])
codes = stream.transform(X_test)
n_nonzero = round(np.count_nonzero(codes, axis=1).mean())
pca = IncrementalPCA(n_nonzero)
for start in range(0, N_PATCHES, BATCH):
    pca.partial_fit(X[start : start + BATCH])
del X  # closes the file
folder.cleanup()
errors = {
    "MiniBatchSCNN, one pass": rms_error(X_test, stream.inverse_transform(codes)),
    "SCNN, first batch": rms_error(X_test, one_batch.reconstruct(X_test)),
    f"IncrementalPCA, {n_nonzero} components": rms_error(
        X_test, pca.inverse_transform(pca.transform(X_test))
    ),
}
for name, error in errors.items():
    print(f"{name}: RMS error {error:.4f} of test patches")

figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(11, 3.9), width_ratios=(1.25, 1, 1), layout="constrained"
)
left.plot(np.divide(n_seen, 1000), unexplained, marker=".", label="MiniBatchSCNN")
left.axhline(1 - one_batch.score(X_test), color="black", linestyle="--", label="SCNN, first batch")
left.set(
    xlabel="patches learned, in thousands",
    ylabel="fraction of test patches not reconstructed",
    title="Test error during the pass",
)
left.legend()
left.grid(alpha=0.3)
last_atoms = stream.components_[np.argsort(-stream.usage_)]
for ax, atoms, n in ((middle, first_atoms, BATCH), (right, last_atoms, N_PATCHES)):
    AtomsDisplay(atoms, image_shape=(SIDE, SIDE, 3)).plot(n_columns=10, ax=ax)
    ax.set_title(f"Atoms after {n:,} patches")
plt.show()

# %%
pass_error, batch_error, pca_error = errors.values()
print(
    f"The error of test patches after one pass is {1 - pass_error / batch_error:.0%} below that of"
    f" the first batch alone, and {1 - pass_error / pca_error:.0%} below that of PCA with as many"
    " non-zeros."
)
