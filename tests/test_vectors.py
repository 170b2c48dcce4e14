"""Files of vectors: what is written is read again, and what is wrong is named."""

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

from lincode.vectors import read_vectors, reading, whole_file, write_vectors

X = np.random.default_rng(0).standard_normal((11, 3))
X[X < 0] = 0


def blocks(A: Any) -> list[Any]:
    return [A[:4], A[4:5], A[5:]]


def dense(A: Any) -> Any:
    return A.toarray() if scipy.sparse.issparse(A) else np.asarray(A)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("ending", reading.FORMATS)
def test_what_is_written_is_read_to_the_bit(
    ending: str, dtype: Any, sparse: bool, tmp_path: Path
) -> None:
    rows = X.astype(dtype)
    path = tmp_path / f"X.{ending}"
    write_vectors(
        path, blocks(scipy.sparse.csr_matrix(rows) if sparse else rows), 11, sparse=sparse
    )
    again = read_vectors(path).X
    assert scipy.sparse.issparse(again) == (sparse and ending == "npz")
    assert_array_equal(dense(again).astype(dtype), rows)
    assert again.dtype == (np.float64 if ending == "csv" else dtype)
    assert list(tmp_path.iterdir()) == [path]


def test_others_read_what_is_written(tmp_path: Path) -> None:
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


def test_we_read_what_others_write(tmp_path: Path) -> None:
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
    assert table.names == ["a", "b", "c"]  # the index is no feature
    assert_array_equal(table.X, X)


def test_npy_is_mapped_and_not_read(tmp_path: Path) -> None:
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
        ("5,2\n3,x\n", "line 2, column 2 must be a number, got 'x'"),
        ("a,b\n1,2\n3,\n", "line 3, column 2 is empty"),
        ("5,2\nnan,3\n", "line 2, column 1 must be a finite number, got 'nan'"),
        ("5,2\n3,1e999\n", "line 2, column 2 must be a finite number, got '1e999'"),
        ("1,x\n3,4\n", "line 1, column 2 must be a number, got 'x'. A header may hold names only"),
        ("5,2\n3\n", "line 2 has 1 cells, and the first line 2"),
        ("a,b\n3\n", "line 2 has 1 cells, and the first line 2"),
        ("5,2\n1_0,3\n", "X.csv: "),
        ("a,b\n", "a header and no rows"),
        ("\n\n", "is empty"),
        ("1;2\n3;4\n", "commas between its cells"),
    ],
)
def test_bad_cells_are_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "X.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_vectors(tmp_path / "X.csv")


def test_text_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "X.csv").write_bytes(b"5,2\n\xff\xfe\x00,3\n")
    with pytest.raises(ValueError, match="not text in UTF-8"):
        read_vectors(tmp_path / "X.csv")


