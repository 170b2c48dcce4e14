"""What all experiments share: their description, tables of results, and the format of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from paper.cache import Record, Run, Scale
from paper.experiments.claims import Claim, Estimate

Plot = Callable[[Any, Sequence[Record]], None]
"""A function (figure, records) that plots records on an empty matplotlib figure."""


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


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper."""

    id: str
    title: str
    """The number of the figure or table, and what it shows"""
    needs: Literal["mnist", "bsds300"]
    runs: Callable[[Scale, bool], list[Run]]
    """(scale, embedded): all runs"""
    claims: Callable[[Sequence[Record]], list[Claim]]
    tables: Callable[[Sequence[Record]], list[Table]] = lambda records: []
    plots: Mapping[str, Plot] = field(default_factory=dict)
    """The plots by the names of their files"""


def best_repetitions(
    found: Iterable[tuple[Any, Record, Mapping[str, Any]]],
) -> dict[Any, list[tuple[Record, Mapping[str, Any]]]]:
    """Return for each key all repetitions of the settings with the smallest validation error.

    ``found`` are (key, record, result) tuples. The settings are chosen by the repetition with the
    lowest seed, which has runs for all settings; other repetitions may have runs for some only. The
    setting "starts" only says for which starts a run has results.
    """

    def chosen_settings(record: Record) -> dict[str, Any]:
        return {name: x for name, x in record.run.settings.items() if name != "starts"}

    triples = list(found)
    first = min((record.run.seed for _, record, _ in triples), default=0)
    lowest: dict[Any, float] = {}
    best: dict[Any, Any] = {}
    for key, record, result in triples:
        error = result["val_error"]
        if record.run.seed == first and error < lowest.get(key, np.inf):
            lowest[key], best[key] = error, chosen_settings(record)
    chosen: dict[Any, list[tuple[Record, Mapping[str, Any]]]] = {key: [] for key in best}
    for key, record, result in sorted(triples, key=lambda triple: triple[1].run.seed):
        if key in best and chosen_settings(record) == best[key]:
            chosen[key].append((record, result))
    return chosen


def collect(values: Iterable[tuple[str, Any, Any]], rows: Iterable[str]) -> pd.DataFrame:
    """Collect (row, column, value) tuples into a table of lists of values.

    ``rows`` is the order of the rows. Columns are in ascending order. A cell without a value is
    NaN.
    """
    data = pd.DataFrame(values, columns=["row", "column", "value"])
    table = data.groupby(["row", "column"])["value"].agg(list).unstack()
    return table.reindex([name for name in rows if name in table.index])


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
    return mean if len(values) < 2 else f"{mean} ± {unit * deviation(values):{form}}"


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation over repetitions, 0 if there is one repetition only."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def points(fraction: float) -> str:
    """Return a difference of fractions in percentage points: 0.123 is "12.3 points"."""
    return f"{100 * fraction:.1f} points".replace("-", "−")


def plus_minus(estimate: Estimate, digits: int = 1) -> str:
    """Return a fraction and its standard error in points: "12.3±0.4"."""
    value, error = (f"{100 * x:.{digits}f}" for x in (estimate.value, estimate.error))
    return f"{value}±{error}".replace("-", "−")


def span(values: Iterable[float], form: str) -> str:
    """Return the smallest and the largest of some values as text, without exponents."""
    every = [float(f"{value:{form}}") for value in values]
    form = "g" if form.endswith("g") else form
    low, high = (f"{value:{form}}".replace("-", "−") for value in (min(every), max(every)))
    return low if low == high else f"{low} to {high}" if min(every) < 0 else f"{low}–{high}"


def percent(fraction: float, digits: int = 1) -> str:
    """Return a fraction as a percentage: 0.1234 is "12.3 %"."""
    return f"{100 * fraction:.{digits}f} %"
