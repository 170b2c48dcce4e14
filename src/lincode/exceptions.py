"""The exceptions that lincode raises."""

from __future__ import annotations

__all__ = [
    "EnergyIncreaseError",
    "InvalidInputError",
    "MissingDependencyError",
    "ModelFileError",
]


class InvalidInputError(ValueError, TypeError):
    """A parameter, an array or a file that was passed to lincode is not valid.

    The message says what the input must be, what it was, and what to do. The class derives from
    both ValueError and TypeError, so that code which catches either of them keeps working.

    Examples
    --------
    >>> from lincode.exceptions import InvalidInputError
    >>> from lincode.vectors import read_vectors
    >>> try:
    ...     read_vectors("vectors.docx")
    ... except InvalidInputError as error:
    ...     print(error)
    the name of a file of vectors must end in .npy, .npz, .csv or .parquet, got vectors.docx.
    """


class ModelFileError(InvalidInputError):
    """A file is not a model file of lincode, is damaged, or was written by a later version.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import lincode
    >>> from lincode.exceptions import ModelFileError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.safetensors")
    ...     n_characters = path.write_text("This is not a model.")
    ...     try:
    ...         lincode.load(path)
    ...     except ModelFileError:
    ...         print("This file cannot be loaded.")
    This file cannot be loaded.
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

    Every step decreases the energy or leaves it unchanged. This error therefore points to a bug
    in lincode and not to bad input.

    Examples
    --------
    >>> from lincode.exceptions import EnergyIncreaseError
    >>> issubclass(EnergyIncreaseError, RuntimeError)
    True
    """
