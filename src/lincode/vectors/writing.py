"""Write files of vectors one block of rows at a time.

A file is written completely or not at all, and the memory that is needed does not depend on the
number of rows.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lincode.exceptions import InvalidInputError
from lincode.files import atomic_write
from lincode.vectors.reading import file_format
from lincode.vectors.tables import import_pyarrow


def write_vectors(
    path: str | os.PathLike[str],
    blocks: Iterable[Any],
    n_rows: int,
    *,
    names: list[str] | None = None,
    sparse: bool = False,
) -> None:
    """Write blocks of rows to one file, which appears when the last block is written.

    Parameters
    ----------
    path : path
        The file. The suffix determines the format: npy, npz, csv or parquet.
    blocks : iterable of arrays or CSR matrices of shape (any, n_columns)
        Blocks of rows, all with the same dtype.
    n_rows : int
        The total number of rows.
    names : list of str, default=None
        The names of the columns. They are the first row of a csv file. If None, a csv file has
        no such row, and the columns of a parquet file are named x0, x1, and so on.
    sparse : bool, default=False
        If True, an npz file contains a CSR matrix, which ``scipy.sparse.load_npz`` reads. If
        False, it contains one array with the name X.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from lincode.vectors import write_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_vectors(Path(folder, "a.csv"), [np.eye(2)], 2, names=["x", "y"])
    ...     print(Path(folder, "a.csv").read_text())
    x,y
    1.0,0.0
    0.0,1.0
    <BLANKLINE>
    """
    suffix = file_format(path)
    with atomic_write(path) as file:
        rest = iter(blocks)
        first = next(rest)
        shape, dtype = (n_rows, first.shape[1]), first.dtype
        checked = _check_n_rows(chain([first], rest), n_rows)
        if suffix == "npz" and sparse:
            _write_csr(file, checked, shape, dtype)
        elif suffix == "csv":
            _write_csv(file, map(_dense, checked), names)
        elif suffix == "parquet":
            _write_parquet(file, map(_dense, checked), names)
        elif suffix == "npz":
            with zipfile.ZipFile(file, "w") as archive, _open_member(archive, "X") as member:
                _write_npy(member, map(_dense, checked), shape, dtype)
        else:
            _write_npy(file, map(_dense, checked), shape, dtype)


def _dense(block: Any) -> NDArray[Any]:
    return np.asarray(block.toarray() if scipy.sparse.issparse(block) else block)


def _check_n_rows(blocks: Iterable[Any], n_rows: int) -> Iterator[Any]:
    """Yield the blocks; at the end, check that they have ``n_rows`` rows as the header says."""
    n = 0
    for block in blocks:
        n += block.shape[0]
        yield block
    if n != n_rows:
        raise InvalidInputError(f"blocks must have n_rows = {n_rows} rows in total, got {n}.")


def _write_npy(file: Any, blocks: Iterable[Any], shape: tuple[int, ...], dtype: Any) -> None:
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    for block in blocks:
        file.write(np.ascontiguousarray(block, dtype=dtype).tobytes())


def _open_member(archive: zipfile.ZipFile, name: str) -> Any:
    return archive.open(f"{name}.npy", "w", force_zip64=True)


def _write_csr(file: BinaryIO, blocks: Iterable[Any], shape: tuple[int, int], dtype: Any) -> None:
    """Write a CSR matrix in the format of ``scipy.sparse.save_npz``.

    The members of a zip archive are written one after the other, but every block adds to three
    of them. Temporary files therefore hold these three members until all blocks are known.
    """
    folder = Path(file.name).parent
    nnz = 0
    with (
        tempfile.TemporaryFile(dir=folder) as data,
        tempfile.TemporaryFile(dir=folder) as indices,
        tempfile.TemporaryFile(dir=folder) as indptr,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        indptr.write(np.int64(0).tobytes())
        for block in blocks:
            rows = scipy.sparse.csr_matrix(block)
            data.write(rows.data.astype(dtype, copy=False).tobytes())
            indices.write(rows.indices.astype(np.int64).tobytes())
            indptr.write((nnz + rows.indptr[1:].astype(np.int64)).tobytes())
            nnz += rows.nnz
        for name, contents, length, member_dtype in (
            ("data", data, nnz, dtype),
            ("indices", indices, nnz, np.int64),
            ("indptr", indptr, shape[0] + 1, np.int64),
        ):
            contents.seek(0)
            with _open_member(archive, name) as member:
                _write_npy(member, [], (length,), member_dtype)
                shutil.copyfileobj(contents, member)
        for name, value in (("shape", np.array(shape)), ("format", np.array(b"csr"))):
            with _open_member(archive, name) as member:
                _write_npy(member, [value], value.shape, value.dtype)


def _write_csv(file: BinaryIO, blocks: Iterable[Any], names: list[str] | None) -> None:
    """Write each number as the shortest text that is read as the same number."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    if names is not None:
        csv.writer(text, lineterminator="\n").writerow(names)
    for block in blocks:
        # A list of Python floats is faster, but would show the digits of float64 for float32.
        is_double = block.dtype == np.float64
        for row in block.tolist() if is_double else block:
            text.write(",".join(map(repr if is_double else str, row)) + "\n")
    text.detach()


def _write_parquet(file: BinaryIO, blocks: Iterable[Any], names: list[str] | None) -> None:
    pa = import_pyarrow()
    writer = None
    try:
        for block in blocks:
            columns = names or [f"x{j}" for j in range(block.shape[1])]
            table = pa.table([pa.array(column) for column in block.T.copy()], names=columns)
            writer = writer or pa.parquet.ParquetWriter(file, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
