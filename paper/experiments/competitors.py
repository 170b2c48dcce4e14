"""Whether Figures 5 and 9 depend on how ASCNN and SAANN are started and trained."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from threadpoolctl import threadpool_limits

from lincode.exceptions import InvalidInputError
from paper.cache import Record, Run, Scale
from paper.experiments.claims import (
    INCONCLUSIVE,
    NOT_JUDGED,
    NOT_REPRODUCED,
    REPRODUCED,
    Claim,
    Rate,
)
from paper.experiments.digit_accuracies import (
    chosen_accuracy,
    difference,
    marked,
    rate,
    with_all_lams,
)
from paper.experiments.digit_grid import COMPARABLE, PAPER_START, REPETITIONS, grid_runs, short
from paper.experiments.features import decode_wrong, svm_errors
from paper.experiments.networks import COLOURS, RAW, VARIED, build, network_of, parameters_of
from paper.experiments.tables import (
    Experiment,
    Table,
    at_end,
    collect,
    deviation,
    mean_and_deviation,
    points,
    table_of,
)
from paper.samples import Samples
from paper.svm import unfitted_svm

COMPETITORS = ("ASCNN", "SAANN")
STARTS = ("paper", "scaled")
"""``init`` of the estimators: uniform weights in [−1, 1], or scaled to the layer sizes."""
SOLVERS = {"sgd": "plain gradient", "adam": "Adam"}
PASSES = (2, 10, 50)
RATES = {
    "sgd": [1e-6, 1e-5, 0.0001, 0.001, 0.01, 0.1],
    "adam": [2e-6, 2e-5, 0.0002, 0.002, 0.01, 0.05],
}
"""Learning rates. With the smallest, the weights hardly change."""
LAMS = [0.1]
"""Within the paper's range λ makes little difference."""
CS = [0.1, 1.0, 10.0]
"""With C = 100, the SVM does not converge in minutes on codes of poorly initialised networks."""
SHAPES = ((25, 14), (25, 28), (100, 14), (100, 28), (150, 14))
"""Numbers of units and sides of the digits. Figure 5 has 14×14 pixels, Figure 9 100 units."""
GROUP = "competitors"
COMPARED = ("SCNN", PAPER_START, RAW)
"""What is trained on the same digits for comparison."""


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each start, number of passes and optimiser; and SCNN and raw pixels on the same digits.

    SCNN has both starts too.
    """
    n, shapes, passes, repetitions, n_lams = {
        "smoke": ([100, 100, 100], ((5, 14), (5, 28)), (2,), 1, 1),
        "paper": ([500, 500, 500], SHAPES, PASSES, REPETITIONS, 13),
    }[scale]
    studied = [
        Run(
            GROUP,
            scale,
            seed + k,
            embedded,
            {
                "network": network,
                "m": m,
                "side": side,
                "init": init,
                "solver": solver,
                "passes": n_passes,
                "n": n,
                "lams": LAMS,
                "rates": RATES[solver],
                "Cs": CS,
            },
        )
        for k in range(repetitions)
        for m, side in shapes
        for network in COMPETITORS
        for init in STARTS
        for n_passes in passes
        for solver in SOLVERS
    ]
    compared = [
        run
        for k in range(repetitions)
        for m, side in shapes
        for network in COMPARED
        for run in grid_runs(
            scale,
            seed + k,
            embedded,
            network=network,
            m=m,
            side=side,
            n=n,
            n_lams=n_lams if scale == "paper" else 2,
        )
    ]
    return studied + compared


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Return lists with one entry per λ and learning rate, and the predictions of the chosen one.

    A training that diverges has an accuracy of 0.
    """
    settings = run.settings
    rows: list[dict[str, Any]] = []
    with threadpool_limits(1), warnings.catch_warnings(), np.errstate(all="ignore"):
        # Diverging weights cause warnings.
        warnings.simplefilter("ignore")
        data = samples.digits(tuple(settings["n"]), run.seed, settings["side"])
        for lam in settings["lams"]:
            for rate in settings["rates"]:
                network = build_for(run, lam, rate)
                row: dict[str, Any] = {"lam": lam, "learning_rate": rate}
                try:
                    network.fit(data.train)
                    sets = [network.transform(X) for X in (data.train, data.val, data.test)]
                    found = svm_errors(sets, data, settings["Cs"])
                except InvalidInputError:
                    found = {"val_error": 1.0, "test_error": 1.0, "C": 0.0}
                row |= {
                    "val_accuracy": 1 - found["val_error"],
                    "test_accuracy": 1 - found["test_error"],
                    "C": found["C"],
                    "test_predictions": found.get("test_predictions", ""),
                    "test_wrong": found.get("test_wrong", ""),
                }
                rows.append(row)
    best = int(np.argmax([row["val_accuracy"] for row in rows]))
    predictions = {name: rows[best].pop(name) for name in ("test_predictions", "test_wrong")}
    columns = ("lam", "learning_rate", "val_accuracy", "test_accuracy", "C")
    estimator = build_for(run, settings["lams"][0], settings["rates"][0])
    varied = (*VARIED, "learning_rate")
    return {
        **{name: [short(row[name]) for row in rows] for name in columns},
        **predictions,
        "parameters": parameters_of(estimator, unfitted_svm(settings["n"][0]), without=varied),
    }


