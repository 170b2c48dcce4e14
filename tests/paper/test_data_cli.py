"""``python -m paper data``: its output and exit codes."""

from pathlib import Path

import pytest
from paper.cli import main
from paper.datasets import download

from tests.paper.synthetic import accept_bsds, accept_mnist, write_bsds, write_mnist

pytestmark = pytest.mark.usefixtures("no_other_data")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    for mirrors in ("MNIST_MIRRORS", "BSDS_MIRRORS"):
        monkeypatch.setattr(download, mirrors, ("http://127.0.0.1:9/",))


def run(*words: object) -> int:
    return main(["data", *map(str, words)])


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tiny versions of both data sets that count as the published ones."""
    accept_mnist(monkeypatch, write_mnist(tmp_path, packed=True))
    accept_bsds(monkeypatch, write_bsds(tmp_path))
    return tmp_path


def test_verify_prints_one_line_per_file_or_folder(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("verify", "--data-dir", data) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert all(line.startswith("ok ") for line in lines)
    assert str(data / "mnist" / "train-images-idx3-ubyte.gz") in lines[0]
    monkeypatch.setenv("LINCODE_DATA", str(data))
    assert run("verify", "bsds300") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_exit_code_of_verify_is_1_if_something_is_wrong(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(b"\x1f\x8bdamaged")
    assert run("verify", "--data-dir", data) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ok", "ok", "ok", "wrong", "ok", "ok"]
    assert "t10k-labels-idx1-ubyte.gz is truncated or damaged" in lines[3]


def test_verify_continues_after_missing_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("verify", "--data-dir", tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["missing", "missing"]
    assert "python -m paper data fetch mnist" in lines[0]


def test_fetch_keeps_correct_files(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fetch", "--data-dir", data) == 0
    assert capsys.readouterr().out.count("already there, sha256 is correct") == 5


def test_failed_fetch_prints_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fetch", "mnist", "--data-dir", tmp_path) == 2
    (line,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("paper: ")]
    assert line.startswith("paper: The download failed from http://127.0.0.1:9/")


@pytest.mark.parametrize("action", ["fetch", "verify"])
def test_unknown_names_are_refused_first(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(action, "mnist", "cifar") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "must be mnist or bsds300, got cifar" in err


def test_action_is_required() -> None:
    with pytest.raises(SystemExit):
        run()
