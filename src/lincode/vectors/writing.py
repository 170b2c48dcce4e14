"""Writing files of vectors a block of rows at a time: memory does not grow with their number."""

from __future__ import annotations

import csv
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lincode.vectors.reading import format_of, import_pyarrow
from lincode.vectors.whole_file import whole_file


def write_vectors(
    path: str | os.PathLike[str],
    blocks: Iterable[Any],
    n_rows: int,
    *,
    names: list[str] | None = None,
    sparse: bool = False,
) -> None:
    """Write blocks of rows one after the other; the file appears when the last is written.

    Parameters
    ----------
    path : path
        Its end says the format: npy, npz, csv or parquet.
    blocks : iterable of arrays or CSR matrices of shape (any, n_columns)
        All of one dtype.
    n_rows : int
        How many rows they have together.
    names : list of str, default=None
        Of the columns: a csv file's first row. In parquet, columns without names are x0, x1, ….
    sparse : bool, default=False
        An npz file is a CSR matrix, to read with ``scipy.sparse.load_npz``. Else it holds one
        array, X.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from lincode.vectors import read_vectors, write_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_vectors(Path(folder, "a.csv"), [np.eye(2)], 2, names=["x", "y"])
    ...     print(Path(folder, "a.csv").read_text())
    x,y
    1.0,0.0
    0.0,1.0
    <BLANKLINE>
    """
    kind = format_of(path)
    with whole_file(path) as file:
        rest = iter(blocks)
        first = next(rest)
        shape, dtype = (n_rows, first.shape[1]), first.dtype
        parts = _counted(chain([first], rest), n_rows)
        if kind == "npz" and sparse:
            _write_csr(file, parts, shape, dtype)
        elif kind == "csv":
            _write_csv(file, map(_dense, parts), names)
        elif kind == "parquet":
            _write_parquet(file, map(_dense, parts), names)
        elif kind == "npz":
            with zipfile.ZipFile(file, "w") as archive, _member(archive, "X") as member:
                _write_npy(member, map(_dense, parts), shape, dtype)
        else:
            _write_npy(file, map(_dense, parts), shape, dtype)


def _dense(block: Any) -> NDArray[Any]:
    return np.asarray(block.toarray() if scipy.sparse.issparse(block) else block)


def _counted(blocks: Iterable[Any], n_rows: int) -> Iterator[Any]:
    """The blocks; a file whose header counts other rows than it has would be a damaged one."""
    n = 0
    for block in blocks:
        n += block.shape[0]
        yield block
    if n != n_rows:
        raise ValueError(f"blocks must have n_rows = {n_rows} rows together, got {n}.")


def _write_npy(file: Any, blocks: Iterable[Any], shape: tuple[int, ...], dtype: Any) -> None:
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    for block in blocks:
        file.write(np.ascontiguousarray(block, dtype=dtype).tobytes())


def _member(archive: zipfile.ZipFile, name: str) -> Any:
    return archive.open(f"{name}.npy", "w", force_zip64=True)


def _write_csr(file: BinaryIO, blocks: Iterable[Any], shape: tuple[int, int], dtype: Any) -> None:
    """A CSR matrix as ``scipy.sparse.save_npz`` has it, its parts kept on disk till all are known.

    A zip is written one member at a time, and every block adds to three of them.
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
        for name, part, length, kind in (
            ("data", data, nnz, dtype),
            ("indices", indices, nnz, np.int64),
            ("indptr", indptr, shape[0] + 1, np.int64),
        ):
            part.seek(0)
            with _member(archive, name) as member:
                _write_npy(member, [], (length,), kind)
                shutil.copyfileobj(part, member)
        for name, value in (("shape", np.array(shape)), ("format", np.array(b"csr"))):
            with _member(archive, name) as member:
                _write_npy(member, [value], value.shape, value.dtype)


def _write_csv(file: BinaryIO, blocks: Iterable[Any], names: list[str] | None) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    if names is not None:
        csv.writer(text, lineterminator="\n").writerow(names)
    for block in blocks:
        # The shortest text that gives the same number again; of float32, the same float32.
        shown: Callable[[Any], str] = repr if block.dtype == np.float64 else str
        for row in block if shown is str else block.tolist():
            text.write(",".join(map(shown, row)) + "\n")
    text.detach()


def _write_parquet(file: BinaryIO, blocks: Iterable[Any], names: list[str] | None) -> None:
    pa, pq = import_pyarrow()
    writer = None
    try:
        for block in blocks:
            columns = names or [f"x{j}" for j in range(block.shape[1])]
            table = pa.table([pa.array(column) for column in block.T.copy()], names=columns)
            writer = writer or pq.ParquetWriter(file, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
