"""Write files of vectors one block of rows at a time.

A file is written completely or not at all, and the memory that is needed does not depend on the
number of rows.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lincode.exceptions import InvalidInputError
from lincode.files import atomic_write
from lincode.vectors.formats import TEXT_FORMATS, file_format, import_pyarrow, is_gzip


def write_vectors(
    path: str | os.PathLike[str],
    blocks: Iterable[Any],
    n_rows: int | None = None,
    *,
    names: list[str] | None = None,
    sparse: bool = False,
) -> None:
    """Write blocks of rows to one file, which appears when the last block is written.

    Parameters
    ----------
    path : path
        The file. The suffix determines the format: npy, npz, csv, tsv or parquet. csv.gz and
        tsv.gz files are compressed.
    blocks : iterable of arrays or CSR matrices of shape (any, n_columns)
        Blocks of rows, all with the same dtype.
    n_rows : int, default=None
        The total number of rows, which is checked. None means that it is not known.
    names : list of str, default=None
        The names of the columns. They are the first row of a text file. If None, a text file
        has no such row, and the columns of a parquet file are named x0, x1, and so on.
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
        first = next(rest, None)
        if first is None:
            raise InvalidInputError(f"{os.fspath(path)}: there are no rows to write.")
        checked = _check_n_rows(chain([first], rest), n_rows)
        if suffix == "npz" and sparse:
            _write_csr(file, checked, first)
        elif suffix in TEXT_FORMATS:
            with _compressed(file) if is_gzip(path) else nullcontext(file) as text:
                _write_text(text, map(_dense, checked), names, "," if suffix == "csv" else "\t")
        elif suffix == "parquet":
            _write_parquet(file, map(_dense, checked), names)
        elif suffix == "npz":
            _write_npz(file, map(_dense, checked), first)
        else:
            _write_npy(file, map(_dense, checked), first)


def _dense(block: Any) -> NDArray[Any]:
    return np.asarray(block.toarray() if scipy.sparse.issparse(block) else block)


def _check_n_rows(blocks: Iterable[Any], n_rows: int | None) -> Iterator[Any]:
    """Yield the blocks; at the end, check that they have ``n_rows`` rows, if it is not None."""
    n = 0
    for block in blocks:
        n += block.shape[0]
        yield block
    if n_rows is not None and n != n_rows:
        raise InvalidInputError(f"blocks must have n_rows = {n_rows} rows in total, got {n}.")


def _write_npy(file: BinaryIO, blocks: Iterable[Any], first: Any) -> None:
    """Write an array whose number of rows is known when the last block is written."""
    start = file.tell()
    _write_header(file, (2**62, first.shape[1]), first.dtype)  # the longest header
    length, n = file.tell() - start, 0
    for block in blocks:
        file.write(np.ascontiguousarray(block, dtype=first.dtype).tobytes())
        n += len(block)
    header = io.BytesIO()
    _write_header(header, (n, first.shape[1]), first.dtype)
    # Spaces before the newline are allowed, and the length of the text is stored before it.
    text = header.getvalue()[10:-1].rstrip().ljust(length - 11) + b"\n"
    file.seek(start)
    file.write(header.getvalue()[:8] + len(text).to_bytes(2, "little") + text)
    file.seek(0, os.SEEK_END)


def _write_header(file: Any, shape: tuple[int, ...], dtype: Any) -> None:
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def _write_npz(file: BinaryIO, blocks: Iterable[Any], first: Any) -> None:
    """Write an array with the name X; a temporary file holds it until all blocks are known."""
    with tempfile.TemporaryFile(dir=Path(file.name).parent) as array:
        _write_npy(array, blocks, first)
        array.seek(0)
        with zipfile.ZipFile(file, "w") as archive, _open_member(archive, "X") as member:
            shutil.copyfileobj(array, member)


def _open_member(archive: zipfile.ZipFile, name: str) -> Any:
    return archive.open(f"{name}.npy", "w", force_zip64=True)


def _write_csr(file: BinaryIO, blocks: Iterable[Any], first: Any) -> None:
    """Write a CSR matrix in the format of ``scipy.sparse.save_npz``.

    The members of a zip archive are written one after the other, but every block adds to three
    of them. Temporary files therefore hold these three members until all blocks are known.
    """
    folder, dtype = Path(file.name).parent, first.dtype
    n = nnz = 0
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
            n, nnz = n + rows.shape[0], nnz + rows.nnz
        for name, contents, length, member_dtype in (
            ("data", data, nnz, dtype),
            ("indices", indices, nnz, np.int64),
            ("indptr", indptr, n + 1, np.int64),
        ):
            contents.seek(0)
            with _open_member(archive, name) as member:
                _write_header(member, (length,), member_dtype)
                shutil.copyfileobj(contents, member)
        shape = np.array((n, first.shape[1]))
        for name, value in (("shape", shape), ("format", np.array(b"csr"))):
            with _open_member(archive, name) as member:
                np.lib.format.write_array(member, value, allow_pickle=False)


def _compressed(file: BinaryIO) -> Any:
    """Return a file that compresses what is written to it; neither name nor time are stored."""
    return gzip.GzipFile("", "wb", fileobj=file, mtime=0)


def _write_text(
    file: BinaryIO, blocks: Iterable[Any], names: list[str] | None, delimiter: str
) -> None:
    """Write each number as the shortest text that is read as the same number."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    if names is not None:
        csv.writer(text, delimiter=delimiter, lineterminator="\n").writerow(names)
    for block in blocks:
        # A list of Python floats is faster, but would show the digits of float64 for float32.
        is_double = block.dtype == np.float64
        for row in block.tolist() if is_double else block:
            text.write(delimiter.join(map(repr if is_double else str, row)) + "\n")
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
