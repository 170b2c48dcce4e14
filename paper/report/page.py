"""The HTML page of the report."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from paper.experiments.claims import NOT_JUDGED, REPRODUCED, RULE, Claim, Tally
from paper.experiments.experiment import Table, duration
from paper.experiments.registry import EXPERIMENTS
from paper.report.chapters import Chapter


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


def make_page(chapters: Sequence[Chapter], scale: str) -> str:
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
        is_wide=is_wide,
        has_long_names=has_long_names,
    )
    rows = list(numbered(chapters))
    records = {record.run.key: record for chapter in chapters for record in chapter.records}
    shown = {chapter.experiment.id for chapter in chapters}
    page = environment.get_template("page.html.j2").render(
        chapters=chapters,
        rows=rows,
        explanations={
            chapter.experiment.id: list(explanations(rows, chapter)) for chapter in chapters
        },
        titles={x.id: x.title.partition(":")[0] for x in EXPERIMENTS.values()},
        without_records=[x.title for x in EXPERIMENTS.values() if x.id not in shown],
        rule=RULE,
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


def is_wide(svg: bytes) -> bool:
    """Return whether a figure is wider than the default of 6.4 inches, of 72 points each."""
    width = re.search(rb'<svg[^>]* width="([0-9.]+)pt"', svg)
    return width is not None and float(width[1]) > 6.5 * 72


def has_long_names(table: Table) -> bool:
    """Return whether the first column of a table must be broken into lines."""
    return any(len(row[0]) > LONG for row in table.rows)


LONG = 40
"""The number of characters that fit on a line of the first column of a table"""
