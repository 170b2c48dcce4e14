"""Results in Markdown files, between comments that name them.

``<!-- begin tally -->`` and ``<!-- end tally -->`` enclose the sentence with the number of claims
by outcome, ``<!-- begin table mnist-units -->`` and ``<!-- end table mnist-units -->`` a table, and
``<!-- begin figure competitors -->`` and ``<!-- end figure competitors -->`` a figure.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from paper.errors import PaperError
from paper.experiments.claims import Tally
from paper.experiments.records import write_atomically
from paper.experiments.registry import EXPERIMENTS
from paper.report.chapters import Chapter
from paper.report.tables import markdown_lines

NOT_RUN = "\nNot run yet.\n\n"
BLOCK = re.compile(r"(<!-- begin (?P<name>[^>]+) -->\n?).*?(<!-- end (?P=name) -->)", re.DOTALL)


def update_file(path: Path, chapters: Sequence[Chapter], figures: Path) -> None:
    """Replace the results in a Markdown file by those of the chapters.

    ``figures`` is the folder with the figures.
    """
    text = path.read_text(encoding="utf-8")
    folder = Path(os.path.relpath(figures, path.parent)).as_posix()
    write_atomically(path, update_text(text, chapters, folder))


def update_text(text: str, chapters: Sequence[Chapter], folder: str) -> str:
    """Return a text in which everything between the comments is new.

    ``folder`` is the address of the folder with the figures.
    """
    results = {
        **{f"figure {name}": NOT_RUN for x in EXPERIMENTS.values() for name in x.plots},
        **{
            f"figure {name}": f"\n![{chapter.caption(name)}]({folder}/{name}.png)\n\n"
            for chapter in chapters
            for name in chapter.experiment.plots
        },
        "tally": Tally.of(claim for chapter in chapters for claim in chapter.claims).sentence,
        **{
            f"table {table.name}": "\n" + "\n".join(markdown_lines(table)) + "\n\n"
            for chapter in chapters
            for table in chapter.tables
        },
    }

    def replaced(match: re.Match[str]) -> str:
        if match["name"] not in results:
            raise PaperError(
                f"There are no results for the comment `begin {match['name']}`. It must be one of"
                f" {', '.join(results)}."
            )
        return f"{match[1]}{results[match['name']]}{match[3]}"

    return BLOCK.sub(replaced, text)
