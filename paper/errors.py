"""Errors that are meant for the user of ``python -m paper``.

The command line prints their message without a traceback. All other errors keep their traceback.
"""


class PaperError(Exception):
    """An error that the user can correct. The message says how."""


class DataMissingError(PaperError):
    """A data set, or a file of it, was not found."""


class DataCorruptError(PaperError):
    """A data file is truncated, damaged or not the file that its name says."""


class RunsFailedError(PaperError):
    """Some runs raised an exception. The other runs are complete and their records are kept."""
