"""Print the reconstruction error and the sparsity for several encoder weights.

    python benchmarks/encoder_weight.py

This is the table of ``docs/guide.md``: the codes of test digits by each ``transform_algorithm``.
"""

from __future__ import annotations

import copy

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from lincode import SCNN
from lincode.metrics import rms_error, sparsity

N_COMPONENTS = 100
ALPHA = "0.05*max"
ALGORITHMS = ("encoder", "exact", "lasso")


def main() -> None:
    X_train, X_test = train_test_split(load_digits().data / 16, test_size=0.25, random_state=0)
    print(f"{len(X_test)} test digits, n_components={N_COMPONENTS}, alpha={ALPHA!r}")
    print("The cells are the root-mean-square error of the reconstruction and the sparsity.")
    print(f"| encoder_weight | {' | '.join(ALGORITHMS)} | iterations |")
    print("| ---: | --- | --- | --- | ---: |")
    for weight in (0.0, 0.1, 1.0, 10.0, 100.0):
        scnn = SCNN(N_COMPONENTS, ALPHA, encoder_weight=weight, max_iter=1000, random_state=0).fit(
            X_train
        )
        cells = []
        for algorithm in ALGORITHMS:
            coder = copy.copy(scnn).set_params(transform_algorithm=algorithm)
            codes = coder.transform(X_test)
            error = rms_error(X_test, coder.inverse_transform(codes))
            cells.append(f"{error:.3f}, {sparsity(codes):.0%}")
        print(f"| {weight:g} | {' | '.join(cells)} | {scnn.n_iter_} |", flush=True)


if __name__ == "__main__":
    main()
