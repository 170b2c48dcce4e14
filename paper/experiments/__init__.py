"""The experiments of the paper, one file for each figure or table.

Each file has the runs of its experiment, the function that measures one run, the paper's claims,
and the tables and plots of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paper.cache import Run
from paper.experiments import (
    accuracy_sparsity,
    competitors,
    digits,
    digits_components,
    digits_input_size,
    encoder_codes,
    missing_pixels,
    mnist_methods,
    mnist_noise,
    mnist_units,
    pca,
    sparsity,
    times,
)
from paper.experiments.tables import Experiment
from paper.samples import Samples

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.id: module.EXPERIMENT
    for module in (
        pca,
        missing_pixels,
        sparsity,
        digits_components,
        times,
        accuracy_sparsity,
        digits_input_size,
        mnist_methods,
        mnist_units,
        mnist_noise,
        encoder_codes,
    )
}
"""In the order of the paper."""

MEASURES: dict[str, Callable[[Run, Samples], Mapping[str, Any]]] = {
    "pca": pca.measure,
    "missing-pixels": missing_pixels.measure,
    "digits-components": digits.measure,
    "digits-input-size": digits.measure,
    "times": times.measure,
    "encoder-codes": encoder_codes.measure,
    "competitors": competitors.measure,
    "mnist-units": mnist_units.measure,
    "mnist-noise": mnist_noise.measure,
    "mnist-methods": mnist_methods.measure,
}
"""The function that measures the runs of each group. The entry "parameters" of its result, if there
is one, has all parameters of the estimators by their names."""
