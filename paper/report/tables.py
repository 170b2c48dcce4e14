"""Tables as Markdown and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from paper.experiments.experiment import Table

if TYPE_CHECKING:
    from paper.report.chapters import Chapter


def to_markdown(table: Table) -> str:
    """Return a table with its caption as Markdown."""
    return "\n".join([table.caption, "", *markdown_lines(table)]) + "\n"


def markdown_lines(table: Table) -> list[str]:
    """Return the lines of a Markdown table."""
    rows = [table.columns, ["---"] * len(table.columns), *table.rows]
    return [markdown_row(cells) for cells in rows]


def markdown_row(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table. A bar inside a cell must be escaped."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def to_csv(table: Table) -> str:
    """Return a table as CSV, with the data in the last column."""
    frame = pd.DataFrame(table.rows, columns=table.columns)
    if table.data:
        frame["data"] = table.data
    return str(frame.to_csv(index=False, lineterminator="\n"))


def claims_table(chapters: Iterable[Chapter]) -> Table:
    """Return all claims in one table."""
    rows = [
        [
            chapter.where,
            claim.sentence,
            claim.paper,
            claim.here,
            claim.outcome,
            "yes" if claim.counted else "no",
            chapter.data,
        ]
        for chapter in chapters
        for claim in chapter.claims
    ]
    columns = ["where", "claim", "paper", "here", "outcome", "counted", "data"]
    return Table("claims", "The paper's claims and the results here", columns, rows)
