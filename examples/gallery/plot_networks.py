"""
=================================
Compare the networks of the paper
=================================

The paper of Montalto, Tessitore and Prevete compares SCNN with two other networks,
:class:`lincode.SAANN` and :class:`lincode.ASCNN`, and with :class:`lincode.Sparsenet`. Here all of
them, and PCA, learn 49 units from digits. For each network, alpha is chosen on validation digits by
the accuracy of a linear classifier of the codes.
"""

from time import process_time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from lincode import ASCNN, SAANN, SCNN, Sparsenet
from lincode.metrics import rms_error, sparsity_area
from lincode.plotting import AtomsDisplay

M = 49

# %%
# Choose alpha on validation digits
# ---------------------------------

X, y = load_digits(return_X_y=True)
X_rest, X_test, y_rest, y_test = train_test_split(
    X / 8 - 1, y, test_size=0.25, random_state=0, stratify=y
)
X_train, X_val, y_train, y_val = train_test_split(
    X_rest, y_rest, test_size=1 / 3, random_state=0, stratify=y_rest
)
candidates = {
    "SCNN": [SCNN(M, alpha, random_state=0) for alpha in (0.02, 0.1)],
    "ASCNN": [ASCNN(M, alpha, random_state=0) for alpha in (0.05, 0.2)],
    "SAANN": [SAANN(M, alpha, random_state=0) for alpha in (0.01, 0.05)],
    "Sparsenet": [Sparsenet(M, alpha, random_state=0) for alpha in (0.1, 0.5)],
    "PCA": [PCA(M)],
}
networks, errors, rms_errors = {}, {}, {}
print("network    RMS error  sparsity area  wrong test digits  CPU seconds to train")
for name, variants in candidates.items():
    best_accuracy = 0.0
    start = process_time()
    for variant in variants:
        variant.fit(X_train)
    seconds = (process_time() - start) / len(variants)
    for variant in variants:
        codes, codes_val = variant.transform(X_train), variant.transform(X_val)
        for C in (1.0, 10.0):
            classifier = LogisticRegression(C=C, max_iter=2000).fit(codes, y_train)
            accuracy = classifier.score(codes_val, y_val)
            if accuracy > best_accuracy:
                best_accuracy, chosen, networks[name] = accuracy, classifier, variant
    codes = networks[name].transform(X_test)
    errors[name] = np.mean(chosen.predict(codes) != y_test)
    rms_errors[name] = rms_error(X_test, networks[name].inverse_transform(codes))
    print(
        f"{name:10} {rms_errors[name]:9.3f} {sparsity_area(codes):14.2f}"
        f" {errors[name]:18.1%} {seconds:21.1f}"
    )

# %%
# Atoms, codes and reconstructions
# --------------------------------
# The rows are the atoms, the codes of ten test digits (one digit per row), and five test digits
# above their reconstructions.

ten_digits = X_test[[np.flatnonzero(y_test == label)[0] for label in range(10)]]
figure, axes = plt.subplots(
    3, len(networks), figsize=(12, 6.6), height_ratios=(2.4, 1.5, 1), layout="constrained"
)
for column, (name, network) in zip(axes.T, networks.items(), strict=True):
    AtomsDisplay(network.components_).plot(ax=column[0])
    column[0].set_title(name)
    codes = network.transform(ten_digits)
    limit = np.quantile(np.abs(codes), 0.99)
    column[1].imshow(codes, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    column[1].set(xlabel="unit", yticks=range(0, 10, 3))
    digits = np.vstack([ten_digits[:5], network.inverse_transform(codes[:5])])
    AtomsDisplay(digits).plot(n_columns=5, cmap="gray_r", ax=column[2])
    column[2].set_title(f"RMS error {rms_errors[name]:.3f}", fontsize=11)
axes[1, 0].set_ylabel("digit")
plt.show()

# %%
ranking = sorted(errors, key=errors.__getitem__)
print(
    f"Error rates of the linear classifier on {len(y_test)} test digits: "
    + ", ".join(f"{name} {errors[name]:.1%}" for name in ranking)
    + f"; differences below {2 * np.sqrt(2 * 0.03 * 0.97 / len(y_test)):.0%} may be chance."
)