@pytest.mark.parametrize("ending", reading.FORMATS)
def test_files_that_are_empty_missing_or_folders(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"X.{ending}"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_vectors(path)
    path.touch()
    with pytest.raises(ValueError, match="is empty"):
        read_vectors(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError, match="must be a file of vectors"):
        read_vectors(path)
    with pytest.raises(IsADirectoryError, match="name a file to write"):
        write_vectors(path, [X], 11)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3), r"one vector a row, got an array of shape \(3,\)"),
        (np.ones((3, 2, 2)), r"Flatten what belongs to one vector"),
        (np.ones((0, 3)), "at least one row"),
        (np.array([["a", "b"]]), "must hold real numbers"),
        (np.ones((2, 2), dtype=complex), "must hold real numbers, got complex"),
        (np.ones((2, 2), dtype=[("a", float)]), "must hold real numbers"),
    ],
)
@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_arrays_that_are_no_vectors(array: Any, message: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"X.{ending}"
    (np.save if ending == "npy" else np.savez)(path, array)
    with pytest.raises(ValueError, match=message):
        read_vectors(path)


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_no_file_runs_code(tmp_path: Path) -> None:
    trap, sprung = np.array([[Trap(tmp_path / "sprung")]], dtype=object), tmp_path / "sprung"
    np.save(tmp_path / "a.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "b.npz", X=trap)
    np.savez(tmp_path / "c.npz", format=np.array(b"csr"), shape=np.array([1, 1]), data=trap)
    for name in ("d.npy", "e.npz", "f.csv", "g.parquet"):
        (tmp_path / name).write_bytes(pickle.dumps(Trap(sprung)))
    for path in sorted(tmp_path.glob("*.*")):
        with pytest.raises(ValueError, match=path.name):
            read_vectors(path)
    assert not sprung.exists()


def test_sparse_indices_that_point_outside_are_refused(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "S.npz",
        format=np.array(b"csr"), shape=np.array([1, 3]), data=np.ones(1),
        indices=np.array([1_000_000]), indptr=np.array([0, 1]),
    )  # fmt: skip
    with pytest.raises(ValueError, match="damaged"):
        read_vectors(tmp_path / "S.npz")


def test_keys(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", A=X, B=X)
    for key in (None, "C"):
        with pytest.raises(ValueError, match="holds A, B; say which"):
            read_vectors(tmp_path / "two.npz", key=key)
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(ValueError, match="key is for npz files"):
        read_vectors(tmp_path / "X.npy", key="A")
    np.savez(tmp_path / "none.npz")
    with pytest.raises(ValueError, match="holds no array"):
        read_vectors(tmp_path / "none.npz")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("good")
    for name, sparse in (("a.npy", False), ("b.npz", False), ("c.npz", True), ("d.parquet", False)):
        write_vectors(folder / name, [X], 11, sparse=sparse)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(0, 255))
@pytest.mark.parametrize("name", ["a.npy", "b.npz", "c.npz", "d.parquet"])
def test_damaged_files_are_refused_or_hold_numbers(
    name: str, place: float, mask: int, good: dict[str, bytes], tmp_path_factory: Any
) -> None:
    """Cut short (mask 0) or with a byte changed: a ValueError at most. npy has no checksum."""
    data = bytearray(good[name])
    at = int(place * len(data))
    if mask:
        data[at] ^= mask
    else:
        del data[at:]
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(data)
    try:
        found = read_vectors(path).X
    except ValueError as error:
        found = error
    if mask == 0:
        assert isinstance(found, ValueError)
    elif not isinstance(found, ValueError):
        assert len(found.shape) == 2


def test_nan_is_named_by_row_and_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BLOCK_ENTRIES", 12)  # four rows
    bad = X.copy()
    bad[6, 1] = np.nan
    bad[9, 0] = np.inf
    np.save(tmp_path / "X.npy", bad)
    scipy.sparse.save_npz(tmp_path / "X.npz", scipy.sparse.csr_matrix(bad))
    for name in ("X.npy", "X.npz"):
        with pytest.raises(ValueError, match=f"{name}: row 7, column 2 is nan"):
            read_vectors(tmp_path / name).check_finite()


def test_parquet_that_is_no_table_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "X.parquet"
    pq.write_table(pa.table({"a": [1.0], "text": ["b"]}), path)
    with pytest.raises(ValueError, match="column 'text' holds string"):
        read_vectors(path)
    pq.write_table(pa.table({"a": [[1.0, 2.0]]}), path)
    with pytest.raises(ValueError, match="make one column of numbers for each feature"):
        read_vectors(path)
    pq.write_table(pa.table({"a": [1.0, None]}), path)
    with pytest.raises(ValueError, match="column 'a' has 1 missing values"):
        read_vectors(path)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "X.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="parquet files need pyarrow: pip install pyarrow"):
        read_vectors(tmp_path / "X.parquet")


def test_endings(tmp_path: Path) -> None:
    for name in ("X", "X.txt", "X.npy.gz"):
        with pytest.raises(ValueError, match=r"must end in \.npy, \.npz, \.csv, \.parquet, got"):
            read_vectors(tmp_path / name)
        with pytest.raises(ValueError, match="must end in"):
            write_vectors(tmp_path / name, [X], 11)
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "X.npy").rename(tmp_path / "X.NPY")
    assert_array_equal(read_vectors(tmp_path / "X.NPY").X, X)


@pytest.mark.parametrize("ending", reading.FORMATS)
def test_a_write_that_fails_leaves_the_old_file(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"X.{ending}"
    path.write_text("old")

    def interrupted() -> Any:
        yield X[:4]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_vectors(path, interrupted(), 11, sparse=True)
    with pytest.raises(ValueError, match="must have n_rows = 11 rows together, got 4"):
        write_vectors(path, [X[:4]], 11)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.touch()
    real.chmod(0o640)
    link.symlink_to(real)
    with whole_file(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    with whole_file(tmp_path / "other") as file:
        file.write(b"new")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o666 & ~mask


def test_pipes_are_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is a device or a pipe"), whole_file(tmp_path / "pipe"):
        pass


def test_the_archive_is_sound(tmp_path: Path) -> None:
    write_vectors(tmp_path / "X.npz", blocks(X), 11, sparse=True)
    with zipfile.ZipFile(tmp_path / "X.npz") as archive:
        assert archive.testzip() is None


@pytest.mark.parametrize("first", [0, 1])
def test_columns_that_are_numbered_are_names_not_a_sample(first: int, tmp_path: Path) -> None:
    path = tmp_path / "X.csv"
    names = [str(k + first) for k in range(3)]
    path.write_text(",".join(names) + "\n1.5,2.5,3.5\n4,5,6\n")
    with pytest.warns(UserWarning, match="numbers of its columns and not for a vector"):
        vectors = read_vectors(path)
    assert vectors.names == names
    assert vectors.X.shape == (2, 3)


def test_numbers_that_count_nothing_are_a_sample(tmp_path: Path) -> None:
    path = tmp_path / "X.csv"
    path.write_text("0,2,1\n0,1,3\n")
    assert read_vectors(path).X.shape == (2, 3)


@pytest.mark.parametrize(
    ("header", "message"),
    [(",a,b", "column 1 has no name; if it counts the rows"), ("a,b,a", "two columns named 'a'")],
)
def test_names_that_name_nothing_or_two_things_are_refused(
    header: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "X.csv"
    path.write_text(f"{header}\n1,2,3\n")
    with pytest.raises(ValueError, match=message):
        read_vectors(path)
