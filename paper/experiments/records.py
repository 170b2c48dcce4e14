"""Records as JSON files, one file per run."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lincode.io import atomic_write
from paper.errors import PaperError
from paper.experiments.experiment import SCALES, UNKNOWN, Record, Run

FORMAT = 1
LIBRARIES = ("lincode", "numpy", "scipy", "scikit-learn", "numba")


class Store:
    """The records in a folder, with one subfolder per scale."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def check_writable(self) -> None:
        """Raise PaperError if records cannot be written, before any run starts."""
        try:
            write_atomically(self.folder / ".writable", "")
            (self.folder / ".writable").unlink()
        except OSError as error:
            raise PaperError(
                f"--out must be a folder in which files can be written, but for {self.folder} the"
                f" operating system reports: {error.strerror}."
            ) from error

    def path(self, run: Run) -> Path:
        """Return the path of the record of a run."""
        slug = re.sub(r"[^a-z0-9.]+", "-", run.label.removeprefix(run.group).lower()).strip("-")
        return self.folder / run.scale / "records" / run.group / f"{slug}-{run.key}.json"

    def has(self, run: Run) -> bool:
        """Return whether the run has a record."""
        return self.path(run).exists()

    def write(self, record: Record) -> None:
        """Write a record."""
        run = record.run
        content = {
            "format": FORMAT,
            "experiment": run.group,
            "scale": run.scale,
            "version": run.version,
            "seed": run.seed,
            "embedded": run.embedded,
            "settings": dict(run.settings),
            "data": dict(record.data),
            "seconds": round(record.seconds, 3),
            "finished": record.finished,
            "versions": dict(record.versions),
            "commit": record.commit,
            "cores": record.cores,
            "parameters": dict(record.parameters),
            "result": dict(record.result),
        }
        write_atomically(self.path(run), json.dumps(content, indent=1, allow_nan=False) + "\n")

    def read(self) -> list[Record]:
        """Return all records of the current version, sorted by the names of their files."""
        found = map(read_record, sorted(self.folder.glob("*/records/*/*.json")))
        return [record for record in found if record is not None]


def read_record(path: Path) -> Record | None:
    """Return the record in a file, or None if it was made by an older version of the experiment.

    Raises PaperError if the file is not a record.
    """
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
        if int(content.get("version", 1)) != run.version:
            return None
        return Record(
            run=run,
            result=dict(content["result"]),
            seconds=float(content["seconds"]),
            data=dict(content["data"]),
            versions=dict(content["versions"]),
            finished=str(content["finished"]),
            commit=str(content.get("commit", UNKNOWN)),
            cores=int(content.get("cores", 0)),
            parameters=dict(content.get("parameters", {})),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PaperError(
            f"{path} is not a valid record ({error}): delete it and run the same `python -m paper"
            " reproduce` command again."
        ) from error


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file and create its folder. After an error the old file is unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def versions() -> Mapping[str, str]:
    """Return the versions of Python and of the libraries that determine the results."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "none"
    return found


@lru_cache
def commit() -> str:
    """Return the git commit of the code of this package, or "unknown" without git.

    It ends with "-modified" if files of the code were changed after it.
    """
    root = Path(__file__).parents[2]
    git = shutil.which("git")
    if git is None:
        return UNKNOWN

    def ask(*words: str) -> str:
        done = subprocess.run([git, *words], cwd=root, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    found = ask("rev-parse", "HEAD")
    if not found:
        return UNKNOWN
    changed = ask("status", "--porcelain", "--", "src", "paper/*.py")
    return f"{found}-modified" if changed else found
