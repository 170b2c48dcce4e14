"""
===========================
Pictures of atoms and codes
===========================

The displays of ``lincode.plotting`` answer common questions about a fitted network. Each of them
plots with one call, into a new figure or into given axes. The network here has learned digits.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from lincode import SCNN, scnn_path
from lincode.inspection import decompose
from lincode.plotting import (
    AtomsDisplay,
    CodesDisplay,
    CorrelatedAtomsDisplay,
    DecompositionDisplay,
    EnergyDisplay,
    ReconstructionDisplay,
    TopSamplesDisplay,
    UsageDisplay,
)

X, y = load_digits(return_X_y=True)
X = X / 16
scnn = SCNN(64, random_state=0).fit(X)

# %%
# What do the atoms look like?
# ----------------------------
# The filter of the encoder is to the right of each atom. The atom that contributes most is first.

AtomsDisplay.from_estimator(scnn, X, sort_by="energy", filters=True)
plt.show()

# %%
# Is every atom used, and how sparse are the codes?
# -------------------------------------------------

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
UsageDisplay.from_estimator(scnn, X, ax=left)
CodesDisplay.from_codes(scnn.transform(X), kind="nonzeros", ax=right)
plt.show()

# %%
# Has the training converged, and how many non-zeros are needed?
# --------------------------------------------------------------
# The calibrated encoder is compared with networks that were trained with another alpha.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
EnergyDisplay.from_estimator(scnn, ax=left)
ReconstructionDisplay.from_estimator(scnn, X, label="one network, calibrated", ax=right)
path = scnn_path(X, 64, alpha_ratios=[0.05, 0.1, 0.2], random_state=0)
ReconstructionDisplay.from_path(path, X, label="networks with different alpha", ax=right)
plt.show()

# %%
# Which samples use an atom?
# --------------------------

TopSamplesDisplay.from_estimator(scnn, X, atoms=[3, 10], labels=y)
plt.show()

# %%
# Which atoms explain a sample?
# -----------------------------

parts = decompose(scnn, X[0])
DecompositionDisplay.from_estimator(scnn, X[0])
plt.show()

# %%
# Which atoms belong to a class?
# ------------------------------

CorrelatedAtomsDisplay.from_estimator(scnn, X, y, n_atoms=3)
plt.show()

# %%
print(
    f"The first digit is a sum of {len(parts.atom)} of {len(scnn.components_)} atoms, and"
    f" {parts.fraction[:3].sum():.0%} of its reconstruction come from three of them."
)
