"""Files of vectors: npy, npz, csv and parquet, read and written without pickle."""

from lincode.vectors.reading import FORMATS, Vectors, format_of, read_vectors
from lincode.vectors.whole_file import check_target, whole_file
from lincode.vectors.writing import write_vectors

__all__ = [
    "FORMATS",
    "Vectors",
    "check_target",
    "format_of",
    "read_vectors",
    "whole_file",
    "write_vectors",
]
