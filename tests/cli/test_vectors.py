"""``lincode fit``, ``encode``, ``decode`` and ``info``, from file to file."""

from __future__ import annotations

import json
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
from lincode.vectors import read_vectors, reading

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 6)) @ RNG.standard_normal((6, 6))
NAMES = [f"col {j}" for j in range(6)]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What FIT writes."""
    path = tmp_path_factory.mktemp("fitted") / "model"
    save(SCNN(8, 0.2, threshold="match", tol=1e-2, random_state=0).fit(X), path)
    return path.read_bytes()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with X.npy, in which commands are run."""
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    return tmp_path


def run(line: str) -> int:
    return main(line.split())


FIT = "fit X.npy -m 8 --alpha 0.2 --threshold match --tol 1e-2 -o model -q"


def test_fit_is_that_of_the_estimator(here: Path) -> None:
    assert run("fit X.npy -m 8 --alpha-share 0.1 --threshold match --encoder-weight 2"
               " --max-iter 100 --tol 1e-2 --seed 3 --jobs 1 -o model -q") == 0  # fmt: skip
    model = load("model")
    other = SCNN(
        8, 0.1 * SCNN(8).alpha_max(X), threshold="match", encoder_weight=2.0, max_iter=100,
        tol=1e-2, random_state=3, n_jobs=1,
    ).fit(X)  # fmt: skip
    assert model.get_params() == other.get_params()
    assert_array_equal(model.transform(X), other.transform(X))


