"""``lincode fit``, ``encode`` and ``decode`` with files that are read in parts."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from lincode import SCNN, MiniBatchSCNN
from lincode.cli import commands, main
from lincode.model_file import load, save
from lincode.vectors import read_vectors
from tests.test_vector_streams import damage_row_group

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 6)) @ RNG.standard_normal((6, 6))
NAMES = [f"x{j}" for j in range(6)]
FIT = "-m 8 --alpha 0.2 --tol 1e-2 -o model -q"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with X in every format, in text and parquet with a label."""
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    table = pa.table({"label": ["a", "b"] * 150, **dict(zip(NAMES, X.T.copy(), strict=True))})
    pq.write_table(table, "X.parquet", row_group_size=40)
    Path("parts").mkdir()
    pq.write_table(table[:170], "parts/1.parquet", row_group_size=40)
    pq.write_table(table[170:], "parts/2.parquet", row_group_size=40)
    frame = pd.DataFrame(table.to_pydict())
    frame.to_csv("X.csv", index=False)
    frame.to_csv("X.csv.gz", index=False)
    frame.to_csv("X.tsv", index=False, sep="\t")
    return tmp_path


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat small files as large ones."""
    monkeypatch.setattr(commands, "SMALL_BYTES", 0)


def run(line: str) -> int:
    return main(line.split())


def use_stdin(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    data = Path(path).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def without_names(model: Any) -> Any:
    """Remove the names of the features, because the arrays of these tests have none."""
    vars(model).pop("feature_names_in_", None)
    return model


SOURCES = ["X.parquet", "parts", "X.csv", "X.csv.gz", "X.tsv", "-"]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("minibatch", [False, True])
def test_all_sources_give_the_same_model(
    source: str, minibatch: bool, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source == "-":
        use_stdin(monkeypatch, "X.csv")
    option = "--minibatch --batch-size 100" if minibatch else ""
    assert run(f"fit {source} --exclude label {option} {FIT}") == 0
    cls = MiniBatchSCNN if minibatch else SCNN
    expected = cls(8, 0.2, tol=1e-2, random_state=0)
    if minibatch:
        expected.set_params(batch_size=100)
    expected.fit(X)
    model = load("model")
    assert_allclose(model.components_, expected.components_, atol=1e-12)
    assert list(model.feature_names_in_) == NAMES
    assert sorted(p.name for p in here.iterdir() if p.name.startswith(".")) == []


@pytest.mark.parametrize("source", [*SOURCES, "X.npy"])
def test_large_files_are_streamed(
    source: str, here: Path, streamed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source == "-":
        use_stdin(monkeypatch, "X.csv")
    fit, given = MiniBatchSCNN.fit, list[Any]()

    def record(self: Any, X: Any) -> Any:
        given.append(X)
        return fit(self, X)

    monkeypatch.setattr(MiniBatchSCNN, "fit", record)
    exclude = "" if source == "X.npy" else "--exclude label"
    assert run(f"fit {source} {exclude} --batch-size 100 {FIT}") == 0
    assert not isinstance(given[0], np.ndarray)
    expected = MiniBatchSCNN(8, 0.2, tol=1e-2, batch_size=100, random_state=0).fit(X)
    assert -without_names(load("model")).score(X) < 1.05 * -expected.score(X)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("output", ["codes.npy", "codes.npz", "codes.csv.gz", "codes.parquet"])
def test_encode_keeps_the_order_of_rows(
    source: str, output: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lincode.vectors.parquet.BLOCK_ENTRIES", 60)
    monkeypatch.setattr("lincode.vectors.text.BLOCK_BYTES", 2000)
    model = SCNN(8, 0.2, tol=1e-2, random_state=0).fit(X)
    save(model, "model")
    if source == "-":
        use_stdin(monkeypatch, "X.csv")
    assert run(f"encode model {source} --exclude 1 -o {output} -q") == 0
    codes = read_vectors(output).X
    codes = codes.toarray() if scipy.sparse.issparse(codes) else codes
    assert_allclose(codes, model.transform(X), atol=1e-12)
    assert run(f"decode model {output} -o decoded.tsv -q") == 0
    assert_allclose(read_vectors("decoded.tsv").X, model.reconstruct(X), atol=1e-12)


def test_columns_are_chosen_by_name_or_position(here: Path) -> None:
    assert run(f"fit X.csv --columns x3,2,x5 {FIT}") == 0
    assert list(load("model").feature_names_in_) == ["x3", "x0", "x5"]
    assert run("encode model X.parquet --columns x3,x0,x5 -o codes.npy -q") == 0
    model = without_names(load("model"))
    assert_allclose(np.load("codes.npy"), model.transform(X[:, [3, 0, 5]]), atol=1e-12)
    assert run(f"fit X.npy --exclude 1,6 {FIT}") == 0
    expected = SCNN(8, 0.2, tol=1e-2, random_state=0).fit(X[:, 1:5])
    assert_array_equal(load("model").components_, expected.components_)


@pytest.mark.parametrize(
    ("header", "line", "option"),
    [
        ("a,b,label", "fit X.csv -o m", "--exclude label"),
        ("a,b,label", "fit X.csv --exclude a -o m", "--exclude a,label"),
        ("a,b,label", "fit X.csv --columns b,label -o m", "--exclude label"),
        ("a,b,the label", "fit X.csv -o m", "--exclude 'the label'"),
        ('a,b,"x,y"', "fit X.csv -o m", "--exclude '\"x,y\"'"),
        ("a,b,-label", "fit X.csv -o m", "--exclude=-label"),
        ("a,b, label", "fit X.csv -o m", "--exclude 3"),
        ("a,b,", "fit X.csv -o m", "--exclude 3"),
        ("a,b,", "fit X.csv --exclude a -o m", "--exclude a,3"),
        ("5,6,7", "fit X.csv -o m", "--exclude 3"),
        ("a,b,label", "fit X.parquet -o m", "--exclude label"),
    ],
)
def test_the_option_that_excludes_a_column_of_text_is_printed(
    header: str,
    line: str,
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("X.csv").write_text(f"{header}\n1,2,x\n3,5,y\n")
    table = {"a": [1.0, 3.0], "b": [2.0, 5.0], "label": ["x", "y"]}
    pq.write_table(pa.table(table), "X.parquet")
    assert run(line) == 2
    error = capsys.readouterr().err
    assert error.endswith(f" or exclude the column with {option}.\n")
    start, _, rest = line.partition(" --exclude a")
    assert main(shlex.split(f"{start}{rest} {option} -m 2 -q")) == 0


def test_messages_of_encode_and_decode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("X.csv").write_text("a,b\n1,2\n3,5\n4,1\n")
    assert run("fit X.csv -m 2 -q -o m") == 0
    Path("text.csv").write_text("a,b\n1,x\n")
    Path("empty.csv").write_text("a,b\n")
    capsys.readouterr()
    # A column of the model cannot be excluded.
    assert run("encode m text.csv -o codes.csv") == 2
    assert capsys.readouterr().err.endswith(" must be a number, got 'x'; correct it.\n")
    for line in ("encode m empty.csv", "decode m empty.csv"):
        assert run(f"{line} -o out.csv") == 2
        assert capsys.readouterr().err == "lincode: empty.csv has no rows of numbers.\n"
    assert not Path("out.csv").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "fit X.csv -o m",
            "X.csv: row 1 (without the header), column 1 ('label') must be a number",
        ),
        ("fit X.parquet -o m", "'label' must contain numbers, got"),
        ("fit X.csv --columns x9 -o m", "has no column 'x9'; use a name or a position between 1"),
        ("encode model X.csv -o c.npy", "must have 6 columns for this model, got 7; choose them"),
        ("fit empty -o m", "expected a file of vectors or a folder of parquet files"),
        ("fit damaged --exclude label -o m", "damaged/2.parquet: row group 2 of 4 (rows 41 to 80)"),
        ("fit damaged --exclude label --minibatch -o m", "row group 2 of 4 (rows 41 to 80)"),
        ("encode model damaged --exclude 1 -o c.npz", "2.parquet: row group 2 of 4"),
        ("fit X.npy --no-minibatch --batch-size 9 -o m", "--batch-size requires --minibatch"),
        ("fit short.csv.gz --exclude label -o m", "is not a gzip file or is truncated"),
        ("fit nan.csv -o m", "row 2 (without the header), column 1 ('a') must be a finite number"),
    ],
)
def test_bad_input_leaves_no_file(
    line: str, message: str, here: Path, streamed: None, capsys: pytest.CaptureFixture[str]
) -> None:
    save(SCNN(8, 0.2, tol=1e-2, random_state=0).fit(X), "model")
    Path("empty").mkdir()
    Path("parts").rename("damaged")
    damage_row_group(Path("damaged/2.parquet"), 1)
    Path("short.csv.gz").write_bytes(Path("X.csv.gz").read_bytes()[:-30])
    Path("nan.csv").write_text("a,b\n1,2\nnan,3\n")
    before = sorted(here.rglob("*"))
    assert run(line) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert sorted(here.rglob("*")) == before


def test_large_data_are_learned_in_batches(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "memory_limit", lambda: 30_000.0)
    assert run("fit X.npy -m 8 -o model") == 0
    err = capsys.readouterr().err
    assert "X.npy has 300 vectors with 6 columns. SCNN would need about 0.0 GB of memory" in err
    assert "so MiniBatchSCNN learns from batches. Use --no-minibatch for SCNN." in err
    assert isinstance(load("model"), MiniBatchSCNN)
    assert run("fit X.npy -m 8 --no-minibatch -o model") == 0
    assert isinstance(load("model"), SCNN)
    assert run("fit X.npy -m 8 -q -o model") == 0
    assert isinstance(load("model"), MiniBatchSCNN)
    monkeypatch.setattr(commands, "memory_limit", lambda: 1e9)
    assert run("fit X.npy -m 8 -q -o model") == 0
    assert isinstance(load("model"), SCNN)


def test_memory_limit_is_at_most_four_gigabytes() -> None:
    assert 0 < commands.memory_limit() <= 4e9


def test_encode_can_change_signs_and_algorithm(here: Path) -> None:
    model: Any = SCNN(8, 0.2, tol=1e-2, random_state=0).fit(X)
    save(model, "model")
    assert run("encode model X.npy --split-sign --algorithm lasso -o codes.npz -q") == 0
    model.set_params(split_sign=True, transform_algorithm="lasso")
    codes = scipy.sparse.load_npz("codes.npz")
    assert_allclose(codes.toarray(), model.transform(X), atol=1e-12)
    assert run("decode model codes.npz --split-sign --algorithm lasso -o Y.npy -q") == 0
    assert_allclose(np.load("Y.npy"), model.inverse_transform(codes), atol=1e-12)
    assert run("encode model X.npy --positive-code --algorithm exact -o codes.npy -q") == 0
    assert (np.load("codes.npy") >= 0).all()


MEASURE = """
import sys
from lincode.cli import main
assert main(sys.argv[1:]) == 0
status = open("/proc/self/status").read().splitlines()
print([int(line.split()[1]) for line in status if line.startswith("VmHWM")][0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="VmHWM is a feature of Linux")
def test_memory_of_the_process_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peaks = []
    for n in (150_000, 450_000):  # 300 MB and 900 MB of float64
        with open(tmp_path / "X.npy", "wb") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (n, 256)}
            np.lib.format.write_array_header_1_0(file, header)
            for seed in range(n // 50_000):
                rng = np.random.default_rng(seed)
                file.write(rng.standard_normal((50_000, 256)).tobytes())
        command = ["fit", "X.npy", "-m", "32", "--minibatch", "--max-iter", "3", "-q", "-o", "m"]
        run = subprocess.run(
            [sys.executable, "-c", MEASURE, *command],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
        )
        peaks.append(int(run.stdout))
    assert peaks[1] < peaks[0] + 60_000  # kB
    assert peaks[1] < 1_000_000
