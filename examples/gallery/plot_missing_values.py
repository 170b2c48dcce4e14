"""
=========================
Missing values in a table
=========================

Entries of a table are removed at random. :class:`lincode.SCNN` is trained on the incomplete table
and predicts the missing entries of new rows. It is compared with three imputers of scikit-learn for
several fractions of missing entries.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from lincode import SCNN
from lincode.metrics import rms_error

plt.style.use("tableau-colorblind10")

# %%
# The table
# ---------
# 569 tumours with 30 measurements. The scaler ignores missing entries.

X = load_breast_cancer().data
X_train, X_test = train_test_split(X, test_size=0.2, random_state=0)
FRACTIONS = (0.1, 0.3, 0.5, 0.7)
N_REPETITIONS = 2


IMPUTERS = {
    "SimpleImputer (mean)": SimpleImputer(),
    "KNNImputer": KNNImputer(),
    "IterativeImputer": IterativeImputer(max_iter=10, random_state=0),
}
CODES = {"SCNN, encoder": "encoder", "SCNN, projection": "projection"}

# %%
# Errors of the missing test entries
# ----------------------------------
# ``IterativeImputer`` does not always converge in its ten rounds, which are the default.

warnings.simplefilter("ignore", ConvergenceWarning)
errors = {name: np.zeros((len(FRACTIONS), N_REPETITIONS)) for name in [*CODES, *IMPUTERS]}
for repetition in range(N_REPETITIONS):
    rng = np.random.default_rng(repetition)
    for i, fraction in enumerate(FRACTIONS):
        missing_train = rng.random(X_train.shape) < fraction
        missing_test = rng.random(X_test.shape) < fraction
        scaler = StandardScaler().fit(np.where(missing_train, np.nan, X_train))
        truth = scaler.transform(X_test)
        train = scaler.transform(np.where(missing_train, np.nan, X_train))
        test = np.where(missing_test, np.nan, truth)
        predictions = {name: imp.fit(train).transform(test) for name, imp in IMPUTERS.items()}
        scnn = SCNN(60, random_state=0).fit(train)
        for name, algorithm in CODES.items():
            predictions[name] = scnn.set_params(transform_algorithm=algorithm).reconstruct(test)
        for name, prediction in predictions.items():
            errors[name][i, repetition] = rms_error(truth[missing_test], prediction[missing_test])
for name, values in errors.items():
    print(f"{name:21}" + "".join(f"{value:7.3f}" for value in values.mean(axis=1)))

# %%
figure, ax = plt.subplots(figsize=(7, 4.3), layout="constrained")
for (name, values), marker in zip(errors.items(), "o^xsD", strict=True):
    style = "--" if not name.startswith("SCNN") else "-"
    ax.plot(FRACTIONS, values.mean(axis=1), style, marker=marker, label=name)
ax.set(
    xlabel="fraction of missing entries",
    ylabel="RMS error of missing entries\n(in standard deviations)",
    xticks=FRACTIONS,
)
ax.xaxis.set_major_formatter(PercentFormatter(1))
ax.grid(alpha=0.3)
ax.legend(loc="upper left", bbox_to_anchor=(0, 0.87), frameon=False)
plt.show()

# %%
means = {name: values.mean(axis=1) for name, values in errors.items()}
best = [min(means, key=lambda name: means[name][i]) for i in range(len(FRACTIONS))]
pairs = ", ".join(f"{f:.0%}: {name}" for f, name in zip(FRACTIONS, best, strict=True))
print(f"The smallest error for each fraction of missing entries: {pairs}.")
