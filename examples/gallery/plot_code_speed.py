"""
=================================
Time and accuracy of sparse codes
=================================

All codes below, of :func:`lincode.sparse_encode` and others, are for one dictionary and have about
ten non-zeros per sample. They differ in how they are computed: by one matrix product, by
optimisation, or greedily. The functions of scikit-learn are given the same dictionary.
"""

import warnings
from copy import copy
from functools import partial
from time import process_time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images
from sklearn.decomposition import SparseCoder
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.image import extract_patches_2d
from sklearn.linear_model import orthogonal_mp_gram
from threadpoolctl import threadpool_limits

from lincode import SCNN, sparse_encode
from lincode.metrics import rms_error

plt.style.use("tableau-colorblind10")

N_COMPONENTS, N_NONZERO = 128, 10

# %%
# Data and network
# ----------------

patches = np.vstack(
    [
        extract_patches_2d(image.mean(axis=2) / 255, (8, 8), max_patches=6000, random_state=0)
        for image in load_sample_images().images
    ]
).reshape(-1, 64)
patches = np.random.default_rng(0).permutation(patches - patches.mean(axis=1, keepdims=True))
X_train, X_test = patches[:-1000], patches[-1000:]
scnn = SCNN(N_COMPONENTS, density=N_NONZERO / N_COMPONENTS, random_state=0, n_jobs=1).fit(X_train)
D = scnn.components_
print(f"{len(X_test)} test patches, dictionary of {N_COMPONENTS} atoms with 64 features")

# %%
# Codes with ten non-zeros
# ------------------------
# The encoder costs one matrix product. A projection has the same non-zeros with the values of least
# squares. The other methods have a parameter that is chosen so that training patches have ten
# non-zeros on average: the alpha of lasso codes, and the squared residual at which greedy codes are
# finished. Lasso codes are shrunk by alpha; ``debias=True`` replaces them by least squares on their
# support.


def value_for(encode):
    """Return the parameter with N_NONZERO non-zeros per training patch, found by bisection."""
    low, high = 1e-4, 1.0
    for _ in range(12):
        value = np.sqrt(low * high)
        n_nonzero = np.count_nonzero(encode(X_train[:2000], value)) / 2000
        low, high = (value, high) if n_nonzero > N_NONZERO else (low, value)
    return value


def lasso(X, alpha, **parameters):
    return sparse_encode(X, D, alpha=alpha, n_jobs=1, **parameters)


def greedy(X, tol, algorithm="omp"):
    return sparse_encode(X, D, algorithm=algorithm, n_nonzero_coefs=64, tol=tol, n_jobs=1)


def sklearn_lasso(X, alpha, algorithm):
    coder = SparseCoder(
        D, transform_algorithm=algorithm, transform_alpha=alpha, transform_max_iter=10_000
    )
    return coder.transform(X)


def sklearn_omp(X, tol):
    norms = np.sum(X**2, axis=1)
    return orthogonal_mp_gram(D @ D.T, D @ X.T, tol=tol, norms_squared=norms).T


projection = copy(scnn).set_params(transform_algorithm="projection")
alpha, tol = value_for(lasso), value_for(greedy)
tol_ols = value_for(partial(greedy, algorithm="ols"))
codes = {
    ("lincode", "encoder"): scnn.transform,
    ("lincode", "projection"): projection.transform,
    ("lincode", "lasso"): partial(lasso, alpha=alpha),
    ("lincode", "lasso, debiased"): partial(lasso, alpha=alpha, debias=True),
    ("lincode", "omp"): partial(greedy, tol=tol),
    ("lincode", "ols"): partial(greedy, tol=tol_ols, algorithm="ols"),
    ("scikit-learn", "lasso_lars"): partial(sklearn_lasso, alpha=alpha, algorithm="lasso_lars"),
    ("scikit-learn", "lasso_cd"): partial(sklearn_lasso, alpha=alpha, algorithm="lasso_cd"),
    ("scikit-learn", "omp"): partial(sklearn_omp, tol=tol),
}

# %%
# Times and errors
# ----------------
# The CPU time of one thread is measured. ``lasso_cd`` warns that it has not converged for some
# patches.

warnings.simplefilter("ignore", ConvergenceWarning)
results = {}
for (library, name), encode in codes.items():
    with threadpool_limits(1):
        encode(X_test[:100])  # compiles the code if necessary
        start = process_time()
        U = encode(X_test)
        microseconds = 1e6 * (process_time() - start) / len(X_test)
    error = rms_error(X_test, U @ D) / X_test.std()
    results[library, name] = microseconds, error
    print(
        f"{library:12} {name:16} {microseconds:7.1f} µs per patch, relative error {error:.3f},"
        f" {np.count_nonzero(U) / len(U):4.1f} non-zeros"
    )

figure, ax = plt.subplots(figsize=(9, 4.8), layout="constrained")
for library, marker in (("lincode", "o"), ("scikit-learn", "s")):
    points = {name: point for (lib, name), point in results.items() if lib == library}
    x, y = np.transpose(list(points.values()))
    ax.scatter(x, y, marker=marker, s=60, label=library)
    for name, point in points.items():
        offset = (7, -13) if name == "ols" else (7, 5)
        ax.annotate(name, point, xytext=offset, textcoords="offset points")
ax.set(
    xscale="log",
    xlabel="CPU time per patch in µs",
    ylabel="RMS error / standard deviation of the patches",
    title=f"Codes with about {N_NONZERO} non-zeros: towards the lower left is better",
)
ax.set_ylim(0, 1.15 * ax.get_ylim()[1])
ax.set_xlim(None, 3 * ax.get_xlim()[1])
ax.grid(alpha=0.3)
ax.legend()
plt.show()

# %%
fast = results["lincode", "encoder"]
best = min(results, key=lambda key: results[key][1])
print(
    f"The encoder has a relative error of {fast[1]:.2f} in {fast[0]:.1f} µs per patch; the"
    f" smallest error, {results[best][1]:.2f}, is that of {best[1]} ({best[0]}) in"
    f" {results[best][0]:.1f} µs."
)
