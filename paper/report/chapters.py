"""The chapters of the report: one experiment each, with its claims, tables and figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from paper.experiments.claims import Claim, Tally
from paper.experiments.experiment import Experiment, Record, Run, Scale, Table
from paper.experiments.registry import EXPERIMENTS
from paper.report.figures import make_figures

CHOSEN = ("lam", "lams", "noise", "encoder_ridge", "zeros", "Cs", "trainer")
"""The settings that are chosen on validation data, and those that list their values."""


@dataclass(frozen=True)
class Chapter:
    """An experiment and its results."""

    experiment: Experiment
    records: Sequence[Record]
    plan: Sequence[Run]
    """The runs of a complete reproduction"""
    claims: Sequence[Claim]
    tables: Sequence[Table]
    data: str
    """The data, and the scale if it is not that of the paper"""
    figures: Mapping[str, bytes]
    """The content of the figures by the names of their files"""

    @property
    def where(self) -> str:
        """The number of the figure or table."""
        return self.experiment.title.partition(":")[0]

    @property
    def tally(self) -> Tally:
        """The number of claims by outcome."""
        return Tally.of(self.claims)

    @property
    def seconds(self) -> float:
        """The total time of all runs."""
        return sum(record.seconds for record in self.records)

    @property
    def embedded(self) -> bool:
        """Whether data from scikit-learn were used."""
        return self.records[0].run.embedded

    @property
    def missing(self) -> list[Run]:
        """The planned runs without a record."""
        found = {record.run for record in self.records}
        return [run for run in self.plan if run not in found]

    @property
    def not_run(self) -> list[str]:
        """What was not run, in words. Runs of other chapters are described there."""
        own, others = [], []
        for run in self.missing:
            owner = EXPERIMENTS.get(run.group, self.experiment)
            if owner.id != self.experiment.id and run in planned(owner.id, run.scale, run.embedded):
                others.append(owner.title.partition(":")[0])
            else:
                own.append(run)
        lines = [f"Planned but not run: {line}." for line in describe_runs(own, self.plan)]
        lines += [f"Runs of {where} are missing (see there)." for where in dict.fromkeys(others)]
        return [*self.experiment.not_run, *lines]

    @property
    def command(self) -> str:
        """The command that makes the records."""
        run = min((record.run for record in self.records), key=lambda run: run.seed)
        words = ["python -m paper reproduce", self.experiment.id, "--scale", run.scale]
        words += ["--embedded"] if run.embedded else ["--data-dir DATA"]
        return " ".join(words + ([f"--seed {run.seed}"] if run.seed else []))

    def caption(self, name: str) -> str:
        """Return what a figure shows."""
        text = self.experiment.captions.get(name.partition(".")[0], f"{self.experiment.title}.")
        return f"{text} Data: {self.data}."


@cache
def planned(name: str, scale: Scale, embedded: bool) -> frozenset[Run]:
    """Return the runs of an experiment with the default seed."""
    return frozenset(EXPERIMENTS[name].runs(scale, 0, embedded))


def make_chapter(experiment: Experiment, records: Sequence[Record], scale: Scale) -> Chapter | None:
    """Return the chapter of an experiment, or None if it has no records.

    Only planned runs are used, with the lowest seed that has records. Real data are preferred to
    data from scikit-learn.
    """
    groups = {run.group for run in experiment.runs(scale, 0, False)}
    seeds = sorted({record.run.seed for record in records if record.run.group in groups})
    for embedded in (False, True):
        for seed in seeds:
            plan = list(dict.fromkeys(experiment.runs(scale, seed, embedded)))
            keys = set(plan)
            own = [record for record in records if record.run in keys]
            if own:
                return chapter_of(experiment, own, plan, scale)
    return None


def chapter_of(
    experiment: Experiment, own: Sequence[Record], plan: Sequence[Run], scale: Scale
) -> Chapter:
    """Return a chapter. Claims are judged only if every point that they need has a record."""
    claims = experiment.claims(own)
    needed = {point_of(run) for run in plan if experiment.used_by_claims(run)}
    if scale == "smoke" or not needed <= {point_of(record.run) for record in own}:
        claims = [replace(claim, margins=()) for claim in claims]
    data = "; ".join(sorted({record.data["name"] for record in own}))
    if scale != "paper":
        data += f"; {scale} scale"
    tables = [replace(table, data=data) for table in experiment.tables(own)]
    figures = make_figures(experiment, own)
    return Chapter(experiment, own, plan, claims, tables, data, figures)


def point_of(run: Run) -> str:
    """Return what identifies a run, except its seed and what is chosen on validation data."""
    settings = {k: v for k, v in run.settings.items() if k not in CHOSEN}
    return json.dumps([run.group, settings], sort_keys=True)


SEED = "seed"
NAMES = {
    "m": "units",
    "lam": "λ",
    "encoder_ridge": "ridge",
    "sigma": "σ",
    "reading": "σ as a",
    "n_network": "digits for the network",
}
"""What settings are called on the page"""


def describe_runs(runs: Sequence[Run], plan: Iterable[Run]) -> list[str]:
    """Return a few lines that name the runs by the settings in which the plan has several values.

    Runs that differ in one setting only are described by one line.
    """
    every = [settings_of(run) for run in plan]
    names = dict.fromkeys(name for settings in every for name in settings if name != SEED)
    names[SEED] = None
    values = {x: {settings.get(x) for settings in every} for x in names}
    varied = [x for x in names if len(values[x]) > 1]
    rows = {tuple(frozenset({settings_of(run).get(x)}) for x in varied) for run in runs}
    for k in reversed(range(len(varied))):
        merged: dict[tuple[Any, ...], frozenset[Any]] = {}
        for row in rows:
            others = row[:k] + row[k + 1 :]
            merged[others] = merged.get(others, frozenset()) | row[k]
        rows = {(*others[:k], own, *others[k:]) for others, own in merged.items()}
    lines = [
        "; ".join(
            f"{NAMES.get(x, x)}: {', '.join(map(str, sorted(own - {None}, key=sort_key)))}"
            for x, own in zip(varied, row, strict=True)
            if own != {None} and own != values[x]
        )
        for row in rows
    ]
    return sorted(line or "all" for line in lines)


def settings_of(run: Run) -> dict[str, Any]:
    """Return the settings of a run that are numbers or texts, and its seed."""
    short = {k: v for k, v in run.settings.items() if isinstance(v, str | int | float)}
    return {**short, SEED: run.seed}


def sort_key(value: Any) -> tuple[bool, Any]:
    """Sort numbers before texts."""
    return isinstance(value, str), value
