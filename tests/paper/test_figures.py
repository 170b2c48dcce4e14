"""What the figures show: shifted lines, ratios, and the markers of the chosen λ."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from paper.experiments import accuracy_sparsity, digits_components, missing_pixels, sparsity
from paper.experiments.digit_accuracies import chosen
from paper.experiments.experiment import Record
from paper.experiments.networks import END_LABEL
from paper.experiments.records import Store

from tests.paper.reports import write_records

pytestmark = pytest.mark.usefixtures("no_fsync")


def records_of(tmp_path: Path, experiment: str) -> list[Record]:
    """Return random results of an experiment."""
    write_records(tmp_path, experiments=[experiment])
    return Store(tmp_path).read()


def plotted(plot: Any, records: list[Record]) -> Figure:
    figure = Figure(layout="constrained")
    plot(figure, records)
    return figure


def lines_of(axes: Any) -> list[tuple[str, Any]]:
    """Return the labels of the lines with error bars, and the lines."""
    return [(bars.get_label(), bars.lines[0]) for bars in axes.containers]


def labels(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_bars_of_digits_are_beside_each_other(tmp_path: Path) -> None:
    figure = plotted(digits_components.plot, records_of(tmp_path, "digits-components"))
    (axes,) = figure.axes
    sizes = [25, 50, 75, 100, 125, 150]
    assert_allclose(axes.get_xticks(), sizes)
    lines = {x: np.asarray(line.get_xdata()) for x, line in lines_of(axes)}
    assert len(lines) == 7
    shifts = [x - sizes for x in lines.values()]
    assert_allclose(np.mean(shifts, axis=0), 0, atol=1e-9)
    assert len({round(float(s[0]), 6) for s in shifts}) == 7
    assert np.abs(shifts).max() < 25 / 3


def test_errors_are_divided_by_those_of_scnn_on_the_same_patches(tmp_path: Path) -> None:
    records = [
        r
        for r in records_of(tmp_path, "missing-pixels")
        if (r["network"], r.run.seed) != ("SCNN, soft threshold", 0)
    ]
    found = missing_pixels.ratios(records)
    assert_allclose(np.array(found.loc["SCNN"].tolist()), 1)
    error = {(r["network"], r.run.seed): r["chosen"][2]["test_rms"] for r in records}
    for x, seeds in (("ASCNN", (0, 1, 2)), ("SCNN, soft threshold", (1, 2))):
        expected = [error[x, k] / error["SCNN", k] for k in seeds]
        assert_allclose(found.loc[x, missing_pixels.LEVELS[2]], expected)
    above, below = plotted(missing_pixels.plot, records).axes
    assert above.get_ylim()[0] == 0
    assert len(above.containers) == len(below.containers) == 5


def test_only_the_errors_are_plotted_without_scnn(tmp_path: Path) -> None:
    records = records_of(tmp_path, "missing-pixels")
    figure = plotted(missing_pixels.plot, [r for r in records if r["network"] == "ASCNN"])
    assert len(figure.axes) == 1


def test_panels_of_figure_4_have_the_same_labels(tmp_path: Path) -> None:
    panels = plotted(sparsity.plot, records_of(tmp_path, "sparsity")).axes
    assert [axes.get_xlabel() for axes in panels[:5]] == ["threshold Th"] * 5
    widths = [style["linewidth"] for style in sparsity.line_styles()]
    assert len(set(widths)) == len(widths)


@pytest.mark.parametrize("at_end", [False, True])
def test_figure_8_has_one_large_marker_for_each_network(tmp_path: Path, at_end: bool) -> None:
    """It is open if the chosen λ of one sample is at the end of its grid."""

    def with_best(record: Record) -> Record:
        lams = record["lams"]
        is_end = at_end and record["network"] == "ASCNN" and record.run.seed == 3
        best = max(lams) if is_end else 0.1
        val = [1.0 if lam == best else 0.5 for lam in lams]
        return replace(record, result={**record.result, "val_accuracy": val})

    records = [with_best(r) for r in records_of(tmp_path, "accuracy-sparsity")]
    figure = plotted(accuracy_sparsity.plot, records)
    above, below = figure.axes
    large = {x: line for x, line in lines_of(above) if len(line.get_xdata()) == 1 and x[0] != "_"}
    assert list(large) == list(accuracy_sparsity.by_variant(records))
    faces = {x: line.get_markerfacecolor() for x, line in large.items()}
    assert [x for x, face in faces.items() if face == "white"] == (["ASCNN"] if at_end else [])
    assert (END_LABEL in labels(figure)) == at_end
    own = accuracy_sparsity.by_variant(records)
    expected = np.mean([r["test_accuracy"][chosen(r)] for r in own["SAANN"]])
    assert_allclose(np.asarray(large["SAANN"].get_ydata(), dtype=float), expected)
    lowest = min(np.mean([r["test_accuracy"] for r in rs], axis=0).min() for rs in own.values())
    assert below.get_ylim()[0] < lowest < above.get_ylim()[0]
