"""
===================================
Sparse features of a neural network
===================================

A hidden unit of a neural network often responds to many different inputs. Sparse features of the
hidden activations respond to fewer, and can be described by the samples with the largest codes. The
network here is an ``MLPClassifier`` for digits. The features are learned without labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from lincode import SCNN

plt.style.use("tableau-colorblind10")

# %%
# Hidden activations
# ------------------

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.5, random_state=1, stratify=y
)
mlp = MLPClassifier((32,), alpha=1e-3, max_iter=1000, random_state=0).fit(X_train, y_train)


def hidden(samples):
    """Return the activations of the hidden layer."""
    return np.maximum(samples @ mlp.coefs_[0] + mlp.intercepts_[0], 0)


H_train, H_test = hidden(X_train), hidden(X_test)
print(f"accuracy of the network: {mlp.score(X_test, y_test):.1%}")

# %%
# Sparse features
# ---------------
# SCNN learns 64 non-negative features of the 32 hidden units. For features that are to be
# interpreted, ``encoder_weight=0`` and ``refine=False`` are better than the defaults, which
# reconstruct better. Both are compared.

scnn = SCNN(64, encoder_weight=0, refine=False, positive_code=True, random_state=0).fit(H_train)
refined = SCNN(64, positive_code=True, random_state=0).fit(H_train)
features = {
    "hidden units": H_test,
    "PCA of hidden units": PCA().fit(H_train).transform(H_test),
    "SCNN features": scnn.transform(H_test),
    "SCNN, defaults": refined.transform(H_test),
}
print(
    f"{scnn.score(H_test):.1%} of the squared activations are reconstructed from the features"
    f" ({refined.score(H_test):.1%} with the defaults)"
)

# %%
# Which digits activate a feature most
# ------------------------------------
# The purity of a feature is the largest fraction of one class among the ten test digits that
# activate it most. Features that fewer than ten test digits activate are left out. Each row of the
# figure shows these ten digits for one feature, from the lowest to the highest purity.

N_TOP = 10
top, purity = {}, {}
for name, F in features.items():
    order = np.argsort(-F, axis=0, kind="stable")[:N_TOP].T
    top[name] = order[(F > 0).sum(axis=0) >= N_TOP]
    purity[name] = np.array([np.bincount(y_test[rows]).max() / N_TOP for rows in top[name]])
    print(
        f"{name:20} purity {purity[name].mean():.0%},"
        f" {np.mean(F != 0):.0%} of the values are not zero"
    )

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, name in zip(axes, ("hidden units", "SCNN features"), strict=True):
    shown = np.argsort(purity[name])[np.linspace(0, len(purity[name]) - 1, 8).astype(int)]
    image = np.zeros((80, 10 * N_TOP))
    for row, j in enumerate(shown):
        for column, i in enumerate(top[name][j]):
            pixels = np.pad(X_test[i].reshape(8, 8), 1)
            image[10 * row : 10 * row + 10, 10 * column : 10 * column + 10] = pixels
    ax.imshow(image, cmap="gray_r")
    ax.set_yticks(10 * np.arange(8) + 4.5, [f"{purity[name][j]:.0%}" for j in shown])
    ax.set_xticks([])
    ax.set_title(f"{name}, mean purity {purity[name].mean():.0%}", fontsize=11)
    ax.set_ylabel("purity of the feature")
plt.show()

# %%
print(
    f"The ten digits that activate a feature of SCNN most belong to one class in"
    f" {purity['SCNN features'].mean():.0%} of the cases (a hidden unit:"
    f" {purity['hidden units'].mean():.0%}, a principal component:"
    f" {purity['PCA of hidden units'].mean():.0%})."
)
