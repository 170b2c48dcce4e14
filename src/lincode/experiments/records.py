"""Records as JSON files, one a run: written whole or not at all, read with suspicion."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lincode.experiments.experiment import SCALES, Record, Run
from lincode.vectors import check_target, whole_file

FORMAT = 1
LIBRARIES = ("lincode", "numpy", "scipy", "scikit-learn", "numba")


class Store:
    """The records under a folder, those of each scale by themselves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def check(self) -> None:
        """That records can be written here, before hours of work are done for them."""
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(f"--out must be a folder, and {self.folder} is none.")
        self.folder.mkdir(parents=True, exist_ok=True)
        check_target(self.folder / "a record")

    def path(self, run: Run) -> Path:
        """Where the record of a run is. People read the name; programs read the content."""
        slug = re.sub(r"[^a-z0-9.]+", "-", run.label.removeprefix(run.group).lower()).strip("-")
        return self.folder / run.scale / "records" / run.group / f"{slug}-{run.key}.json"

    def has(self, run: Run) -> bool:
        """Whether the run is done."""
        return self.path(run).exists()

    def write(self, record: Record) -> None:
        """Keep a record."""
        run = record.run
        content = {
            "format": FORMAT,
            "experiment": run.group,
            "scale": run.scale,
            "seed": run.seed,
            "embedded": run.embedded,
            "settings": dict(run.settings),
            "data": dict(record.data),
            "seconds": round(record.seconds, 3),
            "finished": record.finished,
            "versions": dict(record.versions),
            "result": dict(record.result),
        }
        write_whole(self.path(run), json.dumps(content, indent=1, allow_nan=False) + "\n")

    def read(self) -> list[Record]:
        """All records, sorted by their files' names."""
        return [read_record(path) for path in sorted(self.folder.glob("*/records/*/*.json"))]


def read_record(path: Path) -> Record:
    """The record in a file; ValueError if it is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']}, not {FORMAT}")
        if content["scale"] not in SCALES:
            raise ValueError(f"its scale is {content['scale']!r}")
        run = Run(
            group=str(content["experiment"]),
            scale=content["scale"],
            seed=int(content["seed"]),
            embedded=bool(content["embedded"]),
            settings=dict(content["settings"]),
        )
        return Record(
            run=run,
            result=dict(content["result"]),
            seconds=float(content["seconds"]),
            data=dict(content["data"]),
            versions=dict(content["versions"]),
            finished=str(content["finished"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not a record of lincode ({error}): delete it, and the same `lincode"
            " reproduce` makes it anew."
        ) from error


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, its folder too: there, or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def versions() -> Mapping[str, str]:
    """Of Python and what the numbers hang on."""
    found: dict[str, Any] = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "none"
    return found
