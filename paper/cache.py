"""The cache of the experiments: runs, their records as JSON files, and the runs that are missing.

Each process writes the record of a run before it starts the next one. So the work can be stopped
at any time, and the same command continues with the runs that have no record.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import joblib
from threadpoolctl import threadpool_limits

from paper.errors import PaperError, RunsFailedError
from paper.samples import Samples

Scale = Literal["smoke", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "paper")
FORMAT = 1
VERSIONS = {"digits-components": 2, "digits-input-size": 2, "missing-pixels": 2}
"""Part of the key of the runs of a group; 1 if it is not listed. Increase it when a change of the
code changes what is measured: records of an older version are ignored and their runs are missing.
"""


@dataclass(frozen=True)
class Run:
    """The smallest unit of work, which gives one record."""

    group: str
    """The experiment that measures the run; other experiments may use its record too"""
    scale: Scale
    seed: int
    embedded: bool
    """Whether data from scikit-learn are used instead of the paper's"""
    settings: Mapping[str, Any]
    """Everything else that determines the result, such as sizes and the network; JSON values"""

    @property
    def label(self) -> str:
        """The short settings in one line. Numbers are preceded by their names."""
        short = [
            value if isinstance(value, str) else f"{name}={value}"
            for name, value in self.settings.items()
            if isinstance(value, str | int | float)
        ]
        return " ".join([self.group, *short, f"seed={self.seed}"])

    @property
    def version(self) -> int:
        """The version of the code that measures the run."""
        return VERSIONS.get(self.group, 1)

    @cached_property
    def key(self) -> str:
        """A hash of all that determines the result. The order of the settings does not matter."""
        where = [self.version, self.group, self.scale, self.seed, self.embedded]
        text = json.dumps([*where, dict(self.settings)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True)
class Record:
    """The result of a run."""

    run: Run
    result: Mapping[str, Any]
    seconds: float
    data: Mapping[str, str]
    """Name and sha256 of the samples"""

    def __getitem__(self, name: str) -> Any:
        """Return a setting or a result by its name."""
        return self.run.settings[name] if name in self.run.settings else self.result[name]


@dataclass(frozen=True)
class Cache:
    """The records in a folder, with one subfolder per scale."""

    folder: Path

    def path(self, run: Run) -> Path:
        """Return the path of the record of a run."""
        slug = re.sub(r"[^a-z0-9.]+", "-", run.label.removeprefix(run.group).lower()).strip("-")
        return self.folder / run.scale / "records" / run.group / f"{slug}-{run.key}.json"

    def write(self, record: Record, parameters: Mapping[str, Any]) -> None:
        """Write a record, with the parameters of the estimators and how it was obtained."""
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
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "commit": commit(),
            "cores": joblib.cpu_count(),
            "parameters": dict(parameters),
            "result": dict(record.result),
        }
        write_atomically(self.path(run), json.dumps(content, indent=1, allow_nan=False) + "\n")

    def read(self) -> list[Record]:
        """Return all records of the current version, sorted by the names of their files."""
        found = map(read_record, sorted(self.folder.glob("*/records/*/*.json")))
        return [record for record in found if record is not None]

    def run_missing(self, runs: Iterable[Run], data_dir: Path | None, jobs: int) -> None:
        """Measure all runs without a record, ``jobs`` at a time.

        If a run raises an exception, the others continue, and RunsFailedError is raised at the end.
        """
        planned = list(dict.fromkeys(runs))
        # The first repetitions come first, so that after an interruption there is much to report.
        missing = sorted(
            (run for run in planned if not self.path(run).exists()), key=lambda run: run.seed
        )
        print(f"{len(planned)} runs, {len(planned) - len(missing)} already complete", flush=True)
        threads = max(1, joblib.cpu_count() // jobs)
        done: Sequence[bool] = joblib.Parallel(n_jobs=jobs, batch_size=1)(
            joblib.delayed(measure)(run, self, data_dir, threads) for run in missing
        )
        if not all(done):
            raise RunsFailedError(
                f"{done.count(False)} of {len(done)} runs failed, see above. The other runs are"
                " complete and kept. The same command tries the failed runs again."
            )


def measure(run: Run, cache: Cache, data_dir: Path | None, threads: int) -> bool:
    """Measure one run and write its record; return whether it succeeded."""
    from paper.experiments import MEASURES

    samples = Samples(data_dir, run.embedded)
    start = time.perf_counter()
    try:
        with threadpool_limits(threads):
            result = dict(MEASURES[run.group](run, samples))
        seconds = time.perf_counter() - start
        parameters = result.pop("parameters", {})
        cache.write(Record(run, result, seconds, samples.given), parameters)
    except Exception:
        print(f"{run.label}: failed\n{traceback.format_exc()}", flush=True)
        return False
    print(f"{run.label}: {seconds:.3g} s", flush=True)
    return True


def read_record(path: Path) -> Record | None:
    """Return the record in a file, or None if it was made by an older version of the experiment."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']}, not {FORMAT}")
        names = ("scale", "seed", "embedded", "settings")
        run = Run(content["experiment"], *(content[name] for name in names))
        if content.get("version", 1) != run.version:
            return None
        return Record(run, content["result"], content["seconds"], content["data"])
    except (ValueError, KeyError, TypeError) as error:
        raise PaperError(
            f"{path} is not a valid record ({error}): delete it and run the same `python -m paper"
            " reproduce` command again."
        ) from error


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file and create its folder. A file that exists is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that determine the results."""
    libraries = ("lincode", "numpy", "scipy", "scikit-learn", "numba")
    return {"python": platform.python_version()} | {name: version(name) for name in libraries}


@lru_cache
def commit() -> str:
    """Return the git commit of the code of this package, or "unknown" without git.

    It ends with "-modified" if files of the code were changed after it.
    """

    def ask(*words: str) -> str:
        root = Path(__file__).parents[1]
        return subprocess.check_output(["git", *words], cwd=root, text=True).strip()

    try:
        changed = ask("status", "--porcelain", "--", "src", "paper/*.py")
        return ask("rev-parse", "HEAD") + ("-modified" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
