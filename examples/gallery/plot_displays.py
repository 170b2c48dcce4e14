"""
===========================
Pictures of atoms and codes
===========================

The displays of ``lincode.plotting`` answer common questions about a fitted network. Each of them
plots with one call, into a new figure or into given axes. The network here has learned digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from lincode import SCNN, scnn_path
from lincode.plotting import (
    AtomsDisplay,
    CodesDisplay,
    EnergyDisplay,
    ReconstructionDisplay,
    describe_atoms,
)

X, y = load_digits(return_X_y=True)
X = X / 16
scnn = SCNN(64, random_state=0).fit(X)

# %%
# What do the atoms and the filters of the encoder look like?
# -----------------------------------------------------------
# The atom that most samples use is first. The filter of each atom is at the same place.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
atoms = AtomsDisplay.from_estimator(scnn, ax=left)
AtomsDisplay(scnn.encoder_[atoms.indices]).plot(ax=right)
left.set_title("atoms")
right.set_title("filters")
plt.show()

# %%
# Is every atom used, and how sparse are the codes?
# -------------------------------------------------

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
codes = CodesDisplay.from_estimator(scnn, X, kind="usage", ax=left)
codes.plot(kind="nonzeros", ax=right)
plt.show()

# %%
# Has the training converged, and how many non-zeros are needed?
# --------------------------------------------------------------
# The energy is that of a network without refinement. ``calibrate`` changes the density of one
# network; its codes are compared with exact codes of networks for several values of alpha.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
EnergyDisplay.from_estimator(SCNN(64, refine=False, random_state=0).fit(X), ax=left)
ReconstructionDisplay.from_estimator(scnn, X, label="encoder, one network", ax=right)
alphas = [ratio * scnn.alpha_max(X) for ratio in (0.05, 0.1, 0.2)]
path = scnn_path(X, 64, alphas=alphas, transform_algorithm="exact", random_state=0)
ReconstructionDisplay.from_path(path, X, label="exact codes, three networks", ax=right)
plt.show()

# %%
# Which samples use an atom?
# --------------------------
# The labels and coefficients of the ten digits that use an atom most are above them.

(atom,) = describe_atoms(scnn, X, [np.argsort(-scnn.usage_)[10]])
digit = np.bincount(y[atom.samples]).argmax()
captions = [f"{y[i]} ({u:.2g})" for i, u in zip(atom.samples, atom.coefficients, strict=True)]
AtomsDisplay(X[atom.samples], captions=captions).plot(n_columns=10)
plt.show()

# %%
print(
    f"The digits use {(codes.codes != 0).sum(axis=1).mean():.0f} of 64 atoms on average. Of the ten"
    f" that use atom {atom.atom} most, {(y[atom.samples] == digit).sum()} are a {digit}."
)
