"""Whether Figures 5 and 9 depend on how ASCNN and SAANN are started and trained."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from lincode.exceptions import InvalidInputError
from paper.cache import Record, Run, Scale
from paper.experiments.claims import Rate
from paper.experiments.digits import (
    ALGORITHM_1,
    PAPER_START,
    REPETITIONS,
    VARIANTS,
    N,
    cells,
    chosen_accuracy,
    grid_runs,
    rate,
    short,
    with_all_lams,
)
from paper.experiments.features import decode_wrong, svm_errors
from paper.experiments.networks import NETWORKS, RAW, VARIED, build, parameters_of
from paper.experiments.tables import (
    Table,
    collect,
    mean_and_deviation,
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
COMPARED = ("SCNN", PAPER_START, ALGORITHM_1, RAW)
"""What is trained on the same digits for comparison."""


def runs(scale: Scale, embedded: bool) -> list[Run]:
    """Each start, number of passes and optimiser; and SCNN and raw pixels on the same digits.

    SCNN has both starts too.
    """
    shapes, passes, repetitions = {
        "smoke": (((5, 14), (5, 28)), (2,), 1),
        "paper": (SHAPES, PASSES, REPETITIONS),
    }[scale]
    found = []
    for k, (m, side) in product(range(repetitions), shapes):
        for network, init, n_passes, solver in product(COMPETITORS, STARTS, passes, SOLVERS):
            training = {"init": init, "solver": solver, "passes": n_passes, "n": N[scale]}
            tried = {"lams": LAMS, "rates": RATES[solver], "Cs": CS}
            settings = {"network": network, "m": m, "side": side, **training, **tried}
            found.append(Run(GROUP, scale, k, embedded, settings))
        for network in COMPARED:
            if network != ALGORITHM_1 or (side == 14 and (m < 150 or k < 2)):
                found += grid_runs(scale, k, embedded, network, m, side)
    return found


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
                try:
                    network.fit(data.train)
                    sets = [network.transform(X) for X in (data.train, data.val, data.test)]
                    found = svm_errors(sets, data, settings["Cs"])
                except InvalidInputError:
                    found = {"val_error": 1.0, "test_error": 1.0, "C": 0.0}
                row = {
                    "lam": lam,
                    "learning_rate": rate,
                    "val_accuracy": 1 - found["val_error"],
                    "test_accuracy": 1 - found["test_error"],
                    "C": found["C"],
                    "test_predictions": found.get("test_predictions", ""),
                    "test_wrong": found.get("test_wrong", ""),
                }
                rows.append(row)
    columns: dict[str, Any] = {name: [short(row[name]) for row in rows] for name in rows[0]}
    best = int(np.argmax(columns["val_accuracy"]))
    columns |= {x: columns[x][best] for x in ("test_predictions", "test_wrong")}
    estimator = build_for(run, settings["lams"][0], settings["rates"][0])
    varied = (*VARIED, "learning_rate")
    svm = unfitted_svm(settings["n"][0])
    return columns | {"parameters": parameters_of(estimator, svm, without=varied)}


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


def accuracy(record: Record) -> float:
    """Return the test accuracy of the settings with the best validation accuracy."""
    if record.run.group == GROUP:
        return float(record["test_accuracy"][int(np.argmax(record["val_accuracy"]))])
    found = chosen_accuracy(record)
    assert found is not None
    return found


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


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the table of test accuracies."""
    title = (
        "Test accuracy (%) of ASCNN and SAANN by start, optimiser and passes; learning rate and the"
        " SVM's C chosen on validation digits"
    )
    found = accuracies(with_joined_lams(records))
    cell = partial(mean_and_deviation, form=".1f", unit=100)
    return [table_of("competitors", title, "network", found, cell)]


def by_start(records: Sequence[Record], by: str) -> dict[str, dict[str, dict[Any, list[Record]]]]:
    """Return the records of each network by a setting ("m" or "side"), for each start of SCNN.

    Our starts are those of Figures 5, 8 and 9. From weights in [−1, 1], ASCNN and SAANN are
    trained by Adam for as many passes, and Sparsenet is the same. SCNN is trained by our solver or
    by Algorithm 1, except for 28×28 pixels, which takes hours.
    """
    other, value = ("side", 14) if by == "m" else ("m", 10 if is_smoke(records) else 100)
    own = [r for r in records if r[other] == value]
    found = {OURS: cells([r for r in own if r.run.group != GROUP and r["network"] in VARIANTS], by)}
    joined = with_joined_lams(own)
    for reading, scnn in SCNN_OF.items():
        paper: dict[str, dict[Any, list[Record]]] = {}
        for r in joined:
            trained = r.run.group == GROUP
            if (trained and is_judged(r.run)) or r["network"] in (scnn, "Sparsenet"):
                name = "SCNN" if r["network"] == scnn else r["network"]
                paper.setdefault(name, {}).setdefault(r[by], []).append(r)
        values = set.intersection(*(set(paper.get(x, ())) for x in NETWORKS))
        if len(values) > (by == "side"):
            found[reading] = {x: {v: paper[x][v] for v in sorted(values)} for x in NETWORKS}
    return {reading: own for reading, own in found.items() if own["SCNN"]}


def other_starts(records: Sequence[Record], by: str) -> pd.DataFrame:
    """Return the accuracies of the networks that start as in the paper, by a setting."""
    found = by_start(records, by)
    rows = {f"{x}, weights in [−1, 1]": (PAPER, x) for x in ("SCNN", *COMPETITORS)}
    rows[ALGORITHM_1] = (BY_ALGORITHM_1, "SCNN")
    values = [
        (row, value, accuracy(record))
        for row, (reading, x) in rows.items()
        if reading in found
        for value, own in found[reading][x].items()
        for record in own
    ]
    return collect(values, rows)


def is_smoke(records: Sequence[Record]) -> bool:
    """Return whether the records are those of small runs."""
    return records[0].run.scale == "smoke"


def is_judged(run: Run) -> bool:
    """Return whether the claims of Figures 5 and 9 need the run of a competitor."""
    own = run.settings
    return (own["init"], own["solver"], own["passes"]) == ("paper", "adam", PASSES[-1])


def studied(records: Sequence[Record]) -> list[Record]:
    """Return the records of this study, and those of the same digits and numbers of units."""
    shapes = {(r["m"], r["side"], r.run.seed) for r in records if r.run.group == GROUP}
    return [
        r
        for r in records
        if r.run.group == GROUP
        or ((r["m"], r["side"], r.run.seed) in shapes and r["network"] in COMPARED)
    ]


OURS, PAPER, BY_ALGORITHM_1 = "scaled", "[−1, 1]", "Algorithm 1"
SCNN_OF = {PAPER: PAPER_START, BY_ALGORITHM_1: ALGORITHM_1}
"""What SCNN is if it starts as in the paper."""
CHOICE = "start"


def rate_of(records: Sequence[Record]) -> Rate | None:
    """Return the accuracy of one network, trained here or for the figures."""
    if not records or records[0].run.group != GROUP:
        return rate(records)
    n = int(records[0]["n"][2])
    hits = np.array([~decode_wrong(record["test_wrong"], n) for record in records])
    return Rate([accuracy(record) for record in records], n, hits)
