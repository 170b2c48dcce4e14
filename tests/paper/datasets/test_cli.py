"""``lincode data``, by its own parser: what it prints and with what code it ends."""

import argparse
from pathlib import Path

import pytest

from lincode.cli.data import add
from lincode.datasets import DataMissingError, download
from tests.datasets.synthetic import believe_bsds, believe_mnist, tiny_bsds, tiny_mnist


@pytest.fixture(autouse=True)
def no_data_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LINCODE_DATA", raising=False)
    monkeypatch.setattr("lincode.datasets.folders.cache_folder", lambda: tmp_path / "cache")
    for mirrors in ("MNIST_MIRRORS", "BSDS_MIRRORS"):
        monkeypatch.setattr(download, mirrors, ("http://127.0.0.1:9/",))


def run(*words: object) -> int:
    parser = argparse.ArgumentParser()
    add(parser.add_subparsers())
    args = parser.parse_args(["data", *map(str, words)])
    code = args.func(args)
    assert isinstance(code, int)
    return code


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both data sets, believed to be the published ones."""
    believe_mnist(monkeypatch, tiny_mnist(tmp_path, packed=True))
    believe_bsds(monkeypatch, tiny_bsds(tmp_path))
    return tmp_path


def test_verify_prints_a_line_for_each_file_and_folder(
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


def test_verify_ends_with_1_where_something_is_wrong(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(b"\x1f\x8bdamaged")
    assert run("verify", "--data-dir", data) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ok", "ok", "ok", "wrong", "ok", "ok"]
    assert "t10k-labels-idx1-ubyte.gz is truncated or damaged" in lines[3]


def test_verify_goes_on_after_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("verify", "--data-dir", tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["missing", "missing"]
    assert "lincode data fetch mnist" in lines[0]


def test_fetch_keeps_what_is_right(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fetch", "--data-dir", data) == 0
    assert capsys.readouterr().out.count("there already, sha256 right") == 5


def test_a_failed_fetch_raises_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No download was good") as caught:
        run("fetch", "mnist", "--data-dir", tmp_path)
    assert not isinstance(caught.value, DataMissingError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("action", ["fetch", "verify"])
def test_unknown_names_are_refused_before_anything_is_done(
    action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="must be mnist or bsds300, got cifar"):
        run(action, "mnist", "cifar")
    assert capsys.readouterr().out == ""


def test_an_action_is_needed() -> None:
    with pytest.raises(SystemExit):
        run()
