"""The words of an experiment: a run, its record, a claim and its verdict, an experiment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np

Scale = Literal["smoke", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "paper")
METHOD = 1
"""Part of every run's key: raise it when code changes what runs measure, so that none is mixed."""


@dataclass(frozen=True)
class Run:
    """One piece of work: what is lost at most when a reproduction is stopped."""

    group: str
    """The experiment that measures it; others may draw from it"""
    scale: Scale
    seed: int
    embedded: bool
    """Whether on data that come with scikit-learn, in place of the paper's"""
    settings: Mapping[str, Any]
    """Sizes, grids, the network: all that fixes the answer besides seed and data; as JSON"""

    @property
    def label(self) -> str:
        """For people: the short settings in one line."""
        short = [str(v) for v in self.settings.values() if isinstance(v, str | int | float)]
        return " ".join([self.group, *short, f"seed {self.seed}"])

    @cached_property
    def key(self) -> str:
        """For machines: the same for the same work, whatever the order of its settings."""
        parts = [METHOD, self.group, self.scale, self.seed, self.embedded, dict(self.settings)]
        text = json.dumps(parts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True)
class Record:
    """What came out of a run, with all one needs to believe it."""

    run: Run
    result: Mapping[str, Any]
    seconds: float
    data: Mapping[str, str]
    """Name and sha256 of the samples"""
    versions: Mapping[str, str]
    finished: str

    def __getitem__(self, name: str) -> Any:
        """A setting or a result by its name."""
        return self.run.settings[name] if name in self.run.settings else self.result[name]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper (or a goal of ours), the numbers, and whether it holds here."""

    sentence: str
    paper: str
    ours: str
    holds: bool | None
    """None where it cannot be judged"""
    close: bool = False
    """That it cannot because the numbers are too close, not for want of runs"""


@dataclass(frozen=True)
class Table:
    """Rows of words and numbers."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    data: str = ""
    """What it is of: filled in by the report, shown wherever the table is"""

    @property
    def caption(self) -> str:
        """Title and data."""
        return f"{self.title}. Data: {self.data}." if self.data else f"{self.title}."


class Draw(Protocol):
    """Draws on an empty matplotlib figure."""

    def __call__(self, figure: Any, records: Sequence[Record]) -> None: ...


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper: its runs, how one is measured, and what to make of them."""

    id: str
    title: str
    """Where in the paper, and what it shows"""
    needs: Literal["mnist", "bsds300"]
    about: str
    """A paragraph: what is done at the paper's scale, and the choices the paper leaves open"""
    runs: Callable[[Scale, int, bool], list[Run]]
    """(scale, seed, embedded): all runs of a full reproduction"""
    claims: Callable[[Sequence[Record]], list[Claim]]
    tables: Callable[[Sequence[Record]], list[Table]]
    figures: Mapping[str, Draw] = field(default_factory=dict)
    """By name of the file"""
    tried: str = ""
    """Where a claim does not hold: what was tried, and what seems to be the reason"""


def weighed(sentence: str, paper: str, ours: str, difference: float, chance: float) -> Claim:
    """A claim that holds if a difference is above 0, and is open if chance may have made it."""
    close = abs(difference) <= chance
    return Claim(sentence, paper, ours, None if close else difference > 0, close)


def chosen(found: Iterable[tuple[Any, float, Any]]) -> dict[Any, Any]:
    """Of (key, validation error, value) by key the value that errs least, the first of equals."""
    least: dict[Any, tuple[float, Any]] = {}
    for key, error, value in found:
        if key not in least or error < least[key][0]:
            least[key] = error, value
    return {key: value for key, (_, value) in least.items()}


def common(
    found: Mapping[str, Mapping[Any, Any]], names: Iterable[str]
) -> dict[str, dict[Any, Any]]:
    """Points that all of the names have: what can be compared while runs are missing."""
    sets = [set(found.get(name, {})) for name in names]
    shared = sorted(set.intersection(*sets))
    return {name: {x: found[name][x] for x in shared} for name in names} if shared else {}


def mean_and_deviation(values: Any, form: str) -> str:
    """The mean, and where there are several values their deviation, as text."""
    mean = format(float(np.mean(values)), form)
    return mean if np.size(values) < 2 else f"{mean} ± {float(np.std(values)):{form}}"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.3g} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def points(share: float) -> str:
    """0.123 as "12.3 points": of a difference of percentages."""
    return f"{100 * share:.1f} points"


def percent(share: float, digits: int = 1) -> str:
    """0.1234 as "12.3 %"."""
    return f"{100 * share:.{digits}f} %"
