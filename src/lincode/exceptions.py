"""The exceptions that lincode raises."""

from __future__ import annotations


class InvalidInputError(ValueError, TypeError):
    """A parameter, an array or a file does not meet the requirements of the function."""


class ModelFileError(InvalidInputError):
    """A file is not a model that lincode can load."""


class MissingDependencyError(ImportError):
    """An optional dependency is needed but not installed."""


class EnergyIncreaseError(RuntimeError):
    """A training step increased the energy that it must decrease; this is a bug in lincode."""
