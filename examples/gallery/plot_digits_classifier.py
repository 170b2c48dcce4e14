"""
======================================
Classify digits by a linear classifier
======================================

A linear classifier of pixels has a linear decision function. Sparse codes are a non-linear function
of the pixels, and a linear classifier of codes can do better. ``GridSearchCV`` chooses
``density`` in a pipeline by cross-validation of the training digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from lincode import SCNN
from lincode.plotting import AtomsDisplay

plt.style.use("tableau-colorblind10")

# %%
# Three pipelines
# ---------------
# Every pipeline ends with the same classifier, whose parameter C is chosen by cross-validation as
# well. ``split_sign=True`` returns positive and negative codes as separate features.

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.4, random_state=0, stratify=y
)
folds = StratifiedKFold(3, shuffle=True, random_state=0)
classifier = LogisticRegression(max_iter=2000)
Cs = {"logisticregression__C": [1.0, 10.0]}
densities = [0.1, 0.2, 0.3, 0.5]
encoder = SCNN(100, split_sign=True, random_state=0)
searches = {
    "pixels": GridSearchCV(make_pipeline(classifier), Cs, cv=folds),
    "PCA": GridSearchCV(
        make_pipeline(PCA(random_state=0), classifier),
        Cs | {"pca__n_components": [20, 30, 40, 50]},
        cv=folds,
    ),
    "SCNN": GridSearchCV(
        make_pipeline(encoder, MaxAbsScaler(), classifier),
        Cs | {"scnn__density": densities},
        cv=folds,
    ),
}
accuracy = {}
for name, search in searches.items():
    search.fit(X_train, y_train)
    accuracy[name] = search.score(X_test, y_test)
    chosen = ", ".join(
        f"{key.split('__')[1]}={value}" for key, value in search.best_params_.items()
    )
    print(
        f"{name:7} cross-validation {search.best_score_:.1%}, test {accuracy[name]:.1%} ({chosen})"
    )

# %%
# What was chosen
# ---------------

best = searches["SCNN"].best_estimator_
results = searches["SCNN"].cv_results_
figure = plt.figure(figsize=(11, 3.9), layout="constrained")
left, middle, right = figure.subplots(1, 3, width_ratios=(1.15, 1, 1))
for C in Cs["logisticregression__C"]:
    rows = results["param_logisticregression__C"] == C
    left.plot(densities, results["mean_test_score"][rows], marker="o", label=f"SCNN, C = {C:g}")
left.axhline(searches["pixels"].best_score_, color="black", linestyle="--", label="pixels")
left.axhline(searches["PCA"].best_score_, color="black", linestyle=":", label="PCA")
left.set(xlabel="density", ylabel="accuracy", title="Cross-validation")
left.legend(fontsize=9)
left.grid(alpha=0.3)
AtomsDisplay.from_estimator(best[0], ax=middle)
middle.set_title("Atoms, most used first")
predicted = best.predict(X_test)
wrong = np.flatnonzero(predicted != y_test)
captions = [f"{y_test[i]} as {predicted[i]}" for i in wrong]
AtomsDisplay(X_test[wrong], captions=captions).plot(n_columns=4, cmap="gray_r", ax=right)
right.set_title(f"The {len(wrong)} wrong test digits")
plt.show()

# %%
errors = {name: round((1 - value) * len(y_test)) for name, value in accuracy.items()}
print(
    f"Of {len(y_test)} test digits, the classifier gets {errors['SCNN']} wrong with codes,"
    f" {errors['pixels']} with pixels and {errors['PCA']} with PCA."
)
