"""Tables as Markdown and CSV."""

from __future__ import annotations

import csv as csv_module
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING

from lincode.experiments.experiment import Claim, Table

if TYPE_CHECKING:
    from lincode.experiments.report import Chapter


def markdown(table: Table) -> str:
    """A table with its caption."""
    lines = [table.caption, "", row(table.columns), row(["---" for _ in table.columns])]
    return "\n".join([*lines, *(row(cells) for cells in table.rows)]) + "\n"


def row(cells: Sequence[str]) -> str:
    """A line of Markdown; bars within a cell would end it."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def csv(table: Table) -> str:
    """A table with its data in a last column."""
    columns, rows = table.columns, table.rows
    if table.data:
        columns, rows = [*columns, "data"], [[*cells, table.data] for cells in rows]
    text = StringIO()
    csv_module.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()


def claims_table(chapters: Iterable[Chapter]) -> Table:
    """All claims in one table, each with its data."""
    rows = [
        [
            chapter.experiment.title.partition(":")[0], claim.sentence, claim.paper, claim.ours,
            verdict(claim), chapter.data,
        ]
        for chapter in chapters
        for claim in chapter.claims
    ]  # fmt: skip
    columns = ["where", "claim", "paper", "here", "verdict", "data"]
    return Table("claims", "The paper's claims, and what came out here", columns, rows)


def verdict(claim: Claim) -> str:
    """In words."""
    if claim.close:
        return "too close to say"
    return {True: "holds", False: "does not hold", None: "not judged"}[claim.holds]
