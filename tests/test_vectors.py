"""Files of vectors: written files are read back exactly, and errors say what is wrong."""

from __future__ import annotations

import csv
import os
import pickle
import stat
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from lincode.exceptions import InvalidInputError, MissingDependencyError
from lincode.vectors import (
    FORMATS,
    atomic_write,
    open_vectors,
    parquet,
    read_vectors,
    reading,
    text,
    write_vectors,
)
from lincode.vectors.columns import check_column_names

X = np.random.default_rng(0).standard_normal((11, 3))
X[X < 0] = 0
MISSING = r"fill in a number or remove the row \(in Python, SCNN accepts NaN\)\.$"


def blocks(A: Any) -> list[Any]:
    return [A[:4], A[4:5], A[5:]]


def dense(A: Any) -> Any:
    return A.toarray() if scipy.sparse.issparse(A) else np.asarray(A)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("suffix", FORMATS)
def test_written_files_are_read_back_exactly(
    suffix: str, dtype: Any, sparse: bool, tmp_path: Path
) -> None:
    rows = X.astype(dtype)
    path = tmp_path / f"X.{suffix}"
    write_vectors(
        path, blocks(scipy.sparse.csr_matrix(rows) if sparse else rows), 11, sparse=sparse
    )
    again = read_vectors(path).X
    assert scipy.sparse.issparse(again) == (sparse and suffix == "npz")
    assert_array_equal(dense(again).astype(dtype), rows)
    assert again.dtype == (np.float64 if suffix in ("csv", "tsv") else dtype)
    assert list(tmp_path.iterdir()) == [path]


def test_numpy_scipy_and_csv_read_written_files(tmp_path: Path) -> None:
    path = tmp_path / "X.npz"
    write_vectors(path, blocks(X), 11, sparse=True)
    matrix = scipy.sparse.load_npz(path)
    matrix.check_format(full_check=True)
    assert matrix.nnz == np.count_nonzero(X)
    assert_array_equal(matrix.toarray(), X)
    write_vectors(path, blocks(X), 11)
    assert_array_equal(np.load(path)["X"], X)
    write_vectors(tmp_path / "X.npy", blocks(X), 11)
    assert_array_equal(np.load(tmp_path / "X.npy"), X)
    write_vectors(tmp_path / "X.csv", blocks(X), 11, names=["a", "b,c", "d"])
    with open(tmp_path / "X.csv", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["a", "b,c", "d"]
    assert_array_equal([[float(cell) for cell in row] for row in rows], X)


def test_files_of_other_programs_are_read(tmp_path: Path) -> None:
    for convert in (scipy.sparse.csc_matrix, scipy.sparse.coo_array, scipy.sparse.csr_array):
        scipy.sparse.save_npz(tmp_path / "S.npz", convert(X))
        again = read_vectors(tmp_path / "S.npz").X
        assert again.format == "csr"
        assert_array_equal(again.toarray(), X)
    np.savez(tmp_path / "two.npz", A=X, B=X + 1)
    assert_array_equal(read_vectors(tmp_path / "two.npz", key="B").X, X + 1)
    np.save(tmp_path / "F.npy", np.asfortranarray(X))
    assert_array_equal(read_vectors(tmp_path / "F.npy").X, X)
    pd.DataFrame(X, columns=list("abc"), index=np.arange(11) * 7).to_parquet(tmp_path / "X.parquet")
    table = read_vectors(tmp_path / "X.parquet")
    assert table.names == ["a", "b", "c"]  # The index is not a feature.
    assert_array_equal(table.X, X)


def test_npy_files_are_memory_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X)
    again = read_vectors(tmp_path / "X.npy").X
    assert isinstance(again, np.memmap)
    assert not again.flags.writeable


