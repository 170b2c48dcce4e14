"""Where the data are searched."""

import subprocess
import sys
from pathlib import Path

import pytest
from paper import datasets
from paper.datasets import find
from paper.datasets.folders import search_folders
from paper.errors import DataMissingError, PaperError

pytestmark = pytest.mark.usefixtures("no_other_data")
ROOT = Path(__file__).parents[2]


def test_search_order_is_argument_then_variable_then_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for place in ("given", "variable", "cache"):
        (tmp_path / place / "mnist").mkdir(parents=True)
    assert find("mnist") == tmp_path / "cache" / "mnist"
    monkeypatch.setenv("LINCODE_DATA", str(tmp_path / "variable"))
    assert find("mnist") == tmp_path / "variable" / "mnist"
    assert find("mnist", str(tmp_path / "given")) == tmp_path / "given" / "mnist"
    (tmp_path / "variable" / "mnist").rmdir()
    assert find("mnist") == tmp_path / "cache" / "mnist"
    monkeypatch.setenv("LINCODE_DATA", "")
    assert search_folders() == [tmp_path / "cache"]


def test_only_the_given_folder_is_searched(tmp_path: Path) -> None:
    (tmp_path / "cache" / "mnist").mkdir(parents=True)
    with pytest.raises(
        DataMissingError, match="empty: run `python -m paper data fetch mnist`"
    ) as caught:
        find("mnist", tmp_path / "empty")
    assert "cache" not in str(caught.value)


def test_error_for_missing_data_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LINCODE_DATA", str(tmp_path / "variable"))
    with pytest.raises(PaperError) as caught:
        find("bsds300")
    sentence = str(caught.value)
    for part in ("variable", "cache", "paper data fetch bsds300", "--data-dir", "LINCODE_DATA"):
        assert part in sentence
    assert "\n" not in sentence


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="name must be 'mnist' or 'bsds300', got 'cifar'"):
        find("cifar")


def test_missing_requirement_gives_a_message() -> None:
    code = (
        "import runpy, sys; sys.modules['pooch'] = None; "
        "runpy.run_module('paper', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("paper: import of pooch halted")
    assert "pip install -e '.[paper]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="XDG_CACHE_HOME is for Linux")
def test_cache_folder_is_that_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # restore the real cache folder
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = search_folders()[-1]
    assert tmp_path in folder.parents
    assert "lincode" in folder.parts


def test_all_public_names_have_docstrings() -> None:
    for name in datasets.__all__:
        assert getattr(datasets, name).__doc__
