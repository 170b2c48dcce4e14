"""Files that are read in parts: columns, compressed text, standard input, folders, damage."""

from __future__ import annotations

import gzip
import io
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from lincode.exceptions import InvalidInputError
from lincode.vectors import npy, open_vectors, parquet, read_vectors, text, write_vectors

X = np.random.default_rng(0).standard_normal((50, 4))
NAMES = ["a", "b", "c", "d"]


def write_csv(path: Path, delimiter: str = ",", *, header: bool = True) -> None:
    """Write X with a column of text in the second place."""
    rows = [["a", "label", "b", "c", "d"]] if header else []
    rows += [[repr(x[0]), "cat, dog", *map(repr, x[1:])] for x in X.tolist()]
    lines = [delimiter.join(f'"{c}"' if "," in c else c for c in row) + "\n" for row in rows]
    data = "".join(lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix.lower() == ".gz" else data)


def write_parquet(path: Path, A: Any = X, n_rows: int = 7, **columns: Any) -> None:
    table = pa.table({**dict(zip(NAMES, A.T.copy(), strict=True)), **columns})
    pq.write_table(table, path, row_group_size=n_rows)


@pytest.mark.parametrize("name", ["X.csv", "X.tsv", "X.csv.gz", "X.tsv.gz", "X.CSV.GZ"])
@pytest.mark.parametrize("header", [True, False])
def test_text_files_with_a_label(
    name: str, header: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 1000)
    path = tmp_path / name
    write_csv(path, "\t" if "tsv" in name else ",", header=header)
    vectors = read_vectors(path, exclude=["label" if header else "2"])
    assert_array_equal(vectors.X, X)
    assert vectors.names == (NAMES if header else None)
    chosen = read_vectors(path, columns=["5", "a"] if header else ["5", "1"])
    assert_array_equal(chosen.X, X[:, [3, 0]])
    stream = open_vectors(path, exclude=["2"])
    assert stream.X is None
    blocks = list(stream.blocks())
    assert len(blocks) > 1
    assert_array_equal(np.vstack(blocks), X)
    assert_array_equal(np.vstack(list(stream.blocks())), X)  # files can be read again


def test_numbers_of_columns_in_errors_are_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "X.csv").write_text("a,label,b\n1,x,2\n3,y,z\n")
    with pytest.raises(InvalidInputError, match=r"row 2 .*, column 3 \('b'\) must be a number"):
        read_vectors(tmp_path / "X.csv", exclude=["label"])
    table = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, np.nan]])
    (tmp_path / "X.csv").write_text("a,label,b\n1,2,3\n4,5,nan\n")
    columns = dict(zip(["a", "label", "b"], table.T.copy(), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "X.parquet")
    np.save(tmp_path / "X.npy", table)
    np.save(tmp_path / "F.npy", np.asfortranarray(table))
    np.savez(tmp_path / "X.npz", X=table)
    for name, place in (
        ("X.csv", "row 2 (without the header), column 3 ('b') must be a finite"),
        ("X.parquet", "row 2, column 3 ('b') must be a finite"),
        ("X.npy", "row 2, column 3 must be a finite"),
        ("F.npy", "row 2, column 3 must be a finite"),
        ("X.npz", "row 2, column 3 must be a finite"),
    ):
        for read in (read_vectors, open_vectors):
            vectors = read(tmp_path / name, exclude=["2"])
            with pytest.raises(InvalidInputError, match=re.escape(place)):
                vectors.check_finite()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["z"]}, r"has no column 'z'; use a name or a position between 1 and 5 \(nam"),
        ({"exclude": ["LABEL"]}, r"has no column 'LABEL'; did you mean column 2 \('label'\)\?$"),
        ({"exclude": [" label"]}, r"did you mean column 2 \('label'\)\?$"),
        ({"columns": ["lable"]}, r"did you mean column 2 \('label'\)\?$"),
        ({"columns": ["label" * 100]}, "use a name or a position"),
        ({"exclude": ["6"]}, "has no column '6'"),
        ({"columns": ["0"]}, "has no column '0'"),
        ({"columns": ["a", "1"]}, "every column may be chosen only once"),
        ({"columns": ["a"], "exclude": ["a"]}, "at least one column must be read"),
    ],
)
def test_columns_that_do_not_exist(options: Any, message: str, tmp_path: Path) -> None:
    write_csv(tmp_path / "X.csv")
    with pytest.raises(InvalidInputError, match=message):
        read_vectors(tmp_path / "X.csv", **options)