def test_fit_by_batches(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "fit X.npy -m 8 --alpha 0.2 --threshold match --minibatch --batch-size 40 -o model"
    assert run(line) == 0
    assert "[MiniBatchSCNN] batch 1" in capsys.readouterr().err
    other = MiniBatchSCNN(8, 0.2, threshold="match", batch_size=40, random_state=0).fit(X)
    assert load("model").get_params() == other.get_params()
    assert_array_equal(load("model").components_, other.components_)


def test_fit_says_how_it_goes_and_what_came_out(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(FIT.removesuffix(" -q")) == 0
    out, err = capsys.readouterr()
    assert "model: 80 vectors; 8 units of 6 features, alpha 0.2" in out
    assert "iteration 1/200" in err
    assert run(FIT) == 0
    assert capsys.readouterr() == ("", "")


def test_fit_in_another_precision(here: Path) -> None:
    assert run(f"{FIT} --dtype float32") == 0
    assert load("model").components_.dtype == np.float32


@pytest.mark.parametrize("method", ["encoder", "exact", "relearn"])
@pytest.mark.parametrize("ending", ["npz", "npy", "csv", "parquet"])
def test_from_vectors_to_codes_and_back(
    here: Path, ending: str, method: str, fitted: bytes
) -> None:
    Path("model").write_bytes(fitted)
    assert run(f"encode model X.npy -o codes.{ending} --method {method} -q") == 0
    assert run(f"decode model codes.{ending} -o back.{ending} -q") == 0
    model = load("model").set_params(transform_method=method)
    codes, back = read_vectors(f"codes.{ending}").X, read_vectors(f"back.{ending}").X
    assert scipy.sparse.issparse(codes) == (ending == "npz")
    codes = codes.toarray() if scipy.sparse.issparse(codes) else codes
    assert_array_equal(codes, model.transform(X))
    U = scipy.sparse.csr_matrix(codes) if ending == "npz" else codes
    assert_array_equal(back, model.inverse_transform(U))


def test_blocks_change_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(FIT) == 0
    monkeypatch.setattr(reading, "BLOCK_ENTRIES", 8 * 7)
    assert run("encode model X.npy -o codes.npz -q") == 0
    assert run("decode model codes.npz -o back.npy -q") == 0
    model = load("model")
    assert_allclose(scipy.sparse.load_npz("codes.npz").toarray(), model.transform(X), atol=1e-13)
    assert_allclose(np.load("back.npy"), model.reconstruct(X), atol=1e-12)


@pytest.mark.parametrize("ending", ["npz", "npy"])
def test_memory_does_not_grow_with_the_file(
    ending: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(FIT) == 0
    monkeypatch.setattr(reading, "BLOCK_ENTRIES", 8_000)  # a thousand rows of codes
    peaks = []
    for n in (20_000, 80_000):
        np.save("large.npy", RNG.standard_normal((n, 6)))
        tracemalloc.start()
        assert run(f"encode model large.npy -o codes.{ending} -q") == 0
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 100_000


def test_threshold_at_encoding(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FIT) == 0
    assert run("encode model X.npy -o codes.npy --threshold 0") == 0
    assert "codes.npy: codes of 80 vectors, 8 wide, 0.0% zeros" in capsys.readouterr().out
    assert_array_equal(np.load("codes.npy"), load("model").set_params(threshold=0.0).transform(X))
    assert run("encode model X.npy -o codes.npy --threshold 0.1 --method exact") == 2
    assert "--threshold is of the encoder's codes" in capsys.readouterr().err


def test_names_of_columns_are_kept_and_compared(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "\n".join([",".join(NAMES), *(",".join(map(repr, row)) for row in X.tolist())])
    Path("X.csv").write_text(text)
    assert run(FIT.replace("X.npy", "X.csv")) == 0
    assert list(load("model").feature_names_in_) == NAMES
    assert run("encode model X.csv -o codes.csv -q") == 0
    assert Path("codes.csv").read_text().startswith("scnn0,scnn1,")
    assert run("decode model codes.csv -o back.csv -q") == 0
    assert read_vectors("back.csv").names == NAMES
    assert run("encode model X.npy -o codes.csv -q") == 0  # without names there is no comparison
    Path("X.csv").write_text(text.replace("col 1,col 2", "col 2,col 1"))
    assert run("encode model X.csv -o codes.csv") == 2
    assert "X.csv: column 2 must be 'col 1' as in the model, got 'col 2'" in capsys.readouterr().err


def test_info(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FIT) == 0
    assert run("info model") == 0
    lines = capsys.readouterr().out.splitlines()
    facts = {line[:20].strip(): line[20:].strip() for line in lines}
    assert facts["model"] == "SCNN"
    assert (facts["units"], facts["features"], facts["alpha"]) == ("8", "6", "0.2")
    assert facts["stop reason"].startswith("converged")
    assert "numpy" in facts["versions"]
    assert run("info model --json") == 0
    told = json.loads(capsys.readouterr().out)
    model = load("model")
    assert told["energy"] == model.energy_
    assert told["threshold"] == model.matching_threshold_
    assert told["sparsity"] == 1 - model.usage_.mean()
    assert told["parameters"] == model.get_params()


def test_other_networks_are_told_of_and_encode(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network: Any = SAANN(4, max_iter=2, random_state=0).fit(X)
    save(network, "model")
    assert run("info model --json") == 0
    assert "threshold" not in json.loads(capsys.readouterr().out)
    assert run("encode model X.npy -o codes.npy -q") == 0
    assert_array_equal(np.load("codes.npy"), network.transform(X))
    assert run("encode model X.npy -o codes.npy --method exact") == 2
    assert "SAANN has no transform_method; leave the option out" in capsys.readouterr().err


def test_info_of_infinity_is_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = MiniBatchSCNN(8, 0.2, threshold="match", half_life=float("inf"), random_state=0)
    save(network.partial_fit(X), "model")
    assert run("info model --json") == 0
    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert told["parameters"]["half_life"] == "inf"


def test_csr_and_keys(here: Path) -> None:
    scipy.sparse.save_npz("S.npz", scipy.sparse.csr_matrix(X))
    np.savez("two.npz", A=X, B=-X)
    assert run(FIT.replace("X.npy", "S.npz")) == 0
    assert run("encode model two.npz --key B -o codes.npy -q") == 0
    assert_allclose(np.load("codes.npy"), load("model").transform(-X), atol=1e-13)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit nothing.npy -o m", "there is no file nothing.npy"),
        ("fit X.txt -o m", "must end in .npy, .npz, .csv, .parquet"),
        ("fit empty.npy -o m", "empty.npy is empty"),
        ("fit nan.npy -o m", "nan.npy: row 3, column 2 is nan"),
        ("fit X.npy -o X.npy", "the output must not be the input X.npy"),
        ("fit X.npy -o gone/m", "the folder gone does not exist; make it first"),
        ("fit X.npy -o folder", "folder is a folder"),
        ("fit X.npy -m 4 --key A -o m", "key is for npz files"),
        ("encode model nan.npy -o c.npy", "nan.npy: row 3, column 2 is nan"),
        ("encode model narrow.npy -o c.npy", "3 features, but SCNN is expecting 6"),
        ("encode model X.npy -o model", "must end in"),
        ("encode model X.npy -o X.npy", "the output must not be the input X.npy"),
        ("encode model X.npy -o gone/c.npz", "the folder gone does not exist"),
        ("encode X.npy X.npy -o c.npz", "X.npy is no model file of lincode"),
        ("encode nothing X.npy -o c.npz", "there is no file nothing"),
        ("encode cut X.npy -o c.npz", "damaged or cut short"),
        ("decode model narrow.npy -o Y.npy", "codes must have 8 columns"),
        ("decode model nan.npy -o Y.npy", "row 3, column 2 is nan"),
        ("decode model codes.npz -o codes.npz", "must not be the input codes.npz"),
        ("info X.npy", "X.npy is no model file"),
        ("info folder", "folder is a folder"),
    ],
)
def test_bad_input_gets_a_sentence_and_leaves_no_file(
    line: str, message: str, here: Path, fitted: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("model").write_bytes(fitted)
    assert run("encode model X.npy -o codes.npz -q") == 0
    bad = X.copy()
    bad[2, 1] = np.nan
    np.save("nan.npy", bad)
    np.save("narrow.npy", X[:, :3])
    Path("empty.npy").touch()
    Path("folder").mkdir()
    Path("cut").write_bytes(Path("model").read_bytes()[:-1])
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
        ("fit X.npy -o m --alpha 1 --alpha-share 1", "--alpha-share: not allowed with argument"),
        ("fit X.npy -o m -m many", "-m/--components: must be an integer from 1, got 'many'"),
        ("fit X.npy -o m -m 0", "-m/--components: must be an integer from 1, got '0'"),
        ("fit X.npy -o m --max-iter 0", "--max-iter: must be an integer from 1"),
        ("fit X.npy -o m --batch-size 1.5", "--batch-size: must be an integer from 1"),
        ("fit X.npy -o m --alpha -1", "--alpha: must be a number from 0, got '-1'"),
        ("fit X.npy -o m --alpha-share nan", "--alpha-share: must be a number from 0"),
        ("fit X.npy -o m --tol inf", "--tol: must be a number from 0, got 'inf'"),
        ("encode model X.npy", "arguments are required: -o/--output"),
        ("encode model X.npy -o c.npy --threshold x", "must be a number from 0 or match, got 'x'"),
        ("encode model X.npy -o c.npy --threshold nan", "--threshold: must be a number from 0"),
        ("encode model X.npy -o c.npy --jobs 0", "--jobs: must be an integer but 0"),
    ],
)
def test_bad_options_are_named(
    line: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(line)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
