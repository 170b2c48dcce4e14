"""Read and write files of vectors: npy, npz, csv, tsv and parquet, without pickle."""

from lincode.files import atomic_write, check_output_path
from lincode.vectors.formats import FORMATS, file_format, import_pyarrow
from lincode.vectors.reading import Vectors, open_vectors, read_vectors
from lincode.vectors.writing import write_vectors

__all__ = [
    "FORMATS",
    "Vectors",
    "atomic_write",
    "check_output_path",
    "file_format",
    "import_pyarrow",
    "open_vectors",
    "read_vectors",
    "write_vectors",
]
