"""The command line: formats, streaming, errors of one line, and kills."""

from __future__ import annotations

import argparse
import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lincode
from lincode.cli import announced_compilation, main

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.dataset")
pytest.importorskip("pyarrow.csv")
pytest.importorskip("pyarrow.parquet")

X: Any = load_digits().data[:500, 8:40] / 16
NAMES = [f"pixel{j}" for j in range(32)]
MEMORY = """
import sys
from lincode.cli import main
assert main(sys.argv[1:]) == 0
status = open("/proc/self/status").read().splitlines()
print([int(line.split()[1]) for line in status if line.startswith("VmHWM")][0])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with X in all formats, and a model that was fitted to them."""
    folder = tmp_path_factory.mktemp("data")
    np.save(folder / "X.npy", X)
    scipy.sparse.save_npz(folder / "X.npz", scipy.sparse.csr_array(X))
    table = pa.table([pa.array(column) for column in X.T.copy()], names=NAMES)
    labelled = table.append_column("label", pa.array(["a"] * len(X)))
    pa.csv.write_csv(labelled, folder / "X.csv")
    (folder / "X.csv.gz").write_bytes(gzip.compress((folder / "X.csv").read_bytes()))
    pa.parquet.write_table(labelled, folder / "X.parquet", row_group_size=70)
    for form in ("csv", "parquet"):
        (folder / form).mkdir()
    pa.csv.write_csv(table.slice(0, 200), folder / "csv" / "a.csv")
    pa.csv.write_csv(table.slice(200), folder / "csv" / "b.csv")
    pa.parquet.write_table(table.slice(0, 200), folder / "parquet" / "a.parquet")
    pa.parquet.write_table(table.slice(200), folder / "parquet" / "b.parquet")
    run("fit", folder / "X.csv", "--exclude", "label", "-m", 8, "-o", folder / "model")
    return folder


def run(*arguments: object, quiet: bool = True) -> None:
    """Run a command that succeeds."""
    assert main([*map(str, arguments), *(["-q"] if quiet else [])]) == 0


def load_model(folder: Path) -> Any:
    """Return the model of the fixture without names, for arrays."""
    model = lincode.load(folder / "model")
    del model.feature_names_in_
    return model


def read(path: Path) -> Any:
    """Return the numbers of a file."""
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".npz":
        return scipy.sparse.load_npz(path).toarray()
    table = pa.csv.read_csv(path) if path.suffix == ".csv" else pa.parquet.read_table(path)
    return np.column_stack([column.to_numpy() for column in table.columns])


