"""What all experiments share: runs, records, claims, tables and the formatting of numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd

Scale = Literal["smoke", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "paper")
METHOD = 1
"""Part of the key of every run. Increase it when a change of the code changes what is measured."""


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
        """The short settings in one line, for messages and file names."""
        short = [str(v) for v in self.settings.values() if isinstance(v, str | int | float)]
        return " ".join([self.group, *short, f"seed {self.seed}"])

    @cached_property
    def key(self) -> str:
        """A hash of all that determines the result. The order of the settings does not matter."""
        parts = [METHOD, self.group, self.scale, self.seed, self.embedded, dict(self.settings)]
        text = json.dumps(parts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True)
class Record:
    """The result of a run, and how it was obtained."""

    run: Run
    result: Mapping[str, Any]
    seconds: float
    data: Mapping[str, str]
    """Name and sha256 of the samples"""
    versions: Mapping[str, str]
    finished: str

    def __getitem__(self, name: str) -> Any:
        """Return a setting or a result by its name."""
        return self.run.settings[name] if name in self.run.settings else self.result[name]


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, the numbers of the paper and of the runs, and the outcome."""

    sentence: str
    paper: str
    here: str
    reproduced: bool | None
    """None if the claim was not judged"""
    inconclusive: bool = False
    """Whether the claim was not judged because the difference is within chance"""

    @property
    def outcome(self) -> str:
        """The outcome in words."""
        if self.inconclusive:
            return "inconclusive"
        return {True: "reproduced", False: "not reproduced", None: "not judged"}[self.reproduced]


@dataclass(frozen=True)
class Table:
    """A table of texts and numbers."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    data: str = ""
    """The data of the experiment, which the report adds"""

    @property
    def caption(self) -> str:
        """Title and data."""
        return f"{self.title}. Data: {self.data}." if self.data else f"{self.title}."


class Plot(Protocol):
    """A function that plots records on an empty matplotlib figure."""

    def __call__(self, figure: Any, records: Sequence[Record]) -> None: ...


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper."""

    id: str
    title: str
    """The number of the figure or table, and what it shows"""
    needs: Literal["mnist", "bsds300"]
    description: str
    """The procedure at the paper's scale, and the choices that the paper leaves open"""
    runs: Callable[[Scale, int, bool], list[Run]]
    """(scale, seed, embedded): all runs of a complete reproduction"""
    claims: Callable[[Sequence[Record]], list[Claim]]
    tables: Callable[[Sequence[Record]], list[Table]]
    plots: Mapping[str, Plot] = field(default_factory=dict)
    """The plots by the names of their files"""
    if_not_reproduced: str = ""
    """What was tried when a claim was not reproduced, and the likely reason"""


def claim_from_difference(
    sentence: str, paper: str, here: str, difference: float, tolerance: float
) -> Claim:
    """Return a claim that is reproduced if ``difference`` is positive.

    It is inconclusive if the absolute difference is at most ``tolerance``.
    """
    inconclusive = bool(abs(difference) <= tolerance)
    reproduced = None if inconclusive else bool(difference > 0)
    return Claim(sentence, paper, here, reproduced, inconclusive)


def best_by_key(found: Iterable[tuple[Any, float, Any]]) -> dict[Any, Any]:
    """Return for each key the value with the smallest error, of (key, error, value) tuples.

    Of equal errors the first is chosen.
    """
    best: dict[Any, tuple[float, Any]] = {}
    for key, error, value in found:
        if key not in best or error < best[key][0]:
            best[key] = error, value
    return {key: value for key, (_, value) in best.items()}


def collect(values: Iterable[tuple[str, Any, Any]], rows: Iterable[str]) -> pd.DataFrame:
    """Collect (row, column, value) tuples into a table of lists of values.

    ``rows`` is the order of the rows. Columns are in ascending order. A cell without a value is
    NaN.
    """
    data = pd.DataFrame(values, columns=["row", "column", "value"])
    table = data.groupby(["row", "column"])["value"].agg(list).unstack()
    return table.reindex([name for name in rows if name in table.index])


def complete_means(lists: pd.DataFrame, rows: Iterable[str]) -> pd.DataFrame:
    """Return the means of a table of lists, for the columns that have values in all ``rows``.

    The table is empty if there is no such column.
    """
    complete = lists.reindex(list(rows)).dropna(axis="columns")
    return complete.map(lambda values: float(np.mean(values)))


def table_of(
    name: str, title: str, corner: str, lists: pd.DataFrame, cell: Callable[[Any], str]
) -> Table:
    """Return a table of lists with each list as text, and empty cells where there is none."""
    texts = lists.map(lambda values: cell(values) if isinstance(values, list) else "")
    rows = [[row, *cells] for row, cells in zip(texts.index, texts.to_numpy(), strict=True)]
    return Table(name, title, [corner, *map(str, texts.columns)], rows)


def mean_and_deviation(values: Sequence[float], form: str, unit: float = 1.0) -> str:
    """Return the mean and, of several values, the standard deviation as text."""
    mean = f"{unit * float(np.mean(values)):{form}}"
    return mean if len(values) < 2 else f"{mean} ± {unit * float(np.std(values)):{form}}"


def duration(seconds: float) -> str:
    """Return a number of seconds as text, in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.3g} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def points(fraction: float) -> str:
    """Return a difference of fractions in percentage points: 0.123 is "12.3 points"."""
    return f"{100 * fraction:.1f} points"


def percent(fraction: float, digits: int = 1) -> str:
    """Return a fraction as a percentage: 0.1234 is "12.3 %"."""
    return f"{100 * fraction:.{digits}f} %"
