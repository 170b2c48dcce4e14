"""What can be wrong with data on disk."""


class DataMissingError(FileNotFoundError):
    """A data set, or a file of it, is not where it was looked for."""


class DataCorruptError(ValueError):
    """A file is there but is truncated, damaged, or not what its name says."""
