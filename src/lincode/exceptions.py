"""The exceptions that lincode raises."""

from __future__ import annotations

__all__ = [
    "ClusterError",
    "EnergyIncreaseError",
    "InvalidInputError",
    "MissingDependencyError",
]


class InvalidInputError(ValueError, TypeError):
    """A parameter, an array or a file that was passed to lincode is not valid.

    The message says what the input must be, what it was, and what to do. The class derives from
    both ValueError and TypeError, so that code which catches either of them keeps working.

    Examples
    --------
    >>> from lincode import SCNN
    >>> from lincode.exceptions import InvalidInputError
    >>> try:
    ...     SCNN(n_components=0).fit([[1.0, 2.0]])
    ... except InvalidInputError as error:
    ...     print(error)
    n_components must be None or an integer of at least 1, got 0 of type int.
    """


class MissingDependencyError(ImportError):
    """A feature needs an optional package that is not installed.

    The message contains the command that installs the package.

    Examples
    --------
    >>> from lincode.exceptions import MissingDependencyError
    >>> issubclass(MissingDependencyError, ImportError)
    True
    """


class EnergyIncreaseError(RuntimeError):
    """A training step increased the energy by more than rounding errors explain.

    Every step decreases the energy or leaves it unchanged. This error is therefore
    caused by a bug in lincode and not by bad input.

    Examples
    --------
    >>> from lincode.exceptions import EnergyIncreaseError
    >>> issubclass(EnergyIncreaseError, RuntimeError)
    True
    """


class ClusterError(RuntimeError):
    """A Dask cluster cannot continue a computation, for example because it has no workers left.

    Examples
    --------
    >>> from lincode.exceptions import ClusterError
    >>> issubclass(ClusterError, RuntimeError)
    True
    """