def build_for(run: Run, lam: float, rate: float) -> Any:
    """Return the unfitted network of a run."""
    settings = run.settings
    return build(
        settings["network"],
        settings["m"],
        lam,
        run.seed,
        init=settings["init"],
        solver=settings["solver"],
        max_iter=settings["passes"],
        learning_rate=rate,
    )


LINES: dict[str, Any] = {"paper": "-", "scaled": ":"}
MARKERS = {"sgd": "o", "adam": "s"}
LEVELS: tuple[tuple[str, Any], ...] = tuple(zip(COMPARED, ("-", ":", "--"), strict=True))
"""What is shown for comparison, and the styles of the lines."""


def accuracy(record: Record) -> float:
    """Return the test accuracy of the settings with the best validation accuracy."""
    if record.run.group == GROUP:
        return float(record["test_accuracy"][int(np.argmax(record["val_accuracy"]))])
    found = chosen_accuracy(record)
    assert found is not None
    return found


def ends(records: Sequence[Record], name: str, tried: str) -> pd.DataFrame:
    """Return for all repetitions whether a chosen parameter is at the end of the values tried.

    ``name`` is its name in the results and ``tried`` that of its values in the settings.
    """

    def is_end(record: Record) -> bool:
        if record.run.group != GROUP:
            return False
        best = int(np.argmax(record["val_accuracy"]))
        return at_end(record[name][best], record[tried])

    return by_row_and_shape(records, is_end)


def with_joined_lams(records: Sequence[Record]) -> list[Record]:
    """Return the records, those of the figures with the λ of all their runs."""
    studied = [record for record in records if record.run.group == GROUP]
    return studied + with_all_lams([record for record in records if record.run.group != GROUP])


def row_of(record: Record) -> str:
    """Return the name of the row of a record in the table."""
    if record.run.group != GROUP:
        return str(record["network"])
    start = {"paper": "weights in [−1, 1]", "scaled": "scaled weights"}[record["init"]]
    solver = SOLVERS[record["solver"]]
    return f"{record['network']}, {start}, {solver}, {record['passes']} passes"


def shape_of(record: Record) -> str:
    """Return the name of the column of a record."""
    return f"{record['m']:3d} units, {record['side']}×{record['side']}"


def accuracies(records: Sequence[Record]) -> pd.DataFrame:
    """Return the accuracies of all repetitions, by settings and shape."""
    return by_row_and_shape(records, accuracy)


def by_row_and_shape(records: Sequence[Record], value: Callable[[Record], Any]) -> pd.DataFrame:
    """Return a value of all repetitions, by the row and the column of the table."""
    rows = dict.fromkeys(row_of(r) for r in sorted(records, key=order))
    return collect(((row_of(r), shape_of(r), value(r)) for r in records), rows)


