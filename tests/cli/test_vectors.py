"""The commands ``lincode fit``, ``encode``, ``decode`` and ``info``."""

from __future__ import annotations

import json
import re
import shlex
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from lincode import SAANN, SCNN, MiniBatchSCNN
from lincode.cli import main
from lincode.model_file import load, save
from lincode.vectors import Vectors, read_vectors, reading, write_vectors

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 6)) @ RNG.standard_normal((6, 6))
NAMES = [f"col {j}" for j in range(6)]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The contents of the file that FIT writes."""
    path = tmp_path_factory.mktemp("fitted") / "model"
    save(SCNN(8, 0.2, tol=1e-2, random_state=0).fit(X), path)
    return path.read_bytes()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder that contains X.npy."""
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    return tmp_path


@pytest.fixture
def model(here: Path, fitted: bytes) -> SCNN:
    """Write a model file with the name "model" and return its contents."""
    Path("model").write_bytes(fitted)
    loaded = load("model")
    assert isinstance(loaded, SCNN)
    return loaded


def run(line: str) -> int:
    return main(line.split())


FIT = "fit X.npy -m 8 --alpha 0.2 --tol 1e-2 -o model -q"


@pytest.mark.parametrize("alpha", ["0.1*max", "0.5"])
@pytest.mark.parametrize("threshold", ["alpha", "0.25"])
def test_fit_passes_options_to_the_estimator(here: Path, alpha: str, threshold: str) -> None:
    line = (
        f"fit X.npy -m 8 --alpha {alpha} --threshold {threshold} --encoder-weight 2"
        " --max-iter 100 --tol 1e-2 --random-state 3 --n-jobs 1 -o model -q"
    )
    assert run(line) == 0
    expected = SCNN(
        8,
        alpha if "*" in alpha else float(alpha),
        threshold=threshold if threshold == "alpha" else float(threshold),
        encoder_weight=2.0,
        max_iter=100,
        tol=1e-2,
        random_state=3,
        n_jobs=1,
    ).fit(X)
    assert load("model").get_params() == expected.get_params()
    assert_array_equal(load("model").transform(X), expected.transform(X))


@pytest.mark.parametrize("minibatch", [False, True])
@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ("--encoder-ridge 0.5 --threshold-mode soft", {"encoder_ridge": 0.5}),
        ("--encoder-ridge auto --threshold-mode soft --no-fit-gains", {"fit_gains": False}),
        ("--threshold-mode top_k", {"threshold_mode": "top_k"}),
        (
            "--threshold-mode top_k --transform-n-nonzero-coefs 3 --fit-gains --fit-decoder",
            {"threshold_mode": "top_k", "transform_n_nonzero_coefs": 3, "fit_decoder": True},
        ),
        ("--refine-max-iter 4", {"refine_max_iter": 4}),
        ("--refine-max-iter 0 --no-fit-decoder", {}),
        (
            "--transform-algorithm lasso --transform-tol 1e-3 --split-sign",
            {"transform_algorithm": "lasso", "transform_tol": 1e-3, "split_sign": True},
        ),
        ("--positive-code --alpha 0.5*mean", {"positive_code": True, "alpha": "0.5*mean"}),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_options_of_the_encoder(
    here: Path, options: str, parameters: dict[str, Any], minibatch: bool
) -> None:
    """Options have the names of the parameters."""
    flag = "--minibatch" if minibatch else ""
    assert run(f"fit X.npy -m 8 --tol 1e-2 {options} {flag} -o model -q") == 0
    expected = (MiniBatchSCNN if minibatch else SCNN)(8, tol=1e-2, random_state=0)
    if "soft" in options:
        parameters = parameters | {"threshold_mode": "soft"}
    expected.set_params(**parameters).fit(X)
    model = load("model")
    assert model.get_params() == expected.get_params()
    assert_array_equal(model.transform(X), expected.transform(X))
    assert_array_equal(model.reconstruct(X), expected.reconstruct(X))


