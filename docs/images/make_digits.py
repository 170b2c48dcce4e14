"""Make docs/images/digits.png: the atoms of the README's example, and reconstructed digits.

Run ``python docs/images/make_digits.py`` from the root of the repository.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sklearn.datasets import load_digits

from lincode import SCNN
from lincode.plotting import AtomsDisplay

N_DIGITS = 10
FILE = Path(__file__).with_name("digits.png")


def main() -> None:
    """Train the network and write the file."""
    X = load_digits().data / 16
    scnn = SCNN(100, density=0.1, random_state=0).fit(X)
    rows = {"digits": X[:N_DIGITS]}
    for algorithm in ("encoder", "projection"):
        scnn.set_params(transform_algorithm=algorithm)
        rows[f'"{algorithm}"'] = scnn.reconstruct(X[:N_DIGITS])

    figure = Figure(figsize=(9, 3.0), layout="constrained")
    panels: Any = figure.subfigures(1, 2, width_ratios=(1, 1.9))
    left, right = panels
    atoms = AtomsDisplay.from_estimator(scnn, sort_by=None, ax=left.subplots())
    atoms.ax_.set_title("100 atoms", fontsize=10)
    right.suptitle("Digits, and reconstructions by transform_algorithm", fontsize=10)
    axes = right.subplots(len(rows), N_DIGITS)
    for (name, images), line in zip(rows.items(), axes, strict=True):
        for image, ax in zip(images, line, strict=True):
            ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
        line[0].set_ylabel(name, fontsize=10)
    figure.savefig(FILE, dpi=80)


if __name__ == "__main__":
    main()