def order(record: Record) -> tuple[Any, ...]:
    """Sort SCNN and raw pixels first, then by network, start, optimiser and passes."""
    if record.run.group != GROUP:
        return (0, COMPARED.index(record["network"]))
    names = (record["network"], record["init"], -len(record["solver"]))
    return (1, *names, record["passes"])


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return no claims: the experiment explains those of Figures 5 and 9."""
    return []


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the tables of test accuracies, and of the claims of Figures 5 and 9."""
    title = (
        "Test accuracy (%) of ASCNN and SAANN by start, optimiser and passes; learning rate and the"
        " SVM's C chosen on validation digits"
    )
    records = with_joined_lams(records)
    found = accuracies(records)
    table = table_of(
        "competitors", title, "network", found, lambda v: mean_and_deviation(v, ".1f", 100)
    )
    rows = marked(table.rows, ends(records, "learning_rate", "rates"))
    accuracy_table = replace(table, rows=marked(rows, ends(records, "C", "Cs"), "†"))
    studied = any(record.run.group == GROUP for record in records)
    return [accuracy_table, claim_table(records)] if studied else [accuracy_table]


def claim_table(records: Sequence[Record]) -> Table:
    """Return whether the claims of Figures 5 and 9 hold for each start, optimiser and passes.

    That of Figure 5 is judged for each number of units.
    """
    cells: dict[tuple[str, str], dict[tuple[int, int], list[Record]]] = {}
    compared = [r for r in records if r.run.group == GROUP or r["network"] == "SCNN"]
    for record in sorted(compared, key=order):
        network, _, training = row_of(record).partition(", ")
        shape = (record["m"], record["side"])
        cells.setdefault((training, network), {}).setdefault(shape, []).append(record)
    scnn = cells.get(("", "SCNN"), {})
    trainings = dict.fromkeys(training for training, _ in cells if training)
    units = sorted({m for own in cells.values() for m, side in own if side == 14})
    rows = [
        [
            training,
            *(
                less_accurate(scnn.get((m, 14)), cells.get((training, x), {}).get((m, 14)))
                for m in units
                for x in COMPETITORS
            ),
            *(loses_accuracy(cells.get((training, x), {})) for x in COMPETITORS),
        ]
        for training in trainings
    ]
    title = (
        "Claims of Figures 5 and 9 for each training, judged like all claims. Figure 5: the network"
        f" is more than {points(COMPARABLE)} less accurate than SCNN on 14×14 pixels. Figure 9:"
        f" with 100 units, it loses more than {points(COMPARABLE)} from 14×14 to 28×28 pixels"
    )
    figures = [*(f"Figure 5, {m} units" for m in units), "Figure 9"]
    columns = [f"{figure}: {x}" for figure in figures for x in COMPETITORS]
    return Table("competitors-claims", title, ["training", *columns], rows)


WORDS = {
    REPRODUCED: "holds",
    NOT_REPRODUCED: "does not hold",
    INCONCLUSIVE: INCONCLUSIVE,
    NOT_JUDGED: "",
}
Shapes = Mapping[tuple[int, int], list[Record]]


def less_accurate(scnn: list[Record] | None, own: list[Record] | None) -> str:
    """Return whether a network is less accurate than SCNN with the same number of units."""
    margins = [difference(scnn, own, rate_of) - COMPARABLE] if scnn and own else []
    return WORDS[Claim("", "", "", margins).outcome]


def loses_accuracy(own: Shapes) -> str:
    """Return whether the claim of Figure 9 holds for a network."""
    first, last = own.get((100, 14)), own.get((100, 28))
    margins = [difference(first, last, rate_of) - COMPARABLE] if first and last else []
    return WORDS[Claim("", "", "", margins).outcome]


def rate_of(records: Sequence[Record]) -> Rate | None:
    """Return the accuracy of one network, trained here or for the figures."""
    if not records or records[0].run.group != GROUP:
        return rate(records)
    n = int(records[0]["n"][2])
    hits = np.array([~decode_wrong(record["test_wrong"], n) for record in records])
    return Rate([accuracy(record) for record in records], n, hits)


