"""What encoder_weight and transform_method trade: the table of docs/guide.md.

python benchmarks/encoder_weight.py
"""

from __future__ import annotations

import copy

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from lincode import SCNN
from lincode.metrics import rms_error, sparsity

M = 100


def main() -> None:
    X_train, X_test = train_test_split(load_digits().data / 16, test_size=0.25, random_state=0)
    alpha = 0.05 * SCNN(M).alpha_max(X_train)
    print(f"{len(X_test)} test digits, m = {M}, alpha = 0.05 alpha_max, threshold = 'match'")
    print("| encoder_weight | encoder | exact | relearn | iterations |")
    print("| ---: | --- | --- | --- | ---: |")
    for weight in (0.0, 0.1, 1.0, 10.0, 100.0):
        scnn = SCNN(
            M, alpha, encoder_weight=weight, threshold="match", max_iter=1000, random_state=0
        ).fit(X_train)
        cells = []
        for method in ("encoder", "exact", "relearn"):
            coder = copy.copy(scnn).set_params(transform_method=method)
            codes = coder.transform(X_test)
            rms = rms_error(X_test, coder.inverse_transform(codes))
            cells.append(f"{rms:.3f}, {sparsity(codes):.0%}")
        print(f"| {weight:g} | {' | '.join(cells)} | {scnn.n_iter_} |", flush=True)


if __name__ == "__main__":
    main()