@pytest.mark.parametrize("header", ["", "a,b,c\n", '"a\nx",b,"c,d"\n', "\n\na,b,c\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_with_and_without_a_header(header: str, end: str, tmp_path: Path) -> None:
    text = header + '1,2.5,-3e2\n\n4, 5 ,"6"\n'
    (tmp_path / "X.csv").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", end).encode())
    table = read_vectors(tmp_path / "X.csv")
    assert_array_equal(table.X, [[1, 2.5, -300], [4, 5, 6]])
    assert (table.names is None) == (header == "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5,2\n3,x\n", "row 2, column 2 must be a number, got 'x'"),
        ("a,b\n1,2\n3,\n", r"row 2 \(without the header\), column 2 \('b'\) is empty; {MISSING}"),
        ("a,b\n1,2\n3,NA\n", r"column 2 \('b'\) must be a number, got 'NA'; {MISSING}"),
        ("5,2\n3, ? \n", "column 2 must be a number, got .*; {MISSING}"),
        ('\n"a\nx",b\n\n1,2\n3,x\n', r"row 2 \(without the header\), column 2 \('b'\) must be"),
        ("a,b\n1,2\n3,inf\n", r"row 2 \(without the header\), column 2 \('b'\) must be a finite"),
        ("5,2\nnan,3\n", "row 2, column 1 must be a finite number, got nan; {MISSING}"),
        ("5,2\n3,1e999\n", "row 2, column 2 must be a finite number, got inf; replace it"),
        (
            "1,x\n",
            r"row 1, column 2 must be a number, got 'x' \(use --header yes if the first row",
        ),
        ("5,NA\n3,4\n", "row 1, column 2 must be a number, got 'NA'; {MISSING}"),
        ("5,,2\n3,4,1\n", "row 1, column 2 is empty; {MISSING}"),
        ("a,b\n1,x\n", r"column 2 \('b'\) must be .*'x'; correct it or exclude the column\.$"),
        ("5,2\n3\n", "row 2 must have 2 cells as the first row, got 1"),
        ("a,b\n3\n", r"row 1 \(without the header\) must have 2 cells as the first row, got 1"),
        ('5,2\n"3,4\n', "row 2 must have 2 cells"),
        ("5,2\n1_0,3\n", "row 2, column 1 must be a number, got '1_0'"),
        ("x\n1\n\n3\n", r"row 2 \(without the header\), column 1 \('x'\) is empty; {MISSING}"),
        ("x\n\n1\n", r"row 1 \(without the header\), column 1 \('x'\) is empty; {MISSING}"),
        ("\n\n1\n2\n\n\n3\n", "row 3, column 1 is empty; {MISSING}"),
        ('1\n""\n', "row 2, column 1 is empty; {MISSING}"),
        ("a,b\n", "column names but no rows"),
        ("x\n\n\n", "column names but no rows"),
        ("a,b", "must be a csv file of numbers"),
        ("\n\n", "is empty"),
        ("1;2\n3;4\n", "commas between its cells"),
    ],
)
def test_bad_csv_cells_are_reported(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "X.csv").write_text(text)
    message = message.replace("{MISSING}", MISSING)
    with pytest.raises(InvalidInputError, match=f"X.csv.*{message}"):
        read_vectors(tmp_path / "X.csv").check_finite()


@pytest.mark.parametrize("start", ["", "x\n", "\n\n", "\nx\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("n_blank", [0, 3, 300])
def test_blank_lines_at_the_end_of_a_file_of_one_column(
    start: str, end: str, n_blank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 100)
    path, numbers = tmp_path / "X.csv", [str(k) for k in range(100)]
    lines = start + "\n".join(numbers) + "\n" * (n_blank + 1)
    path.write_bytes(lines.replace("\n", end).encode())
    assert_array_equal(read_vectors(path).X[:, 0], range(100))
    path.write_bytes((lines + "\n5").replace("\n", end).encode())
    with pytest.raises(InvalidInputError, match=r"row 101\b.*, column 1 .*is empty"):
        read_vectors(path)


def test_csv_files_of_several_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 200)
    rows = [f"{k},{k + 0.5},{-k}" for k in range(100)]
    (tmp_path / "X.csv").write_text("\n".join(["a,b,c", *rows]))
    assert_array_equal(read_vectors(tmp_path / "X.csv").X, [[k, k + 0.5, -k] for k in range(100)])
    (tmp_path / "X.csv").write_text("\n".join(["a,b,c", *rows, "1,2,x"]))
    with pytest.raises(
        InvalidInputError, match=r"row 101 .*, column 3 .* must be a number, got 'x'"
    ):
        read_vectors(tmp_path / "X.csv")


def test_csv_rows_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 100)
    cells = ["0.12345678901234567"] * 1000
    (tmp_path / "X.csv").write_text(",".join(cells) + "\n" + ",".join(cells) + "\n")
    assert_array_equal(read_vectors(tmp_path / "X.csv").X, np.full((2, 1000), 0.12345678901234567))