def plot(figure: Any, records: Sequence[Record]) -> None:
    """Plot the accuracy against the passes, one panel per network and shape."""
    records = with_joined_lams(records)
    shapes = sorted({(r["m"], r["side"]) for r in records})
    figure.set_size_inches(2.3 * len(shapes) + 0.8, 5.2)
    panels = figure.subplots(len(COMPETITORS), len(shapes), sharex=True, sharey=True, squeeze=False)
    for axes_row, network in zip(panels, COMPETITORS, strict=True):
        for axes, shape in zip(axes_row, shapes, strict=True):
            own = [r for r in records if (r["m"], r["side"]) == shape]
            plot_panel(axes, own, network)
            axes.set_title(f"{network}, {shape[0]} units, {shape[1]}×{shape[1]}", fontsize=9)
            axes.set_xscale("log")
            axes.set_xticks(PASSES, [str(p) for p in PASSES])
            axes.minorticks_off()
    for axes in panels[-1]:
        axes.set_xlabel("passes")
    for axes in panels[:, 0]:
        axes.set_ylabel("test accuracy")
    figure.legend(handles=legend_handles(), loc="outside lower center", ncols=3)


def legend_handles() -> list[Line2D]:
    """Return the entries of the legend. Lines of both networks are grey."""
    levels = [
        Line2D([], [], color=COLOURS[network_of(x)], linestyle=style, label=x)
        for x, style in LEVELS
    ]
    lines = [
        Line2D(
            [],
            [],
            color="#555555",
            linestyle=LINES[init],
            marker=MARKERS[solver],
            label=f"{'weights in [−1, 1]' if init == 'paper' else 'scaled weights'}, {name}",
        )
        for init in STARTS
        for solver, name in SOLVERS.items()
    ]
    return [*levels, *lines]


def plot_panel(axes: Any, records: Sequence[Record], network: str) -> None:
    """Plot one line per start and optimiser, and the accuracy of SCNN and of raw pixels."""
    for init in STARTS:
        for solver in SOLVERS:
            found: dict[int, list[float]] = {}
            for r in records:
                s = r.run.settings
                if (s["network"], s.get("init"), s.get("solver")) == (network, init, solver):
                    found.setdefault(s["passes"], []).append(accuracy(r))
            if found:
                passes = sorted(found)
                axes.errorbar(
                    passes,
                    [np.mean(found[p]) for p in passes],
                    [deviation(found[p]) for p in passes],
                    color=COLOURS[network],
                    linestyle=LINES[init],
                    marker=MARKERS[solver],
                    capsize=2,
                )
    for name, style in LEVELS:
        level = [accuracy(r) for r in records if r["network"] == name]
        if level:
            axes.axhline(np.mean(level), color=COLOURS[network_of(name)], linestyle=style)


EXPERIMENT = Experiment(
    "competitors",
    "Competitors: start, optimiser and passes of ASCNN and SAANN",
    "mnist",
    (
        "ASCNN and SAANN are trained on the digits of Figures 5 and 9 from uniform weights in"
        " [−1, 1], as in the paper, and from weights scaled to the layer sizes (the default of"
        " lincode), by plain gradient steps and by Adam, with 2, 10 and 50 passes.",
        f"λ is {LAMS[0]}. The learning rate (six values) and the SVM's C (three) are chosen on"
        " validation digits. A * marks results for which the rate of at least one sample is the"
        " smallest or the largest that was tried, and a † those for which C is. With the smallest"
        " rates the weights hardly change. A larger C was not tried, because the SVM then does not"
        " converge in minutes on some codes.",
        "With λ = 1 and 10 (100 units, one sample), the start makes a similar difference.",
        "Mean and standard deviation over three random samples of digits. SCNN and raw pixels on"
        " the same samples are shown for comparison.",
    ),
    runs,
    claims,
    tables,
    {"competitors": plot},
    {
        "competitors": "Test accuracy by number of passes, mean and standard deviation over the"
        " samples of digits."
    },
    (
        "This experiment is not in the paper. The paper chooses all initial weights in [−1, 1] and"
        " trains by mini-batch gradient descent for a number of passes that it does not give.",
    ),
    has_claims=False,
)