@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_standard_input(
    delimiter: str, bom: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [delimiter.join(NAMES), *(delimiter.join(map(repr, x)) for x in X.tolist())]
    data = bom + b"\n" + "\n".join(lines).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    vectors = open_vectors("-")
    assert vectors.names == NAMES
    assert_array_equal(np.vstack(list(vectors.blocks())), X)
    with pytest.raises(InvalidInputError, match="standard input can be read only once"):
        list(vectors.blocks())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "standard input is empty"),
        (b"\n\n", "standard input is empty"),
        (b"5,2\n3,x\n", "standard input: row 2, column 2 must be a number, got 'x'"),
        (b"\x93NUMPY\x01\x00", "standard input must be a csv file, but it is not text"),
        (b"1;2\n", "standard input must have commas between its cells"),
    ],
)
def test_standard_input_that_is_not_csv(
    data: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    with pytest.raises(InvalidInputError, match=message):
        list(open_vectors("-").blocks())


@pytest.mark.parametrize("damage", ["truncated", "no gzip", "changed"])
def test_damaged_gzip_files(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "X.csv.gz"
    write_csv(path)
    data = bytearray(path.read_bytes())
    if damage == "truncated":
        del data[len(data) // 2 :]
    elif damage == "no gzip":
        data = bytearray(b"1,2\n")
    else:
        data[-8] ^= 1
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match=r"X\.csv\.gz is not a gzip file or is truncated"):
        read_vectors(path, exclude=["label"])


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "tsv.gz", "npy", "npz", "parquet"])
def test_files_are_written_without_knowing_the_number_of_rows(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"X.{suffix}"
    write_vectors(path, (X[i : i + 9] for i in range(0, 50, 9)), names=NAMES)
    assert_array_equal(read_vectors(path).X, X)
    if suffix == "npy":
        assert_array_equal(np.load(path), X)
    with pytest.raises(InvalidInputError, match="no rows to write"):
        write_vectors(path, iter([]))
    assert list(tmp_path.iterdir()) == [path]


# Slices of files


def test_npy_rows_are_read_when_they_are_sliced(tmp_path: Path) -> None:
    for dtype in ("<f8", ">f4", "<i2"):
        A = (10 * X).astype(dtype)
        np.save(tmp_path / "X.npy", A)
        rows = open_vectors(tmp_path / "X.npy").X
        assert rows.shape == (50, 4)
        assert_array_equal(rows[7:20], A[7:20])
        assert rows[7:20].dtype == rows.dtype == A.dtype.newbyteorder("=")
        chosen = open_vectors(tmp_path / "X.npy", columns=["4", "1"], dtype="f4").X
        assert_array_equal(chosen[:], A[:, [3, 0]].astype("f4"))
        assert chosen.dtype == chosen[:3].dtype == np.float32
    np.save(tmp_path / "F.npy", np.asfortranarray(X))
    assert_array_equal(open_vectors(tmp_path / "F.npy", exclude=["1"]).X[3:9], X[3:9, 1:])


def test_a_file_that_becomes_shorter(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X)
    rows = open_vectors(tmp_path / "X.npy").X
    with open(tmp_path / "X.npy", "rb+") as file:
        file.truncate(500)
    with pytest.raises(InvalidInputError, match="rows 41 to 50 cannot be read: the file was trunc"):
        rows[40:50]


def test_text_is_converted_to_a_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npy, "IN_MEMORY_BYTES", 100)
    write_csv(tmp_path / "X.csv")
    (tmp_path / "folder").mkdir()
    vectors = open_vectors(tmp_path / "X.csv", exclude=["label"])
    with vectors.with_slices(str(tmp_path / "folder"), "f4") as sliced:
        assert sliced.X.shape == (50, 4)
        assert_array_equal(sliced.X[11:33], X[11:33].astype("f4"))
    assert list((tmp_path / "folder").iterdir()) == []
    (tmp_path / "Y.csv").write_text("a,b\n1,nan\n")
    with (
        pytest.raises(InvalidInputError, match=r"row 1 .*, column 2 .* must be a finite number"),
        open_vectors(tmp_path / "Y.csv").with_slices(str(tmp_path / "folder")),
    ):
        pass
    assert list((tmp_path / "folder").iterdir()) == []


