"""Read npz files: archives of arrays, or of the parts of a sparse matrix."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse

from lincode.exceptions import InvalidInputError
from lincode.messages import printable
from lincode.vectors.limits import SizeLimit
from lincode.vectors.npy import NPY_ERRORS, array_bytes, read_header

DAMAGED_ZIP_ERRORS = (
    *NPY_ERRORS,
    RuntimeError,  # a password is needed, or the compression is not known
    OSError,  # a position is outside of the file
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
"""What a damaged npz file raises; it depends on where the damage is."""
SPARSE_KEYS = {"format", "shape", "data"}
"""Arrays with these names are the parts of a sparse matrix."""
INDEX_KEYS = {"indices", "indptr", "row", "col", "offsets"}
INDEX_BYTES = 8


def read_npz(path: str, key: str | None, limit: SizeLimit) -> Any:
    """Return the array with the name ``key``, the only array, or the sparse matrix of an archive.

    Members of the archive that are not arrays are ignored.
    """
    keys: list[str] = []
    with open(path, "rb") as file:  # errors of the operating system are not damage
        try:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is not a zip archive.")
            with zipfile.ZipFile(file) as archive:
                names = dict.fromkeys(archive.namelist())
                keys = [name.removesuffix(".npy") for name in names if name.endswith(".npy")]
                if set(keys) >= SPARSE_KEYS and key is None:
                    _check_sparse(archive, keys, limit)
                    file.seek(0)
                    return _read_sparse(file)
                if key is None and len(keys) == 1:
                    key = keys[0]
                if key in keys:
                    return _read_array(archive, f"{key}.npy", limit)
        except InvalidInputError:
            raise
        except DAMAGED_ZIP_ERRORS as error:
            raise InvalidInputError(
                f"{path} is not an npz file of numbers or is damaged: {printable(str(error), 300)}"
            ) from error
    words = printable(", ".join(keys), 300) or "no array"
    raise InvalidInputError(
        f"{path} contains {words}; choose an array with key (--key on the"
        f" command line), got {key!r}."
    )


def _read_array(archive: zipfile.ZipFile, name: str, limit: SizeLimit) -> Any:
    """Return an array of the archive; its size is checked before it is read."""
    n_file = archive.getinfo(name).file_size
    with archive.open(name) as member:
        shape, _, dtype = read_header(member)
        n_header = member.tell()
    n_array = array_bytes(shape, dtype)
    if n_array != n_file - n_header:
        raise ValueError(
            f"the array of shape {shape} must have {n_array} bytes, got {n_file - n_header}."
        )
    limit.check(n_array)
    with archive.open(name) as member:
        return np.lib.format.read_array(member, allow_pickle=False)


def _check_sparse(archive: zipfile.ZipFile, keys: list[str], limit: SizeLimit) -> None:
    """Check the size of the sparse matrix in an archive, also of its conversion to CSR."""
    shape = np.atleast_1d(_read_array(archive, "shape.npy", limit))
    if shape.dtype.kind not in "iu" or shape.size > 2 or (shape < 0).any():
        raise ValueError("the shape of a sparse matrix must be two integers of at least 0.")
    n_bytes = sum(archive.getinfo(f"{key}.npy").file_size for key in keys)
    limit.check(n_bytes + INDEX_BYTES * sum(int(n) for n in shape))
    for key in keys:
        with archive.open(f"{key}.npy") as member:
            dtype = read_header(member)[2]
        if key in INDEX_KEYS and dtype.kind not in "iu":
            raise ValueError(f"the {key} of a sparse matrix must be integers, got {dtype}.")


def _read_sparse(file: BinaryIO) -> Any:
    X = scipy.sparse.load_npz(file)
    if hasattr(X, "check_format"):
        # Compiled code would use indices that are out of range without checking them.
        X.check_format(full_check=True)
    return X.tocsr()
