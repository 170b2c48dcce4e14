"""
============================
Sparsity and error: the path
============================

``density`` sets the sparsity of the encoder's codes. In the energy of the paper, it is ``alpha``
(λ), and :func:`lincode.scnn_path` fits networks for many values of alpha, each of which starts from
the one before. This example shows what both change: the number of non-zeros, the reconstruction of
new digits, and the atoms.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from lincode import SCNN, scnn_path
from lincode.metrics import rms_error
from lincode.plotting import AtomsDisplay, ReconstructionDisplay

plt.style.use("tableau-colorblind10")

# %%
# A path of networks
# ------------------
# The values of alpha are fractions of ``alpha_max``, the smallest alpha for which all codes are
# zero.

X = load_digits().data / 16
X_train, X_test = train_test_split(X, test_size=0.25, random_state=0)
ratios = np.geomspace(0.3, 0.005, 8)
alpha_max = SCNN(64).alpha_max(X_train)
path = scnn_path(
    X_train, 64, alphas=ratios * alpha_max, transform_algorithm="exact", tol=1e-3, random_state=0
)

# %%
# Errors and non-zeros of new digits
# ----------------------------------
# Each network of the path has two kinds of solved codes: exact codes, which minimise the energy,
# and lasso codes, which ignore the encoder. The encoder's codes belong to networks with other
# densities, which are refined. PCA with k components has k non-zeros per digit.

figure = plt.figure(figsize=(10, 6.2), layout="constrained")
axes = figure.subplot_mosaic("LLLRRR;AABBCC", height_ratios=(1.9, 1))
left, right = axes["L"], axes["R"]
curves = {}
for algorithm, marker in (("exact", "s"), ("lasso", "^")):
    name = f"SCNN, {algorithm}"
    for scnn in path:
        scnn.set_params(transform_algorithm=algorithm)
    curves[name] = ReconstructionDisplay.from_path(path, X_test, label=name, ax=right)
    left.semilogx(ratios, curves[name].nonzeros, marker=marker, label=name)
    right.lines[-1].set_marker(marker)
    for ratio, n, error in zip(ratios, curves[name].nonzeros, curves[name].errors, strict=True):
        print(f"{name:16} alpha = {ratio:.3f} alpha_max: {n:4.1f} non-zeros, error {error:.3f}")
networks = [
    SCNN(64, density=density, random_state=0).fit(X_train)
    for density in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
]
for algorithm, marker in (("encoder", "o"), ("projection", "D")):
    name = f"SCNN, {algorithm}"
    for scnn in networks:
        scnn.set_params(transform_algorithm=algorithm)
    curves[name] = ReconstructionDisplay.from_path(networks, X_test, label=name, ax=right)
    right.lines[-1].set_marker(marker)
    for scnn, n, error in zip(networks, curves[name].nonzeros, curves[name].errors, strict=True):
        print(f"{name:16} density = {scnn.density}: {n:4.1f} non-zeros, error {error:.3f}")
pcas = [PCA(k).fit(X_train) for k in range(1, 41)]
errors = [rms_error(X_test, pca.inverse_transform(pca.transform(X_test))) for pca in pcas]
curves["PCA"] = ReconstructionDisplay(np.arange(1, 41), errors).plot(label="PCA", ax=right)
right.lines[-1].set(marker="", color="black", linestyle="--")

left.set(
    xlabel="alpha / alpha_max", ylabel="non-zeros per digit", title="Larger alpha, fewer non-zeros"
)
left.grid(alpha=0.3)
left.legend(frameon=False)
right.set(title="Fewer non-zeros, larger error of new digits", xlim=(0, 40), ylim=(0, 0.27))
right.legend(frameon=False, loc="upper right")
for name, i in (("A", 0), ("B", 3), ("C", 7)):
    AtomsDisplay.from_estimator(path[i], n_atoms=32, n_columns=8, ax=axes[name])
    axes[name].set_title(f"alpha = {ratios[i]:.3f} alpha_max", fontsize=11)
plt.show()

# %%


def error_at(name, n_nonzero=15):
    """Return the error with this number of non-zeros, by linear interpolation."""
    return np.interp(n_nonzero, curves[name].nonzeros, curves[name].errors)


ranking = sorted(curves, key=error_at)
values = ", ".join(f"{name} {error_at(name):.3f}" for name in ranking)
print(f"RMS error of new digits with 15 non-zeros: {values}.")