# Parquet


@pytest.mark.parametrize("reader_bytes", [0, 2**30])
def test_parquet_rows(reader_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups with many columns go through a temporary file; the result is the same."""
    monkeypatch.setattr(parquet, "READER_BYTES", reader_bytes)
    monkeypatch.setattr(parquet, "BLOCK_ENTRIES", 12)  # three rows
    path = tmp_path / "X.parquet"
    write_parquet(path, label=["x"] * 50)
    (tmp_path / "folder").mkdir()
    rows = open_vectors(path, exclude=["label"], folder=str(tmp_path / "folder")).X
    assert rows.shape == (50, 4)
    assert rows.chunks == ((7,) * 7 + (1,), (4,))
    for start in range(0, 50, 6):
        for stop in (start, start + 1, start + 17):
            assert_array_equal(rows[start:stop], X[start:stop])
    assert max(len(block) for block in rows.iter_rows(slice(None))) == 3
    assert list((tmp_path / "folder").iterdir()) == []
    assert_array_equal(
        open_vectors(path, columns=["c", "1"], dtype="f4").X[:], X[:, [2, 0]].astype("f4")
    )


def test_a_folder_of_parquet_files(tmp_path: Path) -> None:
    for i, rows in enumerate((slice(0, 20), slice(20, 23), slice(23, 50))):
        write_parquet(tmp_path / f"part-{i}.parquet", X[rows])
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "_meta.parquet").touch()
    vectors = open_vectors(tmp_path)
    assert vectors.names == NAMES
    assert_array_equal(vectors.X[18:30], X[18:30])
    assert_array_equal(np.vstack(list(vectors.blocks())), X)
    assert_array_equal(read_vectors(tmp_path).X, X)
    write_parquet(tmp_path / "part-3.parquet", X.astype("f4"), e=X[:, 0])
    with pytest.raises(InvalidInputError, match=r"part-3.* has 5 columns, but .*part-0.* has 4"):
        open_vectors(tmp_path)
    pq.write_table(pa.table(dict.fromkeys("abcx", X[:, 0])), tmp_path / "part-3.parquet")
    with pytest.raises(InvalidInputError, match=r"part-3.parquet has no column 'd', but .*part-0"):
        open_vectors(tmp_path)
    (tmp_path / "part-3.parquet").write_bytes(b"")
    with pytest.raises(InvalidInputError, match=r"part-3.parquet is not a parquet file"):
        open_vectors(tmp_path)


def test_common_dtype_of_parquet_columns(tmp_path: Path) -> None:
    for types, expected in (("f4 f4", "f4"), ("f4 f8", "f8"), ("i2 f4", "f4"), ("i8 f4", "f8")):
        columns = {f"x{j}": np.ones(3, t) for j, t in enumerate(types.split())}
        pq.write_table(pa.table(columns), tmp_path / "X.parquet")
        assert open_vectors(tmp_path / "X.parquet").X.dtype == np.dtype(expected)


def damage_row_group(path: Path, number: int) -> None:
    """Overwrite the data of a row group."""
    group = pq.ParquetFile(path).metadata.row_group(number)
    with open(path, "rb+") as file:
        for j in range(group.num_columns):
            column = group.column(j)
            file.seek(column.dictionary_page_offset or column.data_page_offset)
            file.write(b"\xff" * column.total_compressed_size)


@pytest.mark.parametrize("reader_bytes", [0, 2**30])
def test_a_damaged_row_group_is_named(
    reader_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "READER_BYTES", reader_bytes)
    path = tmp_path / "X.parquet"
    write_parquet(path)
    damage_row_group(path, 3)
    rows = open_vectors(path).X
    assert_array_equal(rows[:21], X[:21])
    message = r"X.parquet: row group 4 of 8 \(rows 22 to 28\) is not a parquet file or is damaged"
    with pytest.raises(InvalidInputError, match=message):
        rows[20:30]


def test_missing_values_are_located(tmp_path: Path) -> None:
    values = [1.0] * 9 + [None]
    pq.write_table(pa.table({"a": values}), tmp_path / "X.parquet", row_group_size=4)
    with pytest.raises(
        InvalidInputError, match=r"'a' has missing values in row group 3 of 3 \(rows 9"
    ):
        read_vectors(tmp_path / "X.parquet")
