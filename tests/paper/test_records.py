"""Records are complete or absent, and say how they were obtained."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from paper.errors import PaperError
from paper.experiments.experiment import VERSIONS, Record, Run
from paper.experiments.records import Store, commit, read_record, versions, write_atomically


def a_run(**changes: object) -> Run:
    fields: dict[str, object] = {
        "group": "pca",
        "scale": "smoke",
        "seed": 3,
        "embedded": True,
        "settings": {"method": "SCNN", "m": 10, "n": [5, 6]},
    }
    return Run(**{**fields, **changes})  # type: ignore[arg-type]


def a_record(run: Run | None = None) -> Record:
    return Record(
        run or a_run(),
        {"rms": 0.5, "curve": [0.1, 0.2]},
        1.25,
        {"name": "x", "sha256": "y"},
        versions(),
        "2020-01-01T00:00:00+00:00",
    )


def test_read_returns_what_was_written(tmp_path: Path) -> None:
    store, record = Store(tmp_path), a_record()
    assert not store.has(record.run)
    store.write(record)
    assert store.has(record.run)
    assert store.read() == [record]
    assert record["m"] == 10
    assert record["rms"] == 0.5


def test_key_depends_on_everything_except_the_order_of_settings() -> None:
    run = a_run()
    reordered = a_run(settings={"n": [5, 6], "m": 10, "method": "SCNN"})
    assert run.key == reordered.key
    assert run == reordered
    others = [
        a_run(seed=4),
        a_run(embedded=False),
        a_run(scale="paper"),
        a_run(group="times"),
        a_run(settings={"method": "SCNN", "m": 11, "n": [5, 6]}),
        a_run(settings={"method": "SCNN", "m": 10, "n": [5, 7]}),
    ]
    assert len({run.key, *(other.key for other in others)}) == len(others) + 1


def test_runs_that_differ_only_in_lists_have_different_files(tmp_path: Path) -> None:
    other = a_run(settings={"method": "SCNN", "m": 10, "n": [5, 7]})
    assert Store(tmp_path).path(a_run()) != Store(tmp_path).path(other)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"format": 99}', '{"format": 1}', "null", '{"format": 1, "scale": "x"}'],
)
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "smoke" / "records" / "pca" / "odd.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(PaperError, match=r"odd\.json is not a valid record"):
        Store(tmp_path).read()


def test_other_formats_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(a_record())
    (path,) = tmp_path.glob("*/records/*/*.json")
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(PaperError, match="its format is 2, not 1"):
        store.read()


def test_truncated_records_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(a_record())
    (path,) = tmp_path.glob("*/records/*/*.json")
    text = path.read_text()
    for end in range(0, len(text) - 2, 37):
        path.write_text(text[:end])
        with pytest.raises(PaperError, match="is not a valid record"):
            read_record(path)


def test_numbers_that_json_lacks_are_not_written(tmp_path: Path) -> None:
    record = Record(a_run(), {"rms": float("nan")}, 1.0, {}, {}, "")
    with pytest.raises(ValueError, match="JSON"):
        Store(tmp_path).write(record)
    assert not list(tmp_path.rglob("*.json"))


def test_failed_write_keeps_the_old_file_and_leaves_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, "old")

    def fail(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_record_says_how_it_was_obtained(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(a_record())
    content = json.loads(next(tmp_path.glob("*/records/*/*.json")).read_text())
    assert {"lincode", "numpy", "scipy", "scikit-learn", "python"} <= set(content["versions"])
    assert content["data"]["sha256"]
    assert content["seconds"] == 1.25
    assert content["seed"] == 3


def test_file_names_say_what_their_numbers_are(tmp_path: Path) -> None:
    assert Store(tmp_path).path(a_run()).name == f"scnn-m-10-seed-3-{a_run().key}.json"


def test_record_has_commit_cores_and_parameters(tmp_path: Path) -> None:
    parameters = {"SCNN": {"tol": 0.1, "init": "data", "callback": None}}
    record = replace(a_record(), commit="abc", cores=4, parameters=parameters)
    Store(tmp_path).write(record)
    (found,) = Store(tmp_path).read()
    assert found == record
    content = json.loads(next(tmp_path.glob("*/records/*/*.json")).read_text())
    assert (content["commit"], content["cores"]) == ("abc", 4)
    assert content["parameters"]["SCNN"]["callback"] is None


def test_records_of_an_older_version_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records without a version, which have version 1, are too."""
    store = Store(tmp_path)
    store.write(a_record())
    (path,) = tmp_path.glob("*/records/*/*.json")
    content = json.loads(path.read_text())
    del content["version"]
    path.write_text(json.dumps(content))
    assert len(store.read()) == 1
    assert store.has(a_run())
    monkeypatch.setitem(VERSIONS, "pca", 2)
    assert store.read() == []
    assert not store.has(a_run())
    store.write(a_record(a_run()))
    assert len(store.read()) == 1


def test_commit_is_a_hash() -> None:
    assert commit() == "unknown" or len(commit().removesuffix("-modified")) == 40
