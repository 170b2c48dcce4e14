"""Reports of random results, and a reader of the page."""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from paper.experiments.experiment import Record, Run, Scale
from paper.experiments.records import Store, versions
from paper.experiments.registry import EXPERIMENTS

from tests.paper.random_results import random_result

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "paper" / "results"


def write_records(
    out: Path,
    scale: Scale = "paper",
    experiments: Sequence[str] = tuple(EXPERIMENTS),
    embedded: bool = False,
    fraction: float = 1.0,
    only: Sequence[Run] = (),
) -> int:
    rng = np.random.default_rng(0)
    planned = {run for x in experiments for run in EXPERIMENTS[x].runs(scale, 0, embedded)}
    runs = set(only) or planned
    chosen = sorted(runs, key=lambda run: run.key)[: max(1, round(fraction * len(runs)))]
    for run in chosen:
        name = "embedded: other data" if embedded else "MNIST"
        data = {"name": name, "sha256": "0"}
        Store(out).write(Record(run, random_result(run, rng), 2.0, data, versions(), "now"))
    return len(chosen)


class Reader(HTMLParser):
    """A parser that checks that tags are closed and collects links, ids and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        named = dict(attrs)
        self.links += [named[k] for k in ("src", "href") if k in named]
        self.ids += [named["id"]] if "id" in named else []
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data.replace("\N{NO-BREAK SPACE}", " ")


def read(page: Path) -> Reader:
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    assert reader.open == []
    return reader


def figure_names() -> set[str]:
    return {name for x in EXPERIMENTS.values() for name in x.plots}