def test_checking_column_names_takes_linear_time() -> None:
    """A quadratic comparison of a million names would not end."""
    check_column_names("X.csv", [str(j) for j in range(1_000_000)])


@pytest.mark.parametrize("text", [b"5,2\n\xff\xfe\x00,3\n", b"a\xff,b\n5,2\n"])
def test_csv_files_that_are_not_text(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "X.csv").write_bytes(text)
    with pytest.raises(InvalidInputError, match="not text in UTF-8"):
        read_vectors(tmp_path / "X.csv")


@pytest.mark.parametrize("suffix", FORMATS)
def test_empty_files_missing_files_and_folders(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"X.{suffix}"
    with pytest.raises(FileNotFoundError, match="No such file"):
        read_vectors(path)
    path.touch()
    with pytest.raises(InvalidInputError, match="is empty"):
        read_vectors(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(
        IsADirectoryError, match="expected a file of vectors or a folder of parquet"
    ):
        read_vectors(path)
    with pytest.raises(IsADirectoryError, match="must be a file, not a folder"):
        write_vectors(path, [X], 11)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3), r"one vector per row, got an array of shape \(3,\)"),
        (np.ones((3, 2, 2)), r"Flatten each vector"),
        (np.ones((0, 3)), "at least one row"),
        (np.array([["a", "b"]]), "must contain real numbers"),
        (np.ones((2, 2), dtype=complex), "must contain real numbers, got complex"),
        (np.ones((2, 2), dtype=[("a", float)]), "must contain real numbers"),
    ],
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_arrays_that_are_not_tables_of_numbers(
    array: Any, message: str, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"X.{suffix}"
    (np.save if suffix == "npy" else np.savez)(path, array)
    with pytest.raises(InvalidInputError, match=message):
        read_vectors(path)


class Trap:
    """An object that writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_reading_never_runs_code(tmp_path: Path) -> None:
    written = tmp_path / "written"
    trap = np.array([[Trap(written)]], dtype=object)
    np.save(tmp_path / "a.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "b.npz", X=trap)
    np.savez(tmp_path / "c.npz", format=np.array(b"csr"), shape=np.array([1, 1]), data=trap)
    for name in ("d.npy", "e.npz", "f.csv", "g.parquet"):
        (tmp_path / name).write_bytes(pickle.dumps(Trap(written)))
    for path in sorted(tmp_path.glob("*.*")):
        with pytest.raises(InvalidInputError, match=path.name):
            read_vectors(path)
    assert not written.exists()


def test_sparse_indices_out_of_range_are_refused(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "S.npz",
        format=np.array(b"csr"),
        shape=np.array([1, 3]),
        data=np.ones(1),
        indices=np.array([1_000_000]),
        indptr=np.array([0, 1]),
    )
    with pytest.raises(InvalidInputError, match="damaged"):
        read_vectors(tmp_path / "S.npz")


def test_key_selects_an_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", A=X, B=X)
    for key in (None, "C"):
        with pytest.raises(InvalidInputError, match="contains A, B; choose an array"):
            read_vectors(tmp_path / "two.npz", key=key)
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(InvalidInputError, match="key selects one of the arrays in an npz file"):
        read_vectors(tmp_path / "X.npy", key="A")
    np.savez(tmp_path / "none.npz")
    with pytest.raises(InvalidInputError, match="contains no array"):
        read_vectors(tmp_path / "none.npz")


@pytest.fixture(scope="module")
def valid_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("valid")
    for name, sparse in (("a.npy", False), ("b.npz", False), ("c.npz", True), ("d.parquet", False)):
        write_vectors(folder / name, [X], 11, sparse=sparse)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(0, 255))
@pytest.mark.parametrize("name", ["a.npy", "b.npz", "c.npz", "d.parquet"])
def test_damaged_files_are_refused_or_contain_numbers(
    name: str, place: float, mask: int, valid_files: dict[str, bytes], tmp_path_factory: Any
) -> None:
    """A file is truncated if mask is 0, else one byte is changed. npy files have no checksum."""
    data = bytearray(valid_files[name])
    at = int(place * len(data))
    if mask:
        data[at] ^= mask
    else:
        del data[at:]
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(data)
    try:
        result = read_vectors(path).X
    except InvalidInputError as error:
        result = error
    if mask == 0:
        assert isinstance(result, InvalidInputError)
    elif not isinstance(result, InvalidInputError):
        assert len(result.shape) == 2


def test_nan_is_reported_with_row_and_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BLOCK_ENTRIES", 12)  # Four rows.
    bad = X.copy()
    bad[6, 1] = np.nan
    bad[9, 0] = np.inf
    np.save(tmp_path / "X.npy", bad)
    scipy.sparse.save_npz(tmp_path / "X.npz", scipy.sparse.csr_matrix(bad))
    for name in ("X.npy", "X.npz"):
        with pytest.raises(InvalidInputError, match=f"{name}: row 7, column 2 must be .* got nan"):
            read_vectors(tmp_path / name).check_finite()


def test_parquet_files_that_are_not_tables_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "X.parquet"
    pq.write_table(pa.table({"a": [1.0], "text": ["b"]}), path)
    with pytest.raises(InvalidInputError, match="column 'text' must contain numbers, got string"):
        read_vectors(path)
    pq.write_table(pa.table({"a": [[1.0, 2.0]]}), path)
    with pytest.raises(InvalidInputError, match="write one column of numbers per feature"):
        read_vectors(path)
    pq.write_table(pa.table({"a": [1.0, None]}), path)
    with pytest.raises(InvalidInputError, match="column 'a' has missing values"):
        read_vectors(path)


def test_parquet_files_of_several_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "BLOCK_ENTRIES", 8)
    pq.write_table(pa.table({"a": [1, 2, 3] * 5, "b": [0.5] * 15}), tmp_path / "X.parquet")
    assert_array_equal(read_vectors(tmp_path / "X.parquet").X, [[1, 0.5], [2, 0.5], [3, 0.5]] * 5)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_csv_and_parquet_need_pyarrow(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_vectors(tmp_path / f"X.{suffix}", [X], 11)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "lincode\[files\]"'):
        read_vectors(tmp_path / f"X.{suffix}")


def test_suffix_determines_the_format(tmp_path: Path) -> None:
    for name in ("X", "X.txt", "X.npy.gz"):
        with pytest.raises(
            InvalidInputError, match=r"must end in \.npy, \.npz, \.csv, .* or \.parquet, got"
        ):
            read_vectors(tmp_path / name)
        with pytest.raises(InvalidInputError, match="must end in"):
            write_vectors(tmp_path / name, [X], 11)
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "X.npy").rename(tmp_path / "X.NPY")
    assert_array_equal(read_vectors(tmp_path / "X.NPY").X, X)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_failed_write_leaves_the_old_file(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"X.{suffix}"
    path.write_text("old")

    def interrupted() -> Any:
        yield X[:4]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_vectors(path, interrupted(), 11, sparse=True)
    with pytest.raises(InvalidInputError, match="must have n_rows = 11 rows in total, got 4"):
        write_vectors(path, [X[:4]], 11)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.touch()
    real.chmod(0o640)
    link.symlink_to(real)
    with atomic_write(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    with atomic_write(tmp_path / "other") as file:
        file.write(b"new")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("suffix", ["csv", "npy"])
def test_pipes_are_not_called_empty(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"X.{suffix}"
    os.mkfifo(path)
    for read in (read_vectors, open_vectors):
        with pytest.raises(
            InvalidInputError, match=r"regular file, but it is a pipe; .*, with - as"
        ):
            read(path)


def test_pipes_are_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a device or a pipe"), atomic_write(tmp_path / "pipe"):
        pass


def test_npz_files_are_valid_zip_archives(tmp_path: Path) -> None:
    write_vectors(tmp_path / "X.npz", blocks(X), 11, sparse=True)
    with zipfile.ZipFile(tmp_path / "X.npz") as archive:
        assert archive.testzip() is None
