"""The error and the accuracy of a classifier for several densities, with and without refinement.

    python benchmarks/density.py [DATA ...]

The error is ‖X − R‖²/‖X‖² of test samples, beside that of PCA with as many components as a code has
non-zeros. The classifier is a logistic regression on the codes; its C is chosen by
cross-validation on the training samples. Density and usage are those of the test samples.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
from data import ALL, Split
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from lincode import SCNN

DENSITIES = (0.02, 0.05, 0.1, 0.2)
MAX_LABELLED = 2000


def accuracy(scnn: SCNN, data: Split) -> float:
    """Return the accuracy of a logistic regression on codes, which are divided by their RMS."""
    assert data.labels is not None
    train, test = scnn.transform(data.train[:MAX_LABELLED]), scnn.transform(data.test)
    scale = float(np.sqrt(np.mean(train**2))) or 1.0
    search = GridSearchCV(LogisticRegression(max_iter=100, tol=1e-2), {"C": [0.1, 1]}, cv=3)
    search.fit(train / scale, data.labels[0][:MAX_LABELLED])
    return float(search.score(test / scale, data.labels[1]))


def pca_error(data: Split, k: int) -> float:
    """Return the error of the best linear codes with k numbers."""
    k = min(k, min(data.train.shape) - 1)
    V: Any = TruncatedSVD(k, random_state=0).fit(data.train).components_
    X = data.test.toarray() if hasattr(data.test, "toarray") else data.test
    return float(1 - np.sum((X @ V.T) ** 2) / np.sum(X**2))


def compare(name: str, density: float) -> str:
    data = ALL[name]()
    m, cells = data.n_components, []
    for refine in (True, False):
        start = time.perf_counter()
        scnn = SCNN(m, density=density, refine=refine, random_state=0).fit(data.train)
        seconds = time.perf_counter() - start
        U = scnn.transform(data.test)
        label = f"{accuracy(scnn, data):.1%}" if data.labels is not None else ""
        unused = float(np.mean(scnn.usage_ == 0))
        cells += [f"{1 - scnn.score(data.test):.4f}", label, f"{np.mean(U != 0) / density:.2f}"]
        cells += [f"{unused:.1%}", f"{seconds:.1f}"]
    k = max(1, round(density * m))
    return f"| {data.title} | {density:g} | {pca_error(data, k):.4f} | {' | '.join(cells)} |"


def main() -> None:
    warnings.simplefilter("ignore")
    names = ["refined: error", "accuracy", "density / wanted", "unused", "s"]
    headings = ["data", "density", "PCA", *names, "not refined: error", *names[1:]]
    print(f"| {' | '.join(headings)} |\n| {' | '.join(['---'] * len(headings))} |")
    for name in sys.argv[1:] or ALL:
        for density in DENSITIES:
            print(compare(name, density), flush=True)


if __name__ == "__main__":
    main()
