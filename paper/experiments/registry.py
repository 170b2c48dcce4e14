"""All experiments by their names, and how the runs of each group are measured."""

from __future__ import annotations

from paper.experiments import (
    accuracy_sparsity,
    digit_grid,
    digits_components,
    digits_input_size,
    missing_pixels,
    mnist_methods,
    mnist_noise,
    mnist_units,
    pca,
    sparsity,
    times,
)
from paper.experiments.experiment import Experiment
from paper.experiments.runner import Measure

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
    )
}
"""In the order of the paper."""

MEASURES: dict[str, Measure] = {
    "pca": pca.measure,
    "missing-pixels": missing_pixels.measure,
    "digits-components": digit_grid.measure,
    "accuracy-sparsity": digit_grid.measure,
    "digits-input-size": digit_grid.measure,
    "mnist-units": mnist_units.measure,
    "mnist-noise": mnist_noise.measure,
    "mnist-methods": mnist_methods.measure,
}
"""The function that measures the runs of each group."""

TYPICAL_SECONDS = {
    "pca": 5.0,
    "missing-pixels": 400.0,
    "digits-components": 70.0,
    "accuracy-sparsity": 180.0,
    "digits-input-size": 150.0,
    "mnist-units": 700.0,
    "mnist-noise": 300.0,
    "mnist-methods": 300.0,
}
"""Approximate seconds of a run at the paper's scale on one core, to estimate the time left."""
