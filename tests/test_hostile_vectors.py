"""Files of vectors that are forged, or that expand to much more than their size."""

from __future__ import annotations

import gzip
import io
import os
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from lincode.cli import main
from lincode.exceptions import InvalidInputError
from lincode.vectors import limits, open_vectors, read_vectors, text
from lincode.vectors.columns import select_columns
from lincode.vectors.limits import parse_size

LIMIT = "If you trust the file, raise the limit"


def npy_with(header: str) -> bytes:
    text = header.encode()
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + np.eye(3).tobytes()


HEADERS = {
    "TokenError": "{'descr': '<f8', 'shape': (3, 3",
    "OverflowError": f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**70}, 3)}}",
    "no error": f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**61}, 8)}}",
    "TypeError": "{'descr': [1], 'fortran_order': False, 'shape': (3, 3)}",
    "unhashable": "{[]: 1}",
    "nested": "(" * 3000,
    "negative": "{'descr': '<f8', 'fortran_order': False, 'shape': (-3, -3)}",
    "Python objects": "{'descr': '|O', 'fortran_order': False, 'shape': (3, 3)}",
    "no bytes": "{'descr': '|V0', 'fortran_order': False, 'shape': (3, 3)}",
}


@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_damaged_npy_headers(
    header: str, archive: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ("X.npz" if archive else "X.npy")
    path.write_bytes(npy_with(header))
    if archive:
        path.write_bytes(b"")
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("X.npy", npy_with(header))
    for read in (read_vectors, open_vectors):
        with pytest.raises(InvalidInputError, match=r"not an np[yz] file|must contain real"):
            read(path)
    assert main(["fit", str(path), "-o", str(tmp_path / "model")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "model").exists()


def write_zip(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def test_members_that_are_not_arrays(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "X.npz", "w") as file:
        file.writestr("README.txt", "This archive has one array.")
        file.writestr("X.npy", npy(np.eye(3)))
    np.testing.assert_array_equal(read_vectors(tmp_path / "X.npz").X, np.eye(3))
    path = write_zip(tmp_path / "Y.npz", X=b"This is not an array.")
    with pytest.raises(InvalidInputError, match="is not an npz file of numbers or is damaged"):
        read_vectors(path)
    path = write_zip(tmp_path / "Z.npz", X=npy(np.eye(3))[:-8])
    with pytest.raises(InvalidInputError, match="must have 72 bytes, got 64"):
        read_vectors(path)


@pytest.mark.parametrize("indices", [np.array([0.5, 1.5]), np.array([1j, 2j])])
def test_sparse_indices_must_be_integers(indices: Any, tmp_path: Path) -> None:
    parts = {"data": np.ones(2), "indices": indices, "indptr": np.array([0, 1, 2])}
    parts |= {"shape": np.array([2, 3]), "format": np.array(b"csr")}
    path = write_zip(tmp_path / "X.npz", **{name: npy(part) for name, part in parts.items()})
    with pytest.raises(InvalidInputError, match="the indices of a sparse matrix must be integers"):
        read_vectors(path)


@pytest.mark.parametrize(
    "metadata", [b"{", b"[]", b"1", b'{"index_columns": 1}', b"{}", b"\xff", b"[" * 100_000]
)
def test_damaged_metadata_of_pandas(metadata: bytes, tmp_path: Path) -> None:
    table = pa.table({"a": [1.0, 2.0]}).replace_schema_metadata({b"pandas": metadata})
    pq.write_table(table, tmp_path / "X.parquet")
    try:
        X = read_vectors(tmp_path / "X.parquet").X
    except InvalidInputError as error:
        message = str(error)
    else:  # nothing is stored
        assert metadata in (b"[]", b"{}")
        np.testing.assert_array_equal(X, [[1.0], [2.0]])
        return
    assert "the description of the columns that pandas stored is damaged" in message


# --- Files that expand -----------------------------------------------------------------------


def large_npz(path: Path) -> Path:
    np.savez_compressed(path, X=np.zeros((1000, 2000)))
    return path


def large_parquet(path: Path) -> Path:
    pq.write_table(pa.table({"a": np.zeros(2_000_000)}), path, compression="zstd")
    return path


def large_csc(path: Path) -> Path:
    """A sparse matrix of a few entries that states two billion rows."""
    parts = {"data": np.ones(2), "indices": np.array([0, 1]), "indptr": np.array([0, 1, 2])}
    parts |= {"shape": np.array([2_000_000_000, 2]), "format": np.array(b"csc")}
    return write_zip(path, **{name: npy(part) for name, part in parts.items()})


def large_gzip(path: Path) -> Path:
    path.write_bytes(gzip.compress(b"0,0,0\n" * 2_000_000))
    return path


LARGE = {"X.npz": large_npz, "X.parquet": large_parquet, "X.csv.gz": large_gzip}


@pytest.mark.parametrize("name", LARGE)
def test_files_that_expand_too_much_are_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(limits, "ALWAYS_ALLOWED", 10_000_000)
    path, model = LARGE[name](tmp_path / name), str(tmp_path / "model")
    for read in (lambda: read_vectors(path), lambda: list(open_vectors(path).blocks())):
        with pytest.raises(InvalidInputError, match=LIMIT):
            read()
    command = ["fit", str(path), "-o", model, "-m", "2", "--max-iter", "1", "-q"]
    assert main(command) == 2
    assert LIMIT in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    assert read_vectors(path, max_bytes=50_000_000).X.size > 1_000_000
    if name == "X.csv.gz":
        assert main([*command, "--max-size", "50MB"]) == 0


def test_numbers_of_compressed_text_that_need_more_memory_than_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two characters per number are eight bytes per number in memory or in a temporary file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(text, "BLOCK_BYTES", 100_000)
    Path("X.csv.gz").write_bytes(gzip.compress((b"0," * 499 + b"0\n") * 2000))
    with pytest.raises(InvalidInputError, match=LIMIT):
        read_vectors("X.csv.gz", max_bytes=4_000_000)
    assert main(["fit", "X.csv.gz", "-o", "model", "--max-size", "4MB"]) == 2
    assert LIMIT in capsys.readouterr().err
    assert os.listdir() == ["X.csv.gz"]
    vectors = open_vectors("X.csv.gz", max_bytes=4_000_000)
    with vectors.with_slices(str(tmp_path), np.float32) as kept:
        assert kept.X.shape == (2000, 500)
    assert sum(block.size for block in vectors.blocks()) == 1_000_000  # which are not kept
    tracemalloc.start()
    X = read_vectors("X.csv.gz", max_bytes=8_000_000).X
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert X.nbytes == 8_000_000
    assert peak < 1.4 * X.nbytes


def test_a_sparse_matrix_that_states_many_rows_is_refused(tmp_path: Path) -> None:
    path = large_csc(tmp_path / "X.npz")
    assert path.stat().st_size < 2000
    with pytest.raises(InvalidInputError, match=r"but it needs 16\.0 GB.*--max-size"):
        read_vectors(path)


def test_files_that_are_hardly_compressed_are_not_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ALWAYS_ALLOWED", 20_000)
    X = np.random.default_rng(0).standard_normal((1000, 4))
    np.savez(tmp_path / "X.npz", X=X)
    scipy.sparse.save_npz(tmp_path / "S.npz", scipy.sparse.csr_matrix(X))
    pq.write_table(pa.table({"a": X[:, 0]}), tmp_path / "X.parquet")
    (tmp_path / "X.csv.gz").write_bytes(gzip.compress(b"1.5,2.5\n" * 9))
    for name in ("X.npz", "S.npz", "X.parquet", "X.csv.gz"):
        assert read_vectors(tmp_path / name).X.size


@pytest.mark.parametrize(("word", "size"), [("10", 10), ("2 GB", 2 * 10**9), ("3kb", 3000)])
def test_sizes(word: str, size: int) -> None:
    assert parse_size(word) == size


@pytest.mark.parametrize("word", ["", "GB", "-1", "1.5GB", "0", "9" * 40, "1PB"])
def test_invalid_sizes(word: str) -> None:
    with pytest.raises(InvalidInputError, match="a size must be a number of bytes"):
        parse_size(word)


def test_text_with_very_many_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "X.csv").write_text(",".join(["1.5"] * 300_000))
    with pytest.raises(InvalidInputError, match=r"it needs 1\.5 GB.*--max-size"):
        read_vectors(tmp_path / "X.csv")


def test_a_very_long_first_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "X.csv.gz").write_bytes(gzip.compress(b"0" * 20_000_000))
    with pytest.raises(InvalidInputError, match=r"the first lines of .* must be shorter than"):
        read_vectors(tmp_path / "X.csv.gz")


# --- Many columns ----------------------------------------------------------------------------


class CountedName(str):
    """A string that counts how often it is compared."""

    n_compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.n_compared += 1
        return str.__eq__(self, other)


def test_choosing_columns_takes_linear_time() -> None:
    names = [CountedName(f"name {j}") for j in range(5000)]
    CountedName.n_compared = 0
    chosen = select_columns("X.csv", len(names), names, names[::-1], names[:10])
    assert chosen == list(range(4999, 9, -1))
    assert CountedName.n_compared < 50_000


def test_wide_parquet_files(tmp_path: Path) -> None:
    X = np.arange(6000.0).reshape(2, 3000)
    names = [f"x{j}" for j in range(3000)]
    pq.write_table(pa.table(list(X), names=["a", "b"]), tmp_path / "tall.parquet")
    pq.write_table(pa.table([X[:, j] for j in range(3000)], names=names), tmp_path / "X.parquet")
    np.testing.assert_array_equal(read_vectors(tmp_path / "X.parquet").X, X)