@pytest.mark.parametrize("command", ["fit", "encode", "decode"])
def test_options_have_the_names_of_parameters(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(f"{command} --help")
    options = re.findall(r"(?<!\S)--(?:no-)?([a-z-]+)", capsys.readouterr().out)
    names = {option.replace("-", "_") for option in options}
    assert "transform_algorithm" in names
    others = {"help", "output", "key", "quiet", "dtype", "minibatch", "batch_size"}
    others |= {"algorithm", "columns", "exclude", "header", "max_size"}
    assert names - others <= set(SCNN().get_params())


@pytest.mark.parametrize("option", ["", "--minibatch"])
def test_fit_uses_the_defaults_of_the_estimator(here: Path, option: str) -> None:
    assert run(f"fit X.npy {option} -o model -q") == 0
    expected = (MiniBatchSCNN if option else SCNN)(random_state=0)
    assert load("model").get_params() == expected.get_params()


def test_fit_in_batches(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fit X.npy -m 8 --alpha 0.2 --minibatch --batch-size 40 -o model") == 0
    assert "batch 1/20" in capsys.readouterr().err
    expected = MiniBatchSCNN(8, 0.2, batch_size=40, random_state=0).fit(X)
    assert load("model").get_params() == expected.get_params()
    assert_array_equal(load("model").components_, expected.components_)


def test_fit_prints_progress_and_result(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FIT.removesuffix(" -q")) == 0
    out, err = capsys.readouterr()
    assert "model: 80 vectors, 8 components, 6 features, alpha 0.2" in out
    assert "iteration 1/200" in err
    assert run(FIT) == 0
    assert capsys.readouterr() == ("", "")


def test_fit_does_not_read_valid_data_itself(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the estimator reads the data, because the file may be large."""
    monkeypatch.setattr(Vectors, "blocks", lambda *_: pytest.fail("the data were read"))
    assert run(FIT) == 0


def test_fit_with_another_precision(here: Path) -> None:
    assert run(f"{FIT} --dtype float32") == 0
    assert load("model").components_.dtype == np.float32


@pytest.mark.parametrize("algorithm", ["encoder", "exact", "lasso"])
@pytest.mark.parametrize("suffix", ["npz", "npy", "csv", "parquet"])
def test_encode_and_decode(model: Any, suffix: str, algorithm: str) -> None:
    assert run(f"encode model X.npy -o codes.{suffix} --transform-algorithm {algorithm} -q") == 0
    assert run(f"decode model codes.{suffix} -o decoded.{suffix} -q") == 0
    model.set_params(transform_algorithm=algorithm)
    codes, decoded = read_vectors(f"codes.{suffix}").X, read_vectors(f"decoded.{suffix}").X
    assert scipy.sparse.issparse(codes) == (suffix == "npz")
    codes = codes.toarray() if scipy.sparse.issparse(codes) else codes
    assert_array_equal(codes, model.transform(X))
    U = scipy.sparse.csr_matrix(codes) if suffix == "npz" else codes
    assert_array_equal(decoded, model.inverse_transform(U))


def test_results_do_not_depend_on_blocks(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BLOCK_ENTRIES", 8 * 7)
    assert run("encode model X.npy -o codes.npz -q") == 0
    assert run("decode model codes.npz -o decoded.npy -q") == 0
    assert_allclose(scipy.sparse.load_npz("codes.npz").toarray(), model.transform(X), atol=1e-13)
    assert_allclose(np.load("decoded.npy"), model.reconstruct(X), atol=1e-12)


@pytest.mark.parametrize("suffix", ["npz", "npy"])
def test_memory_does_not_depend_on_the_number_of_rows(
    suffix: str, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BLOCK_ENTRIES", 8_000)  # A thousand rows of codes.
    peaks = []
    for n in (20_000, 80_000):
        np.save("large.npy", RNG.standard_normal((n, 6)))
        tracemalloc.start()
        assert run(f"encode model large.npy -o codes.{suffix} -q") == 0
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 100_000


def test_encode_with_another_threshold(model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("encode model X.npy -o codes.npy --threshold 0") == 0
    assert "codes.npy: codes of 80 vectors, 8 columns, 0.0% zeros" in capsys.readouterr().out
    assert_array_equal(np.load("codes.npy"), model.set_params(threshold=0.0).transform(X))
    assert run("encode model X.npy -o codes.npy --threshold alpha -q") == 0
    assert_array_equal(np.load("codes.npy"), model.set_params(threshold="alpha").transform(X))
    assert run("encode model X.npy -o codes.npy --threshold 0.1 --transform-algorithm exact") == 2
    assert (
        "--threshold applies to transform_algorithm encoder with threshold_mode hard or soft"
        in capsys.readouterr().err
    )


def test_encode_with_another_number_of_nonzeros(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit X.npy -m 8 --threshold-mode top_k -o model -q") == 0
    assert run("encode model X.npy -o codes.npy --transform-n-nonzero-coefs 2 -q") == 0
    codes = np.load("codes.npy")
    assert (np.count_nonzero(codes, axis=1) == 2).all()
    model = load("model").set_params(transform_n_nonzero_coefs=2)
    assert_array_equal(codes, model.transform(X))
    for options in (
        "--threshold 0.1",
        "--transform-n-nonzero-coefs 2 --transform-algorithm lasso",
    ):
        assert run(f"encode model X.npy -o codes.npy {options}") == 2
        assert f"{options.split()[0]} applies to" in capsys.readouterr().err


def test_info_of_a_refined_model(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scnn = SCNN(8, threshold_mode="top_k", refine_max_iter=3, tol=1e-2, random_state=0)
    save(scnn.fit(X), "model")
    assert run("info model --json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["refined"] is printed["decoder"] is True
    assert printed["n_nonzero_coefs"] == scnn.n_nonzero_coefs_
    assert "threshold" not in printed
    assert printed["encoder_r2"] == scnn.encoder_r2_
    assert run("info model") == 0
    assert "refined              True\n" in capsys.readouterr().out


def test_column_names_are_stored_and_compared(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "\n".join([",".join(NAMES), *(",".join(map(repr, row)) for row in X.tolist())])
    Path("X.csv").write_text(text)
    assert run(FIT.replace("X.npy", "X.csv")) == 0
    assert list(load("model").feature_names_in_) == NAMES
    assert run("encode model X.csv -o codes.csv -q") == 0
    assert Path("codes.csv").read_text().startswith("scnn0,scnn1,")
    assert run("decode model codes.csv -o decoded.csv -q") == 0
    assert read_vectors("decoded.csv").names == NAMES
    assert run("encode model X.npy -o codes.csv -q") == 0  # Files without names are not compared.
    Path("X.csv").write_text(text.replace("col 1,col 2", "col 2,col 1"))
    assert run("encode model X.csv -o codes.csv") == 2
    error = capsys.readouterr().err
    assert "in the same order, but column 2 is 'col 2' instead of 'col 1'; use --columns" in error


@pytest.mark.parametrize(
    ("header", "options", "problem", "option"),
    [
        ("a,b,c,proline", "", "but it also has 'proline'", "--exclude proline"),
        ("a,x y,b,c", "", "but it also has 'x y'", "--exclude 'x y'"),
        ("a,b,c,d", "--columns a,b,d,c", "but it also has 'd'", "--exclude d"),
        ("y,a,b,c,d", "--exclude y", "but it also has 'd'", "--exclude y,d"),
        ("a,c,b", "", "in the same order, but column 2 is 'c' instead of 'b'", "--columns a,b,c"),
        ("d,c,b,a", "", "but column 1 is 'd' instead of 'a'", "--columns a,b,c"),
        ("b,c", "", "but it does not have 'a'; add or rename columns.", ""),
        ("b,c,A", "", "but it also has 'A' and does not have 'a'; add or rename columns.", ""),
        ("a,b,c", "--exclude 1", "does not have 'a'; add or rename columns, or exclude fewer", ""),
        ("a,b," + ",".join(f"y{j}" for j in range(300)) + ",c", "", "'y4' and 295 more; use", ""),
    ],
)
def test_the_option_for_the_columns_of_the_model_is_printed(
    header: str,
    options: str,
    problem: str,
    option: str,
    here: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    estimator = SCNN(2, 0.2, tol=1e-2, random_state=0).fit(X[:, :3])
    estimator.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)
    save(estimator, "model")
    columns = header.split(",")
    values = {"a": 0, "b": 1, "c": 2}
    table = X[:, [values.get(name, 5) for name in columns]]
    write_vectors("X.csv", [table], len(table), names=columns)
    line = f"encode model X.csv -o codes.npy {options}"
    assert run(line) == 2
    error = capsys.readouterr().err
    assert "X.csv must have the 3 columns of the training data" in error
    assert problem in error
    assert len(error) < 300
    if option:
        assert error.endswith(f"; use {option}.\n")
        assert main(shlex.split(f"{line} {option} -q")) == 0
        del estimator.feature_names_in_
        assert_allclose(np.load("codes.npy"), estimator.transform(X[:, :3]), atol=1e-12)


def test_info(model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info model") == 0
    lines = capsys.readouterr().out.splitlines()
    facts = {line[:20].strip(): line[20:].strip() for line in lines}
    assert facts["model"] == "SCNN"
    assert (facts["components"], facts["features"], facts["alpha"]) == ("8", "6", "0.2")
    assert facts["stop reason"].startswith("converged")
    assert "numpy" in facts["versions"]
    assert run("info model --json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["energy"] == model.energy_
    assert printed["threshold"] == model.matching_threshold_
    assert printed["density"] == model.usage_.mean()
    assert printed["encoder_ridge"] == model.encoder_ridge_
    assert printed["encoder_r2"] == model.encoder_r2_
    assert printed["matching_density"] == model.matching_density_
    assert (printed["decoder"], printed["refined"]) == (False, False)
    assert printed["threshold_mode"] == "hard"
    assert "n_nonzero_coefs" not in printed
    assert printed["parameters"] == model.get_params()


def test_info_and_encode_with_another_estimator(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    estimator: Any = SAANN(4, max_iter=2, random_state=0).fit(X)
    save(estimator, "model")
    assert run("info model --json") == 0
    assert "threshold" not in json.loads(capsys.readouterr().out)
    assert run("encode model X.npy -o codes.npy -q") == 0
    assert_array_equal(np.load("codes.npy"), estimator.transform(X))
    assert run("encode model X.npy -o codes.npy --transform-algorithm exact") == 2
    assert (
        "SAANN has no parameter transform_algorithm; leave --transform-algorithm out"
        in capsys.readouterr().err
    )


def test_info_prints_valid_json_for_infinity(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    estimator = MiniBatchSCNN(8, 0.2, half_life=float("inf"), random_state=0)
    save(estimator.partial_fit(X), "model")
    assert run("info model --json") == 0
    printed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert printed["parameters"]["half_life"] == "inf"


def test_sparse_matrices_and_keys(here: Path) -> None:
    scipy.sparse.save_npz("S.npz", scipy.sparse.csr_matrix(X))
    np.savez("two.npz", A=X, B=-X)
    assert run(FIT.replace("X.npy", "S.npz")) == 0
    assert run("encode model two.npz --key B -o codes.npy -q") == 0
    assert_allclose(np.load("codes.npy"), load("model").transform(-X), atol=1e-13)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit missing.npy -o m", "No such file or directory: missing.npy"),
        ("fit X.txt -o m", "must end in .npy, .npz, .csv, .tsv, .csv.gz, .tsv.gz or .parquet"),
        ("fit empty.npy -o m", "empty.npy is empty"),
        ("fit nan.npy -o m", "nan.npy: row 3, column 2 must be a finite number, got nan"),
        ("fit nan.npy --minibatch -o m", "nan.npy: row 3, column 2 must be a finite number"),
        ("fit X.npy -o X.npy", "the output must not be the input X.npy"),
        ("fit X.npy -o missing/m", "the folder of the output does not exist; create it first"),
        ("fit X.npy -o folder", "the output must be a file, not a folder: folder."),
        ("fit X.npy -m 4 --key A -o m", "key selects one of the arrays in an npz file"),
        ("fit X.npy -o m --alpha 0.05*most", "alpha must be a finite number of at least 0 or a"),
        ("fit X.npy -o m --alpha many", "alpha must be a finite number of at least 0 or a"),
        ("encode model nan.npy -o c.npy", "nan.npy: row 3, column 2 must be a finite number"),
        ("encode model narrow.npy -o c.npy", "narrow.npy must have 6 columns for this model"),
        ("encode model X.npy -o model", "must end in"),
        ("encode model X.npy -o X.npy", "the output must not be the input X.npy"),
        ("encode model X.npy -o missing/c.npz", "the folder of the output does not exist"),
        ("encode X.npy X.npy -o c.npz", "X.npy is not a model file of lincode"),
        ("encode missing X.npy -o c.npz", "No such file or directory: missing"),
        ("encode truncated X.npy -o c.npz", "damaged or truncated"),
        ("decode model narrow.npy -o Y.npy", "narrow.npy must have 8 columns for this model, got"),
        ("decode model nan.npy -o Y.npy", "row 3, column 2 must be a finite number, got nan"),
        ("decode model codes.npz -o codes.npz", "must not be the input codes.npz"),
        ("info X.npy", "X.npy is not a model file"),
        ("info folder", "expected a model file, got a folder: folder."),
    ],
)
def test_invalid_input_is_reported_and_no_file_is_written(
    line: str, message: str, here: Path, model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("encode model X.npy -o codes.npz -q") == 0
    bad = np.hstack([X, X[:, :2]]) if line.startswith("decode") else X.copy()
    bad[2, 1] = np.nan
    np.save("nan.npy", bad)
    np.save("narrow.npy", X[:, :3])
    Path("empty.npy").touch()
    Path("folder").mkdir()
    Path("truncated").write_bytes(Path("model").read_bytes()[:-1])
    before = {path: path.read_bytes() for path in here.iterdir() if path.is_file()}
    capsys.readouterr()
    assert run(line) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("lincode: ")
    assert message in err
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in here.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "fit X.npy -o m -m many",
            "-m/--n-components: must be an integer of at least 1, got 'many'",
        ),
        ("fit X.npy -o m -m 0", "-m/--n-components: must be an integer of at least 1, got '0'"),
        ("fit X.npy -o m --max-iter 0", "--max-iter: must be an integer of at least 1"),
        ("fit X.npy -o m --batch-size 1.5", "--batch-size: must be an integer of at least 1"),
        ("fit X.npy -o m --alpha -1", "--alpha: must be a number of at least 0, got '-1'"),
        ("fit X.npy -o m --alpha nan", "--alpha: must be a number of at least 0, got 'nan'"),
        ("fit X.npy -o m --encoder-ridge x", "--encoder-ridge: must be .* at least 0 or auto"),
        ("fit X.npy -o m --encoder-ridge -1", "--encoder-ridge: must be a number of at least 0"),
        ("fit X.npy -o m --threshold-mode topk", "--threshold-mode: invalid choice: 'topk'"),
        ("fit X.npy -o m --refine-max-iter -1", "--refine-max-iter: must be an integer of at"),
        ("fit X.npy -o m --transform-n-nonzero-coefs 0", "coefs: must be an integer of at least 1"),
        ("fit X.npy -o m --tol inf", "--tol: must be a number of at least 0, got 'inf'"),
        ("encode model X.npy", "arguments are required: -o/--output"),
        ("encode model X.npy -o c.npy --threshold x", "at least 0, match or alpha, got 'x'"),
        ("encode model X.npy -o c.npy --threshold nan", "--threshold: must be a number of at"),
        ("encode model X.npy -o c.npy --transform-algorithm relearn", "algorithm: invalid choice"),
        ("encode model X.npy -o c.npy --n-jobs 0", "--n-jobs: must be an integer other than 0"),
    ],
)
def test_invalid_options_are_reported(
    line: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(line)
    assert stopped.value.code == 2
    error, command = capsys.readouterr().err, line.split()[0]
    assert re.search(message, error)
    assert error.startswith(f"lincode {command}: ")
    assert error.endswith(f". Use lincode {command} --help to list the arguments.\n")
    assert error.count("\n") == 1
