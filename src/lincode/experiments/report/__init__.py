"""Figures, tables and one page, drawn from records alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lincode.experiments.experiment import SCALES, Claim, Experiment, Record, Run, Scale, Table
from lincode.experiments.records import Store, write_whole
from lincode.experiments.registry import EXPERIMENTS
from lincode.experiments.report.figures import draw_figures
from lincode.experiments.report.page import page
from lincode.experiments.report.tables import claims_table, csv, markdown


@dataclass(frozen=True)
class Chapter:
    """An experiment and all that is to be said of it."""

    experiment: Experiment
    records: Sequence[Record]
    n_runs: int
    """In a full reproduction"""
    claims: Sequence[Claim]
    tables: Sequence[Table]
    data: str
    """What it ran on, and the scale if it is not the paper's"""

    @property
    def seconds(self) -> float:
        """Of all its runs."""
        return sum(record.seconds for record in self.records)


def write_report(out: Path, scale: Scale | None = None) -> Path:
    """Draw all there is of one scale, beside its records; the page's path.

    Parameters
    ----------
    out : Path
        Where ``lincode reproduce`` put its records.
    scale : {"smoke", "paper"} or None
        None means paper if there are such records.
    """
    records = Store(out).read()
    there = {record.run.scale for record in records}
    if not records or scale not in {None, *there}:
        what = f" of {scale} scale" if records else ""
        raise ValueError(
            f"{out} has no records{what} to draw from: run `lincode reproduce all --out {out}`"
            f"{f' --scale {scale}' if scale else ''} first, or give the folder that has them."
        )
    shown = scale if scale is not None else max(there, key=SCALES.index)
    folder = out / shown
    own = [record for record in records if record.run.scale == shown]
    chapters = [
        chapter for x in EXPERIMENTS.values() if (chapter := chapter_of(x, own, shown)) is not None
    ]
    pictures = {c.experiment.id: draw_figures(c.experiment, c.records) for c in chapters}
    for drawn in pictures.values():
        for name, content in drawn.items():
            write_whole(folder / "figures" / name, content)
    for table in [*(t for c in chapters for t in c.tables), claims_table(chapters)]:
        write_whole(folder / "tables" / f"{table.name}.md", markdown(table))
        write_whole(folder / "tables" / f"{table.name}.csv", csv(table))
    write_whole(folder / "index.html", page(chapters, pictures, shown))
    return folder / "index.html"


def chapter_of(experiment: Experiment, records: Sequence[Record], scale: Scale) -> Chapter | None:
    """The chapter of an experiment; None if none of its runs has a record.

    Only records of runs that are planned count, for the lowest seed there is; where there are some
    of embedded and some of real data, the real.
    """
    groups = {run.group for run in experiment.runs(scale, 0, False)}
    seeds = sorted({record.run.seed for record in records if record.run.group in groups})
    for embedded in (False, True):
        for seed in seeds:
            plan = list(dict.fromkeys(experiment.runs(scale, seed, embedded)))
            planned = set(plan)
            own = [record for record in records if record.run in planned]
            if own:
                return chapter(experiment, own, plan)
    return None


def chapter(experiment: Experiment, own: Sequence[Record], plan: Sequence[Run]) -> Chapter:
    """Claims are judged once each point has a record, if not of every λ and draw."""
    claims = experiment.claims(own)
    done = {point(record.run) for record in own}
    if any(run.scale == "smoke" or point(run) not in done for run in plan):
        claims = [replace(claim, holds=None, close=False) for claim in claims]
    labels = "; ".join(sorted({record.data["name"] for record in own}))
    if plan[0].scale != "paper":
        labels += f"; {plan[0].scale} scale"
    tables = [replace(table, data=labels) for table in experiment.tables(own)]
    return Chapter(experiment, own, len(plan), claims, tables, labels)


def point(run: Run) -> str:
    """What a run is of, but for what is chosen on validation data, and the draw."""
    settings = {k: v for k, v in run.settings.items() if k not in ("lam", "noise")}
    return json.dumps([run.group, settings], sort_keys=True)
