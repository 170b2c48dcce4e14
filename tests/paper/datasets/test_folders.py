import subprocess
import sys
from pathlib import Path

import pytest

from lincode import datasets
from lincode.datasets import DataMissingError, find
from lincode.datasets.folders import places


def test_the_folder_given_comes_first_then_the_variable_then_the_cache(
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
    assert places() == [tmp_path / "cache"]


def test_a_folder_given_that_lacks_the_data_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "cache" / "mnist").mkdir(parents=True)
    with pytest.raises(DataMissingError, match="empty: run `lincode data fetch mnist`") as caught:
        find("mnist", tmp_path / "empty")
    assert "cache" not in str(caught.value)


def test_what_is_missing_is_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LINCODE_DATA", str(tmp_path / "variable"))
    with pytest.raises(FileNotFoundError) as caught:
        find("bsds300")
    sentence = str(caught.value)
    for part in ("variable", "cache", "lincode data fetch bsds300", "--data-dir", "LINCODE_DATA"):
        assert part in sentence
    assert "\n" not in sentence


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="name must be 'mnist' or 'bsds300', got 'cifar'"):
        find("cifar")


def test_the_cache_folder_is_the_users(tmp_path: Path) -> None:
    code = "from lincode.datasets.folders import cache_folder; print(cache_folder())"
    environment = {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path / "home")}
    out = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    folder = Path(out.stdout.strip())
    assert tmp_path in folder.parents
    assert "lincode" in folder.parts


def test_importing_loads_no_optional_package() -> None:
    code = (
        "import sys, lincode.datasets; "
        "print([m for m in ('PIL', 'pooch', 'requests', 'matplotlib') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_datasets_imports_nothing_else_of_ours() -> None:
    for path in Path(datasets.__file__).parent.glob("*.py"):
        for line in path.read_text().splitlines():
            if line.lstrip().startswith(("from lincode", "import lincode")):
                assert line.split()[1].startswith("lincode.datasets"), (path, line)


def test_the_door_is_complete() -> None:
    for name in datasets.__all__:
        assert getattr(datasets, name).__doc__
