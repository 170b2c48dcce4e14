"""The chapters of the report, one for each experiment, and the HTML page."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jinja2

from paper.cache import Record, Run, Scale
from paper.experiments import EXPERIMENTS
from paper.experiments.claims import NOT_JUDGED, REPRODUCED, Claim, Tally
from paper.experiments.tables import Experiment, Table, duration

CHOSEN = ("lam", "lams", "noise", "encoder_ridge", "zeros", "Cs", "trainer")
"""The settings that are chosen on validation data, and those that list their values."""
LONG = 40
"""The number of characters that fit on a line of the first column of a table."""


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
        """What was not run, in words."""
        planned = [f"{len(self.missing)} of {len(self.plan)} planned runs."] if self.missing else []
        return [*self.experiment.texts("not_run"), *planned]

    @property
    def command(self) -> str:
        """The command that makes the records."""
        run = min((record.run for record in self.records), key=lambda run: run.seed)
        words = ["python -m paper reproduce", self.experiment.id, "--scale", run.scale]
        words += ["--embedded"] if run.embedded else ["--data-dir DATA"]
        return " ".join(words + ([f"--seed {run.seed}"] if run.seed else []))

    def caption(self, name: str) -> str:
        """Return what a figure shows."""
        return f"{self.experiment.caption(name)} Data: {self.data}."


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
    return Chapter(experiment, own, plan, claims, tables, data)


def point_of(run: Run) -> str:
    """Return what identifies a run, except its seed and what is chosen on validation data."""
    settings = {k: v for k, v in run.settings.items() if k not in CHOSEN}
    return json.dumps([run.group, settings], sort_keys=True)


@dataclass(frozen=True)
class Row:
    """A claim on the page, with its number; claims that are not counted have none."""

    number: int | None
    chapter: Chapter
    claim: Claim

    @property
    def css_class(self) -> str:
        """The class of the outcome."""
        return self.claim.outcome.replace(" ", "-")


@dataclass(frozen=True)
class Explanation:
    """Why claims were not reproduced, and the experiments that show it."""

    numbers: Sequence[int]
    text: str
    shown_by: Sequence[str]

    @property
    def subject(self) -> str:
        """The numbers of the claims in words."""
        if not self.numbers:
            return "Results that are not counted"
        *others, last = map(str, self.numbers)
        return f"Claims {', '.join(others)} and {last}" if others else f"Claim {last}"


def make_page(chapters: Sequence[Chapter], scale: str, figures: Mapping[str, bytes]) -> str:
    """Return the HTML page, which contains its figures and needs no other file."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        base64=lambda content: b64encode(content).decode(),
        duration=duration,
        numeric_columns=numeric_columns,
        has_long_names=lambda table: any(len(row[0]) > LONG for row in table.rows),
    )
    rows = list(numbered(chapters))
    records = {record.run.key: record for chapter in chapters for record in chapter.records}
    shown = {chapter.experiment.id for chapter in chapters}
    page = environment.get_template("page.html.j2").render(
        chapters=chapters,
        figures=figures,
        rows=rows,
        explanations={
            chapter.experiment.id: list(explanations(rows, chapter)) for chapter in chapters
        },
        titles={x.id: x.title.partition(":")[0] for x in EXPERIMENTS.values()},
        without_records=[x.title for x in EXPERIMENTS.values() if x.id not in shown],
        scale=scale,
        tally=Tally.of(row.claim for row in rows),
        n_records=len(records),
        seconds=sum(record.seconds for record in records.values()),
        embedded=sorted({chapter.data for chapter in chapters if chapter.embedded}),
    )
    return page.replace(" %", "\N{NO-BREAK SPACE}%")


def numbered(chapters: Sequence[Chapter]) -> Iterator[Row]:
    """Yield all claims. Those that are counted are numbered from 1."""
    number = 0
    for chapter in chapters:
        for claim in chapter.claims:
            number += claim.counted
            yield Row(number if claim.counted else None, chapter, claim)


def explanations(rows: Sequence[Row], chapter: Chapter) -> Iterator[Explanation]:
    """Yield each explanation of a chapter once, with the claims that it is about."""
    found: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for row in rows:
        claim = row.claim
        if row.chapter is chapter and claim.why and claim.outcome not in (REPRODUCED, NOT_JUDGED):
            numbers = found.setdefault((claim.why, tuple(claim.shown_by)), [])
            numbers += [row.number] if row.number is not None else []
    for (text, shown_by), numbers in found.items():
        yield Explanation(numbers, text, shown_by)


def numeric_columns(table: Table) -> list[bool]:
    """Return for each column whether it contains numbers, which are aligned to the right."""
    return [any(row[k][:1].isdigit() for row in table.rows) for k in range(len(table.columns))]
