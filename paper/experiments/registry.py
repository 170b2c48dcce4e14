"""All experiments by their names, and how the runs of each group are measured."""

from __future__ import annotations

from paper.experiments import (
    accuracy_sparsity,
    competitor_runs,
    competitors,
    digit_grid,
    digits_components,
    digits_input_size,
    missing_pixels,
    mnist_methods,
    mnist_noise,
    mnist_units,
    pca,
    pictures,
    sparsity,
    times,
)
from paper.experiments.experiment import Experiment
from paper.experiments.runner import Measure

EXPERIMENTS: dict[str, Experiment] = {
    experiment.id: experiment
    for experiment in (
        pca.EXPERIMENT,
        missing_pixels.EXPERIMENT,
        sparsity.EXPERIMENT,
        digits_components.EXPERIMENT,
        times.EXPERIMENT,
        accuracy_sparsity.EXPERIMENT,
        digits_input_size.EXPERIMENT,
        competitors.EXPERIMENT,
        mnist_methods.EXPERIMENT,
        mnist_units.EXPERIMENT,
        mnist_noise.EXPERIMENT,
        pictures.DIGIT_EXPERIMENT,
        pictures.PATCH_EXPERIMENT,
    )
}
"""In the order of the paper, with the pictures at the end."""

MEASURES: dict[str, Measure] = {
    "pca": pca.measure,
    "missing-pixels": missing_pixels.measure,
    "digits-components": digit_grid.measure,
    "digits-input-size": digit_grid.measure,
    "times": times.measure,
    "competitors": competitor_runs.measure,
    "mnist-units": mnist_units.measure,
    "mnist-noise": mnist_noise.measure,
    "mnist-methods": mnist_methods.measure,
    "pictures": pictures.measure,
}
"""The function that measures the runs of each group."""

TYPICAL_SECONDS = {
    "pca": 5.0,
    "missing-pixels": 40.0,
    "digits-components": 6.0,
    "digits-input-size": 15.0,
    "times": 15.0,
    "competitors": 3.0,
    "mnist-units": 300.0,
    "mnist-noise": 150.0,
    "mnist-methods": 200.0,
    "pictures": 10.0,
}
"""Approximate seconds of a run at the paper's scale on one core, to estimate the time left."""
