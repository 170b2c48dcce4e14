"""Tables as Markdown and CSV."""

from __future__ import annotations

import csv as csv_module
from collections.abc import Iterable, Sequence
from io import StringIO

from lincode.experiments.experiment import Claim, Table


def markdown(table: Table, caption: str) -> str:
    """A table with its caption; numbers to the right."""
    lines = [caption, "", row(table.columns), row(["---", *("---:" for _ in table.columns[1:])])]
    return "\n".join([*lines, *(row(cells) for cells in table.rows)]) + "\n"


def row(cells: Sequence[str]) -> str:
    """A line of Markdown; bars within a cell would end it."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def csv(table: Table, caption: str) -> str:
    """A table with its caption as a comment on the first line."""
    text = StringIO()
    text.write(f"# {caption}\n")
    csv_module.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
    return text.getvalue()


def claims_table(chapters: Iterable[tuple[str, Sequence[Claim]]]) -> Table:
    """All claims in one table."""
    rows = [
        [title.partition(":")[0], claim.sentence, claim.paper, claim.ours, verdict(claim)]
        for title, claims in chapters
        for claim in claims
    ]
    columns = ["where", "claim", "paper", "here", "verdict"]
    return Table("claims", "The paper's claims, and what came out here", columns, rows)


def verdict(claim: Claim) -> str:
    """In words."""
    return "holds" if claim.holds else "does not hold"
