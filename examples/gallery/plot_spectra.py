"""
=====================================
Pure spectra from spectra of mixtures
=====================================

Each sample is a mixture of a few substances, and its spectrum is the sum of their spectra with
noise. Neither the pure spectra nor the amounts are known. With ``positive_code=True`` and
``positive_dict=True``, SCNN is a sparse non-negative matrix factorisation. Because each mixture has
few substances, sparsity helps to find the pure spectra.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import NMF, PCA

from lincode import SCNN

plt.style.use("tableau-colorblind10")

# %%
# Mixtures
# --------
# Eight substances have three to six peaks each, and many peaks overlap. A mixture has two to four
# of the substances.

N_SUBSTANCES, N_TRAIN, N_VAL, N_TEST, NOISE = 8, 600, 100, 500, 0.06
rng = np.random.default_rng(1)
wavenumber = np.linspace(400, 1800, 350)


def pure_spectrum():
    """Return a sum of Lorentzian peaks, divided by its length."""
    n_peaks = rng.integers(3, 7)
    centres, widths = rng.uniform(450, 1750, n_peaks), rng.uniform(8, 30, n_peaks)
    heights = rng.uniform(0.3, 1, n_peaks)
    peaks = heights / (1 + ((wavenumber[:, None] - centres) / widths) ** 2)
    return peaks.sum(axis=1) / np.linalg.norm(peaks.sum(axis=1))


pure = np.array([pure_spectrum() for _ in range(N_SUBSTANCES)])
amounts = rng.gamma(2, 0.5, (N_TRAIN + N_VAL + N_TEST, N_SUBSTANCES))
order = rng.random(amounts.shape).argsort(axis=1)
amounts[order >= rng.integers(2, 5, (len(amounts), 1))] = 0
X = amounts @ pure + NOISE * rng.standard_normal((len(amounts), len(wavenumber)))
X_train, X_val, X_test = np.split(X, [N_TRAIN, N_TRAIN + N_VAL])
_, amounts_val, amounts_test = np.split(amounts, [N_TRAIN, N_TRAIN + N_VAL])

# %%
# Factorisations
# --------------
# Each method learns eight components. They are matched with the pure spectra one to one by their
# cosines. The density of SCNN and the penalty of NMF are chosen by the amounts in 100 validation
# mixtures. ``encoder_weight=0`` fits the encoder after training; the atoms then start from those of
# plain dictionary learning.


def scnn(density):
    return SCNN(
        N_SUBSTANCES,
        density=density,
        encoder_weight=0,
        positive_code=True,
        positive_dict=True,
        random_state=0,
    )


def nmf(alpha):
    return NMF(
        N_SUBSTANCES, init="nndsvda", alpha_W=alpha, l1_ratio=1, max_iter=2000, random_state=0
    )


def match(components):
    """Return the cosines of the components and the pure spectra, and their order and signs."""
    cosines = pure @ (components / np.linalg.norm(components, axis=1, keepdims=True)).T
    rows, columns = linear_sum_assignment(-np.abs(cosines))
    return np.abs(cosines[rows, columns]), columns, np.sign(cosines[rows, columns])


def amounts_of(model, spectra):
    """Return the codes in the order of the substances."""
    _, columns, signs = match(model.components_)
    return signs * model.transform(spectra)[:, columns]


def correlation(found, true):
    return np.corrcoef(found.ravel(), true.ravel())[0, 1]


candidates = {
    "SCNN": [scnn(density) for density in (0.3, 0.4, 0.5, 0.7)],
    "NMF": [nmf(alpha) for alpha in (0, 1e-4, 3e-4, 1e-3)],
    "PCA": [PCA(N_SUBSTANCES)],
}
models, results = {}, {}
for name, variants in candidates.items():
    if name == "NMF":  # It does not accept the negative values that the noise causes.
        train, val, test = (np.maximum(spectra, 0) for spectra in (X_train, X_val, X_test))
    else:
        train, val, test = X_train, X_val, X_test
    fitted = [variant.fit(train) for variant in variants]
    quality = [correlation(amounts_of(model, val), amounts_val) for model in fitted]
    models[name] = fitted[np.argmax(quality)]
    # The amount above which a substance counts as present is chosen on the same mixtures.
    limits = np.linspace(0, 1, 101)
    found, present = amounts_of(models[name], val), amounts_val > 0
    limit = limits[np.argmax([np.mean((found > limit) == present) for limit in limits])]
    found = amounts_of(models[name], test)
    results[name] = correlation(found, amounts_test), np.mean((found > limit) == (amounts_test > 0))
    print(
        f"{name:5} cosine with the pure spectra {match(models[name].components_)[0].mean():.3f},"
        f" correlation with the amounts {results[name][0]:.3f},"
        f" presence correct {results[name][1]:.1%}"
    )

# %%
# Plot
# ----

figure = plt.figure(figsize=(10, 5.6), layout="constrained")
axes = figure.subplot_mosaic(
    [["mixture", "mixture", "amounts"], ["p0", "p1", "amounts"], ["p2", "p3", "amounts"]],
    width_ratios=(1, 1, 1.05),
)
axes["mixture"].plot(wavenumber, X_test[0], color="0.6", linewidth=0.8, label="measured")
axes["mixture"].plot(wavenumber, amounts_test[0] @ pure, color="black", label="without noise")
axes["mixture"].set_title("A mixture of " + str(np.count_nonzero(amounts_test[0])) + " substances")
axes["mixture"].legend(loc="upper right", fontsize=9, ncols=2)
axes["mixture"].set_ylim(-0.2, 0.95)
for j in range(4):
    ax = axes[f"p{j}"]
    ax.fill_between(wavenumber, pure[j], color="0.8", label="pure spectrum")
    for name, style in (("SCNN", "-"), ("PCA", ":")):
        D = models[name].components_
        _, columns, signs = match(D)
        atom = signs[j] * D[columns[j]] / np.linalg.norm(D[columns[j]])
        ax.plot(wavenumber, atom, style, linewidth=1.2, label=name)
    ax.set_title(f"Substance {j + 1}", fontsize=11)
    ax.set_yticks([])
figure.legend(*axes["p0"].get_legend_handles_labels(), loc="outside lower center", ncols=3)
for j in (2, 3):
    axes[f"p{j}"].set_xlabel("wavenumber in 1/cm")
axes["amounts"].scatter(amounts_test, amounts_of(models["SCNN"], X_test), s=4, alpha=0.3)
axes["amounts"].axline((0, 0), slope=1, color="black", linewidth=0.8)
axes["amounts"].set(
    xlabel="true amount", ylabel="code of the encoder", title="Amounts in test mixtures"
)
plt.show()

# %%
best = max(results, key=lambda name: results[name][0])
print(
    f"The amounts found by {best} have the largest correlation with the true ones; the presence of"
    f" a substance is correct in {results['SCNN'][1]:.1%} of the cases with SCNN and in"
    f" {results['NMF'][1]:.1%} with NMF."
)
