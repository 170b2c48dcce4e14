"""Files of vectors that are damaged, forged, foreign or oddly encoded.

A file is refused with a sentence, or it is a table of numbers that all ways of reading agree on.
"""

from __future__ import annotations

import functools
import gzip
import io
import os
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from lincode.exceptions import InvalidInputError
from lincode.vectors import open_vectors, read_vectors, write_vectors
from tests.fuzz.cases import fuzz, note_refusal
from tests.fuzz.damage import ByteChange, apply_changes, byte_changes
from tests.fuzz.scratch import scratch_folder

LIMIT = 10_000_000
"""The expansion of files is limited to this number of bytes."""
X = np.random.default_rng(0).standard_normal((7, 3)).round(3)


def folder() -> Path:
    return scratch_folder("vectors")


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def sparse_npz(matrix: Any) -> bytes:
    buffer = io.BytesIO()
    scipy.sparse.save_npz(buffer, matrix)
    return buffer.getvalue()


def parquet(table: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


def written(suffix: str, **options: Any) -> bytes:
    path = folder() / f"written.{suffix}"
    write_vectors(path, [X], names=["a", "b", "größe"], **options)
    return path.read_bytes()


VALID: dict[str, tuple[str, Callable[[], bytes]]] = {
    "npy": ("npy", lambda: npy(X)),
    "npy, Fortran": ("npy", lambda: npy(np.asfortranarray(X.astype(np.float32)))),
    "npy, integers": ("npy", lambda: npy(np.arange(12, dtype=">i2").reshape(4, 3))),
    "npz": ("npz", lambda: npz(X=X)),
    "npz, several": ("npz", lambda: npz(X=X, y=np.arange(7))),
    "npz, csr": ("npz", lambda: sparse_npz(scipy.sparse.csr_matrix(X * (X > 0)))),
    "npz, csc": ("npz", lambda: sparse_npz(scipy.sparse.csc_array(X * (X > 0)))),
    "npz, coo": ("npz", lambda: sparse_npz(scipy.sparse.coo_matrix(X))),
    "npz, bsr": ("npz", lambda: sparse_npz(scipy.sparse.bsr_matrix(X))),
    "npz, dia": ("npz", lambda: sparse_npz(scipy.sparse.dia_matrix(np.eye(4)))),
    "csv": ("csv", lambda: written("csv")),
    "tsv": ("tsv", lambda: written("tsv")),
    "csv.gz": ("csv.gz", lambda: written("csv.gz")),
    "parquet": ("parquet", lambda: written("parquet")),
    "parquet, groups": (
        "parquet",
        lambda: parquet(pa.table({"a": X[:, 0], "b": X[:, 1]}), row_group_size=2),
    ),
}


@functools.cache
def valid(kind: str) -> bytes:
    return VALID[kind][1]()


def check_file(data: bytes, suffix: str, **options: Any) -> None:
    """Read a file in every way."""
    path = folder() / f"X.{suffix}"
    path.write_bytes(data)
    whole = outcome(lambda: read_vectors(path, max_bytes=LIMIT, **options).X)
    parts = outcome(lambda: in_parts(path, options))
    if whole is None:
        note_refusal(InvalidInputError())
        assert parts is None
        return
    dense = whole.toarray() if scipy.sparse.issparse(whole) else np.asarray(whole)
    assert dense.ndim == 2
    assert dense.size
    assert dense.dtype.kind in "buif"
    if parts is not None:  # only this way of reading refuses NaN and infinity
        assert np.isfinite(dense).all()
        np.testing.assert_array_equal(parts, dense)
    else:
        assert not np.isfinite(dense).all()
    del whole, dense
    assert os.listdir(folder()).count(path.name) == 1


def in_parts(path: Path, options: Any) -> Any:
    blocks = list(open_vectors(path, max_bytes=LIMIT, **options).blocks())
    dense = [block.toarray() if scipy.sparse.issparse(block) else block for block in blocks]
    if not dense:
        raise InvalidInputError(f"{path} has column names but no rows of numbers.")
    return np.concatenate(dense)


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result, or None if the file is refused with a sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*was read as (the names of the columns|a vector)")
        warnings.filterwarnings("ignore", ".*it was created on Python 2")
        try:
            return call()
        except InvalidInputError as error:
            text = str(error)
    assert len(text.split()) >= 4, text
    assert len(text) < 3000
    return None


@given(st.sampled_from(sorted(VALID)), byte_changes())
@fuzz(300, part=4)
def test_damaged_files(kind: str, changes: list[ByteChange]) -> None:
    check_file(apply_changes(valid(kind), changes), VALID[kind][0])


@given(st.sampled_from(sorted(VALID)), st.sampled_from(sorted(VALID)))
@fuzz(60, part=0.1)
def test_files_of_another_format(kind: str, other: str) -> None:
    check_file(valid(kind), VALID[other][0])


# --- npy -------------------------------------------------------------------------------------

DESCRIPTIONS: tuple[Any, ...] = (
    *("<f8", "<f4", ">f8", "<i8", "|b1", "|u1", "<f2", "<f16", "<c16", "|O", "<U3", "|S8", "|V8"),
    *("<M8[s]", "", "f", "float64", "<f0", "|V0", "<x8", "<f8,<f8", "object", "\x1b[31m", "í"),
)
OTHER_DESCRIPTIONS: tuple[Any, ...] = (
    *(None, 1, [], [("a", "<f8")], [("a", "<f8", 3)], [["a"]], {"names": ["a"]}, ("<f8", (2,))),
    *("<f8" * 3000, float("inf"), {"a": 1}, ()),
)
SIZES = (0, 1, 2, 3, 7, 21, -1, 2**31, 2**40, 2**62, 2**63, 10**30, True, 1.5, "3", None)
HEADERS = (
    *("{", "", "(" * 100, "{'descr': '<f8'", "[" * 2000, "{'a':", "1", "None", "'''", "\\", "é"),
    *("{'descr': '<f8', 'fortran_order': False, 'shape': (7, 3), 'more': 1}", "{'shape': (7, 3)}"),
    *("{'descr': '<f8', 'fortran_order': 2, 'shape': (7, 3)}", "{**a}", "f()", "-" * 5000 + "1"),
    *("{'descr': '<f8', 'fortran_order': False, 'shape': 7}", "{1: 2, '", "0x", "1e999", '"\n"'),
    *("{'descr': '<f8', 'fortran_order': False, 'shape': (7L, 3L)}", "\0", "lambda: 0", "{'a' 1}"),
)


def npy_with(header: str, body: bytes, version: int = 1) -> bytes:
    text = header.encode("utf-8")
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + body


@st.composite
def npy_headers(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        return draw(st.sampled_from(HEADERS))
    shape = tuple(draw(st.lists(st.sampled_from(SIZES), min_size=0, max_size=3)))
    header = {
        "descr": draw(st.sampled_from(DESCRIPTIONS + OTHER_DESCRIPTIONS)),
        "fortran_order": draw(st.sampled_from([True, False, 1, "no"])),
        "shape": draw(st.sampled_from([shape, list(shape), (7, 3), (7, 3), 21])),
    }
    return repr(header) + "\n"


@given(npy_headers(), st.sampled_from([0, 7 * 3 * 8, 7 * 3 * 4]), st.integers(1, 3), st.booleans())
@fuzz(200, part=3)
def test_npy_headers(header: str, n_bytes: int, version: int, compressed: bool) -> None:
    data = npy_with(header, X.tobytes()[:n_bytes], version)
    if compressed:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("X.npy", data)
        data = buffer.getvalue()
    check_file(data, "npz" if compressed else "npy")


# --- npz -------------------------------------------------------------------------------------

MEMBERS: dict[str, Callable[[], bytes]] = {
    "X": lambda: npy(X),
    "zeros": lambda: npy(np.zeros((10_000, 300))),
    "text": lambda: b"This is not an array.",
    "nothing": lambda: b"",
    "vector": lambda: npy(np.arange(5.0)),
    "indices": lambda: npy(np.array([0, 1, 2, 0])),
    "bad indices": lambda: npy(np.array([0, 10**12, -5, 2])),
    "indptr": lambda: npy(np.array([0, 2, 4])),
    "shape": lambda: npy(np.array([2, 3])),
    "huge shape": lambda: npy(np.array([2_000_000_000, 3])),
    "wide shape": lambda: npy(np.array([2, 2**62])),
    "negative shape": lambda: npy(np.array([-2, 3])),
    "float shape": lambda: npy(np.array([2.5, 3.0])),
    "csr": lambda: npy(np.array(b"csr")),
    "csc": lambda: npy(np.array(b"csc")),
    "coo": lambda: npy(np.array(b"coo")),
    "dia": lambda: npy(np.array(b"dia")),
    "unknown format": lambda: npy(np.array(b"\x1b[31m")),
    "format in Unicode": lambda: npy(np.array("csr")),
    "data": lambda: npy(np.arange(4.0)),
    "complex": lambda: npy(np.arange(4) + 1j),
    "words": lambda: npy(np.array([["a", "b"]])),
    "header": lambda: npy_with(
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2**40)}", b""
    ),
}
NAMES = (
    *("X", "y", "data", "indices", "indptr", "shape", "format", "row", "col", "offsets"),
    *("_is_array", "../X", "", "ñ"),
)


