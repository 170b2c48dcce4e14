"""Read and write files of vectors: npy, npz, csv and parquet, without pickle."""

from lincode.files import atomic_write, check_output_path
from lincode.vectors.reading import FORMATS, Vectors, file_format, read_vectors
from lincode.vectors.tables import import_pyarrow
from lincode.vectors.writing import write_vectors

__all__ = [
    "FORMATS",
    "Vectors",
    "atomic_write",
    "check_output_path",
    "file_format",
    "import_pyarrow",
    "read_vectors",
    "write_vectors",
]
