"""Exceptions that lincode raises."""

from __future__ import annotations


class InvalidInputError(ValueError, TypeError):
    """Data, a parameter or a file that lincode cannot use.

    The message says what was expected, what was given and what to do.

    Examples
    --------
    >>> from lincode import SCNN
    >>> from lincode.exceptions import InvalidInputError
    >>> try:
    ...     SCNN(n_components=0).fit([[1.0, 2.0]])
    ... except InvalidInputError as error:
    ...     print(error)
    n_components must be None or an integer of at least 1, got 0.
    """


class ModelFileError(InvalidInputError):
    """A file that is not a model file of lincode, is damaged, or was written by a later version."""


class MissingDependencyError(ImportError):
    """An optional package that is not installed. The message names the extra to install."""


class EnergyIncreaseError(RuntimeError):
    """A training step increased the energy that it must lower. This is a bug in lincode."""