@st.composite
def archives(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Return the names and contents of the members of an archive."""
    if draw(st.booleans()):
        names, contents = st.sampled_from(NAMES), st.sampled_from(sorted(MEMBERS))
        return draw(st.lists(st.tuples(names, contents), max_size=5))
    usual = dict(data="data", indices="indices", indptr="indptr", shape="shape", format="csr")
    for _ in range(draw(st.integers(0, 2))):
        usual[draw(st.sampled_from(NAMES))] = draw(st.sampled_from(sorted(MEMBERS)))
    return sorted(usual.items())


@given(
    archives(), st.sampled_from([".npy", ".npy", ".txt"]), st.sampled_from([None, None, "X", "y"])
)
@fuzz(200, part=3)
def test_npz_archives(members: list[tuple[str, str]], suffix: str, key: str | None) -> None:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two members with the same name
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members:
                archive.writestr(name + suffix, MEMBERS[content]())
    check_file(buffer.getvalue(), "npz", key=key)


# --- Text ------------------------------------------------------------------------------------

CELLS = (
    *(
        "1",
        "2.5",
        "-3e4",
        "1e400",
        "nan",
        "inf",
        "-inf",
        "",
        " ",
        "a",
        "b",
        "1 ",
        " 2",
        "0x1",
        "1_0",
    ),
    *('"1"', '"a', '""', "ñ", "\ufeff1", "\0", "1;2", "1,5", "٣", "1e", "+", "9" * 400),
    *("\x1b[31m", "true", "None", "'", "\\", "#", "0", "1.0000000000000000000001"),
)
ENDS = ("\n", "\n", "\n", "\r\n", "\r", "\n\n", "", "\x0b", "\u2028")
ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "utf-32")


@st.composite
def tables(draw: st.DrawFn) -> str:
    """Rows of cells, mostly of equal length and with numbers."""
    delimiter = draw(st.sampled_from([",", ",", ",", "\t", ";", " "]))
    end = draw(st.sampled_from(ENDS))
    n, p = draw(st.integers(0, 5)), draw(st.integers(1, 4))
    numbers = st.sampled_from(["1", "2.5", "-3e4", "0"])
    cell = st.one_of(numbers, numbers, numbers, st.sampled_from(CELLS))
    if draw(st.booleans()):
        cell = numbers
    rows = [[draw(cell) for _ in range(p)] for _ in range(n)]
    if draw(st.booleans()):
        rows.insert(0, [draw(st.sampled_from(["a", "b", "c", "größe", "1", "", "a\nb"]))] * p)
    if rows and draw(st.integers(0, 4)) == 0:
        rows[draw(st.integers(0, len(rows) - 1))].append(draw(cell))
    return end.join(delimiter.join(row) for row in rows) + draw(st.sampled_from(["", end]))


@given(tables(), st.sampled_from(ENCODINGS), st.sampled_from(["csv", "tsv", "csv.gz"]))
@fuzz(200, part=3)
def test_text(table: str, encoding: str, suffix: str) -> None:
    data = table.encode(encoding, "replace")
    check_file(gzip.compress(data, 1) if suffix.endswith("gz") else data, suffix)


# --- parquet ---------------------------------------------------------------------------------

COLUMNS: dict[str, Callable[[], Any]] = {
    "floats": lambda: pa.array(X[:, 0]),
    "float32": lambda: pa.array(X[:, 0].astype(np.float32)),
    "float16": lambda: pa.array(X[:, 0].astype(np.float16)),
    "integers": lambda: pa.array(range(7)),
    "unsigned": lambda: pa.array([2**64 - 1] * 7, pa.uint64()),
    "nan": lambda: pa.array([np.nan] * 7),
    "nulls": lambda: pa.array([1.0, None, 2.0, None, 3.0, 4.0, 5.0]),
    "all null": lambda: pa.nulls(7),
    "null floats": lambda: pa.nulls(7, pa.float64()),
    "text": lambda: pa.array(list("abcdefg")),
    "dictionary": lambda: pa.array(list("abcabca")).dictionary_encode(),
    "number dictionary": lambda: pa.array([1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0]).dictionary_encode(),
    "bool": lambda: pa.array([True] * 7),
    "date": lambda: pa.array([1] * 7, pa.date32()),
    "decimal": lambda: pa.array([1] * 7, pa.decimal128(5, 2)),
    "list": lambda: pa.array([[1.0]] * 7),
    "struct": lambda: pa.array([{"a": 1.0}] * 7),
    "binary": lambda: pa.array([b"\xff"] * 7),
}
METADATA = (
    *(b"", b"{", b"[]", b"null", b"1", b'"a"', b"{}", b'{"index_columns": 1}', b"\xff\xfe"),
    *(b'{"index_columns": [{}]}', b'{"index_columns": ["a"]}', b'{"index_columns": "a"}'),
    *(b'{"index_columns": [["a"]]}', b"[" * 100_000, b'{"index_columns": null}'),
)


COLUMN_NAMES = ("a", "b", "c", "a.b", "", "\x1b[31m")


@given(
    st.lists(
        st.tuples(st.sampled_from(COLUMN_NAMES), st.sampled_from(sorted(COLUMNS))), max_size=4
    ),
    st.sampled_from([None, None, None, *METADATA]),
    st.sampled_from(["snappy", "none", "gzip", "zstd"]),
    st.sampled_from([0, 3, 7]),
)
@fuzz(120, part=2)
def test_parquet_tables(
    columns: list[tuple[str, str]], metadata: bytes | None, compression: str, n_rows: int
) -> None:
    arrays = [COLUMNS[kind]()[:n_rows] for _, kind in columns]
    table = pa.table(arrays, names=[name for name, _ in columns])
    if metadata is not None:
        table = table.replace_schema_metadata({b"pandas": metadata})
    check_file(parquet(table, compression=compression), "parquet")
