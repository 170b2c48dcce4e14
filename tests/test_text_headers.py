"""Whether the first row of a text file contains the names of the columns."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from lincode import load
from lincode.cli import main
from lincode.exceptions import InvalidInputError
from lincode.vectors import open_vectors, read_vectors

AS_NAMES, AS_VECTOR = "was read as the names of the columns", "was read as a vector"


@pytest.mark.parametrize("first", [0, 1])
def test_a_first_row_that_counts_columns_is_a_header(first: int, tmp_path: Path) -> None:
    path = tmp_path / "X.csv"
    names = [str(k + first) for k in range(3)]
    path.write_text(",".join(names) + "\n1.5,2.5,3.5\n4,5,6\n")
    with pytest.warns(UserWarning, match="as the names of the columns and not as") as caught:
        vectors = read_vectors(path)
    assert caught[0].filename == __file__
    assert vectors.names == names
    assert vectors.X.shape == (2, 3)


@pytest.mark.parametrize(
    "rows",
    [
        "0,2,1\n0,1,3\n",
        "400,402\n300,300\n",
        "1,2,3.5\n",  # no second row
        "1,2,3.5\n2,3,4\n",
        "nan,402,404\n0.1,0.2,0.3\n",
    ],
)
def test_a_first_row_of_other_numbers_is_a_vector(rows: str, tmp_path: Path) -> None:
    path = tmp_path / "X.csv"
    path.write_text(rows)
    assert len(read_vectors(path).X) == rows.count("\n")


@pytest.mark.parametrize(
    ("rows", "exclude", "names"),
    [
        ("id,400,402\ns1,0.1,0.2\n", "1", ["400", "402"]),  # text above text
        ("id,402,400\ns1,-0.1,0.2\n", "1", ["402", "400"]),
        ("label,0,2\n3,0.1,0.2\n", "1", ["0", "2"]),  # text above a number
        (",400.0,402.0\n0,0.1,0.2\n", "1", ["400.0", "402.0"]),  # pandas with an index
        (",400.0,402.0\ns1,0.1,500\n", "1", ["400.0", "402.0"]),
        ("5,x,7\n3,4,5\n", "1", ["x", "7"]),
    ],
)
def test_headers_that_contain_numbers(
    rows: str, exclude: str, names: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "X.csv"
    path.write_text(rows)
    with pytest.warns(UserWarning, match=AS_NAMES + ".*--header no"):
        vectors = read_vectors(path, exclude=[exclude])
    assert vectors.names == names
    assert vectors.X.shape == (1, 2)


def test_a_column_that_is_chosen_by_its_name_is_in_the_header(tmp_path: Path) -> None:
    path = tmp_path / "X.csv"
    path.write_text("3,4,animal\n1,2,cat\n")
    assert read_vectors(path, exclude=["animal"]).names == ["3", "4"]


def test_the_index_column_of_pandas_has_no_name(tmp_path: Path) -> None:
    path = tmp_path / "X.csv"
    pd.DataFrame([[0.1, 0.2]], columns=[400.0, 402.0]).to_csv(path)
    with pytest.raises(InvalidInputError, match=r"column 1 has no name; .* index=False\)"):
        read_vectors(path)


@pytest.mark.parametrize(
    "rows",
    [
        "1,2,cat\n3,4,dog\n",
        "cat,1,2\ndog,3,4\n",
        "5,6,cat\n1,2,cat\n",
        "400,500,1,cat\n0.1,0.2,0.3,dog\n",
        "400,402,cat\n",
    ],
)
def test_numbers_above_numbers_and_text_above_text_are_vectors(rows: str, tmp_path: Path) -> None:
    path = tmp_path / "X.csv"
    path.write_text(rows)
    n_columns = rows.split("\n")[0].count(",") + 1
    vectors = read_vectors(path, exclude=["1" if rows.startswith("cat") else str(n_columns)])
    assert vectors.names is None
    assert len(vectors.X) == rows.count("\n")


@pytest.mark.parametrize(
    "rows",
    [
        "400,402,404\n0.1,0.2,0.3\n",
        "404,402,400\n0.1,0.2,0.3\n",
        "400,402\n0.1,0.2\n",
        "-3,-2,-1\n0.1,0.2,0.3\n",
        "400,402,404,x\n90,95,40,y\n",
    ],
)
def test_a_vector_that_looks_like_names_causes_a_warning(rows: str, tmp_path: Path) -> None:
    path = tmp_path / "X.csv"
    path.write_text(rows)
    exclude = ["4"] if "x" in rows else None
    with pytest.warns(UserWarning, match=AS_VECTOR + ".*--header yes"):
        assert len(read_vectors(path, exclude=exclude).X) == 2
    named = read_vectors(path, exclude=exclude, header="yes")  # without a warning
    assert named.names == rows.split("\n")[0].removesuffix(",x").split(",")
    assert len(named.X) == 1
    assert len(read_vectors(path, exclude=exclude, header="no").X) == 2


def test_header_is_one_of_three_words_and_for_text_only(tmp_path: Path) -> None:
    (tmp_path / "X.csv").write_text("0,1,2\n4,5,6\n")
    assert read_vectors(tmp_path / "X.csv", header="no").X.shape == (2, 3)
    with pytest.raises(InvalidInputError, match="header must be one of 'auto', 'yes', 'no', got"):
        open_vectors(tmp_path / "X.csv", header="none")
    np.save(tmp_path / "X.npy", np.eye(2))
    with pytest.raises(InvalidInputError, match=r"X\.npy is a npy file; leave header out"):
        open_vectors(tmp_path / "X.npy", header="yes")


@pytest.mark.parametrize(
    ("header", "message"),
    [(",a,b", "column 1 has no name; write the file without"), ("a,b,a", "two columns named 'a'")],
)
def test_missing_and_repeated_column_names_are_refused(
    header: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "X.csv"
    path.write_text(f"{header}\n1,2,3\n")
    with pytest.raises(InvalidInputError, match=message):
        read_vectors(path)


@pytest.mark.parametrize(
    ("data", "names", "note"),
    [
        (b"id,400,402\n\ns1,0.1,0.2\n", ["400", "402"], AS_NAMES),
        (b"id\t400\t402\ns1\t0.1\t0.2\n", ["400", "402"], AS_NAMES),
        (b"s0,400,402\ns1,399,401\n", None, ""),
        (b"s0,400,402", None, ""),
    ],
)
def test_headers_of_standard_input(
    data: bytes, names: list[str] | None, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    if note:
        with pytest.warns(UserWarning, match=f"standard input: .*{note}"):
            vectors = open_vectors("-", exclude=["1"])
    else:
        vectors = open_vectors("-", exclude=["1"])
    assert vectors.names == names
    expected = [[400.0, 402.0]] if names is None else []
    expected += [[0.1, 0.2]] if b"0.1" in data else [[399, 401]] if b"399" in data else []
    assert_array_equal(np.vstack(list(vectors.blocks())), expected)


@pytest.mark.parametrize("line", [b"a,b,c\n", b"3,1,2\n", b"0,1,2\n", b"x,5,6\n"])
def test_standard_input_is_not_waited_for_if_the_first_row_decides(
    line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.write(writing, line)  # the pipe stays open, so that reading another line would not return
    with open(reading, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        if line.startswith(b"0"):
            with pytest.warns(UserWarning, match=AS_NAMES):
                open_vectors("-")
        else:
            open_vectors("-", columns=["x"] if line.startswith(b"x") else None)
        os.close(writing)


def test_header_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).random((20, 3))
    pd.DataFrame(rows, columns=[400.0, 402.0, 404.0]).to_csv("X.csv", index=False)
    fit = ["fit", "X.csv", "-m", "2", "--tol", "0.1", "-q", "-o", "model"]
    assert main(fit) == 0
    assert f"lincode: warning: X.csv: the first row, 400.0,402.0,404.0, {AS_VECTOR}" in (
        capsys.readouterr().err
    )
    assert main([*fit, "--header", "yes"]) == 0
    assert AS_VECTOR not in capsys.readouterr().err
    assert list(load("model").feature_names_in_) == ["400.0", "402.0", "404.0"]
    assert main(["encode", "model", "X.csv", "--header", "yes", "-q", "-o", "codes.csv"]) == 0
    assert read_vectors("codes.csv").X.shape == (20, 2)
    assert main(["decode", "model", "codes.csv", "--header", "no", "-o", "decoded.csv"]) == 2
    assert "use --header yes if the first row contains names" in capsys.readouterr().err