@pytest.mark.parametrize("source", ["X.npy", "X.npz", "csv", "parquet"])
def test_fit_is_that_of_the_estimator(
    folder: Path, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with many units, for which the energy is not minimised first."""
    monkeypatch.setattr("lincode.estimators.base.MAX_START_UNITS", 39)
    run("fit", folder / source, "-m", 40, "--density", 0.05, "-o", tmp_path / "model")
    expected = lincode.SCNN(40, density=0.05, random_state=0).fit(X)
    model = lincode.load(tmp_path / "model")
    assert (model.density_, model.n_iter_) == (0.05, 0)
    assert_allclose(model.components_, expected.components_, atol=1e-6)


@pytest.mark.parametrize("source", ["X.npy", "X.npz", "X.csv", "X.csv.gz", "X.parquet", "csv"])
def test_encode_reads_every_format(folder: Path, source: str, tmp_path: Path) -> None:
    """The columns of a table are chosen by the names in the model."""
    run("encode", folder / "model", folder / source, "-o", tmp_path / "U.npy")
    expected = load_model(folder).transform(X)
    assert_allclose(np.load(tmp_path / "U.npy"), expected, atol=1e-12)


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv", "parquet"])
def test_every_format_is_written(folder: Path, suffix: str, tmp_path: Path) -> None:
    codes, back = tmp_path / f"U.{suffix}", tmp_path / f"R.{suffix}"
    run("encode", folder / "model", folder / "X.npy", "-o", codes)
    run("decode", folder / "model", codes, "-o", back)
    model = load_model(folder)
    assert_allclose(read(codes), model.transform(X), atol=1e-12)
    assert_allclose(read(back), model.inverse_transform(model.transform(X)), atol=1e-12)
    if suffix == "parquet":
        assert pa.parquet.read_schema(back).names == NAMES


def test_blocks_are_those_of_the_whole_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load_model(folder).transform(X)
    monkeypatch.setattr("lincode.cli.BLOCK_BYTES", 20_000)
    for source in ("X.npy", "X.npz", "X.parquet", "csv"):
        for suffix in ("npy", "npz", "csv", "parquet"):
            path = tmp_path / f"U.{suffix}"
            run("encode", folder / "model", folder / source, "-o", path)
            assert_allclose(read(path), expected, atol=1e-12)


def test_codes_without_non_zeros_are_written(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.zeros((9, 32)))
    run("encode", folder / "model", tmp_path / "X.npy", "-o", tmp_path / "U.npz")
    assert scipy.sparse.load_npz(tmp_path / "U.npz").nnz == 0


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (["--algorithm", "omp", "--split-sign"], dict(transform_algorithm="omp", split_sign=True)),
        (
            ["--algorithm", "lasso", "--transform-alpha", 0.2, "--n-jobs", 1],
            dict(transform_algorithm="lasso", transform_alpha=0.2, n_jobs=1),
        ),
    ],
)
def test_options_change_the_codes(
    folder: Path, tmp_path: Path, options: list[object], parameters: dict[str, Any]
) -> None:
    run("encode", folder / "model", folder / "X.npy", *options, "-o", tmp_path / "U.npy")
    expected = load_model(folder).set_params(**parameters)
    assert_allclose(np.load(tmp_path / "U.npy"), expected.transform(X), atol=1e-12)
    split = ["--split-sign"] if expected.split_sign else []
    run("decode", folder / "model", tmp_path / "U.npy", *split, "-o", tmp_path / "R.npy")
    assert_allclose(np.load(tmp_path / "R.npy"), expected.reconstruct(X), atol=1e-12)


def test_columns_dtype_and_files_without_header(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "X.csv", X[:, :3], delimiter=",")
    options = ("--no-header", "--columns", "f2,f0", "--dtype", "float32", "-m", 2, "--density", 1)
    run("fit", tmp_path / "X.csv", *options, "-o", tmp_path / "model")
    model = lincode.load(tmp_path / "model")
    expected = lincode.SCNN(2, density=1, random_state=0).fit(X[:, [2, 0]].astype(np.float32))
    assert_array_equal(model.components_, expected.components_)
    assert not hasattr(model, "feature_names_in_")


def test_integers_that_are_followed_by_numbers_are_read(tmp_path: Path) -> None:
    """The type of a column is not that of its first rows."""
    rows = ["a,b"] + ["1,0"] * 300_000 + ["0.5,1"]
    (tmp_path / "X.csv").write_text("\n".join(rows))
    options = ("-m", 1, "--density", 1, "--minibatch", "--max-iter", 1)
    run("fit", tmp_path / "X.csv", *options, "-o", tmp_path / "M")
    run("encode", tmp_path / "M", tmp_path / "X.csv", "-o", tmp_path / "U.npy")
    assert len(np.load(tmp_path / "U.npy")) == 300_001


@pytest.mark.parametrize("n_start", [300, 20_000])
def test_tables_are_learned_by_partial_fit_and_refined(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_start: int
) -> None:
    """Batches refine the network after ``n_start`` rows. If there are fewer, a block does."""
    monkeypatch.setattr("lincode.cli.BLOCK_BYTES", 1)
    monkeypatch.setattr("lincode.estimators.minibatch.MIN_START_ROWS", n_start)
    options = ("--minibatch", "-m", 8, "--max-iter", 2, "--tol", 0)
    run("fit", folder / "parquet", *options, "-o", tmp_path / "model")
    expected = lincode.MiniBatchSCNN(8, max_iter=2, tol=0, random_state=0)
    for part in (X[:200], X[200:], X[:200], X[200:]):
        expected.partial_fit(part)
    if n_start > 1000:
        unrefined = expected.encoder_r2_
        expected.calibrate(X[200:])
        assert expected.encoder_r2_ > unrefined
    model = lincode.load(tmp_path / "model")
    assert model.n_samples_seen_ == 1000
    assert_allclose(model.components_, expected.components_, atol=1e-6)
    assert model.encoder_r2_ == pytest.approx(expected.encoder_r2_)


def test_large_arrays_and_options_choose_the_estimator(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(*options: object) -> str:
        run("fit", folder / "X.npy", "-m", 4, "--tol", 0.1, *options, "-o", tmp_path / "model")
        return type(lincode.load(tmp_path / "model")).__name__

    assert chosen() == "SCNN"
    assert chosen("--batch-size", 100) == "MiniBatchSCNN"
    monkeypatch.setattr("lincode.cli.MAX_BYTES", 1000)
    assert chosen() == "MiniBatchSCNN"
    assert chosen("--no-minibatch") == "SCNN"


def test_pipelines_are_encoded(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X)
    model = make_pipeline(StandardScaler(), lincode.SCNN(5, random_state=0, tol=1e-2)).fit(X)
    lincode.save(model, tmp_path / "model")
    run("encode", tmp_path / "model", tmp_path / "X.npy", "-o", tmp_path / "U.npy")
    assert_array_equal(np.load(tmp_path / "U.npy"), model.transform(X))


def test_info(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("info", folder / "model", "--json", quiet=False)
    facts = json.loads(capsys.readouterr().out)
    model = lincode.load(folder / "model")
    assert facts["model"] == "SCNN"
    assert facts["alpha_"] == model.alpha_
    assert facts["n_components"] == 8
    run("info", folder / "model", quiet=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(facts)
    assert any(line.split() == ["stop_reason_", *model.stop_reason_.split()] for line in lines)


ERRORS: list[tuple[str, str]] = [
    ("fit missing.npy -o M", "missing.npy does not exist"),
    ("fit X.npy -o X.npy", "name a model"),
    ("encode model X.npy -o X.npy", "would be overwritten"),
    ("fit X.txt -o M", "the name must end with .npy, .npz, .csv, .parquet, got X.txt"),
    ("fit bad.npy -o M", "bad.npy: "),
    ("fit bad.npz -o M", "bad.npz: "),
    ("fit bad.parquet -o M", "bad.parquet: "),
    ("fit ragged.csv -o M", "ragged.csv: .*Expected 2 columns, got 3"),
    ("fit line.npy -o M", "line.npy: there must be rows and columns, got the shape (3,)"),
    ("fit X.csv -o M", "X.csv: columns must be numbers; leave others out: --exclude label"),
    ("fit X.csv --exclude lable -o M", "X.csv: there is no column lable"),
    ("fit X.npy --columns a -o M", "X.npy: --columns and --exclude apply to tables"),
    (
        "fit numbers.csv -o M",
        "numbers.csv: the first row must contain names of columns; add --no-h",
    ),
    ("fit index.csv -o M", "index.csv: a column has no name, such as an index that pandas wrote;"),
    ("fit infinite.csv -o M", "infinite.csv: row 1, column b, is infinite"),
    ("fit X.npy -m 0 -o M", "n_components must be None or an integer of at least 1, got 0"),
    ("fit X.npy --no-minibatch --batch-size 9 -o M", "SCNN has no parameter batch_size"),
    ("fit X.npy --density 2.5 -o M", "density must be a float above 0 and at most 1.0 or an"),
    ("fit X.npy -o missing/M", "missing/M must be a file that can be written"),
    ("encode X.npy X.npy -o U.npy", "X.npy must be a file that lincode.save wrote"),
    ("encode model line2.npy -o U.npy", "line2.npy: X has 2 features, but SCNN is expecting 32"),
    ("encode model csv/a.csv -o U.txt", "the name must end with"),
    ("encode model few.csv -o U.npy", "few.csv: there is no column pixel10, "),
    ("encode model X.npy --algorithm fast -o U.npy", "transform_algorithm must be"),
    ("encode model X.npy --algorithm exact -o U.npy", "set refine=False"),
]


@pytest.mark.parametrize(("command", "message"), ERRORS)
def test_errors_are_one_line(
    folder: Path,
    command: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    for name in ("bad.npy", "bad.npz", "bad.parquet"):
        Path(name).write_text("text")
    Path("ragged.csv").write_text("a,b\n1,2\n1,2,3\n")
    Path("numbers.csv").write_text("1,2.5\n3,4\n")
    Path("index.csv").write_text(",a\n0,1\n1,2\n")
    Path("few.csv").write_text("pixel0,pixel1\n1,2\n")
    Path("infinite.csv").write_text("a,b\n1,2\n1,inf\n")
    np.save("line.npy", np.ones(3))
    np.save("line2.npy", np.ones((3, 2)))
    before = sorted(folder.rglob("*"))
    assert main([*command.split(), "-q"]) == 2
    out, error = capsys.readouterr()
    assert error.count("\n") == 1
    assert error.startswith("lincode: ")
    assert all(part in error for part in message.split(".*"))
    assert not out
    assert sorted(folder.rglob("*")) == before


def test_an_invalid_command_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["encode", "model"])
    assert exit_.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "required: X, -o/--output; lincode encode --help lists the options" in error


def test_an_error_while_writing_leaves_the_old_output(folder: Path, tmp_path: Path) -> None:
    """The last row of the file is damaged, so that most blocks are written before the error."""
    text = (folder / "csv" / "a.csv").read_text()
    (tmp_path / "X.csv").write_text(text + "\n".join([text.splitlines()[1]] * 50_000) + "\n1,2\n")
    (tmp_path / "U.csv").write_text("old")
    arguments = ["encode", folder / "model", tmp_path / "X.csv", "-q", "-o", tmp_path / "U.csv"]
    assert main(list(map(str, arguments))) == 2
    assert (tmp_path / "U.csv").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["U.csv", "X.csv"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("encode model X.npy -o U.npy", "lincode: interrupted, and nothing was written.\n"),
        ("fit X.npy -o M", "nothing was saved. With --checkpoint FILE a training can continue.\n"),
        ("fit X.npy -o M --checkpoint model", "To continue: lincode fit X.npy -o M --checkpoint m"),
    ],
)
def test_ctrl_c_says_what_was_saved(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    message: str,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    for method in ("fit", "transform"):
        monkeypatch.setattr(lincode.SCNN, method, interrupt)
    assert main(command.split()) == 130
    error = capsys.readouterr().err
    assert message in error
    continues = "training continues with the network that was saved to model" in error
    assert continues == ("--checkpoint model" in command)
    assert sorted(folder.rglob("*")) == before


def test_progress_is_counted_in_samples(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("lincode.cli.PROGRESS_SECONDS", 0)
    monkeypatch.setattr("lincode.cli.BLOCK_BYTES", 2**16)
    model, codes = tmp_path / "model", tmp_path / "U.npy"
    for option, words in (
        ("--no-minibatch", "400 samples, iteration 1 of at most 10: energy per sample"),
        ("--minibatch", "500 samples: energy per sample"),
    ):
        run("fit", folder / "csv", option, "-m", 16, "-o", model, quiet=False)
        error = capsys.readouterr().err
        assert words in error
        assert "refinement, " in error
    run("encode", model, folder / "X.parquet", "-o", codes, quiet=False)
    run("decode", model, codes, "-o", tmp_path / "R.npy", quiet=False)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "lincode: columns that the model does not use: label"
    assert lines.count("500 of 500 rows") == 2
    assert any(line.endswith(" of 500 rows") and not line.startswith("500") for line in lines)


def test_compilation_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import numba

    monkeypatch.setattr("lincode.cli.PROGRESS_SECONDS", 0)
    text = "functions are compiled for this machine, which is done once ..."
    for quiet in (True, False):
        with announced_compilation(argparse.Namespace(quiet=quiet)):
            numba.njit(lambda x: x * x)(2.0)
            time.sleep(0.1)
    assert capsys.readouterr().err == f"lincode: {text}\n"


def test_columns_of_very_different_scales_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    for factor in (900, 1100):
        values = np.hstack([np.zeros((60, 1)), rng.uniform(0.999, 1, (60, 2)) * [1, factor]])
        np.savetxt(tmp_path / "X.csv", values, delimiter=",", header="a,b,c", comments="")
        run("fit", tmp_path / "X.csv", "-m", 2, "--density", 1, "-o", tmp_path / "model")
        message = capsys.readouterr().err
        assert message.count("as different as 1.1e+03 in c and 1 in b, ") == (factor > 1000)
        assert message.count("warning") == (factor > 1000)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_memory_does_not_grow_with_the_file(suffix: str, tmp_path: Path) -> None:
    """A file with four times as many rows needs less than half of the memory of the new rows."""
    rng = np.random.default_rng(0)
    peaks = {}
    small = 200_000 if suffix == "parquet" else 100_000
    for n in (small, 4 * small):
        path = tmp_path / f"X{n}.{suffix}"
        write_random(path, n, rng)
        for command in (
            ["fit", path, "--minibatch", "-m", 16, "--max-iter", 1, "-o", tmp_path / "model"],
            ["encode", tmp_path / "model", path, "-o", tmp_path / "U.npz"],
        ):
            program = [sys.executable, "-W", "ignore", "-c", MEMORY, *map(str, command), "-q"]
            out = subprocess.run(program, capture_output=True, text=True, check=True).stdout
            peaks[n, command[0]] = int(out.splitlines()[-1]) * 1024
    for name in ("fit", "encode"):
        assert peaks[4 * small, name] < peaks[small, name] + 0.5 * (3 * small * 64 * 8), peaks


def write_random(path: Path, n: int, rng: np.random.Generator, p: int = 64) -> None:
    names = [f"x{j}" for j in range(p)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    writer = pa.csv.CSVWriter if path.suffix == ".csv" else pa.parquet.ParquetWriter
    with writer(path, schema) as table:
        for start in range(0, n, 10_000):
            block = rng.standard_normal((min(10_000, n - start), p)).round(4)
            columns = [pa.array(column) for column in block.T.copy()]
            table.write_table(pa.Table.from_arrays(columns, schema=schema))


def test_a_killed_fit_continues_from_its_checkpoint(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.random.default_rng(0).standard_normal((2000, 30)))
    data, checkpoint, model = (str(tmp_path / name) for name in ("X.npy", "checkpoint", "model"))
    arguments = ["fit", data, "-m", "40", "-o", model, "-q"]
    arguments += ["--checkpoint", checkpoint, "--checkpoint-every", "0"]
    program = [sys.executable, "-m", "lincode", *arguments, "--tol", "0", "--max-iter", "100000"]
    process = subprocess.Popen(program)
    try:
        deadline = time.monotonic() + 120
        while not Path(checkpoint).exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL
    energy = lincode.load(checkpoint).energy_
    assert main([*arguments, "--tol", "1e-2"]) == 0
    assert lincode.load(model).energy_ <= energy
    assert not Path(checkpoint).exists()  # it is deleted when the model is saved
